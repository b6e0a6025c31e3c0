"""The comparisons ``peers``: other programs, and the work on which their rates are compared with those of actorlearn.

Same game, preprocessing size, environments and horizon on both sides; each case says network and precision. Sample
Factory is asynchronous, so it is compared with PPO at one update of lag.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TypeVar

from actorlearn.algorithms.specs.ppo import PPOSettings
from actorlearn.models.specs import MLPSettings
from benchmarks.papers.fast_dqn import keys
from benchmarks.peers.compare import PeerProgram, PeerWork, compare
from benchmarks.request import BenchmarkRequest, shipped
from launch.bench.report import SuiteReport
from launch.errors import RunError
from launch.machine.cores import allowed_cores
from launch.plan.auto import BF16_PRODUCTS, cpu_flags
from launch.topology.load import Topology, load

T = TypeVar("T")

WHOLE_SCREEN = ("env.preset=dqn", "model.normalize_observation=false", "algorithm.entropy_cost_final=null")
"""Keys with which pong.yaml does the same work as the peers: frames of 84x84, and no normalisation of observations."""
PPO = (
    *WHOLE_SCREEN,
    "algorithm.name=ppo",
    "algorithm.normalize_advantage=true",
    "model.name=nature",
    "algorithm.horizon=128",
)
CLEANRL_SHAPED = (*PPO, "simulators.envs=4", "algorithm.epochs=4", "algorithm.minibatches=4")
FACTORY_SHAPED = (*PPO, "algorithm.epochs=1", "algorithm.minibatches=8", "simulators.blocks=2")
OURS: Mapping[str, tuple[str, ...]] = {
    "ours: A2C, nips, bf16": WHOLE_SCREEN,
    "ours: A2C, nips, fp32": (*WHOLE_SCREEN, "trainer.precision=fp32"),
    "ours: A2C, nature, fp32": (*WHOLE_SCREEN, "trainer.precision=fp32", "model.name=nature"),
    "ours: PPO 8 x 128, nature, fp32, 4 epochs x 4 minibatches": (*CLEANRL_SHAPED, "trainer.precision=fp32"),
    "ours: PPO 8 x 128, nature, auto precision, 4 epochs x 4 minibatches": CLEANRL_SHAPED,
    "ours: PPO 16 x 128, nature, fp32, 1 epoch x 8 minibatches, lag 1": (
        *FACTORY_SHAPED,
        "trainer.precision=fp32",
    ),
    "ours: PPO 16 x 128, nature, auto precision, 1 epoch x 8 minibatches, lag 1": FACTORY_SHAPED,
}


IN_BF16 = ("bf16", "auto precision")
"""Parts of the names of cases that compute in bfloat16, if the processor supports it."""


def where_fast(cases: Mapping[str, T], flags: Collection[str]) -> dict[str, T]:
    """Return the cases; those in bfloat16 are left out on a processor that would emulate it."""
    native = any(flag in flags for flag in BF16_PRODUCTS)
    return {name: case for name, case in cases.items() if native or not any(word in name for word in IN_BF16)}


def on_pong(cores: int) -> dict[str, PeerProgram]:
    """Return the other programs for Pong by name, each with its options for this number of cores."""
    bf16, fp32, nature, ppo, ppo_auto, appo, appo_auto = OURS
    threads = str(cores)

    def loop(against: str, *how: str) -> PeerProgram:
        return PeerProgram("loops", "loop_a2c.py", ("16", "5", *how, threads), against)

    return {
        "Stable-Baselines3 A2C, default (nature, fp32)": PeerProgram(
            "sb3", "sb3_a2c.py", ("16", "5", "default"), nature, bf16
        ),
        "Stable-Baselines3 A2C, nips, fp32": PeerProgram("sb3", "sb3_a2c.py", ("16", "5", "nips"), fp32),
        "one loop, ale-py, nips, fp32": loop(fp32, "ale", "nips", "fp32"),
        "one loop, ale-py, nips, bf16": loop(bf16, "ale", "nips", "bf16"),
        "one loop, EnvPool, nips, fp32": loop(fp32, "envpool", "nips", "fp32"),
        "one loop, EnvPool, nips, bf16": loop(bf16, "envpool", "nips", "bf16"),
        "one loop, EnvPool, nature, fp32": loop(nature, "envpool", "nature", "fp32"),
        "CleanRL PPO + EnvPool, nature, fp32": PeerProgram("cleanrl", "cleanrl_ppo.py", (), ppo, ppo_auto),
        "Sample Factory APPO, nature, fp32, 1 epoch": PeerProgram(
            "sample-factory", "sample_factory_appo.py", ("2", "8", "1"), appo, appo_auto
        ),
    }


CARTPOLES = ("simulators.count=1", "simulators.envs=64", "algorithm.horizon=16")
"""Keys of one simulator: numpy steps 64 poles in one call, and 32 in nearly the same time.

