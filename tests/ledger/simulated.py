"""A simulator without a process: its real code plays, actions are drawn at random, and steps are recorded."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from actorlearn.envs.make import make
from actorlearn.memory.progress import Progress
from actorlearn.memory.rollout import Blocks, Rollouts
from actorlearn.memory.shared import Segment
from actorlearn.parameters.published import Published
from actorlearn.processes.simulator import EnvGroup
from actorlearn.worker.handshake import shape_to_match
from actorlearn.worker.settings import SimulatorSettings
from tests.ledger.counting import Row, row_of
from tests.ledger.env import read


@dataclass(frozen=True)
class Step:
    """One environment step that was produced."""

    row: Row
    learner: int
    member: str
    """Peer id of its simulator."""
    rollout: int
    """Rollout of the step: it is learned from with this rollout, or not at all."""


class Simulated:
    """One incarnation of a simulator."""

    def __init__(self, settings: SimulatorSettings, learner: int, produced: list[Step]) -> None:
        """Open everything; ``produced`` is appended to."""
        self.peer = settings.id.socket_id
        self.learner, self._produced = learner, produced
        self.blocks = Blocks(Segment.open(settings.segment.file))
        self._rollouts = Rollouts(Segment.open(settings.rollouts.file))
        self._published = Published.open(settings.weights)
        self._progress = Progress(Segment.open(settings.progress.file), settings.index)
        size = len(settings.env_seeds) // self.blocks.groups
        seeds = [settings.env_seeds[g * size : (g + 1) * size] for g in range(self.blocks.groups)]
        self._envs = [make(settings.env, own) for own in seeds]
        self._groups = [
            EnvGroup(g, env, self.blocks, self._rollouts, settings.reset) for g, env in enumerate(self._envs)
        ]
        b = self.blocks
        self.shape = shape_to_match(settings.env.id, self._envs[0].spec, b.horizon, b.blocks, b.groups)
        for group, own in zip(self._groups, seeds, strict=True):
            list(group.starts.first(settings.decorrelation_steps, own))
        self._random = np.random.default_rng(settings.env_seeds)
        self.left = False

    def begin(self) -> None:
        """Say that the first rollout may begin."""
        self.blocks.mark_ready()

    def play(self) -> None:
        """Advance each group once, and choose actions for its observations."""
        self._progress.beat()
        results = [self._advance(group) for group in self._groups]
        self.left = all(result == "left" for result in results)

    def _advance(self, group: EnvGroup) -> str:
        timestep, between = group.timestep, group.between_rollouts
        result = group.advance()
        if not between and result in ("observed", "completed"):
            self._write_down(group.index, timestep)
        if result == "observed":
            self._act(group)
        return result

    def _write_down(self, group: int, timestep: int) -> None:
        first = self.blocks.row_after("first", group, timestep)
        for b in np.flatnonzero(~first):
            row = row_of(read(self.blocks.row("observation", group, timestep)[b]))
            self._produced.append(Step(row, self.learner, self.peer, timestep // self.blocks.horizon))

    def _act(self, group: EnvGroup) -> None:
        actions = self._envs[group.index].random_actions(self._random)
        self.blocks.row("action", group.index, group.timestep)[:] = actions
        for field in self.blocks.segment.fields:
            if field.name in ("log_prob", "value"):
                self.blocks.row(field.name, group.index, group.timestep)[:] = 0
        self.blocks.mark_acted(group.index, group.timestep, max(self._published.version, 0))

    def cut(self) -> tuple[int, list[Step]]:
        """Number of rollouts it has completed, and the steps that it has taken since."""
        completed = min(self.blocks.completed(g) for g in range(self.blocks.groups))
        return completed, [step for step in self._produced if step.member == self.peer and step.rollout >= completed]

    def close(self) -> None:
        """Close the environments."""
        for env in self._envs:
            env.close()
