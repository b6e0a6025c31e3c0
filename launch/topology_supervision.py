"""The section ``supervision`` of a topology: how long the processes of each role may show no sign of life, and where
they may be started at all.

Pure. What a sign of life is, and who is found to hang by these limits, is in ``launch/hangs.py``.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

from pydantic import Field, model_validator

from launch.topology_types import Section, refuse

ROLES = ("simulator", "inference", "trainer", "evaluator")

Seconds = Annotated[float, Field(ge=2, le=10**6)]


class Limits(NamedTuple):
    """Seconds of silence after which a process of a role hangs."""

    hang_s: float
    """When it does not compute either."""
    spin_s: float
    """Though it computes."""


class SupervisionSection(Section):
    """When a process hangs, and is replaced; seconds in which the machine was awake."""

    start_s: Seconds = Field(description="*_hang_s of a process that is still starting")
    drain_s: Seconds = Field(description="longest that trainers, alive, take to finish and save when a run is to end")
    simulator_hang_s: Seconds = Field(description="no sign of life, and no processor time, for so long is a hang")
    inference_hang_s: Seconds = Field(description="likewise")
    trainer_hang_s: Seconds = Field(description="likewise")
    evaluator_hang_s: Seconds = Field(description="likewise")
    simulator_spin_s: Seconds = Field(description="no sign of life for so long is a hang, though it computes")
    inference_spin_s: Seconds = Field(description="likewise")
    trainer_spin_s: Seconds = Field(description="likewise")
    evaluator_spin_s: Seconds = Field(description="likewise")
    any_memory_order: bool = Field(description="also start on processors other than x86-64: rows may be read torn")

    @property
    def by_role(self) -> dict[str, Limits]:
        """The limits of each role."""
        return {role: Limits(getattr(self, f"{role}_hang_s"), getattr(self, f"{role}_spin_s")) for role in ROLES}

    @model_validator(mode="after")
    def _spinning_is_given_longer(self) -> SupervisionSection:
        for role, (hang_s, spin_s) in self.by_role.items():
            if spin_s < hang_s:
                refuse(
                    f"who computes is given at least as long as who does not, and {role}_hang_s is {hang_s:g}",
                    f"write {hang_s:g} or more, or a smaller {role}_hang_s",
                    f"{role}_spin_s",
                )
        return self
