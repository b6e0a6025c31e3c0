"""Rehearses a run before it starts: takes a few steps in one environment, and makes one update from them.

An unsuitable plug-in is thus refused before any process of the run is started. The error is one line: what the plug-in
returned or raised, where in its code, and which file describes what it must do. For a plug-in's algorithm it also
checks whether checkpoints contain all its state (`hidden_state`). The rehearsal has no effect on the run.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import one_hot

from actorlearn.actions import Actions, MultiDiscrete, draw
from actorlearn.algorithms.interface import PRIORITY, Algorithm, Batch, MultiNetworkAlgorithm, ReadsSomeHeads
from actorlearn.algorithms.make import extra_networks
from actorlearn.algorithms.make import make as make_algorithm
from actorlearn.algorithms.settings import (
    ALGORITHMS,
    AlgorithmSettings,
    HardCopies,
    OffPolicySettings,
    OnPolicySettings,
    Polyak,
)
from actorlearn.algorithms.state import declared_by, unchanged
from actorlearn.envs.gymnasium_env import Gymnasium
from actorlearn.envs.interface import MalformedStepError, Row, VectorEnv, check_actions, empty_row
from actorlearn.exceptions import in_one_line, place_of, words_of
from actorlearn.extra_networks import ExtraNetwork
from actorlearn.learning.items import following_outputs
from actorlearn.learning.losses import LossAndMetrics
from actorlearn.learning.losses import make as make_losses
from actorlearn.learning.minibatches import Epochs, Minibatch
from actorlearn.learning.target import Target
from actorlearn.models.interface import Outputs
from actorlearn.models.several import ACTOR
from actorlearn.observation_parts import MASK
from actorlearn.tasks.hidden_state import hidden_state
from actorlearn.worker.passes import FlatNetwork

STEPS = 2
"""Largest number of steps that the rehearsal takes in the environment."""
SLOW_STEP_S = 0.005
"""An environment is slow if a step takes at least this many seconds: 200 steps per second in one process."""
TIMED_STEPS = 6
"""Number of further steps in which the speed of a slow environment is measured."""
SEQUENCE = 2
"""Number of transitions of a sequence, for algorithms that learn from sequences."""
MASKS = 8
"""Number of random masks with which an algorithm is tested not to choose an invalid action."""
SHIPPED = "actorlearn."
"""Beginning of the names of built-in modules."""
_TAKEN = frozenset(Batch.__slots__) | {"state", PRIORITY}
"""Names that an algorithm's column must not have, because every batch has columns of these names."""


class RehearsedPart(NamedTuple):
    """The names of a part of a run (environment, network, …) in error messages."""

    key: str
    """The part's key in a topology."""
    name: str
    """The value of that key."""
    described_in: str
    """The file that documents the part's methods."""


@contextmanager
def blaming(part: RehearsedPart, deed: str) -> Iterator[None]:
    """Convert any exception of a part's code, also SystemExit, to a ValueError of one line that names the part.

    ``deed`` says what the part could not do, for example "cannot be made".
    """
    try:
        yield
    except BaseException as error:
        said = words_of(error)
        if isinstance(error, ValueError) and said.startswith(f"{part.key.partition('.')[0]}."):
            raise  # the text already names the key
        if isinstance(error, MalformedStepError):
            raise ValueError(f"{part.key}: {said}") from error
        what = said if type(error) is ValueError else in_one_line(error)
        where = f"{what}{place_of(error)}; {part.described_in} describes what it must do"
        raise ValueError(f"{part.key}: {part.name!r} {deed}: {where}") from error


def check_heads(heads: Any) -> None:
    """Raise ValueError unless the result of an algorithm's ``heads`` maps names to sizes."""
    good = isinstance(heads, Mapping) and heads and all(_is_size(size) for size in heads.values())
    if not good:
        raise ValueError(f"heads returns {heads!r:.200}; it must map the name of each output to its size, 1 or more")


