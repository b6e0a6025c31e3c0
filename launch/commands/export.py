"""``actorlearn export``: writes the policy of a run to a new folder that can be used without actorlearn.

A separate process writes the weights (``actorlearn/tasks/export.py``). This process writes the card, a README.md that
describes the policy (``launch/display/card.py``). The folder appears only when it is complete.
"""

from __future__ import annotations

import json as json_format
import tempfile
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec

from actorlearn.parameters.checkpoint_folders import learner_of, short
from actorlearn.parameters.chosen_checkpoints import NEWEST
from actorlearn.worker.settings import ExportSettings
from launch.commands import evaluate
from launch.display.card import card
from launch.errors import FailedError, RunError
from launch.plan.roles import own_weights
from launch.runs import find
from launch.runs.find import TOPOLOGY_FILE, RunFolder
from launch.runs.lives import lives_of
from launch.runs.view import identify
from launch.spawning.answers import NoAnswerError, ask_task
from launch.topology.load import as_text, dump, load, parse

CARD = "README.md"
_NEEDED = ("onnx", "onnxscript", "onnxruntime")
"""Packages of the extra ``onnx``."""


def export(
    word: str,
    output: Path,
    episodes: int | None,
    learner: int | None,
    weights_only: bool,
    json: bool,
    at: str | int = NEWEST,
) -> int:
    """Export a policy, and print the files of its folder; return the exit status.

    ``word``: names the run. ``at``: the checkpoint: "newest", "best" or its environment steps. ``episodes``: number of
    games for the score on the card; None: ``evaluator.episodes``. ``learner``: its number, if learners have different
    weights; None: the first that has the checkpoint, and has not left the run.
    """
    run = find.find(word)
    told, scored, files = write(run, output, episodes, learner, weights_only, at)
    if json:
        print(json_format.dumps({"run": run.name, "folder": str(output), **told, "score": scored}))
        return 0
    exported = Path(told["checkpoint"])
    if learner is None and learner_of(exported.parent) and own_weights(load(run.path / TOPOLOGY_FILE)):
        print(
            f"the weights are those of {short(exported)}: the first learner has left the run, or has no such checkpoint"
        )
    print(f"{output}: {', '.join([CARD, *files])}")
    return 0


def _refuse(output: Path, weights_only: bool) -> None:
    """Raise RunError if a package is missing, or if ``output`` exists and is not an empty folder."""
    if not weights_only and (missing := [name for name in _NEEDED if find_spec(name) is None]):
        raise RunError(
            f"policy.onnx needs {', '.join(missing)}, which is not installed: pip install 'actorlearn[onnx]', "
            "or export only the weights with --weights"
        )
    if output.exists() and not (output.is_dir() and not any(output.iterdir())):
        raise RunError(f"--output {output}: already exists; name a new folder")


def write(
    run: RunFolder,
    output: Path,
    episodes: int | None,
    learner: int | None,
    weights_only: bool,
    at: str | int = NEWEST,
) -> tuple[dict[str, Any], Mapping[str, Any] | None, list[str]]:
    """Write the folder; return the policy's description, its scores (None: not measured), and the names of the files.

    Raises RunError for a wrong request, and FailedError if the policy cannot be exported.
    """
    _refuse(output, weights_only)
    run.refuse_missing("export", NEWEST, learner)
    topology = load(run.path / TOPOLOGY_FILE)  # an unreadable file is refused before anything is written
    run.refuse_missing("export", at, learner if learner or own_weights(topology) else None)
    games = None if episodes == 0 else evaluate.settings(run, episodes, True, None)
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{output.name}.", dir=output.parent) as beside:
            folder = Path(beside) / "export"
            folder.mkdir()
            wanted = ExportSettings(
                run_dir=str(run.path), learner=learner, at=at, folder=str(folder), onnx=not weights_only
            )
            try:
                told: dict[str, Any] = ask_task("export", msgspec.json.encode(wanted))
            except NoAnswerError as error:
                raise FailedError(f"{run.name} cannot be exported: {error}") from None
            scored = None
            if games is not None:
                scored = evaluate.play(run, msgspec.structs.replace(games, at=at, checkpoint=told["checkpoint"]))
            lives = lives_of(run, told["env_steps"])
            resolved = parse(as_text(lives[-1].topology), source=f"{run.name}: {TOPOLOGY_FILE}")
            (folder / TOPOLOGY_FILE).write_text(dump(resolved))
            files = sorted(path.name for path in folder.iterdir())
            (folder / CARD).write_text(card(identify(run), lives, told, scored, files))
            folder.rename(output)
    except OSError as error:
        raise RunError(f"--output {output}: cannot be written: {error.strerror}; name another folder") from None
    return told, scored, files
