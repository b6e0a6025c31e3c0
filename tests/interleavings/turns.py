"""Blocks, rollouts and the account: simulators, an inference server and a trainer, of which one may be killed.

Simulators are real Groups of one environment that counts its steps; the trainer's rollouts are those of real
RolloutMembers; the server answers the rows of ``due_rows``. Only networks, learning and messages are left out: an
action is a function of its observation, and orders are words that a supervisor raises.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from actorlearn.address import Shm
from actorlearn.envs.interface import EnvSpec, Row, empty_row
from actorlearn.memory.account import Account, account_fields
from actorlearn.memory.fields import Field
from actorlearn.memory.rollout import Blocks, Rollouts, block_fields, rollouts_fields, steps_in_flight
from actorlearn.metrics.episodes import Episodes
from actorlearn.processes.inference import due_rows, waiting_rows
from actorlearn.processes.members import RolloutMembers
from actorlearn.processes.simulator import EnvGroup
from actorlearn.wire.messages import Member
from tests.blocks import block_shape
from tests.identities import process as identity
from tests.interleavings.arrays import Words, sleep
from tests.interleavings.code import Done, Process, expect
from tests.interleavings.explore import Scenario

BACK = "back"
"""State of a trainer that was killed."""


def action_of(observation: float) -> int:
    """The server's answer."""
    return int(observation) * 3 + 1


class Counting:
    """An environment whose observation says which member it belongs to and how many steps it has made."""

    spec = EnvSpec(observation_shape=(), observation_dtype="float32", actions=2, frames_per_step=1)
    count = 1

    def __init__(self, member: int) -> None:
        self.member, self.steps = member, 0

    def step(self, action: Any, row: Row) -> None:
        expect(
            int(action[0]) == action_of(self.observation), f"member {self.member} steps with {action} at {self.steps}"
        )
        self.steps += 1
        row.observation[0] = self.observation
        row.reward[0] = 1.0
        row.terminated[0] = row.truncated[0] = row.life_lost[0] = row.first[0] = False

    @property
    def observation(self) -> float:
        return float(100 * (self.member + 1) + self.steps)


