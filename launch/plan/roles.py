"""Plans of the shipped roles: how many of each a topology means, what it does, and what each process of it is told.

Pure. Plans of other roles stand beside their specs (``actorlearn/worker/roles.py``).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from actorlearn import imports
from actorlearn.address import Shm
from actorlearn.envs.specs import EnvSettings
from actorlearn.wire.identity import ProcessId
from actorlearn.worker.roles import ROLES, RolePlan, RoleSpec
from actorlearn.worker.settings import (
    EvaluatorSettings,
    InferenceSettings,
    PolicySettings,
    ProcessSettings,
    SimulatorSettings,
    TrainerReplay,
    TrainerSettings,
    snapshot_of,
)
from launch.plan import exactness
from launch.plan.addresses import Addresses
from launch.plan.placement import Placement
from launch.plan.probe import Description
from launch.plan.resumption import Resumption
from launch.plan.segments import environments, replay_shape
from launch.topology.load import Topology
from launch.topology.modes import asked, mode


@dataclass(frozen=True)
class Briefing:
    """Facts that the settings of all processes of a run follow from."""

    topology: Topology
    """Without any ``auto``."""
    description: Description
    exact: bool
    """Whether checkpoints have all that a run goes on from as if it had not been interrupted."""
    addresses: Addresses
    placement: Placement
    resumption: Resumption


class Start(NamedTuple):
    """Differences between one incarnation of a process and the next."""

    resume: bool = False
    """A trainer from the newest checkpoint."""
    env: EnvSettings | None = None
    """A simulator's environment, where it is not the topology's."""


AFRESH = Start()


@cache
def planned(role: RoleSpec) -> RolePlan:
    """Return the plan of a role; raises ValueError, one line, where it cannot be imported."""
    what = f"role {role.name!r}"
    found = imports.attribute(role.planned_by, what)
    if not isinstance(found, RolePlan):
        raise ValueError(f"{what}: {role.planned_by} must be a RolePlan, and is {found!r:.100}")
    return found


def counted(role: RoleSpec, topology: Topology) -> int:
    """Return how many processes of a role each learner has, or the run, as the role's scope says."""
    plan = planned(role)
    if plan.count:
        return plan.count(topology)
    section = topology.roles.get(role.name)
    return section.count if section else 0


def instructions(briefing: Briefing, process: ProcessId, index: int, start: Start = AFRESH) -> ProcessSettings:
    """Settings of one incarnation of a process, which writes row ``index`` of the progress segment."""
    t, addresses, role = briefing.topology, briefing.addresses, planned(ROLES.spec(process.role))
    base = {
        "id": process,
        "run_id": addresses.run_id,
        "control": addresses.control,
        "progress": addresses.progress,
        "index": index,
        "seed": t.seed,
        "threads": role.threads(t),
    }
    return role.settings(briefing, base, start)


def policy(topology: Topology, description: Description) -> PolicySettings:
    """Return the settings from which network and algorithm are built."""
    return PolicySettings(
        observation_shape=description.observation_shape,
        observation_dtype=description.observation_dtype,
        actions=description.actions,
        model=topology.model,
        algorithm=topology.algorithm,
        precision=topology.inference.precision,
        weights=topology.simulators.weights,
        environments=environments(topology),
    )


def own_weights(topology: Topology) -> bool:
    """Whether learners have weights of their own, rather than one and the same."""
    own = mode(topology)
    return own.own_weights and own.several(topology.learners.count)


def trainer_of(topology: Topology, learner: int) -> ProcessId:
    """A learner's trainer: a number tells several apart, and those that may come."""
    return ProcessId("trainer", learner, learner, sole=not mode(topology).several(topology.learners.count))


def server_of(topology: Topology, simulator: ProcessId) -> ProcessId:
    """The inference server that answers a simulator; number 0 where it answers itself."""
    servers = topology.inference.count
    number = simulator.learner * servers + simulator.number % max(servers, 1)
    return ProcessId("inference", number, simulator.learner)


def _simulator(b: Briefing, base: dict[str, Any], start: Start) -> SimulatorSettings:
    t, own, at = b.topology, base["id"], b.addresses
    # Every incarnation, and every resumption, meets new games; a run from the start meets the same ones each time.
    moment = [t.seed, own.number, own.incarnation, b.resumption.env_steps]
    seeds = np.random.SeedSequence(moment).generate_state(t.simulators.envs)
    local = t.inference.count == 0
    return SimulatorSettings(
        **base,
        env=start.env or t.env,
        segment=at.blocks(own),
        rollouts=at.own("rollouts", own.learner),
        wakeup=at.wakeup(own),
        inference_wakeup=None if local else at.wakeup(server_of(t, own)),
        trainer_wakeup=at.wakeup(trainer_of(t, own.learner)),
        env_seeds=[int(seed >> 1) for seed in seeds],  # 31 bits: what every simulator's generator takes
        decorrelation_steps=t.simulators.decorrelation_steps,
        reset=t.simulators.reset,
        weights=at.own("weights", own.learner),
        policy=policy(t, b.description),
        core=b.placement.of(own).core,
        states=_states(b, own),
        resumes=_resumes(b, own),
    )


