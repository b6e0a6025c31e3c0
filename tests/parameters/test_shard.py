"""A shard of central weights: each change is applied once, whatever is lost, repeated, late or killed."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from torch import Tensor

from actorlearn.models.normalize import merge_into, moments_of
from actorlearn.optim.groups import GroupedOptimizer, make_groups
from actorlearn.optim.interface import make as make_optimizer
from actorlearn.parameters.alone import Alone
from actorlearn.parameters.interface import Learner
from actorlearn.parameters.request_line import AGAIN_S
from actorlearn.parameters.settings import AloneExchangeSettings
from actorlearn.parameters.shard import OFFERS_S, OptimizerRule, Shard, StatisticsRule, UpdateRule
from actorlearn.parameters.shard_frames import (
    BFLOAT16,
    CHANGE,
    DROPPED,
    EMPTY,
    FILL,
    FLOAT64,
    PULL,
    PULL_STATE,
    REPEATED,
    ROW,
    STATE,
    UNUSABLE,
    WEIGHTS,
    LearnerRow,
    ShardFrame,
    decode,
    encode,
    most_bytes,
    new_table,
)
from actorlearn.parameters.shard_layout import MOST_SHARDS, SHARD_NUMBERS, Sharding
from tests import named
from tests.examples import examples
from tests.parameters.witness import Witness, made_of

RUN = bytes(range(16))
SIZE = 7
CHANGES = 4
"""Changes that each learner of a history makes."""


def counting(cells: int) -> StatisticsRule:
    """A rule whose weights count how often each change was applied: a gradient has a 1 in a cell of its own."""
    return StatisticsRule(torch.zeros(cells), lambda own, change: own.add_(change))


def sent(frame: ShardFrame) -> ShardFrame:
    """A frame as it arrives: the sender's memory may have changed since."""
    arrived = decode(RUN, encode(RUN, frame))
    assert arrived is not None
    return arrived


class Asker:
    """A learner that makes its changes one after the other."""

    def __init__(self, number: int, learners: int) -> None:
        self.number, self.learners = number, learners
        self.done = 0
        self.known = torch.zeros(learners * CHANGES)
        self.version, self.table, self.base = 0, new_table(learners), (0, 0)
        self.request, self.empty = 1, False

    def again(self) -> None:
        """Be killed and restarted: the weights that it was given are lost, and it repeats the change it was making."""
        self.known, self.version, self.table, self.request = (
            torch.zeros_like(self.known),
            0,
            new_table(self.learners),
            1,
        )

    def asks(self) -> ShardFrame | None:
        """The request that it repeats until it is answered."""
        own = new_table(1)
        own[0] = LearnerRow(written=1 + self.done).words()
        if self.empty:
            state = torch.cat([self.known, torch.zeros(2 * len(self.known))])
            return ShardFrame(
                FILL, 0, self.request, version=self.version, table=self.table, values=state, scalars=(0.0,)
            )
        if self.done == CHANGES:
            return None
        gradient = torch.zeros(self.learners * CHANGES)
        gradient[self.number * CHANGES + self.done] = 1.0
        return ShardFrame(CHANGE, 0, self.request, self.done, self.version, table=own, values=gradient)

    def hears(self, frame: ShardFrame) -> None:
        if frame.request != self.request:
            return
        self.request += 1
        if frame.kind == EMPTY:
            self.empty = True
            return
        self.done += not self.empty
        self.empty = False
        self.known, self.version, self.table, self.base = frame.values, frame.version, frame.table, frame.base


