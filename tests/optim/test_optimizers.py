"""RMSProp and Adam by hand numbers, against slow references and against torch where the form coincides."""

from __future__ import annotations

from math import sqrt

import msgspec
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from actorlearn.optim.interface import make
from actorlearn.optim.specs import AdamSettings, OptimizerSettings, RMSPropSettings
from tests import named, reference

SIZE, STEPS = 5, 12
epsilons = st.sampled_from((1e-5, 0.01, 0.1))
settings_of_all_kinds = st.builds(
    RMSPropSettings,
    decay=st.sampled_from((0.9, 0.99)),
    epsilon=epsilons,
    epsilon_inside_root=st.booleans(),
    accumulator_init=st.sampled_from((0.0, 1.0)),
    centered=st.booleans(),
) | st.builds(
    AdamSettings,
    betas=st.sampled_from(((0.9, 0.999), (0.8, 0.75), (0.0, 0.9))),
    epsilon=epsilons,
    epsilon_hat=st.booleans(),
    rectified=st.booleans(),
)


def problem(seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Return parameters [SIZE] and gradients [STEPS, SIZE] of very different magnitudes."""
    generator = torch.Generator().manual_seed(seed)
    scale = torch.logspace(-3, 2, SIZE)
    return torch.randn(SIZE, generator=generator), torch.randn(STEPS, SIZE, generator=generator) * scale


def run(
    settings: OptimizerSettings, parameters: torch.Tensor, gradients: torch.Tensor, rates: list[float]
) -> torch.Tensor:
    parameters = parameters.clone()
    optimizer = make(settings, parameters)
    for gradient, rate in zip(gradients, rates, strict=True):
        optimizer.step(parameters, gradient, rate)
    return parameters


@given(settings_of_all_kinds, st.integers(0, 100))
def test_steps_equal_the_slow_reference(settings, seed):
    parameters, gradients = problem(seed)
    rates = [0.01 * (1 - step / STEPS) for step in range(STEPS)]
    slow = {"rmsprop": reference.rmsprop, "adam": reference.adam}[settings.name]
    expected = torch.tensor(slow(parameters.tolist(), gradients.tolist(), rates, settings))
    torch.testing.assert_close(run(settings, parameters, gradients, rates), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("centered", [False, True])
def test_rmsprop_with_epsilon_outside_and_zeros_is_torchs(centered):
    parameters, gradients = problem()
    settings = named.optimizer(
        decay=0.99, epsilon=1e-5, epsilon_inside_root=False, accumulator_init=0.0, centered=centered
    )
    theirs = parameters.clone()
    optimizer = torch.optim.RMSprop([theirs], lr=0.01, alpha=0.99, eps=1e-5, centered=centered)
    for gradient in gradients:
        theirs.grad = gradient
        optimizer.step()
    tolerance = 1e-3 if centered else 1e-6  # the first variances are differences of nearly equal numbers
    ours = run(settings, parameters, gradients, [0.01] * STEPS)
    torch.testing.assert_close(ours, theirs, rtol=tolerance, atol=tolerance)


def test_adam_without_epsilon_hat_is_torchs():
    parameters, gradients = problem()
    settings = named.optimizer(name="adam", betas=(0.8, 0.75), epsilon=1e-3)
    theirs = parameters.clone()
    optimizer = torch.optim.Adam([theirs], lr=0.01, betas=(0.8, 0.75), eps=1e-3)
    for gradient in gradients:
        theirs.grad = gradient
        optimizer.step()
    torch.testing.assert_close(run(settings, parameters, gradients, [0.01] * STEPS), theirs)


def test_rectified_adam_with_epsilon_hat_is_torchs():
    """Five steps by the mean gradient alone, and 55 beyond; torch scales its epsilon as TensorFlow does."""
    parameters, gradients = problem()
    gradients = gradients.repeat(5, 1)
    theirs = parameters.clone()
    optimizer = torch.optim.RAdam([theirs], lr=0.01, eps=1e-4)
    for gradient in gradients:
        theirs.grad = gradient
        optimizer.step()
    settings = named.optimizer(name="adam", epsilon=1e-4, epsilon_hat=True, rectified=True)
    torch.testing.assert_close(run(settings, parameters, gradients, [0.01] * len(gradients)), theirs)


@pytest.mark.parametrize(
    ("changes", "root"),
    [
        ({}, sqrt(0.99 * 1 + 0.01 * 4 + 0.1)),  # PAAC: epsilon inside, accumulator of ones
        ({"accumulator_init": 0.0}, sqrt(0.01 * 4 + 0.1)),
        ({"epsilon_inside_root": False}, sqrt(0.99 * 1 + 0.01 * 4) + 0.1),
        ({"epsilon_inside_root": False, "accumulator_init": 0.0}, sqrt(0.01 * 4) + 0.1),
        ({"centered": True}, sqrt(0.99 * 1 + 0.01 * 4 - 0.02**2 + 0.1)),
    ],
)
def test_first_rmsprop_step_by_hand(changes, root):
    """Gradient 2, rate 0.5, decay .99, epsilon .1."""
    settings = named.optimizer(decay=0.99, epsilon=0.1, **changes)
    found = run(settings, torch.zeros(1), torch.tensor([[2.0]]), [0.5])
    assert found.item() == pytest.approx(-0.5 * 2 / root, rel=1e-6)


# Gradients 2 and -1, decay .95: means of squares .2 and .24, means .1 and .045, variances .19 and .237975.
@pytest.mark.parametrize(
    ("inside", "first", "second"),
    [
        (True, 2 / 0.4472135955, 1 / 0.4979708826),  # Nature DQN: roots of .2 and .247975
        (False, 2 / 0.4458898944, 1 / 0.4978268144),  # fast-DQN, by Keras: .01 more than the roots of the variances
    ],
)
def test_two_steps_of_the_centered_forms_by_hand(inside, first, second):
    settings = named.optimizer(
        decay=0.95, epsilon=0.01, epsilon_inside_root=inside, accumulator_init=0.0, centered=True
    )
    gradients = torch.tensor([[2.0], [-1.0]])
    found = [run(settings, torch.zeros(1), gradients[:steps], [2.5e-4] * steps).item() for steps in (1, 2)]
    assert found == pytest.approx([-2.5e-4 * first, -2.5e-4 * (first - second)], rel=1e-5)


def test_two_steps_of_c51s_adam_by_hand():
    """Gradients 2 and -1, epsilon .01/32 hat: means .2 and .08, squares .004 and .004996."""
    settings = named.optimizer(name="adam", epsilon=0.01 / 32, epsilon_hat=True)
    first = sqrt(0.001) / 0.1 * 0.2 / (0.0632455532 + 0.0003125)
    second = sqrt(0.001999) / 0.19 * 0.08 / (0.0706823882 + 0.0003125)
    found = run(settings, torch.zeros(1), torch.tensor([[2.0], [-1.0]]), [2.5e-4] * 2).item()
    assert found == pytest.approx(-2.5e-4 * (first + second), rel=1e-5)


@pytest.mark.parametrize("epsilon", [1e-8, 1e-3])
def test_two_steps_of_dba3cs_adam_by_hand(epsilon):
    """Adamski et al. 2018, equations 5 and 6: gradients 2 and -1, means .4 and .12, squares 1 and 1."""
    settings = named.optimizer(name="adam", betas=(0.8, 0.75), epsilon=epsilon, epsilon_hat=True)
    first = sqrt(1 - 0.75) / (1 - 0.8) * 0.4 / (1 + epsilon)
    second = sqrt(1 - 0.75**2) / (1 - 0.8**2) * 0.12 / (1 + epsilon)
    found = run(settings, torch.zeros(1), torch.tensor([[2.0], [-1.0]]), [1e-3] * 2).item()
    assert found == pytest.approx(-1e-3 * (first + second), rel=1e-6)


@pytest.mark.parametrize(("inside", "epsilon", "least"), [(True, 0.1, 0.316), (True, 0.01, 0.1), (False, 0.01, 0.01)])
def test_tiny_gradients_meet_the_papers_least_denominators(inside, epsilon, least):
    settings = named.optimizer(epsilon=epsilon, epsilon_inside_root=inside, accumulator_init=0.0)
    moved = run(settings, torch.zeros(1), torch.tensor([[1e-6]]), [1.0])
    assert 1e-6 / -moved.item() == pytest.approx(least, rel=2e-3)


@pytest.mark.parametrize(("hat", "root"), [(False, sqrt(4) + 0.1), (True, sqrt(4) + 0.1 / sqrt(0.001))])
def test_first_adam_step_by_hand(hat, root):
    """Gradient 2: both corrected means are exact, and epsilon hat acts as epsilon / sqrt(1 - beta2)."""
    settings = named.optimizer(name="adam", epsilon=0.1, epsilon_hat=hat)
    found = run(settings, torch.zeros(1), torch.tensor([[2.0]]), [0.5])
    assert found.item() == pytest.approx(-0.5 * 2 / root, rel=1e-5)


def test_centered_rmsprop_stays_finite_where_the_variance_rollouts_below_nothing():
    """A constant gradient of 3.3 at decay .9 reaches -2.6e-6 after 139 steps."""
    settings = named.optimizer(centered=True, decay=0.9, accumulator_init=0.0, epsilon=1e-10, epsilon_inside_root=False)
    gradients = torch.full((200, 4), 3.3)
    assert torch.isfinite(run(settings, torch.zeros(4), gradients, [1e-3] * 200)).all()


@given(settings_of_all_kinds)
def test_a_restored_optimizer_goes_on_exactly(settings):
    parameters, gradients = problem()
    unbroken, resumed = parameters.clone(), parameters.clone()
    first, second = make(settings, unbroken), make(settings, resumed)
    for step, gradient in enumerate(gradients):
        first.step(unbroken, gradient, 0.01)
        if step == 4:
            resumed.copy_(unbroken)
            second.restore({name: tensor.clone() for name, tensor in first.state().items()})
        if step > 4:
            second.step(resumed, gradient, 0.01)
    assert torch.equal(unbroken, resumed)


@given(settings_of_all_kinds, st.integers(0, 100))
def test_one_optimizer_per_slice_does_what_one_of_the_whole_does(settings, seed):
    parameters, gradients = problem(seed)
    sliced = parameters.clone()
    parts = list(zip(sliced.split([2, 3]), gradients.split([2, 3], dim=1), strict=True))
    optimizers = [make(settings, part) for part, _ in parts]
    for optimizer, (part, slopes) in zip(optimizers, parts, strict=True):
        for slope in slopes:
            optimizer.step(part, slope, 0.01)
    torch.testing.assert_close(sliced, run(settings, parameters, gradients, [0.01] * STEPS))


@given(settings_of_all_kinds)
def test_the_vectors_of_the_state_are_named_without_torch(settings):
    state = make(settings, torch.zeros(7)).state()
    assert settings.state_vectors == tuple(name for name, tensor in state.items() if tensor.shape == (7,))


@pytest.mark.parametrize(
    ("settings", "size"),
    [
        (named.optimizer(), 3),
        (named.optimizer(centered=True), 4),
        (named.optimizer(name="adam"), 4),
    ],
)
def test_the_checkpoint_of_another_model_or_optimizer_is_refused_and_changes_nothing(settings, size):
    optimizer = make(named.optimizer(), torch.zeros(4))
    with pytest.raises(ValueError, match=r"'square': \(4,\).*optimizer\.name and optimizer\.centered"):
        optimizer.restore(make(settings, torch.zeros(size)).state())
    assert torch.all(optimizer.state()["square"] == 1.0)


def test_a_step_reads_the_gradients_and_allocates_no_state():
    parameters, gradients = problem()
    for settings in (named.optimizer(centered=True), named.optimizer(name="adam")):
        optimizer = make(settings, parameters)
        memory = {name: tensor.data_ptr() for name, tensor in optimizer.state().items()}
        kept = gradients.clone()
        optimizer.step(parameters, gradients[0], 0.01)
        assert torch.equal(gradients, kept)
        assert {name: tensor.data_ptr() for name, tensor in optimizer.state().items()} == memory


@pytest.mark.parametrize(
    ("name", "key", "value"),
    [
        ("rmsprop", "learning_rate", 0.0),
        ("adam", "learning_rate_final", -1.0),
        ("rmsprop", "decay", 1.0),
        ("rmsprop", "betas", [0.9, 0.999]),
        ("adam", "betas", [0.9, 1.0]),
        ("adam", "epsilon", 0.0),
        ("rmsprop", "accumulator_init", -1.0),
        ("adam", "accumulator_init", 1.0),
        ("adam", "clip_norm", -0.5),
    ],
)
def test_numbers_without_meaning_and_keys_that_are_not_read_are_refused(name, key, value):
    with pytest.raises(msgspec.ValidationError, match=key):
        named.optimizer(name, **{key: value})
