"""A real sshd with its own keys, on this machine or in several network namespaces of it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.system.environments import PACED_VARIABLE
from tests.waiting import free_port, within

SSHD = Path("/usr/sbin/sshd")
HERE: Mapping[str, Sequence[str]] = {"127.0.0.1": ()}

needs_sshd = pytest.mark.skipif(not SSHD.exists(), reason="there is no sshd: apt-get install openssh-server")


def command_there(environment: Mapping[str, str]) -> list[str]:
    """Return the words that start actorlearn at the other end of ssh, which brings no variables along."""
    names = ("PYTHONPATH", "XDG_RUNTIME_DIR", "TMPDIR", PACED_VARIABLE)
    return ["env", *(f"{name}={environment[name]}" for name in names), sys.executable, "-m", "actorlearn"]


@contextmanager
def sshd(folder: Path, machines: Mapping[str, Sequence[str]] = HERE) -> Iterator[list[str]]:
    """Start an sshd on each machine; yield the options of ssh that reach them.

    ``machines``: address -> words before a command on that machine. Each sshd logs to ``sshd-ADDRESS.log``.
    """
    for name in ("host", "user"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name], check=True)
    shutil.copy(folder / "user.pub", folder / "authorized_keys")
    port, key = free_port(), (folder / "host.pub").read_text()
    (folder / "known_hosts").write_text("".join(f"[{address}]:{port} {key}" for address in machines))
    lines = [
        f"Port {port}",
        f"HostKey {folder / 'host'}",
        f"AuthorizedKeysFile {folder / 'authorized_keys'}",
        "PidFile none",
        "PasswordAuthentication no",
        "StrictModes no",
        "UsePAM no",
        "MaxStartups 100",
    ]
    (folder / "sshd_config").write_text("\n".join(lines) + "\n")
    Path("/run/sshd").mkdir(exist_ok=True)
    with ExitStack() as stack:
        for address, by in machines.items():
            log = stack.enter_context((folder / f"sshd-{address}.log").open("w"))
            words = [*by, SSHD, "-D", "-e", "-f", folder / "sshd_config", "-o", f"ListenAddress={address}"]
            served = subprocess.Popen(words, stderr=log)
            stack.callback(served.wait, 20)
            stack.callback(served.terminate)
        for address in machines:
            said = folder / f"sshd-{address}.log"
            assert within(20, lambda said=said: "listening" in said.read_text())
        known = f"UserKnownHostsFile={folder / 'known_hosts'}"
        yield ["-F", "none", "-p", str(port), "-i", str(folder / "user"), "-o", known]
