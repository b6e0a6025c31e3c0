"""Stores rollouts in a replay, and draws minibatches from it, as many for each rollout as ``replay.ratio`` demands.

A rollout is stored before its update begins. Each minibatch comes with the outputs of the target network that its
targets need. After its optimizer step, the priorities of its items are updated.

The number of minibatches and the renewal of the target network depend only on the count of steps learned from and on
the rollout's number. Together with the seed, these determine all draws, so a restarted trainer repeats them.

With ``simulators.weights: rollout`` and rollouts as long as ``target_every_steps`` this is algorithm 1 of Daley and
Amato (2021): the target network acts, and minibatches are drawn from rows stored before the rollout began.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from actorlearn.acting.exploration import mix
from actorlearn.algorithms.interface import PRIORITY, Algorithm, Batch, MultiNetworkAlgorithm
from actorlearn.algorithms.settings import OffPolicySettings
from actorlearn.learning.items import batch_of, following_outputs, without_burn_in
from actorlearn.learning.minibatches import Minibatch, Minibatches
from actorlearn.learning.target import Target
from actorlearn.memory.rollout import GroupRollout
from actorlearn.memory.shared import Segment
from actorlearn.models.interface import Outputs
from actorlearn.models.noisy import draw
from actorlearn.optim.schedules import linear
from actorlearn.parameters.checkpoint import Checkpoint
from actorlearn.replay.buffer import Replay, Sample
from actorlearn.replay.rows import PRIORITIES
from actorlearn.replay.samplers import Prioritised, Sampler, Uniform, importance
from actorlearn.replay.settings import ReplaySettings
from actorlearn.worker.passes import FlatNetwork
from actorlearn.worker.settings import TrainerReplay, TrainerSettings
from actorlearn.worker.staging import Staging


def open_replay(replay: TrainerReplay, algorithm: OffPolicySettings) -> Replay:
    """Open a learner's replay in shared memory; recovers its state if an earlier trainer has used it."""
    segment = Segment.open(replay.segment.file)
    cells = replay.shape.rings * replay.shape.rows
    sampler: Sampler = Uniform(cells)
    if replay.settings.prioritised:
        tree, largest = (segment[name] for name in PRIORITIES)
        sampler = Prioritised(cells, replay.settings.alpha, (tree, largest))
    opened = Replay(segment, replay.shape, algorithm, sampler)
    opened.recover()
    return opened


def minibatches_due(steps: int, starts: int, intensity: float, batch: int) -> int:
    """Return how many minibatches have to be learned from in total after ``steps`` transitions; 0 before ``starts``.

    ``intensity`` is the average number of times that each transition is learned from (Stooke & Abbeel 2018, section
    5.3); 8 in Nature DQN. ``batch`` is the number of transitions in a minibatch. The result is computed from the total
    in exact fractions, so nothing is lost by rounding in a long run.

    Learning is never ahead of acting. It is behind by at most (blocks + 1) * steps of a rollout * intensity / batch
    minibatches: at most ``simulators.blocks`` rollouts are in progress or not learned from, and the minibatches that
    become due with a rollout are learned with the next one. With 1 block, acting waits for learning.
    """
    return int(max(0, steps - starts) * Fraction(str(intensity)) / batch)  # 0.1 means a tenth, not the nearest float


class _Kept(NamedTuple):
    """State of `Replayed` that minibatches change, besides priorities."""

    ahead: int
    period: int
    """`Target.period`."""
    target: Tensor
    """Weights of the target network."""
    draws: Mapping[str, Any]
    """State of the generator with which minibatches are drawn."""


