"""Settings of each process: one JSON file per process, written by the supervisor, readable and editable by hand.

``python -m actorlearn.processes <role> <settings.json>`` starts any of them, in a debugger too. Nothing here imports
torch, because simulators read their settings from here.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from actorlearn.actions import Actions
from actorlearn.address import ByLearner, Ipc, Pipe, Shm
from actorlearn.algorithms.settings import ALGORITHMS
from actorlearn.envs.specs import ENVIRONMENTS
from actorlearn.files import write_atomically
from actorlearn.models.specs import MODELS
from actorlearn.optim.specs import OPTIMIZERS, OuterSettings
from actorlearn.parameters.checkpoint_folders import directory_of
from actorlearn.parameters.modes import MODES
from actorlearn.parameters.settings import AloneExchangeSettings, ExperienceSettings
from actorlearn.registry import decode_settings, open_to
from actorlearn.replay.rows import ReplayShape
from actorlearn.replay.settings import ReplaySettings
from actorlearn.wire.identity import ProcessId
from actorlearn.worker.scheduling import SchedulingClass

if TYPE_CHECKING:
    from actorlearn.algorithms.settings import AlgorithmSettings as Algorithm
    from actorlearn.envs.specs import EnvSettings as Env
    from actorlearn.models.specs import ModelSettings as Model
    from actorlearn.optim.specs import OptimizerSettings as Optimizer
    from actorlearn.parameters.settings import ExchangeSettings as Exchange
else:
    Algorithm, Env, Model, Optimizer, Exchange = map(open_to, (ALGORITHMS, ENVIRONMENTS, MODELS, OPTIMIZERS, MODES))


class ProcessSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings that every process has."""

    id: ProcessId
    run_id: str
    control: Ipc | None
    """The supervisor's control socket; None when started by hand without one."""
    progress: Shm
    """The run's progress segment; each process writes the row with its index."""
    index: int
    seed: int
    threads: int = 1
    """Shares of a pass, each computed by a thread of its own (``worker/passes.py``); simulators have one."""


class PolicySettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of the network and the algorithm."""

    observation_shape: tuple[int, ...]
    observation_dtype: str
    actions: Actions
    model: Model
    algorithm: Algorithm
    precision: str = "fp32"
    """Precision of acting: fp32, or bf16 (autocast)."""
    cuda_graphs: bool = True
    """Whether a pass on a GPU is one CUDA graph."""
    weights: str = "newest"
    """Weights that choose the actions of blocks: newest, or rollout: those published when the rollout was opened."""
    environments: int = 1
    """Number of environments at the start, of all learners."""


class SimulatorSettings(ProcessSettings, frozen=True):
    """A simulator: steps the environments whose blocks lie in ``segment``."""

    env: Env
    segment: Shm
    """The segment with its blocks."""
    rollouts: Shm
    """The rollouts segment, in which the trainer opens rollouts."""
    wakeup: Pipe
    """The pipe by which inference server and trainer wake it."""
    inference_wakeup: Pipe | None
    """Wakeup of the inference server that answers it; None when the simulator runs the policy itself."""
    trainer_wakeup: Pipe
    env_seeds: list[int]
    """Seeds, one per environment, group by group; agents of one game share an environment."""
    weights: Shm
    """The published weights that it acts by, when it runs the policy itself."""
    policy: PolicySettings
    decorrelation_steps: int = 0
    """Largest number of random actions that an environment takes before its first rollout."""
    reset: str = "inside"
    """Begin of a new game: inside the block its predecessor ended in, or wait, for the next block."""
    core: int | None = None
    """Core that the process is pinned to; None = all allowed."""
    states: str = ""
    """Folder in which it writes snapshots, as ``<name>.npz``, at the trainer's request; empty: it takes none."""
    resumes: str = ""
    """Path of the snapshot it goes on from; empty: it starts from its seeds."""


class InferenceSettings(ProcessSettings, frozen=True):
    """An inference server: answers the simulators that wake it."""

    wakeup: Pipe
    policy: PolicySettings
    weights: Shm
    """The published weights that it acts by."""
    rollouts: Shm
    """The rollouts segment of the simulators that it answers."""
    device: str
    batch_rows: int = 0
    """Waiting environments at which a batch is answered; 0 = when all participants of a timestep wait."""
    deadline_ms: float = 0.0
    """Longest that a row waits for others, where ``batch_rows`` is not 0."""


