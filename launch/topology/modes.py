"""The mode of a topology's learners (actorlearn.parameters.modes), and the parts of a topology that it reads. Pure."""

from __future__ import annotations

from typing import Any

from actorlearn.parameters.modes import MODES, LearnersAsked, ModeSpec
from actorlearn.parameters.settings import GossipSettings
from launch.topology.schema import Topology


def mode(topology: Topology) -> ModeSpec:
    """Return the mode in which the learners of a topology exchange."""
    return MODES.asked_for(topology.mode, topology.learners.count, topology.parameter_servers.count)


def asked(topology: Topology) -> LearnersAsked:
    """Return the parts of a topology that a mode reads."""
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
    """Return the section of learners that share experience; None if they share none."""
    section = asked(topology).section
    return section if isinstance(section, GossipSettings) and section.experience else None


def section_of(topology: Topology, owner: ModeSpec) -> Any:
    """Return the section of a mode, which need not be the topology's mode; None if the mode has no section."""
    return getattr(topology, owner.name) if owner.section else None
