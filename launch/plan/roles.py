"""Plans of the shipped roles: how many of each a topology means, what it does, and the settings of each process.

Pure. Plans of other roles stand beside their specs (``actorlearn/worker/roles.py``).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from actorlearn.address import Shm
from actorlearn.envs.specs import EnvSettings
from actorlearn.parameters.settings import ExperienceSettings
from actorlearn.parameters.shard_layout import LOOPBACK
from actorlearn.wire.identity import ProcessId, trainer_id
from actorlearn.worker.roles import ROLES, RolePlan
from actorlearn.worker.settings import (
    EvaluatorSettings,
    InferenceSettings,
    ParameterServerSettings,
    PolicySettings,
    ProcessSettings,
    Recording,
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
from launch.plan.role_plans import plan_of
from launch.plan.segments import block_shape, environments, replay_shape
from launch.topology.load import Topology
from launch.topology.modes import asked, mode, sharing

FILMS = "films"
"""Folder of a run in which recorded games lie, by the steps of the weights that played them."""
FRAMES_PER_S = 60.0
"""Rate at which Atari's console showed frames."""
LEAST_FRAMES = 2
"""Frames for which a step counts at least: environments without frames are shown at 30 steps a second."""


@dataclass(frozen=True)
class Briefing:
    """Facts that the settings of all processes of a run follow from."""

    topology: Topology
    """Without any ``auto``."""
    description: Description
    exact: bool
    """Whether checkpoints allow an exact resume."""
    addresses: Addresses
    placement: Placement
    resumption: Resumption


class Incarnation(NamedTuple):
    """One incarnation of a process, and what sets it apart from the one before."""

    id: ProcessId
    resume: bool = False
    """Whether a trainer starts from the newest checkpoint."""
    env: EnvSettings | None = None
    """A simulator's environment, where it is not the topology's."""


def settings_for(briefing: Briefing, incarnation: Incarnation, index: int) -> ProcessSettings:
    """Return the settings of one incarnation of a process, which writes row ``index`` of the progress segment."""
    process, addresses = incarnation.id, briefing.addresses
    plan = plan_of(ROLES.spec(process.role))
    base = {
        "id": process,
        "run_id": addresses.run_id,
        "control": addresses.control,
        "progress": addresses.progress,
        "index": index,
        "seed": briefing.topology.seed,
        "threads": plan.threads(briefing.topology),
    }
    return plan.settings(briefing, base, incarnation)


def policy(topology: Topology, description: Description) -> PolicySettings:
    """Return the settings from which network and algorithm are built."""
    return PolicySettings(
        observation_shape=description.observation_shape,
        observation_dtype=description.observation_dtype,
        actions=description.actions,
        model=topology.model,
        algorithm=topology.algorithm,
        precision=topology.inference.precision,
        cuda_graphs=topology.inference.cuda_graphs,
        weights=topology.simulators.weights,
        environments=environments(topology),
    )


def own_weights(topology: Topology) -> bool:
    """Whether learners have weights of their own, rather than one and the same."""
    spec = mode(topology)
    return spec.own_weights and spec.several(topology.learners.count)


def trainer_of(topology: Topology, learner: int) -> ProcessId:
    """Return the id of a learner's trainer; it has a number in its name unless it will always be the only one."""
    return trainer_id(learner, sole=not mode(topology).several(topology.learners.count))


def server_of(topology: Topology, simulator: ProcessId) -> ProcessId:
    """Return the id of the inference server that answers a simulator; number 0 where the simulator acts itself."""
    servers = topology.inference.count
    number = simulator.learner * servers + simulator.number % max(servers, 1)
    return ProcessId("inference", number, simulator.learner)


