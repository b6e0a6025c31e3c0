"""The suite ``peers``: other programs on the same work, each in an environment of its own, interleaved with ours.

Same game (Pong), preprocessing size, environments and horizon on both sides; each case says network and precision.
What "same work" cannot mean is said in the case's own line: Sample Factory is asynchronous, and CleanRL's is PPO.
"""

from __future__ import annotations

import json
import subprocess
import sys
import venv
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from launch.bench.errors import BenchError
from launch.bench.interleaved import interleave
from launch.bench.parts import Parts
from launch.bench.report import Report, rate
from launch.bench.request import Request, shipped
from launch.bench.running import Running
from launch.defaults import allowed_cores

PEERS = Path(".peers")
"""Virtual environments of the peers, made once, below the working directory."""
TORCH = "torch==2.13.0"
PACKAGES: Mapping[str, Sequence[Sequence[str]]] = {
    "sb3": [(TORCH, "stable-baselines3==2.9.0", "ale-py", "gymnasium", "opencv-python-headless")],
    "loops": [(TORCH, "ale-py", "gymnasium", "opencv-python-headless", "envpool==1.2.5")],
    "sample-factory": [(TORCH, "sample-factory[atari]==2.1.1")],
    # CleanRL's package pins a Python and a torch older than ours; its script runs with newer ones.
    "cleanrl": [
        (TORCH, "envpool==1.2.5", "gym==0.23.1", "tensorboard", "setuptools<80"),
        ("--no-deps", "--ignore-requires-python", "cleanrl==1.2.0"),
    ],
}
"""Environment -> arguments of pip, one call after the other."""
WARMUP_S = 5.0
_LIMIT_S = 180.0


@dataclass(frozen=True)
class Peer:
    """Another program."""

    environment: str
    script: str
    arguments: tuple[str, ...]
    against: str
    """Which case of ours does the same work."""


PPO_SHAPED = ("model.name=nature", "algorithm.horizon=128", "model.init=torch")
OURS: Mapping[str, tuple[str, ...]] = {
    "ours: A2C, nips, as shipped": (),
    "ours: A2C, nips, fp32": ("trainer.precision=fp32",),
    "ours: A2C, nature, fp32": ("trainer.precision=fp32", "model.name=nature"),
    "ours: 8 x 128, nature, 4 epochs x 4 minibatches": (
        *(*PPO_SHAPED, "simulators.envs=4", "algorithm.epochs=4", "algorithm.minibatches=4"),
    ),
    "ours: 16 x 128, nature, 1 epoch x 8 minibatches, one update of lag": (
        *(*PPO_SHAPED, "algorithm.minibatches=8", "simulators.blocks=2"),
    ),
}


def others(cores: int) -> dict[str, Peer]:
    """The peers' cases on so many cores."""
    as_shipped, fp32, nature, ppo, appo = OURS
    threads = str(cores)

    def loop(against: str, *how: str) -> Peer:
        return Peer("loops", "loop_a2c.py", ("16", "5", *how, threads), against)

    return {
        "Stable-Baselines3 A2C, default (nature, fp32)": Peer("sb3", "sb3_a2c.py", ("16", "5", "default"), as_shipped),
        "Stable-Baselines3 A2C, nips, fp32": Peer("sb3", "sb3_a2c.py", ("16", "5", "nips"), fp32),
        "one loop, ale-py, nips, fp32": loop(fp32, "ale", "nips", "fp32"),
        "one loop, ale-py, nips, bf16": loop(as_shipped, "ale", "nips", "bf16"),
        "one loop, EnvPool, nips, fp32": loop(fp32, "envpool", "nips", "fp32"),
        "one loop, EnvPool, nips, bf16": loop(as_shipped, "envpool", "nips", "bf16"),
        "one loop, EnvPool, nature, fp32": loop(nature, "envpool", "nature", "fp32"),
        "CleanRL PPO + EnvPool, nature, fp32": Peer("cleanrl", "cleanrl_ppo.py", (), ppo),
        "Sample Factory APPO, nature, fp32, 1 epoch": Peer(
            "sample-factory", "sample_factory_appo.py", ("2", "8", "1"), appo
        ),
    }


def peers(request: Request) -> Report:
    """Other programs on the same work: Stable-Baselines3, Sample Factory, plain loops on ale-py and EnvPool."""
    theirs = others(allowed_cores())
    pythons = {name: environment(name) for name in sorted({p.environment for p in theirs.values()})}
    topology = shipped("pong.yaml")
    with Parts(topology) as parts:
        cases: dict[str, Callable[[], float]] = {"pure simulation": partial(parts.simulate, request.seconds)}
        for name, keys in OURS.items():
            cases[name] = partial(_ours, topology, keys, request.seconds)
        for name, peer in theirs.items():
            cases[name] = partial(_theirs, pythons[peer.environment], peer, request.seconds)
        spread = interleave(cases, request.repetitions)
    rows = []
    for name, measured in spread.items():
        known = theirs.get(name)
        ratio = f"{spread[known.against].median / measured.median:.2f}x of {known.against}" if known else ""
        rows.append((name, rate(measured), f"{measured.median / spread['pure simulation'].median:.2f}", ratio))
    return Report(
        suite="peers",
        headings=("program", "steps/s", "of pure simulation", "ours, on the same work"),
        rows=rows,
        bars=spread,
        unit="steps/s",
        notes=("Pong; A2C: 16 environments, horizon 5; CleanRL and Sample Factory: their own defaults",),
    )


def environment(name: str) -> Path:
    """Python of a peer's virtual environment, made on first use and when its packages change."""
    folder = PEERS.absolute() / name
    python = folder / "bin" / "python"
    ready = folder / "ready"
    wanted = "\n".join(" ".join(arguments) for arguments in PACKAGES[name]) + "\n"
    if not ready.exists() or ready.read_text() != wanted:
        print(f"making {folder}", file=sys.stderr)
        venv.create(folder, with_pip=True, clear=True)
        for arguments in PACKAGES[name]:
            done = subprocess.run([python, "-m", "pip", "install", "-q", *arguments], check=False)
            if done.returncode:
                raise BenchError(f"{folder}: pip install {' '.join(arguments)} failed; see above, then try again")
        ready.write_text(wanted)
    return python


def _ours(topology: str, overrides: Sequence[str], seconds: float) -> float:
    with Running(topology, overrides) as run:
        return run.read(seconds, WARMUP_S).steps_per_s


def _theirs(python: Path, peer: Peer, seconds: float) -> float:
    """A peer's rate over this many seconds after its own warm-up."""
    script = Path(__file__).parent / "peer_scripts" / peer.script
    command = [str(python), str(script), str(seconds), *peer.arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=seconds + _LIMIT_S)
    except subprocess.TimeoutExpired:
        raise BenchError(f"{peer.script} took more than {seconds + _LIMIT_S:.0f} s") from None
    if done.returncode:
        raise BenchError(f"{peer.script}: {(done.stderr.strip().splitlines() or ['no output'])[-1]}")
    return float(json.loads(done.stdout.strip().splitlines()[-1])["steps_per_s"])
