"""Settings of algorithms, which are the keys of the section ``algorithm`` of a topology, and specs of algorithms.

A spec describes an algorithm without importing it: its keys, their defaults, and facts such as whether it learns from a
replay. This file does not load torch, because simulators and the supervisor import it.

An algorithm consists of a spec (``algorithms/specs/a2c.py``), a class with the loss (``algorithms/a2c.py``) and an
entry point in ``pyproject.toml``. A class that a topology names as "package.module:Name" needs neither a spec nor an
entry point. It has ``Settings`` and the fields of `AlgorithmSpec` as attributes (`AlgorithmSpec.of`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import Annotated, Any, Literal, Self

from msgspec import Meta

from actorlearn.metric import Metric
from actorlearn.registry import Registry, Settings, Spec, settings_of, tag_settings

Defaults = Mapping[str, Mapping[str, Mapping[str, Any]]]
"""Kind of environment -> section of a topology -> key -> value.

The kinds are "atari", "vector" (every other environment) and the special cases of "vector" in ``FINER``
(``envs/specs.py``)."""

Share = Annotated[float, Meta(ge=0, le=1)]

BASE_DEFAULTS: Defaults = {
    "atari": {},
    # Rewards of other environments are small numbers that need no clip, and their time limits are not part of the task.
    "vector": {"algorithm": {"horizon": 16, "loss_scale": 1.0, "reward_clip": None, "bootstrap_on_truncation": True}},
}
"""Defaults of all algorithms for each kind of environment, where they differ from the defaults of `AlgorithmSettings`.
"""
OFF_POLICY_DEFAULTS: Defaults = {
    "atari": {},
    "vector": {**BASE_DEFAULTS["vector"], "replay": {"capacity_steps": 50_000, "learning_starts_steps": 1_000}},
}
"""Defaults of algorithms that learn from a replay."""


@dataclass(frozen=True, kw_only=True)
class EpsilonSchedule:
    """Share of random actions (epsilon) as a function of the agent steps of all environments together.

    Processes that act replace this share of the algorithm's actions by random ones (``acting/exploration.py``).
    """

    initial: float
    """Epsilon during the first ``hold_steps`` agent steps."""
    final: float
    """Epsilon after ``hold_steps + steps`` agent steps; in between epsilon changes linearly."""
    final_min: float | None
    """Final epsilon of environment 0; the final epsilons of the others are log-spaced between this and ``final``.

    None: all environments have ``final``."""
    hold_steps: int
    steps: int
    evaluation: float
    """Epsilon in evaluations that are not greedy."""


@dataclass(frozen=True)
class HardCopies:
    """A target network that is replaced by a copy of the network at intervals (Mnih et al. 2015)."""

    every_steps: int
    """Agent steps of all learners between two copies."""


@dataclass(frozen=True)
class Polyak:
    """A target network that moves towards the network after each optimizer step (Lillicrap et al. 2016, section 3)."""

    rate: float
    """tau: share of the distance to the network by which an optimizer step moves the target network."""


TargetPolicy = HardCopies | Polyak
"""When and how a target network is updated; ``learning/target.py`` carries this out."""


class AlgorithmSettings(Settings, frozen=True, kw_only=True):
    """The algorithm. These keys exist for every algorithm. The defaults are those of the published code of PAAC."""

    horizon: Annotated[
        int,
        Meta(
            ge=1, le=10_000, description="agent steps per environment in a rollout; each update learns from one rollout"
        ),
    ] = 5
    batch_steps: Annotated[
        Annotated[int, Meta(ge=1, le=10**9)] | None,
        Meta(
            description="agent steps in an update, of all environments of a learner together; if set, horizon is "
            "this number divided by the number of environments; null = horizon is used"
        ),
    ] = None
    discount: Annotated[float, Meta(ge=0, le=1, description="discount factor per agent step")] = 0.99
    reward_clip: Annotated[
        Annotated[float, Meta(gt=0, le=1_000_000)] | None,
        Meta(description="rewards are clipped to the range from minus this value to this value; null = not clipped"),
    ] = 1.0
    life_loss_terminal: Annotated[
        bool,
        Meta(
            description="treat the loss of a life as the end of the game when returns are computed, although the game "
            "continues"
        ),
    ] = False
    bootstrap_on_truncation: Annotated[
        bool,
        Meta(
            description="at a time limit, add the value of the final observation to the return; false = a time limit "
            "counts as the end of the game"
        ),
    ] = False  # as in the published code of the README's five papers
    loss_scale: Annotated[
        float, Meta(gt=0, le=1_000_000, description="factor on the whole loss; applied before clip_norm")
    ] = 5.0
    reduction: Annotated[
        Literal["mean", "sum"],
        Meta(description="mean or sum of the loss over transitions; clip_norm applies to the gradient of the result"),
    ] = "mean"
    epochs: Annotated[
        int,
        Meta(
            ge=0, le=1_000, description="passes over each rollout; 0 = environments are played, and nothing is learned"
        ),
    ] = 1
    noise_steps: Annotated[
        int,
        Meta(
            ge=1,
            le=10_000,
            description="agent steps for which an environment keeps the random numbers that choose its actions in "
            "training, as in gSDE and temporally extended epsilon-greedy, so that exploration keeps its "
            "direction; 1 = new random numbers in each step",
        ),
    ] = 1
    max_policy_lag: Annotated[
        Annotated[int, Meta(ge=0, le=1_000)] | None,
        Meta(
            description="most updates by which the weights that act may be older than the weights that learn; null "
            "= no limit besides simulators.blocks"
        ),
    ] = None

    @property
    def lag_limit(self) -> int | None:
        """Policy lag in updates above which the learner ignores a transition; None: it ignores none."""
        return None

    def open_rollouts(self, blocks: int) -> int:
        """Return how many rollouts may be collected or wait for the trainer at the same time: at most ``blocks``.

        Each rollout beyond the first can add one update of policy lag. So ``max_policy_lag`` limits their number,
        unless `lag_limit` drops old transitions.
        """
        if self.max_policy_lag is None or self.lag_limit is not None:
            return blocks
        return min(blocks, self.max_policy_lag + 1)

    @property
    def scales_reward(self) -> bool:
        """Whether rewards are divided by the running standard deviation of the discounted return."""
        return False

    @property
    def divergence_limit(self) -> float | None:
        """Limit of the metric ``divergence``: above it an update skips its remaining minibatches. None: no limit."""
        return None

    @property
    def exploration(self) -> EpsilonSchedule | None:
        """Schedule of random actions that replace the actions from `act`; None: no actions are replaced."""
        return None


class OnPolicySettings(AlgorithmSettings, frozen=True, kw_only=True):
    """Keys of algorithms that learn from each rollout once, when it is complete, and have no replay."""

    on_policy_lag: Annotated[
        Literal["wait", "drop"],
        Meta(
            description="how max_policy_lag is kept; wait = simulators begin a rollout only if its weights will be "
            "new enough, drop = the trainer does not learn from transitions whose actions were chosen by "
            "older weights"
        ),
    ] = "wait"
    minibatches: Annotated[
        int,
        Meta(
            ge=1,
            le=10_000,
            description="number of minibatches into which a batch is divided; a minibatch has all steps of some "
            "environments, or single transitions where the algorithm allows it (ppo, pqn, vaco)",
        ),
    ] = 1
    normalize_reward: Annotated[
        bool,
        Meta(description="divide rewards by the running standard deviation of the discounted return, then clip them"),
    ] = False

    @property
    def lag_limit(self) -> int | None:
        """``max_policy_lag`` with ``on_policy_lag: drop``.

        With "wait" it is None, because `open_rollouts` limits the lag instead.
        """
        return self.max_policy_lag if self.on_policy_lag == "drop" else None

    @property
    def scales_reward(self) -> bool:
        """Whether rewards are divided by the running standard deviation of the discounted return."""
        return self.normalize_reward


class OffPolicySettings(AlgorithmSettings, frozen=True, kw_only=True):
    """Keys of algorithms that learn from a replay buffer, with a target network."""

    epochs: Annotated[
        int,
        Meta(
            ge=0,
            le=1,
            description="0 = environments are played, and nothing is learned; 1 = replay.ratio sets how often a step "
            "is learned from",
        ),
    ] = 1
    n_step: Annotated[
        int,
        Meta(
            ge=1,
            le=1_000,
            description="number of steps of the n-step return, which is the discounted sum of the rewards of this "
            "many steps and the value of the state after them",
        ),
    ] = 1

    @property
    def target(self) -> TargetPolicy:
        """When and how the target network is updated."""
        raise NotImplementedError


class HardCopySettings(OffPolicySettings, frozen=True, kw_only=True):
    """Keys of algorithms whose target network is replaced at intervals by a copy of the network."""

    target_every_steps: Annotated[
        int,
        Meta(ge=1, le=10**9, description="agent steps of all environments between two updates of the target network"),
    ] = 10_000

    @property
    def target(self) -> TargetPolicy:
        """Copies at intervals of ``target_every_steps``."""
        return HardCopies(self.target_every_steps)


def of_known_keys(defaults: Defaults, settings: type[AlgorithmSettings]) -> Defaults:
    """Return ``defaults`` without those keys of the section ``algorithm`` that ``settings`` lacks."""
    known = settings.__struct_fields__
    return {
        kind: {
            section: {key: value for key, value in keys.items() if section != "algorithm" or key in known}
            for section, keys in sections.items()
        }
        for kind, sections in defaults.items()
    }


@dataclass(frozen=True, kw_only=True)
class AlgorithmSpec(Spec):
    """Description of an algorithm that does not import it; its class, ``made_by``, is called with its settings."""

    methods = ("heads", "columns", "act", "prepare")
    described_in = "actorlearn/algorithms/interface.py"
    settings: type[AlgorithmSettings]
    replayed: bool = False
    """Whether the algorithm learns from a replay. For a class without a spec the default is True if its ``Settings``
    are a subclass of `OffPolicySettings`."""
    sequences: bool = False
    """Whether items of the replay are sequences of transitions, so that a recurrent network can learn from them."""
    by_ratio: bool = False
    """Whether the loss uses an importance ratio: an action's probability now, divided by that when it was chosen."""
    parts_of_transitions: bool = False
    """Whether minibatches of a rollout consist of single transitions; False: of all T transitions of some environments.

    With a recurrent network, minibatches always consist of all transitions of some environments."""
    unit_actions: bool = False
    """Whether the algorithm chooses numbers from -1 to 1, which the environment must scale to the bounds of its Box."""
    defaults: Defaults = field(default_factory=lambda: BASE_DEFAULTS)
    """Defaults for each kind of environment, where they differ from the defaults of the settings."""
    optimizers: Defaults = field(default_factory=dict)
    """Kind of environment -> name of an optimizer -> key -> default, where it differs from the optimizer's default."""
    metrics: tuple[Metric, ...] = ()
    """Definitions of the metrics that `loss` returns and that no other algorithm has."""

    def __post_init__(self) -> None:
        """Raise ValueError if the settings lack keys that the trainer reads, or if a field has a wrong type."""
        super().__post_init__()
        base = OffPolicySettings if self.replayed else OnPolicySettings
        if not issubclass(self.settings, base):
            way = "" if self.replayed else "; if it learns from a replay, set replayed=True in its spec"
            raise ValueError(f"algorithm {self.name!r}: its settings must be a subclass of {base.__name__}{way}")
        if issubclass(self.settings, OffPolicySettings) and self.settings.target is OffPolicySettings.target:
            raise ValueError(
                f"algorithm {self.name!r}: its settings must say how the target network is updated: they must be a "
                f"subclass of {HardCopySettings.__name__}, or have a property target that returns HardCopies or Polyak"
            )

        facts: dict[str, Any] = {"defaults": self.defaults, "optimizers": self.optimizers}
        for what, said in facts.items():
            if not (isinstance(said, Mapping) and all(isinstance(inner, Mapping) for inner in said.values())):
                raise ValueError(
                    f"algorithm {self.name!r}: its {what} are {said!r:.100}; they must map each kind of "
                    "environment to a mapping"
                )
        for kind, sections in self.defaults.items():
            if strange := sections.get("algorithm", {}).keys() - set(self.settings.__struct_fields__):
                raise ValueError(
                    f"algorithm {self.name!r}: its defaults of {kind} have {min(strange)!r}, which its settings lack"
                )
        metrics: Sequence[Any] = self.metrics
        if wrong := [metric for metric in metrics if not isinstance(metric, Metric)]:
            raise ValueError(f"algorithm {self.name!r}: its metrics contain {wrong[0]!r:.100}, which is not a Metric")

    def check(self, found: Any, what: str, more: Sequence[str] = ()) -> None:
        """Raise ValueError if a class lacks methods of ``algorithms/interface.py``; ``what`` names the class.

        The class must have `loss`, or both `losses` and `extra_networks`.
        """
        super().check(found, what, (*more, *(("extra_networks", "losses") if hasattr(found, "losses") else ("loss",))))

    @classmethod
    def of(cls, name: str, found: Any, module: ModuleType) -> Self:
        """Make a spec for the class ``found``, which has none, from its attributes named like fields of a spec.

        Missing attributes are taken from the spec of the nearest base class that has a registered spec.
        """
        settings = settings_of(found, module, AlgorithmSettings)
        replayed = bool(getattr(found, "replayed", issubclass(settings, OffPolicySettings)))
        if settings is AlgorithmSettings:  # the class has no Settings
            settings = HardCopySettings if replayed else OnPolicySettings
        specs = {spec.made_by: spec for spec in ALGORITHMS.specs()}
        bases = (f"{each.__module__}:{each.__qualname__}" for each in found.__mro__)
        base = next((specs[each] for each in bases if each in specs), None)
        if base is None:
            base = cls(
                name=name,
                settings=settings,
                made_by=name,
                replayed=replayed,
                defaults=OFF_POLICY_DEFAULTS if replayed else BASE_DEFAULTS,
            )
        return cls(
            name=name,
            settings=tag_settings(settings, name),
            made_by=name,
            replayed=replayed,
            sequences=bool(getattr(found, "sequences", base.sequences)),
            by_ratio=bool(getattr(found, "by_ratio", base.by_ratio)),
            parts_of_transitions=bool(getattr(found, "parts_of_transitions", base.parts_of_transitions)),
            unit_actions=bool(getattr(found, "unit_actions", base.unit_actions)),
            defaults=getattr(found, "defaults", of_known_keys(base.defaults, settings)),
            optimizers=getattr(found, "optimizers", base.optimizers),
            metrics=tuple(getattr(found, "metrics", base.metrics)),
        )


ALGORITHMS = Registry("algorithm", "actorlearn.algorithms", AlgorithmSpec)