def _simulator(briefing: Briefing, base: dict[str, Any], incarnation: Incarnation) -> SimulatorSettings:
    topology, process, addresses = briefing.topology, incarnation.id, briefing.addresses
    # Every incarnation, and every resumption, plays new games; a run from the start plays the same ones each time.
    moment = [topology.seed, process.number, process.incarnation, briefing.resumption.env_steps]
    seeds = np.random.SeedSequence(moment).generate_state(topology.simulators.envs // briefing.description.agents)
    local = topology.inference.count == 0
    return SimulatorSettings(
        **base,
        env=incarnation.env or topology.env,
        segment=addresses.blocks(process),
        rollouts=addresses.own("rollouts", process.learner),
        wakeup=addresses.wakeup(process),
        inference_wakeup=None if local else addresses.wakeup(server_of(topology, process)),
        trainer_wakeup=addresses.wakeup(trainer_of(topology, process.learner)),
        env_seeds=[int(seed >> 1) for seed in seeds],  # 31 bits, as some simulators' generators take no more
        decorrelation_steps=topology.simulators.decorrelation_steps,
        reset=topology.simulators.reset,
        weights=addresses.own("weights", process.learner),
        policy=policy(topology, briefing.description),
        core=briefing.placement.of(process).core,
        states=_states(briefing, process),
        resumes=_resumes(briefing, process),
    )


def _resumes(briefing: Briefing, process: ProcessId) -> str:
    """Return the path of the snapshot that a simulator of a resumed run continues from; "" where it begins anew."""
    folder = briefing.resumption.goes_on_from.get(process.learner) if process.incarnation == 0 else None
    path = folder / snapshot_of(process.name) if folder else None
    return str(path) if path and path.exists() else ""


def _states(briefing: Briefing, process: ProcessId) -> str:
    """Folder for the snapshots of a learner's simulators; "" where none are taken."""
    return str(briefing.addresses.states(process.learner)) if briefing.exact else ""


def _inference(briefing: Briefing, base: dict[str, Any], incarnation: Incarnation) -> InferenceSettings:
    topology, process, addresses = briefing.topology, incarnation.id, briefing.addresses
    return InferenceSettings(
        **base,
        policy=policy(topology, briefing.description),
        weights=addresses.own("weights", process.learner),
        wakeup=addresses.wakeup(process),
        rollouts=addresses.own("rollouts", process.learner),
        device=briefing.placement.of(process).device,
        batch_rows=topology.inference.batch_rows,
        deadline_ms=topology.inference.deadline_ms,
    )


def _trainer(briefing: Briefing, base: dict[str, Any], incarnation: Incarnation) -> TrainerSettings:
    topology, process, addresses = briefing.topology, incarnation.id, briefing.addresses
    return TrainerSettings(
        **base,
        wakeup=addresses.wakeup(process),
        learners=topology.learners.count,
        exchange=mode(topology).exchange(process.learner, process.incarnation, asked(topology), addresses.folders),
        experience=_experience(briefing),
        rate_scaling=topology.learners.rate_scaling,
        outer=topology.learners.outer_optimizer,
        pull_rows=0 if mode(topology).unread("learners.pull_rows") else topology.learners.pull_rows,
        policy=policy(topology, briefing.description),
        optimizer=topology.optimizer,
        weights=addresses.own("weights", process.learner),
        rollouts=addresses.own("rollouts", process.learner),
        account=addresses.own("account", process.learner),
        device=briefing.placement.of(process).device,
        precision=topology.trainer.precision,
        layout=topology.trainer.layout,
        compile=topology.trainer.compile is True,
        total_steps=topology.total_steps,
        schedule_steps=topology.schedule_steps,
        stop_at_steps=topology.stop_at_steps,
        rollout_steps=topology.algorithm.horizon * environments(topology),
        replay=_replay(briefing, process.learner),
        blocks=topology.simulators.blocks,
        frames_per_step=briefing.description.frames_per_step,
        run_dir=str(addresses.run_dir),
        report_every_s=topology.report.every_s,
        norms=topology.report.norms,
        checkpoint_every_steps=topology.checkpoint.every_steps,
        checkpoint_keep=topology.checkpoint.keep,
        began_s=briefing.resumption.began_s,
        resume=incarnation.resume,
        goes_on_from=str(briefing.resumption.goes_on_from.get(process.learner, "")),
        states=_states(briefing, process),
        depends_on=exactness.depends_on(topology),
    )


def _experience(briefing: Briefing) -> ExperienceSettings | None:
    """Return what a trainer is told of the experience that learners share; None where they share none."""
    topology = briefing.topology
    if (shared := sharing(topology)) is None:
        return None
    return ExperienceSettings(
        messages=briefing.addresses.each("experience"),
        graph=shared.sharing(topology.seed),
        environments=shared.experience,
        shape=block_shape(topology, briefing.description),
    )


def _replay(briefing: Briefing, learner: int) -> TrainerReplay | None:
    """Return the settings of a learner's replay; None where the algorithm has none."""
    if briefing.topology.replay is None:
        return None
    return TrainerReplay(
        segment=briefing.addresses.own("replay", learner),
        shape=replay_shape(briefing.topology, briefing.description, briefing.topology.replay),
        settings=briefing.topology.replay,
        secondary=_secondary(briefing, learner),
    )


def _secondary(briefing: Briefing, learner: int) -> Shm | None:
    """The published weights of the secondary learner beside one, where there is one."""
    there = briefing.topology.replay and briefing.topology.replay.secondary_batch_size
    return briefing.addresses.own("secondary", learner) if there else None


def _evaluator_does(topology: Topology) -> str:
    evaluator = topology.evaluator
    when = "at the end" if evaluator.every_steps is None else f"every {evaluator.every_steps:,} steps and at the end"
    return f"plays {evaluator.episodes} games {when}"


def _evaluator(briefing: Briefing, base: dict[str, Any], _incarnation: Incarnation) -> EvaluatorSettings:
    topology = briefing.topology
    return EvaluatorSettings(
        **base,
        policy=policy(topology, briefing.description),
        weights=briefing.addresses.each("weights") if own_weights(topology) else briefing.addresses.own("weights", 0),
        secondary=_secondary(briefing, 0),
        env=topology.env.for_evaluation(topology.evaluator.noop_max),
        every_steps=topology.evaluator.every_steps,
        episodes=topology.evaluator.episodes,
        greedy=topology.evaluator.greedy,
        fire_after=topology.evaluator.fire_after,
        scheduling=topology.evaluator.scheduling,
        recording=recording(briefing.addresses.run_dir, briefing.description) if topology.evaluator.record else None,
    )


def recording(run_dir: Path, description: Description) -> Recording:
    """Return where the games of a run are recorded, and how fast they are shown: as on Atari's consoles."""
    return Recording(
        folder=str(run_dir / FILMS), pictures_per_s=FRAMES_PER_S / max(description.frames_per_step, LEAST_FRAMES)
    )


def _parameter_server(briefing: Briefing, base: dict[str, Any], _incarnation: Incarnation) -> ParameterServerSettings:
    topology, addresses = briefing.topology, briefing.addresses
    return ParameterServerSettings(
        **base,
        policy=policy(topology, briefing.description),
        optimizer=topology.optimizer,
        replay=topology.replay,
        rate_scaling=topology.learners.rate_scaling,
        learners=topology.learners.count,
        servers=topology.parameter_servers.count,
        quorum=topology.learners.quorum,
        memory=addresses.segment("shard"),
        host=addresses.host or LOOPBACK,
        report_every_s=topology.report.every_s,
    )


TRAINER = RolePlan(
    count=lambda _: 1,
    does=lambda topology: f"learns on {topology.trainer.device}",
    settings=_trainer,
    threads=lambda topology: topology.trainer.threads,
    device=lambda topology: topology.trainer.device,
)
INFERENCE = RolePlan(
    count=lambda topology: topology.inference.count,
    does=lambda topology: f"chooses actions on {topology.inference.device}",
    settings=_inference,
    threads=lambda topology: topology.inference.threads,
    device=lambda topology: topology.inference.device,
)
SIMULATOR = RolePlan(
    count=lambda topology: topology.simulators.count,
    does=lambda topology: f"steps {topology.simulators.envs} environments in {topology.simulators.groups} group(s)",
    settings=_simulator,
)
EVALUATOR = RolePlan(
    count=lambda topology: topology.evaluator.count,
    does=_evaluator_does,
    settings=_evaluator,
)
PARAMETER_SERVER = RolePlan(
    count=lambda topology: topology.parameter_servers.count,
    does=lambda topology: "keeps a part of the weights, and takes the learners' gradients",
    settings=_parameter_server,
)
