"""``actorlearn eval``: plays whole games with a checkpoint of a run, by default the newest valid one.

A separate process plays the games (``actorlearn/tasks/evaluate.py``), so that this one needs neither torch nor the
environment.
"""

from __future__ import annotations

import json as json_format
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec

from actorlearn.parameters.chosen_checkpoints import BEST, NEWEST, read_best
from actorlearn.worker.settings import POLICY_FILE, EvaluateSettings, LoadSettings, PolicySettings, read
from launch.errors import FailedError, RunError
from launch.machine.cores import Cores
from launch.plan.auto import choose, cpu_flags
from launch.plan.probe import describe
from launch.plan.roles import behind_steps, policy, recording
from launch.reports.evaluations import compare_learners
from launch.runs import find
from launch.runs.client import CHANGE_S, ask
from launch.runs.find import RunFolder
from launch.spawning.answers import NoAnswerError, ask_task
from launch.supervision.requests import OPEN
from launch.topology.load import load


def evaluate(
    word: str,
    episodes: int | None,
    greedy: bool | None,
    seed: int | None,
    record: bool,
    json: bool,
    at: str | int = NEWEST,
    save: bool = False,
) -> int:
    """Play games with a checkpoint of the run that ``word`` names, and print the scores; return the exit status.

    ``at``: the checkpoint: "newest", "best" or its environment steps. ``save``: first save the present weights, if the
    run is alive. None for ``episodes``, ``greedy`` or ``seed``: the value in the run's topology.
    """
    if record and find_spec("av") is None:
        raise RunError("--record needs PyAV, which is not installed: pip install 'actorlearn[video]'")
    if save and at != NEWEST:
        raise RunError(f"--save: saves the newest checkpoint, and --at {at} plays another; leave one of them out")
    run = find.find(word)
    if save:
        save_present(run)
    answer = play(run, settings(run, episodes, greedy, seed, record, at))
    for warning in answer["warnings"]:
        print(f"warning: {warning}", file=sys.stderr)
    if json:
        print(json_format.dumps({"run": run.name, **answer}))
    else:
        _show(run, answer)
    return 0


def _show(run: RunFolder, answer: Mapping[str, Any]) -> None:
    learners = answer.get("learners", {})
    who = f"the average of {len(learners)} learners' weights" if learners else "the policy"
    print(f"{run.name}: {answer['episodes']} whole games with {who} of {answer['env_steps']:,} steps")
    if "best_score" in answer:
        where = "in training games" if answer["best_score_by"] == "training" else "in an evaluation"
        print(
            f"best checkpoint: weights of {answer['env_steps']:,} steps; the best score, "
            f"{answer['best_score']:g}, was reached {where} at {answer['best_score_env_steps']:,} steps"
        )
    if "age_s" in answer:
        print(
            f"the run is alive: these weights are {answer['behind_steps']:,} steps and "
            f"{answer['age_s']:.0f} s old; `actorlearn eval {run.name} --save` plays its present weights"
        )
    elif answer["behind_steps"]:
        print(f"the run has learned {answer['behind_steps']:,} steps more than these weights")
    print(f"raw score {_scores(answer)}")
    for name, own in learners.items():
        print(f"{name} alone: {_scores(own)}")
    if secondary := answer.get("secondary"):
        print(f"secondary learner: {_scores(secondary)}")
    for name, film in answer.get("recorded", {}).items():
        print(f"{name} game, score {film['score']:g}: {film['file']}")
    if learners:
        print(
            f"best learner: {answer['best']}, mean score {answer['best_mean']:.2f}; mean of all learners: "
            f"{answer['learners_mean']:.2f}"
        )


def save_present(run: RunFolder) -> None:
    """Let a run save its present weights. If it is ending, wait until it has saved its last ones instead.

    Raises FailedError if the run goes on and does not save.
    """
    until_s = time.monotonic() + CHANGE_S
    try:
        if run.alive:
            ask(run, "save", timeout_s=CHANGE_S)
    except FailedError as error:
        while (phase := _phase(run)) in (*OPEN, "draining"):
            if phase in OPEN or time.monotonic() > until_s:
                raise error from None
            time.sleep(0.2)


