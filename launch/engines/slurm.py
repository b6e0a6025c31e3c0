"""The engine ``slurm``: nodes are elements of a job array or, if the head is in an allocation, steps on its machines.

Outside an allocation it writes a script to ``nodes/slurm.sh`` in the run's folder and submits it with ``sbatch``. Each
element of the array is a node on a separate machine. If it dies, the other elements continue, and Slurm starts it again
on another machine. Run folder and keys must be on a file system that the nodes share. Inside an allocation, nodes are
started by ``srun`` and need no shared file system.

The head finds out whether nodes are alive. Slurm is only asked from time to time whether nodes may still join.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from launch.engines.shells import FOLDER, ShellEngine, shell
from launch.engines.specs import Engine, EngineSpec, NodeCommand
from launch.errors import RunError
from launch.topology.schema import NodesSection

SLURM = EngineSpec(name="slurm", made_by="launch.engines.slurm:open_slurm")
ASK_EVERY_S = 15.0
"""Seconds between two questions to Slurm about its queue."""
_ANSWER_S = 60.0
"""Longest wait for the answer of one of Slurm's commands, in seconds."""
LEAVE_S = 5.0
"""Longest wait for nodes to end because the run has ended, in seconds; the job is cancelled afterwards."""
_UNKNOWN = "Invalid job id"
"""Part of Slurm's message for a job that it has forgotten."""


def open_slurm(run_dir: Path, nodes: NodesSection) -> Engine:
    """Return the engine: `SlurmSteps` in a Slurm allocation, else `SlurmJobs`.

    Raises RunError if Slurm's commands are missing, or for keys of ``nodes`` that it cannot use.
    """
    inside = "SLURM_JOB_ID" in os.environ
    wanted = ("srun",) if inside else ("sbatch", "squeue", "scancel")
    if missing := [command for command in wanted if shutil.which(command) is None]:
        raise RunError(
            f"--engine slurm: the command {missing[0]} is not installed; use a machine that has Slurm's commands"
        )
    if odd := [option for option in nodes.options if not re.fullmatch(r"--[a-z][^\n]*", option)]:
        raise RunError(
            f"nodes.options: {odd[0]!a:.100} is not an option of Slurm; write each option as "
            "--name=value, such as --partition=gpu"
        )
    if not inside and nodes.hosts:
        raise RunError(
            f"nodes.hosts: {nodes.hosts[0]!a:.100}: outside an allocation, Slurm chooses the machines; remove "
            "nodes.hosts, or set nodes.options=[--nodelist=…]"
        )
    if not inside:
        return SlurmJobs(run_dir, nodes)
    if nodes.hosts and len(nodes.hosts) != nodes.count:
        raise RunError(
            f"nodes.hosts: {len(nodes.hosts)} machines for nodes.count = {nodes.count}; name one for each node, "
            "or none to use the first machines of the allocation"
        )
    machines = int(os.environ.get("SLURM_JOB_NUM_NODES", "1"))
    if machines < nodes.count:
        raise RunError(
            f"nodes.count: {nodes.count}; each node needs its own machine, and this allocation has {machines}; "
            f"allocate more, such as salloc --nodes={nodes.count}"
        )
    return SlurmSteps(run_dir, nodes)


class SlurmSteps(ShellEngine):
    """Starts nodes in the Slurm allocation of this process, on ``nodes.hosts``; by default on the first machines."""

    def command(self, number: int, node: NodeCommand) -> list[str]:
        """Return the command that starts a node's shell as a step on its machine."""
        hosts = self.nodes.hosts
        where = f"--nodelist={hosts[number]}" if hosts else f"--relative={number}"
        place = ["--nodes=1", "--ntasks=1", where, "--overlap", "--cpu-bind=none"]
        own = ["--no-kill", "--kill-on-bad-exit=0", f"--job-name={node.name}"]
        return ["srun", *place, *own, *self.nodes.options, *shell(node)]


