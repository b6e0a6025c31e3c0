"""The description of a small environment, for tests that start no process to make one."""

from __future__ import annotations

from launch.plan.probe import Description

DESCRIPTION = Description(
    observation_shape=(4,),
    observation_dtype="float32",
    actions=2,
    frames_per_step=1,
    columns={"action": ("int32", ())},
    weights=10,
    state_size=0,
)
