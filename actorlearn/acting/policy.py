"""The policy: chooses actions for observations with the newest published weights.

Besides the action, it writes to each row the algorithm's columns, such as the log-probability of the action. It is used
by inference servers (``processes/inference.py``), by simulators that run the policy themselves, and by evaluations.

Reads: published weights, and the rows that need actions. Writes: the actions and columns of these rows, and then the
count ``acted`` of their blocks, by which the simulator knows that it may step (``memory/rollout.py``).
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from actorlearn.acting.exploration import make as make_exploration
from actorlearn.acting.exploration import mix
from actorlearn.address import Shm
from actorlearn.algorithms.interface import ReadsSomeHeads
from actorlearn.algorithms.make import extra_networks
from actorlearn.algorithms.make import make as make_algorithm
from actorlearn.memory.rollout import Rollouts, RowsAsked
from actorlearn.memory.shared import Segment
from actorlearn.models.graph import Graph
from actorlearn.models.heads import ask_only
from actorlearn.models.interface import Outputs, state_size
from actorlearn.models.make import flatten
from actorlearn.models.make import make as make_model
from actorlearn.models.noisy import noisy_layers
from actorlearn.observation_parts import MASK
from actorlearn.parameters.published import Published
from actorlearn.worker.passes import ComputePool, Passes
from actorlearn.worker.settings import PolicySettings
from actorlearn.worker.staging import Staging


class Policy:
    """Chooses actions: a network with the newest published weights, and an algorithm that chooses from its outputs."""

    def __init__(
        self,
        settings: PolicySettings,
        device: str,
        seed: int,
        stream: int,
        *,
        weights: Shm | None = None,
        rollouts: Shm | None = None,
        threads: int = 1,
    ) -> None:
        """Build the network on ``device``.

        ``weights`` is the segment of the published weights; with None the caller loads weights itself. ``rollouts``,
        which only `act` needs, is the segment of the trainer's rollouts. Policies with the same ``seed`` and another
        ``stream`` draw other random numbers. ``threads`` is the number of threads of a forward pass on the CPU.
        """
        self.algorithm = make_algorithm(settings.algorithm)
        self._returns_values = False
        self.network = make_model(
            settings.model,
            settings.observation_shape,
            settings.observation_dtype,
            self.algorithm.heads(settings.actions),
            seed,
            extra_networks(self.algorithm, settings.actions),
            settings.action_mask,
        ).to(device)
        if isinstance(self.algorithm, ReadsSomeHeads):
            ask_only(self.network, self.algorithm.acting_heads(settings.actions))
        self._noisy = noisy_layers(self.network)
        self._noise_steps = settings.algorithm.noise_steps
        self.exploration = make_exploration(settings.algorithm, settings.actions)
        self.flat, _ = flatten(self.network)
        self.state_size = state_size(self.network)
        self.published = Published.open(weights) if weights else None
        self.rollouts = Rollouts(Segment.open(rollouts.file)) if rollouts else None
        self._of_rollout = self.rollouts if settings.weights == "rollout" else None
        self._environments = settings.environments
        self._fetched = torch.empty_like(self.flat, device="cpu") if device != "cpu" else self.flat
        self.version = -1
        self.device = device
        self._precision = settings.precision
        self._passes = Passes(self.network, ComputePool(threads if device == "cpu" else 1), settings.precision)
        self._staging = Staging(device)
        self._read = ("observation", "state", "first") if self.state_size else ("observation",)
        """Columns of shared memory from which actions are chosen."""
        self._captures = settings.cuda_graphs
        self._graphs: dict[tuple[int, ...], Graph] = {}
        self._seed = (seed << 16) + stream
        self._generator = torch.Generator(device)

    def refresh(self, rollout: int = 0) -> None:
        """Load the newest published weights, unless they are loaded already.

        With ``simulators.weights: rollout``, load those that were the newest when ``rollout`` could first begin.
        """
        if self.published is None:
            return
        wanted = self._of_rollout.version(rollout) if self._of_rollout else None
        newer = self.published.fetch(self._fetched.numpy(), self.version, wanted)
        if newer is None:
            return
        self.version, _ = newer
        if self._fetched is not self.flat:
            self.flat.copy_(self._fetched)

    def tell_values(self) -> None:
        """Make `choose` also return the network's value estimates "value" [N], if the network has this head."""
        self.compute_all_heads()
        self._returns_values = True

    def compute_all_heads(self) -> None:
        """Make the network compute all its heads from now on, also those that acting does not need."""
        ask_only(self.network, None)

    @torch.inference_mode()
    def choose(
        self,
        observation: Tensor,
        moment: int,
        greedy: bool = False,
        state: Tensor | None = None,
        first: Tensor | None = None,
        *,
        epsilon: Tensor | None = None,
    ) -> dict[str, Tensor]:
        """Return "action" and the algorithm's columns, [N, …] each, for observations [N, …].

        A recurrent network needs its ``state`` [N, S] before these observations, and ``first`` [N], whether each
        observation begins a game; its new state is returned as "state". ``epsilon`` [N] is the probability of a random
        action; None stands for the value of evaluations. Random numbers depend only on the seed, the stream and
        ``moment``, a number that the caller increases, so checkpoints need not save a generator.
        """
        self._generator.manual_seed(mix(self._seed, moment))
        for layer in self._noisy:
            layer.draw(None if greedy else self._generator)
        rows = [observation.to(self.device)[None]]
        if state is not None and first is not None:
            rows += [state.to(self.device), first.to(self.device)[None]]
        outputs, after = self._outputs(*rows)
        one = {name: output[0] for name, output in outputs.items()}
        chosen = self.algorithm.act(one, self._generator, greedy)
        if self.exploration and not greedy:
            chosen["action"] = self.exploration.explore(chosen["action"], self._generator, epsilon, one.get(MASK))
        if self._returns_values and "value" in one:
            chosen["value"] = one["value"].squeeze(-1)
        return chosen if after is None else {**chosen, "state": after}

    def _outputs(self, *rows: Tensor) -> tuple[Outputs, Tensor | None]:
        """Return the outputs of a forward pass, and the new state of a recurrent network.

        On a GPU the pass is replayed as a CUDA graph, captured once for each shape, unless the settings disable that.
        """
        if rows[0].is_cuda and self._captures:
            shape = tuple(rows[0].shape)
            if shape not in self._graphs:
                self._graphs[shape] = Graph(self.network, rows, self._precision)
            return self._graphs[shape](*rows)
        return self._passes.forward(*rows)

    def act(self, asked: Sequence[RowsAsked], member: int = 0) -> None:
        """Choose actions for environments that wait for them, and write them to shared memory.

        ``member`` distinguishes the random numbers of batches whose first group and time step in ``asked`` are equal.
        """
        first, group, timestep = asked[0]
        self.refresh(timestep // first.horizon)
        drawn = timestep - timestep % self._noise_steps
        moment = (member << 40) + drawn * first.groups + group
        epsilon = None
        if self.exploration and self.rollouts:
            epsilon = self.exploration.epsilon_of(asked, self.rollouts, self._environments)
        read = {name: [blocks.row(name, group, timestep) for blocks, group, timestep in asked] for name in self._read}
        joined = self._staging.join(read, 0)
        chosen = self.choose(
            joined["observation"], moment, state=joined.get("state"), first=joined.get("first"), epsilon=epsilon
        )
        _write(chosen, asked)
        for blocks, group, timestep in asked:  # only after all columns are written, in case the process is killed
            blocks.mark_acted(group, timestep, self.version)


def _write(chosen: dict[str, Tensor], asked: Sequence[RowsAsked]) -> None:
    """Write each column [N, …] to shared memory. The column "state" belongs to the next time step."""
    for name, column in chosen.items():
        answers, start = column.cpu().numpy(), 0
        for blocks, group, timestep in asked:
            row = (blocks.row_after if name == "state" else blocks.row)(name, group, timestep)
            row[:] = answers[start : start + blocks.envs_per_group]
            start += blocks.envs_per_group
