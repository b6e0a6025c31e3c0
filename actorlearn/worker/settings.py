"""Settings of each process: a JSON file that the supervisor writes before it starts the process.

``python -m actorlearn.processes <role> <settings.json>`` starts a process with such a file by hand, for example in a
debugger. Nothing here imports torch, because simulators import this module.
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
from actorlearn.observation_parts import ActionMask
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
    """The segment in which each process shows that it is alive and counts its time (``memory/progress.py``)."""
    index: int
    """Index of this process in the progress segment."""
    seed: int
    threads: int = 1
    """Number of threads among which forward and backward passes are divided (``worker/passes.py``); 1 in simulators."""


class PolicySettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings from which a policy is built: shapes, network and algorithm."""

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
    """Whether forward passes of acting on a GPU are replayed as CUDA graphs."""
    weights: str = "newest"
    """Weights that choose actions: "newest", or "rollout" for the newest when the rollout could first begin."""
    environments: int = 1
    """Number of environments of all learners at the start of the run, for the schedule of epsilon."""


class SimulatorSettings(ProcessSettings, frozen=True):
    """Settings of a simulator."""

    env: Env
    segment: Shm
    """The segment with the simulator's time steps."""
    rollouts: Shm
    """The segment in which the trainer opens rollouts."""
    wakeup: Pipe
    """The pipe by which inference server and trainer wake this simulator."""
    inference_wakeup: Pipe | None
    """Wakeup of the inference server for this simulator; None if the simulator runs the policy itself."""
    trainer_wakeup: Pipe
    env_seeds: list[int]
    """One seed for each environment, group by group; a game of several agents is one environment."""
    weights: Shm
    """The published weights, for a simulator that runs the policy itself."""
    policy: PolicySettings
    decorrelation_steps: int = 0
    """Largest number of random actions that an environment takes before its first rollout."""
    reset: str = "inside"
    """When a new game begins: "inside", at once, in the same rollout; or "wait", with the next rollout."""
    core: int | None = None
    """Core to which the process is pinned; None = all allowed cores."""
    states: str = ""
    """Folder to which the simulator writes a snapshot, ``<name>.npz``, when the trainer requests it; empty: it takes no
    snapshots."""
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
    """Number of waiting observations at which the server computes actions; 0 = when all of a time step wait."""
    deadline_ms: float = 0.0
    """Longest time, in milliseconds, for which an observation waits for others if ``batch_rows`` is not 0."""


