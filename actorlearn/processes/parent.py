"""Constants that a process shares with the program that starts it. Imports nothing else of actorlearn."""

from __future__ import annotations

import signal

STACK_SIGNAL = signal.SIGUSR1
"""Signal at which a process writes the stacks of its threads to its log. Before the first sign of life it would kill
the process.
"""
ANSWER_MARK = "ACTORLEARN_ANSWER_MARK"
"""Environment variable with the beginning of the line on which a task answers; users' code may print JSON too. A task
with this variable waits until its settings exist.
"""
