"""Exports a policy as an ONNX file, which chooses the most probable actions and can be used without actorlearn.

The file includes normalisation of observations, the recurrent state, the choice of actions, and their conversion to
the environment's action space.

==========================  ===========================================================================================
input ``observation``       [N, …]; the axes of an image are in the environment's order
input ``action_mask``       bools [N, n], if the environment gives masks of valid actions
input ``first``             bools [N], for a recurrent network: whether the observation is the first of a game
input ``state``             [N, S], for a recurrent network
output ``action``           [N, …], as the environment accepts it
outputs of the network      [N, size], by the names of its heads
output ``state_after``      [N, S], for a recurrent network: the state for the next call
metadata ``actorlearn``     the result of `describe` as JSON
==========================  ===========================================================================================

``play.py`` is a program that reads the file and plays with it. It converts an environment's observations to rows.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnxruntime
import torch
from gymnasium.spaces import Box
from torch import Tensor, nn

from actorlearn.acting.loaded import LoadedPolicy
from actorlearn.envs.mask_cells import without_choice
from actorlearn.envs.recipe import Recipe
from actorlearn.models.interface import unroll
from actorlearn.models.noisy import draw
from actorlearn.observation_parts import MASK

_ROWS = 3
"""Number of observations with which the network is traced."""
_CHECKED_ROWS = (1, 64)
"""Numbers of observations with which the file's outputs are compared with the network's."""
_TOLERANCE = 1e-4
"""Largest allowed difference of outputs, relative to the largest output; runtimes add numbers in different orders."""
_TIES = 0.02
"""Largest allowed share of different integer actions: two choices may be equally good up to rounding."""


class ExportError(ValueError):
    """The policy cannot be written as ONNX, or the file's outputs differ from the network's; the text is one line."""


class ActingPolicy(nn.Module):
    """The module that is exported to ONNX: maps observations of an environment to actions that it accepts."""

    def __init__(self, policy: LoadedPolicy, recipe: Recipe) -> None:
        super().__init__()
        self.network, self.algorithm = policy.network, policy.algorithm
        self.recipe = recipe
        self.scales = bool(getattr(policy.env, "scale_actions", False))
        self.inputs = ["observation", *([MASK] if policy.settings.action_mask else [])]
        self.inputs += ["first", "state"] if policy.state_size else []
        self.outputs = ["action", *policy.algorithm.heads(policy.settings.actions)]
        self.outputs += ["state_after"] if policy.state_size else []
        draw(self.network, None)

    def forward(
        self,
        observation: Tensor,
        action_mask: Tensor | None = None,
        first: Tensor | None = None,
        state: Tensor | None = None,
    ) -> list[Tensor]:
        """Return the outputs in the order of ``outputs``; the module's docstring describes inputs and outputs."""
        row = observation.movedim(-1, 1) if self.recipe.channels_last else observation
        if action_mask is not None:
            row = torch.cat([row.flatten(1), action_mask.to(row.dtype)], 1)
        outputs, after = unroll(self.network, row[None], state, None if first is None else first[None])
        heads = {name: output[0] for name, output in outputs.items()}
        action = self.algorithm.act(heads, torch.Generator(), greedy=True)["action"]
        found = {"action": self._in_action_space(action), **heads}
        if after is not None:
            found["state_after"] = after
        return [found[name] for name in self.outputs]

    def _in_action_space(self, action: Tensor) -> Tensor:
        """Convert the algorithm's actions [N, …] to the environment's action space (``envs/action_space.py``)."""
        space: Any = self.recipe.action_space
        if isinstance(space, Box):
            low, high = (torch.from_numpy(bound).float() for bound in (space.low, space.high))
            return (low + (action + 1.0) / 2.0 * (high - low) if self.scales else action).clamp(low, high)
        if space is None:
            return action
        start = torch.as_tensor(np.asarray(getattr(space, "start", 0)))
        return action.reshape(-1, *space.shape) + start


