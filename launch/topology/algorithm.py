"""The section ``algorithm`` of a topology: the numbers of every loss, and of how values are acted upon.

Pure. What they mean is in ``actorlearn/algorithms``.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from actorlearn.algorithms.interface import SHIPPED
from launch.topology.fields import Section, known_or_code

AlgorithmName = Annotated[
    str, AfterValidator(known_or_code(SHIPPED)), Field(json_schema_extra={"examples": [*SHIPPED]})
]


class AlgorithmSection(Section):
    """The loss (actorlearn.algorithms.interface.AlgorithmSettings)."""

    name: AlgorithmName = Field(description=f"{', '.join(SHIPPED)} or package.module:Name")
    horizon: int = Field(ge=1, le=10_000, description="agent steps per environment and update (rows of a block)")
    batch_steps: int | None = Field(
        ge=1,
        le=10**9,
        description="agent steps of an update, of all a learner's environments: gives horizon; null = not",
    )
    discount: float = Field(gt=0, le=1, description="per agent step")
    entropy_cost: float = Field(ge=0, le=1_000, description="weight of the entropy bonus")
    entropy_cost_final: float = Field(ge=0, le=1_000, description="reached linearly at total_steps")
    value_cost: float = Field(ge=0, le=1_000, description="weight of (return - value)^2, no half")
    loss_scale: float = Field(gt=0, le=1_000_000, description="factor on the whole loss, before clip_norm")
    normalize_reward: bool = Field(description="over the running deviation of the discounted return, then reward_clip")
    reduction: Literal["mean", "sum"] = Field(description="of the loss over transitions; sum meets clip_norm too")
    reward_clip: float | None = Field(gt=0, le=1_000_000, description="rewards are clipped to +-this; null = not")
    life_loss_terminal: bool = Field(description="a lost life ends the return (the game is played on)")
    bootstrap_on_truncation: bool = Field(description="a time limit is not a terminal: add V(final observation)")
    gae_lambda: float = Field(ge=0, le=1, description="of advantages, per agent step; 1 = n-step returns")
    ratio_clip: float = Field(gt=0, le=1_000, description="ppo: at step 0; how far a ratio of probabilities may gain")
    ratio_clip_final: float = Field(ge=0, le=1_000, description="ppo: reached linearly at total_steps")
    value_clip: float | None = Field(gt=0, le=1_000_000, description="ppo: a value may gain this far; null = any way")
    normalize_advantage: bool = Field(description="ppo: mean 0 and deviation 1 within each minibatch")
    rho_clip: float = Field(gt=0, le=1_000_000, description="impala: largest ratio that weighs an error")
    c_clip: float = Field(gt=0, le=1_000_000, description="impala: largest ratio that carries errors back a step")
    epochs: int = Field(ge=0, le=1_000, description="updates from each transition; 0 = sample and learn nothing")
    minibatches: int = Field(ge=1, le=10_000, description="parts of a batch: of environments; ppo: of transitions")
    max_policy_lag: int | None = Field(
        ge=0, le=1_000, description="updates that acting weights may be behind; null = as many as rollouts are open"
    )
    on_policy_lag: Literal["wait", "drop"] = Field(
        description="beyond it: wait = fewer rollouts are open, drop = older transitions are not learned from"
    )
    double: bool = Field(description="dqn, c51: the network chooses the action that the target network values")
    dueling: bool = Field(description="dqn, c51: heads of the state's value and of each action's advantage")
    n_step: int = Field(ge=1, le=1_000, description="dqn, c51: agent steps of rewards in a return, then a value")
    target_every_steps: int = Field(
        ge=1, le=10**9, description="dqn, c51: agent steps of all environments between two target networks"
    )
    huber_delta: float = Field(gt=0, le=1_000_000, description="dqn: error beyond which the loss is linear")
    atoms: int = Field(ge=2, le=1_000, description="c51: values of a distribution")
    value_min: float = Field(ge=-1_000_000, le=1_000_000, description="c51: the smallest of them")
    value_max: float = Field(ge=-1_000_000, le=1_000_000, description="c51: the largest of them")
    epsilon_initial: float = Field(ge=0, le=1, description="dqn, c51: share of random actions at first")
    epsilon_final: float = Field(ge=0, le=1, description="dqn, c51: reached linearly")
    epsilon_final_min: float | None = Field(
        gt=0, le=1, description="dqn, c51: that of environment 0, log-spaced up to the last's; null = all alike"
    )
    epsilon_hold_steps: int = Field(ge=0, le=10**12, description="dqn, c51: agent steps before epsilon falls")
    epsilon_steps: int = Field(ge=1, le=10**12, description="dqn, c51: agent steps in which it falls")
    epsilon_eval: float = Field(ge=0, le=1, description="dqn, c51: in evaluations that are not greedy")