With rollouts one update old, A2C at its default learning rate reached 470 and fell to 9 after 800,000 steps; IMPALA
reached 500.
"""
CHEAP: Mapping[str, tuple[str, ...]] = {
    "ours: A2C, 64 CartPoles in lock-step": CARTPOLES,
    "ours: by IMPALA, a rollout ahead (policy lag 1)": (*CARTPOLES, "simulators.blocks=2", "algorithm.name=impala"),
    "ours: 2 x 32, stepped one after the other": (
        *("simulators.count=2", "simulators.envs=32", "algorithm.horizon=16"),
        "env.vector=none",
    ),
}


def on_cartpole() -> dict[str, PeerProgram]:
    """Return the other programs for CartPole by name; its steps take hardly any time."""
    ours, ahead, _ = CHEAP

    def loop(vector: str) -> PeerProgram:
        return PeerProgram("loops", "loop_cartpole.py", ("64", "16", vector), ours, ahead)

    return {
        "Stable-Baselines3 A2C, 64 environments": PeerProgram(
            "sb3", "sb3_a2c.py", ("64", "16", "cartpole"), ours, ahead
        ),
        "one loop, gymnasium SyncVectorEnv": loop("sync"),
        "one loop, gymnasium CartPoleVectorEnv": loop("own"),
        "one loop, gymnasium AsyncVectorEnv": loop("async"),
    }


DQN_ENVIRONMENTS = 8
VALUES: Mapping[str, tuple[str, ...]] = {
    "ours: Fast DQN, as shipped": keys("both", DQN_ENVIRONMENTS),
    "ours: Fast DQN, fp32": (*keys("both", DQN_ENVIRONMENTS), "trainer.precision=fp32"),
    "ours: DQN, synchronised alone": keys("synchronised", DQN_ENVIRONMENTS),
}


def on_values() -> dict[str, PeerProgram]:
    """Return the other programs for value learning on Pong by name."""
    as_shipped, fp32, _ = VALUES
    return {
        "Stable-Baselines3 DQN, nature, fp32": PeerProgram(
            "sb3", "sb3_dqn.py", (str(DQN_ENVIRONMENTS),), fp32, as_shipped
        )
    }


SAC_SOON = ("algorithm.random_steps=1_000", "replay.learning_starts_steps=1_000")
"""Keys with which learning begins at once, so that the warm-up is short."""
SAC_OURS = "ours: SAC"


def on_continuous_actions(topology: Topology, cores: int) -> dict[str, PeerProgram]:
    """Return the peers' cases on a topology of SAC; raises RunError for one whose work they cannot do."""
    model, replay = topology.model, topology.replay
    batch_size = replay.batch_size if replay and replay.ratio == replay.batch_size else None
    if topology.algorithm.name != "sac" or not isinstance(model, MLPSettings) or batch_size is None:
        raise RunError(
            f"{topology.name}: `peers sac` compares perceptrons, with an optimizer step per environment step; measure "
            "a topology with algorithm.name: sac, model.name: mlp and replay.ratio equal to replay.batch_size, such as "
            "pendulum-sac.yaml"
        )
    shape = (topology.env.id, topology.simulators.environments, batch_size, topology.optimizer.learning_rate)
    return {
        f"Stable-Baselines3 SAC, fp32, torch threads: {threads}": PeerProgram(
            "sb3", "sb3_sac.py", (*map(str, shape), str(threads), *map(str, model.hidden_sizes)), SAC_OURS
        )
        for threads in range(1, min(cores, 2) + 1)
    }


def peers_sac(request: BenchmarkRequest) -> SuiteReport:
    """Stable-Baselines3's SAC beside ours on a topology of SAC: an optimizer step for each environment step."""
    keys = (*SAC_SOON, *request.overrides)
    topology = load(request.topology, keys)
    note = f"{topology.env.id}, {topology.simulators.environments} environments, an optimizer step per environment step"
    work = PeerWork(request.topology, {SAC_OURS: keys}, on_continuous_actions(topology, allowed_cores()), note)
    return compare("peers-sac", work, request)


