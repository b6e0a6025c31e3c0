"""Blocks, rounds and the account: simulators, an inference server and a trainer, of which one may be killed.

Simulators are real Groups of one environment that counts its steps; the trainer's rounds are those of real Batches; the
server answers what ``due`` says. Only networks, learning and messages are left out: an action is a function of its
observation, and orders are words that a supervisor raises.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from actorlearn.acting.batching import due
from actorlearn.envs.interface import EnvSpec, Row
from actorlearn.memory.account import Account, account_fields
from actorlearn.memory.fields import Field
from actorlearn.memory.rollout import Blocks, BlockShape, Rounds, block_fields, rounds_fields, steps_in_flight
from actorlearn.metrics.episodes import Episodes
from actorlearn.processes.batches import Batches
from actorlearn.processes.simulator import Group
from actorlearn.wire.messages import Seat
from tests.interleavings.arrays import Words, sleep
from tests.interleavings.code import Done, Process, expect
from tests.interleavings.explore import Scenario

BACK = "back"
"""State of a trainer that was killed."""


def action_of(observation: float) -> int:
    """What the server answers."""
    return int(observation) * 3 + 1


class Counting:
    """An environment whose observation says which seat's it is and how many steps it has made."""

    spec = EnvSpec(observation_shape=(), observation_dtype="float32", actions=2, frames_per_step=1)
    count = 1

    def __init__(self, seat: int) -> None:
        self.seat, self.steps = seat, 0

    def step(self, action: Any, row: Row) -> None:
        expect(int(action[0]) == action_of(self.observation), f"seat {self.seat} steps with {action} at {self.steps}")
        self.steps += 1
        row.observation[0] = self.observation
        row.reward[0] = 1.0
        row.terminated[0] = row.truncated[0] = row.life_lost[0] = row.first[0] = False

    @property
    def observation(self) -> float:
        return float(100 * (self.seat + 1) + self.steps)


