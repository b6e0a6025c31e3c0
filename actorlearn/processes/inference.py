"""Stage 2 of 5: runs the policy on rows that are ready and writes the actions back into them.

Reads: the observation column of rows named by the word ``observed``, also state and first for a recurrent network; the
newest published weights, or those of a row's rollout.
Writes: action, the algorithm's own columns and policy_version, and the state of the row after; the word ``acted``;
rings the simulator.
Next: the simulator steps on (stage 1); complete blocks go to ``processes/batches.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
import torch
from torch import Tensor

from actorlearn.acting.batching import Asked, Turns
from actorlearn.acting.exploration import choose, epsilon, mix
from actorlearn.algorithms.interface import AlgorithmSettings
from actorlearn.algorithms.make import make as make_algorithm
from actorlearn.memory.rollout import Blocks, Rollouts
from actorlearn.memory.shared import Segment
from actorlearn.models.graph import Graph
from actorlearn.models.interface import ModelSettings
from actorlearn.models.make import flatten
from actorlearn.models.make import make as make_model
from actorlearn.models.noisy import draw
from actorlearn.models.unroll import Outputs, state_size
from actorlearn.parameters.published import Published
from actorlearn.wire.channel import Waiter
from actorlearn.wire.messages import Member
from actorlearn.wire.wakeup import Wakeup, Wakeups
from actorlearn.worker.settings import InferenceSettings, PolicySettings
from actorlearn.worker.shares import Passes, Shares
from actorlearn.worker.staging import Staging
from actorlearn.worker.worker import POLL_MS, Role, open_members

SETTINGS = InferenceSettings


class Policy:
    """Network, algorithm and newest weights: rows in, actions out."""

    def __init__(
        self,
        settings: PolicySettings,
        weights: str,
        device: str,
        seed: int,
        stream: int,
        *,
        rollouts: str = "",
        threads: int = 1,
    ) -> None:
        """Build the network; its weights come from the segment (none: the caller loads them).

        ``stream`` tells the random numbers of several servers apart; ``rollouts`` is for those who answer rows of
        blocks; so many ``threads`` share out the rows.
        """
        self.algorithm = make_algorithm(msgspec.convert(settings.algorithm, AlgorithmSettings))
        self.network = make_model(
            msgspec.convert(settings.model, ModelSettings),
            settings.observation_shape,
            settings.observation_dtype,
            self.algorithm.heads(settings.actions),
            seed,
        ).to(device)
        self.flat, _ = flatten(self.network)
        self.state_size = state_size(self.network)
        self.published = Published(Segment.open(Path(weights))) if weights else None
        self.rollouts = Rollouts(Segment.open(Path(rollouts))) if rollouts else None
        self._of_rollout = self.rollouts if settings.weights == "rollout" else None
        self._environments = settings.environments
        self._arrived = torch.empty_like(self.flat, device="cpu") if device != "cpu" else self.flat
        self.version = -1
        self.env_steps = 0
        self.device = device
        self._precision = settings.precision
        self._passes = Passes(self.network, Shares(threads if device == "cpu" else 1), settings.precision)
        self._staging = Staging(device)
        self._graphs: dict[tuple[int, ...], Graph] = {}
        self._seed = (seed << 16) + stream
        self._generator = torch.Generator(device)

    def ready(self, rollout: int = 0) -> bool:
        """Take the newest weights, or a rollout's, if they are others; False before the first version."""
        wanted = self._of_rollout.version(rollout) if self._of_rollout else None
        newer = self.published.fetch(self._arrived.numpy(), self.version, wanted) if self.published else None
        if newer is not None:
            self.version, self.env_steps = newer
            if self._arrived is not self.flat:
                self.flat.copy_(self._arrived)
        return self.version >= 0

    @torch.inference_mode()
    def choose(
        self,
        observation: Tensor,
        moment: int,
        greedy: bool = False,
        state: Tensor | None = None,
        first: Tensor | None = None,
        *,
        explore: Tensor | None = None,
    ) -> dict[str, Tensor]:
        """Actions and columns [N, …] for observations [N, …]; ``explore`` [N] is epsilon, if not that of evaluations.

        A recurrent network needs the state [N, S] before them and which are `first` [N]; then "state", after them, is
        among what is returned. The random numbers depend on seed, stream and moment only: they need no saving.
        """
        self._generator.manual_seed(mix(self._seed, moment))
        draw(self.network, None if greedy else self._generator)
        rows = [observation.to(self.device)[None]]
        if state is not None and first is not None:
            rows += [state.to(self.device), first.to(self.device)[None]]
        outputs, after = self._outputs(*rows)
        one = {name: output[0] for name, output in outputs.items()}
        chosen = choose(self.algorithm, one, self._generator, greedy, explore)
        return chosen if after is None else {**chosen, "state": after}

    def _outputs(self, *rows: Tensor) -> tuple[Outputs, Tensor | None]:
        """One forward pass; on a GPU as a graph for each shape that is met."""
        if rows[0].is_cuda:
            shape = tuple(rows[0].shape)
            if shape not in self._graphs:
                self._graphs[shape] = Graph(self.network, rows, self._precision)
            return self._graphs[shape](*rows)
        return self._passes.forward(*rows)

    def act(self, asked: Sequence[Asked], member: int = 0) -> None:
        """Answer rows, of one timestep or several, in that order; ``member`` tells first rows of one timestep apart."""
        first, group, timestep = asked[0]
        self.ready(timestep // first.horizon)
        names = ("observation", "state", "first") if self.state_size else ("observation",)
        seen, *memory = (
            self._staging.join(name, [blocks.row(name, *at) for blocks, *at in asked], 0) for name in names
        )
        explore = epsilon(self.algorithm, self.rollouts, self._environments, asked)
        chosen = self.choose(seen, (member << 40) + timestep * first.groups + group, False, *memory, explore=explore)
        start = 0
        answers = {name: column.cpu().numpy() for name, column in chosen.items()}
        for blocks, group, timestep in asked:
            end = start + blocks.envs_per_group
            for name, column in answers.items():
                (blocks.row_after if name == "state" else blocks.row)(name, group, timestep)[:] = column[start:end]
            start = end
        for blocks, group, timestep in asked:  # all or none, as nearly as can be, should this process be killed
            blocks.mark_acted(group, timestep, self.version)


class Server:
    """The members this server answers, in their order."""

    def __init__(self, settings: InferenceSettings) -> None:
        """Start with none."""
        self.index = settings.server
        self.members: dict[str, Blocks] = {}
        self.wakeups = Wakeups()
        self.turns = Turns(settings.batch_rows, settings.deadline_ms)

    def follow(self, members: Sequence[Member]) -> None:
        """Follow the members: map new simulators' segments, let go of those that are gone."""
        own = [member for member in members if member.server == self.index]
        self.members = open_members(own, self.members)
        self.wakeups.follow({member.peer: member.wakeup for member in own})

    def answer(self, policy: Policy, beat: Callable[[], object] = lambda: None) -> bool:
        """Answer every row whose turn it is; False when there was none. ``beat`` is called between batches of them."""
        answered, members = False, list(self.members.values())
        for asked in self.turns.batches(members):
            policy.act(asked, member=members.index(asked[0][0]))
            answering = [blocks for blocks, _, _ in asked]
            for peer, blocks in self.members.items():
                if blocks in answering:
                    self.wakeups.wake(peer)
            answered = True
            beat()
        return answered


def run(settings: InferenceSettings) -> None:
    """Answer rows until told to stop."""
    role = Role(settings)
    torch.set_num_threads(1)
    of = settings.policy, settings.weights, settings.device, settings.seed
    policy = Policy(*of, stream=settings.server, rollouts=settings.rollouts, threads=settings.threads)
    server = Server(settings)
    waiter = Waiter(Wakeup(Path(settings.wakeup)), role.control.dealer)
    role.hello()
    while role.alive():
        if role.control.ordered:
            server.follow(role.control.order.members)
            role.control.applied()
        answered = server.answer(policy, role.progress.beat)  # rows there are only once weights have been published
        role.timings.add("infer")
        if not answered:
            waiter.wait(server.turns.sleep_ms(POLL_MS))
            role.timings.add("wait")
    role.control.close()