class Play:
    """A small run over words of the explorer."""

    def __init__(
        self, kinds: dict[str, type[Any]], members: int, rollouts: int, blocks: int, horizon: int, late: bool
    ) -> None:
        self.words, self.rollouts_to_learn, self.blocks, self.horizon = Words(), rollouts, blocks, horizon
        shape = block_shape(blocks=blocks, horizon=horizon, envs_per_group=1, observation_shape=())
        self.late = late
        self.names = [f"simulator-{member}" for member in range(members)]
        segments: list[Any] = [self.words.create(name, block_fields(shape)) for name in self.names]
        for number, segment in enumerate(segments):
            segment["shape"][:] = (1, blocks, horizon, 1, number)
            segment["ready"][0] = 1
            segment["listed"][0] = not (late and number)
        self.members = [kinds.get("blocks", Blocks)(segment) for segment in segments]
        rollouts_segment: Any = self.words.create("rollouts", rollouts_fields())
        self.words.opened = {blocks_.segment.path: blocks_ for blocks_ in self.members}
        self.rollouts = kinds.get("rollouts", Rollouts)(rollouts_segment, 1)
        self.account_segment: Any = self.words.create("account", account_fields())
        self.account = kinds.get("account", Account)(self.account_segment)
        of = self.rollouts, self.account, Episodes(), blocks
        self.trained = kinds.get("members", RolloutMembers)(*of)
        told = [
            Field("dead", "int64", (members,), 0),
            Field("listed", "int64", (1,), 0),
            Field("over", "int64", (1,), 0),
        ]
        self.told: Any = self.words.create("told", told)
        self.asked: Any = self.words.create("asked", [Field("of", "int64", (rollouts + blocks + 2,), 0)])
        self.groups = [
            kinds.get("group", EnvGroup)(0, Counting(member), blocks_, self.rollouts)  # type: ignore[arg-type]
            for member, blocks_ in enumerate(self.members)
        ]
        self.acted_early = "acted early" in kinds
        self.due: Any = kinds.get("due", due_rows)

    # Simulators ------------------------------------------------------------------------------------------------------

    def simulate(self, member: int, state: Any) -> Hashable:
        group = self.groups[member]
        group.timestep, group.between_rollouts, anew, group.env.steps = state
        row = empty_row(group.env.spec, 1)
        row.observation[:], row.first[:] = group.env.observation, True
        group.starts.begin_from(row)
        if not anew:  # they have begun
            group.starts.begin(row)
        if group.advance() in ("waiting", "left"):
            if self.told["over"][0]:
                return Done()
            sleep()
        return group.timestep, group.between_rollouts, bool(group.starts.state()["anew"][0]), group.env.steps

    # Inference -------------------------------------------------------------------------------------------------------

    def answer(self, _state: Any) -> Hashable:
        listed = [self.members[member] for member in self._listed()]
        for blocks in listed:
            if self.late and blocks.number and not blocks.ready:
                blocks.mark_listed()
        asked = self.due(listed, 0)
        for blocks, group, timestep in asked:
            observation = blocks.row("observation", group, timestep)[0]
            expect(observation == observation, f"member {blocks.number} is asked for an action without an observation")
            if self.acted_early:
                blocks.mark_acted(group, timestep, 0)
            blocks.row("action", group, timestep)[0] = action_of(observation)
        if asked:
            rollout = asked[0][2] // self.horizon
            self.asked["of"][rollout] = sum(1 << blocks.number for blocks, _, _ in asked)
            version = self.rollouts.version(rollout)
            for blocks, group, timestep in asked:
                blocks.mark_acted(group, timestep, version)
            return 0
        if self.told["over"][0]:
            return Done()
        sleep()
        return 0

    def _listed(self) -> list[int]:
        """Return the living members of the newest order: the first one always, the others once they are listed."""
        late = (
            range(1, len(self.members)) if len(self.members) > 1 and (not self.late or self.told["listed"][0]) else ()
        )
        return [member for member in (0, *late) if not self.told["dead"][member]]

    # Trainer ---------------------------------------------------------------------------------------------------------

    def train(self, state: Any) -> Hashable:
        trained = self.trained
        if state == BACK:
            learned, counts = self.account.read_committed()
            state = learned, counts.used, counts.dropped["unfinished"], (), (), (), None
        learned, used, unfinished, *who, order = state
        self.account.rollouts_learned = learned
        self.account.steps.used = used
        self.account.steps.dropped["unfinished"] = unfinished
        trained.playing, trained.pending, trained.gone = (
            {f"{self.names[member]}.0": self.members[member] for member in members} for members in who
        )
        trained.listed = [*trained.playing, *trained.pending]
        self.rollouts.published(10 + learned, learned, learned)
        if (now := tuple(self._listed())) != order:
            listed = [self._member(member) for member in now]
            gone = [self._member(member) for member in range(len(self.members)) if self.told["dead"][member]]
            trained.follow(listed, [], gone)
            order = now
        if learned == self.rollouts_to_learn:
            self.told["over"][0] = 1
            return Done(learned)
        parts = trained.parts()
        if parts is None:
            trained.unblock()
            if trained.next == learned:
                sleep()
        else:
            self.account.steps.used += sum(self._see(learned, blocks) for _, blocks, _ in parts)
            self._see_that_all_meant(learned, {blocks.number for _, blocks, _ in parts})
            learned += 1
            self.account.rollouts_learned = learned
            self.rollouts.published(10 + learned, learned, learned)
            trained.open_next()
        counts = self.account.steps
        who = [
            tuple(member.number for member in members.values())
            for members in (trained.playing, trained.pending, trained.gone)
        ]
        return (trained.next, counts.used, counts.dropped["unfinished"], *who, order)

    def _member(self, member: int) -> Member:
        return Member(id=identity(self.names[member]), segment=Shm(self.names[member]))

    def _see(self, rollout: int, blocks: Blocks) -> int:
        """Check that every row of a block follows from the row before; return the number of steps."""
        observation = np.asarray(blocks.block("observation", 0, rollout)).ravel()
        first = 100 * (blocks.number + 1) + (rollout - blocks.joined) * self.horizon
        expected = [first + t for t in range(self.horizon + 1)]
        expect(observation.tolist() == expected, f"rollout {rollout} is learned as {observation}, and not {expected}")
        action = np.asarray(blocks.block("action", 0, rollout)).ravel()[:-1]
        meant = [action_of(seen) for seen in expected[:-1]]
        expect(action.tolist() == meant, f"rollout {rollout} is learned with {action}, and not {meant}")
        version = np.asarray(blocks.block("policy_version", 0, rollout)).ravel()[:-1]
        expected_version = 10 + max(0, rollout - self.blocks + 1)
        expect((version == expected_version).all(), f"rollout {rollout} acts by {version}, and not {expected_version}")
        return self.horizon

    def _see_that_all_meant(self, rollout: int, learned: set[int]) -> None:
        """Check that the server answered the same members, apart from those that have died since."""
        mask = int(self.asked["of"][rollout])
        asked = {member for member in range(len(self.members)) if mask >> member & 1}
        expect(learned <= asked, f"rollout {rollout} is learned of {learned}, and was answered for {asked}")
        alive = {member for member in asked - learned if not self.told["dead"][member]}
        expect(not alive, f"rollout {rollout} is learned of {learned}, but {alive} took part and live")

    # The end ---------------------------------------------------------------------------------------------------------

    def at_end(self, said: dict[str, Any], word: Any) -> None:
        learned, counts = Account(self.account_segment).read_committed()
        produced = sum(self._produced(blocks) for blocks in self.members)
        waiting = [blocks for blocks in self.members if not 0 < blocks.released <= self.account.commits]
        in_flight = sum(steps_in_flight(blocks, learned) for blocks in waiting)
        expect(
            produced == counts.used + counts.dropped_steps + in_flight,
            f"{produced} steps were made, {counts.used} used, {counts.dropped_steps} dropped, {in_flight} in flight",
        )

    def _produced(self, blocks: Blocks) -> int:
        """Return the number of steps that a member has made, by its words."""
        if blocks.joined < 0:
            return 0
        return (
            steps_in_flight(blocks, blocks.joined)
            + (blocks.completed(0) - blocks.joined) * self.horizon
            - sum(
                int((~np.asarray(blocks.block("first", 0, rollout))[1:]).sum())
                for rollout in range(blocks.joined, min(blocks.completed(0), blocks.left))
            )
        )