class Play:
    """All parties of a small run, over words."""

    def __init__(
        self, kinds: dict[str, type[Any]], seats: int, rounds: int, blocks: int, horizon: int, late: bool
    ) -> None:
        self.words, self.rounds_to_learn, self.blocks, self.horizon = Words(), rounds, blocks, horizon
        shape = BlockShape(
            groups=1,
            blocks=blocks,
            horizon=horizon,
            envs_per_group=1,
            observation_shape=(),
            observation_dtype="float32",
            actions=2,
        )
        self.late = late
        self.names = [f"simulator-{seat}" for seat in range(seats)]
        segments: list[Any] = [self.words.create(name, block_fields(shape)) for name in self.names]
        for number, segment in enumerate(segments):
            segment["shape"][:] = (1, blocks, horizon, 1, number)
            segment["ready"][0] = 1
        self.seats = [kinds.get("blocks", Blocks)(segment) for segment in segments]
        rounds_segment: Any = self.words.create("rounds", rounds_fields())
        self.words.opened = {blocks_.segment.path: blocks_ for blocks_ in self.seats}
        self.rounds = kinds.get("rounds", Rounds)(rounds_segment, 1)
        self.account_segment: Any = self.words.create("account", account_fields())
        self.account = kinds.get("account", Account)(self.account_segment)
        of = self.rounds, self.account, blocks, "cpu", (), Episodes()
        self.batches = kinds.get("batches", Batches)(*of)
        told = [Field("dead", "int64", (seats,), 0), Field("listed", "int64", (1,), 0), Field("over", "int64", (1,), 0)]
        self.told: Any = self.words.create("told", told)
        self.asked: Any = self.words.create("asked", [Field("of", "int64", (rounds + blocks + 2,), 0)])
        self.groups = [
            kinds.get("group", Group)(0, Counting(seat), blocks_, self.rounds)  # type: ignore[arg-type]
            for seat, blocks_ in enumerate(self.seats)
        ]
        self.acted_early = "acted early" in kinds
        self.due: Any = kinds.get("due", due)

    # Simulators ------------------------------------------------------------------------------------------------------

    def simulate(self, seat: int, state: Any) -> Hashable:
        group = self.groups[seat]
        group.tick, group.between_rounds, anew, group.env.steps = state
        group.starts._anew[:] = anew
        if anew:
            group.starts._row.observation[:] = group.env.observation
            group.starts._row.first[:] = True
        if group.advance() in ("waiting", "left"):
            if self.told["over"][0]:
                return Done()
            sleep()
        return group.tick, group.between_rounds, bool(group.starts._anew[0]), group.env.steps

    # Inference -------------------------------------------------------------------------------------------------------

    def answer(self, _state: Any) -> Hashable:
        listed = self._listed()
        asked = self.due([self.seats[seat] for seat in listed], 0)
        for blocks, group, tick in asked:
            observation = blocks.row("observation", group, tick)[0]
            expect(observation == observation, f"seat {blocks.number} is asked for an action without an observation")
            if self.acted_early:
                blocks.mark_acted(group, tick, 0)
            blocks.row("action", group, tick)[0] = action_of(observation)
        if asked:
            round_ = asked[0][2] // self.horizon
            self.asked["of"][round_] = sum(1 << blocks.number for blocks, _, _ in asked)
            version = self.rounds.version(round_)
            for blocks, group, tick in asked:
                blocks.mark_acted(group, tick, version)
            return 0
        if self.told["over"][0]:
            return Done()
        sleep()
        return 0

    def _listed(self) -> list[int]:
        """Who takes part by the newest order: the first seat from the beginning, the others once they are listed."""
        late = range(1, len(self.seats)) if len(self.seats) > 1 and (not self.late or self.told["listed"][0]) else ()
        return [seat for seat in (0, *late) if not self.told["dead"][seat]]

    # Trainer ---------------------------------------------------------------------------------------------------------

    def train(self, state: Any) -> Hashable:
        batches = self.batches
        if state == BACK:
            learned, counts = self.account.committed()
            state = learned, counts.used, counts.dropped["unfinished"], (), (), (), None
        learned, used, unfinished, *who, order = state
        self.account.counts.used = used
        self.account.counts.dropped["unfinished"] = unfinished
        batches.seats, batches.pending, batches.gone = (
            {f"{self.names[seat]}.0": self.seats[seat] for seat in seats} for seats in who
        )
        batches._roster = [*batches.seats, *batches.pending]
        self.rounds.published(10 + learned, learned, learned)
        if (now := tuple(self._listed())) != order:
            listed = [self._seat(seat) for seat in now]
            gone = [self._seat(seat) for seat in range(len(self.seats)) if self.told["dead"][seat]]
            batches.follow(listed, [], gone)
            order = now
        if learned == self.rounds_to_learn:
            self.told["over"][0] = 1
            return Done(learned)
        parts = batches.parts(learned)
        if parts is None:
            opened = batches.unblock(learned)
            if opened == learned:
                sleep()
            learned = opened
        else:
            self.account.counts.used += sum(self._see(learned, blocks) for _, blocks, _ in parts)
            self._see_that_all_meant(learned, {blocks.number for _, blocks, _ in parts})
            learned += 1
            self.rounds.published(10 + learned, learned, learned)
            batches.open_after(learned)
        counts = self.account.counts
        who = [
            tuple(seat.number for seat in seats.values()) for seats in (batches.seats, batches.pending, batches.gone)
        ]
        return (learned, counts.used, counts.dropped["unfinished"], *who, order)

    def _seat(self, seat: int) -> Seat:
        return Seat(name=self.names[seat], incarnation=0, segment=self.names[seat])

    def _see(self, round_: int, blocks: Blocks) -> int:
        """Steps of a block, of which every row must follow from the one before."""
        observation = np.asarray(blocks.block("observation", 0, round_)).ravel()
        first = 100 * (blocks.number + 1) + (round_ - blocks.joined) * self.horizon
        expected = [first + t for t in range(self.horizon + 1)]
        expect(observation.tolist() == expected, f"round {round_} is learned as {observation}, and not {expected}")
        action = np.asarray(blocks.block("action", 0, round_)).ravel()[:-1]
        meant = [action_of(seen) for seen in expected[:-1]]
        expect(action.tolist() == meant, f"round {round_} is learned with {action}, and not {meant}")
        version = np.asarray(blocks.block("policy_version", 0, round_)).ravel()[:-1]
        expected_version = 10 + max(0, round_ - self.blocks + 1)
        expect((version == expected_version).all(), f"round {round_} acts by {version}, and not {expected_version}")
        return self.horizon

    def _see_that_all_meant(self, round_: int, learned: set[int]) -> None:
        """The server must have asked about the same seats, but for those that have died since."""
        mask = int(self.asked["of"][round_])
        asked = {seat for seat in range(len(self.seats)) if mask >> seat & 1}
        expect(learned <= asked, f"round {round_} is learned of {learned}, and was answered for {asked}")
        alive = {seat for seat in asked - learned if not self.told["dead"][seat]}
        expect(not alive, f"round {round_} is learned of {learned}, but {alive} took part and live")

    # The end ---------------------------------------------------------------------------------------------------------

    def at_end(self, said: dict[str, Any], word: Any) -> None:
        learned, counts = Account(self.account_segment).committed()
        produced = sum(self._produced(blocks) for blocks in self.seats)
        waiting = [blocks for blocks in self.seats if not 0 < blocks.released <= self.account.commits]
        in_flight = sum(steps_in_flight(blocks, learned) for blocks in waiting)
        expect(
            produced == counts.used + counts.dropped_steps + in_flight,
            f"{produced} steps were made, {counts.used} used, {counts.dropped_steps} dropped, {in_flight} in flight",
        )

    def _produced(self, blocks: Blocks) -> int:
        """Steps that a seat has made, as its words say."""
        if blocks.joined < 0:
            return 0
        return (
            steps_in_flight(blocks, blocks.joined)
            + (blocks.completed(0) - blocks.joined) * self.horizon
            - sum(
                int((~np.asarray(blocks.block("first", 0, round_))[1:]).sum())
                for round_ in range(blocks.joined, min(blocks.completed(0), blocks.left))
            )
        )