class SlurmJobs:
    """Starts nodes as the elements of a job array."""

    def __init__(self, run_dir: Path, nodes: NodesSection) -> None:
        self._run_dir, self._options = run_dir, nodes.options
        self._file = run_dir / FOLDER / "slurm.job"
        """File with the id of the job until it is cancelled, for the next life of the run if this one is killed."""
        self._job = ""
        """Id of the job; empty before it is submitted."""
        self._waited_for: dict[str, str] = {}
        """Index in the array -> name, for nodes that may still join."""
        self._question: subprocess.Popen[str] | None = None
        """The squeue command that is running; None if none is."""
        self._asked_s = time.monotonic()

    def start(self, nodes: Sequence[NodeCommand]) -> None:
        """Cancel the job that an earlier start of this run may have left, then submit the new one.

        Raises OSError, and RunError if Slurm refuses.
        """
        self._file.parent.mkdir(parents=True, exist_ok=True)
        if self._file.exists():
            self._cancel(self._file.read_text())
        script = self._file.with_name("slurm.sh")
        script.write_text(write_script(self._run_dir, nodes, self._options))
        submitted = _call("sbatch", "--parsable", str(script))
        if submitted.returncode:
            said = " ".join(submitted.stderr.split())
            raise RunError(f"{said} ({FOLDER}/{script.name}; nodes.options adds options to this script)")
        self._job = submitted.stdout.strip().partition(";")[0]
        self._waited_for = {str(number): node.name for number, node in enumerate(nodes)}
        self._file.write_text(self._job)

    def gone(self) -> Mapping[str, str]:
        """Return name -> reason for nodes that have left Slurm's queue, each once.

        Does not wait: asks Slurm every ASK_EVERY_S, and returns its answer at a later call.
        """
        if self._question is None:
            if self._waited_for and time.monotonic() - self._asked_s >= ASK_EVERY_S:
                self._asked_s = time.monotonic()
                pipe = subprocess.PIPE
                self._question = subprocess.Popen(self._squeue(), stdout=pipe, stderr=pipe, text=True)
            return {}
        if self._question.poll() is None and time.monotonic() - self._asked_s < _ANSWER_S:
            return {}
        question, self._question = self._question, None
        question.kill()
        queued, said = question.communicate()
        if question.returncode and _UNKNOWN not in said:
            return {}  # Slurm's controller does not answer: that says nothing about nodes
        ended = self._waited_for.keys() - set(queued.split())
        why = f"its task of the array job {self._job} is no longer in Slurm's queue ({FOLDER}/slurm-INDEX.log)"
        return {self._waited_for.pop(index): why.replace("INDEX", index) for index in sorted(ended)}

    def close(self) -> None:
        """Wait until the nodes have ended; after LEAVE_S, cancel the job."""
        if self._question is not None:
            self._question.kill()
            self._question.communicate()
        if not self._waited_for:
            return
        deadline_s = time.monotonic() + LEAVE_S
        while time.monotonic() < deadline_s and _call(*self._squeue()).stdout.strip():
            time.sleep(0.5)
        self._cancel(self._job)

    def _squeue(self) -> list[str]:
        return ["squeue", "--noheader", "--array", f"--jobs={self._job}", "--format=%K"]

    def _cancel(self, job: str) -> None:
        """Cancel a job; raises RunError if it may still exist."""
        cancelled = _call("scancel", job)
        if cancelled.returncode and _UNKNOWN not in cancelled.stderr:
            said = " ".join(cancelled.stderr.split())
            raise RunError(f"job {job} could not be cancelled: {said}; cancel it with: scancel {job}")
        self._file.unlink(missing_ok=True)


def write_script(run_dir: Path, nodes: Sequence[NodeCommand], options: Sequence[str]) -> str:
    """Return the script of a job array with one element per node."""
    name = re.sub(r"[^A-Za-z0-9._-]", "-", run_dir.name)
    log = str(run_dir / FOLDER / "slurm-").replace("%", "%%") + "%a.log"
    keys = nodes[0].key.absolute().parent
    lines = [
        "#!/bin/sh",
        f"# The nodes of the run {name}, one for each element of the array.",
        f"#SBATCH --job-name=actorlearn-{name}",
        f"#SBATCH --array=0-{len(nodes) - 1}",
        "#SBATCH --nodes=1",
        "#SBATCH --ntasks=1",
        "#SBATCH --exclusive",
        "#SBATCH --requeue",
        "#SBATCH --open-mode=append",
        f'#SBATCH --output="{log}"',
        *(f"#SBATCH {option}" for option in options),
        "",
        f"set -- {' '.join(node.name for node in nodes)}",
        'shift "$SLURM_ARRAY_TASK_ID"',
        f'exec {shlex.join(nodes[0].words)} --key {shlex.quote(str(keys))}/"$1.key"',
    ]
    return "\n".join(lines) + "\n"


def _call(*words: str) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(words, capture_output=True, text=True, timeout=_ANSWER_S, check=False)
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(words, 1, "", f"{words[0]} did not answer within {_ANSWER_S:g} s")