def _resumes(b: Briefing, own: ProcessId) -> str:
    """The snapshot that a simulator of a resumed run goes on from; "" where it begins anew."""
    folder = b.resumption.goes_on_from.get(own.learner) if own.incarnation == 0 else None
    path = folder / snapshot_of(own.name) if folder else None
    return str(path) if path and path.exists() else ""


def _states(b: Briefing, own: ProcessId) -> str:
    """Folder for the snapshots of a learner's simulators; "" where none are taken."""
    return str(b.addresses.states(own.learner)) if b.exact else ""


def _inference(b: Briefing, base: dict[str, Any], _start: Start) -> InferenceSettings:
    t, own, at = b.topology, base["id"], b.addresses
    return InferenceSettings(
        **base,
        policy=policy(t, b.description),
        weights=at.own("weights", own.learner),
        wakeup=at.wakeup(own),
        rollouts=at.own("rollouts", own.learner),
        device=b.placement.of(own).device,
        batch_rows=t.inference.batch_rows,
        deadline_ms=t.inference.deadline_ms,
    )


def _trainer(b: Briefing, base: dict[str, Any], start: Start) -> TrainerSettings:
    t, own, at = b.topology, base["id"], b.addresses
    return TrainerSettings(
        **base,
        wakeup=at.wakeup(own),
        learners=t.learners.count,
        exchange=mode(t).exchange(own.learner, own.incarnation, asked(t), at.folders),
        rate_scaling=t.learners.rate_scaling,
        pull_rows=0 if mode(t).unread("learners.pull_rows") else t.learners.pull_rows,
        policy=policy(t, b.description),
        optimizer=t.optimizer,
        weights=at.own("weights", own.learner),
        rollouts=at.own("rollouts", own.learner),
        account=at.own("account", own.learner),
        device=b.placement.of(own).device,
        precision=t.trainer.precision,
        layout=t.trainer.layout,
        compile=t.trainer.compile is True,
        total_steps=t.total_steps,
        rollout_steps=t.algorithm.horizon * environments(t),
        replay=_replay(b, own.learner),
        blocks=t.simulators.blocks,
        frames_per_step=b.description.frames_per_step,
        run_dir=str(at.run_dir),
        report_every_s=t.report.every_s,
        norms=t.report.norms,
        checkpoint_every_steps=t.checkpoint.every_steps,
        checkpoint_keep=t.checkpoint.keep,
        began_s=b.resumption.began_s,
        resume=start.resume,
        goes_on_from=str(b.resumption.goes_on_from.get(own.learner, "")),
        states=_states(b, own),
        depends_on=exactness.depends_on(t),
    )


def _replay(b: Briefing, learner: int) -> TrainerReplay | None:
    """A learner's replay, where the algorithm has one."""
    if b.topology.replay is None:
        return None
    return TrainerReplay(
        segment=b.addresses.own("replay", learner),
        shape=replay_shape(b.topology, b.description, b.topology.replay),
        settings=b.topology.replay,
        secondary=_secondary(b, learner),
    )


def _secondary(b: Briefing, learner: int) -> Shm | None:
    """The published weights of the secondary learner beside one, where there is one."""
    there = b.topology.replay and b.topology.replay.secondary_batch_size
    return b.addresses.own("secondary", learner) if there else None


def _evaluator(b: Briefing, base: dict[str, Any], _start: Start) -> EvaluatorSettings:
    t = b.topology
    return EvaluatorSettings(
        **base,
        policy=policy(t, b.description),
        weights=b.addresses.each("weights") if own_weights(t) else b.addresses.own("weights", 0),
        secondary=_secondary(b, 0),
        env=t.env.for_evaluation(t.evaluator.noop_max),
        every_steps=t.evaluator.every_steps,
        episodes=t.evaluator.episodes,
        greedy=t.evaluator.greedy,
        scheduling=t.evaluator.scheduling,
    )


TRAINER = RolePlan(
    count=lambda _: 1,
    does=lambda t: f"learns on {t.trainer.device}",
    settings=_trainer,
    threads=lambda t: t.trainer.threads,
)
INFERENCE = RolePlan(
    count=lambda t: t.inference.count,
    does=lambda t: f"chooses actions on {t.inference.device}",
    settings=_inference,
    threads=lambda t: t.inference.threads,
)
SIMULATOR = RolePlan(
    count=lambda t: t.simulators.count,
    does=lambda t: f"steps {t.simulators.envs} environments in {t.simulators.groups} group(s)",
    settings=_simulator,
)
EVALUATOR = RolePlan(
    count=lambda t: t.evaluator.count,
    does=lambda t: f"plays {t.evaluator.episodes} games every {t.evaluator.every_steps:,} steps",
    settings=_evaluator,
)
