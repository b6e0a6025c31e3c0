"""Files that a reader opens and an extension touches, by the source: ``python -m tests.closure [CHECKOUT]``.

* The path of one observation of A2C on Atari: the five stages, what their topology names, and all that these import,
  less what ``LEFT_OUT`` lists with its reason. Imports for type checkers alone do not count.
* Comparisons of modes and roles, and names of processes that are taken apart.
* Files that tell of one algorithm, one kind of environment, one role, besides those that are it.

``--hops`` also runs Catch for some seconds and counts the calls from file to file of an update in its trainer.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.sizes import PACKAGES, ROOT

ROOTS = (
    # The five stages, in order.
    "actorlearn/processes/simulator.py",
    "actorlearn/processes/inference.py",
    "actorlearn/processes/batches.py",
    "actorlearn/processes/trainer.py",
    "actorlearn/parameters/published.py",
    # What the topology names.
    "actorlearn/envs/atari.py",
    "actorlearn/algorithms/a2c.py",
    "actorlearn/parameters/alone.py",
    "actorlearn/optim/rmsprop.py",
    "actorlearn/models/encoders.py",
)
LEFT_OUT = {
    "says in its name what it does": r"failpoints|files|nearest|registry|actions|address|metric",
    "memory and sockets, read and written as their interfaces say": r"memory/(?!rollout|account).*|wire/.*",
    "measured or scheduled: what is learned is the same without it": r"metrics/.*|worker/(settings|scheduling)",
    "environments besides Atari, and how one is looked up": r"envs/(?!atari|interface).*",
    "networks besides those of Atari, with memory, noise or statistics, or several; graphs of a GPU": (
        r"models/(?!interface|make|encoders|heads).*|extra_networks"
    ),
    "other optimizers, or several, and how one is looked up": r"optim/(?!interface|rmsprop|schedules).*",
    "other algorithms, and how one is looked up": r"algorithms/(?!interface|a2c|actor_critic|policies|returns).*",
    "learning from a replay, or beside another learner": r"replay/.*|learning/(replay|secondary|target)",
    "off unless a key asks for it": r"learning/(norms|reward_scale)",
    "checkpoints, and exchanges of several learners": r"parameters/(?!interface|published|alone|consumed).*",
    "says once, at the start, what a process is": r"worker/(handshake|roles)",
    "saving and resuming: run where a checkpoint is due": r"processes/(checkpoints|snapshots|simulator_snapshots)",
}
"""Why a reader of the path need not open a file -> its path below ``actorlearn``, without .py.

