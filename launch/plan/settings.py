"""What each process is told: settings from a plan. Pure; nothing is written here."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np

from actorlearn.replay.settings import ReplaySettings
from actorlearn.wire.identity import ProcessId
from actorlearn.worker.settings import (
    EvaluatorSettings,
    InferenceSettings,
    PolicySettings,
    ProcessSettings,
    ReplayPlace,
    SimulatorSettings,
    TrainerSettings,
    snapshot_of,
)
from launch.machine.cores import in_turn
from launch.plan import exactness
from launch.plan.plan import Plan
from launch.plan.probe import algorithm_settings, env_settings, model_settings, optimizer_settings
from launch.plan.processes import PlannedProcess, trainer_of
from launch.plan.segments import environments, replay_shape
from launch.topology.load import Topology
from launch.topology.modes import mode


def instructions(
    plan: Plan, name: str, incarnation: int, resume: bool = False, env: dict[str, Any] | None = None
) -> ProcessSettings:
    """Settings of one incarnation of a process; ``env`` overrides keys of a simulator's environment."""
    process, t = plan.process(name), plan.topology
    threads = {"trainer": t.trainer.threads, "inference": t.inference.threads}.get(process.id.role, 1)
    base: dict[str, Any] = {
        "id": process.id.again(incarnation),
        "run_id": plan.run_id,
        "control": plan.endpoint("control"),
        "progress": str(plan.shm / "progress"),
        "index": process.index,
        "seed": t.seed,
        "threads": threads,
    }
    if process.id.role == "simulator":
        return _simulator(plan, process.id.again(incarnation), base, env or {})
    if process.id.role == "trainer":
        return _trainer(plan, process, base, resume)
    if process.id.role == "inference":
        return InferenceSettings(
            **base,
            policy=policy(plan),
            weights=plan.weights(process.id.learner),
            wakeup=plan.wakeup(name),
            rollouts=plan.rollouts(process.id.learner),
            device=t.inference.device,
            batch_rows=t.inference.batch_rows,
            deadline_ms=t.inference.deadline_ms,
        )
    return EvaluatorSettings(
        **base,
        policy=policy(plan),
        weights=plan.weights("{}" if own_weights(t) else 0),
        secondary=_secondary(plan, 0),
        env=env_settings(t, {"noop_max": t.evaluator.noop_max}),
        every_steps=t.evaluator.every_steps,
        episodes=t.evaluator.episodes,
        greedy=t.evaluator.greedy,
        scheduling=t.evaluator.scheduling,
    )


def own_weights(topology: Topology) -> bool:
    """Whether learners have weights of their own, rather than one and the same."""
    own = mode(topology)
    return own.own_weights and own.several(topology.learners.count)


def policy(plan: Plan) -> PolicySettings:
    """What is needed to build the network and the algorithm."""
    return PolicySettings(
        observation_shape=plan.description.observation_shape,
        observation_dtype=plan.description.observation_dtype,
        actions=plan.description.actions,
        model=model_settings(plan.topology),
        algorithm=algorithm_settings(plan.topology),
        precision=plan.topology.inference.precision,
        weights=plan.topology.simulators.weights,
        environments=environments(plan.topology),
    )


def _simulator(plan: Plan, own: ProcessId, base: dict[str, Any], env: dict[str, Any]) -> SimulatorSettings:
    t = plan.topology
    # Every incarnation, and every resumption, meets new games; a run from the start meets the same ones each time.
    moment = [t.seed, own.number, own.incarnation, plan.resumed_at]
    seeds = np.random.SeedSequence(moment).generate_state(t.simulators.envs)
    local = t.inference.count == 0
    cores = in_turn() if t.simulators.pin else []
    return SimulatorSettings(
        **base,
        env=env_settings(t, env),
        segment=plan.blocks(own),
        rollouts=plan.rollouts(own.learner),
        wakeup=plan.wakeup(own.name),
        inference_wakeup="" if local else plan.wakeup(plan.server_of(own).name),
        trainer_wakeup=plan.wakeup(trainer_of(t, own.learner).name),
        env_seeds=[int(seed >> 1) for seed in seeds],  # 31 bits: what every simulator's generator takes
        decorrelation_steps=t.simulators.decorrelation_steps,
        reset=t.simulators.reset,
        weights=plan.weights(own.learner),
        policy=policy(plan),
        core=cores[own.number % len(cores)] if t.simulators.pin else None,
        states=plan.states(own.learner),
        resumes=_resumes(plan, own) if own.incarnation == 0 else "",
    )


def _resumes(plan: Plan, own: ProcessId) -> str:
    """The snapshot that a simulator of a resumed run goes on from; "" where it begins anew."""
    folder = plan.goes_on_from.get(own.learner)
    path = folder / snapshot_of(own.name) if folder else None
    return str(path) if path and path.exists() else ""


def _trainer(plan: Plan, process: PlannedProcess, base: dict[str, Any], resume: bool) -> TrainerSettings:
    t = plan.topology
    return TrainerSettings(
        **base,
        wakeup=plan.wakeup(process.name),
        learners=t.learners.count,
        exchange=plan.exchange(process.id.learner, base["id"].incarnation),
        rate_scaling=t.learners.rate_scaling,
        pull_rows=0 if mode(t).unread("learners.pull_rows") else t.learners.pull_rows,
        policy=policy(plan),
        optimizer=optimizer_settings(t),
        weights=plan.weights(process.id.learner),
        rollouts=plan.rollouts(process.id.learner),
        account=plan.account(process.id.learner),
        device=t.trainer.device,
        precision=t.trainer.precision,
        layout=t.trainer.layout,
        compile=t.trainer.compile is True,
        total_steps=t.total_steps,
        rollout_steps=t.algorithm.horizon * environments(t),
        replay=_replay(plan, process.id.learner),
        blocks=t.simulators.blocks,
        frames_per_step=plan.description.frames_per_step,
        run_dir=str(plan.run_dir),
        report_every_s=t.report.every_s,
        norms=t.report.norms,
        checkpoint_every_steps=t.checkpoint.every_steps,
        checkpoint_keep=t.checkpoint.keep,
        began_s=plan.began_s,
        resume=resume,
        goes_on_from=str(plan.goes_on_from.get(process.id.learner, "")),
        states=plan.states(process.id.learner),
        depends_on=exactness.depends_on(t),
    )


def _replay(plan: Plan, learner: int) -> ReplayPlace | None:
    """A learner's replay, where the algorithm has one."""
    if not plan.topology.replayed:
        return None
    return ReplayPlace(
        segment=plan.replay(learner),
        shape=replay_shape(plan.topology, plan.description),
        numbers=msgspec.convert(msgspec.to_builtins(plan.topology.replay), ReplaySettings),
        secondary=_secondary(plan, learner),
    )


def _secondary(plan: Plan, learner: int) -> str:
    """Path of the segment with the weights of the secondary learner beside one, where there is one."""
    there = plan.topology.replayed and plan.topology.replay.secondary_batch_size
    return str(plan.shm / f"secondary-{learner}") if there else ""
