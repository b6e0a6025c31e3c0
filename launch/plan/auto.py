"""Chooses a value for each ``auto`` of a topology, by the machine, and gives the reason.

The reasons refer to measurements. Defaults that follow the number of cores get a reason too. ``actorlearn check`` and
``top`` show the reasons. The topology in the run folder has the chosen values, so that a run can be repeated on another
machine.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from actorlearn.algorithms.settings import ALGORITHMS, EpsilonSchedule, OffPolicySettings, OnPolicySettings
from actorlearn.envs.specs import ENVIRONMENTS
from actorlearn.models.specs import MODELS
from launch.machine.cores import Cores
from launch.topology.defaults import BY_CORES
from launch.topology.load import Topology, sizes
from launch.topology.validate import join_words

AUTO = "auto"
BF16_PRODUCTS = ("amx_bf16", "avx512_bf16")
"""Instruction sets of x86-64 that multiply bfloat16, by their names in /proc/cpuinfo."""
IN_PROPORTION = "only learning_rate was overridden, and this key keeps its proportion to it"
NOT_COMPILED = "on a CPU, compiling takes a minute and does not make convolutions faster"
UNMEASURED = "compiling was not measured on this device; write trainer.compile: true to try it"
LARGE_BATCH = 64
"""Fewest rows of a pass with which bfloat16 is faster than float32.

With fewer rows, converting the weights to bfloat16 takes as much time as the pass saves.
"""


@dataclass(frozen=True)
class Choice:
    """The value that a plan has for a key, with the reason."""

    key: str
    value: Any
    """None: the key was left out of the topology."""
    why: str

    def __str__(self) -> str:
        """Return the choice as text: trainer.threads: 2, because …."""
        return f"{self.key}: {'left out' if self.value is None else json.dumps(self.value)}, because {self.why}"


def cpu_flags() -> frozenset[str]:
    """Return the instruction sets of this processor, by their names in /proc/cpuinfo; empty without that file."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return frozenset()
    return frozenset(next((line.partition(":")[2].split() for line in lines if line.startswith("flags")), ()))


def choose(topology: Topology, flags: Collection[str], cores: Cores) -> tuple[Topology, list[Choice]]:
    """Return the topology with a value for each ``auto``, and the choices; ``flags``: instruction sets of the CPU."""
    trainer, inference = topology.trainer, topology.inference
    learned = rows_learned(topology)
    acts_on = inference.device if inference.count else "cpu"  # simulators that run the policy themselves use the CPU
    chosen: list[Choice] = []
    precision: str = trainer.precision
    if precision == AUTO:
        precision, why = _precision(topology, trainer.device, learned, flags)
        chosen.append(Choice("trainer.precision", precision, why))
    if inference.precision == AUTO:
        chosen.append(Choice("inference.precision", *_acting(topology, acts_on, precision, flags)))
    if trainer.layout == AUTO:
        chosen.append(Choice("trainer.layout", *_layout(topology, trainer.device, precision, learned, flags)))
    if trainer.compile == AUTO:
        chosen.append(Choice("trainer.compile", False, NOT_COMPILED if trainer.device == "cpu" else UNMEASURED))
    left_out = [Choice(key, None, why) for key, why in topology.left_out.items()]
    left_out += [Choice(key, value, IN_PROPORTION) for key, value in topology.in_proportion.items()]
    return with_values(topology, chosen), [*left_out, *_by_cores(topology, cores), *chosen]


def rows_learned(topology: Topology) -> int:
    """Return the number of observations in one forward pass of the trainer's network.

    A single transition of a replay counts as two, because the network also sees the next observation.
    """
    replay, algorithm = topology.replay, topology.algorithm
    if replay and isinstance(algorithm, OffPolicySettings):
        return replay.batch_size * (replay.sequence_steps + algorithm.n_step if replay.sequence_rows > 1 else 2)
    parts = algorithm.minibatches if isinstance(algorithm, OnPolicySettings) else 1
    return (algorithm.horizon + 1) * topology.simulators.environments // parts


