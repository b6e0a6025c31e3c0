"""Plans of roles: the number of processes of each role, their devices, and the settings of each process.

The plans of the shipped roles are here. The plan of another role is in the package that provides the role
(``actorlearn/worker/roles.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import count
from pathlib import Path

import numpy as np

from actorlearn import imports
from actorlearn.address import Shm
from actorlearn.memory.progress import ROWS
from actorlearn.parameters.settings import ExperienceSettings
from actorlearn.parameters.shard_layout import LOOPBACK
from actorlearn.wire.identity import ProcessId, trainer_id
from actorlearn.worker.roles import ROLES, CommonSettings, RolePlan, RoleSpec
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
from launch.plan.plan import Plan, PlannedProcess, Start
from launch.plan.probe import Description
from launch.plan.segments import block_shape, environments, replay_shape
from launch.topology.load import Topology, TopologyError
from launch.topology.modes import asked, mode, sharing

FILMS = "films"
"""Folder for recorded games, in the folder of a run."""
FRAMES_PER_S = 60.0
"""Frame rate of the Atari console."""
LEAST_FRAMES = 2
"""Fewest frames per step in a film: environments without frames are shown at 30 steps a second."""

TypedRolePlan = RolePlan[Topology, Plan, Start]


@cache
def plan_of(role: RoleSpec) -> TypedRolePlan:
    """Return the plan of a role; raises TopologyError if it cannot be imported."""
    if role.name in SHIPPED:
        return SHIPPED[role.name]
    what = f"roles.{role.name}"
    if role.planned_by is None:
        raise TopologyError(
            f"{what}: nothing plans its processes; set planned_by in its RoleSpec to module:NAME of a RolePlan"
        )
    try:
        found = imports.attribute(role.planned_by, what)
    except ValueError as error:
        raise TopologyError(str(error)) from None
    if not isinstance(found, RolePlan):
        raise TopologyError(f"{what}: {role.planned_by} must be a RolePlan, and is {found!r:.100}")
    return found


def count_of(role: RoleSpec, topology: Topology) -> int:
    """Return the number of processes of a role, for each learner or for the run, by the role's scope."""
    section = topology.roles.get(role.name)
    if role.section is not None and section is None:
        return 0  # do not import the plan of a role that the topology does not use: the plug-in may be broken
    plan = plan_of(role)
    if plan.count:
        return plan.count(topology)
    return section.count if section else 0


def devices(topology: Topology) -> dict[str, str]:
    """Return the device of each role that a topology uses, by the role's name."""
    there = [role for role in ROLES.specs() if role.section is None or role.name in topology.roles]
    return {role.name: plan_of(role).device(topology) for role in there}


def first_processes(topology: Topology) -> tuple[PlannedProcess, ...]:
    """Return the processes at the start of a run, in the order of their start; raises TopologyError for too many."""
    run = [role for role in ROLES.specs() if role.scope == "run"]
    ids = processes_of_learners(topology, range(topology.learners.count), 0)
    ids += [ProcessId(role.name, number) for role in run for number in range(count_of(role, topology))]
    if len(ids) > ROWS:
        raise TopologyError(
            f"simulators.count {topology.simulators.count}, inference.count {topology.inference.count}, "
            f"learners.count {topology.learners.count}: the run would have {len(ids)} processes, and the maximum is "
            f"{ROWS}; write fewer simulators, with more simulators.envs"
        )
    return tuple(PlannedProcess(process, row) for row, process in enumerate(ids))


def processes_of_learners(topology: Topology, numbers: Sequence[int], first_simulator: int) -> list[ProcessId]:
    """Return the ids of the processes of these learners; their simulators are numbered from ``first_simulator``."""
    simulators, ids = count(first_simulator), list[ProcessId]()
    for role in ROLES.specs():
        each = count_of(role, topology)
        for learner in numbers if role.scope == "learner" else ():
            for place in range(each):
                number = next(simulators) if role.makes_rows else learner * each + place
                process = ProcessId(role.name, number, learner)
                ids.append(trainer_of(topology, learner) if role.learns else process)
    return ids


def settings_for(plan: Plan, start: Start) -> ProcessSettings:
    """Return the settings of a process that is about to be started."""
    role = plan_of(ROLES.spec(start.process.role))
    common = CommonSettings(
        id=start.process,
        run_id=plan.addresses.run_id,
        control=plan.addresses.control,
        progress=plan.addresses.progress,
        index=start.index,
        seed=plan.topology.seed,
        threads=role.threads(plan.topology),
    )
    return role.settings(plan, common, start)