class World:
    """Learners, a shard, and a network that loses, repeats and reorders messages."""

    def __init__(self, learners: int, quorum: int = 0) -> None:
        self.askers = [Asker(number, learners) for number in range(learners)]
        self.quorum = quorum
        self.shard, self.kept = self.new(), None
        self.full = 0
        """Newest version that was made while there were learners enough for a quorum."""
        self.requests: list[tuple[int, ShardFrame]] = []
        self.answers: list[tuple[int, ShardFrame]] = []

    def new(self) -> Shard:
        return Shard(0, Witness(len(self.askers) * CHANGES), len(self.askers), self.quorum)

    def step(self, what: str, which: int) -> None:
        """Let one thing happen; messages stay in the network after they were delivered, and may come again."""
        asker = self.askers[which % len(self.askers)]
        if what == "send" and (frame := asker.asks()) is not None:
            self.requests.append((asker.number, sent(frame)))
        elif what == "deliver" and self.requests:
            self.take(*self.requests[which % len(self.requests)])
        elif what == "answer" and self.answers:
            learner, frame = self.answers[which % len(self.answers)]
            self.askers[learner].hears(frame)
        elif what == "kill server":
            self.restart()
        elif what == "kill learner":
            asker.again()
            self.requests = [each for each in self.requests if each[0] != asker.number]  # its lines died with it
            self.answers = [each for each in self.answers if each[0] != asker.number]
        elif what == "kill machine":
            self.shard, self.kept = self.new(), None
            self.requests, self.answers = [], []  # lines to it are gone

    def restart(self) -> None:
        kept = self.shard.content()
        kept = kept._replace(vectors=[vector.clone() for vector in kept.vectors])
        self.shard = self.new()
        self.shard.restore(kept)

    def take(self, learner: int, frame: ShardFrame) -> None:
        answers = list(self.shard.take(learner, frame, 0.0).items())
        present = [asker.number for asker in self.askers if asker.done < CHANGES]
        answers += self.shard.due(present, 0.0).items()
        if len(present) >= min(self.quorum, len(self.askers)):
            self.full = self.shard.version
        self.answers += [(to, sent(answer)) for to, answer in answers]

    def finish(self) -> None:
        """Deliver everything, in order, until all have made their changes."""
        for _ in range(10 * CHANGES * len(self.askers)):
            for asker in self.askers:
                if (frame := asker.asks()) is not None:
                    self.take(asker.number, sent(frame))
            for learner, frame in self.answers:
                self.askers[learner].hears(frame)
            self.answers = []

    def counted(self) -> list[float]:
        counted: list[float] = self.shard.content().vectors[0].tolist()
        return counted


def lived(world: World, history: list[tuple[str, int]]) -> World:
    """Take a world through a history, and on until all changes have been handled."""
    for what, which in history:
        world.step(what, which)
    world.finish()
    return world


def histories(*faults: str) -> st.SearchStrategy[list[tuple[str, int]]]:
    happening = st.sampled_from(["send", "deliver", "answer"] * 4 + list(faults))
    return st.lists(st.tuples(happening, st.integers(0, 50)), max_size=80)


@hypothesis_settings(max_examples=examples(200))
@given(st.integers(1, 3), histories("kill server", "kill learner"))
def test_a_change_is_applied_once_whatever_is_lost_repeated_late_or_killed(
    learners: int, history: list[tuple[str, int]]
) -> None:
    world = lived(World(learners), history)
    assert world.counted() == [1.0] * (learners * CHANGES)
    assert world.shard.version == sum(world.shard.staleness.values()) or "kill server" in dict(history)


@hypothesis_settings(max_examples=examples(200))
@given(st.integers(1, 3), histories("kill machine"))
def test_a_shard_whose_machine_died_is_filled_with_the_newest_weights_of_a_learner(
    learners: int, history: list[tuple[str, int]]
) -> None:
    world = lived(World(learners), history)
    assert world.counted() == [1.0] * (learners * CHANGES)


