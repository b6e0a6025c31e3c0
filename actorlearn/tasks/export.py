"""A task that writes the policy of a run to a folder, for use in other programs, and returns facts about it.

Reads the run's settings and one of its checkpoints. Writes ``weights.safetensors``, which has all weights by their
names in torch. On request it also writes ``policy.onnx`` (``acting/exported.py``), the program ``play.py``, which plays
with that file, and the pickled environment if it is not in an importable module.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from safetensors.torch import save

from actorlearn.acting.loaded import LoadedPolicy, load
from actorlearn.envs import pickled
from actorlearn.envs.recipe import Recipe, recipe, stored
from actorlearn.worker.settings import ExportSettings

WEIGHTS, ONNX, RUNNER = "weights.safetensors", "policy.onnx", "play.py"


def run(settings: ExportSettings) -> dict[str, Any]:
    """Write the files, and return the checkpoint's path, its step and episode counts, its mean score, and shapes.

    Raises ValueError if no checkpoint is valid, and RuntimeError if torch's exporter does not support a layer.
    """
    torch.set_num_threads(1)
    folder = Path(settings.folder)
    policy = load(settings.run_dir, settings.learner, seed=0, at=settings.at)
    made = recipe(policy.env)
    weights = {name: tensor.contiguous() for name, tensor in policy.network.state_dict().items()}
    (folder / WEIGHTS).write_bytes(save(weights, metadata={"env_steps": str(policy.env_steps)}))
    if settings.onnx:
        _write_onnx(policy, made, folder)
    scores = policy.saved.get("recent_returns") or []
    return {
        "checkpoint": str(policy.checkpoint),
        "env_steps": policy.env_steps,
        "elapsed_s": policy.saved.get("elapsed_s"),
        "episodes": policy.saved.get("episodes_finished"),
        "episodes_in_mean": len(scores),
        "episode_return_mean": fmean(scores) if scores else None,
        "parameters": sum(tensor.numel() for tensor in weights.values()),
        "observation_shape": policy.settings.observation_shape,
        "observation_dtype": policy.settings.observation_dtype,
        "state_size": policy.state_size,
        "not_made": made.missing,
        "takes_rows": made.action_space is None,
    }


def _write_onnx(policy: LoadedPolicy, made: Recipe, folder: Path) -> None:
    from actorlearn.acting import exported, play  # here, because both need packages of the extra onnx

    exported.write(policy, made, folder / ONNX)
    shutil.copyfile(play.__file__, folder / RUNNER)
    if (file := stored(policy.env)) and not made.missing:
        shutil.copyfile(file, folder / pickled.FILE)
