"""Looks up the plans of roles: the shipped ones' are in ``roles.py``, others' stand beside their specs. Pure.

Apart from ``roles.py``, whose settings need the placement of processes, which needs their plans.
"""

from __future__ import annotations

from functools import cache

from actorlearn import imports
from actorlearn.worker.roles import RolePlan, RoleSpec
from launch.topology.load import Topology, TopologyError


@cache
def plan_of(role: RoleSpec) -> RolePlan:
    """Return the plan of a role; raises TopologyError where it cannot be imported."""
    what = f"roles.{role.name}"
    try:
        found = imports.attribute(role.planned_by, what)
    except ValueError as error:
        raise TopologyError(str(error)) from None
    if not isinstance(found, RolePlan):
        raise TopologyError(f"{what}: {role.planned_by} must be a RolePlan, and is {found!r:.100}")
    return found


def count_of(role: RoleSpec, topology: Topology) -> int:
    """Return how many processes of a role each learner has, or the run, as the role's scope says."""
    section = topology.roles.get(role.name)
    if role.section is not None and section is None:
        return 0  # and the plan of a role that nobody asked for may be one that cannot be imported
    plan = plan_of(role)
    if plan.count:
        return plan.count(topology)
    return section.count if section else 0