@hypothesis_settings(max_examples=examples(100))
@given(st.integers(1, 4), st.integers(1, 4), histories("kill server", "kill learner"))
def test_with_a_quorum_each_gradient_is_averaged_once_or_dropped_and_counted(
    quorum: int, learners: int, history: list[tuple[str, int]]
) -> None:
    world = lived(World(learners, quorum), history)
    rows = [LearnerRow.of(row) for row in world.shard.table.tolist()]
    dropped, counted = sum(row.dropped for row in rows), world.counted()
    assert counted.count(0.0) == dropped
    assert world.shard.staleness.keys() <= {0}
    weights, versions, _ = world.shard.content().vectors
    made = made_of(weights, versions, CHANGES)
    assert list(made) == list(range(1, world.shard.version + 1)), "each version is of some gradients"
    for version, of in made.items():
        assert len(of) == len(set(of)), f"a learner has two gradients in version {version}: {of}"
        assert len(of) == min(quorum, learners) or version > world.full, f"version {version} is of {of}"


@hypothesis_settings(max_examples=examples(100))
@given(st.integers(1, 4), st.integers(1, 4), histories("kill machine"))
def test_with_a_quorum_no_gradient_is_missed_if_the_shards_machine_dies(
    quorum: int, learners: int, history: list[tuple[str, int]]
) -> None:
    world = lived(World(learners, quorum), history)
    counted = world.counted()
    assert counted.count(0.0) == sum(LearnerRow.of(row).dropped for row in world.shard.table.tolist())
    assert sum(counted) == pytest.approx(world.shard.version)  # each version is a mean: its shares make 1


OPTIMIZERS = [named.optimizer(), named.optimizer(centered=True), named.optimizer("adam", epsilon=1e-5)]


def rule(settings: object, weights: Tensor) -> OptimizerRule:
    groups = make_groups(settings, {}, len(weights))  # type: ignore[arg-type]
    return OptimizerRule(GroupedOptimizer(make_optimizer, groups, weights), weights)


def filled(own: UpdateRule, learners: int = 2, quorum: int = 0, weights: Tensor | None = None) -> Shard:
    """A shard that one learner, who is the only one present, has filled with its weights."""
    shard = Shard(3, own, learners, quorum)
    vectors, scalars = own.state()
    start = own.weights.clone() if weights is None else weights
    offer = ShardFrame(
        FILL, 3, 1, values=torch.cat([start, *vectors]), scalars=tuple(scalars), table=new_table(learners), base=(50, 4)
    )
    assert shard.take(0, sent(offer), 0.0) == {}
    ((to, answer),) = shard.due([0], 0.0).items()
    assert (to, answer.kind, answer.version, answer.base) == (0, WEIGHTS, 0, (50, 4))
    return shard


def change(number: int, values: Tensor, version: int = 0, rate: float = 0.01, wire: int = 0) -> ShardFrame:
    return sent(ShardFrame(CHANGE, 3, number + 5, number, version, rates=(rate,), values=values, wire=wire))


@pytest.mark.parametrize("settings", OPTIMIZERS)
def test_changes_equal_steps_of_the_optimizer_one_after_the_other(settings: object) -> None:
    start = torch.linspace(-1, 1, SIZE)
    expected, own = start.clone(), start.clone()
    alone = Alone(AloneExchangeSettings(), Learner(settings, expected, torch.zeros(SIZE)))  # type: ignore[arg-type]
    shard = filled(rule(settings, own))
    for step, gradient in enumerate(torch.randn(6, SIZE, generator=torch.Generator().manual_seed(1))):
        ((_, answer),) = shard.take(step % 2, change(step, gradient * 0.1, step), 0.0).items()
        alone.step(gradient * 0.1, [0.01])
        assert torch.equal(sent(answer).values, expected) and answer.version == step + 1
    ((_, whole),) = shard.take(1, sent(ShardFrame(PULL_STATE, 3)), 0.0).items()
    vectors = [alone.state()[name] for name in settings.state_vectors]  # type: ignore[attr-defined]
    assert whole.kind == STATE and torch.equal(whole.values, torch.cat([expected, *vectors]))
    again = Shard(3, rule(settings, torch.zeros(SIZE)), 2)
    again.restore(shard.content())
    for each in (shard, again):
        each.take(0, change(9, torch.ones(SIZE)), 0.0)
    assert all(torch.equal(a, b) for a, b in zip(shard.content().vectors, again.content().vectors, strict=True))
    assert shard.content().scalars.tolist() == again.content().scalars.tolist()