def playing(
    kinds: dict[str, type[Any]] | None = None,
    *,
    seats: int = 1,
    rounds: int = 2,
    blocks: int = 1,
    horizon: int = 1,
    killed: Sequence[str] = (),
    late: bool = False,
) -> Scenario:
    """A small run. ``killed``: who may be: a simulator, which does not come back, or the trainer, which does.
    ``late``: all seats but the first are listed at some time, and not from the beginning.

    Invariants: no row is read before it is written whole, no block is written over before it is learned; everybody
    means the same participants; steps made are used, dropped or in flight.
    """
    play = Play(kinds or {}, seats, rounds, blocks, horizon, late)
    processes = [
        Process("trainer", (0, 0, 0, (), (), (), None), play.train),
        Process("inference", 0, play.answer),
        *(
            Process(name, (-1, True, True, 0), lambda state, seat=seat: play.simulate(seat, state))
            for seat, name in enumerate(play.names)
        ),
    ]
    writers = {"rounds": "trainer", "account": "trainer", "told.over": "trainer", "told.dead": "", "asked": "inference"}
    for name in play.names:
        own = dict.fromkeys([f"{name}.joined", f"{name}.left", f"{name}.released"], "trainer")
        own |= dict.fromkeys([f"{name}.action", f"{name}.policy_version"], "inference")
        shared = {f"{name}.observed": None, f"{name}.acted": None, f"{name}.completed": None}
        writers |= {name + ".": name, **own, f"{name}.shape": "", **shared}  # type: ignore[dict-item]
    if late:

        def list_all(_state: Any) -> Hashable:
            play.told["listed"][0] = 1
            return Done()

        processes.append(Process("supervisor", 0, list_all))
        writers["told.listed"] = "supervisor"
    writers |= {f"told.dead[{seat}]": name for seat, name in enumerate(play.names) if name in killed}
    for at, process in enumerate(processes):
        if process.name in killed:
            again = BACK if process.name == "trainer" else None
            processes[at] = replace(process, mortal=True, again=again)
    at_death = {name: [(f"told.dead[{seat}]", 1)] for seat, name in enumerate(play.names)}
    told = f"{seats} simulators, {rounds} rounds, {blocks} blocks of {horizon}"
    return Scenario(f"blocks: {told}", play.words, processes, int(bool(killed)), writers, {}, at_death, play.at_end)
