"""The rules of the design that a reader of one file cannot see: doors, forbidden calls, dependencies, tests.

Which package imports which is a contract in setup.cfg, which `make lint` checks.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.coverage_by import COVERED_BY
from tests.loaded import modules_after
from tests.sizes import PACKAGES, ROOT, parsed, source_files

BENCHMARKS = ROOT / "benchmarks"
# Programs for the peers' own virtual environments: never imported here, so our doors are not theirs.
PEER_SCRIPTS = BENCHMARKS / "peers" / "scripts"
OURS = [file for file in source_files("benchmarks") if not {BENCHMARKS / "tests", PEER_SCRIPTS} & {*file.parents}]
FILES = [*source_files(*PACKAGES), *OURS]
TESTS = ("tests", "benchmarks/tests")

# What only one file may touch: everybody else goes through it.
DOORS = {
    "zmq": "actorlearn/wire/channel.py",
    "ale_py": "actorlearn/envs/atari.py",
    "mmap": "actorlearn/memory/shared.py",
    "posix_fallocate": "actorlearn/memory/shared.py",
}
# Anything that can run code found in data. multiprocessing pickles whatever it passes on.
BANNED_IMPORTS = {"pickle", "cloudpickle", "dill", "marshal", "shelve", "joblib", "multiprocessing"}
ALLOWED_IMPORTS = {("actorlearn/envs/pickled.py", "cloudpickle"), ("actorlearn/acting/play.py", "cloudpickle")}
"""An environment that a program defines is code: its file is read in one module, and by the player of an export, which
is without actorlearn. Both compare its SHA-256."""
BANNED_CALLS = {"eval", "exec", "compile", "__import__"}
BANNED_ATTRIBUTES = {"recv_pyobj", "send_pyobj", "read_pickle", "to_pickle", "fromfile", "unsafe_load", "full_load"}
BANNED_FUNCTIONS = {
    *("yaml.load", "torch.load", "torch.save", "os.system", "os.popen"),
    *("subprocess.getoutput", "subprocess.getstatusoutput", "numpy.loadtxt", "np.loadtxt"),
}
NAMED_TUPLES = {"_fields", "_replace", "_asdict"}
"""Private by their looks alone."""


def name_of(file: Path) -> str:
    return file.relative_to(ROOT).as_posix()


def imported(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and full name of everything imported, at the top of a file or inside a function."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)


def door_breaches(tree: ast.AST, file: str) -> list[str]:
    """Uses of what lies behind a door in a file that is not that door."""
    used = [(line, part) for line, name in imported(tree) for part in (name.split(".")[0], name.split(".")[-1])]
    used += [(node.lineno, node.attr) for node in ast.walk(tree) if isinstance(node, ast.Attribute)]
    return sorted(
        {
            f"{file}:{line}: {name}, which only {DOORS[name]} may use"
            for line, name in used
            if name in DOORS and DOORS[name] != file
        }
    )


def banned_uses(tree: ast.AST, file: str) -> list[str]:
    """Imports, calls and arguments that could run code found in data."""
    found = [
        (line, name)
        for line, name in imported(tree)
        if (file, name) not in ALLOWED_IMPORTS
        if name.split(".")[0] in BANNED_IMPORTS or name in BANNED_FUNCTIONS or name.split(".")[-1] in BANNED_ATTRIBUTES
    ]
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            if isinstance(node.func, ast.Name) and node.func.id in BANNED_CALLS:
                found.append((node.lineno, f"{node.func.id}()"))
            if ast.unparse(node.func) in ("np.load", "numpy.load") and "allow_pickle" not in {
                keyword.arg for keyword in node.keywords
            }:
                found.append((node.lineno, "np.load without allow_pickle=False"))
            for keyword in node.keywords:
                if keyword.arg == "shell" and not (
                    isinstance(keyword.value, ast.Constant) and keyword.value.value is False
                ):
                    found.append((node.lineno, "shell"))
                allowed = isinstance(keyword.value, ast.Constant) and keyword.value.value is False
                if keyword.arg == "allow_pickle" and not allowed:
                    found.append((node.lineno, "allow_pickle"))
        elif isinstance(node, ast.Attribute):
            dotted = f"{node.value.id}.{node.attr}" if isinstance(node.value, ast.Name) else node.attr
            if dotted in BANNED_FUNCTIONS or node.attr in BANNED_ATTRIBUTES:
                found.append((node.lineno, dotted))
    return [f"{file}:{line}: {name}" for line, name in sorted(found)]


def test_only_doors_touch_the_outside() -> None:
    breaches = [breach for file in FILES for breach in door_breaches(parsed(file), name_of(file))]
    assert not breaches, "\n".join(breaches)


def test_nothing_runs_code_found_in_data() -> None:
    uses = [use for file in FILES for use in banned_uses(parsed(file), name_of(file))]
    assert not uses, "\n".join(uses)


@pytest.mark.parametrize(
    "source",
    [
        "import pickle",
        "import cloudpickle",
        "from multiprocessing import shared_memory",
        "def f():\n    import dill",
        "eval('1')",
        "numpy.load(f, allow_pickle=True)",
        "numpy.load(f, allow_pickle=flag)",
        "yaml.load(f)",
        "from yaml import load",
        "torch.load(f)",
        "socket.recv_pyobj()",
        "np.load(f)",
        "subprocess.run('ls', shell=True)",
        "subprocess.Popen('ls', shell=flag)",
        "os.system('ls')",
        "compile('1', 'x', 'eval')",
        "__import__(name)",
    ],
)
def test_the_search_for_banned_uses_finds_them(source: str) -> None:
    assert banned_uses(ast.parse(source), "x.py")


@pytest.mark.parametrize(
    "source", ["model.eval()", "yaml.safe_load(f)", "numpy.load(f, allow_pickle=False)", "msgspec.json"]
)
def test_the_search_for_banned_uses_lets_the_rest_pass(source: str) -> None:
    assert not banned_uses(ast.parse(source), "x.py")


@pytest.mark.parametrize(
    "source",
    [
        "import zmq",
        "from zmq.auth import load_certificate",
        "import mmap",
        "os.posix_fallocate(1, 0, 1)",
        "import ale_py.roms",
    ],
)
def test_the_search_for_open_doors_finds_them(source: str) -> None:
    assert door_breaches(ast.parse(source), "launch/x.py")


def test_simulators_never_load_torch() -> None:
    loaded = modules_after("import actorlearn.processes.simulator")
    assert "numpy" in loaded
    assert "torch" not in loaded


def test_the_command_line_never_loads_torch() -> None:
    """Neither what it imports at once, nor any of its modules: each command imports its own when it is called."""
    program = "import launch.cli; from tests.loaded import import_all; import_all('launch')"
    loaded = modules_after(program)
    assert {"launch.commands.run", "launch.runtime.loop", "launch.plan.plan"} <= loaded
    assert "torch" not in loaded


def test_constraints_pin_every_direct_dependency_and_no_accelerator() -> None:
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *project["optional-dependencies"]["dev"]]
    pinned = {
        line.split("==")[0].lower() for line in (ROOT / "constraints.txt").read_text().splitlines() if "==" in line
    }
    missing = sorted(name for line in wanted if (name := re.split(r"[<>=\[]", line)[0].lower()) not in pinned)
    assert not missing, f"{missing}: add exact versions to constraints.txt"
    assert not [name for name in pinned if name.startswith(("nvidia", "cuda", "triton"))]


def test_the_extra_of_dm_control_names_what_shimmy_imports() -> None:
    """Shimmy imports gymnasium's rendering of mujoco, which imports imageio; shimmy does not name imageio itself."""
    import tomllib

    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    imageio = [line for line in extras["mujoco"] if line.startswith("imageio")]
    assert imageio and set(imageio) <= set(extras["dm-control"])


