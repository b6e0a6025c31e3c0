"""The mode of a topology's learners (actorlearn.parameters.modes), and what the topology says of it. Pure."""

from __future__ import annotations

from actorlearn.parameters.modes import LearnersAsked, ModeSpec, mode_for
from launch.topology.schema import Topology


def mode(topology: Topology) -> ModeSpec:
    """How this topology's learners learn together."""
    return mode_for(topology.mode, topology.learners.count)


def asked(topology: Topology) -> LearnersAsked:
    """What it says of that."""
    return LearnersAsked(topology.learners, topology.gossip, topology.optimizer.name, topology.seed)