def check_extra_networks(extra: Any) -> None:
    """Raise ValueError unless the result of an algorithm's ``extra_networks`` maps valid names to `ExtraNetwork`."""
    if not (isinstance(extra, Mapping) and all(isinstance(network, ExtraNetwork) for network in extra.values())):
        rule = "it must map names to ExtraNetwork (actorlearn/extra_networks.py)"
        raise ValueError(f"extra_networks returns {extra!r:.200}; {rule}")
    if wrong := [name for name in extra if name == ACTOR or not str(name).isidentifier()]:
        raise ValueError(f"extra_networks returns {wrong[0]!r}; a name must be an identifier other than {ACTOR!r}")


def check_columns(columns: Any) -> None:
    """Raise ValueError unless the result of an algorithm's ``columns`` maps unused names to (dtype, shape)."""
    if not isinstance(columns, Mapping):
        raise ValueError(
            f"columns returns {columns!r:.200}; it must map names to (numpy dtype name, shape), or be {{}}"
        )
    for name, cell in columns.items():
        if name in _TAKEN:
            raise ValueError(f"columns returns {name!r}, the name of a column that every batch has; use another name")
        rule = f"columns returns {name!r}: {cell!r:.100}; it must be (numpy dtype name, shape of one cell)"
        if not (isinstance(cell, tuple) and len(cell) == 2 and isinstance(cell[1], tuple)):
            raise ValueError(rule)
        if not (isinstance(getattr(torch, str(cell[0]), None), torch.dtype) and all(map(_is_size, cell[1]))):
            raise ValueError(rule)


def _is_size(size: object) -> bool:
    return isinstance(size, int) and size >= 1


