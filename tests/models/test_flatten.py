"""One flat vector for the weights, one for the gradients, both the network's own memory."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from actorlearn.models.make import flatten, make
from tests import named


def network(name: str = "mlp", shape: tuple[int, ...] = (3,)) -> nn.Module:
    return make(named.model(name=name), shape, "float32", {"logits": 2, "value": 1}, seed=0)


def test_flattening_changes_no_output_and_keeps_the_order_of_parameters():
    module, x = network("nips", (1, 20, 20)), torch.randn(2, 1, 20, 20)
    before = {name: parameter.clone() for name, parameter in module.named_parameters()}
    expected = module(x)
    parameters, gradients = flatten(module)
    torch.testing.assert_close(module(x), expected)  # not to the last bit: the weights' alignment in memory changed
    assert torch.equal(parameters, torch.cat([tensor.detach().flatten() for tensor in before.values()]))
    assert gradients.shape == parameters.shape and not gradients.any()
    assert parameters.is_contiguous() and not parameters.requires_grad


def test_writing_the_vector_changes_the_network():
    module, x = network(), torch.randn(4, 3)
    parameters, _ = flatten(module)
    other = make(named.model(name="mlp"), (3,), "float32", {"logits": 2, "value": 1}, seed=1)
    parameters.copy_(flatten(other)[0])
    torch.testing.assert_close(module(x), other(x), rtol=0.0, atol=0.0)


def test_backward_fills_the_vector_and_adds_until_it_is_zeroed():
    module, x = network(), torch.randn(4, 3)
    expected = torch.autograd.grad(
        sum(output.square().sum() for output in module(x).values()), list(module.parameters())
    )
    expected = torch.cat([gradient.flatten() for gradient in expected])
    _, gradients = flatten(module)
    for times in (1, 2):
        sum(output.square().sum() for output in module(x).values()).backward()
        torch.testing.assert_close(gradients, times * expected)
    module.zero_grad(set_to_none=False)
    assert not gradients.any()
    sum(output.square().sum() for output in module(x).values()).backward()
    torch.testing.assert_close(gradients, expected)


def test_an_optimizers_step_on_the_vector_descends_the_loss():
    module, x = network(), torch.randn(8, 3)
    parameters, gradients = flatten(module)
    losses = []
    for _ in range(20):
        gradients.zero_()
        loss = sum(output.sub(1.0).square().mean() for output in module(x).values())
        loss.backward()
        losses.append(loss.item())
        parameters.add_(gradients, alpha=-0.1)
    assert losses[-1] < 0.2 * losses[0]


def test_loading_a_state_dict_writes_the_vector():
    module = network()
    parameters, _ = flatten(module)
    module.load_state_dict({name: torch.full_like(tensor, 2.0) for name, tensor in module.state_dict().items()})
    assert torch.all(parameters == 2.0)


def test_a_vector_of_copies_gives_gradients_to_a_parameter_used_twice():
    layer = nn.Linear(2, 2, bias=False)
    module = nn.Sequential(layer, nn.Tanh(), layer)
    parameters, gradients = flatten(module)
    module(torch.ones(1, 2)).sum().backward()
    assert parameters.shape == (4,) and gradients.any()


@pytest.mark.parametrize(
    ("module", "part"),
    [
        (nn.ReLU(), "no parameters"),
        (nn.Linear(2, 2).double(), "torch.float64"),
        (nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2)), "1.running_mean"),
    ],
)
def test_modules_that_cannot_travel_as_one_vector_are_refused(module, part):
    with pytest.raises(ValueError, match=part):
        flatten(module)