All that runs for each rollout or decides what it gives is taken in, but the calls to memory, sockets and metrics.
"""

STAGE_4 = re.compile(r"actorlearn/(processes|learning|worker|parameters)/")
RARELY = 0.1
"""Calls of an update, below which they belong to the beginning, a report or the end."""
ROLES = ("simulator", "inference", "trainer", "evaluator")
TAKEN_APART = ("partition", "rpartition", "split", "rsplit")


# The path -----------------------------------------------------------------------------------------------------------


def imported(file: Path, root: Path) -> Iterator[Path]:
    """Files of the project that a file imports, at its top or inside a function, but not for type checkers alone."""
    pending: list[ast.AST] = [ast.parse(file.read_text(encoding="utf-8"))]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            pending += node.orelse
            continue
        pending += ast.iter_child_nodes(node)
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        for name in names:
            found = root.joinpath(*name.split(".")).with_suffix(".py")
            if name.startswith(PACKAGES) and found.is_file():
                yield found


def left_out(file: Path, root: Path) -> bool:
    """Whether a reader of the path need not open a file."""
    name = file.relative_to(root).with_suffix("").as_posix().removeprefix("actorlearn/")
    return any(re.fullmatch(pattern, name) for pattern in LEFT_OUT.values())


def path_of_an_observation(root: Path = ROOT) -> list[Path]:
    """The files that a reader opens to follow an observation of A2C on Atari, to the gradient and back to an action."""
    pending = [root / name for name in ROOTS]
    found: list[Path] = []
    while pending:
        file = pending.pop(0)
        if file not in found:
            found.append(file)
            pending += sorted(other for other in imported(file, root) if not left_out(other, root))
    return found


# What is compared and taken apart -----------------------------------------------------------------------------------


def sources(root: Path, *folders: str) -> list[tuple[str, ast.Module]]:
    """Path and tree of every file, but for the programs that peers run in environments of their own."""
    files = sorted(file for folder in folders for file in (root / folder).rglob("*.py"))
    named = [(file.relative_to(root).as_posix(), file) for file in files]
    return [(name, ast.parse(file.read_text(encoding="utf-8"))) for name, file in named if "scripts" not in name]


def _last_word(node: ast.expr) -> str:
    """The name that an expression ends with: ``mode`` of ``mode``, ``t.mode``, ``t["mode"]`` and ``t.get("mode")``."""
    match node:
        case ast.Name(id=word) | ast.Attribute(attr=word) | ast.Subscript(slice=ast.Constant(value=str(word))):
            return word
        case ast.Call(func=ast.Attribute(attr="get"), args=[ast.Constant(value=str(word)), *_]):
            return word
        case ast.Subscript(value=inner):
            return _last_word(inner)
    return ""


def comparisons(word: str, root: Path = ROOT) -> list[str]:
    """Places where something of this name is compared, or matched, with anything."""
    found = []
    for name, tree in sources(root, *PACKAGES):
        for node in ast.walk(tree):
            compared: Sequence[ast.expr] = ()
            if isinstance(node, ast.Compare):
                compared = [node.left, *node.comparators]
            elif isinstance(node, ast.Match):
                compared = [node.subject]
            if any(_last_word(side) == word for side in compared):
                found.append(f"{name}:{node.lineno}")
    return found


def names_taken_apart(root: Path = ROOT) -> list[str]:
    """Places where the name of a process, or of a member of a run, is read as more than a name."""
    found = []
    for name, tree in sources(root, *PACKAGES):
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or not node.args:
                continue
            method, receiver = node.func.attr, ast.unparse(node.func.value)
            argument = node.args[0].value if isinstance(node.args[0], ast.Constant) else None
            split = method in TAKEN_APART and argument in ("-", ".") and re.search(r"\b(name|peers?|who)\b", receiver)
            begins = method in ("startswith", "removeprefix", "removesuffix")
            role = begins and re.fullmatch(rf"({'|'.join(ROLES)}|learner)-?", str(argument))
            if (split and not re.search(r"envs/|imports|memory/", name)) or role:
                found.append(f"{name}:{node.lineno}")
    return found


def told_of(words: Sequence[str], root: Path = ROOT) -> list[str]:
    """Files whose code, docstrings aside, has one of these words in a name or a text, besides those named after it."""
    wanted, found = {word.lower() for word in words}, []
    for name, tree in sources(root, *PACKAGES):
        docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        texts: list[str] = []
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
                texts.append(node.value)
            names = (getattr(node, field, None) for field in ("id", "attr", "arg", "name"))
            texts += [re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name) for name in names if isinstance(name, str)]
        said = {word for text in texts for word in re.findall(r"[a-z0-9]+", text.lower())}
        if wanted & said and not wanted & set(Path(name).stem.split("_")) and "/bench/" not in name:
            found.append(name)
    return found


# Calls from file to file -------------------------------------------------------------------------------------------

TRACER = """
import os, sys
if "fork_server" in getattr(sys, "orig_argv", ()):
    os._exit(1)  # without it, the trainer is started as a program of its own, whose arguments are seen below
if "trainer" in getattr(sys, "orig_argv", ()):
    import atexit, collections, json, threading
    root = os.environ["CLOSURE_ROOT"] + "/"
    calls, bounces, of = collections.Counter(), collections.Counter(), {}
    def name(frame):
        file = frame.f_code.co_filename
        if file not in of:
            of[file] = file.removeprefix(root) if file.startswith(root + "actorlearn/") else ""
        return of[file]
    def look(frame, event, _):
        if event != "call" or not (callee := name(frame)) or frame.f_code.co_name == "<module>":
            return
        calls["updates"] += callee.endswith("parameters/published.py") and frame.f_code.co_name == "publish"
        back = frame.f_back
        while back is not None and not name(back):
            back = back.f_back
        if back is None or name(back) == callee:
            return
        calls[name(back), callee] += 1
        while back is not None:
            if name(back) == callee:
                bounces[callee] += 1
                return
            back = back.f_back
    def tell():
        sys.setprofile(None)
        told = {" -> ".join(k) if isinstance(k, tuple) else k: n for k, n in calls.items()}
        with open(os.environ["CLOSURE_OUT"], "w") as file:
            json.dump({"calls": told, "bounces": dict(bounces)}, file)
    atexit.register(tell)
    sys.setprofile(look)
