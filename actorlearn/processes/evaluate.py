"""Plays N whole games with the newest valid checkpoint of a run and prints one line of JSON.

Learners with weights of their own are played each by its newest checkpoint, and all by the average of these.
"""

from __future__ import annotations

import json
from pathlib import Path

import torch

from actorlearn.parameters import checkpoint
from actorlearn.parameters.checkpoint import Checkpoint, CheckpointError
from actorlearn.processes.evaluator import AVERAGE, SECONDARY, play, players, summary
from actorlearn.processes.inference import Policy
from actorlearn.processes.settings import EvaluateSettings

SETTINGS = EvaluateSettings


def run(settings: EvaluateSettings) -> None:
    """Play and print; the policy is sampled from, or followed greedily."""
    torch.set_num_threads(settings.threads)
    saved = newest(Path(settings.run_dir) / "checkpoints", settings.behind_steps)
    policy = Policy(settings.policy, "", "cpu", settings.seed, stream=0)
    weights, results = {}, {}
    for name, own in saved.items():
        policy.network.load_state_dict(own.section("weights"))
        weights[name] = policy.flat.clone()
    wanted = players(weights)
    if beside := next(iter(saved.values())).section("secondary.weights"):
        policy.network.load_state_dict(beside)
        wanted[SECONDARY] = policy.flat.clone()
    for name, flat in wanted.items():
        policy.flat.copy_(flat)
        games = play(policy, settings.env, settings.episodes, settings.greedy, settings.seed)
        results[name] = summary([score for score in games if score is not None])
    latest = max(saved.values(), key=lambda own: int(own.state["env_steps"]))
    about = {"env_steps": latest.state["env_steps"], "policy_version": latest.state["policy_version"]}
    average = results.pop(AVERAGE)
    others = {SECONDARY: results.pop(SECONDARY)} if SECONDARY in results else {}
    others |= {"learners": results} if results else {}
    print(json.dumps({**about, "checkpoint": str(latest.path), **average, **others}), flush=True)


def newest(checkpoints: Path, behind_steps: int | None) -> dict[str, Checkpoint]:
    """The newest valid checkpoint of each learner, by its trainer's name; raises CheckpointError when there is none.

    `behind_steps` None: that of the first alone. One that is further behind is of a learner that has left the run.
    """
    if behind_steps is None:
        return {"trainer-0": checkpoint.newest(checkpoints)}
    found, wrong = {}, []
    for folder in (checkpoints, *sorted(checkpoints.glob("learner-*"))):
        number = folder.name.removeprefix("learner-") if folder != checkpoints else "0"
        try:
            found[f"trainer-{number}"] = checkpoint.newest(folder)
        except CheckpointError as error:
            wrong.append(str(error))
    if not found:
        raise CheckpointError("; ".join(wrong))
    least = max(own.state["env_steps"] for own in found.values()) - behind_steps
    return {name: own for name, own in found.items() if own.state["env_steps"] >= least}