def rows_answered(topology: Topology) -> int:
    """Return the largest number of observations in one forward pass of the network that acts.

    This network runs in an inference server, or in each simulator if there are no servers.
    """
    simulators, inference = topology.simulators, topology.inference
    members = -(-simulators.count // inference.count) if inference.count else 1
    return inference.batch_rows or members * simulators.envs // simulators.groups


def crowding(topology: Topology, cores: float) -> str:
    """Return a warning if the learners together have more threads than there are cores; else empty.

    When torch divided each operation, two learners with two threads each on two cores learned 200 to 320 steps/s
    together, and with one thread each 2,200. Threads now divide whole passes and wait for one another less often. This
    was not measured again, so the warning only says what may happen.
    """
    learners, threads = topology.learners_of_a_node, topology.trainer.threads
    if topology.trainer.device != "cpu" or 1 in (learners, threads) or learners * threads <= cores:
        return ""
    return (
        f"trainer.threads: {threads}: {learners} learners with {threads} threads each have more threads than the "
        f"{cores:g} cores, and may wait for one another; if learning is slow, write "
        f"{max(1, int(cores) // learners)}, or leave the key out"
    )


def emulated(topology: Topology, flags: Collection[str]) -> str:
    """Return a warning if bf16 is set on a processor that only emulates it; else empty.

    Measured on one core of such an AMD EPYC with the NIPS network: an observation took 4.6 ms to learn from in bf16
    and 0.9 ms in fp32, and 2.3 and 0.16 ms to act on.
    """
    trainer, inference = topology.trainer, topology.inference
    on = {"trainer": trainer.device, "inference": inference.device if inference.count else "cpu"}
    asked = {"trainer": trainer.precision, "inference": inference.precision}
    slow = [f"{name}.precision" for name, device in on.items() if (asked[name], device) == ("bf16", "cpu")]
    if not slow or any(flag in flags for flag in BF16_PRODUCTS):
        return ""
    return (
        f"{join_words(slow)}: bf16 is emulated on this processor, which has none of {join_words(BF16_PRODUCTS)}, and "
        "was measured 5 to 15 times slower than fp32; write auto, or leave the key out"
    )


def misfits(topology: Topology, flags: Collection[str], cores: float) -> list[str]:
    """Return warnings about settings that do not suit a machine, each with a remedy."""
    return [warning for warning in (crowding(topology, cores), emulated(topology, flags)) if warning]


def never_reached(topology: Topology) -> Iterator[str]:
    """Yield a warning for each event that ``total_steps`` is too small for, with a remedy.

    Events are the second update, the start of learning from a replay, and the end of exploration. A run may start
    in spite of the warnings, because a short trial shows whether its processes work.
    """
    total_steps, exploration = topology.total_steps, getattr(topology.algorithm, "exploration", None)
    batch = sizes(topology)["batch_steps"]
    if topology.replay is None and total_steps < batch:
        yield (
            f"total_steps: {total_steps:,}: is less than a batch, so the run makes one update with about {batch:,} "
            "steps and ends; raise total_steps, or lower algorithm.horizon or simulators.envs"
        )
    if topology.replay is not None:
        each, learners = topology.replay.learning_starts_steps, topology.learners.count
        if each * learners >= total_steps:
            of_all = f" ({each * learners:,} for {learners} learners)" if learners > 1 else ""
            yield (
                f"replay.learning_starts_steps: {each:,}{of_all}: learning starts only after these steps, and the run "
                f"ends at total_steps: {total_steps:,}, so nothing is learned; lower replay.learning_starts_steps, or "
                "raise total_steps"
            )
    if isinstance(exploration, EpsilonSchedule) and exploration.initial != exploration.final:
        held = f"algorithm.epsilon_hold_steps: {exploration.hold_steps:,} and " if exploration.hold_steps else ""
        if exploration.hold_steps + exploration.steps > total_steps:
            yield (
                f"{held}algorithm.epsilon_steps: {exploration.steps:,}: the share of random actions reaches "
                f"algorithm.epsilon_final only after the end of the run at total_steps: {total_steps:,}; lower "
                "algorithm.epsilon_steps, or raise total_steps"
            )


def _by_cores(topology: Topology, cores: Cores) -> list[Choice]:
    """Return the defaults that follow the cores (``launch/topology/defaults.py`` computes them), with reasons."""
    kind, learners = ENVIRONMENTS.of(topology.env.id), topology.learners_of_a_node
    on = f"{cores}, shared by {learners} learners" if learners > 1 else str(cores)
    on += " (of the head's machine; all nodes are assumed to have as many)" if topology.nodes.several else ""
    part = " (a fraction of a core counts as one)" if cores.rationed else ""
    whys = {
        "simulators.count": "there is one simulator for each core, rounded down to a power of two and at most "
        f"{kind.most_simulators} {_for_kind(kind.like)}; the machine has {on}{part}",
        "trainer.threads": "the trainer has one thread for each whole core, which it uses while the simulators wait, "
        f"at most {kind.most_trainer_threads} {_for_kind(kind.like)}; the machine has {on}"
        if kind.most_trainer_threads > 1
        else "the network is small, and several threads would not make it faster",
    }
    return [Choice(key, attrgetter(key)(topology), whys[key]) for key in BY_CORES if key not in topology.written]


def _for_kind(like: str) -> str:
    """Return a phrase with the kind of environments for which the maximum number of simulators holds."""
    return "for Atari games" if like == "atari" else "for environments with cheap steps, also on a larger machine"


def _precision(topology: Topology, device: str, rows: int, flags: Collection[str]) -> tuple[str, str]:
    """Return the fastest precision for a forward pass over ``rows`` observations on a device, and the reason."""
    if not MODELS.spec(topology.model.name).convolutional:
        large = [spec.name for spec in MODELS.specs() if spec.convolutional]
        return (
            "fp32",
            f"auto chooses bf16 only for the models {join_words(large)}, and model.name is {topology.model.name}",
        )
    if device != "cpu":
        return "bf16", "tensor cores multiply bfloat16 several times faster than float32"
    native = [flag for flag in BF16_PRODUCTS if flag in flags]
    if not native:
        return "fp32", f"this processor has no instructions for bfloat16 ({' or '.join(BF16_PRODUCTS)})"
    if rows < LARGE_BATCH:
        return "fp32", f"a pass has {rows} rows, and bf16 is no faster than fp32 below {LARGE_BATCH} rows"
    return "bf16", (
        f"this processor has {native[0]}, a pass has {rows} rows, and bf16 was measured faster than fp32 from "
        f"{LARGE_BATCH} rows; weights and updates stay float32"
    )


def _acting(topology: Topology, device: str, learning: str, flags: Collection[str]) -> tuple[str, str]:
    """Return the precision for acting, and the reason; ``learning``: the trainer's precision.

    Both precisions are equal if the algorithm uses probability ratios and both devices are of one kind. With different
    precisions the ratios of unchanged weights, which should be 1, are wrong by 0.001 to 0.004 on average and by 0.01 to
    0.15 at most; with both in bf16, by less than 1e-5. The pass takes about as long in either precision: 1.2 and 1.0 ms
    for 16 rows.
    """
    name = topology.algorithm.name
    if ALGORITHMS.spec(name).by_ratio and device.partition(":")[0] == topology.trainer.device.partition(":")[0]:
        return (
            learning,
            f"it must equal the precision of the trainer: {name} compares the probabilities of acting and learning",
        )
    return _precision(topology, device, rows_answered(topology), flags)


def _layout(topology: Topology, device: str, precision: str, rows: int, flags: Collection[str]) -> tuple[str, str]:
    """Return the fastest memory layout of the first convolution for the trainer's passes, and the reason."""
    model = MODELS.spec(topology.model.name)
    if not model.convolutional or device != "cpu":
        return "plain", "space-to-depth makes only convolutional networks on a CPU faster"
    if not model.strided:
        return (
            "plain",
            f"space-to-depth needs a stride of at least 2, and the first convolution of {model.name} has stride 1",
        )
    if rows <= LARGE_BATCH:
        return "plain", f"a pass has {rows} rows, and space-to-depth is no faster up to {LARGE_BATCH} rows"
    if precision == "bf16" and "amx_bf16" in flags:
        return "space-to-depth", (
            "in bf16 with amx_bf16, space-to-depth was measured 2.2 times as fast as plain, with batches of 160 rows"
        )
    if precision == "fp32" and "avx2" in flags and "avx512f" not in flags:
        return (
            "space-to-depth",
            "in fp32 with avx2 but without avx512f, space-to-depth was measured 1.2 times as fast as "
            "plain, with batches of 192 rows",
        )
    if precision == "fp32":
        return "plain", "in fp32, space-to-depth was measured faster only on processors with avx2 and without avx512f"
    return "plain", (
        "in bf16 with avx512_bf16 but without amx_bf16, plain was measured 1.3 times as fast as space-to-depth"
    )


def with_values(topology: Topology, choices: Iterable[Choice]) -> Topology:
    """Return the topology with the chosen values; it still lists the same keys as set by the user."""
    sections: dict[str, dict[str, Any]] = {}
    for choice in choices:
        section, _, name = choice.key.partition(".")
        sections.setdefault(section, {})[name] = choice.value
    changed = {name: replace(getattr(topology, name), **values) for name, values in sections.items()}
    made = replace(topology, **changed)
    made.__dict__.update(topology.__dict__)
    return made
