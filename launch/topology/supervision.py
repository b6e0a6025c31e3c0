"""The section ``supervision`` of a topology: how long processes may show no sign of life, how often one that has died
is started again, and where they may be started at all.

Pure. What a sign of life is, and who is found to hang by these limits, is in ``launch/supervision/hangs.py``; what a
budget of restarts comes to is in ``launch/supervision/child.py``.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Annotated, NamedTuple

from pydantic import Field, model_validator

from launch.topology.fields import Section, refuse

ROLES = ("simulator", "inference", "trainer", "evaluator")

Seconds = Annotated[float, Field(ge=2, le=10**6)]


class Limits(NamedTuple):
    """Seconds of silence after which a process of a role hangs."""

    hang_s: float
    """When it does not compute either."""
    spin_s: float
    """Though it computes."""


@dataclass(frozen=True)
class Budget:
    """How often a process may be started again, and when; each is a key of the section, with its default."""

    restarts: int = 5
    """Most restarts within ``restarts_within_s``, and most starts in a row that never come to a Hello."""
    restarts_within_s: float = 60.0
    unsaved_restarts: int = 3
    """Most restarts of a trainer that saves nothing newer: it would die of the same update for ever."""
    restart_delay_s: float = 0.2
    longest_restart_delay_s: float = 30.0


BUDGET = Budget()
"""Of a topology that says nothing of it."""


class SupervisionSection(Section):
    """When a process hangs, and is replaced, and how often; seconds in which the machine was awake."""

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
    restarts: int = Field(
        ge=0, le=10**6, description="of a process within restarts_within_s; dies it once more, it is given up"
    )
    restarts_within_s: float = Field(gt=0, le=10**6, description="a restart so long ago counts no more")
    unsaved_restarts: int = Field(
        ge=0, le=10**6, description="of a trainer that saves nothing newer; dies it once more, it is given up"
    )
    restart_delay_s: float = Field(
        ge=0, le=3_600, description="from a death to the first restart; twice as long to each of the next"
    )
    longest_restart_delay_s: float = Field(ge=0, le=3_600, description="to which that delay grows")
    any_memory_order: bool = Field(description="also start on processors other than x86-64: rows may be read torn")

    @property
    def by_role(self) -> dict[str, Limits]:
        """The limits of each role."""
        return {role: Limits(getattr(self, f"{role}_hang_s"), getattr(self, f"{role}_spin_s")) for role in ROLES}

    @property
    def budget(self) -> Budget:
        """The budget of restarts of each process."""
        return Budget(**{field.name: getattr(self, field.name) for field in fields(Budget)})

    @model_validator(mode="after")
    def _delays_grow(self) -> SupervisionSection:
        if self.longest_restart_delay_s < self.restart_delay_s:
            refuse(
                f"delays only grow, and restart_delay_s is {self.restart_delay_s:g}",
                f"write {self.restart_delay_s:g} or more, or a smaller restart_delay_s",
                "longest_restart_delay_s",
            )
        return self

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
