"""Parameter groups: several equal optimizers apart, in every mode; their state is one optimizer's; what is refused."""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from math import sqrt
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from actorlearn.address import Shm
from actorlearn.memory.shared import Segment
from actorlearn.optim.groups import GroupedOptimizer, clip, clip_by_global_norm, groups_within, make_groups
from actorlearn.optim.interface import make as make_optimizer
from actorlearn.optim.schedules import for_batches
from actorlearn.optim.specs import OptimizerSettings
from actorlearn.parameters.interface import Exchange, Learner
from actorlearn.parameters.modes import make
from actorlearn.parameters.settings import AloneExchangeSettings, AsyncExchangeSettings, ExchangeSettings
from actorlearn.parameters.store import store_fields
from tests import named

NETWORKS = {"actor": slice(0, 50), "critic": slice(50, 87), "scale": slice(87, 88)}
SIZE = 88
RATES = [0.01, 0.05, 0.002]
GROUPS = {"critic": {"learning_rate": 0.05, "clip_norm": 0.3}, "scale": {"learning_rate": 0.002, "epsilon": 1e-3}}
KINDS = ({"name": "adam"}, {"name": "rmsprop", "centered": True}, {"name": "rmsprop", "accumulator_init": 0.0})


def grouped(**keys: Any) -> OptimizerSettings:
    settings: OptimizerSettings = named.optimizer(
        **{"learning_rate": 0.01, "epsilon": 1e-5, "clip_norm": 2.0, "groups": GROUPS, **keys}
    )
    return settings


def start() -> Tensor:
    return torch.linspace(-1.0, 1.0, SIZE)


def gradients_of(count: int) -> Tensor:
    return torch.randn(count, SIZE, generator=torch.Generator().manual_seed(1))


def apart(settings: OptimizerSettings, gradients: Tensor) -> Tensor:
    """The weights after steps of three optimizers, each of which has a vector and settings of its own."""
    parts = [start()[span].clone() for span in NETWORKS.values()]
    own = [settings.of_group(name) for name in NETWORKS]
    optimizers = [make_optimizer(each, part) for each, part in zip(own, parts, strict=True)]
    for gradient in gradients:
        for k, span in enumerate(NETWORKS.values()):
            slope = gradient[span].clone()
            clip_by_global_norm(slope, own[k].clip_norm)
            optimizers[k].step(parts[k], slope, RATES[k])
    return torch.cat(parts)


def stepped(exchange: Exchange, gradients: Tensor) -> None:
    for gradient in gradients:
        exchange.agree(10, 1)
        result = exchange.step(gradient.clone(), RATES)
        assert result.taken
        assert result.norm == pytest.approx(float(torch.linalg.vector_norm(gradient)))
        exchange.settle()


def exchange_of(mode: str, folder: Path, settings: OptimizerSettings, weights: Tensor) -> Exchange:
    """An exchange that is alone, or has a store whose chunks end within networks."""
    how: ExchangeSettings = AloneExchangeSettings()
    if mode != "alone":
        fields = store_fields(SIZE, len(settings.state_vectors), 0, 1, chunks=4)
        path = Segment.create(folder / "store", fields).path
        how = AsyncExchangeSettings(store=Shm(str(path)), local_steps=3 if "local" in mode else 1)
    return make(how, Learner(settings, weights, torch.zeros(SIZE), networks=NETWORKS))


@pytest.mark.parametrize("mode", ["alone", "async", "async with local steps"])
@pytest.mark.parametrize("keys", KINDS)
def test_groups_equal_an_optimizer_for_each_network(mode: str, keys: dict[str, Any], tmp_path: Path) -> None:
    if "local" in mode and keys["name"] != "adam":
        pytest.skip("local steps are Adam's")
    settings, weights, gradients = grouped(**keys), start(), gradients_of(6)
    exchange = exchange_of(mode, tmp_path, settings, weights)
    exchange.join(0, 0)
    stepped(exchange, gradients)
    torch.testing.assert_close(weights, apart(settings, gradients), rtol=1e-6, atol=1e-7)
    assert {name: len(exchange.state()[name]) for name in settings.state_vectors} == dict.fromkeys(
        settings.state_vectors, SIZE
    )
    exchange.close()


def test_a_state_goes_on_with_other_groups_and_in_another_mode(tmp_path: Path) -> None:
    """It is one optimizer's: what was learned in one mode is restored in the other, to the bit."""
    settings, gradients = grouped(name="adam"), gradients_of(6)
    weights, resumed = start(), start()
    whole, first = (exchange_of("alone", tmp_path, settings, each) for each in (weights, resumed))
    stepped(whole, gradients)
    stepped(first, gradients[:3])
    second = exchange_of("async", tmp_path, settings, resumed)
    second.restore({name: tensor.clone() for name, tensor in first.state().items()})
    second.join(0, 0)
    stepped(second, gradients[3:])
    assert torch.equal(resumed, weights)
    assert int(second.state()["steps"]) == 6
    exchange_of("alone", tmp_path, grouped(name="adam", groups={}), start()).restore(second.state())
    with pytest.raises(ValueError, match="resume with the model"):
        whole.restore({**first.state(), "mean": torch.zeros(3)})
    second.close()


