"""Sections whose owners are in actorlearn."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from actorlearn.algorithms.settings import ALGORITHMS as REGISTERED
from actorlearn.models.specs import MODELS as REGISTERED_MODELS

ALGORITHMS, MODELS = REGISTERED.names(), REGISTERED_MODELS.names()

EnvId = Annotated[
    str,
    Meta(
        pattern=r"^[A-Za-z0-9_][A-Za-z0-9_./:-]{0,199}$",
        description="gymnasium id (ALE/... takes the fast path), module:id or package.module:Class",
        extra={
            "rule": "an environment is a gymnasium id, module:id or package.module:Class",
            "way_out": "write for example ALE/Pong-v5, or minigrid:MiniGrid-Empty-5x5-v0",
        },
    ),
]
CODE = r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*:[A-Za-z_][A-Za-z0-9_]*"
Code = Annotated[
    str,
    Meta(
        pattern=f"^{CODE}$",
        description="package.module:Class, called with the environment",
        extra={"rule": "it must be package.module:Class", "way_out": "write for example gymnasium.wrappers:TimeLimit"},
    ),
]


Arguments = dict[str, Any]


class Section(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A mapping of known keys."""


class WrapperSection(Section, frozen=True, kw_only=True):
    """A wrapper of the environment; its name alone will do."""

    name: Code
    kwargs: Annotated[Arguments, Meta(description="and with these arguments")] = {}


class ModelSection(Section, frozen=True, kw_only=True):
    """The network (actorlearn.models.interface.ModelSettings)."""

    name: Annotated[
        str,
        Meta(
            pattern=f"^({'|'.join(MODELS)}|{CODE})$",
            description=f"{', '.join(MODELS)} or package.module:Name",
            examples=[*MODELS],
            extra={"or": "package.module:Name"},
        ),
    ]
    hidden_sizes: Annotated[
        list[Annotated[int, Meta(ge=1, le=65_536)]], Meta(max_length=16, description="units per hidden layer of mlp")
    ] = msgspec.field(default_factory=lambda: [64, 64])
    init: Annotated[
        Literal["torch", "orthogonal"], Meta(description="initial weights; torch = U(+-1/sqrt(fan_in)), biases too")
    ] = "torch"
    recurrence: Annotated[
        Literal["none", "lstm", "gru"], Meta(description="a cell between encoder and heads; none = no memory")
    ] = "none"
    recurrent_size: Annotated[int, Meta(ge=1, le=65_536, description="units of the cell")] = 256
    normalize_observation: Annotated[
        bool, Meta(description="running mean and deviation per element; not of images")
    ] = False
    noisy: Annotated[
        float, Meta(ge=0, le=100, description="dqn, c51: deviation of noisy layers x sqrt(inputs); 0 = none")
    ] = 0.0
    stream_gradient: Annotated[
        float, Meta(gt=0, le=1, description="dueling: of what both streams send back; 1 = all of it")
    ] = 0.7071067811865476


class OptimizerSection(Section, frozen=True, kw_only=True):
    """The optimizer (actorlearn.optim.interface.OptimizerSettings)."""

    name: Annotated[Literal["rmsprop", "adam"], Meta(description="rmsprop or adam")]
    learning_rate: Annotated[float, Meta(gt=0, le=1_000, description="at step 0")]
    learning_rate_final: Annotated[float, Meta(ge=0, le=1_000, description="reached linearly at total_steps")]
    decay: Annotated[float, Meta(ge=0, lt=1, description="rmsprop: decay of the squared gradients, per update")]
    betas: Annotated[
        list[Annotated[float, Meta(ge=0, lt=1)]],
        Meta(min_length=2, max_length=2, description="adam: decay of both moments, per update"),
    ]
    epsilon: Annotated[float, Meta(gt=0, le=1_000, description="added to the denominator")]
    epsilon_inside_root: Annotated[bool, Meta(description="rmsprop: sqrt(a + epsilon) instead of sqrt(a) + epsilon")]
    epsilon_hat: Annotated[
        bool, Meta(description="adam: TensorFlow's form, epsilon not rescaled by the bias correction")
    ]
    accumulator_init: Annotated[float, Meta(ge=0, le=1_000_000, description="rmsprop: squared gradients at the start")]
    centered: Annotated[bool, Meta(description="rmsprop: subtract the squared mean gradient")]
    clip_norm: Annotated[
        float, Meta(ge=0, le=1_000_000, description="largest global norm of the gradient; 0 = not clipped")
    ]