PPO_OURS = "ours: PPO"


def on_ppo_of_numbers(topology: Topology, cores: int) -> dict[str, PeerProgram]:
    """Return the peers' cases on a topology of PPO with a Box of actions; raises RunError for one they cannot do."""
    algorithm, model = topology.algorithm, topology.model
    if not isinstance(algorithm, PPOSettings) or not isinstance(model, MLPSettings) or model.hidden_sizes != (64, 64):
        raise RunError(
            f"{topology.name}: `peers control` compares PPO with two hidden layers of 64; measure a topology with "
            "algorithm.name: ppo, model.name: mlp and hidden_sizes: [64, 64], such as control/halfcheetah-ppo.yaml"
        )
    shape = (topology.simulators.environments, algorithm.horizon, algorithm.minibatches, algorithm.epochs)
    arguments = (topology.env.id, *map(str, shape), str(topology.optimizer.learning_rate))
    programs = {
        "Stable-Baselines3 PPO": ("sb3", "sb3_control.py"),
        "CleanRL PPO": ("cleanrl_control", "cleanrl_control.py"),
    }
    return {
        f"{program}, torch threads: {threads}": PeerProgram(environment, script, (str(threads), *arguments), PPO_OURS)
        for program, (environment, script) in programs.items()
        for threads in range(1, min(cores, 2) + 1)
    }


def peers_control(request: BenchmarkRequest) -> SuiteReport:
    """Stable-Baselines3's and CleanRL's PPO beside ours on continuous actions: same network, batch and epochs."""
    topology = load(request.topology, request.overrides)
    theirs = on_ppo_of_numbers(topology, allowed_cores())
    algorithm = topology.algorithm
    assert isinstance(algorithm, PPOSettings)
    note = (
        f"{topology.env.id}, {topology.simulators.environments} environments x {algorithm.horizon} steps, "
        f"{algorithm.epochs} epochs of {algorithm.minibatches} minibatches, two hidden layers of 64, fp32"
    )
    return compare(
        "peers-control", PeerWork(request.topology, {PPO_OURS: tuple(request.overrides)}, theirs, note), request
    )


def peers_dqn(request: BenchmarkRequest) -> SuiteReport:
    """Stable-Baselines3's DQN on Pong, beside ours: 8 environments, 32 transitions learned from every 4 steps."""
    note = f"{DQN_ENVIRONMENTS} environments, Nature's network, 8 samples learned from a step, epsilon 0.1"
    return compare("peers-dqn", PeerWork(shipped("atari/fast-dqn.yaml"), VALUES, on_values(), note), request)


def peers_pong(request: BenchmarkRequest) -> SuiteReport:
    """Other programs on the same work on Pong: Stable-Baselines3, Sample Factory, CleanRL, plain loops.

    Cases in bfloat16 are left out on a processor that would emulate it.
    """
    note = "A2C: 16 environments, horizon 5; CleanRL: 8 x 128, Sample Factory: 16 x 128, both with their own settings"
    flags = cpu_flags()
    ours, theirs = where_fast(OURS, flags), where_fast(on_pong(allowed_cores()), flags)
    return compare("peers-pong", PeerWork(shipped("pong.yaml"), ours, theirs, note), request)


def peers_sb3(request: BenchmarkRequest) -> SuiteReport:
    """Stable-Baselines3's A2C on Pong, right before and after ours; the shortest of the comparisons with peers."""
    theirs = {name: peer for name, peer in on_pong(allowed_cores()).items() if peer.environment == "sb3"}
    met = {name for peer in theirs.values() for name in (peer.against, peer.also)}
    ours = where_fast({name: keys for name, keys in OURS.items() if name in met}, cpu_flags())
    return compare("peers-sb3", PeerWork(shipped("pong.yaml"), ours, theirs, "16 environments, horizon 5"), request)


def peers_cartpole(request: BenchmarkRequest) -> SuiteReport:
    """Other programs on CartPole: Stable-Baselines3, plain loops over gymnasium's vector environments."""
    note = "CartPole, 64 environments, horizon 16, two hidden layers of 64 for policy and value each, fp32"
    return compare("peers-cartpole", PeerWork(shipped("cartpole.yaml"), CHEAP, on_cartpole(), note), request)