def describe(policy: LoadedPolicy, recipe: Recipe) -> dict[str, Any]:
    """Return the metadata of an ONNX file, which a program needs to play with it.

    These are the dtype of observations, the length of the recurrent state, the source of masks, and the calls that make
    the environment and convert its observations to the network's input.
    """
    mask = policy.settings.action_mask
    return {
        "dtype": policy.settings.observation_dtype,
        "state_size": policy.state_size,
        "made_by": recipe.calls,
        MASK: (mask.source if recipe.parts else "info") if mask else "",
        "parts": recipe.parts,
        "not_made": recipe.missing,
        "env_steps": policy.env_steps,
    }


def write(policy: LoadedPolicy, recipe: Recipe, file: Path) -> None:
    """Export a policy to an ONNX file, and compare the file's outputs with the network's for random inputs.

    Raises ExportError if torch cannot export the policy, or if outputs differ.
    """
    acting = ActingPolicy(policy, recipe).eval()
    rows = {"observation": {0: torch.export.Dim("N")}, "first": {0: torch.export.Dim("N")}}
    rows["state"] = rows[MASK] = rows["first"]
    with warnings.catch_warnings():  # torch warns about its own code
        warnings.simplefilter("ignore")
        try:
            program = torch.onnx.export(
                acting,
                kwargs=_as_tensors(_inputs(policy, recipe, _ROWS)),
                input_names=acting.inputs,
                output_names=acting.outputs,
                dynamic_shapes={name: rows[name] for name in acting.inputs},
                dynamo=True,
                verbose=False,
            )
            assert program is not None
            program.model.metadata_props["actorlearn"] = json.dumps(describe(policy, recipe))
            program.save(file, external_data=False)
        except Exception as error:
            reason = error.__cause__ or error
            said = next(filter(None, str(reason).splitlines()), "")
            raise ExportError(f"the policy cannot be written as ONNX: {type(reason).__name__}: {said:.300}") from error
    _check(acting, policy, recipe, file)


def _inputs(policy: LoadedPolicy, recipe: Recipe, count: int) -> dict[str, npt.NDArray[Any]]:
    """Return ``count`` random inputs of the policy, by name."""
    random, mask = np.random.default_rng(count), policy.settings.action_mask
    shape = mask.observation_shape if mask else policy.settings.observation_shape
    if recipe.channels_last:
        shape = (*shape[1:], shape[0])
    kind = np.dtype(policy.settings.observation_dtype)
    drawn: npt.NDArray[Any] = random.normal(size=(count, *shape)).astype(np.float32)
    if kind == np.uint8:
        drawn = random.integers(256, size=(count, *shape), dtype=np.uint8)
    found = {"observation": drawn.astype(kind)}
    if mask:
        found[MASK] = random.random((count, mask.length)) < 0.5
        found[MASK] |= without_choice(policy.settings.actions, found[MASK])
    if policy.state_size:
        found["first"] = random.random(count) < 0.5
        found["state"] = random.normal(size=(count, policy.state_size)).astype(np.float32)
    return found


def _as_tensors(inputs: Mapping[str, npt.NDArray[Any]]) -> dict[str, Tensor]:
    return {name: torch.from_numpy(array) for name, array in inputs.items()}


@torch.inference_mode()
def _check(acting: ActingPolicy, policy: LoadedPolicy, recipe: Recipe, file: Path) -> None:
    """Raise ExportError if the file fails or computes other outputs than the network."""
    session = onnxruntime.InferenceSession(file)
    for count in _CHECKED_ROWS:
        inputs = _inputs(policy, recipe, count)
        expected = acting(**_as_tensors(inputs))
        try:
            outputs = session.run(None, inputs)
        except Exception as error:  # onnxruntime raises many classes of its own
            raise ExportError(
                f"the ONNX file cannot process a batch of {count} observations: {' '.join(str(error).split())}"
            ) from error
        for name, own, found in zip(acting.outputs, expected, outputs, strict=True):
            if own.dtype.is_floating_point:
                limit = _TOLERANCE * max(1.0, float(own.abs().max()))
                wrong = bool((torch.from_numpy(found) - own).abs().max() > limit)
            else:
                wrong = float((found != own.numpy()).mean()) > _TIES
            if wrong:
                raise ExportError(f"the output {name} of the ONNX file differs from the network's")
