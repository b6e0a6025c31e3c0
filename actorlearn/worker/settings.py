"""Settings of each process: one JSON file per process, written by the supervisor, readable and editable by hand.

``python -m actorlearn.processes <role> <settings.json>`` starts a process with such a file, in a debugger too. Nothing
here imports torch, because simulators import this module.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from actorlearn.action_mask import ActionMask
from actorlearn.actions import Actions
from actorlearn.address import ByLearner, Ipc, Pipe, Shm
from actorlearn.algorithms.settings import ALGORITHMS
from actorlearn.envs.specs import ENVIRONMENTS
from actorlearn.files import write_atomically
from actorlearn.models.specs import MODELS
from actorlearn.optim.specs import OPTIMIZERS, OuterSettings
from actorlearn.parameters.checkpoint_folders import directory_of
from actorlearn.parameters.chosen_checkpoints import NEWEST
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

POLICY_FILE = "policy.json"
"""File in a run's folder with its `LoadSettings`."""


class ProcessSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings that every process has."""

    id: ProcessId
    run_id: str
    control: Ipc | None
    """The supervisor's control socket; None if the process is started by hand without one."""
    progress: Shm
    """The run's progress segment; each process writes the row with its index."""
    index: int
    seed: int
    threads: int = 1
    """Number of shares of a pass, each computed by its own thread (``worker/passes.py``); simulators have one."""


class PolicySettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of the network and the algorithm."""

    observation_shape: tuple[int, ...]
    observation_dtype: str
    actions: Actions
    action_mask: ActionMask | None = None
    """The mask of valid actions at the end of observations; None: all actions are valid."""
    model: Model
    algorithm: Algorithm
    precision: str = "fp32"
    """Precision of acting: fp32, or bf16 (autocast)."""
    cuda_graphs: bool = True
    """Whether a pass on a GPU is one CUDA graph."""
    weights: str = "newest"
    """Weights that choose actions: newest, or rollout for those that were published when the rollout was opened."""
    environments: int = 1
    """Number of environments of all learners at the start."""


class SimulatorSettings(ProcessSettings, frozen=True):
    """Settings of a simulator."""

    env: Env
    segment: Shm
    """The segment with the simulator's blocks."""
    rollouts: Shm
    """The segment in which the trainer opens rollouts."""
    wakeup: Pipe
    """The pipe by which inference server and trainer wake this simulator."""
    inference_wakeup: Pipe | None
    """Wakeup of the inference server for this simulator; None if the simulator runs the policy itself."""
    trainer_wakeup: Pipe
    env_seeds: list[int]
    """Seeds, one per environment, group by group; agents of one game share an environment."""
    weights: Shm
    """The published weights, for a simulator that runs the policy itself."""
    policy: PolicySettings
    decorrelation_steps: int = 0
    """Largest number of random actions that an environment takes before its first rollout."""
    reset: str = "inside"
    """When a new game begins: inside, in the block in which the last one has ended; wait, with the next block."""
    core: int | None = None
    """Core to which the process is pinned; None = all allowed cores."""
    states: str = ""
    """Folder for snapshots, ``<name>.npz``, which the trainer requests; empty: this simulator takes none."""
    resumes: str = ""
    """Path of the snapshot from which the simulator continues; empty: it starts from its seeds."""


class InferenceSettings(ProcessSettings, frozen=True):
    """Settings of an inference server."""

    wakeup: Pipe
    policy: PolicySettings
    weights: Shm
    """The published weights."""
    rollouts: Shm
    """The rollouts segment of the simulators that the server answers."""
    device: str
    batch_rows: int = 0
    """Number of ready rows at which a batch is answered; 0 = all rows of a timestep together."""
    deadline_ms: float = 0.0
    """Longest time for which a row waits for others, if ``batch_rows`` is not 0."""