# Tests ----------------------------------------------------------------------------------------------------------------


def mirrored(module: str) -> str:
    """The file in which the tests of a module stand."""
    path = Path(module.removeprefix("actorlearn/"))
    tests = "tests"
    if path.parts[0] == "benchmarks":
        path, tests = path.relative_to("benchmarks"), "benchmarks/tests"
    return f"{tests}/{(path.parent / f'test_{path.name}').as_posix()}"


def covering(module: str) -> str | None:
    """The test file that stands for a module, by its place or by the table."""
    if (ROOT / mirrored(module)).exists():
        return mirrored(module)
    return COVERED_BY.get(module) or COVERED_BY.get(f"{module.rpartition('/')[0]}/")


def test_every_module_has_tests_or_is_said_to_be_covered_by_which() -> None:
    modules = [name for name in map(name_of, FILES) if not name.endswith("__init__.py")]
    bare = [f"{name}: no {mirrored(name)}, and not in tests/coverage_by.py" for name in modules if not covering(name)]
    assert not bare, "\n".join(bare)


def test_the_table_of_what_is_covered_by_which_names_what_there_is() -> None:
    gone = [name for pair in COVERED_BY.items() for name in pair if not (ROOT / name).exists()]
    assert not gone, f"{gone}: not there any more"
    beside = [name for name in COVERED_BY if not name.endswith("/") and (ROOT / mirrored(name)).exists()]
    assert not beside, f"{beside}: the tests stand beside them now; take them from tests/coverage_by.py"


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name != "_"


