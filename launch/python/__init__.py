"""The Python interface: ``actorlearn.train``, ``start``, ``open``, ``runs`` and the class ``Run``.

Uses the functions behind the commands. A run is started as ``actorlearn run`` starts it, in a child process, and is
reached through its folder and its control socket. Users import these names from ``actorlearn``.
"""

from launch.python.run import Run
from launch.python.training import open, runs, start, train

__all__ = ["Run", "open", "runs", "start", "train"]
