"""State that no checkpoint contains is found by a rehearsal, `check` and the plan then say that resume is not exact."""

from __future__ import annotations

import pytest

from actorlearn.algorithms.sac import SAC
from actorlearn.tasks import describe
from actorlearn.worker.settings import DescribeSettings
from launch.plan.exactness import choose_exact
from launch.plan.probe import Description
from launch.topology.load import Topology, TopologyError, parse
from tests.algorithms import stateful
from tests.launch.described import DESCRIPTION

CATCH, PENDULUM = "env: {id: 'actorlearn.envs.catch:Catch'}", "env: {id: Pendulum-v1, scale_actions: true}"


def topology(kind: type, *overrides: str) -> Topology:
    env = PENDULUM if issubclass(kind, SAC) else CATCH
    more = ["replay.save=true"] if issubclass(kind, SAC) else []
    return parse(env, [f"algorithm.name={stateful.__name__}:{kind.__name__}", *more, *overrides])


def described(asked: Topology) -> Description:
    """What the plan learns of the parts of a topology, as far as exact resume depends on it."""
    parts = {name: getattr(asked, name) for name in ("env", "model", "algorithm", "optimizer")}
    answer = describe.describe(DescribeSettings(devices={}, **parts))
    return Description(
        **{name: getattr(DESCRIPTION, name) for name in DESCRIPTION.__struct_fields__ if name != "algorithm_inexact"},
        algorithm_inexact=answer["algorithm_inexact"],
    )


@pytest.mark.parametrize("kind", stateful.HIDDEN)
def test_state_that_is_not_declared_is_found_and_resume_is_not_exact(kind: type) -> None:
    asked = topology(kind)
    choice = choose_exact(asked, described(asked))
    name = f"{stateful.__name__}:{kind.__name__}"
    assert choice.value is False
    assert choice.why.startswith(f"algorithm.name: {name}: {stateful.HIDDEN[kind]}")
    with pytest.raises(TopologyError, match="this run has no exact checkpoints: algorithm.name"):
        choose_exact(topology(kind, "checkpoint.exact=true"), described(asked))


@pytest.mark.parametrize("kind", [stateful.Declares, stateful.Caches])
def test_declared_state_and_constants_leave_resume_exact(kind: type) -> None:
    asked = topology(kind)
    assert choose_exact(asked, described(asked)).value is True


@pytest.mark.parametrize("kind", [*stateful.REFUSED, stateful.DeclaresMuch])
def test_state_that_cannot_be_saved_is_refused(kind: type) -> None:
    why = stateful.REFUSED.get(kind, "the algorithm's state has 1000000 numbers; at most ")
    with pytest.raises(ValueError) as refused:
        described(topology(kind))
    assert f"'{stateful.__name__}:{kind.__name__}' cannot" in str(refused.value)
    assert why in str(refused.value)
