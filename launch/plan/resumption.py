"""Finds the checkpoints from which a run is resumed, and refuses topologies that do not fit them. Writes nothing."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from actorlearn.envs.specs import environment_changed
from actorlearn.parameters.checkpoint_folders import (
    CheckpointError,
    Found,
    choose_to_resume,
    directories,
    directory_of,
    find_common,
    folders,
    learners_so_far,
    nearest_state,
    newest,
    read_shapes,
    short,
    steps_of,
)
from actorlearn.parameters.chosen_checkpoints import ASIDE
from actorlearn.replay.rows import ReplayShape
from launch.errors import RunError
from launch.plan import exactness
from launch.plan.plan import Plan, Resumption
from launch.plan.roles import behind_steps
from launch.plan.segments import replay_shape
from launch.reports.accounting import counters_of, row_of
from launch.reports.checks import is_number
from launch.topology.changes import changes, flat
from launch.topology.keys import CHOSEN, choice_key, keys_of
from launch.topology.load import Topology, tree, with_defaults
from launch.topology.modes import mode
from launch.topology.strict_yaml import number, show

_SHAPED_BY = {
    **dict.fromkeys(("actions", "observation_shape", "observation_dtype", "stack"), "env"),
    "rings": "simulators.count x simulators.envs",
    "size": "replay.capacity_steps",
    "margin": "algorithm.horizon",
    "prioritised": "replay.prioritised",
    "length": "replay.burn_in_steps + replay.sequence_steps",
    "every": "replay.sequence_every",
    "state_size": "model.recurrent_size",
}
"""Part of a ReplayShape -> keys that set it; a part that determines other parts comes before them."""


def find_resumption(
    plan: Plan, detached: Mapping[str, bool], before: Mapping[str, Any], only_scores: bool
) -> Resumption:
    """Return the checkpoints from which a run continues.

    ``detached``: process that was detached -> whether on request; else the supervisor removed it because it had failed.
    ``before``: the topology with which the run was last started, as plain values. ``only_scores``: whether the run may
    have learned from more than total_steps steps. Raises RunError if there is no checkpoint, if the run has learned
    from more and ``only_scores`` is false, or if saved weights or a saved replay do not fit the topology.
    """
    began_s, run_dir = time.monotonic(), plan.addresses.run_dir
    root, left_out = run_dir / "checkpoints", _left_out(plan, detached)
    trainers = [trainer for trainer in plan.trainers if trainer.learner not in left_out]
    learners = [trainer.learner for trainer in trainers]
    try:
        together, begins_anew = _together(plan, run_dir, learners)
        # For each learner: its own checkpoint, and the checkpoint whose weights it takes.
        pairs = [(found, found) for found in together] or [
            choose_to_resume(root, learner, mode(plan.topology)) for learner in learners
        ]
    except CheckpointError as error:
        raise RunError(str(error)) from None
    latest = max((shared for _, shared in pairs), key=lambda shared: shared.env_steps)
    if not only_scores:
        _refuse_learned(run_dir, plan.topology, latest.env_steps)
    _refuse_other_shapes(plan, [shared for _, shared in pairs], before)
    _refuse_other_replays(plan, [found for found, _ in pairs])
    elapsed_s = latest.state.get("elapsed_s")
    of_all = {
        "env_steps": latest.env_steps,
        "frames": latest.env_steps * plan.description.frames_per_step,
        "updates": latest.state.get("updates", 0),
    }
    return Resumption(
        began_s=began_s - (elapsed_s if is_number(elapsed_s) else 0.0),
        resumed=True,
        env_steps=latest.env_steps,
        checkpoints=tuple(dict.fromkeys(str(shared.path.relative_to(run_dir)) for _, shared in pairs)),
        goes_on_from={learner: found.path for learner, found in zip(learners, together, strict=False)},
        begins_anew=begins_anew,
        damaged=tuple(warning for found in together for warning in found.warnings()),
        left_out=left_out,
        left=tuple(_counters_of_left(root, learners, latest.env_steps)),
        rows={
            trainer.name: {**of_all, **row_of(own.state, _same_task(own.state, plan.topology))}
            for trainer, (own, _) in zip(trainers, pairs, strict=True)
            if own.path.parent == directory_of(root, trainer.learner)  # a new learner begins with counts of 0
        },
        learners_so_far=learners_so_far(root),
        changed=changes(before, tree(plan.topology)) if before else {},
        stretched=_stretched(before, plan.topology),
    )


def refuse_fewer_steps(run_dir: Path, topology: Topology, chosen: Mapping[int, Path]) -> None:
    """Raise RunError if the checkpoint to resume has more steps than total_steps, before the environment is tried.

    ``chosen``: learner -> checkpoint that the user has chosen; empty for the newest ones. The newest checkpoints of
    several learners may differ in steps, so they are left to `find_resumption`.
    """
    if chosen:
        _refuse_learned(run_dir, topology, max(map(steps_of, chosen.values())))
    elif topology.learners.count == 1:
        with suppress(CheckpointError):  # `find_resumption` reports it
            _, latest = choose_to_resume(run_dir / "checkpoints", 0, mode(topology))
            _refuse_learned(run_dir, topology, latest.env_steps)


def _refuse_learned(run_dir: Path, topology: Topology, env_steps: int) -> None:
    """Raise RunError if total_steps is below the steps of the checkpoint from which the run continues."""
    if env_steps > topology.total_steps:
        raise RunError(
            f"total_steps = {number(topology.total_steps)}: {run_dir.name} has already learned from {env_steps:,} "
            f"steps; write a larger number, for example total_steps={number(2 * env_steps)}"
        )


def _stretched(before: Mapping[str, Any], topology: Topology) -> str:
    """Return a warning that schedules end at other steps than before the resume, with a remedy; else empty."""
    was = before.get("schedule_steps") or before.get("total_steps")
    now = topology.schedule_steps or topology.total_steps
    found = [*_schedules(topology)]
    if not isinstance(was, int) or was == now or not found:
        return ""
    way_out = "" if topology.schedule_steps else f"; resume with schedule_steps={number(was)} to keep them as they were"
    return f"schedules end at {now:,} steps instead of {was:,}: {', '.join(found)}{way_out}"


def _schedules(topology: Topology) -> Iterator[str]:
    """Yield key, first and last value of each schedule that ends with the run, if the two values differ."""
    for name, section in (("algorithm", topology.algorithm), ("optimizer", topology.optimizer)):
        for key, about in keys_of(type(section)).items():
            if not key.endswith("_final") or "schedule_steps" not in about.description:  # exploration has its own end
                continue
            began = key.removesuffix("_final")
            first, last = getattr(section, began, None), getattr(section, key)
            if section is topology.optimizer:  # optimizer.schedule may keep the rate as it was
                last = topology.optimizer.rate_at_end
            if first is not None and last not in (None, first):
                yield f"{name}.{began} ({number(first)} to {number(last)})"
    if topology.replay is not None and topology.replay.prioritised:
        first, last = topology.replay.beta, topology.replay.beta_final
        if first != last:
            yield f"replay.beta ({number(first)} to {number(last)})"


def _together(plan: Plan, run_dir: Path, learners: Sequence[int]) -> tuple[list[Found], str]:
    """Return the checkpoints for an exact resume of all learners, and ""; if there are none, [] and the reason."""
    if not plan.exact:
        return [], exactness.reason(plan.choices)
    directories = [directory_of(run_dir / "checkpoints", learner) for learner in learners]
    together = find_common(directories) if directories[1:] else [newest(directories[0])]
    if together is None:
        return [], "not all learners have the newest checkpoint"
    members = [process.id for process in plan.processes if process.role.makes_rows]
    simulators = [[process.name for process in members if process.learner == learner] for learner in learners]
    begins_anew = exactness.reason_to_begin_anew([found.state for found in together], simulators, plan.topology)
    return ([] if begins_anew else together), begins_anew


def _refuse_other_shapes(plan: Plan, found: Iterable[Found], before: Mapping[str, Any]) -> None:
    """Raise RunError if the topology's network, optimizer or algorithm has other tensors than the checkpoints."""
    parts = dict(plan.description.tensors)
    if not mode(plan.topology).made_by.startswith("actorlearn."):
        parts.pop("optimizer", None)  # the mode of a plug-in decides what it saves
    for checkpoint in found:
        if misfit := _misfit(checkpoint.path, parts):
            way_out = _way_back(before, plan.topology)
            raise RunError(f"{short(checkpoint.path)} does not fit this topology: {misfit}; {way_out}")


