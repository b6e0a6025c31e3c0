"""Work in shares: the same function as without them, equal bits for equal numbers, errors that come home."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
import torch
from torch import Tensor, nn

from actorlearn.models.interface import unroll
from actorlearn.models.make import flatten, make
from actorlearn.optim.interface import make as make_optimizer
from actorlearn.worker.passes import SLICED, ComputePool, Passes
from tests import named

ROWS, ENVIRONMENTS = 3, 5
NETWORKS = {
    "perceptron": (named.model(name="mlp", hidden_sizes=[8]), (4,), "float32", {"logits": 3, "value": 1}),
    "a head of its own": (named.model(name="mlp", hidden_sizes=[8]), (4,), "float32", {"mean": 2, "log_std": 2}),
    "recurrent": (named.model(name="mlp", recurrence="lstm", recurrent_size=6), (4,), "float32", {"value": 1}),
    "normalised": (named.model(name="mlp", normalize_observation=True), (4,), "float32", {"value": 1}),
    "convolutions": (named.model(name="nips"), (4, 84, 84), "uint8", {"logits": 3, "value": 1}),
    "dueling and noisy": (named.model(name="nips", noisy=0.5), (4, 84, 84), "uint8", {"value": 1, "advantage": 3}),
}


def network(name: str) -> tuple[nn.Module, Tensor, Tensor]:
    settings, shape, dtype, heads = NETWORKS[name]
    made = make(settings, shape, dtype, heads, seed=1)
    return (made, *flatten(made))


def seen(name: str) -> tuple[Tensor, ...]:
    """Observation [T, B, …] and, of a recurrent network, state [B, S] and first [T, B]."""
    settings, shape, dtype, _ = NETWORKS[name]
    generator = torch.Generator().manual_seed(2)
    observation = torch.rand((ROWS, ENVIRONMENTS, *shape), generator=generator)
    observation = (observation * 255).to(torch.uint8) if dtype == "uint8" else observation
    if settings.recurrence == "none":
        return (observation,)
    first = torch.zeros((ROWS, ENVIRONMENTS), dtype=torch.bool)
    first[1, 3] = True
    return observation, torch.rand((ENVIRONMENTS, 12), generator=generator), first


def loss(outputs: Mapping[str, Tensor]) -> Tensor:
    """Couples all environments: no share could work it out by itself."""
    return torch.stack([output.square().mean() * output.mean() for output in outputs.values()]).sum()


def gradients(name: str, shares: int) -> tuple[Mapping[str, Tensor], Tensor]:
    made, _, flat = network(name)
    passes = Passes(made, ComputePool(shares), "fp32", flat)
    flat.fill_(7.0)  # what was there before is no part of it
    outputs, _ = passes.forward(*seen(name))
    passes.backward(loss(outputs))
    return {head: output.detach() for head, output in outputs.items()}, flat.clone()


@pytest.mark.parametrize("shares", [1, 2])
def test_a_loss_of_detached_outputs_keeps_no_operations_of_the_network_and_has_its_gradient(shares: int) -> None:
    found = []
    for detached in (False, True):
        made, _, flat = network("convolutions")
        passes = Passes(made, ComputePool(shares), "fp32", flat)
        outputs, _ = passes.forward(*seen("convolutions"), detached=detached)
        assert not detached or all(output.grad_fn is None for output in outputs.values())
        passes.backward(loss(outputs))
        found.append(flat.clone())
    assert torch.equal(*found)


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("shares", [2, 3, 8])
def test_shares_make_the_same_outputs_and_gradients(name: str, shares: int) -> None:
    outputs, flat = gradients(name, 1)
    shared, summed = gradients(name, shares)
    for head, output in outputs.items():
        torch.testing.assert_close(shared[head], output, rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(summed, flat, rtol=1e-3, atol=1e-5)
    again, twice = gradients(name, shares)
    assert torch.equal(twice, summed)
    assert all(torch.equal(again[head], shared[head]) for head in shared)


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("shares", [1, 2])
def test_rows_to_bootstrap_from_have_the_same_outputs_and_change_no_gradient(name: str, shares: int) -> None:
    found = []
    for bootstrap in (0, 1):
        made, _, flat = network(name)
        passes = Passes(made, ComputePool(shares), "fp32", flat)
        outputs, _ = passes.forward(*seen(name), bootstrap=bootstrap)
        constant = {head: torch.cat([output[:-1], output[-1:].detach()]) for head, output in outputs.items()}
        passes.backward(loss(constant))
        found.append(({head: output.detach() for head, output in outputs.items()}, flat.clone()))
    (whole, expected), (parted, gradient) = found
    for head, output in whole.items():
        torch.testing.assert_close(parted[head], output, rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(gradient, expected, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("shares", [1, 2])
def test_nothing_is_computed_on_the_way_back_from_rows_to_bootstrap_from(shares: int) -> None:
    made, _, flat = network("convolutions")
    passes = Passes(made, ComputePool(shares), "fp32", flat)
    outputs, _ = passes.forward(*seen("convolutions"), bootstrap=1)
    passes.backward(loss({head: output[-1:] for head, output in outputs.items()}))
    assert not flat.any()


def test_one_share_is_the_reference() -> None:
    made, _, flat = network("perceptron")
    outputs, _ = unroll(made, *seen("perceptron"))
    flat.zero_()
    loss(outputs).backward()
    assert torch.equal(gradients("perceptron", 1)[1], flat)


def test_all_shares_follow_the_weights() -> None:
    made, weights, flat = network("perceptron")
    passes = Passes(made, ComputePool(2), "fp32", flat)
    passes.backward(loss(passes.forward(*seen("perceptron"))[0]))
    weights.mul_(2.0)
    outputs, _ = passes.forward(*seen("perceptron"))
    expected, _ = unroll(made, *seen("perceptron"))
    for head, output in outputs.items():
        torch.testing.assert_close(output, expected[head])


def test_forward_passes_alone_keep_no_graph_and_return_the_state() -> None:
    made, _, _ = network("recurrent")
    passes = Passes(made, ComputePool(2), "fp32")
    with torch.inference_mode():
        outputs, state = passes.forward(*seen("recurrent"))
        expected, after = unroll(made, *seen("recurrent"))
    assert not outputs["value"].requires_grad
    assert state is not None and after is not None
    torch.testing.assert_close(state, after)
    torch.testing.assert_close(outputs["value"], expected["value"])


def test_a_parameter_that_the_loss_does_not_reach_has_gradient_zero() -> None:
    made, _, flat = network("convolutions")
    passes = Passes(made, ComputePool(2), "fp32", flat)
    flat.fill_(7.0)
    passes.backward(passes.forward(*seen("convolutions"))[0]["logits"].sum())
    value = dict(made.named_parameters())["heads.value.weight"].grad
    assert value is not None and not value.any()
    assert flat.any()


def test_an_error_in_any_share_is_raised_once_all_have_ended() -> None:
    ended = []

    def work(index: int) -> None:
        if index:
            raise ValueError(f"share {index}")
        ended.append(index)

    shares = ComputePool(3)
    with pytest.raises(ValueError, match="share 1"):
        shares.run(work, 3)
    assert ended == [0]
    assert shares.run(lambda index: index, 3) == [0, 1, 2]


@pytest.mark.parametrize("settings", [{}, {"centered": True}, {"name": "adam"}])
def test_a_step_in_slices_has_the_bits_of_a_whole_one(settings: dict[str, object]) -> None:
    length = SLICED + 13
    results = []
    for shares in (1, 3):
        generator = torch.Generator().manual_seed(0)
        parameters = torch.rand(length, generator=generator)
        optimizer = make_optimizer(named.optimizer(**settings), parameters, ComputePool(shares).spread)  # type: ignore[arg-type]
        for _ in range(3):
            optimizer.step(parameters, torch.rand(length, generator=generator), 0.01)
        results.append(parameters)
    assert torch.equal(*results)


def test_what_is_frozen_stays_frozen_in_every_share() -> None:
    made, _, flat = network("perceptron")
    frozen = dict(made.named_parameters())["trunks.value.encoder.layers.0.weight"]
    frozen.requires_grad_(False)
    passes = Passes(made, ComputePool(2), "fp32", flat)
    passes.backward(loss(passes.forward(*seen("perceptron"))[0]))
    assert frozen.grad is not None and not frozen.grad.any()
    assert flat.any()
