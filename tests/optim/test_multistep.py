"""Several local Adam steps between synchronisations: Adam for one learner, the appendix's rule for more."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from actorlearn.optim.adam import Adam, MultiStepAdam
from actorlearn.optim.specs import AdamSettings
from tests import named, reference

SIZE = 5
settings_of_adam = st.builds(
    AdamSettings,
    betas=st.sampled_from(((0.9, 0.999), (0.8, 0.75), (0.0, 0.9))),
    epsilon=st.sampled_from((1e-5, 0.01, 0.1)),
    epsilon_hat=st.booleans(),
    rectified=st.booleans(),
)


class Learner:
    """One learner's own vectors and optimizer; synchronises with a central copy as an exchange does."""

    def __init__(self, settings: AdamSettings, parameters: torch.Tensor) -> None:
        self.parameters = parameters.clone()
        self.optimizer = MultiStepAdam(settings, self.parameters)

    def synchronise(self, central: dict[str, torch.Tensor]) -> None:
        own = {"parameters": self.parameters, "mean": self.optimizer.mean, "square": self.optimizer.square}
        for name, tensor in own.items():
            tensor.copy_(central[name])
        self.optimizer.merge(self.parameters)
        for name, tensor in own.items():
            central[name].copy_(tensor)


def central_of(parameters: torch.Tensor) -> dict[str, torch.Tensor]:
    zeros = torch.zeros_like(parameters)
    return {"parameters": parameters.clone(), "mean": zeros.clone(), "square": zeros.clone()}


def gradients_of(steps: int, seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    # In float64, where rounding hides nothing.
    return torch.randn(steps, SIZE, generator=generator, dtype=torch.float64) * torch.logspace(-3, 2, SIZE)


def start() -> torch.Tensor:
    return torch.ones(SIZE, dtype=torch.float64)


@given(settings_of_adam, st.lists(st.integers(1, 5), min_size=1, max_size=6), st.integers(0, 100))
def test_for_one_learner_it_is_adam_however_many_steps_it_takes_alone(settings, periods, seed):
    parameters, gradients = start(), gradients_of(sum(periods), seed)
    plain, expected = Adam(settings, parameters), parameters.clone()
    learner, central = Learner(settings, parameters), central_of(parameters)
    rows = iter(gradients)
    for period in periods:
        for _ in range(period):
            gradient = next(rows)
            plain.step(expected, gradient, 0.01)
            learner.optimizer.step(learner.parameters, gradient, 0.01)
        learner.synchronise(central)
    torch.testing.assert_close(central["parameters"], expected)
    for name, tensor in plain.state().items():
        torch.testing.assert_close(learner.optimizer.state()[name], tensor)
        if name in central:
            torch.testing.assert_close(central[name], tensor)


# Which of two learners takes a local step, or brings its steps home.
events = st.lists(st.tuples(st.sampled_from(("step", "home")), st.integers(0, 1)), max_size=30)


@given(settings_of_adam, events, st.integers(0, 100))
def test_several_learners_follow_the_appendix(settings, events, seed):
    gradients = gradients_of(len(events), seed)
    learners, central = [Learner(settings, start()) for _ in range(2)], central_of(start())
    for (event, which), gradient in zip(events, gradients, strict=True):
        learner = learners[which]
        if event == "step":
            learner.optimizer.step(learner.parameters, gradient, 0.01)
        else:
            learner.synchronise(central)
    slow = reference.multi_step_adam([1.0] * SIZE, events, gradients.tolist(), 0.01, settings)
    found = [central["parameters"], *(learner.parameters for learner in learners)]
    torch.testing.assert_close(torch.stack(found), torch.tensor(slow, dtype=torch.float64))


def test_bringing_home_nothing_takes_the_central_values_as_they_are():
    learner, central = Learner(named.optimizer(name="adam"), torch.zeros(SIZE)), central_of(torch.ones(SIZE))
    central["mean"].fill_(2.0)
    learner.synchronise(central)
    assert torch.equal(learner.parameters, torch.ones(SIZE))
    assert torch.equal(central["mean"], torch.full((SIZE,), 2.0))


def test_a_local_step_is_brought_home_once():
    learner, central = Learner(named.optimizer(name="adam"), torch.zeros(SIZE)), central_of(torch.zeros(SIZE))
    learner.optimizer.step(learner.parameters, torch.ones(SIZE), 0.5)
    learner.synchronise(central)
    once = central["parameters"].clone()
    learner.synchronise(central)
    assert once[0].item() == pytest.approx(-0.5 / 1.1, rel=1e-5)  # PAAC's epsilon of .1
    assert torch.equal(central["parameters"], once)
