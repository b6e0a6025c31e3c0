"""The Python interface: functions that start and find runs, and convert hyperparameters of other libraries.

Users import these names from ``actorlearn``. A run is started in a child process, as ``actorlearn run`` starts it. This
process reads the run's folder, and sends requests to its supervisor, with the functions behind the commands.
"""

from launch.names.cleanrl import from_cleanrl
from launch.names.library import Converted
from launch.names.stable_baselines3 import from_stable_baselines3
from launch.python.run import Run
from launch.python.training import open, runs, start, train

__all__ = ["Converted", "Run", "from_cleanrl", "from_stable_baselines3", "open", "runs", "start", "train"]
