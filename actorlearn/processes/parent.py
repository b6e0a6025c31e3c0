"""Constants that a process shares with the program that starts it. Imports nothing else of actorlearn."""

from __future__ import annotations

import signal
import sys

PROCESS_COMMAND = (sys.executable, "-m", "actorlearn.processes")
"""Command that starts a process; a role or task and the path of its settings follow."""
FORK_SERVER = "fork_server"
"""Argument with which that command starts a fork server instead; ``ROOM`` and the descriptor of a socket follow."""
ROOM, ROOM_VARIABLE = " " * 2048, "ACTORLEARN_ROOM"
"""An argument and an environment variable of the fork server. A fork writes its own arguments and variables in their
place, where the kernel finds the command line and the environment of a process.
"""
STACK_SIGNAL = signal.SIGUSR1
"""Signal at which a process writes the stacks of its threads to its log. Before the first sign of life it would kill
the process.
"""
ANSWER_MARK = "ACTORLEARN_ANSWER_MARK"
"""Environment variable with the beginning of the line on which a task answers; users' code may print JSON too."""
