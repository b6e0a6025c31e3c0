"""``Run``: a living or ended run as a Python object, whose methods do what the commands of ``actorlearn`` do."""

from __future__ import annotations

import base64
import io
import shutil
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import actorlearn
from actorlearn.parameters.checkpoint_folders import steps_of
from actorlearn.parameters.chosen_checkpoints import NEWEST
from launch.commands import evaluate, manage
from launch.commands import export as export_command
from launch.commands.run import find_resumable
from launch.errors import FailedError, RunError
from launch.python import asked, child
from launch.python import progress as bars
from launch.python.following import CHECKPOINT, EVALUATION, REPORT, Callbacks, Follower, refuse_callbacks
from launch.reports import evaluations
from launch.runs import find
from launch.runs.client import CHANGE_S, TIMEOUT_S, ask
from launch.runs.curves import SCORE
from launch.topology import sources
from launch.topology.load import parse

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

    from actorlearn.acting.loaded import LoadedPolicy

LOOK_EVERY_S = 0.2
"""Seconds between two looks at the files of a run."""
_END_S = 10.0
"""Seconds to wait for the end of a supervisor that has written its summary."""

Values = dict[str, Any]
Callback = Callable[["Run", Values], object]
"""Function that is called with the run and a report, an evaluation or an event; if it returns False, the run stops."""


class Film(NamedTuple):
    """A file with the film of a game, which a notebook shows."""

    path: Path
    """Path of the MP4."""
    score: float
    """Raw score of the game."""

    def _repr_html_(self) -> str:
        film = base64.b64encode(self.path.read_bytes()).decode()
        return f'<video controls src="data:video/mp4;base64,{film}"></video>'


