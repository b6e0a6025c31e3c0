"""The keys of a topology: the sections that belong to launch, and the places of the sections of other packages.

Pure. Each key is described once: its type, range, unit and, unless the environment or the algorithm decides it, its
default. The checks in ``validate.py``, the comments of a resolved topology, ``topology.schema.json`` and
``docs/topology.md`` are derived from this description. Rules between keys are in ``rules.py``; defaults that depend on
the environment, the algorithm or the machine are in ``defaults.py``. The plan, not this module, checks whether a device
or a core exists.

``env.id``, ``env.wrappers``, ``model.name`` and ``algorithm.name`` may name code (``package.module:Name``): they must
be trusted like code.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, cast

import msgspec
from msgspec import Meta

from actorlearn.algorithms.settings import AlgorithmSettings
from actorlearn.envs.specs import EnvSettings
from actorlearn.metrics.episodes import RECENT_GAMES
from actorlearn.metrics.specs import DEFAULT_WRITERS
from actorlearn.models.specs import ModelSettings
from actorlearn.optim.specs import OptimizerSettings
from actorlearn.parameters.modes import MODES
from actorlearn.parameters.settings import LearnersSettings, ParameterServersSettings
from actorlearn.replay.settings import ReplaySettings
from actorlearn.worker.roles import ROLES, Hang, RoleSection, Spin

LONGEST_NAME = 64
"""Most characters of a run's name."""
Name = Annotated[
    str,
    Meta(
        pattern=rf"^(?!\.{{1,2}}$)[A-Za-z0-9._-]{{1,{LONGEST_NAME}}}$",
        description="name of the run and of its folder",
        extra={
            "rule": f"a run's name is 1 to {LONGEST_NAME} letters, digits, dots, dashes or underscores",
            "way_out": "write for example pong-1",
        },
    ),
]
Device = Annotated[
    str,
    Meta(
        pattern=r"^(cpu|cuda|cuda:(0|[1-9][0-9]?))$",
        description="device: cpu, cuda or cuda:N",
        extra={"rule": "a device is cpu, cuda or cuda:0 to cuda:99", "way_out": "write cpu, cuda or cuda:0"},
    ),
]
Precision = Literal["auto", "fp32", "bf16"]


