"""Learners that share a store: one learns exactly as in mode alone, updates of several follow one another."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from actorlearn.address import Shm
from actorlearn.memory.shared import Segment
from actorlearn.optim.specs import OptimizerSettings
from actorlearn.parameters.alone import Alone
from actorlearn.parameters.asynchronous import Async
from actorlearn.parameters.consumed import Consumed, Position
from actorlearn.parameters.interface import Joined, Learner
from actorlearn.parameters.modes import make
from actorlearn.parameters.settings import AloneExchangeSettings, AsyncExchangeSettings
from actorlearn.parameters.store import LearnerRecord, SharedStore, store_fields
from tests import named, reference
from tests.examples import examples

PARAMETERS, STATISTICS = 5003, 3  # three chunks, the last one no multiple of anything
RATE = 0.01
PAAC = named.optimizer()
OPTIMIZERS = [
    PAAC,
    named.optimizer(centered=True, epsilon_inside_root=False, clip_norm=0.0),
    named.optimizer(name="adam", epsilon=1e-5, clip_norm=0.5),
]

LEARNER = """
import sys
from pathlib import Path
import torch
from actorlearn.address import Shm
from actorlearn.parameters.consumed import Consumed, Position
from actorlearn.parameters.interface import Learner
from actorlearn.parameters.modes import make
from actorlearn.parameters.settings import AsyncExchangeSettings
from tests import named
torch.set_num_threads(1)
rank, updates, size = map(int, sys.argv[2:])
weights, gradients = torch.zeros(size), torch.zeros(size)
# Without decay the rule remembers nothing, so the order of updates does not matter.
optimizer = named.optimizer(decay=0.0, accumulator_init=0.0, epsilon=1e-6, clip_norm=0.0)
settings = AsyncExchangeSettings(store=Shm(path=sys.argv[1]))
exchange = make(settings, Learner(optimizer, weights, gradients, number=rank, consumed=Consumed(rank + 1)))
exchange.join(0, 0)
for update in range(updates):
    exchange.agree(7, 1, Position(update, 7 * update))
    gradients.fill_(float((-1) ** rank))
    assert exchange.step(gradients, [0.5 if update % 2 else 0.25]).taken
    exchange.settle()
