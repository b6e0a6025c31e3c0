"""The members of a learner: the simulators that take part in its rollouts, as its trainer knows them.

A simulator is admitted with a numbered rollout, and leaves with one. When its complete rollouts are all learned from,
it is released: its segment of shared memory may then be removed. The trainer opens rollouts for simulators to play.

Reads: the supervisor's `Order`; ``ready``, ``listed``, ``observed`` and ``completed`` of each simulator in shared
memory. Writes: ``joined``, ``left`` and ``released`` of each simulator, and ``open``, which lets simulators overwrite
learned rollouts; commits the step counts. ``memory/rollout.py`` explains these words.
"""

from __future__ import annotations

from collections.abc import Sequence

from actorlearn.failpoints import hit
from actorlearn.memory.account import Account
from actorlearn.memory.rollout import Blocks, GroupRollout, Rollouts, steps_in_flight, unfinished_steps
from actorlearn.metrics.episodes import Episodes
from actorlearn.wire.channel import Waiter
from actorlearn.wire.identity import ProcessId
from actorlearn.wire.messages import MOST_NAMES, Member, Order, Released
from actorlearn.wire.wakeup import Wakeup, Wakeups
from actorlearn.worker.settings import TrainerSettings
from actorlearn.worker.worker import POLL_MS, Worker, open_members


class RolloutMembers:
    """The simulators of one learner, and the rollouts that each of them plays."""

    def __init__(self, rollouts: Rollouts, account: Account, episodes: Episodes, open_rollouts: int) -> None:
        """Start without simulators.

        ``open_rollouts`` is the number of rollouts, from the next one to learn from on, that simulators may begin. With
        1, experience is strictly on-policy; with 2, the policy lag is 1. If a simulator ends within a rollout, its
        steps of this rollout count as dropped in ``account``, and ``episodes`` drops its unfinished games.
        """
        self.rollouts = rollouts
        self.account = account
        self.episodes = episodes
        self.open_rollouts = open_rollouts
        self.playing: dict[str, Blocks] = {}
        """Simulators that take part in rollouts, by socket id, in the order of the supervisor's newest list."""
        self.gone: dict[str, Blocks] = {}
        """Simulators that have left or died, and whose shared memory is still needed."""
        self.pending: dict[str, Blocks] = {}
        """Simulators that wait until they may take part in a rollout."""
        self.released: list[str] = []
        """Socket ids of ended simulators whose memory is not needed any more; not reported to the supervisor yet."""
        self.ids: dict[str, ProcessId] = {}
        """Identities of the listed simulators and of those in ``gone``, by socket id."""
        self.listed: list[str] = []
        """Socket ids of the simulators in the supervisor's newest list."""

    def follow(self, members: Sequence[Member], leaving: Sequence[str], gone: Sequence[Member] = ()) -> None:
        """Update the simulators: new ones wait until they may begin a rollout, and dead ones are no longer waited for.

        ``members`` are the simulators that run now, and ``leaving`` the names of processes told to finish. ``gone`` are
        those that have ended and whose shared memory is still needed, perhaps since before a restart of this trainer.
        """
        known = {**self.playing, **self.pending, **self.gone}
        listed = open_members(members, known)
        self.listed = list(listed)
        self.gone |= {socket_id: blocks for socket_id, blocks in self.playing.items() if socket_id not in listed}
        for socket_id, blocks in open_members(gone, known).items():
            if 0 < blocks.released <= self.account.commits:
                self.released.append(socket_id)
            else:
                self.gone[socket_id] = blocks
        self.playing = {socket_id: blocks for socket_id, blocks in listed.items() if blocks.joined >= 0}
        self.pending = {socket_id: blocks for socket_id, blocks in listed.items() if blocks.joined < 0}
        ids = {member.id.socket_id: member.id for member in (*gone, *members)} | self.ids
        self.ids = {socket_id: ids[socket_id] for socket_id in (*self.gone, *listed)}
        for socket_id in [socket_id for socket_id in self.pending if ids[socket_id].name in leaving]:
            self.playing[socket_id] = self.pending.pop(socket_id)
            self.playing[socket_id].admit(self.rollouts.open)  # the loop below lets it leave with the same rollout
        for socket_id, blocks in self.playing.items():
            if ids[socket_id].name in leaving and blocks.left > self.rollouts.open:
                blocks.leave(self.rollouts.open)

    @property
    def next(self) -> int:
        """Number of the rollout to learn from next."""
        return self.account.rollouts_learned

    def parts(self) -> list[GroupRollout] | None:
        """Return the environment groups that have played the next rollout; None until all of them have completed it.

        They are in the order of simulator numbers, also after a simulator dies. A restarted trainer that continues an
        update therefore draws the same remaining minibatches.
        """
        parts, rollout = [], self.next
        for socket_id, blocks in sorted({**self.gone, **self.playing}.items(), key=lambda member: member[1].number):
            for group in range(blocks.groups):
                if not blocks.takes_part(rollout):
                    continue
                if blocks.completed(group) > rollout:
                    parts.append(GroupRollout(socket_id, blocks, group))
                elif socket_id in self.playing:
                    return None
        return parts or None

    def rows(self) -> int:
        """Return how many time steps of the next rollout have been observed in every environment that plays it."""
        rollout = self.next
        playing = [blocks for blocks in self.playing.values() if blocks.takes_part(rollout)]
        return max(0, min((b.observed(g) - rollout * b.horizon for b in playing for g in range(b.groups)), default=0))

    def progress(self) -> tuple[int, int]:
        """Return how many steps of the next rollout are made, and how many it has when it is complete.

        The first observation of a new game counts as a step here, so that both are equal for a complete rollout.
        """
        rollout, made, complete = self.next, 0, 0
        for blocks in self.playing.values():
            if blocks.takes_part(rollout):
                rows = [blocks.rows(group, rollout) for group in range(blocks.groups)]
                made += sum(rows) * blocks.envs_per_group
                complete += blocks.groups * blocks.horizon * blocks.envs_per_group
        return made, complete

    def in_flight(self) -> int:
        """Return the number of environment steps that are made and neither learned from nor dropped yet."""
        return sum(steps_in_flight(blocks, self.next) for blocks in (*self.gone.values(), *self.playing.values()))

    def open_next(self) -> None:
        """Commit the step counts, and let simulators, also new ones, begin the next rollouts.

        A new rollout overwrites the memory of one that was learned from.
        """
        self.release()
        hit("members.released")
        self.account.commit()
        hit("members.committed")
        self._admit()
        hit("members.admitted")
        if self.playing:  # otherwise the first members, which become ready one by one, could not begin together
            self.rollouts.raise_to(self.next + self.open_rollouts)

    def unblock(self) -> None:
        """Let simulators begin a rollout, or skip one, if otherwise no rollout would ever become complete.

        It is called while the next rollout is incomplete. Usually simulators are playing it, and nothing has to be
        done. No simulator plays it in three cases: none has begun yet; a trainer died before it opened the rollout; or
        all participants have died, and the other simulators joined at a later rollout.
        """
        playing = self.playing.values()
        taking_part = any(blocks.takes_part(self.next) for blocks in playing)
        if taking_part and self.rollouts.open >= self.next + self.open_rollouts:
            return
        if not taking_part and not self._admissible() and any(blocks.joined > self.next for blocks in playing):
            self.account.rollouts_learned += 1  # only one, because dead members may have complete blocks of later ones
        self.open_next()

    def release(self) -> None:
        """Release the memory of ended simulators of which no complete rollout is left; count their unfinished steps.

        The memory may be removed after the next commit of the step counts. If the trainer is killed before that commit,
        it does the same again after its restart.
        """
        for socket_id in [socket_id for socket_id, blocks in self.gone.items() if not _remaining(blocks, self.next)]:
            blocks = self.gone.pop(socket_id)
            for group in range(blocks.groups):
                self.account.steps.dropped["unfinished"] += unfinished_steps(blocks, group)
                self.episodes.drop(GroupRollout(socket_id, blocks, group).owner)
            blocks.release(self.account.commits + 1)
            self.released.append(socket_id)

    def _admit(self) -> None:
        """Let new simulators that are ready take part from the first rollout that is not open yet."""
        first_rollout = max(self.rollouts.open, self.next)
        admitted = self._admissible()
        for blocks in admitted.values():
            blocks.admit(first_rollout)
        present = {**self.playing, **admitted}
        self.playing = {socket_id: present[socket_id] for socket_id in self.listed if socket_id in present}
        self.pending = {socket_id: blocks for socket_id, blocks in self.pending.items() if socket_id not in admitted}

    def _admissible(self) -> dict[str, Blocks]:
        """Return the new simulators that are ready; at the start of a run, none until all are."""
        ready = {socket_id: blocks for socket_id, blocks in self.pending.items() if blocks.ready}
        return ready if self.playing or len(ready) == len(self.pending) else {}