def _phase(run: RunFolder) -> str:
    """Return the phase of a run; "" if it has ended. Raises FailedError if a living run does not answer."""
    try:
        return str(ask(run, "status").data["phase"]) if run.alive else ""
    except FailedError:
        if run.alive:
            raise
        return ""


def refuse_episodes(episodes: int | None) -> None:
    """Raise RunError for a number of games below one."""
    if episodes is not None and episodes < 1:
        raise RunError(f"episodes={episodes}: at least one game must be played")


def _scores(found: Mapping[str, Any]) -> str:
    spread = f"{found['mean']:.2f} ± {found['std']:.2f} (standard deviation)"
    return f"{spread}, lowest {found['min']:g}, highest {found['max']:g}"


def settings(
    run: RunFolder,
    episodes: int | None,
    greedy: bool | None,
    seed: int | None,
    record: bool = False,
    at: str | int = NEWEST,
) -> EvaluateSettings:
    """Return the settings of the evaluating process, from the run's files and the options; raises RunError.

    The shapes of observations and actions are those that the run has saved. Environment and network are built only for
    a film, to find the frames per step.
    """
    refuse_episodes(episodes)
    run.refuse_missing("evaluate", at, None)
    topology = load(run.path / find.TOPOLOGY_FILE)
    chosen, _ = choose(topology, cpu_flags(), Cores.here())
    return EvaluateSettings(
        env=topology.env.for_evaluation(topology.evaluator.noop_max),
        policy=policy(chosen, _shapes(run)),
        run_dir=str(run.path),
        at=at,
        behind_steps=behind_steps(topology),
        episodes=topology.evaluator.episodes if episodes is None else episodes,
        greedy=topology.evaluator.greedy if greedy is None else greedy,
        fire_after=topology.evaluator.fire_after,
        seed=topology.seed if seed is None else seed,
        recording=recording(run.path, describe(topology, here=False)) if record else None,
    )


def _shapes(run: RunFolder) -> PolicySettings:
    """Return the shapes that a run has saved; raises RunError."""
    try:
        return read(run.path / POLICY_FILE, LoadSettings).policy
    except (OSError, ValueError) as error:
        raise RunError(
            f"{run.name} cannot be evaluated: {error}; resume the run once, which writes the file again"
        ) from None


def play(run: RunFolder, wanted: EvaluateSettings) -> dict[str, Any]:
    """Run the evaluating process and return the scores; raises FailedError with its last line of output if it fails.

    The answer also has ``behind_steps``: how many steps the run has learned since these weights. For a living run it
    has ``age_s``, the age of the weights in seconds. For the best checkpoint it has ``best_score``, the steps at which
    this score was reached, ``best_score_env_steps``, and ``best_score_by``, which is "evaluation" or "training".
    """
    best = read_best(run.path / "checkpoints") if wanted.at == BEST else None
    try:
        # Idle threads must not spin: a run may need the cores.
        answer: dict[str, Any] = ask_task("evaluate", msgspec.json.encode(wanted), OMP_WAIT_POLICY="PASSIVE")
    except NoAnswerError as error:
        raise FailedError(f"{run.name} cannot be evaluated: {error}") from None
    if learners := answer.get("learners"):
        answer |= compare_learners({name: own["mean"] for name, own in learners.items()})
    if best is not None:
        answer |= {"best_score": best.score, "best_score_env_steps": best.env_steps, "best_score_by": best.by}
    now_steps = (run.metrics().last() or {}).get("env_steps") or 0
    answer["behind_steps"] = max(0, now_steps - answer["env_steps"])
    if answer["env_steps"] == 0 and wanted.at == NEWEST:
        answer["warnings"].append("these weights are those of step 0, from before the first update")
    if run.alive:
        with suppress(OSError):  # the run has removed the checkpoint in the meantime
            age_s = time.time() - Path(answer["checkpoint"]).stat().st_mtime
            answer["age_s"] = round(max(0.0, age_s), 1)
    return answer
