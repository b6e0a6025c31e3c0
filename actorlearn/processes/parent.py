"""Constants that a process of a run shares with the guardian, which starts it."""

from __future__ import annotations

import signal
import sys

PROCESS_COMMAND = (sys.executable, "-m", "actorlearn.processes")
"""Command that starts a process; its further arguments are a role or task, and the path of the settings file."""
FORK_SERVER = "fork_server"
"""Argument with which that command starts a fork server; its further arguments are ``ROOM`` and the descriptor of a
socket."""
ROOM, ROOM_VARIABLE = " " * 2048, "ACTORLEARN_ROOM"
"""A long argument, and the name of a long environment variable, of the fork server. They reserve memory: each fork
overwrites it with its own command line and environment, so that the kernel shows these in /proc."""
STACK_SIGNAL = signal.SIGUSR1
"""Signal at which a process writes the stacks of its threads to its log. A process that has given no sign of life yet
may not handle the signal, which would then kill it."""
ANSWER_MARK = "ACTORLEARN_ANSWER_MARK"
"""Environment variable whose value begins the line with a task's answer. It tells the answer from other lines that
users' code prints."""
