"""Schedules of the learning rate along a run, and its scaling with the size of the batch and the number of learners.

The progress of a run is measured in agent steps of all environments, as in PAAC.
"""

from __future__ import annotations

from collections.abc import Callable
from math import sqrt
from typing import TypeVar

import msgspec

from actorlearn.curves import curve
from actorlearn.optim.specs import AdamSettings, GroupSettings, OptimizerSettings

Numbers = TypeVar("Numbers", OptimizerSettings, GroupSettings)


def linear(start: float, end: float, fraction: float) -> float:
    """Return the linear interpolation between start (`fraction` 0 or less) and end (`fraction` 1 or more)."""
    fraction = min(max(fraction, 0.0), 1.0)
    return start * (1.0 - fraction) + end * fraction


def rate_after(settings: OptimizerSettings, env_steps: int, end_steps: int) -> float:
    """Return the learning rate after ``env_steps`` agent steps of a run whose schedule ends at ``end_steps``."""
    if env_steps < settings.warmup_steps:
        return settings.learning_rate * env_steps / settings.warmup_steps
    progress = min((env_steps - settings.warmup_steps) / (end_steps - settings.warmup_steps), 1.0)
    return linear(settings.learning_rate, settings.rate_at_end, curve(settings.schedule, progress))


def scale_rate(learning_rate: float, batches: float, scaling: str) -> float:
    """Return the learning rate for a batch `batches` times as large as the one for which it was chosen.

    ``scaling`` is "none" (unchanged), "linear" (multiplied by `batches`) or "sqrt" (by the square root of `batches`).
    Linear scaling is from Goyal et al. (2017) and from PAAC (.0007 for each environment), sqrt from the A2C
    of Stooke & Abbeel (2018, section 5.3), whom GALA follows; their A3C does not scale.

    With ``optimizer.sample_size_scaling``, `batches` is the effective sample size of a batch as a share of its size, so
    that a batch with unequal importance ratios counts as a smaller one. VCPO (arXiv 2602.17616, equation 5) multiplies
    the rate by the root of this share, divided by that of on-policy samples, which is 1 if one network acts and learns.
    """
    return learning_rate * {"none": 1.0, "sqrt": sqrt(batches), "linear": batches}[scaling]


def for_batches(settings: OptimizerSettings, batches: float, scaling: str) -> OptimizerSettings:
    """Return the settings for a batch `batches` times as large as the one for which they were chosen.

    Learning rates are scaled by `scale_rate`, and Adam's epsilon is divided by `batches`. The gradient of a larger
    batch is smaller (Stooke & Abbeel 2018, appendix C), so only a smaller epsilon has the same effect. Theirs is
    0.01 / batch (section 5.4.1). Their learning rates of RMSProp, 2.5e-4, 7.5e-4 and 15e-4 at batches of 32, 512 and
    1,024, approximately follow sqrt. Those of Adam, 4.2e-4 from 256 on, are not scaled.
    """

    def rate(value: float) -> float:
        return scale_rate(value, batches, scaling)

    rules: dict[str, Callable[[float], float]] = {"learning_rate": rate, "learning_rate_final": rate}
    if isinstance(settings, AdamSettings):
        rules["epsilon"] = lambda value: value / batches

    def changed(numbers: Numbers) -> Numbers:
        values = {key: getattr(numbers, key) for key in rules}
        new = {key: rules[key](value) for key, value in values.items() if value is not None}
        return msgspec.structs.replace(numbers, **new)

    groups = {name: changed(group) for name, group in settings.groups.items()}
    return msgspec.structs.replace(changed(settings), groups=groups)
