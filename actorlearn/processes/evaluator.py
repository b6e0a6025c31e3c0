"""The evaluator: plays whole games with published weights, and reports their scores, which are sums of raw rewards.

Training never waits for it; only the end of a run waits for the last evaluation. One evaluation uses one version of the
weights, or one of each learner if each has its own weights. Scores are sent to the supervisor as `Evaluated` messages.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from math import inf
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from actorlearn.acting.policy import Policy
from actorlearn.address import ByLearner, Shm
from actorlearn.envs.interface import empty_row
from actorlearn.envs.make import make, make_rendered
from actorlearn.envs.specs import EnvSettings
from actorlearn.parameters.published import Published
from actorlearn.wire.channel import Waiter
from actorlearn.wire.identity import ProcessId, trainer_id
from actorlearn.wire.messages import Evaluated
from actorlearn.worker.scheduling import set_policy
from actorlearn.worker.settings import EvaluatorSettings, Recording
from actorlearn.worker.worker import POLL_MS, Worker

if TYPE_CHECKING:
    from actorlearn.processes.films import Films

_NICEST = 19
ENVIRONMENTS = 8
"""Largest number of games played at the same time."""
AVERAGE = "average"
"""Key, in results, of the scores played with the mean of all learners' weights."""
NONE = "no game is recorded"
"""Beginning of the warnings that games are not recorded; the reason follows."""
SECONDARY = "secondary"
"""Key, in results, of the scores played with the weights of a secondary learner (``learning/secondary.py``)."""


class Audience:
    """Passes the games of an evaluation to a recorder of films. If it fails, the games continue without it."""

    def __init__(self, games: Any, count: int, spectator: Films | None) -> None:
        """Show ``count`` games to ``spectator``, for which ``games`` must be a `RenderedEnv`; None: show nothing."""
        self._games, self._count, self._spectator = games, count, spectator

    def show(self, left: npt.NDArray[np.int64]) -> None:
        """Show the newest picture of each environment that has games left to play; ``left`` [G] counts them."""

        def see(spectator: Films) -> None:
            for i, picture in enumerate(self._games.render()):
                if left[i]:
                    spectator.see(picture, i)

        self._tell(see)

    def note(self, goes_on: npt.NDArray[np.bool_], step: Mapping[str, npt.NDArray[Any]]) -> None:
        """Record a time step of the games that are not over, for which ``goes_on`` [G] is True.

        ``step`` has actions, rewards and policy outputs, [B, …] each. The agents of a game are adjacent: B = G * A.
        """
        by_game = {name: column.reshape(self._count, -1, *column.shape[1:]) for name, column in step.items()}

        def tell(spectator: Films) -> None:
            for i in np.flatnonzero(goes_on).tolist():
                spectator.note(i, {name: _plain(column[i]) for name, column in by_game.items()})

        self._tell(tell)

    def end(self, environment: int, score: float) -> None:
        """Record that a game has ended."""
        self._tell(lambda spectator: spectator.end(environment, score))

    def _tell(self, deed: Callable[[Films], None]) -> None:
        if self._spectator is None:
            return
        try:
            deed(self._spectator)
        except Exception as error:  # whatever an environment, a library or a disk raises must not end the evaluation
            spectator, self._spectator = self._spectator, None
            spectator.fail(str(error) if type(error) is ValueError else f"{type(error).__name__}: {error}")


def _plain(of_agents: npt.NDArray[Any]) -> Any:
    """Return the values [A, …] of a game's agents as a list; if there is only one agent, its value."""
    values: list[Any] = of_agents.tolist()
    return values if len(values) > 1 else values[0]


def play(
    policy: Policy,
    env: EnvSettings,
    episodes: int,
    greedy: bool,
    seed: int,
    beat: Callable[[], object] = lambda: None,
    spectator: Films | None = None,
    fire_after: int = 0,
) -> Iterator[float | None]:
    """Play exactly ``episodes`` whole games, and yield the score of each; also yield None after each step.

    The caller can do other work when it gets None. A score is a sum of raw rewards, averaged over the agents of a game.
    How many games each environment plays is fixed beforehand, because taking the first games to finish would favour
    short games. ``beat`` is called between the constructions of environments. ``spectator`` records the games. In games
    with the action FIRE, if an action was chosen ``fire_after`` times in a row, FIRE is played until the policy chooses
    another action; 0 = never.
    """
    count = min(episodes, ENVIRONMENTS)
    left = np.array([len(range(i, episodes, count)) for i in range(count)])
    seeds = [seed + i for i in range(count)]
    games = make(env, seeds, beat) if spectator is None else make_rendered(env, seeds, beat)
    row = empty_row(games.spec, games.count)
    first = torch.from_numpy(row.first) if policy.state_size else None
    state = torch.zeros(games.count, policy.state_size) if policy.state_size else None
    repeats, fire = Repeats(games.count), games.spec.fire
    returns = np.zeros(count)
    games.reset(row)
    audience = Audience(games, count, spectator)
    audience.show(left)
    moment = 0
    while left.any():
        chosen = policy.choose(torch.from_numpy(row.observation), moment, greedy, state, first)
        state = chosen.get("state")
        action = chosen["action"].cpu().numpy()
        if fire_after and fire is not None:
            action = np.where(repeats.count(action, row.first) >= fire_after, fire, action)
        games.step(action, row)
        moment += 1
        begun = row.first.reshape(count, -1).all(axis=1)  # all agents begin a new game, so the last game is over
        for i in np.flatnonzero(begun & (left > 0)).tolist():
            audience.end(i, float(returns[i]))
            yield float(returns[i])
            left[i] -= 1
        if not left.any():
            break
        returns[begun] = 0.0
        returns += row.reward.reshape(count, -1).mean(axis=1)
        audience.note(~begun & (left > 0), {"action": action, "reward": row.reward, **_traced(chosen)})
        audience.show(left)
        yield None
    games.close()