class AlgorithmSection(Section, frozen=True, kw_only=True):
    """The loss (actorlearn.algorithms.interface.AlgorithmSettings)."""

    name: Annotated[
        str,
        Meta(
            pattern=f"^({'|'.join(ALGORITHMS)}|{CODE})$",
            description=f"{', '.join(ALGORITHMS)} or package.module:Name",
            examples=[*ALGORITHMS],
            extra={"or": "package.module:Name"},
        ),
    ] = "a2c"
    horizon: Annotated[
        int, Meta(ge=1, le=10_000, description="agent steps per environment and update (rows of a block)")
    ]
    batch_steps: (
        Annotated[
            int,
            Meta(
                ge=1,
                le=1_000_000_000,
                description="agent steps of an update, of all a learner's environments: gives horizon; null = not",
            ),
        ]
        | None
    ) = None
    discount: Annotated[float, Meta(gt=0, le=1, description="per agent step")]
    entropy_cost: Annotated[float, Meta(ge=0, le=1_000, description="weight of the entropy bonus")]
    entropy_cost_final: Annotated[float, Meta(ge=0, le=1_000, description="reached linearly at total_steps")]
    value_cost: Annotated[float, Meta(ge=0, le=1_000, description="weight of (return - value)^2, no half")]
    loss_scale: Annotated[float, Meta(gt=0, le=1_000_000, description="factor on the whole loss, before clip_norm")]
    normalize_reward: Annotated[
        bool, Meta(description="over the running deviation of the discounted return, then reward_clip")
    ] = False
    reduction: Annotated[
        Literal["mean", "sum"], Meta(description="of the loss over transitions; sum meets clip_norm too")
    ] = "mean"
    reward_clip: (
        Annotated[float, Meta(gt=0, le=1_000_000, description="rewards are clipped to +-this; null = not")] | None
    )
    life_loss_terminal: Annotated[bool, Meta(description="a lost life ends the return (the game is played on)")]
    bootstrap_on_truncation: Annotated[
        bool, Meta(description="a time limit is not a terminal: add V(final observation)")
    ]
    gae_lambda: Annotated[float, Meta(ge=0, le=1, description="of advantages, per agent step; 1 = n-step returns")] = (
        1.0
    )
    ratio_clip: Annotated[
        float, Meta(gt=0, le=1_000, description="ppo: at step 0; how far a ratio of probabilities may gain")
    ] = 0.2
    ratio_clip_final: Annotated[float, Meta(ge=0, le=1_000, description="ppo: reached linearly at total_steps")]
    value_clip: (
        Annotated[float, Meta(gt=0, le=1_000_000, description="ppo: a value may gain this far; null = any way")] | None
    ) = None
    normalize_advantage: Annotated[bool, Meta(description="ppo: mean 0 and deviation 1 within each minibatch")] = False
    rho_clip: Annotated[float, Meta(gt=0, le=1_000_000, description="impala: largest ratio that weighs an error")] = 1.0
    c_clip: Annotated[
        float, Meta(gt=0, le=1_000_000, description="impala: largest ratio that carries errors back a step")
    ] = 1.0
    epochs: Annotated[
        int, Meta(ge=0, le=1_000, description="updates from each transition; 0 = sample and learn nothing")
    ] = 1
    minibatches: Annotated[
        int, Meta(ge=1, le=10_000, description="parts of a batch: of environments; ppo: of transitions")
    ] = 1
    max_policy_lag: (
        Annotated[
            int,
            Meta(
                ge=0,
                le=1_000,
                description="updates that acting weights may be behind; null = as many as rollouts are open",
            ),
        ]
        | None
    ) = None
    on_policy_lag: Annotated[
        Literal["wait", "drop"],
        Meta(description="beyond it: wait = fewer rollouts are open, drop = older transitions are not learned from"),
    ] = "wait"
    double: Annotated[
        bool, Meta(description="dqn, c51: the network chooses the action that the target network values")
    ] = False
    dueling: Annotated[
        bool, Meta(description="dqn, c51: heads of the state's value and of each action's advantage")
    ] = False
    n_step: Annotated[
        int, Meta(ge=1, le=1_000, description="dqn, c51: agent steps of rewards in a return, then a value")
    ] = 1
    target_every_steps: Annotated[
        int,
        Meta(
            ge=1, le=1_000_000_000, description="dqn, c51: agent steps of all environments between two target networks"
        ),
    ]
    huber_delta: Annotated[
        float, Meta(gt=0, le=1_000_000, description="dqn: error beyond which the loss is linear")
    ] = 1.0
    atoms: Annotated[int, Meta(ge=2, le=1_000, description="c51: values of a distribution")] = 51
    value_min: Annotated[float, Meta(ge=-1_000_000, le=1_000_000, description="c51: the smallest of them")] = -10.0
    value_max: Annotated[float, Meta(ge=-1_000_000, le=1_000_000, description="c51: the largest of them")] = 10.0
    epsilon_initial: Annotated[float, Meta(ge=0, le=1, description="dqn, c51: share of random actions at first")] = 1.0
    epsilon_final: Annotated[float, Meta(ge=0, le=1, description="dqn, c51: reached linearly")] = 0.1
    epsilon_final_min: (
        Annotated[
            float,
            Meta(
                gt=0, le=1, description="dqn, c51: that of environment 0, log-spaced up to the last's; null = all alike"
            ),
        ]
        | None
    ) = None
    epsilon_hold_steps: Annotated[
        int, Meta(ge=0, le=1_000_000_000_000, description="dqn, c51: agent steps before epsilon falls")
    ]
    epsilon_steps: Annotated[
        int, Meta(ge=1, le=1_000_000_000_000, description="dqn, c51: agent steps in which it falls")
    ]
    epsilon_eval: Annotated[float, Meta(ge=0, le=1, description="dqn, c51: in evaluations that are not greedy")]