"""


def hops(root: Path = ROOT) -> tuple[dict[str, float], dict[str, float]]:
    """Calls from file to file in the trainer, and calls back into a file that is waiting for one; both per update."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "sitecustomize.py").write_text(TRACER)
        out = Path(folder) / "hops.json"
        told = {"CLOSURE_ROOT": str(root), "CLOSURE_OUT": str(out), "PYTHONPATH": f"{folder}:{root}"}
        command = [sys.executable, "-m", "launch", "run", str(root / "configs" / "catch.yaml")]
        keys = ["total_steps=40000", "--run-dir", f"{folder}/run"]
        subprocess.run([*command, *keys], env={**os.environ, **told}, cwd=folder, check=True, stdout=subprocess.DEVNULL)
        traced = json.loads(out.read_text())
    updates = traced["calls"].pop("updates")
    often = {pair: n / updates for pair, n in traced["calls"].items() if n / updates > RARELY}
    stage_4 = {pair: n for pair, n in often.items() if all(map(STAGE_4.match, pair.split(" -> ")))}
    bounces = {file: n / updates for file, n in traced["bounces"].items() if STAGE_4.match(file)}
    return stage_4, {file: n for file, n in bounces.items() if n > RARELY}


def main() -> None:
    """Print the report."""
    parser = argparse.ArgumentParser(prog="python -m tests.closure", description=__doc__.partition("\n")[0])
    parser.add_argument("checkout", nargs="?", type=Path, default=ROOT, help="another checkout to count")
    parser.add_argument("--hops", action="store_true", help="also run Catch and count calls from file to file")
    arguments = parser.parse_args()
    root: Path = arguments.checkout.resolve()
    path = path_of_an_observation(root)
    lines = {file: len(file.read_text(encoding="utf-8").splitlines()) for file in path}
    print(f"path of one observation, A2C on Atari: {len(path)} files, {sum(lines.values()):,} lines")
    for file, count in lines.items():
        print(f"  {count:5d}  {file.relative_to(root)}")
    for word in ("mode", "role"):
        found = comparisons(word, root)
        print(f"comparisons of {word}: {len(found)} in {len({at.partition(':')[0] for at in found})} files")
        print("".join(f"  {at}\n" for at in found), end="")
    found = names_taken_apart(root)
    print(f"names taken apart: {len(found)}")
    print("".join(f"  {at}\n" for at in found), end="")
    for what, words in {
        "an algorithm (ppo)": ("ppo",),
        "an algorithm from replay (c51)": ("c51",),
        "a kind of environment (atari)": ("atari",),
        "a role (evaluator)": ("evaluator",),
        "a mode (gossip)": ("gossip",),
    }.items():
        found = told_of(words, root)
        print(f"files that tell of {what}: {len(found)}")
        print("".join(f"  {name}\n" for name in found), end="")
    for folder in (*PACKAGES, "tests"):
        counted = [file.read_text(encoding="utf-8").count("\n") for file in (root / folder).rglob("*.py")]
        print(f"{folder}/: {len(counted)} files, {sum(counted):,} lines")
    if arguments.hops:
        calls, bounces = hops(root)
        print(f"stage 4, calls from file to file per update: {sum(calls.values()):.1f} over {len(calls)} pairs")
        for pair, count in sorted(calls.items(), key=lambda item: -item[1]):
            print(f"  {count:7.2f}  {pair}")
        print(f"calls back into a file that waits for one, per update: {sum(bounces.values()):.1f}")
        for name, count in sorted(bounces.items(), key=lambda item: -item[1]):
            print(f"  {count:7.2f}  {name}")


if __name__ == "__main__":
    main()