def policy(topology: Topology, shapes: Description | PolicySettings) -> PolicySettings:
    """Return the settings from which network and algorithm are built.

    ``shapes``: the environment's description, or the settings that a run has saved.
    """
    return PolicySettings(
        observation_shape=shapes.observation_shape,
        observation_dtype=shapes.observation_dtype,
        actions=shapes.actions,
        action_mask=shapes.action_mask,
        model=topology.model,
        algorithm=topology.algorithm,
        precision=topology.inference.precision,
        cuda_graphs=topology.inference.cuda_graphs,
        weights=topology.simulators.weights,
        environments=environments(topology),
    )


def own_weights(topology: Topology) -> bool:
    """Whether each of several learners has weights of its own, instead of one vector for all."""
    spec = mode(topology)
    return spec.own_weights and spec.several(topology.learners.count)


def behind_steps(topology: Topology) -> int | None:
    """Return the most environment steps by which a learner's newest checkpoint may lag behind the newest of all.

    A learner whose checkpoint is older has left the run. None: the learners have equal weights.
    """
    return 2 * topology.checkpoint.steps_between(topology.total_steps) if own_weights(topology) else None


def trainer_of(topology: Topology, learner: int) -> ProcessId:
    """Return the id of a learner's trainer; its name has a number only if the run may have several trainers."""
    return trainer_id(learner, sole=not mode(topology).several(topology.learners.count))


def server_of(topology: Topology, simulator: ProcessId) -> ProcessId:
    """Return the id of a simulator's inference server; without servers, an unused id of number 0."""
    servers = topology.inference.count
    number = simulator.learner * servers + simulator.number % max(servers, 1)
    return ProcessId("inference", number, simulator.learner)