def _misfit(checkpoint: Path, parts: Mapping[str, Mapping[str, tuple[int, ...]]]) -> str:
    """Return a phrase about a tensor whose shape in a checkpoint does not fit the topology; empty if all fit."""
    saved: dict[str, tuple[int, ...]] = {}
    with suppress(ValueError, OSError):  # then the trainer reports the damage
        saved = read_shapes(checkpoint)
    for part, tensors in parts.items() if saved else ():
        was = {name: shape for name, shape in saved.items() if name.startswith(f"{part}.")}
        now = {f"{part}.{name}": tuple(shape) for name, shape in tensors.items()}
        of_both = sorted((name for name in was if name in now), key=lambda name: len(was[name]), reverse=True)
        for name in (
            *of_both,
            *sorted(was.keys() ^ now.keys()),
        ):  # a matrix first, because it explains more than a vector or a missing tensor
            if was.get(name) != now.get(name):
                return (
                    f"its tensor {name} {_shape(was.get(name))}, but with this topology the tensor "
                    f"{_shape(now.get(name))}"
                )
    return ""


def _shape(shape: tuple[int, ...] | None) -> str:
    return "is missing" if shape is None else f"has shape {[*shape]}"


def _way_back(before: Mapping[str, Any], topology: Topology) -> str:
    """Return the remedy for tensors that do not fit: the changed keys that may be the cause, and what to do."""
    now, changed = tree(topology), []
    for section in CHOSEN:
        choice, has = f"{section}.{choice_key(section)}", flat({section: now[section]})
        had = with_defaults(flat({section: before.get(section) or {}}), topology, has)
        keys = [choice] if had.get(choice) != has[choice] else has
        changed += [
            f"{key} was {show(had.get(key))} and is {show(has[key])}" for key in keys if had.get(key) != has[key]
        ]
    if not changed:
        return (
            "topology.yaml has the same keys, so the code of the environment, network or algorithm has changed; "
            "restore the code, or start a new run"
        )
    return f"{', '.join(changed)}; resume without this change, or start a new run"


