"""The keys of a topology: one class per section, every field with its range and its unit.

Pure pydantic models without defaults (``defaults.py`` fills those in first) and the rules that tie fields
together. What stands here lands in ``topology.schema.json`` and, as comments, in a dumped topology. Says nothing
about files or error lines, and does not look at the machine: whether a device or a core exists is the plan's question.

``env.id``, ``env.wrappers``, ``model.name`` and ``algorithm.name`` may name code (``package.module:Name``): it is
trusted like code.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from actorlearn.algorithms.interface import PARTS_OF_TRANSITIONS
from actorlearn.algorithms.interface import SHIPPED as ALGORITHMS
from actorlearn.models.interface import SHIPPED as MODELS
from launch.topology.algorithm import AlgorithmSection
from launch.topology.env import EnvSection
from launch.topology.fields import Beta, Device, Name, Precision, Section, Width, known_or_code, refuse
from launch.topology.gossip import GossipSection
from launch.topology.replay import ReplaySection, replay_of_values, weights_of_rollouts
from launch.topology.supervision import SupervisionSection

ModelName = Annotated[str, AfterValidator(known_or_code(MODELS)), Field(json_schema_extra={"examples": [*MODELS]})]


class ModelSection(Section):
    """The network (actorlearn.models.interface.ModelSettings)."""

    name: ModelName = Field(description=f"{', '.join(MODELS)} or package.module:Name")
    hidden_sizes: list[Width] = Field(max_length=16, description="units per hidden layer of mlp")
    init: Literal["torch", "orthogonal"] = Field(description="initial weights; torch = U(+-1/sqrt(fan_in)), biases too")
    recurrence: Literal["none", "lstm", "gru"] = Field(description="a cell between encoder and heads; none = no memory")
    recurrent_size: Width = Field(description="units of the cell")
    normalize_observation: bool = Field(description="running mean and deviation per element; not of images")
    noisy: float = Field(ge=0, le=100, description="dqn, c51: deviation of noisy layers x sqrt(inputs); 0 = none")
    stream_gradient: float = Field(gt=0, le=1, description="dueling: of what both streams send back; 1 = all of it")


class OptimizerSection(Section):
    """The optimizer (actorlearn.optim.interface.OptimizerSettings)."""

    name: Literal["rmsprop", "adam"] = Field(description="rmsprop or adam")
    learning_rate: float = Field(gt=0, le=1_000, description="at step 0")
    learning_rate_final: float = Field(ge=0, le=1_000, description="reached linearly at total_steps")
    decay: float = Field(ge=0, lt=1, description="rmsprop: decay of the squared gradients, per update")
    betas: list[Beta] = Field(min_length=2, max_length=2, description="adam: decay of both moments, per update")
    epsilon: float = Field(gt=0, le=1_000, description="added to the denominator")
    epsilon_inside_root: bool = Field(description="rmsprop: sqrt(a + epsilon) instead of sqrt(a) + epsilon")
    epsilon_hat: bool = Field(description="adam: TensorFlow's form, epsilon not rescaled by the bias correction")
    accumulator_init: float = Field(ge=0, le=1_000_000, description="rmsprop: squared gradients at the start")
    centered: bool = Field(description="rmsprop: subtract the squared mean gradient")
    clip_norm: float = Field(ge=0, le=1_000_000, description="largest global norm of the gradient; 0 = not clipped")


class LearnersSection(Section):
    """Learners: each is a trainer with its inference servers and simulators."""

    count: int = Field(ge=1, le=64, description="learners, each with its own simulators and inference servers")
    rate_scaling: Literal["none", "sqrt", "linear"] = Field(
        description="of the learning rate with count x replay.batch_size / base_batch_size, which make a larger batch"
    )
    chunks: int = Field(ge=1, le=1_024, description="async: parts of the parameter store, each with its own lock")
    local_steps: int = Field(
        ge=1, le=10_000, description="async, with adam: updates between two of the store; gossip: between two exchanges"
    )
    pull_rows: int = Field(
        ge=0, le=10_000, description="async: steps of each environment between two pulls of the store; 0 = no pulls"
    )


class SimulatorsSection(Section):
    """Simulator processes."""

    count: int = Field(ge=1, le=1_024, description="processes of each learner")
    envs: int = Field(ge=1, le=4_096, description="environments per process, all groups together")
    groups: int = Field(ge=1, le=16, description="alternating groups per process: one waits while another simulates")
    blocks: int = Field(ge=1, le=64, description="blocks per group: 1 = on-policy, 2 = one update of lag, ...")
    weights: Literal["newest", "rollout"] = Field(
        description="rows are answered by the newest, or by those published when their rollout was opened: repeatable"
    )
    pin: bool = Field(description="each process stays on one of the allowed cores, in turn")
    decorrelation_steps: int = Field(
        ge=0, le=100_000, description="most random actions of each environment before its first rollout; no env steps"
    )
    reset: Literal["inside", "wait"] = Field(
        description="a game begins inside a block, or waits for the next one; the steps until then do not count"
    )

    @property
    def environments(self) -> int:
        """Those of each learner."""
        return self.count * self.envs

    @model_validator(mode="after")
    def _whole_groups(self) -> SimulatorsSection:
        if self.envs % self.groups:
            lower, upper = self.envs // self.groups * self.groups, -(-self.envs // self.groups) * self.groups
            ways = f"{lower} or {upper}" if lower else f"{upper}"
            refuse(
                f"environments split evenly into groups, and {self.envs} is no multiple of {self.groups} (groups)",
                f"write envs: {ways}, or another number of groups",
                "envs",
            )
        return self


class InferenceSection(Section):
    """Inference servers: they run the policy on batches of observations."""

    count: int = Field(ge=0, le=1_024, description="processes of each learner; 0 = simulators act themselves")
    device: Device = Field(description="cpu, cuda or cuda:N")
    threads: int = Field(ge=1, le=1_024, description="shares of a server's rows, each computed by a thread of its own")
    precision: Precision = Field(description="auto, fp32 or bf16 (autocast)")
    batch_rows: int = Field(
        ge=0,
        le=65_536,
        description="environments answered as soon as so many wait; 0 = all of a timestep, deterministic",
    )
    deadline_ms: float = Field(ge=0, le=10_000, description="batch_rows > 0: longest wait of a row for others, in ms")


class TrainerSection(Section):
    """The trainer: batches to gradients to updates."""

    device: Device = Field(description="cpu, cuda or cuda:N")
    threads: int = Field(
        ge=1,
        le=1_024,
        description="shares of a batch, each in a thread of its own; part of what decides results",
    )
    precision: Precision = Field(
        description="of the two passes: auto, fp32 or bf16 (autocast); weights and updates are always float32"
    )
    layout: Literal["auto", "plain", "space-to-depth"] = Field(
        description="of the first convolution: the same function, faster in one way or the other"
    )
    compile: Literal["auto"] | bool = Field(description="torch.compile the network; takes a minute at the start")


class EvaluatorSection(Section):
    """The evaluator: whole games with frozen weights."""

    count: int = Field(ge=0, le=1, description="0 = no evaluation; 1 = one process that plays while the run goes on")
    every_steps: int = Field(ge=1, le=10**12, description="agent steps between evaluations")
    episodes: int = Field(ge=1, le=10_000, description="whole games per evaluation; their scores are one message")
    greedy: bool = Field(description="the likeliest action instead of a sampled one")
    noop_max: int = Field(ge=0, le=1_000, description="most random no-op frames at the start of a game")
    scheduling: Literal["idle", "batch", "other"] = Field(
        description="Linux's class: idle takes only what others leave, batch never preempts, other is as everybody"
    )


class CheckpointSection(Section):
    """Checkpoints."""

    every_steps: int = Field(ge=1, le=10**12, description="agent steps between checkpoints; one more at the end")
    keep: int = Field(ge=1, le=100_000, description="newest checkpoints kept")
    exact: Literal["auto"] | bool = Field(
        description="with the simulators' states, so that a resumed run goes on as if it had not been interrupted; "
        "auto = where that can be and they are not large"
    )


class ReportSection(Section):
    """Progress reports."""

    every_s: float = Field(ge=0.1, le=3_600, description="seconds between rows of metrics.jsonl")
    norms: bool = Field(
        description="columns *_l2: norms of parameters, gradients and update steps, also of the first layers"
    )


class Topology(Section):
    """Which processes, where, with which numbers; steps are agent steps (Atari: frame_skip frames each)."""

    name: Name = Field(description="the run's name, also its folder's")
    seed: int = Field(ge=0, le=2**31 - 1, description="of everything random in the run")
    mode: Literal["sync", "async", "gossip"] = Field(
        description="how learners exchange: sync (mean gradients), async (a central store), gossip (mixed weights)"
    )
    total_steps: int = Field(ge=1, le=10**12, description="agent steps in all environments together; the run's end")
    env: EnvSection
    model: ModelSection
    algorithm: AlgorithmSection
    replay: ReplaySection
    optimizer: OptimizerSection
    learners: LearnersSection
    gossip: GossipSection
    simulators: SimulatorsSection
    inference: InferenceSection
    trainer: TrainerSection
    evaluator: EvaluatorSection
    checkpoint: CheckpointSection
    report: ReportSection
    supervision: SupervisionSection

    @model_validator(mode="after")
    def _servers_with_work(self) -> Topology:
        if self.inference.count > self.simulators.count:
            refuse(
                f"each simulator has one inference server, and simulators.count is {self.simulators.count}",
                f"write a number from 1 to {self.simulators.count}, or more simulators",
                "inference.count",
            )
        return self

    @model_validator(mode="after")
    def _local_steps_by_adam(self) -> Topology:
        if self.mode == "async" and self.learners.local_steps > 1 and self.optimizer.name != "adam":
            refuse(
                f"in mode async several are Adam's (appendix A of Stooke and Abbeel), not {self.optimizer.name}'s",
                "write 1, or optimizer.name: adam",
                "learners.local_steps",
            )
        return self

    @model_validator(mode="after")
    def _in_peers_of_all_learners(self) -> Topology:
        graph, learners = self.gossip.graph, self.learners.count
        if self.mode == "gossip" and isinstance(graph, list) and len(graph) < learners:
            refuse(
                f"each learner has a list of its in-peers, and {len(graph)} lists are too few for {learners} learners",
                f"write {learners} lists, or learners.count: {len(graph)}",
                "gossip.graph",
            )
        return self

    @model_validator(mode="after")
    def _horizon_of_batch_steps(self) -> Topology:
        steps, environments = self.algorithm.batch_steps, self.simulators.environments
        if steps is None or steps == self.algorithm.horizon * environments:
            return self
        lower = steps // environments * environments
        if lower == steps:
            refuse(
                f"{steps} steps (batch_steps) of {environments} environments are {steps // environments} of each",
                "leave the horizon out, or batch_steps",
                "algorithm.horizon",
            )
        refuse(
            f"all environments give as many steps, and {steps} is no multiple of {environments} (environments)",
            f"write {f'{lower} or ' if lower else ''}{lower + environments}, or other simulators.envs",
            "algorithm.batch_steps",
        )

    @model_validator(mode="after")
    def _inference_batches_that_fill(self) -> Topology:
        rows, servers = self.inference.batch_rows, self.inference.count
        if rows and not servers:
            refuse(
                "batches are gathered by inference servers, and inference.count is 0",
                "write inference.count: 1 or more, or batch_rows: 0",
                "inference.batch_rows",
            )
        environments = self.simulators.count // max(servers, 1) * self.simulators.envs
        if rows > environments:
            refuse(
                f"a server answers {environments} environments, so that batch never fills",
                f"write a number from 0 to {environments}",
                "inference.batch_rows",
            )
        return self

    @model_validator(mode="after")
    def _weights_and_replay(self) -> Topology:
        weights_of_rollouts(self)
        replay_of_values(self)
        return self

    @model_validator(mode="after")
    def _minibatches_with_transitions(self) -> Topology:
        most, what = self.simulators.environments, "whole environments"
        if self.algorithm.name in PARTS_OF_TRANSITIONS and self.model.recurrence == "none":
            most, what = most * self.algorithm.horizon, "transitions"
        if self.algorithm.name in ALGORITHMS and self.algorithm.minibatches > most:
            refuse(
                f"a part of a batch is {what}, and there are {most}",
                f"write a number from 1 to {most}, or more simulators.envs",
                "algorithm.minibatches",
            )
        return self