def playing(
    kinds: dict[str, type[Any]] | None = None,
    *,
    members: int = 1,
    rollouts: int = 2,
    blocks: int = 1,
    horizon: int = 1,
    killed: Sequence[str] = (),
    late: bool = False,
) -> Scenario:
    """A small run. ``killed``: processes that may die: a simulator, which does not come back, or the trainer, which
    does. ``late``: all members but the first are listed later, and not from the beginning.

    Invariants: no row is read before it is written whole; no block is written over before it is learned; all processes
    agree on the participants; steps made are used, dropped or in flight.
    """
    play = Play(kinds or {}, members, rollouts, blocks, horizon, late)
    processes = [
        Process("trainer", (0, 0, 0, (), (), (), None), play.train),
        Process("inference", 0, play.answer),
        *(
            Process(name, (-1, True, True, 0), lambda state, member=member: play.simulate(member, state))
            for member, name in enumerate(play.names)
        ),
    ]
    writers = {
        "rollouts": "trainer",
        "account": "trainer",
        "told.over": "trainer",
        "told.dead": "",
        "asked": "inference",
    }
    for name in play.names:
        own = dict.fromkeys([f"{name}.joined", f"{name}.left", f"{name}.released"], "trainer")
        own |= dict.fromkeys([f"{name}.action", f"{name}.policy_version", f"{name}.listed"], "inference")
        shared = {f"{name}.observed": None, f"{name}.acted": None, f"{name}.completed": None}
        writers |= {name + ".": name, **own, f"{name}.shape": "", **shared}  # type: ignore[dict-item]
    if late:

        def list_all(_state: Any) -> Hashable:
            play.told["listed"][0] = 1
            return Done()

        processes.append(Process("supervisor", 0, list_all))
        writers["told.listed"] = "supervisor"
    writers |= {f"told.dead[{member}]": name for member, name in enumerate(play.names) if name in killed}
    for at, process in enumerate(processes):
        if process.name in killed:
            again = BACK if process.name == "trainer" else None
            processes[at] = replace(process, mortal=True, again=again)
    at_death = {name: [(f"told.dead[{member}]", 1)] for member, name in enumerate(play.names)}
    told = f"{members} simulators, {rollouts} rollouts, {blocks} blocks of {horizon}"
    return Scenario(f"blocks: {told}", play.words, processes, int(bool(killed)), writers, {}, at_death, play.at_end)


def admitting(first_rollout: int = 7) -> Scenario:
    """A trainer that admits a simulator to a later rollout, while a server looks for observations without actions.

    Invariant: there are none, because the simulator has not begun.
    """
    words = Words()
    segment: Any = words.create("simulator", block_fields(block_shape(horizon=1, envs_per_group=1)))
    segment["shape"][:] = (1, 1, 1, 1, 0)
    blocks = Blocks(segment)

    def admit(_state: Any) -> Hashable:
        blocks.admit(first_rollout)
        return Done()

    def look(_state: Any) -> Hashable:
        asked = [(group, timestep) for _, group, timestep in waiting_rows([blocks])]
        expect(not asked, f"actions are asked for (group, time step) {asked}")
        if blocks.joined < 0:
            sleep()
            return 0
        return Done()

    processes = [Process("trainer", 0, admit), Process("inference", 0, look)]
    return Scenario("admission", words, processes, writers={"simulator": "trainer"})