def test_equal_groups_are_stepped_by_one_optimizer() -> None:
    """Its state is then that optimizer's own, not a copy."""
    for groups, parts in (
        ({}, 1),
        ({"actor": {"learning_rate": 0.01}}, 1),
        (GROUPS, 3),
        ({"scale": {"epsilon": 1}}, 2),
    ):
        made = make_groups(grouped(name="adam", groups=groups), NETWORKS, SIZE)
        optimizer = GroupedOptimizer(make_optimizer, made, start())
        assert len(made) == 3 and len(optimizer.parts) == parts
        assert (optimizer.state()["mean"] is optimizer.parts[0].optimizer.state()["mean"]) == (parts == 1)


def test_each_network_is_clipped_by_its_own_norm() -> None:
    gradients = torch.cat([torch.full((50,), 3.0), torch.full((37,), 4.0), torch.tensor([0.1])])
    groups = make_groups(grouped(name="adam"), NETWORKS, SIZE)
    norm = clip(gradients, groups)
    assert float(norm) == pytest.approx(sqrt(50 * 9.0 + 37 * 16.0 + 0.01))
    norms = [float(torch.linalg.vector_norm(gradients[span])) for span in NETWORKS.values()]
    assert norms == pytest.approx([2.0, 0.3, 0.1])
    one = torch.full((SIZE,), 1.0)
    clip(one, make_groups(grouped(name="adam", groups={}), {}, SIZE))
    assert float(torch.linalg.vector_norm(one)) == pytest.approx(2.0)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_gradient_of_one_network_that_is_not_finite_changes_none(bad: float, tmp_path: Path) -> None:
    weights = start()
    exchange = exchange_of("alone", tmp_path, grouped(name="adam"), weights)
    gradients = torch.ones(SIZE)
    gradients[-1] = bad
    assert not exchange.step(gradients, RATES).taken
    assert torch.equal(weights, start())


def test_a_range_of_the_vector_has_the_groups_in_it() -> None:
    groups = make_groups(grouped(name="adam"), NETWORKS, SIZE)
    expected = [0] * 50 + [1] * 37 + [2]
    for chunks in (1, 2, 5, 88):
        edges = [SIZE * chunk // chunks for chunk in range(chunks + 1)]
        found: list[int] = []
        for low, high in pairwise(edges):
            for group in groups_within(groups, slice(low, high)):
                assert group.span.start == len(found) - low
                found += [group.number] * (group.span.stop - group.span.start)
        assert found == expected


def test_numbers_left_out_are_the_sections_and_schedules_end_in_proportion() -> None:
    settings = grouped(name="adam", learning_rate=0.01, learning_rate_final=0.001, groups=GROUPS)
    critic, scale, actor = (settings.of_group(name) for name in ("critic", "scale", "actor"))
    assert (critic.learning_rate, critic.clip_norm, critic.epsilon) == (0.05, 0.3, 1e-5)
    assert critic.learning_rate_final == pytest.approx(0.005)
    assert (scale.epsilon, scale.clip_norm) == (1e-3, 2.0)
    assert (actor.learning_rate, actor.learning_rate_final) == (0.01, 0.001)
    own = grouped(name="adam", groups={"critic": {"learning_rate": 0.1, "learning_rate_final": 0.0}}).of_group("critic")
    assert (own.learning_rate, own.learning_rate_final) == (0.1, 0.0)


def test_larger_batches_scale_the_numbers_of_groups_too() -> None:
    settings = grouped(name="adam", groups=GROUPS)
    larger = for_batches(settings, 4.0, "sqrt")
    for name in NETWORKS:
        before, after = settings.of_group(name), larger.of_group(name)
        assert after.learning_rate == pytest.approx(2.0 * before.learning_rate)
        assert after.learning_rate_final == pytest.approx(2.0 * before.learning_rate_final)
        assert after.epsilon == pytest.approx(before.epsilon / 4.0) and after.clip_norm == before.clip_norm


@pytest.mark.parametrize(
    ("networks", "words"),
    [
        (
            NETWORKS,
            "'critik' is not a network of the algorithm, whose networks are actor, critic, scale; did you mean critic",
        ),
        (
            {},
            "'critik' is not a network of the algorithm, which has only one; write these numbers in the section",
        ),
    ],
)
def test_a_group_that_is_no_network_is_refused(networks: dict[str, slice], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        make_groups(grouped(name="adam", groups={"critik": {"learning_rate": 0.1}}), networks, SIZE)


def test_state_that_cannot_be_joined_is_refused() -> None:
    class Unnamed:
        def __init__(self, settings: OptimizerSettings, parameters: Tensor) -> None:
            self.momentum = torch.zeros_like(parameters)

        def state(self) -> dict[str, Tensor]:
            return {"momentum": self.momentum}

        def step(self, parameters: Tensor, gradients: Tensor, learning_rate: float) -> None: ...

        restore = step

    groups = make_groups(grouped(name="adam"), NETWORKS, SIZE)
    made = partial(GroupedOptimizer, Unnamed, parameters=start())
    with pytest.raises(
        ValueError, match="keeps the vector 'momentum', which its settings' state_vectors does not list"
    ):
        made(groups)
    made(make_groups(grouped(name="adam", groups={}), NETWORKS, SIZE))