class Rehearsal:
    """An environment, a network and an algorithm that act and learn together."""

    def __init__(
        self,
        settings: AlgorithmSettings,
        parts: Mapping[str, RehearsedPart],
        env: VectorEnv,
        algorithm: Algorithm,
        network: FlatNetwork,
    ) -> None:
        """Set the objects to try, made from the parts "env", "model" and "algorithm"; ``env`` has one environment."""
        self._settings, self._parts, self._env = settings, parts, env
        self._algorithm, self._network = algorithm, network
        self._actions: Actions = env.spec.actions
        self._heads = algorithm.heads(self._actions)
        self._columns = algorithm.columns(self._actions)
        self._random = np.random.default_rng(0)
        self._newest: Outputs = {}
        """Outputs of the network, [1, size] each, from which the newest action was chosen."""
        self.step_s = 0.0
        """Seconds of one step of the environment if it is slow, else 0. `play` measures it."""

    def run(self) -> str:
        """Play and learn; return a description of state that checkpoints would not contain, empty if there is none.

        Raises ValueError if a part is unsuitable.
        """
        batch = self.play()
        with blaming(self._parts["algorithm"], "cannot learn from a batch"):
            batch = batch.environments(torch.tensor([0, 0]))
            self._check_state()
            self.learn(self._algorithm, batch)
            if type(self._algorithm).__module__.startswith(SHIPPED):  # the tests of actorlearn look for hidden state
                return ""
            return hidden_state(self._made_anew, lambda algorithm, number: self._update(algorithm, batch, number))

    # Acting --------------------------------------------------------------------------------------------------------

    def play(self) -> Batch:
        """Take steps with the algorithm's actions; return the first agent's steps as a batch [T, 1, …].

        T is STEPS, or the horizon of the algorithm if that is shorter.
        """
        steps = min(STEPS, self._settings.horizon) if isinstance(self._settings, OnPolicySettings) else STEPS
        row, rows, acted, times_s = empty_row(self._env.spec, self._env.count), [], [], []
        state = before = torch.full((1, self._network.state_size), torch.nan)  # row 0 begins a game: it must be reset
        with blaming(self._parts["env"], "cannot be reset"):
            self._env.reset(row)
        for _ in range(steps):
            rows.append(_copied(row))
            outputs, state = self._outputs(rows[-1], state)
            acted.append(self._act(self._algorithm, outputs))
            self._newest = outputs
            times_s.append(self._step(acted[-1]["action"].numpy(), row))
        rows.append(_copied(row))
        self.step_s = self._measured(times_s)
        begun = {"state": before[None]} if self._network.state_size else {}
        of_rows = {name: torch.stack([row[name] for row in rows]) for name in rows[0]}
        chosen = {name: torch.stack([cells[name] for cells in acted]) for name in acted[0]}
        return Batch(
            observation=of_rows["observation"],
            action=chosen.pop("action"),
            reward=of_rows["reward"][1:].clip(-1.0, 1.0),
            terminated=of_rows["terminated"][1:],
            truncated=of_rows["truncated"][1:],
            life_lost=of_rows["life_lost"][1:],
            first=of_rows["first"],
            valid=~of_rows["first"][1:],
            policy_lag=torch.zeros(steps, 1, dtype=torch.int64),
            columns=chosen | begun,
        )

    def _step(self, action: NDArray[Any], row: Row) -> float:
        """Step the environment with the same action for all agents; return the seconds that it took.

        With masks other agents take valid random actions, because the same one may be invalid for them.
        """
        with blaming(self._parts["env"], "cannot take a step"):
            taken = action.repeat(self._env.count, axis=0)
            if self._env.spec.action_mask:
                taken[1:] = self._env.random_actions(self._random)[1:]
            began_s = time.perf_counter()
            self._env.step(taken, row)
            return time.perf_counter() - began_s

    def _measured(self, times_s: Sequence[float]) -> float:
        """Return the seconds of the fastest of several steps, or 0 if the environment is not slow.

        The fastest step counts because other work on the machine slows down some steps. Only environments that are
        stepped one after the other are measured. In other kinds, which step many environments together, the time of one
        environment does not predict the time of many.
        """
        if not isinstance(self._env, Gymnasium) or min(times_s) < SLOW_STEP_S:
            return 0.0
        row = empty_row(self._env.spec, self._env.count)
        actions = (self._env.random_actions(self._random)[:1] for _ in range(TIMED_STEPS))
        fastest_s = min(*times_s, *(self._step(action, row) for action in actions))
        return fastest_s if fastest_s >= SLOW_STEP_S else 0.0

    def _outputs(self, row: Mapping[str, Tensor], state: Tensor) -> tuple[Outputs, Tensor]:
        """Return the network's outputs [1, size] for a step, and its new state [1, S]; raises ValueError if invalid."""
        module, part, size = self._network.module, self._parts["model"], self._network.state_size
        observation = torch.cat([row["observation"]] * 2)
        with blaming(part, "cannot compute outputs for an observation"):
            found = (
                module(observation[None], state.expand(2, -1), row["first"].expand(1, 2))
                if size
                else module(observation)
            )
            if size:
                if not (isinstance(found, tuple) and len(found) == 2):
                    raise ValueError(
                        f"returns {type(found).__name__}; with state_size it must return a tuple (outputs, state after)"
                    )
                found, after = found
                _check_tensor(after, "the state after", (2, size))
                state = after[:1].detach()
            if not isinstance(found, Mapping):
                raise ValueError(f"returns {type(found).__name__}; it must return a dict with one tensor for each head")
            for head, count in self._heads.items():
                if head not in found:
                    raise ValueError(f"returns {', '.join(found) or 'nothing'}, but not the head {head}")
                _check_tensor(found[head], head, (*([1] if size else []), 2, count))
            if not any(found[head].requires_grad for head in self._heads):
                raise ValueError("returns outputs without a gradient, from which nothing can be learned")
        passed_on = [MASK] if self._env.spec.action_mask else []
        return {head: found[head].detach().flatten(0, -2)[:1] for head in (*self._heads, *passed_on)}, state

    @torch.no_grad()
    def _act(self, algorithm: Algorithm, outputs: Outputs) -> dict[str, Tensor]:
        """Return the algorithm's action and columns, [1, …] each, for outputs; raises ValueError if one is invalid."""
        generator = torch.Generator().manual_seed(0)
        with blaming(self._parts["algorithm"], "cannot act"), unchanged(algorithm, "act"):
            if isinstance(algorithm, ReadsSomeHeads):
                read = {*algorithm.acting_heads(self._actions), MASK}
                outputs = {name: output for name, output in outputs.items() if name in read}
            for greedy in (True, False):
                acted: Any = algorithm.act(outputs, generator, greedy)
                if not isinstance(acted, Mapping) or not isinstance(acted.get("action"), Tensor):
                    raise ValueError(f"act returns {acted!r:.100}; it must return tensors by name, including action")
                check_actions(acted["action"].numpy(), 1, self._actions)
                self._check_masked(algorithm, outputs, generator, greedy)
            missing = [name for name in self._columns if name not in acted]
            if missing or len(acted) > len(self._columns) + 1:
                raise ValueError(
                    f"act returns {', '.join(acted)}; it must return action and {[*self._columns]} (columns)"
                )
            for name, (dtype, cell) in self._columns.items():
                _check_tensor(acted[name], f"{name} from act", (1, *cell), dtype)
            return dict(acted)

    def _check_masked(self, algorithm: Algorithm, outputs: Outputs, generator: torch.Generator, greedy: bool) -> None:
        """Try masks that allow a single action; raise ValueError if the algorithm chooses another one."""
        if MASK not in outputs or isinstance(self._actions, tuple):
            return
        only = torch.from_numpy(draw(self._actions, (MASKS,), np.random.default_rng(0)))
        sizes = self._actions.sizes if isinstance(self._actions, MultiDiscrete) else (self._actions,)
        parts = only.reshape(MASKS, -1).unbind(-1)
        mask = torch.cat([one_hot(part, size) for part, size in zip(parts, sizes, strict=True)], -1).float()
        rows = {name: output.expand(MASKS, -1) for name, output in outputs.items()} | {MASK: mask}
        if not torch.equal(algorithm.act(rows, generator, greedy)["action"], only):
            raise ValueError(
                f"act chooses actions that are not valid (env.action_mask: {self._env.spec.action_mask}); it must "
                f"leave out actions for which outputs[{MASK!r}] is 0 (actorlearn/algorithms/policies.py), or write "
                "env.action_mask: none"
            )

    # Learning ------------------------------------------------------------------------------------------------------

    def learn(self, algorithm: Algorithm, batch: Batch) -> LossAndMetrics:
        """Compute the loss and gradient of one minibatch; raises ValueError for an invalid loss, metric or gradient."""
        replayed = isinstance(self._settings, OffPolicySettings)
        with unchanged(algorithm, "prepare"):
            minibatch, target = (
                self._replayed(algorithm, batch) if replayed else (self._prepared(algorithm, batch), None)
            )
        losses = make_losses(algorithm, self._network, target, "cpu", "fp32")
        found = losses.compute_gradient(minibatch, 0.0)
        _check_loss(found, batch.action.shape[1] if replayed else None)
        if not torch.isfinite(self._network.gradients).all():
            raise ValueError("the gradient of its loss is not finite")
        return found

    def _update(self, algorithm: Algorithm, batch: Batch, number: int) -> list[Tensor]:
        """Act and make one update, with random rewards seeded by ``number``; return all results."""
        generator = torch.Generator().manual_seed(number)
        acted = self._act(algorithm, self._newest)
        found = self.learn(
            algorithm, replace(batch, reward=torch.empty_like(batch.reward).uniform_(-1.0, 1.0, generator=generator))
        )
        return [*acted.values(), found.loss, *found.metrics.values(), self._network.gradients.clone()]

    def _made_anew(self) -> Algorithm:
        """Make another object of the algorithm, and make the calls that every learner makes before it learns."""
        algorithm = make_algorithm(self._settings)
        algorithm.heads(self._actions)
        extra_networks(algorithm, self._actions)
        algorithm.columns(self._actions)
        return algorithm

    def _check_state(self) -> None:
        """Raise ValueError if the declared state is not float32 tensors, or has more numbers than the weights.

        Learners exchange the state in buffers that are as long as the weights.
        """
        numbers = sum(part.numel() for part in declared_by(self._algorithm).values())
        most = self._network.weights.numel()
        if numbers > most:
            raise ValueError(
                f"the algorithm's state has {numbers} numbers; at most {most} are allowed, the number of weights"
            )

    def _prepared(self, algorithm: Algorithm, batch: Batch) -> Minibatch:
        epochs = Epochs(algorithm, self._network, 1, 1, 0)
        prepared = _checked(epochs.prepare(batch))
        return next(epochs.draw(prepared, 0, epochs.due(prepared, 0, 0, 0), 0))

    def _replayed(self, algorithm: Algorithm, batch: Batch) -> tuple[Minibatch, Target]:
        """Return a minibatch like one drawn from a replay, and a target network."""
        assert isinstance(self._settings, OffPolicySettings)
        policy = self._settings.target
        if not isinstance(policy, HardCopies | Polyak):
            raise ValueError(f"the property target of its settings is {policy!r:.100}; it must be HardCopies or Polyak")
        target = Target(self._network, policy, 1)
        length, n = (SEQUENCE, self._settings.n_step) if ALGORITHMS.spec(self._settings.name).sequences else (1, 1)
        items, outputs = items_of(batch, length, n), {}
        with torch.no_grad():
            if not isinstance(algorithm, MultiNetworkAlgorithm):
                older = following_outputs(items, target.network, 0)
                outputs = {f"target.{name}": output for name, output in older.items()}
                outputs |= following_outputs(items, self._network, 0) if algorithm.prepared_rows else {}
            return Minibatch(_checked(algorithm.prepare(items, outputs))), target