def _refuse_other_replays(plan: Plan, found: Iterable[Found]) -> None:
    """Raise RunError if the topology's replay has another shape than a saved one; the trainer checks the rest."""
    if plan.topology.replay is None:
        return
    planned = replay_shape(plan.topology, plan.description, plan.topology.replay)
    secondary = plan.topology.replay.secondary_batch_size
    for checkpoint in found:
        if "draws" not in checkpoint.state:
            raise RunError(
                f"algorithm.name: {plan.topology.algorithm.name!r} learns from a replay, but {short(checkpoint.path)} "
                "was saved by an algorithm without one; resume with the earlier algorithm, or start a new run"
            )
        if secondary and "secondary" not in checkpoint.state:
            raise RunError(
                f"replay.secondary_batch_size: {secondary}, but {checkpoint.path} has no secondary learner; "
                "resume with secondary_batch_size: 0, or start a new run"
            )
        with suppress(AttributeError, msgspec.ValidationError):
            saved = msgspec.convert(checkpoint.state.get("replay", {}).get("shape"), ReplayShape)
            for part, keys in _SHAPED_BY.items():
                now, before = getattr(planned, part), getattr(saved, part)
                if now != before:
                    raise RunError(
                        f"{keys}: the replay would have {part} {now}, and the one saved in {checkpoint.path} has "
                        f"{before}; resume with the earlier value of {keys}, or start a new run"
                    )


def _same_task(state: Mapping[str, Any], topology: Topology) -> bool:
    """Whether a checkpoint with this state is of the topology's environment, so that its scores count.

    ``topology.yaml`` cannot tell it: the checkpoint may be older than the last start, which may have saved none.
    """
    return not environment_changed(state.get("depends_on", {}), exactness.depends_on(topology))


def _counters_of_left(root: Path, learners: Collection[int], env_steps: int) -> Iterator[Mapping[str, int]]:
    """Yield the counters of each learner that has left the run, at its checkpoint nearest to ``env_steps``.

    ``root``: folder of the run's checkpoints; ``learners``: those that are resumed.
    """
    gone = [directory for learner, directory in directories(root).items() if learner not in learners]
    for directory in (*gone, *(root / ASIDE).glob("learner-*")):
        _, state = nearest_state(directory, env_steps)
        yield counters_of(state)


def _left_out(plan: Plan, detached: Mapping[str, bool]) -> Mapping[int, str]:
    """Return the learners that are not resumed: those detached on request, and those that failed long ago.

    The weights of the latter are too old to be mixed with those of others (`behind_steps`). Returns learner -> name of
    its trainer; empty if these are all learners, because then all are resumed.
    """
    own, behind = directories(plan.addresses.run_dir / "checkpoints"), behind_steps(plan.topology)
    last = {learner: max(map(steps_of, folders(directory)), default=0) for learner, directory in own.items()}
    least = 0 if behind is None else max(last.values(), default=0) - behind
    gone = {
        trainer.learner: trainer.name
        for trainer in plan.trainers
        if trainer.name in detached and (detached[trainer.name] or last.get(trainer.learner, 0) < least)
    }
    return gone if len(gone) < len(plan.trainers) else {}