def test_staleness_is_the_number_of_changes_since_the_weights_were_given() -> None:
    shard = filled(counting(SIZE))
    for number, (learner, version) in enumerate([(0, 0), (1, 0), (0, 1), (0, 3)]):
        shard.take(learner, change(number, torch.ones(SIZE), version), 0.0)
    assert shard.staleness == {0: 2, 1: 2}


def test_gradients_that_are_not_finite_and_requests_that_do_not_fit_change_no_weights() -> None:
    shard = filled(counting(SIZE))
    before = shard.content().vectors[0].clone()
    ((_, answer),) = shard.take(0, change(1, torch.full((SIZE,), torch.nan)), 0.0).items()
    assert answer.outcome == UNUSABLE
    assert shard.take(0, change(1, torch.ones(SIZE)), 0.0)[0].outcome == REPEATED
    odd = [
        (0, change(2, torch.ones(SIZE - 1))),
        (2, change(2, torch.ones(SIZE))),
        (0, ShardFrame(WEIGHTS, 3)),
        (0, ShardFrame(FILL, 3)),
    ]
    assert [shard.take(learner, frame, 0.0) for learner, frame in odd] == [{}] * 4
    assert torch.equal(shard.content().vectors[0], before) and shard.version == 0
    short = Shard(3, rule(named.optimizer(), torch.zeros(SIZE)), 1)
    short.filled = True
    assert short.take(0, change(0, torch.ones(SIZE))._replace(rates=()), 0.0) == {}


def test_every_answer_has_the_newest_row_of_each_learner() -> None:
    shard = filled(counting(SIZE))
    own = new_table(1)
    row = LearnerRow(written=4, rollouts_learned=3, used=600, updates=3, began=0, counts=(7, 8))
    own[0] = row.words()
    assert shard.take(1, sent(ShardFrame(ROW, 3, base=(50, 4), table=own)), 0.0) == {}
    answer = sent(shard.take(0, sent(ShardFrame(PULL, 3)), 0.0)[0])
    assert LearnerRow.of(answer.table[1].tolist()) == row
    own[0] = LearnerRow(written=3).words()
    shard.take(1, sent(ShardFrame(ROW, 3, base=(50, 4), table=own)), 0.0)
    assert LearnerRow.of(shard.table[1].tolist()) == row
    own[0] = LearnerRow(written=5).words()
    shard.take(1, sent(ShardFrame(ROW, 3, base=(0, 0), table=own)), 0.0)
    assert LearnerRow.of(shard.table[1].tolist()) == row, "the other counts from an older checkpoint"


def test_an_empty_shard_waits_for_the_offers_of_all_but_not_for_ever() -> None:
    shard = Shard(0, counting(2), 3)
    assert shard.take(0, sent(ShardFrame(PULL, 0, 9)), 0.0)[0].kind == EMPTY
    for learner, version in ((0, 3), (2, 5)):
        offer = ShardFrame(FILL, 0, 1, version=version, values=torch.full((2,), float(version)), table=new_table(3))
        assert shard.take(learner, sent(offer), 1.0) == {}
        assert shard.due([0, 1, 2], 1.0 + OFFERS_S / 2) == {}
    answers = shard.due([0, 1, 2], 1.0 + OFFERS_S)
    assert answers.keys() == {0, 2} and shard.version == 5 and answers[0].values.tolist() == [5.0, 5.0]


def test_an_empty_shard_waits_for_a_learner_whose_first_request_was_ignored() -> None:
    """A server ignores a learner until the order that lists it has come; the learner asks again after AGAIN_S."""
    shard = Shard(0, counting(2), 2)
    older, newer = (
        sent(ShardFrame(FILL, 0, 1, version=version, values=torch.full((2,), float(version)), table=new_table(2)))
        for version in (0, 5)
    )
    assert shard.take(0, older, 1.0) == {}
    again_s = 1.0 + AGAIN_S + 1.0
    assert shard.due([0, 1], again_s) == {}
    assert shard.take(1, sent(ShardFrame(PULL, 0, 9)), again_s)[1].kind == EMPTY
    assert shard.take(1, newer, again_s) == {}
    answers = shard.due([0, 1], again_s)
    assert answers[0].values.tolist() == answers[1].values.tolist() == [5.0, 5.0]


