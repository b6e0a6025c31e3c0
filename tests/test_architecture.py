"""The rules of the design that a reader of one file cannot see: layers, doors, forbidden words, sizes, layout."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.sizes import PACKAGES, ROOT, functions, line_count, source_files

FILES = source_files(*PACKAGES)

# What only one file may touch: everybody else goes through it.
DOORS = {
    "zmq": "actorlearn/wire/channel.py",
    "ale_py": "actorlearn/envs/atari.py",
    "mmap": "actorlearn/memory/shared.py",
    "posix_fallocate": "actorlearn/memory/shared.py",
}
# Anything that can run code found in data. multiprocessing pickles whatever it passes on.
BANNED_IMPORTS = {"pickle", "cloudpickle", "dill", "marshal", "shelve", "joblib", "multiprocessing"}
BANNED_CALLS = {"eval", "exec", "compile", "__import__"}
BANNED_ATTRIBUTES = {"recv_pyobj", "send_pyobj", "read_pickle", "to_pickle", "fromfile", "unsafe_load", "full_load"}
BANNED_FUNCTIONS = {
    *("yaml.load", "torch.load", "torch.save", "os.system", "os.popen"),
    *("subprocess.getoutput", "subprocess.getstatusoutput", "numpy.loadtxt", "np.loadtxt"),
}
# Programs for the peers' own virtual environments: never imported here, so our doors are not theirs.
PEER_SCRIPTS = ROOT / "launch" / "bench" / "peers" / "scripts"
# A module named after nothing collects everything.
BANNED_NAMES = re.compile(r"(^|_)(utils?|commons?|misc|helpers?|managers?)($|_)")

FIVE_FILES = [
    "actorlearn/processes/simulator.py",
    "actorlearn/processes/inference.py",
    "actorlearn/processes/batches.py",
    "actorlearn/processes/trainer.py",
    "actorlearn/parameters/published.py",
]
FILE_LINES = 500
FUNCTION_LINES = 55

REQUIRED = {"actorlearn", "launch", "configs", "tests", "setup.cfg", "pyproject.toml", "README.md"}
ALLOWED = REQUIRED | {"Makefile", "LICENSE", "CHANGELOG.md", "SECURITY.md", "docs", "constraints.txt"}


def name_of(file: Path) -> str:
    return file.relative_to(ROOT).as_posix()


def imported(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and full name of everything imported, at the top of a file or inside a function."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)


def door_breaches(source: str, file: str) -> list[str]:
    """Uses of what lies behind a door in a file that is not that door."""
    tree = ast.parse(source)
    used = [(line, part) for line, name in imported(tree) for part in (name.split(".")[0], name.split(".")[-1])]
    used += [(node.lineno, node.attr) for node in ast.walk(tree) if isinstance(node, ast.Attribute)]
    return sorted(
        {
            f"{file}:{line}: {name}, which only {DOORS[name]} may use"
            for line, name in used
            if name in DOORS and DOORS[name] != file
        }
    )


def banned_uses(source: str, file: str) -> list[str]:
    """Imports, calls and arguments that could run code found in data."""
    tree = ast.parse(source)
    found = [
        (line, name)
        for line, name in imported(tree)
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


def modules_after(statement: str) -> set[str]:
    """What a fresh interpreter has loaded after one statement."""
    program = f"{statement}\nimport sys; print(*sys.modules, sep='\\n')"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{statement!r} failed:\n{done.stderr}"
    return set(done.stdout.split())


def test_layers_follow_the_contract() -> None:
    lint = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run([lint, "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_only_doors_touch_the_outside() -> None:
    ours = [file for file in FILES if PEER_SCRIPTS not in file.parents]
    breaches = [breach for file in ours for breach in door_breaches(file.read_text(), name_of(file))]
    assert not breaches, "\n".join(breaches)


def test_nothing_runs_code_found_in_data() -> None:
    uses = [use for file in FILES for use in banned_uses(file.read_text(), name_of(file))]
    assert not uses, "\n".join(uses)


@pytest.mark.parametrize(
    "source",
    [
        "import pickle",
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
    assert banned_uses(source, "x.py")


@pytest.mark.parametrize(
    "source", ["model.eval()", "yaml.safe_load(f)", "numpy.load(f, allow_pickle=False)", "msgspec.json"]
)
def test_the_search_for_banned_uses_lets_the_rest_pass(source: str) -> None:
    assert not banned_uses(source, "x.py")


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
    assert door_breaches(source, "launch/x.py")


def test_simulators_never_load_torch() -> None:
    loaded = modules_after("import actorlearn.processes.simulator")
    assert "numpy" in loaded
    assert "torch" not in loaded


def test_the_command_line_never_loads_torch() -> None:
    assert "torch" not in modules_after("import launch.cli")


def test_no_module_is_named_after_nothing() -> None:
    names = [
        name_of(file)
        for file in source_files(*PACKAGES, "tests")
        if any(BANNED_NAMES.search(part) for part in file.relative_to(ROOT).with_suffix("").parts)
    ]
    assert not names, f"{names}: name a module after what it is or does"


def test_the_path_of_an_observation_is_five_files() -> None:
    for number, name in enumerate(FIVE_FILES, start=1):
        docstring = ast.get_docstring(ast.parse((ROOT / name).read_text())) or ""
        assert docstring.startswith(f"Stage {number} of 5"), f"{name} should open with 'Stage {number} of 5'"
        for word in ("Reads", "Writes", "Next"):
            assert word in docstring, f"the docstring of {name} should say what the stage {word.lower()}: '{word} …'"


def test_files_and_functions_stay_short() -> None:
    long = [f"{name_of(file)}: {line_count(file)} lines" for file in FILES if line_count(file) > FILE_LINES]
    long += [
        f"{name_of(file)}: {function.name} takes {function.lines} lines"
        for file in FILES
        for function in functions(file)
        if function.lines > FUNCTION_LINES
    ]
    assert not long, "\n".join(long)


def test_every_module_says_what_it_is() -> None:
    silent = [
        name_of(file) for file in FILES if file.stat().st_size and not ast.get_docstring(ast.parse(file.read_text()))
    ]
    assert not silent, f"{silent}: no module docstring"


def test_the_top_level_is_fixed() -> None:
    missing = sorted(name for name in REQUIRED if not (ROOT / name).exists())
    assert not missing, f"{missing} should be at the top level"
    # Only what git tracks: a picture that somebody plotted here is their business.
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False).stdout.split(
        "\n"
    )
    tops = {path.split("/")[0] for path in listed if path}
    strays = sorted(name for name in tops - ALLOWED if not name.startswith("."))
    assert not strays, f"{strays} should not be at the top level; it holds {sorted(ALLOWED)}"


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