class Replayed(Minibatches):
    """Draws minibatches from a replay buffer, as many for each rollout as ``replay.ratio`` demands."""

    finish_s = 0.0
    """0, because an update that was broken off can be continued later."""
    replay: Replay
    target: Target

    def __init__(
        self,
        settings: TrainerSettings,
        numbers: ReplaySettings,
        replay: Replay,
        algorithm: Algorithm,
        network: FlatNetwork,
        beat: Callable[[], object] = lambda: None,
        secondary: bool = False,
    ) -> None:
        """Draw from ``replay``, with the settings ``numbers``.

        ``beat`` is called while the replay is saved or restored, to show that this process does not hang. A
        ``secondary`` learner (``learning/secondary.py``) draws other random numbers, and does not change priorities.
        """
        self.settings, self.replay = settings, replay
        own = settings.policy.algorithm
        assert isinstance(own, OffPolicySettings)
        self.target = Target(network, own.target, settings.rollout_steps)
        self._network, self._algorithm = network, algorithm
        self._numbers, self._batch, self._burn_in = numbers, numbers.batch_size, numbers.burn_in_steps
        self._learns = own.epochs > 0
        self._prioritises = numbers.prioritised and not secondary
        self._beat = beat
        self.random = np.random.default_rng([settings.seed, settings.learner, *([1] if secondary else [])])
        """The generator with which minibatches are drawn."""
        self._noise = torch.Generator(settings.device)
        self._staging = Staging(settings.device)
        self._credited = -1
        """Number of environment steps whose due minibatches are all done; -1 before the first rollout."""
        self._ahead = 0
        """Number of minibatches done since then, in an update that is not finished."""
        self._together, self._counts_all = 0, -1
        """`together`, and 1 if `_credited` and ``replay.begun`` count the steps of all learners, 0 if they count those
        of this learner, and -1 if this is not known yet."""
        self._keeps = False
        """Whether the next minibatch is the first since `keep`."""
        self._kept: _Kept | None = None
        """The state before the first minibatch since `keep`; None if there was none, or `keep` is never called."""

    # On joining other learners -----------------------------------------------------------------------------------

    @property
    def together(self) -> int:
        """Number of learners in mode sync, which count the steps of all; 0: this learner counts its own steps.

        If the counts of a restored checkpoint are of the other kind, no minibatch is due for the steps so far. Learning
        begins at once if the replay has enough transitions, and otherwise as with an empty replay.
        """
        return self._together

    @together.setter
    def together(self, learners: int) -> None:
        counts_all = int(learners > 0)
        if self._counts_all not in (-1, counts_all):
            self._credited, self._ahead = -1, 0
            self.replay.begun = 0 if self.replay.transitions >= self._numbers.learning_starts_steps else -1
        self._together, self._counts_all = learners, counts_all

    @property
    def shared_tensors(self) -> list[Tensor]:
        """Weights of the target network, which a learner in mode sync copies from the others when it joins."""
        return [self.target.weights]

    def counts(self) -> list[int]:
        """Return the counts that learners send each other when they join (`adopt`).

        These are the environment steps whose minibatches are done, the minibatches done since then, the period of the
        target network, and the environment steps at which learning from this replay began.
        """
        return [self._credited, self._ahead, self.target.period, self.replay.begun]

    def adopt(self, counts: NDArray[np.int64], best: int) -> None:
        """Continue from the counts of the learner with rank ``best``; ``counts`` [learners, 4] are those of `counts`.

        Learners in mode sync also take its period of the target network; other learners have their own target networks.
        Learning begins anew if a learner has not stored anything yet.
        """
        self._credited, self._ahead, period = (int(count) for count in counts[best, :3])
        if self.together:
            self.target.period = period
        self.replay.begun = int(counts[:, 3].min())  # -1 if a learner has stored nothing yet: then all begin anew

    # Undoing -----------------------------------------------------------------------------------------------------

    def keep(self) -> None:
        """Do what `Carried.keep` says: the next minibatch is the first that may be undone."""
        self._keeps, self._kept = True, None

    def go_back(self) -> None:
        """Return to the state before the first minibatch since `keep`, which is drawn again."""
        if self._kept is not None:
            kept = self._kept
            self._ahead, self.target.period, self.random.bit_generator.state = kept.ahead, kept.period, kept.draws
            self.target.weights.copy_(kept.target)
            self.replay.sampler.go_back()
            self.keep()

    # Storing rollouts --------------------------------------------------------------------------------------------

    def room(self, parts: Sequence[GroupRollout]) -> Tensor:
        """Return bools [B]: whether the replay has a ring buffer for each environment of a rollout."""
        owners = self.replay.room({part.owner: part.blocks.envs_per_group for part in parts})
        return torch.cat([torch.full((part.blocks.envs_per_group,), part.owner in owners) for part in parts])

    def store(self, rollout: int, parts: Sequence[GroupRollout]) -> None:
        """Store a rollout, unless this trainer stored it before it was restarted."""
        if rollout < self.replay.rollouts:
            return
        self.replay.leave_to([part.owner for part in parts])
        for part in parts:
            block = {name: part.blocks.block(name, part.group, rollout) for name in self.replay.shape.columns}
            self.replay.add(part.owner, rollout, block)
        self.replay.flush(rollout + 1)

    # The minibatches of a rollout --------------------------------------------------------------------------------

    def prepare(self, batch: Batch) -> Batch:
        """Return the batch unchanged: minibatches are drawn from the replay instead."""
        return batch

    def due(self, prepared: Batch, done: int, env_steps: int, own_steps: int) -> int:
        """Return how many minibatches are due for the environment steps before this rollout, less those already done.

        ``done`` is ignored, because the replay has its own count.
        """
        if not self._learns:
            return 0
        learners, steps = max(self.together, 1), env_steps if self.together else own_steps
        if self.replay.begun < 0:
            self.replay.begun = steps
        starts = self.replay.begun + self._numbers.learning_starts_steps * learners
        ratio, batch = self._numbers.ratio, self._numbers.batch_steps * learners
        before = steps if self._credited < 0 else self._credited
        due, credited = (minibatches_due(at, starts, ratio, batch) for at in (steps, before))
        return max(0, due - credited - self._ahead)

    def draw(self, prepared: Batch, rollout: int, remaining: int, env_steps: int) -> Iterator[Minibatch]:
        """Yield minibatches one by one. Before each, renew the target network if its period is over."""
        count = self._ahead + remaining
        for number in range(self._ahead, count):
            if self._keeps:
                self._keeps = False
                draws = self.random.bit_generator.state
                self._kept = _Kept(self._ahead, self.target.period, self.target.weights.clone(), draws)
                self.replay.sampler.keep()
            seed = mix(mix(self.settings.seed, rollout), number)
            self._noise.manual_seed(seed)  # seeded for each minibatch, so that its state need not be saved
            self.target.renew(rollout, number, count)
            yield self.draw_one(env_steps)._replace(seed=mix(seed, 1 + self.settings.learner))

    def note_learned(self, minibatch: Minibatch, taken: bool, metrics: Mapping[str, Tensor]) -> None:
        """Count the minibatch, update its priorities, and move the target network if it uses Polyak averaging."""
        self._ahead += 1
        self.target.follow()
        if not (taken and self._prioritises and minibatch.sample is not None):
            return
        if PRIORITY not in metrics:
            raise ValueError(
                f'replay.prioritised: true needs the metric "priority", which the loss of '
                f"{self.settings.policy.algorithm.name!r} does not return; set it to false"
            )
        self.replay.update(minibatch.sample, metrics[PRIORITY][0].cpu().numpy())

    def finish(self, learned: int, env_steps: int, own_steps: int) -> dict[str, float]:
        """Record that all minibatches due before this rollout are done; returns metrics."""
        steps = env_steps if self.together else own_steps
        self._credited, self._ahead = steps if self._learns else -1, 0
        return {"replay_transitions": float(self.replay.transitions), "minibatches": float(learned)}

    # One minibatch -----------------------------------------------------------------------------------------------

    def draw_one(self, env_steps: int) -> Minibatch:
        """Draw a minibatch, with the outputs of the networks from which its targets are computed."""
        sample = self.replay.sample(self._batch, self.random)
        batch = batch_of(sample, self._weights(sample, env_steps), self._staging)
        with torch.no_grad():
            outputs = {} if isinstance(self._algorithm, MultiNetworkAlgorithm) else self._following(batch)
            prepared = self._algorithm.prepare(without_burn_in(batch, self._network, self._burn_in), outputs)
        draw(self._network.module, self._noise)  # noise for the pass of the optimizer step
        return Minibatch(prepared, sample)

    def _weights(self, sample: Sample, env_steps: int) -> NDArray[np.float32]:
        """Return the importance weights [B] that correct for prioritised sampling; 1 without it."""
        if not self._numbers.prioritised:
            return np.ones(self._batch, np.float32)
        gone = self.settings.schedule_progress(env_steps)
        return importance(sample.probability, linear(self._numbers.beta, self._numbers.beta_final, gone))

    def _following(self, batch: Batch) -> Outputs:
        """Return the outputs from which targets are computed (`following_outputs`).

        They are those of the target network, named "target.<head>", and, if the algorithm needs them, those of the
        learning network. Each network draws its own noise.
        """
        networks = {"target.": self.target.network}
        if self._algorithm.prepared_rows:
            networks[""] = self._network
        for network in networks.values():
            draw(network.module, self._noise)
        pool, both = self._network.pool, list(networks.values())
        if len(both) == pool.count and not self._network.state_size:
            # One network on each core: a pass over 32 rows, divided between two cores, still takes 0.8 of its time.
            rows = batch.observation[self._burn_in + 1 :]
            outputs = pool.run(lambda index: both[index].passes.whole(rows), len(both))
        else:
            outputs = [following_outputs(batch, network, self._burn_in) for network in both]
        return {
            f"{prefix}{name}": output
            for prefix, own in zip(networks, outputs, strict=True)
            for name, output in own.items()
        }

    # Checkpoints -------------------------------------------------------------------------------------------------

    def tensors(self) -> dict[str, Tensor]:
        """Return the target network's weights and the counts for a checkpoint; `save` writes the replay."""
        target = {f"target.{name}": tensor for name, tensor in self.target.tensors().items()}
        counters = [self._credited, self._ahead, self.target.period, self._counts_all]
        return {**target, "replay.counters": torch.tensor(counters)}

    def save(self, folder: Path) -> dict[str, Any]:
        """Write the replay to files if ``replay.save`` is set; returns plain values, such as the generator's state."""
        draws = {"draws": self.random.bit_generator.state}
        return draws | ({"replay": self.replay.save(folder, self._beat)} if self._numbers.save else {})

    def restore(self, saved: Checkpoint, goes_on: bool) -> None:
        """Restore the replay and its counts from a checkpoint; the replay only if the one in memory is empty.

        If ``goes_on``, the simulators continue the saved games. Otherwise they play new games, and the next rollout is
        stored even if the replay has one of the same number.
        """
        self.random.bit_generator.state = saved.state["draws"]
        counters = [int(n) for n in saved.tensors["replay.counters"]]
        self._credited, self._ahead, period = counters[:3]
        self._counts_all = counters[3] if len(counters) > 3 else -1  # earlier versions of actorlearn saved three counts
        self.target.restore(saved.section("target"), period)
        if "replay" in saved.state and self.replay.empty:
            rollouts_learned = saved.state["rollouts_learned"]
            self.replay.restore(
                saved.path, saved.state["replay"], self._beat, goes_on=goes_on, rollouts=rollouts_learned
            )
