"""Learning from a replay: so many minibatches a rollout, toward what an older copy of the network says.

Reads: the replay, which stage 3 fills. Writes: flat weights, optimizer state, the target network, priorities. Refuses
to know: rollouts' rows, blocks, messages.

Which minibatches are due and when the target network is renewed depend on the steps that were learned from and on the
number of the rollout: with the seed these decide everything. Where acting belongs to rollouts (``simulators.weights:
rollout``) and a rollout is as long as ``target_every_steps``, this is algorithm 1 of Daley and Amato (2021): the target
network is what acts meanwhile, and what is drawn from is what was stored before the rollout began.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from actorlearn.acting.exploration import mix
from actorlearn.algorithms.interface import Batch, learns_from_replay
from actorlearn.algorithms.settings import OffPolicySettings
from actorlearn.learning.update import Learning, Update, go_on
from actorlearn.models.make import flatten
from actorlearn.models.noisy import draw
from actorlearn.optim.schedules import for_batches, linear
from actorlearn.parameters import checkpoint
from actorlearn.parameters.interface import Carried, Place, Present
from actorlearn.parameters.settings import ExchangeSettings
from actorlearn.replay.buffer import Replay, Sample
from actorlearn.replay.ratio import Ratio
from actorlearn.replay.samplers import importance
from actorlearn.replay.settings import ReplaySettings
from actorlearn.worker.settings import TrainerSettings
from actorlearn.worker.staging import Staging


class ReplayLearning(Learning):
    """Network, target network, loss, optimizer and replay."""

    algorithm_settings: OffPolicySettings
    finish_s = 0.0
    """No time: the next pass goes on where this one is broken off."""
    replay: Replay

    def __init__(
        self,
        settings: TrainerSettings,
        numbers: ReplaySettings,
        replay: Replay,
        place: Callable[[], Place] = Place,
        beat: Callable[[], object] = lambda: None,
        *,
        stream: Sequence[int] = (),
        prioritises: bool = True,
    ) -> None:
        """Build everything, weights drawn from the seed; learn from this replay as it is.

        Minibatches are drawn by the seed and, where several learners draw from one replay, a ``stream``; one of them
        ``prioritises`` what it has drawn.
        """
        super().__init__(settings, place, beat, for_batches(settings.optimizer, numbers.batches, settings.rate_scaling))
        if not learns_from_replay(self.algorithm):
            raise TypeError(f"algorithm.name: {self.algorithm_settings.name!r} does not learn from a replay")
        self._numbers, self._batch = numbers, numbers.batch_size
        self._prioritises = prioritises and numbers.prioritised
        self.replay = replay
        self.random = np.random.default_rng([settings.seed, settings.learner, *stream])
        """The generator by which minibatches are drawn."""
        self._credited = -1
        """Steps for which all minibatches have been done; -1: those of the first rollout to come."""
        self._ahead = 0
        """Minibatches done beyond these, of a pass that was broken off."""
        self._claim = -1
        """Steps for which they will have been done after the next pass."""
        self._together = 0
        """Learners that are in step."""
        self.target = copy.deepcopy(self.network)
        self.target_weights, _ = flatten(self.target)
        self.learner = replace(self.learner, carried=Carried([self.target_weights], self._counts, self._adopt))
        self._target_passes = self.passes_of(self.target)
        self._noise = torch.Generator(settings.device)
        self._staging = Staging(settings.device)
        self._due = 0
        """Minibatches of the rollout that is being learned from."""
        self._period = -1
        """Number of periods of ``target_every_steps`` that were over when the target network was looked at last."""
        self._newest: dict[str, float] = {}
        """Metrics of the newest update, or of a skipped one."""

    def exchange_by(
        self,
        settings: ExchangeSettings,
        alive: Callable[[], bool],
        present: Callable[[], Present] = Present,
        warn: Callable[[str], None] = lambda text: None,
    ) -> None:
        """Learners in step count the steps of all, because each must do as many updates."""
        self._together = settings.together
        super().exchange_by(settings, alive, present, warn)

    def _counts(self) -> list[int]:
        return [self._credited, self._ahead, self._period, self.replay.begun]

    def _adopt(self, said: NDArray[np.int64], best: int) -> None:
        """Go on with what the learner has done whose weights are taken, once all have stored enough to learn from.

        With the target network too, if it is that learner's; where a store is between them, each has its own.
        """
        self._credited, self._ahead, period = (int(count) for count in said[best, :3])
        self._period = period if self._together else self._period
        self.replay.begun = int(said[:, 3].min())  # -1 where one has stored nothing yet: all begin anew

    # How much, and when ------------------------------------------------------------------------------------------

    def prepare(self, batch: Batch) -> Batch:
        """Return the batch as it is: it is stored already."""
        return batch

    def updates_from(self, prepared: Batch, env_steps: int, own_steps: int) -> int:
        """Return how many minibatches are due by all rollouts before this one, and have not been done."""
        if not self.algorithm_settings.epochs:
            return 0
        learners = max(self._together, 1)
        steps = env_steps if self._together else own_steps
        if self.replay.begun < 0:
            self.replay.begun = steps
        starts = self.replay.begun + self._numbers.learning_starts_steps * learners
        ratio = Ratio(intensity=self._numbers.ratio, batch=self._batch * learners, starts=starts)
        before = steps if self._credited < 0 else self._credited
        self._claim = steps
        self._due = max(0, ratio.due(steps, 0) - ratio.due(before, 0) - self._ahead)
        return self._due

    def pass_over(
        self, batch: Batch, env_steps: int, rollout: int, going_on: Callable[[], bool] = lambda: True
    ) -> dict[str, float]:
        """Learn from as many minibatches as are due; returns metrics of the newest update, or of a skipped one.

        A rollout of thousands takes a minute: ``going_on`` is asked before each, and Stopped raised where it says no.
        """
        self.finite = True
        count = self._ahead + self._due
        for done in range(self._ahead, count):
            go_on(going_on)
            self._noise.manual_seed(mix(mix(self.settings.seed, rollout), done))  # nothing of it needs saving
            self._renew_target(rollout, done, count)
            finite, update = self.finite, self.minibatch(env_steps)
            self._newest = update.reported() if finite else self._newest
            self._ahead += 1
        self._credited, self._ahead = self._claim, 0
        if self._due:
            self.skipped = 0 if self.finite else self.skipped + 1
        return {**self._newest, "replay_transitions": float(len(self.replay)), "minibatches": float(self._due)}

    def _renew_target(self, rollout: int, done: int, count: int) -> None:
        """Copy the network whenever another ``target_every_steps`` of all learners are over.

        A rollout's minibatches, of which there are ``count``, stand for its steps, evenly.
        """
        steps, every = self.settings.rollout_steps, self.algorithm_settings.target_every_steps
        period = (rollout * count + done) * steps // (count * every)
        if period != self._period:
            self.target_weights.copy_(self.weights)
        self._period = period

    # One minibatch -----------------------------------------------------------------------------------------------

    def minibatch(self, env_steps: int) -> Update:
        """Draw one and learn from it."""
        return self.learn_from(*self.drawn(env_steps), env_steps)

    def drawn(self, env_steps: int) -> tuple[Sample, Batch]:
        """Draw a minibatch; returns it as it was stored, and as the algorithm learns from it."""
        sample = self.replay.sample(self._batch, self.random)
        return sample, self._with_targets(self._rows(sample, env_steps))

    def learn_from(self, sample: Sample, batch: Batch, env_steps: int) -> Update:
        """Learn from a minibatch, and give it the priorities that come of that."""
        draw(self.network, self._noise)
        update = self.update(batch, env_steps)
        priority = update.metrics.pop("priority")
        if update.taken and self._prioritises:
            self.replay.update(sample, priority[0].cpu().numpy())
        return update

    def _rows(self, sample: Sample, env_steps: int) -> Batch:
        """Return a minibatch as two rows, as a ``ReplayAlgorithm`` reads them."""
        weight = np.ones(self._batch, np.float32)
        if self._numbers.prioritised:
            gone = env_steps / self.settings.total_steps
            weight = importance(sample.probability, linear(self._numbers.beta, self._numbers.beta_final, gone))
        rows = self._staging.join("observation", [sample.observation[None], sample.next_observation[None]], 0)
        no = torch.zeros((1, self._batch), dtype=torch.bool, device=rows.device)
        return Batch(
            observation=rows,
            action=self._row("action", sample.action),
            reward=self._row("reward", sample.reward),
            terminated=no,
            truncated=no,
            life_lost=no,
            first=no.expand(2, -1),
            valid=~no,
            policy_version=no.long(),
            columns={"discount": self._row("discount", sample.discount), "weight": self._row("weight", weight)},
        )

    def _row(self, name: str, array: Any) -> Tensor:
        return self._staging.join(name, [array[None]], 0)

    @torch.no_grad()
    def _with_targets(self, batch: Batch) -> Batch:
        """Return the batch with what row 0 should say, from row 1."""
        rows = batch.observation[1:]
        passes = {"target.": self._target_passes}
        draw(self.target, self._noise)
        if self.algorithm.prepared_rows:
            draw(self.network, self._noise)
            passes[""] = self.passes
        if len(passes) == self.pool.count:  # a network for each core: halves of 32 rows take 0.8 of the time of all
            both = list(passes.values())
            outputs = self.pool.run(lambda index: both[index].whole(rows), len(both))
        else:
            outputs = [made.forward(rows)[0] for made in passes.values()]
        following = {
            f"{prefix}{name}": output
            for prefix, own in zip(passes, outputs, strict=True)
            for name, output in own.items()
        }
        return self.algorithm.prepare(batch, following)

    # Checkpoints -------------------------------------------------------------------------------------------------

    def tensors(self) -> dict[str, Tensor]:
        """Everything that learning changes, by name; the replay itself is ``save``'s."""
        target = {f"target.{name}": tensor for name, tensor in self.target.state_dict().items()}
        return {
            **super().tensors(),
            **target,
            "replay.counters": torch.tensor([self._credited, self._ahead, self._period]),
        }

    def state(self) -> dict[str, Any]:
        """Return what is short of all this and no tensor, as plain numbers."""
        return {"draws": self.random.bit_generator.state, "told": self._newest}  # "told": as older checkpoints have it

    def save(self, folder: Path) -> dict[str, Any]:
        """Write the replay, where that is asked for, and return the state."""
        return self.state() | ({"replay": self.replay.save(folder, self.beat)} if self._numbers.save else {})

    def restore(self, saved: checkpoint.Checkpoint, goes_on: bool = False) -> None:
        """Take back what was saved, but not a replay older than the one that is there.

        Where a run is resumed and nothing ``goes_on`` that stood in memory, other rows come of the rollout to be
        learned next: they are stored, even if this rollout was, by a trainer that was told to end while it learned it.
        """
        super().restore(saved)
        if "draws" in saved.state:  # early checkpoints have neither
            self.random.bit_generator.state = saved.state["draws"]
            self._newest = dict(saved.state["told"])
        self.target.load_state_dict(saved.section("target"))
        self._credited, self._ahead, self._period = (int(n) for n in saved.tensors["replay.counters"])
        if "replay" in saved.state and self.replay.empty:
            rollouts_learned = saved.state["learned"]
            self.replay.restore(
                saved.path, saved.state["replay"], self.beat, goes_on=goes_on, rollouts=rollouts_learned
            )
