"""The Python interface: ``actorlearn.train``, ``start``, ``open``, ``runs``, ``Run``, ``from_…`` of other libraries.

Uses the functions behind the commands. A run is started as ``actorlearn run`` starts it, in a child process, and is
reached through its folder and its control socket. Users import these names from ``actorlearn``.
"""

from launch.names.cleanrl import from_cleanrl
from launch.names.library import Converted
from launch.names.stable_baselines3 import from_stable_baselines3
from launch.python.run import Run
from launch.python.training import open, runs, start, train

__all__ = ["Converted", "Run", "from_cleanrl", "from_stable_baselines3", "open", "runs", "start", "train"]