class Repeats:
    """Counts how many times in a row each environment's newest action was chosen."""

    def __init__(self, count: int) -> None:
        self._action = np.full(count, -1)
        self._count = np.zeros(count, np.int64)

    def count(self, action: npt.NDArray[np.integer[Any]], first: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
        """Return the counts [B] after these actions [B]; ``first`` [B] marks the first action of a game."""
        again = (action == self._action) & ~first
        self._action, self._count = action, np.where(again, self._count + 1, 1)
        return self._count


def films(recording: Recording | None, env_steps: int) -> AbstractContextManager[Films | None]:
    """Return a context manager that gives a `Films` to record games, or None if ``recording`` is None.

    ``env_steps`` is the number of steps that the weights have learned from; the folder of the films is named after it.
    """
    if recording is None:
        return nullcontext()
    from actorlearn.processes.films import Films  # needs PyAV, which is an optional dependency

    return Films(Path(recording.folder) / f"{env_steps:012d}", recording.pictures_per_s)


def check_recording(env: EnvSettings, recording: Recording | None) -> None:
    """Raise a ValueError of one line if games are to be recorded but cannot be rendered."""
    if recording is not None:
        games = make_rendered(env, [0])
        games.reset(empty_row(games.spec, games.count))
        games.render()
        games.close()


def prepare_recording(policy: Policy, env: EnvSettings, recording: Recording | None) -> tuple[Recording | None, str]:
    """Return ``recording`` and an empty text or, if games cannot be rendered, None and the reason.

    If games are recorded, the policy returns the network's value estimates too from now on, for the film's trace.
    """
    try:
        check_recording(env, recording)
    except ValueError as error:
        return None, f"{NONE}: {error}"
    if recording is not None:
        policy.tell_values()
    return recording, ""


def _traced(chosen: Mapping[str, Tensor]) -> dict[str, npt.NDArray[Any]]:
    """Return the policy's results besides actions and states, such as log-probabilities and values, as arrays."""
    return {name: column.cpu().numpy() for name, column in chosen.items() if name not in ("action", "state")}


class PublishedWeights:
    """Reads the newest published weights of all learners in the run."""

    def __init__(self, weights: Shm | ByLearner[Shm], own_weights: bool = True) -> None:
        """Open the weights at this address: only the first learner's, until `follow` is called.

        ``own_weights``: whether learners have different weights. If not, `weights` copies only the newest.
        """
        self._weights, self._own_weights = weights, own_weights
        self._opened: dict[ProcessId, Published] = {}
        self.follow(())

    def follow(self, listed: Sequence[ProcessId]) -> None:
        """Open the weights of these trainers, and close those of trainers that have left."""
        weights = self._weights
        several = isinstance(weights, ByLearner) and listed
        trainers = [*listed] if several else [trainer_id(0)]  # a restarted trainer may have a new segment
        self._opened = {trainer: self._opened[trainer] for trainer in trainers if trainer in self._opened}
        for trainer in trainers:
            if trainer not in self._opened:
                address = weights.of(trainer.learner) if isinstance(weights, ByLearner) else weights
                if found := open_if_there(address):
                    self._opened[trainer] = found

    @property
    def env_steps(self) -> int | None:
        """Number of environment steps of the newest weights that any learner has published; None before the first."""
        return max((own.env_steps for own in self._opened.values() if own.version >= 0), default=None)

    def weights(self) -> tuple[int, dict[str, Tensor]]:
        """Return the largest version number, and a copy of the newest weights of each learner by trainer name.

        If learners have no weights of their own, only the newest weights are copied. The number is 0 without weights.
        """
        versions, weights, read = [0], {}, [*self._opened.items()]
        if not self._own_weights:
            read = sorted(read, key=lambda own: own[1].env_steps, reverse=True)[:1]
        for trainer, published in read:
            if newest := _newest(published):
                versions.append(newest[0])
                weights[trainer.name] = newest[1]
        return max(versions), weights


def open_if_there(address: Shm | None) -> Published | None:
    """Open published weights. Return None without an address, or if the learner is on another machine or has left."""
    with suppress(FileNotFoundError):
        return Published.open(address) if address else None
    return None


def _newest(published: Published) -> tuple[int, Tensor] | None:
    """Return the newest version and a copy of its weights; None before the first version."""
    copied = torch.empty(published.size)
    newest = published.fetch(copied.numpy())
    return (newest[0], copied) if newest else None


def players(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the weights to evaluate, by name: the mean over learners and, if there are several, those of each."""
    together = {AVERAGE: torch.stack(list(weights.values())).mean(0)}
    return {**weights, **together} if len(weights) > 1 else together


class EvaluationSchedule:
    """Decides when to evaluate: each time the steps have passed a multiple of ``every_steps``, and at the end of a run.

    If ``every_steps`` is None, it evaluates only at the end.
    """

    def __init__(self, every_steps: int | None) -> None:
        self._every_steps = every_steps
        self._next_steps: float | None = None
        self._played_steps = 0

    def due(self, env_steps: int, last: bool = False) -> bool:
        """Return whether to evaluate the weights after ``env_steps`` steps; ``last``: they are the run's final ones."""
        if self._next_steps is None:
            self._next_steps = self._after(env_steps)
        return env_steps >= self._next_steps or (last and env_steps != self._played_steps)

    def note_played(self, env_steps: int) -> None:
        """Record that weights of ``env_steps`` steps are evaluated now."""
        self._played_steps, self._next_steps = env_steps, self._after(env_steps)

    def _after(self, env_steps: int) -> float:
        return (env_steps // self._every_steps + 1) * self._every_steps if self._every_steps else inf


def run(settings: EvaluatorSettings) -> None:
    """Evaluate the newest weights by the schedule in the settings, until the final weights are evaluated or SIGTERM."""
    if not set_policy(settings.scheduling):
        os.nice(_NICEST)
        print(f"the kernel refused the scheduling class {settings.scheduling}; running at nice {_NICEST}", flush=True)
    worker = Worker(settings)
    torch.set_num_threads(1)
    policy = Policy(settings.policy, "cpu", settings.seed, stream=settings.index, threads=settings.threads)
    published = PublishedWeights(settings.weights, settings.own_weights)
    secondary = open_if_there(settings.secondary)
    waiter = Waiter(None, worker.control.dealer)
    schedule = EvaluationSchedule(settings.every_steps)
    recording, why_none = prepare_recording(policy, settings.env, settings.recording)
    worker.hello()
    if why_none:
        worker.control.warned(f"evaluator.record: {why_none}")
    while worker.poll():
        if worker.control.ordered:
            published.follow(worker.control.order.learners)
            secondary = open_if_there(settings.secondary) or secondary  # a trainer that moved has a new segment
            worker.control.applied()
        last = worker.control.order.phase == "score"
        env_steps = published.env_steps
        if env_steps is None or not schedule.due(env_steps, last):
            if last:
                if env_steps is None:
                    worker.control.warned(
                        "the final weights were not evaluated, because this machine has received no "
                        "weights; `actorlearn eval RUN` evaluates them"
                    )
                worker.control.finished("scored")
                break
            waiter.wait(POLL_MS)
            worker.timings.add("wait")
            continue
        schedule.note_played(env_steps)
        version, weights = published.weights()
        wanted = players(weights)
        if secondary and (newest := _newest(secondary)):
            wanted[SECONDARY] = newest[1]
        with films(recording, env_steps) as filmed:
            scores = _evaluate(settings, worker, policy, wanted, version, filmed)
            if filmed and scores is not None:
                filmed.keep()
            if filmed and filmed.failure:
                worker.control.warned(f"evaluator.record: {NONE}: {filmed.failure}")
        if scores is None:
            break
        returns = scores.pop(AVERAGE)
        means = {name: fmean(own) for name, own in scores.items()}
        worker.control.send(
            Evaluated(
                policy_version=version,
                env_steps=env_steps,
                returns=returns,
                secondary=means.pop(SECONDARY, None),
                learners=means,
            )
        )
    worker.control.close()


def _evaluate(
    settings: EvaluatorSettings,
    worker: Worker,
    policy: Policy,
    wanted: Mapping[str, Tensor],
    version: int,
    filmed: Films | None,
) -> dict[str, list[float]] | None:
    """Play games with each of the ``wanted`` weights, and return the scores by name; None after SIGTERM.

    All games begin from the same seeds. Only the games with the mean of the weights are filmed.
    """
    scores: dict[str, list[float]] = {name: [] for name in wanted}
    for name, weights in wanted.items():
        policy.flat.copy_(weights)
        seed = settings.seed + version
        spectator, beat = filmed if name == AVERAGE else None, worker.progress.beat
        games = play(
            policy,
            settings.env,
            settings.episodes,
            settings.greedy,
            seed,
            beat,
            spectator,
            settings.fire_after,
        )
        for score in games:
            if score is not None:
                scores[name].append(score)
            elif not worker.poll():
                return None
            worker.timings.add("simulate")
    return scores


def summary(returns: list[float]) -> dict[str, Any]:
    """Return the number, mean, standard deviation, minimum and maximum of scores, and the scores themselves."""
    scores = np.array(returns)
    return {
        "episodes": len(returns),
        "mean": float(scores.mean()),
        "std": float(scores.std(ddof=1)) if len(returns) > 1 else 0.0,
        "min": float(scores.min()),
        "max": float(scores.max()),
        "returns": returns,
    }