class TrainerReplay(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of a trainer's replay: its segment, the layout of the segment, and the topology's settings."""

    segment: Shm
    shape: ReplayShape
    settings: ReplaySettings
    secondary: Shm | None = None
    """The published weights of the secondary learner; None if there is none."""


class TrainerSettings(ProcessSettings, frozen=True, kw_only=True):
    """Settings of a trainer."""

    wakeup: Pipe
    policy: PolicySettings
    optimizer: Optimizer
    weights: Shm
    """The segment in which the trainer publishes its weights."""
    rollouts: Shm
    """The segment in which the trainer opens rollouts."""
    account: Shm
    """The account of the trainer's experience."""
    device: str
    precision: str
    """fp32, or bf16: forward and backward pass under autocast, weights and updates in float32."""
    layout: str
    """plain or space-to-depth: how the first convolution is computed."""
    compile: bool
    """Whether torch.compile compiles the network."""
    total_steps: int
    """Environment steps of all learners at which the run ends at the latest."""
    schedule_steps: int | None = None
    """Steps at which schedules end; None = total_steps."""
    stop_at_steps: int | None = None
    """Earlier steps at which the run ends; None = it ends at total_steps."""
    blocks: int
    rollout_steps: int = 0
    """Environment steps in a rollout of all learners, with the learners at the start."""
    replay: TrainerReplay | None = None
    """The replay to learn from; None = the trainer learns from the rollouts themselves."""
    frames_per_step: int
    run_dir: str
    report_every_s: float
    norms: bool = False
    """Whether norms of parameters, gradients and steps are reported."""
    checkpoint_every_steps: int
    checkpoint_every_s: float | None = None
    """Seconds after which a checkpoint is saved before ``checkpoint_every_steps``; None = by steps only."""
    checkpoint_keep: int
    began_s: float
    """Zero of the run's clock as CLOCK_MONOTONIC in seconds; the clock continues across restarts."""
    resume: bool
    """Whether to start from the newest valid checkpoint of the run, which must then exist."""
    goes_on_from: str = ""
    """Folder of the checkpoint from which trainer and simulators continue exactly, as if not interrupted. Empty for a
    trainer that is restarted later in the run."""
    states: str = ""
    """Folder for the simulators' snapshots, which are moved to checkpoints; empty: there are none."""
    depends_on: dict[str, Any] = {}
    """Settings on which the simulators' snapshots depend; saved with them and compared when a run is resumed."""
    learners: int = 1
    """Number of learners at the start."""
    exchange: Exchange = AloneExchangeSettings()
    """Settings of the exchange with other learners."""
    experience: ExperienceSettings | None = None
    """The experience shared with other learners; None = the trainer learns from its own rollouts only."""
    rate_scaling: str = "none"
    """Scaling of the learning rate with the number of learners, and with larger minibatches: none, sqrt or linear."""
    outer: OuterSettings = OuterSettings()
    """The outer optimizer of several learners."""
    pull_rows: int = 0
    """Rows of a rollout between two pulls of other learners' changes while the rollout is played; 0 = no pulls."""

    @property
    def learner(self) -> int:
        """Number of this learner."""
        return self.id.learner

    @property
    def schedule_end(self) -> int:
        """Environment steps at which schedules end."""
        return self.schedule_steps or self.total_steps

    def schedule_progress(self, env_steps: int) -> float:
        """Return the share of the schedules, 0 to 1, that is over after this many steps."""
        return min(env_steps / self.schedule_end, 1.0)

    @property
    def end_steps(self) -> int:
        """Environment steps at which the run ends."""
        return min(self.total_steps, self.stop_at_steps or self.total_steps)

    @property
    def checkpoints(self) -> Path:
        """Folder of this learner's checkpoints."""
        return directory_of(Path(self.run_dir) / "checkpoints", self.learner)


class Recording(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of the recording of games as MP4: the best, the median and the worst of an evaluation."""

    folder: str
    """Folder with a subfolder for each evaluation, named by its environment steps."""
    pictures_per_s: float


class EvaluatorSettings(ProcessSettings, frozen=True):
    """Settings of the evaluator."""

    env: Env
    policy: PolicySettings
    weights: Shm | ByLearner[Shm]
    """The published weights, or those of each learner if learners have weights of their own."""
    every_steps: int | None
    """Environment steps between evaluations; None = only the final weights are evaluated."""
    episodes: int
    greedy: bool
    fire_after: int = 0
    """Number of equal actions in a row after which FIRE is pressed instead; 0 = never."""
    scheduling: SchedulingClass = "idle"
    """Scheduling class of the process in Linux."""
    secondary: Shm | None = None
    """The published weights of a secondary learner; None if there is none."""
    recording: Recording | None = None
    """Settings of the recording of games; None = games are not recorded."""


class ParameterServerSettings(ProcessSettings, frozen=True, kw_only=True):
    """Settings of a parameter server."""

    policy: PolicySettings
    optimizer: Optimizer
    replay: ReplaySettings | None = None
    """The learners' replay, whose batch size scales the optimizer's settings; None if they have none."""
    rate_scaling: str = "none"
    learners: int
    """Number of learners."""
    servers: int
    """Number of parameter servers."""
    quorum: int = 0
    """Number of gradients whose mean makes a version; 0 = each gradient makes a version."""
    memory: Shm
    """Beginning of the names of the shards' segments."""
    host: str
    """Address of this machine for learners."""
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
    """Names of the roles from plug-ins, whose modules must be importable."""
    devices: dict[str, str] = {}
    """Devices that must be available, by topology key."""


class SpacesSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An environment whose actions and observations determine defaults; answered by ``tasks/spaces.py``."""

    env: Env


class LoadSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a policy is built from outside its run: ``policy.json`` in the run's folder (``acting/loaded.py``)."""

    env: Env
    policy: PolicySettings


class EvaluateSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One evaluation of a checkpoint of a run; answered by ``tasks/evaluate.py``."""

    env: Env
    policy: PolicySettings
    run_dir: str
    at: str | int = NEWEST
    """The checkpoint: newest, best, or its environment steps."""
    behind_steps: int | None = None
    """Environment steps by which a learner's checkpoint may be older than the newest; older ones are not played."""
    episodes: int
    greedy: bool
    fire_after: int = 0
    """Number of equal actions in a row after which FIRE is pressed instead; 0 = never."""
    seed: int
    threads: int = 1
    recording: Recording | None = None
    """Settings of the recording of games; None = games are not recorded."""


class ExportSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One export of a run's policy; done by ``tasks/export.py``."""

    run_dir: str
    learner: int
    """Number of the learner whose weights are written."""
    at: str | int = NEWEST
    """The checkpoint: newest, best, or its environment steps."""
    folder: str
    """Existing folder for the files."""
    onnx: bool
    """Whether the policy is also written as ONNX."""


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
    """Number of rows of one step: of a group, of an inference batch, or of all simulators."""
    seconds: float


def snapshot_of(name: str) -> str:
    """Return the file name of a simulator's snapshot."""
    return f"{name}.npz"


Settings = TypeVar("Settings", bound=msgspec.Struct)


def write(settings: msgspec.Struct, path: Path) -> None:
    """Write settings as indented JSON; raises OSError.

    The file is not flushed to disk, because a power failure also ends the process that reads it.
    """
    write_atomically(path, msgspec.json.format(msgspec.json.encode(settings), indent=2), durable=False)


def read(path: Path, kind: type[Settings]) -> Settings:
    """Read settings of one type; raises OSError, and ValueError with the file and the field."""
    data = path.read_bytes()
    try:
        return msgspec.json.decode(data, type=kind, dec_hook=decode_settings)
    except (ValueError, RecursionError) as error:
        raise ValueError(
            f"{path}: {error!s:.500}; compare with a file of this name that the supervisor has written"
        ) from None