def test_a_quorum_takes_the_first_gradients_of_a_version_and_drops_the_rest() -> None:
    shard = filled(counting(SIZE), learners=3, quorum=2)
    assert shard.take(0, change(0, torch.ones(SIZE)), 0.0) == shard.due([0, 1, 2], 0.0) == {}
    assert shard.take(2, change(0, 3 * torch.ones(SIZE)), 0.0) == {}
    answers = shard.due([0, 1, 2], 0.0)
    assert answers.keys() == {0, 2} and sent(answers[2]).values.tolist() == [2.0] * SIZE
    ((late, answer),) = shard.take(1, change(0, torch.ones(SIZE)), 0.0).items()
    assert (late, answer.outcome, answer.version) == (1, DROPPED, 1)
    assert [LearnerRow.of(row).dropped for row in shard.table.tolist()] == [0, 1, 0]


def test_a_shard_reports_who_completed_its_versions_and_how_long_the_others_had_waited() -> None:
    shard = filled(counting(SIZE), learners=3, quorum=3)
    for version in (0, 1):
        for learner, now_s in ((0, 1.0), (2, 1.5), (0, 7.0), (1, 9.0)):  # the first sends its gradient again
            shard.take(learner, change(version, torch.ones(SIZE), version), 10.0 * version + now_s)
            shard.due([0, 1, 2], 10.0 * version + now_s)
    assert shard.made == 2
    assert shard.stragglers.metrics() == {"straggler": 1, "straggler_share": 1.0, "straggler_wait_s": 15.0}


def test_a_quorum_waits_for_listed_learners_whether_or_not_they_have_sent_anything() -> None:
    shard = filled(counting(SIZE), learners=3, quorum=3)
    shard.take(0, change(0, torch.ones(SIZE)), 0.0)
    shard.take(1, change(0, torch.ones(SIZE)), 0.0)
    assert shard.due([0, 1, 2], 0.0) == {}, "the third is there and has sent nothing yet"
    assert shard.due([0, 1], 0.0).keys() == {0, 1}, "it was given up before it had sent anything"
    own = new_table(1)
    own[0] = LearnerRow(written=1).words()
    shard.take(1, sent(ShardFrame(ROW, 3, table=own)), 0.0)
    shard.take(0, change(1, torch.ones(SIZE), 1), 0.0)
    assert shard.due([0, 1], 0.0) == {}
    assert shard.due([0], 0.0).keys() == {0}, "the other has died"


def test_statistics_are_merged_as_by_a_learner_alone() -> None:
    rows = torch.randn(2, 30, 3, generator=torch.Generator().manual_seed(2))
    own, expected = (torch.tensor([0.0, *[0.0] * 3, *[1.0] * 3]) for _ in range(2))
    shard = filled(StatisticsRule(own, merge_into))
    for number, seen in enumerate(rows):
        moments = moments_of(seen)
        frame = sent(ShardFrame(CHANGE, 3, number, number, values=moments, wire=FLOAT64))
        assert torch.equal(frame.values, moments)
        ((_, answer),) = shard.take(0, frame, 0.0).items()
        merge_into(expected, moments)
        assert torch.equal(sent(answer).values, expected)