class Run:
    """A living or ended run, as ``train``, ``start``, ``open`` and ``runs`` return it.

    The object has no copy of the run's data: each call reads the run's folder, or asks the supervisor of the living
    run. A wrong request raises RunError (a ValueError); a valid request that fails raises FailedError (a RuntimeError).
    """

    def __init__(
        self, found: find.RunFolder, process: subprocess.Popen[bytes] | None = None, *, from_start: bool = False
    ) -> None:
        """``process``: the supervisor, if this program started it. ``from_start``: callbacks also get old reports."""
        self._folder = found.path
        self._process = process
        self._follower = Follower(found, from_start)

    def __repr__(self) -> str:
        return f"<Run {self.name}: {self.state}, {self.steps:,} steps>"

    @property
    def folder(self) -> Path:
        """The run's folder, which holds all its files."""
        return self._folder

    @property
    def name(self) -> str:
        """The name of the folder; commands find the run by it."""
        return self._folder.name

    @property
    def state(self) -> str:
        """``running``, ``finished``, ``stopped`` or ``failed``; ``died`` if the supervisor was killed."""
        return self._found().status

    @property
    def steps(self) -> int:
        """Environment steps learned from, as in the newest report; 0 before the first report."""
        return int((self._found().metrics().last() or {}).get("env_steps") or 0)

    @property
    def topology(self) -> Values:
        """All keys of the run and their values, including defaults, as a nested dict."""
        return self._found().topology()

    def metrics(self) -> list[Values]:
        """Return all reports so far, oldest first, each a dict of metrics (docs/metrics.md)."""
        return list(self._found().metrics().new())

    def events(self) -> list[Values]:
        """Return all events so far, oldest first: ``time_s``, ``kind``, ``process``, ``cause`` and others by kind."""
        return list(self._found().events().new())

    def evaluations(self) -> list[Values]:
        """Return the results of evaluations so far: ``mean``, ``std``, ``episodes``, ``env_steps``, and others."""
        return list(evaluations.results(self.events()))

    def metrics_frame(self) -> DataFrame:
        """Return ``metrics()`` as a DataFrame of pandas; raises RunError if pandas is not installed."""
        return _frame(self.metrics())

    def events_frame(self) -> DataFrame:
        """Return ``events()`` as a DataFrame of pandas; raises RunError if pandas is not installed."""
        return _frame(self.events())

    def checkpoints(self) -> list[int]:
        """Return the environment steps of the checkpoints that the first learner has now, in ascending order."""
        return [steps_of(path) for path in self._found().checkpoints() if path.parent.name == "checkpoints"]

    def wait(
        self,
        timeout_s: float | None = None,
        *,
        progress: bool = False,
        on_report: Callback | None = None,
        on_evaluation: Callback | None = None,
        on_checkpoint: Callback | None = None,
    ) -> str:
        """Wait until the run has ended, at most ``timeout_s`` seconds (None: without limit), and return its state.

        Callbacks are called in this thread, each with the run and a dict: a report (docs/metrics.md), an evaluation, or
        the event of a saved checkpoint (``env_steps``, ``path``). If a callback returns False, the run saves and stops.
        If it raises an exception, ``wait`` ends with this exception, and the run goes on.

        The run never waits for a callback; what it reports in the meantime is passed on afterwards. If this program has
        started the run, callbacks get all reports, otherwise those since this object was made.

        Raises RunError, before it waits, for a callback that does not take these two arguments, and for
        ``on_evaluation`` if the run has no evaluator.
        """
        callbacks: Callbacks = {REPORT: on_report, EVALUATION: on_evaluation, CHECKPOINT: on_checkpoint}
        refuse_callbacks(callbacks)
        refuse_unheard(on_evaluation, self.topology.get("evaluator", {}).get("count", 1))
        deadline_s = None if timeout_s is None else time.monotonic() + timeout_s
        bar = bars.make(self._follower.view) if progress else None
        stopping, asked_to_stop, shown = False, False, self._follower.view
        found = self._found()
        try:
            while True:
                newest = find.read(self._folder)
                if newest is not None and newest.meta:  # else the folder was removed; a living run makes it again
                    found = newest
                alive = found.alive  # asked before the files are read, so that all of an ended run is read
                stopping = not self._follower.look(self, callbacks) or stopping
                if stopping and alive and not asked_to_stop:
                    with suppress(FailedError):  # the run is ending, or is asked again in the next turn
                        ask(found, "stop", timeout_s=TIMEOUT_S)
                        asked_to_stop = True
                if bar and self._follower.view is not shown:
                    shown = self._follower.view
                    bar.show(shown)
                if not alive:
                    self._reap()
                    return self._found().status
                if deadline_s is not None and time.monotonic() >= deadline_s:
                    return found.status
                time.sleep(LOOK_EVERY_S)
        finally:
            if bar:
                bar.close()

    def stop(self, now: bool = False, timeout_s: float = 120.0) -> str:
        """Finish the current update, save a checkpoint and end the run; return its state when it has ended.

        ``now``: stop without saving, and kill a run that does not answer. Raises RunError if the run has ended, and
        FailedError if it is still at work after ``timeout_s``.
        """
        status = manage.end(find.find_living(str(self._folder)), now, timeout_s)
        self._reap()
        return status

    def save(self) -> Path:
        """Save a checkpoint of each learner of the living run, and return the folder when they are on disk.

        With several learners it is the folder of the first of those that have saved.
        """
        return Path(str(self._ask("save").data["path"]))

    def attach(self, simulators: int | None = None, learners: int = 0, **changes: Any) -> list[str]:
        """Add simulators or learners to the living run, and return the names of the new processes when they run.

        Without numbers, one simulator is added. Learners can be added only in mode gossip. ``changes``: values of
        ``env.*`` keys for the new simulators, as in ``**{"env.kwargs.size": 8}``. Raises ValueError if the numbers add
        nothing.
        """
        words = [override.text for override in asked.overrides(changes)]
        count = int(not learners) if simulators is None else simulators
        if min(count, learners) < 0 or count + learners < 1:
            raise ValueError(f"simulators={count}, learners={learners}: at least one process must be added")
        reply = self._ask("attach", simulators=count, learners=learners, overrides=words)
        return [str(name) for name in reply.data["names"]]

    def detach(self, *names: str) -> list[str]:
        """Remove processes from the living run, and return their names.

        ``names``: simulators, such as "simulator-1", which leave at the next rollout; in mode gossip also trainers,
        which leave after their update together with their simulators.
        """
        if not names or not all(isinstance(name, str) for name in names):
            raise ValueError("detach() needs names of processes, such as 'simulator-1'; pass a list as detach(*names)")
        return [str(name) for name in self._ask("detach", names=list(names)).data["names"]]

    def policy(self, at: str | int = NEWEST, *, learner: int | None = None, seed: int = 0) -> LoadedPolicy:
        """Load the policy from a checkpoint, to act with it in this process; see ``actorlearn.load_policy``.

        ``at``: "newest", "best", or the steps of one of ``checkpoints()``. Raises ValueError for any other value.
        ``learner``: number of the learner, if learners have different weights; by default the first that has this
        checkpoint and has not left the run. ``seed``: seed of sampled actions.
        """
        return actorlearn.load_policy(self._folder, learner=learner, seed=seed, at=at)

    def evaluate(
        self,
        episodes: int | None = None,
        *,
        at: str | int = NEWEST,
        greedy: bool | None = None,
        seed: int | None = None,
        save: bool = False,
    ) -> Values:
        """Play whole games with a checkpoint in another process, and return a dict about their raw scores.

        ``at``: as for ``policy``. The defaults of ``episodes``, ``greedy`` and ``seed`` are ``evaluator.episodes``,
        ``evaluator.greedy`` and the seed of the run. ``save``: a living run first saves its present weights, and the
        games are played with them; without it, the newest checkpoint may be old.

        The dict has ``mean``, ``std``, ``min`` and ``max`` of the scores, ``episodes``, ``env_steps`` of the
        checkpoint, and ``behind_steps``, the steps that the run has learned since. With ``at="best"`` it also has
        ``best_score``, ``best_score_env_steps`` and ``best_score_by``, which is "evaluation" or "training". If the
        weights are from before the first update, Python warns of it.
        """
        if save and at != NEWEST:
            raise ValueError(
                f"save=True: saves the newest checkpoint, and at={at!r} plays another; leave one of them out"
            )
        found = self._found()
        evaluate.refuse_episodes(episodes)
        if save:
            evaluate.save_present(found)
        answer = evaluate.play(found, evaluate.settings(found, episodes, greedy, seed, at=at))
        for warning in answer["warnings"]:
            warnings.warn(f"{found.name}: {warning}", stacklevel=2)
        return answer

    def record(
        self, path: str | Path, *, at: str | int = NEWEST, greedy: bool | None = None, seed: int | None = None
    ) -> Film:
        """Play one whole game with a checkpoint in another process, write its film to ``path``, and return the film.

        A notebook shows the returned film. ``at``: as for ``policy``; ``greedy`` and ``seed``: as for ``evaluate``.
        Needs the extra ``video``. Raises ValueError for a path that does not end in .mp4, and RunError if the
        environment makes no pictures or the file cannot be written.
        """
        path = Path(path)
        if path.suffix != ".mp4":
            raise ValueError(f"path={str(path)!r}: a film is an MP4; end the path in .mp4")
        found = self._found()
        answer = evaluate.play(found, evaluate.settings(found, 1, greedy, seed, record=True, at=at))
        films = answer.get("recorded")
        if not films:
            raise RunError(f"{found.name}: {'; '.join(answer['warnings']) or 'no game was recorded'}")
        film = films["best"]  # of the only game
        try:
            shutil.copyfile(film["file"], path)
        except OSError as error:
            raise RunError(
                f"{path}: the film cannot be written: {error.strerror}; choose a folder that exists"
            ) from None
        return Film(path, film["score"])

    def plot(self, columns: str | Sequence[str] = SCORE) -> Figure:
        """Return a figure of matplotlib with the run's learning curve over steps and over minutes; a notebook shows it.

        ``columns``: one or several names of metrics. ``figure.savefig("run.png")`` writes the figure. Raises ValueError
        if there is nothing to draw yet.
        """
        from launch.display import plot

        figure = plot.figure_of([self._found()], [columns] if isinstance(columns, str) else columns)
        _show_in_notebooks(type(figure))
        return figure

    def export(
        self,
        folder: str | Path,
        *,
        at: str | int = NEWEST,
        episodes: int | None = None,
        learner: int | None = None,
        weights_only: bool = False,
    ) -> Path:
        """Write the policy to a new folder that can be used without actorlearn (docs/share.md); return the folder.

        ``at``, ``learner``: as for ``policy``. ``episodes``: number of games for the score in the folder's README.md,
        by default ``evaluator.episodes``; with 0 none are played. ``weights_only``: write no ONNX file and no player.
        """
        export_command.write(self._found(), Path(folder), episodes, learner, weights_only, at)
        return Path(folder)

    def resume(self, at: str | int = NEWEST, **changes: Any) -> Run:
        """Continue the ended run from a checkpoint, in the same folder; return a new object when it is accepted.

        ``at``: as for ``policy``; newer checkpoints are moved to the folder ``checkpoints/aside``. ``changes``: new
        values of keys, as in ``resume(total_steps=200_000)``. Raises RunError if the run is alive or has no such
        checkpoint, and TopologyError (a ValueError) for a wrong change.
        """
        found = find_resumable(str(self._folder), at)
        topology = str(found.path / find.TOPOLOGY_FILE)
        overrides = asked.overrides(changes)
        parse(sources.read(topology), overrides, topology)
        follower = Follower(found, from_start=False)
        resumed, process = child.start(found.path, topology, overrides, resume_at=at)
        follower.resumed(resumed)
        made = Run(resumed, process)
        made._follower = follower
        return made

    def _found(self) -> find.RunFolder:
        found = find.read(self._folder)
        if found is None:
            raise RunError(f"{self._folder}: the folder of the run no longer exists")
        return found

    def _ask(self, command: str, **words: Any) -> Any:
        return ask(find.find_living(str(self._folder)), command, timeout_s=CHANGE_S, **words)

    def _reap(self) -> None:
        if self._process is not None:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(_END_S)


def refuse_unheard(on_evaluation: Callback | None, evaluators: int) -> None:
    """Raise RunError if a callback for evaluations is given to a run without an evaluator."""
    if on_evaluation is not None and not evaluators:
        raise RunError(
            "on_evaluation: the run has no evaluator, so the function would never be called; start or resume the run "
            "with **{'evaluator.count': 1}, or leave on_evaluation out"
        )


def _frame(rows: list[Values]) -> DataFrame:
    try:
        from pandas import DataFrame
    except ImportError:
        raise RunError(
            "tables need pandas, which is not installed: pip install 'actorlearn[pandas]', or use the lists of "
            "metrics() and events()"
        ) from None
    return DataFrame(rows)


def _show_in_notebooks(figure: type[Figure]) -> None:
    """Make notebooks show figures that were made without pyplot."""
    ipython: Any = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    if shell is not None:
        shell.display_formatter.formatters["image/png"].for_type(figure, _png)


def _png(figure: Figure) -> bytes:
    drawn = io.BytesIO()
    figure.savefig(drawn, format="png", dpi=80)
    return drawn.getvalue()
