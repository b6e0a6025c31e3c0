"""Minibatches of a replay: so many a rollout, with what an older copy of the network says about each.

Reads: the replay, which stage 3 fills. Writes: the target network, priorities. Refuses to know: rollouts' rows, blocks,
messages, and how an optimizer step is taken.

Which minibatches are due and when the target network is renewed depend on the steps that were learned from and on the
number of the rollout: with the seed these decide everything. Where acting belongs to rollouts (``simulators.weights:
rollout``) and a rollout is as long as ``target_every_steps``, this is algorithm 1 of Daley and Amato (2021): the target
network is what acts meanwhile, and what is drawn from is what was stored before the rollout began.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from actorlearn.acting.exploration import mix
from actorlearn.algorithms.interface import Algorithm, Batch
from actorlearn.learning.items import batch_of, burnt_in, following
from actorlearn.learning.minibatches import Minibatch, Minibatches
from actorlearn.learning.network import Network
from actorlearn.learning.target import Target
from actorlearn.models.noisy import draw
from actorlearn.models.unroll import Outputs
from actorlearn.optim.schedules import linear
from actorlearn.parameters.checkpoint import Checkpoint
from actorlearn.parameters.interface import Carried
from actorlearn.replay.buffer import Replay, Sample
from actorlearn.replay.ratio import Ratio
from actorlearn.replay.samplers import importance
from actorlearn.replay.settings import ReplaySettings
from actorlearn.worker.settings import TrainerSettings
from actorlearn.worker.staging import Staging


class Replayed(Minibatches):
    """Minibatches drawn from a replay, as many as ``replay.ratio`` asks for."""

    finish_s = 0.0
    """No time: the next rollout's pass goes on where this one is broken off."""
    replay: Replay

    def __init__(
        self,
        settings: TrainerSettings,
        numbers: ReplaySettings,
        replay: Replay,
        algorithm: Algorithm,
        network: Network,
        target: Target,
        beat: Callable[[], object] = lambda: None,
        secondary: bool = False,
    ) -> None:
        """Draw from this replay as it is; ``beat`` shows a sign of life while it is saved and restored.

        The ``secondary`` of two learners draws by random numbers of its own, and leaves priorities as they are.
        """
        self.settings, self.replay = settings, replay
        self.target, self._network, self._algorithm = target, network, algorithm
        self._numbers, self._batch, self._burn_in = numbers, numbers.batch_size, numbers.burn_in_steps
        self._learns = settings.policy.algorithm.epochs > 0
        self._prioritises = numbers.prioritised and not secondary
        self._beat = beat
        self.random = np.random.default_rng([settings.seed, settings.learner, *([1] if secondary else [])])
        """The generator by which minibatches are drawn."""
        self._noise = torch.Generator(settings.device)
        self._staging = Staging(settings.device)
        self._credited = -1
        """Steps for which all minibatches have been done; -1: those of the first rollout to come."""
        self._ahead = 0
        """Minibatches done beyond these, of a pass that was broken off."""
        self._claim = -1
        """Steps for which they will have been done after the next pass."""
        self._due = 0
        """Minibatches of the rollout that is being learned from, but for those done ahead."""
        self.carried = Carried([target.weights], self._counts, self._adopt)

    def _counts(self) -> list[int]:
        return [self._credited, self._ahead, self.target.period, self.replay.begun]

    def _adopt(self, said: NDArray[np.int64], best: int) -> None:
        """Go on with what the learner has done whose weights are taken, once all have stored enough to learn from.

        With the target network too, if it is that learner's; where a store is between them, each has its own.
        """
        self._credited, self._ahead, period = (int(count) for count in said[best, :3])
        if self.together:
            self.target.period = period
        self.replay.begun = int(said[:, 3].min())  # -1 where one has stored nothing yet: all begin anew

    # How much, and when ------------------------------------------------------------------------------------------

    def prepare(self, batch: Batch) -> Batch:
        """Return the batch as it is: it is stored already, and its minibatches are of other rows."""
        return batch

    def count_due(self, env_steps: int, own_steps: int) -> None:
        """Count the minibatches that are due by all rollouts before this one, and have not been done."""
        if not self._learns:
            return
        learners = max(self.together, 1)
        steps = env_steps if self.together else own_steps
        if self.replay.begun < 0:
            self.replay.begun = steps
        starts = self.replay.begun + self._numbers.learning_starts_steps * learners
        ratio = Ratio(intensity=self._numbers.ratio, batch=self._numbers.batch_steps * learners, starts=starts)
        before = steps if self._credited < 0 else self._credited
        self._claim = steps
        self._due = max(0, ratio.due(steps, 0) - ratio.due(before, 0) - self._ahead)

    def remaining(self, prepared: Batch, done: int) -> int:
        """Return what ``count_due`` has counted, whatever this rollout's own optimizer steps are."""
        return self._due

    def draw(self, prepared: Batch, rollout: int, done: int, env_steps: int) -> Iterator[Minibatch]:
        """Draw one after the other, each toward the target network as it is to be by then."""
        count = self._ahead + self._due
        for number in range(self._ahead, count):
            self._noise.manual_seed(mix(mix(self.settings.seed, rollout), number))  # nothing of it needs saving
            self.target.renew(rollout, number, count)
            yield self.draw_one(env_steps)

    def note_learned(self, minibatch: Minibatch, taken: bool, metrics: dict[str, Tensor]) -> None:
        """Count the minibatch, and give it the priorities its optimizer step found; the target network follows."""
        self._ahead += 1
        self.target.follow()
        priority = metrics.pop("priority")
        if taken and self._prioritises and minibatch.sample is not None:
            self.replay.update(minibatch.sample, priority[0].cpu().numpy())

    def finish(self) -> dict[str, float]:
        """Count the steps before the rollout as learned from; returns how many minibatches that took."""
        self._credited, self._ahead = self._claim, 0
        return {"replay_transitions": float(len(self.replay)), "minibatches": float(self._due)}

    # One minibatch -----------------------------------------------------------------------------------------------

    def draw_one(self, env_steps: int) -> Minibatch:
        """Draw a minibatch, and prepare it by what the networks say about the rows that its returns reach."""
        sample = self.replay.sample(self._batch, self.random)
        batch = batch_of(sample, self._weights(sample, env_steps), self._staging)
        with torch.no_grad():
            outputs = self._following(batch)
            prepared = self._algorithm.prepare(burnt_in(batch, self._network, self._burn_in), outputs)
        draw(self._network.module, self._noise)  # for the pass that the optimizer step makes
        return Minibatch(prepared, sample)

    def _weights(self, sample: Sample, env_steps: int) -> NDArray[np.float32]:
        """Return the weight of each item's errors, [B]."""
        if not self._numbers.prioritised:
            return np.ones(self._batch, np.float32)
        gone = env_steps / self.settings.total_steps
        return importance(sample.probability, linear(self._numbers.beta, self._numbers.beta_final, gone))

    def _following(self, batch: Batch) -> Outputs:
        """Return outputs for the rows after the first that is learned from, which returns reach.

        They are those of the target network, and of the network too if the algorithm asks for it, each with noise of
        its own.
        """
        networks = {"target.": self.target.network}
        if self._algorithm.prepared_rows:
            networks[""] = self._network
        for network in networks.values():
            draw(network.module, self._noise)
        pool, both = self._network.pool, list(networks.values())
        if len(both) == pool.count and not self._network.state_size:
            rows = batch.observation[self._burn_in + 1 :]  # a network for each core: halves of 32 take 0.8 of the time
            outputs = pool.run(lambda index: both[index].passes.whole(rows), len(both))
        else:
            outputs = [following(batch, network, self._burn_in) for network in both]
        return {
            f"{prefix}{name}": output
            for prefix, own in zip(networks, outputs, strict=True)
            for name, output in own.items()
        }

    # Checkpoints -------------------------------------------------------------------------------------------------

    def tensors(self) -> dict[str, Tensor]:
        """Return the target network and the counts; the replay itself is written by ``save``."""
        target = {f"target.{name}": tensor for name, tensor in self.target.tensors().items()}
        return {**target, "replay.counters": torch.tensor([self._credited, self._ahead, self.target.period])}

    def save(self, folder: Path) -> dict[str, Any]:
        """Write the replay, where that is asked for; returns the state of the generator that draws from it."""
        draws = {"draws": self.random.bit_generator.state}
        return draws | ({"replay": self.replay.save(folder, self._beat)} if self._numbers.save else {})

    def restore(self, saved: Checkpoint, goes_on: bool) -> None:
        """Take back what was saved, but not a replay older than the one that is there.

        Where a run is resumed and nothing ``goes_on`` that stood in memory, other rows come of the rollout to be
        learned next: they are stored, even if this rollout was, by a trainer that was told to end while it learned it.
        """
        if "draws" in saved.state:  # early checkpoints have none
            self.random.bit_generator.state = saved.state["draws"]
        self._credited, self._ahead, period = (int(n) for n in saved.tensors["replay.counters"])
        self.target.restore(saved.section("target"), period)
        if "replay" in saved.state and self.replay.empty:
            rollouts_learned = saved.state["learned"]
            self.replay.restore(
                saved.path, saved.state["replay"], self._beat, goes_on=goes_on, rollouts=rollouts_learned
            )