@cache
def our_private_names() -> frozenset[str]:
    """Private names of functions, classes, values and attributes of the two packages."""
    found = set()
    for node in (node for file in FILES for node in ast.walk(parsed(file))):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
            found.add(node.id if isinstance(node, ast.Name) else node.attr)
    return frozenset(name for name in found if is_private(name) and name not in NAMED_TUPLES)


def reaches_inside(tree: ast.AST) -> list[str]:
    """Private names of ours that a test reads, sets or replaces in something that is not itself."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in our_private_names():
            if not (isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")):
                found.append(f"{node.lineno}: {ast.unparse(node)}")
        elif isinstance(node, ast.Call):
            words = [a.value for a in node.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
            ours = [word for word in words if word.rpartition(".")[2] in our_private_names() and " " not in word]
            found += [f"{node.lineno}: {word}" for word in ours]
        elif (
            isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] in (*PACKAGES, "benchmarks")
        ):
            found += [f"{node.lineno}: {node.module}.{a.name}" for a in node.names if is_private(a.name)]
    return found


def test_no_test_reaches_into_what_is_private() -> None:
    """What is worth a test has a public door, and what has none is tested through what it is for."""
    inside = [f"{name_of(file)}:{use}" for file in source_files(*TESTS) for use in reaches_inside(parsed(file))]
    assert not inside, "\n".join(inside)


@pytest.mark.parametrize(
    "source",
    [
        "replay._cupboard",
        "x.y._cupboard = 1",
        "monkeypatch.setattr(x, '_cupboard', 1)",
        "from launch.cli import _cupboard",
    ],
)
def test_the_search_for_private_names_finds_them(source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.test_architecture.our_private_names", lambda: {"_cupboard"})
    assert reaches_inside(ast.parse(source))
    assert not reaches_inside(ast.parse(source.replace("_cupboard", "cupboard")))


def test_no_test_imports_another_test() -> None:
    found = [
        f"{name_of(file)}:{line}: {name}"
        for file in source_files(*TESTS)
        for line, name in imported(parsed(file))
        if name.startswith(("tests.", "benchmarks.tests."))
        and any(part.startswith("test_") for part in name.split(".")[1:-1])
    ]
    assert not found, "\n".join([*found, "put what tests share into a module of its own"])