class Section(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of the sections: unknown keys are errors, values are not converted, and fields never change."""


class SimulatorsSection(Section, frozen=True, kw_only=True):
    """Simulator processes. By default their number follows the machine's cores."""

    count: Annotated[int, Meta(ge=1, le=1_024, description="simulator processes of each learner")]
    envs: Annotated[int, Meta(ge=1, le=4_096, description="environments in each process, in all its groups together")]
    groups: Annotated[
        int,
        Meta(
            ge=1,
            le=16,
            description="groups of environments in each process; one group waits for actions while another simulates",
        ),
    ] = 1
    blocks: Annotated[
        int,
        Meta(
            ge=1,
            le=64,
            description="number of rollouts for which each group has shared memory, one block for each: 1 = "
            "simulators wait while the trainer learns (on-policy), 2 = they may play one rollout ahead, "
            "and so on",
        ),
    ] = 1
    weights: Annotated[
        Literal["newest", "rollout"],
        Meta(
            description="weights with which actions are chosen; newest = the newest published ones, rollout = for a "
            "whole rollout those that were the newest when it was opened, so that a run can be repeated "
            "also with several blocks"
        ),
    ] = "newest"
    pin: Annotated[bool, Meta(description="pin each process to one of the allowed cores")] = False
    decorrelation_steps: Annotated[
        int,
        Meta(
            ge=0,
            le=100_000,
            description="each environment takes a random number of random actions before its first rollout, at "
            "most this many; they do not count as steps",
        ),
    ] = 0
    reset: Annotated[
        Literal["inside", "wait"],
        Meta(
            description="when a new game starts; inside = at once, within the rollout; wait = at the next rollout, "
            "and the rows until then do not count as steps"
        ),
    ] = "inside"

    @property
    def environments(self) -> int:
        """Environments of each learner."""
        return self.count * self.envs


class InferenceSection(Section, frozen=True, kw_only=True):
    """Inference servers, which run the policy on batches of observations."""

    count: Annotated[
        int,
        Meta(
            ge=0,
            le=1_024,
            description="inference servers of each learner; 0 = simulators run the policy themselves",
        ),
    ]
    device: Device = "cpu"
    threads: Annotated[
        int, Meta(ge=1, le=1_024, description="threads of a server; each computes a share of the rows")
    ] = 1
    precision: Annotated[
        Precision,
        Meta(
            description="number type of the forward pass: fp32, bf16 (autocast), or auto, which chooses for this"
            " machine"
        ),
    ] = "auto"
    cuda_graphs: Annotated[
        bool,
        Meta(
            description="on a GPU, run a forward pass as one CUDA graph; set false for a network that cannot be "
            "captured"
        ),
    ] = True
    batch_rows: Annotated[
        int,
        Meta(
            ge=0,
            le=65_536,
            description="a server computes actions as soon as this many environments wait for them; 0 = it waits "
            "for all its environments, so that a run can be repeated",
        ),
    ] = 0
    deadline_ms: Annotated[
        float,
        Meta(
            ge=0,
            le=10_000,
            description="with batch_rows above 0: longest time in ms that an environment waits for others",
        ),
    ] = 10.0


class TrainerSection(Section, frozen=True, kw_only=True):
    """The trainer, which computes gradients and updates the weights."""

    device: Device = "cpu"
    threads: Annotated[
        int,
        Meta(
            ge=1,
            le=1_024,
            description="threads of the trainer; each computes a share of the batch. Another number gives different "
            "weights, because of rounding",
        ),
    ]
    precision: Annotated[
        Precision,
        Meta(
            description="number type of the forward and backward pass: fp32, bf16 (autocast), or auto, which chooses "
            "for this machine; weights and updates are float32"
        ),
    ] = "auto"
    layout: Annotated[
        Literal["auto", "plain", "space-to-depth"],
        Meta(description="memory layout of the first convolution; changes the speed, not the function"),
    ] = "auto"
    compile: Annotated[
        Literal["auto"] | bool, Meta(description="compile the network with torch.compile; takes a minute at the start")
    ] = "auto"
    cuda_graphs: Annotated[
        bool,
        Meta(
            description="on a GPU, compute the gradient of a minibatch as one CUDA graph. A loss that cannot be "
            "captured is computed without a graph, with a warning. Algorithms with a state, and trainer.compile: true, "
            "use no graphs"
        ),
    ] = True


class EvaluatorSection(Section, frozen=True, kw_only=True):
    """The evaluator, which plays games with fixed weights to measure the score."""

    count: Annotated[
        int, Meta(ge=0, le=1, description="1 = one process evaluates the policy during the run; 0 = no evaluation")
    ] = 0
    every_steps: Annotated[
        Annotated[int, Meta(ge=1, le=10**12)] | None,
        Meta(description="agent steps between evaluations; null = only the final weights are evaluated"),
    ]
    episodes: Annotated[int, Meta(ge=1, le=10_000, description="games per evaluation")]
    greedy: Annotated[bool, Meta(description="take the most likely action instead of sampling one")]
    noop_max: Annotated[
        int, Meta(ge=0, le=1_000, description="largest number of random no-op frames at the start of a game")
    ]
    fire_after: Annotated[
        int,
        Meta(
            ge=0,
            le=100_000,
            description="press FIRE after this many equal actions in a row, for Atari games that wait for FIRE; 0"
            " = never",
        ),
    ] = 0
    stop_at_score: Annotated[
        Annotated[float, Meta(ge=-1e12, le=1e12)] | None,
        Meta(description="the run ends early when the mean score of an evaluation reaches this; null = never"),
    ] = None
    record: Annotated[
        bool,
        Meta(
            description="record the best, the median and the worst game of each evaluation as MP4 in films/ of the run"
        ),
    ] = False
    # With PAAC on two cores, an evaluator in class idle used 0.2 of a core and lowered the steps/s by 1 %; in the other
    # classes it lowered them by 40 %.
    scheduling: Annotated[
        Literal["idle", "batch", "other"],
        Meta(
            description="Linux scheduling class of the process; idle = it uses only idle cores, batch = it never "
            "preempts others, other = normal"
        ),
    ] = "idle"


class CheckpointSection(Section, frozen=True, kw_only=True):
    """How often checkpoints are saved, and what they contain."""

    every_s: Annotated[
        Annotated[float, Meta(gt=0.0, le=10**9)] | None,
        Meta(
            description="seconds after which a checkpoint is saved, unless every_steps comes first; longer if saving "
            "would otherwise take more than a twentieth of the time; null = by steps only"
        ),
    ] = 300.0
    every_steps: Annotated[
        Annotated[int, Meta(ge=1, le=10**12)] | None,
        Meta(
            description="agent steps after which a checkpoint is saved, unless every_s comes first; one more is saved "
            "at the end; null = a tenth of total_steps"
        ),
    ] = None
    keep: Annotated[
        int,
        Meta(
            ge=1,
            le=100_000,
            description="number of newest checkpoints that are kept, besides the one with the best score",
        ),
    ] = 3
    exact: Annotated[
        Literal["auto"] | bool,
        Meta(
            description="save the state of the simulators too, so that a resumed run ends with the same weights as "
            "an uninterrupted one; auto = if this is possible and the state is small"
        ),
    ] = "auto"

    def steps_between(self, total_steps: int) -> int:
        """Return the agent steps between checkpoints of a run of this many steps."""
        return self.every_steps or max(1, total_steps // 10)


class ReportSection(Section, frozen=True, kw_only=True):
    """The reports of a run, and where they are written."""

    every_s: Annotated[float, Meta(ge=0.1, le=3_600, description="seconds between two rows of metrics.jsonl")] = 2.0
    writers: Annotated[
        tuple[Annotated[str, Meta(min_length=1, max_length=200)], ...],
        Meta(
            max_length=16,
            description="where rows are written besides metrics.jsonl: tensorboard, trackio, wandb or "
            "package.module:Name",
        ),
    ] = DEFAULT_WRITERS
    norms: Annotated[
        bool,
        Meta(
            description="add columns with the l2 norms of parameters, gradients and optimizer steps, of the whole "
            "network and of its first layers"
        ),
    ] = False


class Limits(NamedTuple):
    """Seconds of silence (``launch/supervision/hangs.py``) after which a process of a role is treated as hanging."""

    hang_s: float
    """Limit for a process that uses no processor time."""
    spin_s: float
    """Limit for a process that uses processor time."""
    keys: str
    """Prefix of the two keys in the topology, such as supervision.trainer_."""
    note: str = ""
    """Key that may make processes of the role slow, and a remedy, for reports of silence; empty if there is none."""


class Budget(Section, frozen=True, kw_only=True):
    """Limits on starting a process again: how often, and after which delay (launch/supervision/child.py)."""

    restarts: Annotated[
        int,
        Meta(
            ge=0,
            le=1_000_000,
            description="how often a process is restarted within restarts_within_s, and how often a failed start "
            "is repeated; after one more death the process is given up and not started again",
        ),
    ] = 5
    restarts_within_s: Annotated[
        float, Meta(gt=0, le=1_000_000, description="seconds after which a restart no longer counts towards restarts")
    ] = 60.0
    unsaved_restarts: Annotated[
        int,
        Meta(
            ge=0,
            le=1_000_000,
            description="how often a trainer is restarted without a new checkpoint in between; prevents endless "
            "restarts at the same update",
        ),
    ] = 3
    restart_delay_s: Annotated[
        float,
        Meta(ge=0, le=3_600, description="delay from a death to the first restart; each further restart doubles it"),
    ] = 0.2
    longest_restart_delay_s: Annotated[float, Meta(ge=0, le=3_600, description="longest delay before a restart")] = 30.0


BUDGET = Budget()
"""Budget of a topology that sets none."""


class SupervisionSection(Budget, frozen=True, kw_only=True):
    """Limits on hangs and restarts of processes. Time while the machine is suspended does not count."""

    # A healthy process shows a sign of life every 100 ms, but not within one call of an environment, one pass of a
    # network or one write to a disk. An environment may wait for another program; an inference server waits for nothing
    # else. Importing torch from a slow disk takes tens of seconds before Hello. A draining trainer may be writing a
    # replay: a million transitions of Atari are 7.1 GB, 12 minutes at 10 MB/s.
    start_s: Annotated[
        float,
        Meta(
            ge=2,
            le=1_000_000,
            description="limit that applies instead of the *_hang_s keys while a process starts; also the limit "
            "for trying the environment and the network before the run starts",
        ),
    ] = 120.0
    drain_s: Annotated[
        float,
        Meta(
            ge=2,
            le=1_000_000,
            description="longest time that trainers may take to finish and save when the run ends",
        ),
    ] = 900.0
    simulator_hang_s: Hang = 30.0
    inference_hang_s: Hang = 10.0
    trainer_hang_s: Hang = 30.0
    evaluator_hang_s: Hang = 30.0
    parameter_server_hang_s: Hang = 30.0
    simulator_spin_s: Spin = 600.0
    inference_spin_s: Spin = 600.0
    trainer_spin_s: Spin = 1800.0
    evaluator_spin_s: Spin = 3600.0  # it runs only in idle time, and waiting for a processor counts as computing
    parameter_server_spin_s: Spin = 600.0
    any_memory_order: Annotated[
        bool,
        Meta(
            description="start the run also on processors other than x86-64, where a process may read a row while "
            "it is half written"
        ),
    ] = False


class NodesSection(Section, frozen=True, kw_only=True):
    """Nodes of a run on several machines, one `actorlearn node` on each. A learner is never split between nodes."""

    count: Annotated[
        int, Meta(ge=1, le=256, description="number of nodes with which the run begins; 1 = this machine alone")
    ] = 1
    wait_s: Annotated[
        float,
        Meta(
            gt=0,
            le=1_000_000,
            description="seconds within which all nodes must join; if some are missing then, the run ends",
        ),
    ] = 300.0
    listen: Annotated[
        Annotated[str, Meta(min_length=3, max_length=300)] | None,
        Meta(description="ADDRESS:PORT on which the head listens for nodes; null = 127.0.0.1 and a free port"),
    ] = None
    interface: Annotated[
        Annotated[str, Meta(min_length=1, max_length=300)] | None,
        Meta(
            description="network interface or address at which other nodes reach a node; null = the address that "
            "the node uses to reach the head"
        ),
    ] = None
    lease_s: Annotated[
        float,
        Meta(
            ge=1,
            le=3_600,
            description="seconds without an answer of the head after which a node ends its processes; if the head "
            "receives no message from a node for 1.5 times as long, it treats the node as lost",
        ),
    ] = 10.0
    lost: Annotated[
        Literal["elsewhere", "leave out"],
        Meta(
            description="what happens to the learners of a lost node; elsewhere = they restart on other nodes from "
            "their newest checkpoints, leave out = the run continues without them"
        ),
    ] = "elsewhere"
    rebalance: Annotated[
        bool,
        Meta(
            description="move a learner to a node that has joined, if that node has room for it, at least two "
            "learners fewer than the learner's node, and more free cores; the learner saves and "
            "restarts there"
        ),
    ] = True
    hosts: Annotated[
        tuple[Annotated[str, Meta(min_length=1, max_length=300)], ...],
        Meta(
            max_length=256,
            description="machines on which the engines ssh and slurm (the latter within an allocation) start "
            "nodes, one for each node; a sweep distributes its runs over them",
        ),
    ] = ()
    command: Annotated[
        Annotated[tuple[Annotated[str, Meta(min_length=1, max_length=1000)], ...], Meta(min_length=1, max_length=100)]
        | None,
        Meta(
            description="command by which an engine starts actorlearn on a node, as a list of words; null = the Python "
            "interpreter of this machine"
        ),
    ] = None
    options: Annotated[
        tuple[Annotated[str, Meta(min_length=1, max_length=1000)], ...],
        Meta(
            max_length=100, description="additional options for the command that an engine calls: ssh, sbatch or srun"
        ),
    ] = ()

    @property
    def several(self) -> bool:
        """Whether a run has a head (``launch/nodes/head.py``), which nodes join; else it runs on this machine alone."""
        return self.count > 1 or self.listen is not None


def learners_of_a_node(learners: int, nodes: int) -> int:
    """Return the largest number of learners on a node when they are divided evenly."""
    return -(-learners // nodes)


class Topology(Section, frozen=True, kw_only=True, dict=True):
    """A whole topology: processes, devices and numbers; steps are agent steps (Atari: frame_skip frames each)."""

    name: Name
    seed: Annotated[int, Meta(ge=0, le=2**31 - 1, description="seed of all random numbers of the run")] = 1
    mode: str = "sync"
    """Name of a mode; `TOPOLOGY` restricts it to the installed modes."""
    total_steps: Annotated[
        int,
        Meta(
            ge=1,
            le=10**12,
            description="agent steps of all environments together, after which the run ends; it learns from whole "
            "batches, so it may end up to one batch later",
            examples=[100_000],
        ),
    ]
    schedule_steps: Annotated[
        Annotated[int, Meta(ge=1, le=10**12)] | None,
        Meta(
            description="agent steps at which the schedules of learning rate, entropy, clipping and priorities reach "
            "their final values; null = total_steps"
        ),
    ] = None
    stop_at_training_score: Annotated[
        Annotated[float, Meta(ge=-1e12, le=1e12)] | None,
        Meta(
            description=f"the run ends early when the mean score of the last {RECENT_GAMES} training games reaches "
            "this; null = never"
        ),
    ] = None
    stop_at_steps: Annotated[
        Annotated[int, Meta(ge=1, le=10**12)] | None,
        Meta(
            description="agent steps at which the run ends early, for example to be resumed later; schedules still "
            "refer to total_steps; null = never"
        ),
    ] = None
    env: EnvSettings
    model: ModelSettings
    algorithm: AlgorithmSettings
    replay: ReplaySettings | None = None
    """Experience replay; None for algorithms that learn without one."""
    optimizer: OptimizerSettings
    learners: LearnersSettings
    parameter_servers: ParameterServersSettings
    simulators: SimulatorsSection
    inference: InferenceSection
    trainer: TrainerSection
    evaluator: EvaluatorSection
    checkpoint: CheckpointSection
    report: ReportSection
    supervision: SupervisionSection
    nodes: NodesSection
    roles: Annotated[
        dict[str, RoleSection],
        Meta(description="roles of plug-ins, each with the number of its processes: {auditor: {count: 1}}"),
    ] = {}

    # Facts about the file and the overrides, which `load.parse` sets. They are not keys.
    written: ClassVar[frozenset[str]] = frozenset()
    """Dotted keys that the file or an override sets."""
    left_out: ClassVar[Mapping[str, str]] = {}
    """Dotted keys of the file that an override has made unused -> the reason."""
    in_proportion: ClassVar[Mapping[str, float]] = {}
    """Dotted keys of final learning rates that changed with an overridden rate -> new value."""

    @property
    def learners_of_a_node(self) -> int:
        """Largest number of learners on a node; on one machine all."""
        return learners_of_a_node(self.learners.count, self.nodes.count)

    @property
    def limits(self) -> dict[str, Limits]:
        """Limits on the silence of processes, for each role that a run of this topology may have."""
        found = {}
        for role in ROLES.specs():
            if role.section is None:
                hang_s, spin_s = (getattr(self.supervision, f"{role.name}_{what}_s") for what in ("hang", "spin"))
                idle = role.name == "evaluator" and self.evaluator.scheduling == "idle"
                note = "evaluator.scheduling: idle leaves it only idle cores; batch gives it a share" if idle else ""
                found[role.name] = Limits(hang_s, spin_s, f"supervision.{role.name}_", note)
            elif section := self.roles.get(role.name):
                found[role.name] = Limits(section.hang_s, section.spin_s, f"roles.{role.name}.")
        return found


def _with_modes() -> type[Topology]:
    """Return `Topology` with the names of the installed modes as values of ``mode``, and with the modes' sections.

    The section of a mode has the mode's name. Therefore a mode is left out if its name is a key of `Topology`.
    """
    modes = [mode for mode in MODES.specs() if mode.name.isidentifier() and mode.name not in Topology.__struct_fields__]
    words = {mode.asked_as: f"{mode.asked_as} ({mode.does})" for mode in modes if not mode.alone}
    known: Any = Annotated[
        Literal.__getitem__((*words,)), Meta(description=f"how several learners exchange: {', '.join(words.values())}")
    ]
    sections: list[Any] = [(mode.name, mode.section) for mode in modes if mode.section]
    made = msgspec.defstruct(
        "Topology",
        [("mode", known, "sync"), *sections],
        bases=(Topology,),
        module=__name__,
        namespace={"__doc__": Topology.__doc__},
        frozen=True,
        kw_only=True,
        dict=True,
    )
    return cast("type[Topology]", made)


TOPOLOGY: type[Topology] = _with_modes()
"""The struct of whole topologies: the keys of `Topology` and of the installed modes."""