def _simulator(plan: Plan, common: CommonSettings, start: Start) -> SimulatorSettings:
    topology, process, addresses = plan.topology, start.process, plan.addresses
    # An incarnation and a resumed run get new seeds, so that they play new games. A repeated run gets the same seeds.
    moment = [topology.seed, process.number, process.incarnation, plan.resumption.env_steps]
    seeds = np.random.SeedSequence(moment).generate_state(topology.simulators.envs // plan.description.agents)
    local = topology.inference.count == 0
    return SimulatorSettings(
        **common,
        env=start.env or topology.env,
        segment=addresses.blocks(process),
        rollouts=addresses.own("rollouts", process.learner),
        wakeup=addresses.wakeup(process),
        inference_wakeup=None if local else addresses.wakeup(server_of(topology, process)),
        trainer_wakeup=addresses.wakeup(trainer_of(topology, process.learner)),
        env_seeds=[int(seed >> 1) for seed in seeds],  # 31 bits: the limit of some environments' generators
        decorrelation_steps=topology.simulators.decorrelation_steps,
        reset=topology.simulators.reset,
        weights=addresses.own("weights", process.learner),
        policy=policy(topology, plan.description),
        core=plan.core(process),
        states=_states(plan, process),
        resumes=_resumes(plan, process),
    )


def _resumes(plan: Plan, process: ProcessId) -> str:
    """Return the path of the snapshot from which a simulator continues its games; empty if it begins new ones."""
    folder = plan.resumption.goes_on_from.get(process.learner) if process.incarnation == 0 else None
    path = folder / snapshot_of(process.name) if folder else None
    return str(path) if path and path.exists() else ""


def _states(plan: Plan, process: ProcessId) -> str:
    """Return the folder for snapshots of simulators; empty if the run's checkpoints are not exact."""
    return str(plan.addresses.states(process.learner)) if plan.exact else ""


def _inference(plan: Plan, common: CommonSettings, start: Start) -> InferenceSettings:
    topology, process, addresses = plan.topology, start.process, plan.addresses
    return InferenceSettings(
        **common,
        policy=policy(topology, plan.description),
        weights=addresses.own("weights", process.learner),
        wakeup=addresses.wakeup(process),
        rollouts=addresses.own("rollouts", process.learner),
        device=plan.devices[process.role],
        batch_rows=topology.inference.batch_rows,
        deadline_ms=topology.inference.deadline_ms,
    )


def _trainer(plan: Plan, common: CommonSettings, start: Start) -> TrainerSettings:
    topology, process, addresses = plan.topology, start.process, plan.addresses
    return TrainerSettings(
        **common,
        wakeup=addresses.wakeup(process),
        learners=topology.learners.count,
        exchange=mode(topology).exchange(process.learner, process.incarnation, asked(topology), addresses),
        experience=_experience(plan),
        rate_scaling=topology.learners.rate_scaling,
        outer=topology.learners.outer_optimizer,
        pull_rows=0 if mode(topology).unread("learners.pull_rows") else topology.learners.pull_rows,
        policy=policy(topology, plan.description),
        optimizer=topology.optimizer,
        weights=addresses.own("weights", process.learner),
        rollouts=addresses.own("rollouts", process.learner),
        account=addresses.own("account", process.learner),
        device=plan.devices[process.role],
        precision=topology.trainer.precision,
        layout=topology.trainer.layout,
        compile=topology.trainer.compile is True,
        cuda_graphs=topology.trainer.cuda_graphs,
        total_steps=topology.total_steps,
        schedule_steps=topology.schedule_steps,
        stop_at_steps=topology.stop_at_steps,
        rollout_steps=topology.algorithm.horizon * environments(topology),
        replay=_replay(plan, process.learner),
        blocks=topology.simulators.blocks,
        frames_per_step=plan.description.frames_per_step,
        run_dir=str(addresses.run_dir),
        report_every_s=topology.report.every_s,
        norms=topology.report.norms,
        checkpoint_every_steps=topology.checkpoint.steps_between(topology.total_steps),
        checkpoint_every_s=topology.checkpoint.every_s,
        checkpoint_keep=topology.checkpoint.keep,
        began_s=plan.resumption.began_s,
        resume=start.resume,
        goes_on_from=str(plan.resumption.goes_on_from.get(process.learner, "")),
        states=_states(plan, process),
        depends_on=exactness.depends_on(topology),
    )


def _experience(plan: Plan) -> ExperienceSettings | None:
    topology = plan.topology
    if (shared := sharing(topology)) is None:
        return None
    return ExperienceSettings(
        messages=plan.addresses.each("experience"),
        graph=shared.sharing(topology.seed),
        environments=shared.experience,
        shape=block_shape(topology, plan.description),
    )


def _replay(plan: Plan, learner: int) -> TrainerReplay | None:
    if plan.topology.replay is None:
        return None
    return TrainerReplay(
        segment=plan.addresses.own("replay", learner),
        shape=replay_shape(plan.topology, plan.description, plan.topology.replay),
        settings=plan.topology.replay,
        secondary=_secondary(plan, learner),
    )


def _secondary(plan: Plan, learner: int) -> Shm | None:
    there = plan.topology.replay and plan.topology.replay.secondary_batch_size
    return plan.addresses.own("secondary", learner) if there else None


def _evaluator_does(topology: Topology) -> str:
    evaluator = topology.evaluator
    when = "at the end" if evaluator.every_steps is None else f"every {evaluator.every_steps:,} steps and at the end"
    return f"plays {evaluator.episodes} games {when}"


def _evaluator(plan: Plan, common: CommonSettings, _start: Start) -> EvaluatorSettings:
    topology = plan.topology
    several = mode(topology).several(topology.learners.count)
    return EvaluatorSettings(
        **common,
        policy=policy(topology, plan.description),
        weights=plan.addresses.each("weights") if several else plan.addresses.own("weights", 0),
        own_weights=own_weights(topology),
        secondary=_secondary(plan, 0),
        env=topology.env.for_evaluation(topology.evaluator.noop_max),
        every_steps=topology.evaluator.every_steps,
        episodes=topology.evaluator.episodes,
        greedy=topology.evaluator.greedy,
        fire_after=topology.evaluator.fire_after,
        scheduling=topology.evaluator.scheduling,
        recording=recording(plan.addresses.run_dir, plan.description) if topology.evaluator.record else None,
    )


def recording(run_dir: Path, description: Description) -> Recording:
    """Return the folder for recorded games, and the frames per second of films; Atari plays at console speed."""
    return Recording(
        folder=str(run_dir / FILMS), pictures_per_s=FRAMES_PER_S / max(description.frames_per_step, LEAST_FRAMES)
    )


def _parameter_server(plan: Plan, common: CommonSettings, _start: Start) -> ParameterServerSettings:
    topology, addresses = plan.topology, plan.addresses
    return ParameterServerSettings(
        **common,
        policy=policy(topology, plan.description),
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


SHIPPED: dict[str, TypedRolePlan] = {
    "trainer": RolePlan(
        count=lambda _: 1,
        does=lambda topology: f"learns on {topology.trainer.device}",
        settings=_trainer,
        threads=lambda topology: topology.trainer.threads,
        device=lambda topology: topology.trainer.device,
    ),
    "inference": RolePlan(
        count=lambda topology: topology.inference.count,
        does=lambda topology: f"chooses actions on {topology.inference.device}",
        settings=_inference,
        threads=lambda topology: topology.inference.threads,
        device=lambda topology: topology.inference.device,
    ),
    "simulator": RolePlan(
        count=lambda topology: topology.simulators.count,
        does=lambda topology: f"steps {topology.simulators.envs} environments in {topology.simulators.groups} group(s)",
        settings=_simulator,
    ),
    "evaluator": RolePlan(
        count=lambda topology: topology.evaluator.count,
        does=_evaluator_does,
        settings=_evaluator,
    ),
    "parameter_server": RolePlan(
        count=lambda topology: topology.parameter_servers.count,
        does=lambda topology: "stores a part of the weights, and applies the learners' gradients to it",
        settings=_parameter_server,
    ),
}
"""Plans of the shipped roles, by name."""