def items_of(batch: Batch, length: int, n: int) -> Batch:
    """Turn a rollout into a minibatch like one drawn from a replay: B sequences of ``length`` transitions.

    Its observations are [length + n, B, …], for n-step returns. If the rollout is too short, its last transition and
    observation are repeated.
    """
    steps, count = batch.action.shape[:2]
    row, transition = torch.arange(length + n).clamp(max=steps), torch.arange(length).clamp(max=steps - 1)
    ended = (batch.terminated | batch.truncated)[transition]
    columns = {
        "discount": torch.full((length, count), 0.99).where(~ended, 0.0),
        "weight": torch.ones(length, count),
        "reached": torch.arange(1, length + 1)[:, None].expand(length, count),
    }
    if "state" in batch.columns:
        columns["state"] = batch.columns["state"]
    return Batch.plain(
        observation=batch.observation[row],
        action=batch.action[transition],
        reward=batch.reward[transition],
        first=batch.first[row],
        valid=batch.valid[transition],
        columns=columns,
    )


def _copied(row: Row) -> dict[str, Tensor]:
    """Return copies of the first environment's columns, [1, …] each, which the environment does not overwrite."""
    names = ("observation", "reward", "terminated", "truncated", "life_lost", "first")
    return {name: torch.from_numpy(getattr(row, name)[:1].copy()) for name in names}


