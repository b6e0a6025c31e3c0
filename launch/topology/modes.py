"""The mode of a topology (``actorlearn/parameters/modes.py``), and the parts of a topology that modes read. Pure."""

from __future__ import annotations

from typing import Any

from actorlearn.parameters.modes import MODES, LearnersAsked, ModeSpec
from actorlearn.parameters.settings import GossipSettings
from launch.topology.schema import Topology


def mode(topology: Topology) -> ModeSpec:
    """Return the mode in which the learners of a topology exchange gradients or weights."""
    return MODES.asked_for(topology.mode, topology.learners.count, topology.parameter_servers.count)


def asked(topology: Topology) -> LearnersAsked:
    """Return the parts of a topology that its mode reads."""
    section = section_of(topology, mode(topology))
    return LearnersAsked(
        topology.learners,
        section,
        topology.optimizer.name,
        topology.seed,
        across=topology.nodes.several,
        servers=topology.parameter_servers,
    )


def sharing(topology: Topology) -> GossipSettings | None:
    """Return the section ``gossip`` if learners send each other rollouts (``gossip.experience`` > 0); else None."""
    section = asked(topology).section
    return section if isinstance(section, GossipSettings) and section.experience else None


def section_of(topology: Topology, owner: ModeSpec) -> Any:
    """Return the section of a mode, such as ``gossip``; None if the mode has none.

    The mode need not be the one that the topology selects.
    """
    return getattr(topology, owner.name) if owner.section else None
