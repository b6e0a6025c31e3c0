"""A Slurm cluster whose four machines are all this one: munged, slurmctld and four slurmd, with one folder."""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

from tests.waiting import free_port

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "scancel", "squeue", "srun")
PATH = f"{os.environ['PATH']}:/usr/sbin:/sbin"
MACHINES = ("n1", "n2", "n3", "n4")


def missing() -> list[str]:
    """Programs that are not installed, and rights that are lacking."""
    lacking = [program for program in PROGRAMS if shutil.which(program, path=PATH) is None]
    return lacking or ([] if os.geteuid() == 0 else ["root's rights"])


class Slurm:
    """The cluster; ``environment`` leads its commands to it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = {**os.environ, "SLURM_CONF": str(folder / "slurm.conf"), "PATH": PATH}
        self.daemons: dict[str, subprocess.Popen[bytes]] = {}

    def call(self, *words: str) -> str:
        """Call a command of the cluster; returns what it says."""
        called = subprocess.run(
            words, env=self.environment, capture_output=True, text=True, timeout=60, check=False, cwd=self.folder
        )
        return called.stdout + called.stderr

    def start(self, name: str, *words: str) -> None:
        """Start a daemon in the foreground."""
        with (self.folder / f"{name}.out").open("ab") as out:
            self.daemons[name] = subprocess.Popen(
                words, env=self.environment, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True
            )

    def die(self, machine: str) -> None:
        """Kill a machine's slurmd, and all that runs there."""
        self.daemons[machine].kill()
        self.daemons[machine].wait()
        marks = (f"SLURMD_NODENAME={machine}\0".encode(), f"SLURM_CONF={self.folder}".encode())
        for process in psutil.process_iter():
            with suppress(OSError, psutil.Error, ProcessLookupError):
                environment = Path(f"/proc/{process.pid}/environ").read_bytes()
                if all(mark in environment for mark in marks):
                    for each in (process.parent(), process):
                        if each is not None and each.pid != 1:
                            each.kill()

    def jobs(self) -> str:
        """The queue."""
        return self.call("squeue", "-h", "-r")


@contextmanager
def slurm() -> Iterator[Slurm]:
    """A cluster whose four machines are up."""
    folder = Path(f"/tmp/slurm-{secrets.token_hex(4)}")  # short: a socket's path may have 107 bytes
    folder.mkdir(mode=0o755)
    cluster = Slurm(folder)
    try:
        (folder / "munge.key").write_bytes(secrets.token_bytes(128))
        (folder / "munge.key").chmod(0o600)
        (folder / "slurm.conf").write_text(_config(folder))
        words = [f"--{word}={folder / file}" for word, file in _MUNGE.items()]
        cluster.start("munged", "munged", "-F", "--force", *words)
        _wait(lambda: (folder / "munge.socket").exists(), "munged")
        cluster.start("slurmctld", "slurmctld", "-D")
        for machine in MACHINES:
            cluster.start(machine, "slurmd", "-D", "-N", machine)
        _wait(lambda: cluster.call("sinfo", "-h", "-t", "idle", "-o", "%D").strip() == "4", "four machines", cluster)
        yield cluster
    finally:
        cluster.call("scancel", "--full", "-u", "root")
        for daemon in reversed(cluster.daemons.values()):
            daemon.terminate()
        for daemon in cluster.daemons.values():
            try:
                daemon.wait(20)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
        shutil.rmtree(folder)


_MUNGE = {
    "key-file": "munge.key",
    "socket": "munge.socket",
    "pid-file": "munge.pid",
    "log-file": "munge.log",
    "seed-file": "munge.seed",
}


def _config(folder: Path) -> str:
    host = socket.gethostname().partition(".")[0]
    ports = [free_port() for _ in range(1 + len(MACHINES))]
    lines = [
        "ClusterName=four",
        f"SlurmctldHost={host}(127.0.0.1)",
        f"SlurmctldPort={ports[0]}",
        "SlurmUser=root",
        "AuthType=auth/munge",
        f"AuthInfo=socket={folder / 'munge.socket'},cred_expire=5",  # a requeued job waits for as long
        "CryptoType=crypto/munge",
        f"StateSaveLocation={folder / 'state'}",
        f"SlurmdSpoolDir={folder}/spool-%n",
        f"SlurmctldPidFile={folder}/slurmctld.pid",
        f"SlurmdPidFile={folder}/slurmd-%n.pid",
        "ProctrackType=proctrack/linuxproc",
        "TaskPlugin=task/none",
        "MpiDefault=none",
        "SelectType=select/cons_tres",
        "SelectTypeParameters=CR_Core",
        "SlurmdParameters=config_overrides",
        "ReturnToService=2",
        "SlurmdTimeout=10",
        "KillWait=10",
        "MinJobAge=300",
        "JobRequeue=1",
        "AccountingStorageType=accounting_storage/none",
        "JobAcctGatherType=jobacct_gather/none",
        *(
            f"NodeName={machine} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=2 RealMemory=2000"
            for machine, port in zip(MACHINES, ports[1:], strict=True)
        ),
        "PartitionName=all Nodes=n[1-4] Default=YES MaxTime=INFINITE State=UP",
    ]
    (folder / "state").mkdir()
    return "\n".join(lines) + "\n"


def _wait(true: Callable[[], bool], what: str, cluster: Slurm | None = None) -> None:
    deadline_s = time.monotonic() + 60
    while not true():
        if time.monotonic() > deadline_s:
            said = "" if cluster is None else cluster.call("sinfo", "-N", "-l")
            logs = "\n".join(path.read_text()[-800:] for path in cluster.folder.glob("*.out")) if cluster else ""
            raise TimeoutError(f"{what} did not come up: {said}\n{logs}")
        time.sleep(0.1)
