"""The mode of a topology's learners (actorlearn.parameters.modes), and the parts of a topology that it reads. Pure."""

from __future__ import annotations

from actorlearn.parameters.modes import LearnersAsked, ModeSpec, mode_for
from launch.topology.schema import Topology


def mode(topology: Topology) -> ModeSpec:
    """Return the mode in which a topology's learners learn together."""
    return mode_for(topology.mode, topology.learners.count)


def asked(topology: Topology) -> LearnersAsked:
    """Return the parts of a topology that a mode reads."""
    return LearnersAsked(topology.learners, topology.gossip, topology.optimizer.name, topology.seed)