def _remaining(blocks: Blocks, rollouts_learned: int) -> bool:
    """Whether a simulator has complete rollouts that are not learned from yet."""
    return any(min(blocks.completed(group), blocks.left) > rollouts_learned for group in range(blocks.groups))


class SimulatorLink:
    """Connects a trainer to its simulators: follows the supervisor's list of them, wakes them, and waits for them."""

    def __init__(self, settings: TrainerSettings, worker: Worker, members: RolloutMembers) -> None:
        """Listen for wakeups of the simulators and for messages of the supervisor."""
        self._learner, self._worker, self._members = settings.learner, worker, members
        self._waiter = Waiter(Wakeup(settings.wakeup.file), worker.control.dealer)
        self._wakeups = Wakeups()

    def follow(self, order: Order) -> None:
        """Update the running and the ended simulators of this learner from the supervisor's message."""
        own = [member for member in order.members if member.id.learner == self._learner]
        gone = [member for member in order.gone if member.id.learner == self._learner]
        self._members.follow(own, order.leaving, gone)
        self._say_released()
        self._wakeups.follow({member.id.socket_id: member.wakeup.file for member in own if member.wakeup})

    def parts(self) -> list[GroupRollout] | None:
        """Return the environment groups that have played the next rollout; None while it is incomplete."""
        parts = self._members.parts()
        if parts is None:
            self._members.unblock()
            self._say_released()
        return parts

    def open_next(self) -> None:
        """Commit the step counts, let simulators begin the next rollouts, and wake them."""
        self._members.open_next()
        self._wakeups.wake_all()
        self._say_released()

    def wake_all(self) -> None:
        """Wake all simulators."""
        self._wakeups.wake_all()

    def wait(self) -> None:
        """Sleep until a simulator or a message of the supervisor wakes this process, at most POLL_MS milliseconds."""
        self._waiter.wait(POLL_MS)

    def wait_following(self) -> bool:
        """Sleep as `wait` does, and update the list of simulators; returns False if this process has to end.

        The main loop carries out the rest of the supervisor's message later, and only then reports it as done.
        """
        self.wait()
        if self._worker.control.ordered:
            self.follow(self._worker.control.order)
        return self._worker.poll()

    def _say_released(self) -> None:
        if released := self._members.released[:MOST_NAMES]:
            self._worker.control.send(Released(peers=released))
            del self._members.released[: len(released)]
