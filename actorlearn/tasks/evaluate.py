"""A task that plays N whole games with a checkpoint of a run, by default its newest valid one, and returns the scores.

If each learner has its own weights, it plays with each learner's weights and with the mean of these weights.
"""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import torch

from actorlearn.acting.policy import Policy
from actorlearn.actions import describe_actions
from actorlearn.envs.make import make
from actorlearn.envs.specs import EnvSettings
from actorlearn.parameters.checkpoint import Checkpoint, choose_and_open, load, open_found
from actorlearn.parameters.checkpoint_folders import (
    CheckpointError,
    Found,
    directories,
    find_at,
    learner_of,
    newest,
    short,
    steps_of,
)
from actorlearn.parameters.chosen_checkpoints import NEWEST, choose, choose_of_all, directory_of_equals
from actorlearn.processes.evaluator import AVERAGE, NONE, SECONDARY, films, play, players, prepare_recording, summary
from actorlearn.wire.identity import trainer_id
from actorlearn.worker.settings import EvaluateSettings, PolicySettings


def run(settings: EvaluateSettings) -> dict[str, Any]:
    """Play the games and return their scores, with the checkpoint's steps and any warnings."""
    torch.set_num_threads(1)
    refuse_changed(settings.env, settings.policy)
    if settings.checkpoint is None:
        saved, warnings = opened(Path(settings.run_dir) / "checkpoints", settings.behind_steps, settings.at)
    else:
        saved, warnings = {AVERAGE: read_chosen(Path(settings.checkpoint))}, []
    policy = Policy(settings.policy, "cpu", settings.seed, stream=0, threads=settings.threads)
    weights, results = {}, {}
    for name, checkpoint in saved.items():
        policy.network.load_state_dict(checkpoint.section("weights"))
        weights[name] = policy.flat.clone()
    wanted = players(weights)
    if secondary := next(iter(saved.values())).section("secondary.weights"):
        policy.network.load_state_dict(secondary)
        wanted[SECONDARY] = policy.flat.clone()
    latest = max(saved.values(), key=lambda checkpoint: int(checkpoint.state["env_steps"]))
    recorded: dict[str, dict[str, Any]] = {}
    recording, why_none = prepare_recording(policy, settings.env, settings.recording)
    warnings += [why_none] if why_none else []
    for name, flat in wanted.items():
        policy.flat.copy_(flat)
        with films(recording if name == AVERAGE else None, int(latest.state["env_steps"])) as filmed:
            games = play(
                policy,
                settings.env,
                settings.episodes,
                settings.greedy,
                settings.seed,
                spectator=filmed,
                fire_after=settings.fire_after,
            )
            results[name] = summary([score for score in games if score is not None])
            if filmed:
                recorded = {"recorded": {word: film._asdict() for word, film in filmed.keep().items()}}
            if filmed and filmed.failure:
                warnings.append(f"{NONE}: {filmed.failure}")
    about = {"env_steps": latest.state["env_steps"], "policy_version": latest.state["policy_version"]}
    average = results.pop(AVERAGE)
    others = {SECONDARY: results.pop(SECONDARY)} if SECONDARY in results else {}
    others |= {"learners": results} if results else {}
    about |= {"checkpoint": str(latest.path), "warnings": warnings}
    return {**about, **average, **others, **recorded}


def refuse_changed(env: EnvSettings, trained: PolicySettings) -> None:
    """Raise ValueError if observations or actions of an environment are not those with which a policy was trained."""
    with closing(make(env, [0])) as games:
        now, before = (
            {
                "observations": f"{shapes.observation_dtype}{list(shapes.observation_shape)}",
                "actions": describe_actions(shapes.actions),
                "masks of valid actions": str(shapes.action_mask or "none"),
            }
            for shapes in (games.spec, trained)
        )
    for what, text in now.items():
        if text != before[what]:
            raise ValueError(
                f"env.id {env.id!r}: its {what} are {text}, and were {before[what]} in training; restore the "
                "environment that the run was trained with"
            )


def opened(root: Path, behind_steps: int | None, at: str | int = NEWEST) -> tuple[dict[str, Checkpoint], list[str]]:
    """Open a checkpoint of each learner, which ``at`` selects; return them by trainer name, and warnings.

    A learner is left out if its checkpoint is more than ``behind_steps`` environment steps away from the one that
    ``at`` names (for "newest": from the newest of all): it had left the run, or not joined it yet. If ``behind_steps``
    is None, the learners have equal weights, and one checkpoint is opened (`directory_of_equals`). If a run removes a
    checkpoint before it is opened, the choice is repeated.
    """

    def chosen() -> tuple[dict[str, Found], list[str]]:
        if at == NEWEST:
            return newest_of_each(root, behind_steps)
        if behind_steps is None:
            directory = directory_of_equals(root, at)
            return {trainer_id(learner_of(directory)).name: choose(directory, at)}, []
        each = choose_of_all(root, at, in_step=False)
        steps = steps_of(next(iter(each.values())))
        near = {learner: own for learner, own in each.items() if abs(steps_of(own) - steps) <= behind_steps}
        return {trainer_id(learner).name: find_at(folder) for learner, folder in near.items()}, []

    def take(chosen: tuple[dict[str, Found], list[str]]) -> tuple[dict[str, Checkpoint], list[str]]:
        return {name: open_found(own) for name, own in chosen[0].items()}, chosen[1]

    return choose_and_open(chosen, take)


def read_chosen(folder: Path) -> Checkpoint:
    """Read a checkpoint that was chosen before; raises ValueError if it is damaged or has been removed since."""
    try:
        return load(folder)
    except FileNotFoundError:
        raise ValueError(
            f"{short(folder)} has been removed: the run still saves checkpoints, and keeps only the newest; try again"
        ) from None


def newest_of_each(root: Path, behind_steps: int | None) -> tuple[dict[str, Found], list[str]]:
    """Return the newest valid checkpoint of each learner, by trainer name, and warnings about damaged checkpoints.

    A checkpoint that is more than ``behind_steps`` environment steps older than the newest is left out: its learner has
    left the run. If ``behind_steps`` is None, the learners have equal weights, and the newest of one is returned
    (`directory_of_equals`). Raises CheckpointError if there is no valid checkpoint.
    """
    found, wrong = {}, []
    for directory in directories(root).values() if behind_steps is not None else [directory_of_equals(root, NEWEST)]:
        try:
            found[trainer_id(learner_of(directory)).name] = newest(directory)
        except CheckpointError as error:
            wrong.append(str(error))
    if not found:
        raise CheckpointError("; ".join(wrong))
    least = max(own.env_steps for own in found.values()) - (behind_steps or 0)
    found = {name: own for name, own in found.items() if own.env_steps >= least}
    return found, [*(warning for own in found.values() for warning in own.warnings()), *wrong]