class TrainerReplay(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The replay that a trainer learns from: its segment, the layout of that, and the settings of a topology."""

    segment: Shm
    shape: ReplayShape
    settings: ReplaySettings
    secondary: Shm | None = None
    """The published weights of the secondary learner; None where there is none."""


class TrainerSettings(ProcessSettings, frozen=True, kw_only=True):
    """The trainer: gathers rollouts, learns from them, publishes weights, saves checkpoints."""

    wakeup: Pipe
    policy: PolicySettings
    optimizer: Optimizer
    weights: Shm
    """The segment in which it publishes its weights."""
    rollouts: Shm
    """The segment in which it opens rollouts."""
    account: Shm
    """The account of its experience."""
    device: str
    precision: str
    """fp32, or bf16: forward and backward pass under autocast, weights and updates in float32."""
    layout: str
    """plain or space-to-depth: how the first convolution is computed."""
    compile: bool
    """Whether torch.compile makes the network."""
    total_steps: int
    """Steps at which the run ends at the latest."""
    schedule_steps: int | None = None
    """Steps at which schedules end; None = total_steps."""
    stop_at_steps: int | None = None
    """Earlier steps at which the run ends; None = it ends at total_steps."""
    blocks: int
    rollout_steps: int = 0
    """Environment steps of a rollout, of all learners there are at the start."""
    replay: TrainerReplay | None = None
    """The replay it learns from; None = it learns from every batch once."""
    frames_per_step: int
    run_dir: str
    report_every_s: float
    norms: bool = False
    """Whether norms of parameters, gradients and steps are reported."""
    checkpoint_every_steps: int
    checkpoint_keep: int
    began_s: float
    """Zero of the run's clock as CLOCK_MONOTONIC in seconds; the clock continues through restarts."""
    resume: bool
    """Start from the newest whole checkpoint of the run; required to exist."""
    goes_on_from: str = ""
    """Folder of the checkpoint from which trainer and simulators continue exactly, as if not interrupted. Empty for a
    trainer that is restarted later in the run."""
    states: str = ""
    """Folder for the simulators' snapshots that are moved into checkpoints; empty: there are none."""
    depends_on: dict[str, Any] = {}
    """Settings that the simulators' snapshots depend on; saved with them and compared when a run is resumed."""
    learners: int = 1
    """Number of learners at the start."""
    exchange: Exchange = AloneExchangeSettings()
    """Settings of the exchange with other learners."""
    experience: ExperienceSettings | None = None
    """The experience that it shares with other learners; None = it learns from its own rollouts alone."""
    rate_scaling: str = "none"
    """Scaling of the learning rate with the number of learners, and with larger minibatches: none, sqrt or linear."""
    outer: OuterSettings = OuterSettings()
    """The outer optimizer of several learners."""
    pull_rows: int = 0
    """Rows of a batch between two looks at the store while the batch is gathered; 0 = never."""

    @property
    def learner(self) -> int:
        """Number of this learner; it learns from the members that work for it."""
        return self.id.learner

    def schedule_progress(self, env_steps: int) -> float:
        """Return how much of the schedules is over after so many steps, from 0 to 1."""
        return min(env_steps / (self.schedule_steps or self.total_steps), 1.0)

    @property
    def end_steps(self) -> int:
        """Environment steps at which the run ends."""
        return min(self.total_steps, self.stop_at_steps or self.total_steps)

    @property
    def checkpoints(self) -> Path:
        """The folder in which this learner saves."""
        return directory_of(Path(self.run_dir) / "checkpoints", self.learner)


class Recording(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Games recorded as MP4: the best, the median and the worst of an evaluation."""

    folder: str
    """Folder with one folder for each evaluation, by its environment steps."""
    pictures_per_s: float


class EvaluatorSettings(ProcessSettings, frozen=True):
    """The evaluator: whole games with published weights every ``every_steps`` environment steps, and at the end."""

    env: Env
    policy: PolicySettings
    weights: Shm | ByLearner[Shm]
    """The published weights, or those of each learner where learners have weights of their own."""
    every_steps: int | None
    """Steps between evaluations; None = the final weights alone are evaluated."""
    episodes: int
    greedy: bool
    fire_after: int = 0
    """Equal actions in a row after which FIRE is pressed in their place; 0 = never."""
    scheduling: SchedulingClass = "idle"
    """Scheduling class of the process in Linux."""
    secondary: Shm | None = None
    """The published weights of a secondary learner; None where there is none."""
    recording: Recording | None = None
    """Place of the recorded games; None = none are."""


class ParameterServerSettings(ProcessSettings, frozen=True, kw_only=True):
    """A parameter server: keeps a part of the weights of learners in mode async."""

    policy: PolicySettings
    optimizer: Optimizer
    replay: ReplaySettings | None = None
    """The learners' replay, whose batches scale the optimizer's numbers; None where they have none."""
    rate_scaling: str = "none"
    learners: int
    """Number of learners."""
    servers: int
    """Number of parameter servers."""
    quorum: int = 0
    """Gradients whose mean makes a version; 0 = each makes one."""
    memory: Shm
    """Beginning of the names of the shards' segments."""
    host: str
    """Address of this machine at which learners reach it."""
    report_every_s: float


class DescribeSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Environment and network to describe for a plan, before memory is laid out; answered by ``tasks/describe.py``."""

    env: Env
    model: Model
    algorithm: Algorithm
    optimizer: Optimizer
    mode: str = "alone"
    """Name of the mode, whose exchange must be importable."""
    roles: tuple[str, ...] = ()
    """Names of the roles that are not shipped, whose modules must be."""
    devices: dict[str, str] = {}
    """Topology key -> device that must be available."""


class SpacesSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One environment whose actions and observations decide defaults; answered by ``tasks/spaces.py``."""

    env: Env


class EvaluateSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One evaluation of the newest checkpoint of a run; answered by ``tasks/evaluate.py``."""

    env: Env
    policy: PolicySettings
    run_dir: str
    behind_steps: int | None = None
    """Most environment steps by which a learner's checkpoint may be older than the newest; others are not played."""
    episodes: int
    greedy: bool
    fire_after: int = 0
    """Equal actions in a row after which FIRE is pressed in their place; 0 = never."""
    seed: int
    threads: int = 1
    recording: Recording | None = None
    """Place of the recorded games; None = none are."""


class ExportSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One export of a run's policy; done by ``tasks/export.py``."""

    run_dir: str
    learner: int
    """Number of the learner whose weights are written."""
    folder: str
    """Folder that the files go into; it exists."""
    onnx: bool
    """Whether the policy is written as ONNX too, besides its weights."""


class MeasureSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One part of a topology to be measured by itself; answered by ``tasks/measure.py``."""

    part: str
    """The part: simulate, infer, learn or optimize."""
    simulator: SimulatorSettings
    trainer: TrainerSettings
    device: str
    """The device of inference."""
    threads: int
    environments: int
    """Rows of one step: of a group, of an inference batch, of all simulators."""
    seconds: float


class LaggedRun(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A learner whose experience is so many updates old."""

    simulator: SimulatorSettings
    """All environments of the learner are this simulator's."""
    trainer: TrainerSettings
    lag: int


class LaggedSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Learners of old experience, one after the other; answered by ``tasks/lagged.py``."""

    runs: list[LaggedRun]


def snapshot_of(name: str) -> str:
    """Return the file name of a simulator's snapshot."""
    return f"{name}.npz"


Settings = TypeVar("Settings", bound=msgspec.Struct)


def write(settings: msgspec.Struct, path: Path) -> None:
    """Write settings as indented JSON; raises OSError. Not flushed to disk: a power cut ends their reader too."""
    write_atomically(path, msgspec.json.format(msgspec.json.encode(settings), indent=2), durable=False)


def read(path: Path, kind: type[Settings]) -> Settings:
    """Read settings of one kind; raises ValueError naming file and field."""
    data = path.read_bytes()
    try:
        return msgspec.json.decode(data, type=kind, dec_hook=decode_settings)
    except (ValueError, RecursionError) as error:
        raise ValueError(
            f"{path}: {error!s:.500}; compare with the files the supervisor writes under settings/"
        ) from None
