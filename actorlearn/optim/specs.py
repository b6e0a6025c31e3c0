"""Settings of optimizers, which are the keys of the section ``optimizer`` of a topology, and specs of optimizers.

A spec describes an optimizer without importing it. This file does not load torch. Optimizers and numbers in the papers'
code, of which PAAC's are the defaults ("inside" and "outside": epsilon is added inside or outside the square root):

    system            name     decay / betas  epsilon         other
    PAAC              rmsprop  .99            .1 inside       accumulator_init 1, clip_norm 3 (of the 5x loss)
    accel_rl A2C      rmsprop  .9             1e-6 inside     clip_norm .5
    GALA              rmsprop  .99            1e-5 outside    clip_norm .5
    torchbeast        rmsprop  .99            .01 outside     clip_norm 40 (of summed losses)
    Nature DQN        rmsprop  .95            .01 inside      centered
    fast-DQN          rmsprop  .95            .01 outside     centered
    DBA3C             adam     .8, .75        1e-8            epsilon_hat (TensorFlow 1)
    accel_rl PPO      adam     .9, .999       1e-5            epsilon_hat (Lasagne)
    accel_rl DQN      rmsprop  .95            1e-6 inside     clip_norm 10 if dueling
    accel_rl C51      adam     .9, .999       .01 / batch     epsilon_hat
    eps-Rainbow       adam     .9, .999       .005 / batch    epsilon_hat, clip_norm 10
    PQN               adam     .9, .999       1e-8            rectified (optax), clip_norm 10
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import ModuleType
from typing import Annotated, Any, Literal, Self

import msgspec
from msgspec import Meta

from actorlearn.registry import Registry, Settings, Spec, settings_of, tag_settings

Beta = Annotated[float, Meta(ge=0, lt=1)]
Rate = Annotated[float, Meta(gt=0, le=1_000)]
FinalRate = Annotated[float, Meta(ge=0, le=1_000)]
Epsilon = Annotated[float, Meta(gt=0, le=1_000)]
ClipNorm = Annotated[float, Meta(ge=0, le=1_000_000)]
OuterRule = Literal["none", "momentum", "nesterov"]
Schedule = Literal["linear", "cosine", "constant"]


class GroupSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Numbers for one network's parameters, where they differ from those of the section ``optimizer``."""

    learning_rate: Annotated[
        Rate | None, Meta(description="learning rate of this network at step 0; null = that of section optimizer")
    ] = None
    learning_rate_final: Annotated[
        FinalRate | None,
        Meta(
            description="learning rate of this network at schedule_steps; null = the same share of its learning_rate "
            "as in section optimizer"
        ),
    ] = None
    epsilon: Annotated[
        Epsilon | None, Meta(description="number that is added to the denominator of the optimizer's step")
    ] = None
    clip_norm: Annotated[
        ClipNorm | None, Meta(description="largest norm of this network's gradient; 0 = not clipped")
    ] = None

    @property
    def given(self) -> dict[str, float]:
        """The keys that are set here, with their values; for others the section ``optimizer`` applies."""
        return {key: value for key, value in msgspec.structs.asdict(self).items() if value is not None}


class OptimizerSettings(Settings, frozen=True, kw_only=True):
    """The optimizer. These keys exist for every optimizer. The defaults are those of the published code of PAAC."""

    learning_rate: Annotated[Rate, Meta(description="learning rate at step 0")] = 0.0224  # .0007 x 32 environments
    learning_rate_final: Annotated[
        FinalRate,
        Meta(
            description="learning rate at schedule_steps, with schedule linear or cosine. If the command line "
            "changes only learning_rate, the learning_rate_final of the file is changed in proportion"
        ),
    ] = 0.0
    schedule: Annotated[
        Schedule,
        Meta(
            description="curve from learning_rate to learning_rate_final; cosine = half a period; constant = "
            "learning_rate throughout"
        ),
    ] = "linear"
    warmup_steps: Annotated[
        int,
        Meta(
            ge=0,
            le=10**12,
            description="agent steps at the start during which the learning rate rises linearly from 0; the schedule "
            "begins after them",
        ),
    ] = 0
    epsilon: Annotated[Epsilon, Meta(description="number that is added to the denominator of the optimizer's step")] = (
        0.1
    )
    clip_norm: Annotated[
        ClipNorm,
        Meta(
            description="largest norm of the gradient, of each network separately if there are several; 0 = not clipped"
        ),
    ] = 3.0  # the paper clips at 40
    sample_size_scaling: Annotated[
        Literal["none", "sqrt", "linear"],
        Meta(
            description="impala, ppo, vaco: multiply the learning rate of each optimizer step by "
            "effective_sample_size of its minibatch (linear), or by the square root of it (sqrt, as "
            "VCPO); none = it is not multiplied"
        ),
    ] = "none"
    groups: Annotated[
        dict[str, GroupSettings],
        Meta(
            description="learning_rate, learning_rate_final, epsilon and clip_norm of single networks, for algorithms "
            "with several: {critic_1: {learning_rate: 1e-3}}; other networks use the keys of this section"
        ),
    ] = msgspec.field(default_factory=dict)

    @property
    def state_vectors(self) -> tuple[str, ...]:
        """Names of the tensors of the optimizer's state that have one element for each parameter."""
        return ()

    @property
    def rate_at_end(self) -> float:
        """The learning rate at the end of the schedule."""
        return self.learning_rate if self.schedule == "constant" else self.learning_rate_final

    def of_group(self, name: str) -> Self:
        """Return the settings for the network of this name: the keys of its group replace these settings.

        If the group sets only ``learning_rate``, ``learning_rate_final`` changes in proportion.
        """
        own = self.groups[name].given if name in self.groups else {}
        if "learning_rate" in own:
            share = self.learning_rate_final / self.learning_rate
            own = {"learning_rate_final": share * own["learning_rate"], **own}
        return msgspec.structs.replace(self, groups={}, **own)


class OuterSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of the outer optimizer of several learners; ``optim/outer.py`` explains the rules."""

    rule: OuterRule = "none"
    learning_rate: Rate = 1.0
    momentum: Beta = 0.0


class RMSPropSettings(OptimizerSettings, frozen=True, kw_only=True, tag="rmsprop"):
    """Keys of RMSProp."""

    decay: Annotated[Beta, Meta(description="decay of the mean squared gradient per optimizer step")] = 0.99
    epsilon_inside_root: Annotated[
        bool,
        Meta(
            description="divide by sqrt(a + epsilon), as TensorFlow 1 does, instead of sqrt(a) + epsilon, as torch does"
        ),
    ] = True
    accumulator_init: Annotated[
        float, Meta(ge=0, le=1_000_000, description="initial mean squared gradient; 1 in TensorFlow 1, 0 in torch")
    ] = 1.0
    centered: Annotated[bool, Meta(description="subtract the squared mean gradient from the mean squared gradient")] = (
        False
    )

    @property
    def state_vectors(self) -> tuple[str, ...]:
        """Names of the tensors of the optimizer's state that have one element for each parameter."""
        return ("square", "mean") if self.centered else ("square",)


class AdamSettings(OptimizerSettings, frozen=True, kw_only=True, tag="adam"):
    """Keys of Adam."""

    betas: Annotated[
        tuple[Beta, Beta],
        Meta(description="decay per optimizer step of the mean gradient and of the mean squared gradient"),
    ] = (0.9, 0.999)
    epsilon_hat: Annotated[
        bool,
        Meta(description="use TensorFlow's and Lasagne's form, in which the bias correction does not rescale epsilon"),
    ] = False
    rectified: Annotated[
        bool,
        Meta(
            description="RAdam (Liu et al. 2020): smaller steps at the start; the first few steps use only the mean "
            "gradient"
        ),
    ] = False

    @property
    def state_vectors(self) -> tuple[str, ...]:
        """Names of the tensors of the optimizer's state that have one element for each parameter."""
        return ("mean", "square")


@dataclass(frozen=True, kw_only=True)
class OptimizerSpec(Spec):
    """Description of an optimizer that does not import it; its class is called with settings, parameters and spread."""

    methods = ("step", "state", "restore")
    described_in = "actorlearn/optim/interface.py"
    settings: type[OptimizerSettings]
    defaults: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Defaults for each kind of environment, where they differ from the defaults of the settings."""

    @classmethod
    def of(cls, name: str, found: Any, module: ModuleType) -> Self:
        """Make a spec for a class that has none."""
        settings = settings_of(found, module, OptimizerSettings)
        return cls(
            name=name, settings=tag_settings(settings, name), made_by=name, defaults=getattr(found, "defaults", {})
        )


# Each optimizer has its own default numbers for each kind: with PAAC's learning rate Adam would destroy the network.
RMSPROP = OptimizerSpec(
    name="rmsprop",
    settings=RMSPropSettings,
    made_by="actorlearn.optim.rmsprop:RMSProp",
    defaults={"vector": {"learning_rate": 1e-3, "epsilon": 1e-5, "accumulator_init": 0.0, "clip_norm": 0.5}},
)
ADAM = OptimizerSpec(
    name="adam",
    settings=AdamSettings,
    made_by="actorlearn.optim.adam:Adam",
    defaults={
        "atari": {"learning_rate": 1e-3, "epsilon": 1e-5, "clip_norm": 0.5},
        "vector": {"learning_rate": 3e-3, "epsilon": 1e-5, "clip_norm": 0.5},
    },
)

OPTIMIZERS = Registry("optimizer", "actorlearn.optimizers", OptimizerSpec)