def _checked(prepared: Any) -> Batch:
    if not isinstance(prepared, Batch):
        raise ValueError(f"prepare returns {type(prepared).__name__}; it must be a Batch")
    return prepared


def _check_tensor(found: Any, what: str, shape: tuple[int, ...], dtype: str = "float32") -> None:
    """Raise ValueError unless ``found`` is a tensor of this dtype and shape with finite numbers."""
    wanted = f"{dtype} {list(shape)}"
    if not isinstance(found, Tensor):
        raise ValueError(f"returns {what} as {type(found).__name__}, not {wanted}")
    if (str(found.dtype), tuple(found.shape)) != (f"torch.{dtype}", shape):
        raise ValueError(f"returns {what} as {found.dtype} {list(found.shape)}, not {wanted}")
    if not torch.isfinite(found).all():
        raise ValueError(f"returns {what} with values that are not finite")


def _check_loss(found: LossAndMetrics, items: int | None) -> None:
    """Raise ValueError if the loss is not finite, or if a metric is not a detached tensor of one number.

    ``items`` is the number of items of a minibatch from a replay, for which the metric "priority" [1, items] is
    allowed; None without a replay.
    """
    if not torch.isfinite(found.loss).all():
        raise ValueError(f"its loss is {float(found.loss.detach())}; it must be finite")
    for name, metric in found.metrics.items():
        if name == PRIORITY and items is not None:
            _check_tensor(metric, "the metric priority", (1, items))
        elif not _is_number(metric):
            raise ValueError(f"its metric {name!r} is {metric!r:.100}; it must be a detached tensor of one number")


def _is_number(metric: Any) -> bool:
    return isinstance(metric, Tensor) and metric.numel() == 1 and not metric.requires_grad
