"""Plays N whole games with the newest valid checkpoint of a run and prints one line of JSON."""

from __future__ import annotations

import json
from pathlib import Path

import torch

from actorlearn.parameters import checkpoint
from actorlearn.processes.evaluator import play, summary
from actorlearn.processes.inference import Policy
from actorlearn.processes.settings import EvaluateSettings

SETTINGS = EvaluateSettings


def run(settings: EvaluateSettings) -> None:
    """Play and print; the policy is sampled from, or followed greedily."""
    torch.set_num_threads(settings.threads)
    saved = checkpoint.newest(Path(settings.run_dir) / "checkpoints")
    policy = Policy(settings.policy, "", "cpu", settings.seed, stream=0)
    policy.network.load_state_dict(saved.section("weights"))
    games = play(policy, settings.env, settings.episodes, settings.greedy, settings.seed)
    returns = [score for score in games if score is not None]
    about = {"env_steps": saved.state["env_steps"], "policy_version": saved.state["policy_version"]}
    print(json.dumps({**about, "checkpoint": str(saved.path), **summary(returns)}), flush=True)
