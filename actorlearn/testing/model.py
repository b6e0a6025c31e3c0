"""Contract tests for a network: it must compute and learn as ``actorlearn.models.interface`` describes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from torch import Tensor

from actorlearn.models import noisy
from actorlearn.models.interface import state_size, unroll
from actorlearn.models.make import flatten, make
from actorlearn.models.specs import MODELS, ModelSettings


class ModelContract:
    """Tests of one network; derive a class whose name begins with ``Test``, and set `section` and the shape."""

    section: ClassVar[Mapping[str, Any]]
    """The section ``model`` of a topology: ``{"name": "my_package:MyNetwork", "width": 32}``."""
    observation_shape: ClassVar[tuple[int, ...]]
    """Shape of one observation."""
    observation_dtype: ClassVar[str] = "float32"
    """``float32``, or ``uint8`` for images."""
    heads: ClassVar[Mapping[str, int]] = {"logits": 3, "value": 1}
    """Name and size of each output, as an algorithm's ``heads`` returns them."""

    settings: ClassVar[ModelSettings]

    @classmethod
    def setup_class(cls) -> None:
        """Read the settings from ``section``."""
        cls.settings = MODELS.read(cls.section)

    def network(self, seed: int = 0) -> Any:
        """Make the network as every process does."""
        return make(self.settings, self.observation_shape, self.observation_dtype, self.heads, seed)

    def observations(self, *rows: int) -> Tensor:
        """Draw random observations [*rows, *observation_shape]."""
        generator = np.random.default_rng(0)
        shape = (*rows, *self.observation_shape)
        if self.observation_dtype == "uint8":
            return torch.from_numpy(generator.integers(256, size=shape, dtype=np.uint8))
        return torch.from_numpy(generator.normal(size=shape).astype(self.observation_dtype))

    def outputs(self, network: Any, observations: Tensor) -> dict[str, Tensor]:
        """Return outputs [T, B, size] for observations [T, B, …]; a recurrent network's state is zero before them."""
        rows = observations.shape[:2]
        first = torch.zeros(rows, dtype=torch.bool)
        return unroll(network, observations, torch.zeros(rows[1], state_size(network)), first)[0]

    @pytest.mark.parametrize("precision", ["float32", "bfloat16"])
    def test_outputs_are_float32_of_the_sizes_asked_for(self, precision: str) -> None:
        """Outputs are float32, also under autocast, because probabilities need more precision than bfloat16 has."""
        with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bfloat16"):
            outputs = self.outputs(self.network(), self.observations(2, 3))
        assert {name: tuple(output.shape) for name, output in outputs.items()} == {
            name: (2, 3, size) for name, size in self.heads.items()
        }
        assert {output.dtype for output in outputs.values()} == {torch.float32}
        assert all(torch.isfinite(output).all() for output in outputs.values())

    def test_weights_depend_on_the_seed_alone(self) -> None:
        """Equal seeds give equal initial weights in every process; torch's global generator is not used."""
        before = torch.random.get_rng_state()
        first, again, other = (flatten(self.network(seed))[0] for seed in (1, 1, 2))
        assert torch.equal(first, again)
        assert not torch.equal(first, other)
        assert torch.equal(before, torch.random.get_rng_state()), "the network drew from torch's global generator"

    def test_its_parameters_travel_as_one_vector(self) -> None:
        """Networks with equal vectors of parameters compute equal outputs."""
        network, other = self.network(1), self.network(2)
        weights, others = flatten(network)[0], flatten(other)[0]
        others.copy_(weights)
        seen = self.observations(2, 3)
        with torch.no_grad():
            outputs, same = self.outputs(network, seen), self.outputs(other, seen)
        for name in self.heads:
            torch.testing.assert_close(outputs[name], same[name], rtol=0.0, atol=0.0)

    def test_every_parameter_learns(self) -> None:
        """Each parameter gets a gradient from the outputs; constants must be buffers with persistent=False."""
        network = self.network()
        gradients = flatten(network)[1]
        generator = torch.Generator().manual_seed(0)
        noisy.draw(network, generator)  # while the noise is 0, no gradient reaches its deviations
        outputs = self.outputs(network, self.observations(4, 8))
        sums = [(output * torch.randn(output.shape, generator=generator)).sum() for output in outputs.values()]
        torch.autograd.backward(sums)
        idle = [name for name, parameter in network.named_parameters() if not parameter.grad.any()]
        assert not idle, f"no gradient reaches {idle}"
        assert torch.isfinite(gradients).all()

    def test_a_row_does_not_depend_on_its_neighbours(self) -> None:
        """Outputs for an observation do not depend on the other observations in the batch, which vary with timing."""
        network, seen = self.network(), self.observations(1, 5)
        with torch.no_grad():
            together = self.outputs(network, seen)
            alone = [self.outputs(network, seen[:, row : row + 1]) for row in range(5)]
        for name in self.heads:
            torch.testing.assert_close(together[name], torch.cat([o[name] for o in alone], 1), rtol=1e-4, atol=1e-5)

    def test_a_state_is_carried_on_and_cleared_where_a_game_begins(self) -> None:
        """A recurrent network gives the same outputs step by step, as in acting, and in one call for all steps.

        The state before a game's first observation may be NaN, and must have no effect.
        """
        network, seen = self.network(), self.observations(4, 3)
        size = state_size(network)
        if not size:
            pytest.skip("the network has no state")
        first = torch.tensor([[True, False, False], [False, False, True], [False, True, False], [False, False, False]])
        with torch.no_grad():
            state = torch.where(first[0, :, None], torch.nan, torch.ones(3, size))
            outputs, after = unroll(network, seen, state, first)
            step = state
            for t in range(4):
                output, step = unroll(network, seen[t : t + 1], step, first[t : t + 1])  # type: ignore[assignment]
                for name in self.heads:
                    torch.testing.assert_close(output[name][0], outputs[name][t], rtol=1e-4, atol=1e-5)
        assert after is not None and after.shape == (3, size) and torch.isfinite(after).all()
        torch.testing.assert_close(step, after, rtol=1e-4, atol=1e-5)