exchange.close()
"""


def position_in(exchange: Async) -> Position:
    """Position of a learner that goes on after each rollout that it has settled."""
    record = exchange.store.record
    return Position(record.rollouts_learned, record.used) if record else Position()


@contextmanager
def learners(
    folder: Path, optimizer: OptimizerSettings, count: int = 1, local_steps: int = 1
) -> Iterator[list[tuple[Async, Tensor]]]:
    """Make learners in one process, each with its weights and with locks of its own."""
    fields = store_fields(PARAMETERS, len(optimizer.state_vectors), STATISTICS, count)
    path = Segment.create(folder / "store", fields).path
    made: list[tuple[Async, Tensor]] = []
    stores = []
    for rank in range(count):
        weights = start()
        which = AsyncExchangeSettings(store=Shm(path=str(path)), local_steps=local_steps)
        stores.append(SharedStore(Segment.open(path), rank, PARAMETERS, lambda: None))
        learner = Learner(optimizer, weights, torch.zeros(PARAMETERS), number=rank, consumed=Consumed(count))
        exchange = make(which, learner)
        assert isinstance(exchange, Async)
        made.append((exchange, weights))
    try:
        yield made
    finally:
        for opened in (*(exchange for exchange, _ in made), *stores):
            opened.close()


def write_again(store: SharedStore) -> None:
    """Write each chunk again as it is, as if another learner had changed it."""
    for chunk in range(len(store.spans)):
        with store.locked([chunk]):
            store.spare(chunk)[:] = store.current(chunk)
            store.commit(chunk)


def start() -> Tensor:
    return torch.linspace(-1.0, 1.0, PARAMETERS + STATISTICS)


def gradients_of(count: int, seed: int = 0) -> Tensor:
    return torch.randn(count, PARAMETERS, generator=torch.Generator().manual_seed(seed))


def add(statistics: Tensor, moments: Tensor) -> None:
    statistics.add_(moments)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_one_learner_with_a_store_learns_exactly_as_one_alone(tmp_path: Path, optimizer: OptimizerSettings) -> None:
    expected = start()
    alone = Alone(AloneExchangeSettings(), Learner(optimizer, expected, torch.zeros(PARAMETERS)))
    assert alone.join(100, 3) == Joined(100, 3)
    with learners(tmp_path, optimizer) as ((exchange, weights),):
        assert exchange.join(100, 3)[:2] == (100, 3)
        for gradient in gradients_of(6):
            assert exchange.agree(80, 1, position_in(exchange)) == alone.agree(80, 1)
            for each in (exchange, alone):
                each.merge(torch.ones(STATISTICS), add)
            assert exchange.step(gradient.clone(), [RATE]) == alone.step(gradient.clone(), [RATE])
            for each in (exchange, alone):
                each.settle()
            assert not exchange.pull()
        assert torch.equal(weights, expected)
        for name, tensor in alone.state().items():
            assert torch.equal(exchange.state()[name], tensor)
        assert exchange.metrics()["staleness_max"] == 0
        assert exchange.agree(0, 0, position_in(exchange), draining=True) == alone.agree(0, 0, draining=True)


@settings(max_examples=examples(30))
@given(st.lists(st.integers(0, 2), min_size=1, max_size=12), st.integers(0, 100))
def test_updates_of_several_learners_equal_those_of_one_learner_in_the_same_order(tmp_path_factory, turns, seed):
    """With an optimizer whose whole state is in the store; here gradients do not depend on the weights."""
    gradients = gradients_of(len(turns), seed)
    expected = start()
    alone = Alone(AloneExchangeSettings(), Learner(PAAC, expected, torch.zeros(PARAMETERS)))
    with learners(tmp_path_factory.mktemp("async"), PAAC, 3) as made:
        for exchange, _ in made:
            exchange.join(0, 0)
        seen, late = [0] * 3, [[], [], []]
        for number, (turn, gradient) in enumerate(zip(turns, gradients, strict=True)):
            exchange, weights = made[turn]
            late[turn].append(number - seen[turn])
            seen[turn] = number + 1
            assert exchange.agree(10, 1, position_in(exchange)).env_steps == 10 * (number + 1)
            exchange.step(gradient.clone(), [RATE])
            exchange.settle()
            alone.step(gradient.clone(), [RATE])
            assert torch.equal(weights, expected)
        for (exchange, weights), delays in zip(made, late, strict=True):
            told = exchange.metrics()
            assert told["staleness_max"] == max(delays, default=0)
            assert told["staleness_mean"] == pytest.approx(sum(delays) / max(len(delays), 1))
            assert exchange.pull() == (exchange is not made[turns[-1]][0])
            assert torch.equal(weights, expected)


def test_adam_counts_each_learners_own_steps(tmp_path: Path) -> None:
    adam = OPTIMIZERS[2]
    with learners(tmp_path, adam, 2) as made:
        for exchange, _ in made:
            exchange.join(0, 0)
        for gradient, turn in zip(gradients_of(3), (0, 0, 1), strict=True):
            made[turn][0].step(gradient, [RATE])
        assert [int(exchange.state()["steps"]) for exchange, _ in made] == [2, 1]


@settings(max_examples=examples(30))
@given(st.integers(1, 4), st.lists(st.integers(1, 6), min_size=1, max_size=4), st.integers(0, 100))
def test_local_steps_of_one_learner_equal_steps_of_adam(tmp_path_factory, local_steps, batches, seed):
    """Local steps that are left over at the end of a batch continue in the next one; a pull keeps them."""
    adam = named.optimizer(name="adam", epsilon=1e-5, clip_norm=0.5)
    expected = start()
    alone = Alone(AloneExchangeSettings(), Learner(adam, expected, torch.zeros(PARAMETERS)))
    with learners(tmp_path_factory.mktemp("async"), adam, 1, local_steps) as ((exchange, weights),):
        exchange.join(0, 0)
        for number, steps in enumerate(batches):
            exchange.agree(10, steps, position_in(exchange))
            for gradient in gradients_of(steps, seed + number):
                assert exchange.step(gradient.clone(), [RATE]) == alone.step(gradient, [RATE])
            exchange.settle()
            own, *squares = weights.clone(), exchange.state()["square"].clone()
            weights.zero_()
            write_again(exchange.store)
            assert exchange.pull()
            torch.testing.assert_close(weights, own, rtol=1e-5, atol=1e-6)
            torch.testing.assert_close([exchange.state()["square"]], squares, rtol=1e-5, atol=1e-9)
        torch.testing.assert_close(weights, expected, rtol=1e-5, atol=1e-6)


def test_batches_of_one_update_each_reach_the_store_together_after_local_steps_batches(tmp_path: Path) -> None:
    """A2C makes one update of a batch, so its local steps span several batches. A drain leaves none behind."""
    adam = named.optimizer(name="adam", epsilon=1e-5, clip_norm=0.5)
    expected = start()
    alone = Alone(AloneExchangeSettings(), Learner(adam, expected, torch.zeros(PARAMETERS)))
    with learners(tmp_path, adam, 2, local_steps=3) as ((exchange, weights), (other, others)):
        exchange.join(0, 0), other.join(0, 0)
        seen = []
        for number, gradient in enumerate(gradients_of(7)):
            assert exchange.agree(10, 1, position_in(exchange)).env_steps == 10 * (number + 1)
            assert exchange.step(gradient.clone(), [RATE]) == alone.step(gradient, [RATE])
            exchange.settle()
            seen.append(other.pull())
        assert seen == [False, False, True, False, False, True, False]
        assert exchange.agree(0, 0, draining=True).draining
        assert other.pull(), "nothing is left behind"
        torch.testing.assert_close(weights, expected, rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(others, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("pulled", [False, True])
def test_local_steps_of_two_learners_equal_the_slow_multi_step_adam(tmp_path: Path, pulled: bool) -> None:
    """Also if central values are pulled between two local steps: the steps so far are repeated on them."""
    adam = named.optimizer(name="adam", epsilon=1e-5, epsilon_hat=True, clip_norm=0.0)
    turns = (0, 1, 1, 0, 0, 0, 1, 1, 1)
    gradients = gradients_of(len(turns))
    events, slopes, alone = [], [], [0, 0]
    with learners(tmp_path, adam, 2, local_steps=2) as made:
        for exchange, _ in made:
            exchange.join(0, 0)
        for turn, gradient in zip(turns, gradients, strict=True):
            made[turn][0].step(gradient.clone(), [RATE])
            events.append(("step", turn))
            slopes.append(gradient[:3].tolist())
            alone[turn] += 1
            if alone[turn] % 2 == 0:
                events.append(("home", turn))
                slopes.append([0.0] * 3)
            elif pulled:
                made[turn][0].pull()
                events.append(("pull", turn))
                slopes.append([0.0] * 3)
        slow = reference.multi_step_adam(start()[:3].tolist(), events, slopes, RATE, adam)
        found = torch.stack([weights[:3] for _, weights in made])
    torch.testing.assert_close(found, torch.tensor(slow[1:]), rtol=1e-5, atol=1e-6)


def test_several_local_steps_need_adam(tmp_path: Path) -> None:
    with (
        pytest.raises(ValueError, match=r"exchange\.local_steps: 2 needs optimizer\.name: adam, not rmsprop"),
        learners(tmp_path, PAAC, 1, local_steps=2),
    ):
        pass


@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
def test_an_update_that_is_not_finite_does_not_reach_the_store(tmp_path: Path, bad: float) -> None:
    with learners(tmp_path, PAAC, 2) as ((exchange, weights), (other, _)):
        exchange.join(0, 0), other.join(0, 0)
        assert not exchange.step(torch.full((PARAMETERS,), bad), [RATE]).taken
        assert exchange.step(torch.ones(PARAMETERS), [RATE], usable=False).taken is False
        assert torch.equal(weights, start())
        assert not other.pull()


def test_a_learner_that_joins_later_takes_weights_state_statistics_and_counts(tmp_path: Path) -> None:
    with learners(tmp_path, PAAC, 2) as ((first, weights), (second, others)):
        first.weights[-STATISTICS:] = 5.0
        first.join(1000, 10)
        first.agree(40, 1)
        first.merge(torch.ones(STATISTICS), add)
        first.step(gradients_of(1)[0], [RATE])
        first.settle()
        assert second.join(0, 0)[:2] == (1040, 11)
        assert torch.equal(others, weights)
        assert (others[-STATISTICS:] == 6.0).all()
        assert torch.equal(second.state()["square"], first.state()["square"])


def test_steps_of_a_batch_that_is_not_settled_are_not_counted(tmp_path: Path) -> None:
    with learners(tmp_path, PAAC) as ((exchange, _),):
        exchange.join(0, 0)
        exchange.agree(40, 1)
        assert exchange.store.env_steps == 0  # learned from only when it has settled
        assert exchange.agree(40, 1, draining=True).env_steps == 0


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_optimizer_state_fits_both_mode_async_and_mode_alone(tmp_path: Path, optimizer: OptimizerSettings) -> None:
    alone = Alone(AloneExchangeSettings(), Learner(optimizer, start(), torch.zeros(PARAMETERS)))
    for gradient in gradients_of(3):
        alone.step(gradient, [RATE])
    with learners(tmp_path, optimizer) as ((exchange, _),):
        exchange.restore(alone.state())
        exchange.join(0, 0)
        for name, tensor in alone.state().items():
            assert torch.equal(exchange.state()[name], tensor)
        again = Alone(AloneExchangeSettings(), Learner(optimizer, start(), torch.zeros(PARAMETERS)))
        again.restore(exchange.state())
        with pytest.raises(ValueError, match="the checkpoint's state is"):
            exchange.restore(
                Alone(AloneExchangeSettings(), Learner(optimizer, torch.zeros(9000), torch.zeros(9000))).state()
            )


@pytest.mark.nightly
@pytest.mark.timeout(180)  # each learner loads torch, on a machine that may be busy
def test_processes_that_hammer_one_store_lose_no_update(tmp_path: Path) -> None:
    count, updates = 3, 40
    path = Segment.create(tmp_path / "store", store_fields(PARAMETERS, 1, 0, count)).path
    arguments = [str(updates), str(PARAMETERS)]
    processes = [
        subprocess.Popen([sys.executable, "-c", LEARNER, str(path), str(rank), *arguments]) for rank in range(count)
    ]
    assert [process.wait() for process in processes] == [0] * count
    segment = Segment.open(path)
    assert (segment["version"][:3, 0] == count * updates + 1).all()  # filling the store was one
    newest = torch.from_numpy(segment["values"])[(count * updates + 1) % 2, 0]
    # Ranks 0 and 2 go down by the rate and rank 1 up; every step is the rate but for epsilon.
    expected = -(updates / 2 * 0.75) / (1.0 + 1e-6) ** 0.5
    torch.testing.assert_close(newest, torch.full((PARAMETERS,), expected), rtol=1e-4, atol=1e-4)
    records = [SharedStore(segment, rank, PARAMETERS, lambda: None).record for rank in range(count)]
    assert records == [LearnerRecord(updates, 7 * updates, 7 * updates, updates, 0, 0, 0)] * count
