"""Updates of several learners in lock-step: as many barriers as needed, and the same weights on several machines."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import pytest

from actorlearn.address import Shm
from actorlearn.learning.make import make
from actorlearn.learning.update import Learning, Update
from actorlearn.memory.shared import Segment
from actorlearn.models.specs import ModelSettings
from actorlearn.parameters.allreduce import Sync
from actorlearn.parameters.barrier import rows_fields
from actorlearn.parameters.consumed import Position
from actorlearn.parameters.modes import SYNC
from actorlearn.parameters.settings import SyncExchangeSettings
from actorlearn.wire.identity import trainer_id
from tests import named
from tests.algorithms import stateful
from tests.learning.made import ENVIRONMENTS, HORIZON, gathered, trainer_settings
from tests.parameters.networked import Listing

LEARNERS, UPDATES = 2, 3
NORMALIZED = named.model(name="mlp", hidden_sizes=[4], normalize_observation=True)


def learners(
    folder: Path,
    listing: Listing | None,
    model: ModelSettings | None,
    alive: Callable[[], bool] = lambda: True,
    **algorithm: Any,
) -> list[Learning]:
    """Learners that have joined each other: through shared memory, or at a hub; ``alive``: whether they go on."""
    made = [make(_settings(learner, model, algorithm)) for learner in range(LEARNERS)]
    trainers = [trainer_id(learner) for learner in range(LEARNERS)]
    if listing is None:
        Segment.create(folder / "gradients", rows_fields(LEARNERS, made[0].weights.numel())).close()
    host = "127.0.0.1" if listing else ""
    for each, own in zip(made, trainers, strict=True):
        shared = SyncExchangeSettings(
            rendezvous=Shm(f"{folder}/learners"), gradients=Shm(f"{folder}/gradients"), host=host
        )
        settings = SYNC.among(shared, trainers, own, 1)
        assert isinstance(settings, SyncExchangeSettings)
        endpoints = listing.admit(own) if listing else None
        learner = dataclasses.replace(each.peers.learner, endpoints=endpoints, alive=alive)
        each.peers.exchange = Sync(settings, learner, hash_every=1)
    return made


def _settings(learner: int, model: ModelSettings | None, algorithm: dict[str, Any]) -> Any:
    settings = trainer_settings(model, **{"reward_clip": None, **algorithm})
    return msgspec.structs.replace(settings, id=trainer_id(learner), learners=LEARNERS)


def together(made: list[Learning], work: Callable[[int, Learning], Any]) -> list[Any]:
    with ThreadPoolExecutor(len(made)) as threads:
        return list(threads.map(work, range(len(made)), made))


def arrivals_of(made: Learning) -> int:
    exchange = made.exchange
    assert isinstance(exchange, Sync)
    return int(getattr(exchange.barrier, "arrivals", 0))


CASES = {
    "one step": (1, None, {}),
    "one step, normalised": (2, NORMALIZED, {}),
    "six steps": (6, None, {"name": "ppo", "epochs": 2, "minibatches": 3}),
    "six steps, normalised": (7, NORMALIZED, {"name": "ppo", "epochs": 2, "minibatches": 3}),
    "a limit on the divergence": (2 * 6, None, {"name": "ppo", "epochs": 2, "minibatches": 3, "target_kl": 1000.0}),
    "state of the algorithm": (2, None, {"name": f"{stateful.__name__}:{stateful.Declares.__name__}"}),
    "no step": (1, None, {"epochs": 0}),
}


@pytest.mark.parametrize("case", CASES)
def test_an_update_over_a_hub_needs_few_barriers_and_has_the_weights_of_one_machine(tmp_path: Path, case: str) -> None:
    barriers, model, algorithm = CASES[case]
    hashes, counted = set(), []
    for listing in (None, Listing()):
        made = learners(tmp_path, listing, model, **algorithm)

        def learn(learner: int, each: Learning) -> list[Update]:
            each.exchange.join(0, 0)
            before, updates = arrivals_of(each), []
            for rollout in range(UPDATES):
                steps = rollout * HORIZON * ENVIRONMENTS
                updates.append(each.update(gathered(learner, rollout), Position(rollout, steps), LEARNERS * steps))
            counted.append(arrivals_of(each) - before)
            return updates

        updates = together(made, learn)
        assert {one.outcome for each in updates for one in each} == {"learned"}
        assert {each[-1].env_steps for each in updates} == {LEARNERS * UPDATES * HORIZON * ENVIRONMENTS}
        hashes |= {each.sha256() for each in made}
        together(made, lambda _, each: each.exchange.close())
    assert len(hashes) == 1
    assert counted[LEARNERS:] == [UPDATES * barriers] * LEARNERS


@pytest.mark.parametrize("model", [None, NORMALIZED], ids=["plain", "normalised"])
def test_a_learner_does_not_use_its_gradient_if_another_learner_leaves(model: ModelSettings | None) -> None:
    made = learners(Path(), Listing(), model)
    before = made[0].sha256()

    def learn(learner: int, each: Learning) -> str:
        each.exchange.join(0, 0)
        if learner:
            each.leave(Position())
            return ""
        return each.update(gathered(0, 0), Position(), 0).outcome

    assert together(made, learn) == ["leaving", ""]
    assert made[0].sha256() == before == made[1].sha256()
    assert made[0].consumed.position(1) == Position() == made[0].consumed.position(0)
    together(made, lambda _, each: each.exchange.close())


def test_a_learner_that_is_told_to_end_before_it_agrees_does_not_wait(tmp_path: Path) -> None:
    """Another learner may still collect its rollout, for longer than the time in which this one has to end."""
    told = threading.Event()
    made = learners(tmp_path, Listing(), None, alive=lambda: not told.is_set())
    together(made, lambda _, each: each.exchange.join(0, 0))
    told.set()
    assert made[1].update(gathered(1, 0), Position(), 0).outcome == "stopped"
    together(made, lambda _, each: each.exchange.close())


def test_a_learner_with_fewer_steps_left_recomputes_its_gradient_after_the_others_steps(tmp_path: Path) -> None:
    """Learner 1 has only statistics to give, or has made a step more than learner 0, before the next barrier."""
    hashes = []
    for number, listing in enumerate((None, Listing())):
        folder = tmp_path / str(number)
        folder.mkdir()
        made = learners(folder, listing, None, name="ppo", epochs=2, minibatches=2)

        def learn(learner: int, each: Learning) -> list[str]:
            each.exchange.join(0, 0)
            for rank, done in enumerate((1, 2)):  # as if weights had been taken that have steps of rollout 0
                each.consumed.begin(rank, Position())
                for _ in range(done):
                    each.consumed.step([rank])
            steps = HORIZON * ENVIRONMENTS
            first = each.update(gathered(learner, 0), Position(), 0)
            second = each.update(gathered(learner, 1, only_statistics=bool(learner)), Position(1, steps), 2 * steps)
            assert [each.consumed.position(rank) for rank in range(2)] == [Position(2, 2 * steps)] * 2
            return [first.outcome, second.outcome]

        assert together(made, learn) == [["learned"] * 2] * 2
        hashes += [each.sha256() for each in made]
        together(made, lambda _, each: each.exchange.close())
    assert len(set(hashes)) == 1


def test_learners_end_at_the_same_step_when_one_is_told_to_end(tmp_path: Path) -> None:
    made = learners(tmp_path, Listing(), None, name="ppo", epochs=4, minibatches=2)
    steps = [0, 0]

    def learn(learner: int, each: Learning) -> str:
        exchange = each.exchange
        exchange.join(0, 0)
        own = exchange.ending
        each.going_on = lambda: not own(bool(learner) and steps[learner] >= 2)
        step = exchange.step

        def counting(*arguments: Any) -> Any:
            steps[learner] += 1
            return step(*arguments)

        exchange.step = counting  # type: ignore[method-assign]
        return each.update(gathered(learner, 0), Position(), 0).outcome

    assert together(made, learn) == ["stopped"] * 2
    assert steps == [3, 3], "the learner asked before its third step, with which all heard of it"
    assert made[0].sha256() == made[1].sha256()
    assert made[0].consumed.done(0, 0) == made[1].consumed.done(1, 0) == 3
    together(made, lambda _, each: each.exchange.close())


def test_a_gradient_that_is_not_finite_is_skipped_by_all(tmp_path: Path) -> None:
    made = learners(tmp_path, Listing(), None)
    before = made[0].sha256()

    def learn(learner: int, each: Learning) -> str:
        each.exchange.join(0, 0)
        own = gathered(learner, 0)
        if learner:
            own.batch.reward[0, 0] = float("inf")
        return each.update(own, Position(), 0).outcome

    assert together(made, learn) == ["learned"] * 2
    assert [each.finite for each in made] == [False] * 2
    assert made[0].sha256() == made[1].sha256() == before
    together(made, lambda _, each: each.exchange.close())


def test_a_learner_that_dies_before_the_barrier_leaves_the_weights_as_they_were(tmp_path: Path) -> None:
    listing = Listing()
    made = learners(tmp_path, listing, None)
    before = made[0].sha256()

    def learn(learner: int, each: Learning) -> str:
        each.exchange.join(0, 0)
        if learner:
            listing.lose(trainer_id(1))
            return ""
        return each.update(gathered(learner, 0), Position(), 0).outcome

    assert together(made, learn) == ["lost", ""]
    assert made[0].sha256() == before and made[0].consumed.done(0, 0) == 0
    together(made, lambda _, each: each.exchange.close())
