"""Cells over time: the written-out equations, row by row as all at once, and nothing from one game to the next."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
import torch
from torch import Tensor, nn

from actorlearn.models.interface import state_size, unroll
from actorlearn.models.make import autocast, flatten, make
from actorlearn.models.recurrent import Recurrent
from tests import named, reference
from tests.models.networks import images

HEADS = {"logits": 3, "value": 1}
ROWS, ENVIRONMENTS, SIZE = 7, 4, 5


def network(recurrence: str, name: str = "mlp", shape: tuple[int, ...] = (2,), **changes: Any) -> nn.Module:
    sizes = {"hidden_sizes": [6]} if name == "mlp" else {}
    settings = named.model(name=name, **sizes, recurrence=recurrence, recurrent_size=SIZE, **changes)
    return make(settings, shape, "uint8" if len(shape) == 3 else "float32", HEADS, seed=0)


def rows(seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """Observations, and which begin games: some in row 0, some in the middle, one environment's none."""
    generator = torch.Generator().manual_seed(seed)
    first = torch.zeros(ROWS, ENVIRONMENTS, dtype=torch.bool)
    first[0, 0] = first[3, 0] = first[3, 1] = first[4, 1] = first[ROWS - 1, 2] = True
    state = torch.randn(ENVIRONMENTS, 2 * SIZE, generator=generator)
    return torch.randn(ROWS, ENVIRONMENTS, 2, generator=generator), state, first


@pytest.mark.parametrize("recurrence", ["lstm", "gru"])
def test_the_cell_over_time_is_the_written_out_one(recurrence: str) -> None:
    module = network(recurrence)
    assert isinstance(module, Recurrent)
    observation, state, first = rows()
    state = state[:, : state_size(module)]
    outputs, after = unroll(module, observation, state, first)
    weights = {name: weight.detach().double() for name, weight in module.cell.named_parameters()}
    for b in range(ENVIRONMENTS):
        memory = state[b].double()
        for t in range(ROWS):
            if first[t, b]:
                memory = torch.zeros_like(memory)
            features = module.encoder(observation[t, b][None])[0].double().detach()
            memory = reference.cell(recurrence, weights, features, memory)
            expected = nn.functional.linear(memory[:SIZE].float(), *module.trunk.heads["value"].parameters())
            torch.testing.assert_close(outputs["value"][t, b], expected, atol=1e-5, rtol=1e-4)
        torch.testing.assert_close(after[b], memory.float(), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("recurrence", ["lstm", "gru"])
def test_all_rows_at_once_are_row_by_row(recurrence: str, normalize: bool) -> None:
    module = network(recurrence, normalize_observation=normalize)
    observation, state, first = rows()
    state = state[:, : state_size(module)]
    whole, after = unroll(module, observation, state, first)
    for t in range(ROWS):
        outputs, state = unroll(module, observation[t][None], state, first[t][None])
        for head in HEADS:
            torch.testing.assert_close(outputs[head][0], whole[head][t], atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(state, after, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("recurrence", ["lstm", "gru"])
def test_nothing_passes_from_one_game_to_the_next(recurrence: str) -> None:
    module = network(recurrence)
    observation, state, first = rows()
    state = state[:, : state_size(module)].clone()
    state[0] = torch.nan  # as in memory that nobody has written; its first row begins a game
    observation.requires_grad_()
    outputs, after = unroll(module, observation, state, first)
    assert after.isfinite().all() and all(output.isfinite().all() for output in outputs.values())
    (reached,) = torch.autograd.grad(outputs["value"][5].sum(), [observation], retain_graph=True)
    reached = reached.abs().sum(-1) > 0
    assert reached[:, 0].tolist() == [False] * 3 + [True] * 3 + [False]
    assert reached[:, 1].tolist() == [False] * 4 + [True] * 2 + [False]
    assert reached[:, 3].tolist() == [True] * 6 + [False]
    weights = list(module.parameters())
    assert all(
        g.isfinite().all()
        for g in torch.autograd.grad(outputs["logits"].sum(), weights, allow_unused=True)
        if g is not None
    )


def test_a_network_without_recurrence_sees_rows_by_themselves_and_hands_the_state_back() -> None:
    module = network("none")
    observation, state, first = rows()
    outputs, after = unroll(module, observation, state, first)
    assert state_size(module) == 0 and after is state
    for t in range(ROWS):
        torch.testing.assert_close(outputs["value"][t], module(observation[t])["value"])
    assert unroll(module, observation)[1] is None


@pytest.mark.parametrize(("name", "shape"), [("nips", (1, 20, 20)), ("impala", (1, 16, 16))])
def test_any_encoder_may_come_before_a_cell_and_time_is_float32(name: str, shape: tuple[int, ...]) -> None:
    module = network("lstm", name, shape)
    assert state_size(module) == 2 * SIZE
    seen = images(6, shape).unflatten(0, (3, 2))
    with autocast("cpu", "bf16"):
        outputs, state = unroll(module, seen, torch.zeros(2, 2 * SIZE), torch.zeros(3, 2, dtype=torch.bool))
    assert outputs["logits"].shape == (3, 2, 3) and outputs["logits"].dtype == state.dtype == torch.float32


def test_a_cell_lies_in_the_flat_vector_and_learns() -> None:
    module = network("gru")
    weights, gradients = flatten(module)
    observation, _, first = rows()
    outputs, _ = unroll(module, observation, torch.zeros(ENVIRONMENTS, SIZE), first)
    outputs["value"].square().sum().backward()
    assert all(parameter.grad.any() for parameter in module.cell.parameters())
    assert weights.numel() == gradients.numel()


@pytest.mark.parametrize("recurrence", ["lstm", "gru"])
def test_init_orthogonal_reaches_the_cell(recurrence: str) -> None:
    module = network(recurrence, init="orthogonal")
    for name, parameter in module.cell.named_parameters():
        if name.startswith("bias"):
            assert not parameter.any()
        else:
            values = torch.linalg.svdvals(parameter.detach())
            torch.testing.assert_close(values, torch.ones_like(values), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("key", "value"), [("recurrence", "rnn"), ("recurrent_size", 0)])
def test_settings_without_meaning_are_refused_by_name(key: str, value: object) -> None:
    with pytest.raises(msgspec.ValidationError, match=key):
        named.model(**{key: value})
