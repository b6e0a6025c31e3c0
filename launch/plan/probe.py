"""Describes a topology's environment and network: a child process builds them, and answers with shapes and sizes.

The supervisor and the command line therefore import neither torch nor any environment. If the environment or network
cannot be built, a one-line error is raised before any process of the run is started.
"""

from __future__ import annotations

import math

import msgspec
import numpy as np

from actorlearn.envs.interface import EnvSpec
from actorlearn.worker.settings import DescribeSettings
from launch.spawning.answers import NoAnswerError, TaskError, TooSlowError, ask_task
from launch.topology.load import Topology, TopologyError
from launch.topology.modes import mode


class Description(EnvSpec, frozen=True, kw_only=True):
    """Shapes and sizes of an environment, an algorithm and a network, found by building them once.

    ``inexact`` is also set if a restored environment played another game.
    """

    columns: dict[str, tuple[str, tuple[int, ...]]]
    """Values that the algorithm stores with each action (`Algorithm.act`): name -> numpy dtype and shape."""
    weights: int
    """Length of the published vector: parameters, followed by statistics."""
    statistics: int = 0
    """Number of statistics of normalisation at the end of the published vector."""
    tensors: dict[str, dict[str, tuple[int, ...]]] = msgspec.field(default_factory=dict)
    """Shapes of the tensors that checkpoints contain: weights, optimizer or algorithm -> name -> shape."""
    state_size: int = 0
    """Length of a recurrent network's state; 0 for other networks."""
    unverified: str = ""
    """Reason why restoring the environment's state was not tested; empty if it was, or if restoring is not possible."""
    algorithm_inexact: str = ""
    """Reason why the algorithm cannot resume exactly: state that checkpoints lack; empty if there is none."""
    step_s: float = 0.0
    """Seconds of a step of the environment if it is slow (``actorlearn/tasks/rehearse.py``); else 0."""

    @property
    def observation_bytes(self) -> int:
        """Size of one observation."""
        return math.prod(self.observation_shape) * np.dtype(self.observation_dtype).itemsize

    @property
    def weights_bytes(self) -> int:
        """Size of the weights that are published."""
        return self.weights * np.dtype(np.float32).itemsize

    @property
    def unseen(self) -> str:
        """Warning about the parts of the observations that networks do not get; empty if there are none."""
        what = " and ".join(self.left_out)
        return (
            f"the network does not get these parts of the observations: {what}; networks accept only numbers"
            if what
            else ""
        )


def describe(topology: Topology, here: bool = True) -> Description:
    """Build environment and network in a child process, and return their description; raises TopologyError.

    ``here``: whether the processes will run on this machine; then it must have their devices. Topologies of several
    nodes are not checked for devices, because learners are placed on nodes that have them.
    """
    devices = {"inference.device": topology.inference.device, "trainer.device": topology.trainer.device}
    question = DescribeSettings(
        env=topology.env,
        model=topology.model,
        algorithm=topology.algorithm,
        optimizer=topology.optimizer,
        mode=mode(topology).name,
        roles=tuple(name for name, section in topology.roles.items() if section.count),
        devices=devices if here and not topology.nodes.several else {},
    )
    limit_s = topology.supervision.start_s
    try:
        answer = ask_task("describe", msgspec.json.encode(question), limit_s)
    except TaskError as error:
        raise TopologyError(str(error)) from None
    except TooSlowError as place:
        raise TopologyError(
            f"env.id {topology.env.id!r}: trying the environment and the network takes longer than {limit_s:g} s, the "
            f"limit supervision.start_s{place}; find out what it waits for, or raise supervision.start_s"
        ) from None
    except NoAnswerError as error:
        raise TopologyError(
            f"env.id {topology.env.id!r}: the process that tries the environment and the network has died: {error}; "
            "find out what ended it, for example os._exit or a library that crashes"
        ) from None
    return msgspec.convert(answer, Description, strict=False)
