"""The simulation agrees with results computed by hand: shared cores, links, barriers, queues and slow learners."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("simpy", reason="the extra `simulate` is not installed")

from actorlearn.parameters.mixing import GraphSettings
from launch.simulate.estimate import estimate, kth_of, processor_s, update_s
from launch.simulate.model import Prediction, simulate
from launch.simulate.scenario import Costs, Scenario, SlowLearners, Work
from launch.topology.schema import SimulatorsSection

COSTS = Costs(step_s=1e-3, pass_s=2e-3, copy_s=1e-3, gradient_s=8e-3, optimizer_s=2e-3, publish_s=1e-3, wake_s=1e-3)
WORK = Work(horizon=5, simulators=SimulatorsSection(count=2, envs=4))
COLLECT_S = 5 * (4 * 1e-3 + 2e-3) + 1e-3
LEARN_S = 1e-3 + 8e-3 + 2e-3 + 1e-3


def scenario(costs: Costs = COSTS, work: Work = WORK, **numbers: Any) -> Scenario:
    return Scenario(**{"costs": costs, "work": work, "cores": 16.0, **numbers})


def on_machines(exchanging: Any, learners: int, **numbers: Any) -> Scenario:
    return scenario(exchanging=exchanging, learners=learners, nodes=learners, machines=learners, **numbers)


def varied(deviation: float) -> Costs:
    """The costs, with stages that take longer and shorter."""
    return msgspec.structs.replace(COSTS, deviation=deviation)


def update_of(outcome: Prediction) -> float:
    """Seconds of an update of all learners together."""
    return 1 / outcome.updates_per_s


# One learner ----------------------------------------------------------------------------------------------------------


def test_stages_in_turn_take_the_sum_of_their_times() -> None:
    outcome = simulate(scenario())
    assert update_of(outcome) == pytest.approx(COLLECT_S + LEARN_S)
    assert outcome.env_steps_per_s == pytest.approx(40 / (COLLECT_S + LEARN_S))
    assert outcome.shares["collect"] == pytest.approx(COLLECT_S / (COLLECT_S + LEARN_S))


def test_environments_that_wait_do_not_take_the_core_from_each_other() -> None:
    """Two simulators on one core: their steps of 1 ms take turns, and their waits of 3 ms do not."""
    waiting = Costs(step_s=1e-3, step_wait_s=3e-3, pass_s=0.0, gradient_s=2e-3)
    outcome = simulate(scenario(waiting, Work(horizon=1, simulators=SimulatorsSection(count=2, envs=1)), cores=1.0))
    assert update_of(outcome) == pytest.approx(2 * 1e-3 + 3e-3 + 2e-3)


def test_with_two_blocks_the_longer_of_simulation_and_learning_is_the_bound() -> None:
    ahead = scenario(work=WORK.with_simulators(blocks=2))
    assert update_of(simulate(ahead)) == pytest.approx(max(COLLECT_S, LEARN_S), rel=0.01)


def test_simulators_that_share_a_core_take_as_long_as_one_after_the_other() -> None:
    outcome = simulate(scenario(cores=1.0))
    assert update_of(outcome) == pytest.approx(2 * (COLLECT_S - 1e-3) + 1e-3 + LEARN_S)


def test_inference_servers_and_simulators_take_turns_unless_there_are_two_groups() -> None:
    served = msgspec.structs.replace(WORK, servers=1)
    assert update_of(simulate(scenario(work=served))) == pytest.approx(COLLECT_S + LEARN_S)
    alternating = served.with_simulators(groups=2)
    assert update_of(simulate(scenario(work=alternating))) == pytest.approx(20e-3 + 1e-3 + LEARN_S)


def test_an_update_of_a_replay_may_be_less_than_an_optimizer_step() -> None:
    half = msgspec.structs.replace(WORK, optimizer_steps=0.5)
    assert update_of(simulate(scenario(work=half, updates=400))) == pytest.approx(COLLECT_S + 2e-3 + 5e-3, rel=0.01)


# Several learners -----------------------------------------------------------------------------------------------------


def test_learners_that_share_cores_share_their_rate() -> None:
    busy = Costs(step_s=1e-3, pass_s=0.0, gradient_s=10e-3)
    one_core = scenario(
        busy, Work(horizon=5, simulators=SimulatorsSection(count=1, envs=4)), cores=1.0, learners=3, nodes=3
    )
    assert simulate(one_core).updates_per_s == pytest.approx(1 / 30e-3, rel=0.02)


def test_lock_step_waits_for_the_slowest_learner() -> None:
    slow = SlowLearners(count=1, factor=5.0)
    even, one_slow = (simulate(on_machines("quorum", 4, quorum=4, stragglers=s)) for s in (SlowLearners(), slow))
    ratio = one_slow.updates_per_s / even.updates_per_s
    assert ratio == pytest.approx(1 / 5, rel=0.15)
    assert one_slow.bottleneck == "the slowest learner"


def test_a_quorum_of_three_does_not_wait_for_a_learner_that_is_five_times_slower() -> None:
    slow = SlowLearners(count=1, factor=5.0)
    even = simulate(on_machines("quorum", 4, quorum=4))
    spared = simulate(on_machines("quorum", 4, quorum=3, stragglers=slow))
    versions_per_s = spared.updates_per_s * (1 - spared.dropped_share) / 3
    assert versions_per_s >= 0.95 * even.updates_per_s / 4


def test_gradients_that_come_late_are_dropped_and_not_counted() -> None:
    outcome = simulate(on_machines("quorum", 4, quorum=2, updates=200))
    assert outcome.dropped_share == pytest.approx(0.5, abs=0.02)
    assert outcome.env_steps_per_s == pytest.approx(outcome.updates_per_s * 40 * (1 - outcome.dropped_share))


@pytest.mark.nightly
def test_servers_are_bound_by_the_rate_of_their_links() -> None:
    """A gradient of P weights comes in as 4 P bytes, divided among the servers."""
    wide = {"weights": 250_000, "header_bytes": 0.0, "link_bytes_per_s": 1e6, "latency_s": 0.0}
    for servers in (1, 2, 4):
        outcome = simulate(on_machines("servers", 16, parameter_servers=servers, servers_apart=True, **wide))
        assert 0.75 * servers < outcome.updates_per_s <= 1.01 * servers  # while all push, few pull
        assert "link" in outcome.bottleneck
        assert outcome.bytes_per_s == pytest.approx(2 * 1e6 * outcome.updates_per_s, rel=0.05)


def test_shards_use_a_link_in_both_directions_at_once() -> None:
    """Four learners push 1 s of bytes each, and pull as much: 8 s in one shard, and 4 (1 + 1/8) s in eight."""
    wide = {"weights": 250_000, "header_bytes": 0.0, "link_bytes_per_s": 1e6, "latency_s": 0.0}
    for shards in (1, 8):
        case = on_machines("quorum", 4, quorum=4, shards=shards, servers_apart=True, updates=10, **wide)
        outcome = simulate(case)
        assert 4 * update_of(outcome) == pytest.approx(4 * (1 + 1 / shards) + COLLECT_S + LEARN_S, rel=0.03)
        assert estimate(case).env_steps_per_s == pytest.approx(outcome.env_steps_per_s, rel=0.03)


def test_a_hub_receives_all_gradients_and_sends_all_sums_through_one_link() -> None:
    wide = {"weights": 250_000, "header_bytes": 0.0, "link_bytes_per_s": 1e6, "latency_s": 0.0}
    outcome = simulate(on_machines("hub", 5, updates=10, **wide))
    assert 5 * update_of(outcome) == pytest.approx(2 * 4 * 1.0 + COLLECT_S + LEARN_S, rel=0.01)


@pytest.mark.parametrize("own", [{}, {"replay": True}, {"normalized": True}])
def test_a_hub_needs_a_second_barrier_with_a_replay_or_normalised_observations(own: dict[str, bool]) -> None:
    work = Work(horizon=1, simulators=SimulatorsSection(count=1, envs=1), **own)
    slow = on_machines("hub", 2, work=work, updates=10, latency_s=10.0)
    trips = 2 if own else 1
    outcome = simulate(slow)
    assert 2 * update_of(outcome) == pytest.approx(trips * 20.0, rel=0.05)
    assert estimate(slow).env_steps_per_s == pytest.approx(outcome.env_steps_per_s, rel=0.05)


def test_the_mean_staleness_of_a_store_is_the_number_of_the_other_learners() -> None:
    for factor in (1.0, 4.0):
        outcome = simulate(on_machines("store", 6, costs=varied(0.3), stragglers=SlowLearners(count=2, factor=factor)))
        assert outcome.staleness_mean == pytest.approx(5, rel=0.03)


@pytest.mark.nightly
def test_a_server_with_one_processor_is_the_queue_of_one_server_with_fixed_service() -> None:
    """M/D/1 (Pollaczek and Khinchine): the mean wait in the queue is rho s / (2 (1 - rho)).

    Many learners with exponential times between two requests come nearly as a Poisson process.
    """
    learners, service_s, load = 300, 1e-3, 0.6
    think_s = learners * service_s / load
    exponential = Costs(step_s=0.0, pass_s=0.0, gradient_s=think_s, optimizer_s=service_s, deviation=1.0)
    work = Work(horizon=1, simulators=SimulatorsSection(count=1, envs=1))
    queue = scenario(exponential, work, exchanging="servers", learners=learners, updates=60)
    outcome = simulate(msgspec.structs.replace(queue, cores=1000.0, latency_s=0.0))
    exchange_s, load = outcome.shares["exchange"] * learners / outcome.updates_per_s, outcome.updates_per_s * service_s
    assert exchange_s - service_s == pytest.approx(load * service_s / (2 * (1 - load)), rel=0.1)


def test_gossip_waits_for_slow_learners_only_with_max_staleness() -> None:
    slow = SlowLearners(count=1, factor=5.0)
    ring = GraphSettings(name="ring")
    free = simulate(on_machines("gossip", 4, graph=ring, stragglers=slow))
    bound = simulate(on_machines("gossip", 4, graph=ring, stragglers=slow, max_staleness=0))
    own_s, slow_s = COLLECT_S + LEARN_S, 5 * (COLLECT_S + LEARN_S - 1e-3) + 1e-3
    assert free.updates_per_s == pytest.approx(3 / own_s + 1 / slow_s, rel=0.03)
    assert bound.updates_per_s == pytest.approx(4 / slow_s, rel=0.05)
    assert free.staleness_mean > bound.staleness_mean


def test_a_prediction_repeats_with_its_seed() -> None:
    case = on_machines("hub", 3, costs=varied(0.5))
    assert simulate(case) == simulate(case)
    assert simulate(case) != simulate(msgspec.structs.replace(case, seed=2))


@settings(max_examples=10, deadline=None)
@given(
    st.integers(1, 5),
    st.floats(1e-5, 1e-2),
    st.floats(1e-4, 1e-2),
    st.sampled_from([0.0, 0.1, 1.0]),
    st.sampled_from(["store", "alone", "gossip"]),
)
def test_one_more_machine_never_lowers_the_rate_where_nothing_is_shared(
    learners: int, step_s: float, gradient_s: float, deviation: float, exchanging: Any
) -> None:
    costs = Costs(step_s=step_s, pass_s=1e-3, gradient_s=gradient_s, deviation=deviation)
    fewer, more = (simulate(on_machines(exchanging, n, costs=costs, updates=100)) for n in (learners, learners + 1))
    assert more.updates_per_s >= 0.99 * fewer.updates_per_s


# Closed forms ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("exchanging", ["alone", "lock-step", "hub", "store", "servers", "quorum", "gossip"])
@pytest.mark.parametrize("learners", [1, 4])
def test_without_queues_the_closed_form_agrees_with_the_simulation(exchanging: Any, learners: int) -> None:
    case = on_machines(exchanging, learners, weights=1000, quorum=learners)
    assert estimate(case).env_steps_per_s == pytest.approx(simulate(case).env_steps_per_s, rel=0.02)


@pytest.mark.parametrize("exchanging", ["lock-step", "hub"])
def test_learners_with_local_steps_exchange_less_often_and_at_the_end_of_each_batch(exchanging: Any) -> None:
    work = Work(horizon=5, simulators=SimulatorsSection(count=2, envs=4), optimizer_steps=5)
    costs = msgspec.structs.replace(COSTS, hop_s=1e-3)
    case = on_machines(exchanging, 4, work=work, costs=costs, weights=10_000)
    often, seldom = (msgspec.structs.replace(case, local_steps=steps) for steps in (1, 2))
    assert estimate(seldom).env_steps_per_s == pytest.approx(simulate(seldom).env_steps_per_s, rel=0.02)
    assert update_of(simulate(often)) > update_of(simulate(seldom))


def test_the_closed_form_includes_shared_cores_and_the_expected_slowest_learner() -> None:
    crowded = scenario(cores=1.0, learners=4, nodes=4, exchanging="store")
    assert estimate(crowded).env_steps_per_s == pytest.approx(simulate(crowded).env_steps_per_s, rel=0.02)
    late = on_machines("lock-step", 16, costs=varied(0.2))
    assert estimate(late).env_steps_per_s == pytest.approx(simulate(late).env_steps_per_s, rel=0.05)


def test_an_update_takes_the_processor_time_of_its_stages() -> None:
    assert update_s(scenario()) == pytest.approx(COLLECT_S + LEARN_S)
    assert processor_s(scenario()) == pytest.approx(2 * 30e-3 + LEARN_S)


def test_expected_order_statistics_of_normal_numbers() -> None:
    """The largest of 2 is 1 / sqrt(pi) = 0.564, of 10 it is 1.539 (Harter 1961); Blom's form is off by 1 to 4 %."""
    assert kth_of(2, 2) == pytest.approx(0.564, rel=0.05)
    assert kth_of(10, 10) == pytest.approx(1.539, rel=0.01)
    assert kth_of(1, 10) == pytest.approx(-kth_of(10, 10))