def test_frames_have_the_computed_number_of_bytes_and_bfloat16_halves_the_values() -> None:
    shard = filled(counting(1000), learners=4)
    head = len(encode(RUN, ShardFrame(PULL, 0)))
    for wire, each in ((0, 4), (BFLOAT16, 2)):
        asked = ShardFrame(CHANGE, 3, 1, wire, 0, table=new_table(1), rates=(0.1,), values=torch.ones(1000), wire=wire)
        up, down = encode(RUN, asked), encode(RUN, shard.take(0, asked, 0.0)[0])
        row = new_table(1).nbytes
        assert (len(up), len(down)) == (head + row + 8 + each * 1000, head + 4 * row + each * 1000)
        assert len(up) <= most_bytes(1000, 1, 4, 1, 0)
    odd = torch.tensor([1.0, 1.0 + 2**-8, 1.0 + 3 * 2**-8, 3.0])  # halfway: to the even neighbour
    assert sent(ShardFrame(WEIGHTS, 0, values=odd, wire=BFLOAT16)).values.tolist() == [1.0, 1.0, 1.0 + 2**-6, 3.0]


@pytest.mark.parametrize("cut", [0, 10, 90, 105])
def test_a_cut_frame_and_a_frame_of_another_run_are_refused(cut: int) -> None:
    body = encode(RUN, ShardFrame(CHANGE, 0, values=torch.ones(3), table=new_table(1)))
    assert decode(RUN, body[:cut]) is None and decode(bytes(16), body) is None
    assert decode(RUN, body) is not None


@pytest.mark.parametrize(
    ("parameters", "statistics", "servers", "of_each"),
    [
        *((10, 0, 1, 1), (10, 3, 3, 1), (7, 1, 4, 1), (2, 0, 2, 1)),
        *((2 * SHARD_NUMBERS - 1, 5, 1, 1), (2 * SHARD_NUMBERS, 5, 1, 2), (2 * SHARD_NUMBERS, 5, 2, 1)),
        *((11 * SHARD_NUMBERS + 7, 0, 2, 5), (100 * SHARD_NUMBERS, 9, 3, MOST_SHARDS)),
    ],
)
def test_shards_are_equal_parts_of_the_parameters_and_one_for_the_statistics(
    parameters: int, statistics: int, servers: int, of_each: int
) -> None:
    sharding = Sharding(parameters, statistics, servers)
    spans, shards = sharding.spans, servers * of_each
    edges = [0, *(span.stop for span in spans)]
    assert [span.start for span in spans] == edges[:-1] and edges[-1] == parameters + statistics
    sizes = [span.stop - span.start for span in spans[:shards]]
    assert max(sizes) - min(sizes) <= 1 and len(spans) == shards + bool(statistics)
    owners = [sharding.server_of(shard) for shard in range(len(spans))]
    assert owners[:shards] == [server for server in range(servers) for _ in range(of_each)]
    assert not statistics or (sharding.statistics_shard == shards and owners[-1] == servers - 1)
    assert [sharding.first_of(server) for server in range(servers)] == [owners.index(each) for each in range(servers)]


@pytest.mark.parametrize("rate", [math.nan, math.inf, -0.1, 1e39])
def test_a_request_with_an_impossible_learning_rate_is_refused(rate: float) -> None:
    asked = ShardFrame(CHANGE, 3, 1, 5, 0, table=new_table(1), rates=(0.1, rate), values=torch.ones(SIZE))
    assert decode(RUN, encode(RUN, asked)) is None


@hypothesis_settings(max_examples=examples(200))
@given(st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255)), max_size=8), st.integers(0, 400))
def test_a_shard_survives_frames_with_random_bytes(changed: list[tuple[int, int]], cut: int) -> None:
    asked = ShardFrame(CHANGE, 3, 1, 5, 0, table=new_table(1), rates=(0.1,), values=torch.ones(SIZE))
    body = bytearray(encode(RUN, asked))
    for place, value in changed:
        body[place % len(body)] = value
    frame = decode(RUN, bytes(body[: len(body) - cut % 60]))
    shard = filled(rule(named.optimizer(), torch.zeros(SIZE)))
    if frame is not None:
        for answer in shard.take(1, frame, 0.0).values():
            sent(answer)
        for answer in shard.due([0, 1], 0.0).values():
            sent(answer)
    assert shard.filled