class EnvSection(Section, frozen=True, kw_only=True):
    """The environment (actorlearn.envs.interface.EnvSettings)."""

    id: EnvId
    kwargs: Annotated[Arguments, Meta(description="gymnasium: arguments of its constructor")] = {}
    wrappers: Annotated[
        list[WrapperSection],
        Meta(max_length=64, description="gymnasium: put around it, the first innermost; names or {name, kwargs}"),
    ] = []
    preset: Annotated[
        Literal["dqn", "paac", "stooke-abbeel"], Meta(description="atari: how a screen becomes an observation")
    ]
    frame_skip: Annotated[int, Meta(ge=1, le=64, description="atari: emulator frames per agent step")]
    stack: Annotated[int, Meta(ge=1, le=64, description="atari: frames in one observation")]
    noop_max: Annotated[int, Meta(ge=0, le=1_000, description="atari: most random no-op frames at the start of a game")]
    repeat_action_probability: Annotated[
        float, Meta(ge=0, lt=1, description="atari: sticky actions; probability per frame")
    ]
    full_action_space: Annotated[bool, Meta(description="atari: all 18 actions instead of the game's own")]
    fire_on_reset: Annotated[bool, Meta(description="atari: press FIRE at the start of a game")]
    time_limit_steps: Annotated[
        int, Meta(ge=0, le=1_000_000_000, description="agent steps per game; 0 = none, or the id's own limit")
    ]


class ReplaySection(Section, frozen=True, kw_only=True):
    """The replay of each learner, for dqn and c51 (actorlearn.replay.settings.ReplaySettings)."""

    capacity_steps: Annotated[
        int, Meta(ge=1, le=1_000_000_000, description="transitions kept, of all environments of a learner")
    ]
    batch_size: Annotated[
        int, Meta(ge=1, le=65_536, description="transitions of one update, drawn with replacement")
    ] = 32
    base_batch_size: (
        Annotated[
            int,
            Meta(
                ge=1,
                le=65_536,
                description="transitions that learning_rate and adam's epsilon are for; null = batch_size",
            ),
        ]
        | None
    ) = None
    ratio: Annotated[
        float, Meta(gt=0, le=10_000, description="times each step is learned from: batch_size x updates / steps")
    ] = 8.0
    learning_starts_steps: Annotated[
        int, Meta(ge=1, le=1_000_000_000, description="agent steps stored before the first update")
    ]
    prioritised: Annotated[bool, Meta(description="drawn in proportion to priority^alpha instead of all alike")] = False
    alpha: Annotated[float, Meta(ge=0, le=10, description="prioritised: 0 = all alike")] = 0.6
    beta: Annotated[float, Meta(ge=0, le=10, description="prioritised: of the weights against the bias, at step 0")] = (
        0.4
    )
    beta_final: Annotated[
        float, Meta(ge=0, le=10, description="prioritised: reached linearly at total_steps; 1 = no bias")
    ] = 1.0
    save: Annotated[bool, Meta(description="with every checkpoint, so that a resumed run goes on with it; large")] = (
        False
    )
    secondary_batch_size: Annotated[
        int,
        Meta(
            ge=0,
            le=65_536,
            description="transitions of an update of a second network that learns beside, and never acts; 0 = none",
        ),
    ] = 0