class TrainerReplay(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of a trainer's replay."""

    segment: Shm
    """The segment of shared memory that has the replay's time steps."""
    shape: ReplayShape
    """The layout of that segment."""
    settings: ReplaySettings
    """The section ``replay`` of the topology."""
    secondary: Shm | None = None
    """The published weights of the secondary learner (``learning/secondary.py``); None if there is none."""


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
    """The segment with the counts of used and dropped steps, which survive the trainer (``memory/account.py``)."""
    device: str
    precision: str
    """"fp32", or "bf16": forward and backward pass under autocast, weights and updates in float32."""
    layout: str
    """How the first convolution is computed: "plain" or "space-to-depth"."""
    compile: bool
    """Whether torch.compile compiles the network."""
    cuda_graphs: bool = True
    """Whether gradients are computed by CUDA graphs on a GPU."""
    total_steps: int
    """Number of environment steps of all learners at which the run ends at the latest."""
    schedule_steps: int | None = None
    """Number of environment steps at which schedules end; None = total_steps."""
    stop_at_steps: int | None = None
    """A smaller number of environment steps at which the run ends; None = it ends at total_steps."""
    blocks: int
    """Number of rollouts that can be in progress or not learned from yet (``simulators.blocks``)."""
    rollout_steps: int = 0
    """Number of environment steps in a rollout of all learners, counted with the learners at the start of the run."""
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
    """Time of CLOCK_MONOTONIC, in seconds, at which the run's clock shows 0; the clock continues across restarts."""
    resume: bool
    """Whether to start from the newest valid checkpoint of the run, which must then exist."""
    goes_on_from: str = ""
    """Folder of the checkpoint from which trainer and simulators continue exactly, as if not interrupted. Empty for a
    trainer that is restarted later in the run."""
    states: str = ""
    """Folder to which simulators write snapshots, which are then moved to a checkpoint; empty: there are none."""
    depends_on: dict[str, Any] = {}
    """Settings that must be unchanged for simulators to continue from their snapshots. They are saved in a checkpoint,
    and compared when the run is resumed."""
    learners: int = 1
    """Number of learners at the start."""
    exchange: Exchange = AloneExchangeSettings()
    """Settings of the exchange with other learners."""
    experience: ExperienceSettings | None = None
    """Settings for learning from other learners' rollouts too; None = the trainer learns from its own only."""
    rate_scaling: str = "none"
    """How the learning rate grows with the number of learners and the size of minibatches: none, sqrt or linear."""
    outer: OuterSettings = OuterSettings()
    """The outer optimizer, which changes the weights after several local steps of all learners."""
    pull_rows: int = 0
    """While a rollout is played, the learner fetches and publishes other learners' changes of the weights each time
    that this many time steps are complete; 0 = never."""

    @property
    def learner(self) -> int:
        """Number of this learner."""
        return self.id.learner

    @property
    def schedule_end(self) -> int:
        """Number of environment steps at which schedules end."""
        return self.schedule_steps or self.total_steps

    def schedule_progress(self, env_steps: int) -> float:
        """Return which share of the run's schedules, from 0 to 1, is over after ``env_steps`` environment steps."""
        return min(env_steps / self.schedule_end, 1.0)

    @property
    def end_steps(self) -> int:
        """Number of environment steps at which the run ends."""
        return min(self.total_steps, self.stop_at_steps or self.total_steps)

    @property
    def checkpoints(self) -> Path:
        """Folder of this learner's checkpoints."""
        return directory_of(Path(self.run_dir) / "checkpoints", self.learner)


class Recording(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of films (MP4) of the best, the median and the worst game of each evaluation."""

    folder: str
    """Folder that gets a subfolder for each evaluation, named by the environment steps of the weights."""
    pictures_per_s: float
    """Number of pictures per second at which a film is played."""


class EvaluatorSettings(ProcessSettings, frozen=True):
    """Settings of the evaluator."""

    env: Env
    policy: PolicySettings
    weights: Shm | ByLearner[Shm]
    """The published weights, or those of each learner if there may be several."""
    every_steps: int | None
    """Number of environment steps between evaluations; None = only the final weights are evaluated."""
    episodes: int
    greedy: bool
    own_weights: bool = True
    """Whether learners have different weights. If not, only the newest weights of any learner are evaluated."""
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
    """The learners' replay settings; the optimizer's settings are scaled to its batch size. None without a replay."""
    rate_scaling: str = "none"
    learners: int
    """Number of learners."""
    servers: int
    """Number of parameter servers."""
    quorum: int = 0
    """Number of gradients whose mean makes a new version of the weights; 0 = each gradient makes one."""
    memory: Shm
    """Address to whose file name the number of a shard is added, to get the address of the shard's segment."""
    host: str
    """Address at which learners on other machines reach this machine."""
    report_every_s: float


class DescribeSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Arguments of the task ``describe``, which makes environment, network and algorithm, and returns their shapes."""

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
    """Arguments of the task ``spaces``, which returns the kind of an environment's actions and observations."""

    env: Env


class LoadSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The content of ``policy.json`` in a run's folder, from which ``acting/loaded.py`` loads the run's policy."""

    env: Env
    policy: PolicySettings
    own_weights: bool = True
    """Whether learners have different weights. If not, the policy is that of any learner with the newest weights."""
    behind_steps: int | None = None
    """A learner with own weights whose newest checkpoint is older than the newest of all by more than this number of
    environment steps has left the run. None = it is not known which learners have left."""


class EvaluateSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Arguments of the task ``evaluate``, which plays games with a checkpoint of a run."""

    env: Env
    policy: PolicySettings
    run_dir: str
    at: str | int = NEWEST
    """The checkpoint: "newest", "best", or the environment steps at which it was saved."""
    behind_steps: int | None = None
    """Largest difference, in environment steps, between a learner's checkpoint and the chosen one; learners with older
    checkpoints are left out. None = the learners have equal weights, and one checkpoint is played."""
    checkpoint: str | None = None
    """Folder of the only checkpoint to play; None = ``at`` and ``behind_steps`` select those to play."""
    episodes: int
    greedy: bool
    fire_after: int = 0
    """Number of equal actions in a row after which FIRE is pressed instead; 0 = never."""
    seed: int
    threads: int = 1
    recording: Recording | None = None
    """Settings of the recording of games; None = games are not recorded."""


class ExportSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Arguments of the task ``export``, which writes a run's policy to files."""

    run_dir: str
    learner: int | None = None
    """Number of the learner whose weights are written; None = the first that has the checkpoint, and has not left."""
    at: str | int = NEWEST
    """The checkpoint: "newest", "best", or the environment steps at which it was saved."""
    folder: str
    """Folder for the files; it must exist."""
    onnx: bool
    """Whether the policy is also written as ONNX."""


class MeasureSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Arguments of the task ``measure``, which measures the speed of one part of a run alone."""

    part: str
    """The part: "simulate", "infer", "learn" or "optimize"."""
    simulator: SimulatorSettings
    trainer: TrainerSettings
    device: str
    """The device of inference."""
    threads: int
    environments: int
    """Number of environments: of a group (simulate), of an inference batch (infer), or of all simulators (learn)."""
    seconds: float
    """Duration of the measurement, after the warm-up."""


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
    """Read settings of type ``kind``; raises OSError, or ValueError that names the file and the invalid field."""
    data = path.read_bytes()
    try:
        return msgspec.json.decode(data, type=kind, dec_hook=decode_settings)
    except (ValueError, RecursionError) as error:
        raise ValueError(
            f"{path}: {error!s:.500}; compare with a file of this name that the supervisor has written"
        ) from None
