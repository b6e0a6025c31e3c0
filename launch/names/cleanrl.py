"""The hyperparameters of CleanRL, the fields of ``Args`` in six of its scripts, as a table for ``library.py``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from launch.names.library import (
    EPSILON,
    EVERY_STEP,
    STARTS,
    WHOLE_COPIES,
    Converted,
    Keys,
    Library,
    Name,
    Values,
    count,
    environments,
    epsilon_steps,
    integer,
    learning_starts,
    nothing,
    number,
    only,
    random_start,
    switch,
    unless,
    whole,
    without,
)

PPO = ("ppo", "ppo_atari", "ppo_continuous_action")
DQN = ("dqn", "dqn_atari")
SAC = ("sac_continuous_action",)
ALL = (*PPO, *DQN, *SAC)
SAVING = ("ppo_continuous_action", *DQN)


def _constant(value: Any, _: Values) -> Keys:
    return {"optimizer.learning_rate": value, "optimizer.schedule": "constant"}


def _ratio(value: Any, values: Values) -> Keys:
    steps = integer(value)
    return {
        "algorithm.horizon": steps,
        "replay.ratio": whole("batch_size", values) / (steps * whole("num_envs", values)),
    }


def _sac_batch(value: Any, values: Values) -> Keys:
    size = integer(value)
    return {"replay.batch_size": size, "replay.ratio": size / whole("num_envs", values)}


def _critic_rate(value: Any, _: Values) -> Keys:
    learned = ("critic_1", "critic_2", "temperature")
    return {"optimizer.groups": {name: {"learning_rate": value} for name in learned}}


TABLE = (
    # Experiment
    Name("exp_name", ALL, ("name",), "the name of the run and of its folder", unless(None, "name")),
    Name("seed", ALL, ("seed",), default=1),
    *without(
        "torch_deterministic", ALL, "no key is needed; docs/guarantees.md says which runs are repeatable", default=True
    ),
    Name(
        "cuda",
        ALL,
        ("trainer.device",),
        "false = cpu; true sets no key: on a machine with a GPU, set trainer.device: cuda",
        switch({}, {"trainer.device": "cpu"}),
        True,
    ),
    Name(
        "track",
        ALL,
        ("report.writers",),
        "true = [tensorboard, wandb]; false sets no key",
        switch({"report.writers": ["tensorboard", "wandb"]}, {}),
        False,
    ),
    *without("wandb_project_name", ALL, "the environment variable WANDB_PROJECT names the project", default="cleanRL"),
    *without("wandb_entity", ALL, "the environment variable WANDB_ENTITY names the team"),
    Name(
        "capture_video",
        ALL,
        ("evaluator.record",),
        "true also sets evaluator.count: 1",
        switch({"evaluator.count": 1, "evaluator.record": True}, {}),
        False,
    ),
    *without(
        "save_model", SAVING, "every run saves checkpoints; the keys are in the section checkpoint", default=False
    ),
    *without("upload_model", SAVING, "actorlearn export writes a policy that you can upload", default=False),
    *without("hf_entity", SAVING, "actorlearn uploads nothing", default=""),
    Name(
        "env_id",
        ALL,
        ("env.id",),
        "give it as the first argument of train; the ids of Atari games have the form ALE/Pong-v5",
        nothing,
    ),
    count("total_timesteps", ALL, "total_steps", 500_000),
    Name("num_envs", ALL, ("simulators.count", "simulators.envs"), "their product is num_envs", environments, 1),
    Name("gamma", ALL, ("algorithm.discount",), default=0.99),
    # PPO
    Name("learning_rate", PPO, ("optimizer.learning_rate",), default=2.5e-4),
    Name(
        "anneal_lr",
        PPO,
        ("optimizer.schedule",),
        "true = linear, to 0 at the end of the run; false = constant",
        switch(
            {"optimizer.schedule": "linear", "optimizer.learning_rate_final": 0.0}, {"optimizer.schedule": "constant"}
        ),
        True,
    ),
    count("num_steps", PPO, "algorithm.horizon", 128),
    Name("gae_lambda", PPO, ("algorithm.gae_lambda",), default=0.95),
    Name("num_minibatches", PPO, ("algorithm.minibatches",), default=4),
    Name("update_epochs", PPO, ("algorithm.epochs",), default=4),
    Name("norm_adv", PPO, ("algorithm.normalize_advantage",), default=True),
    Name("clip_coef", PPO, ("algorithm.ratio_clip",), default=0.2),
    Name(
        "clip_vloss",
        PPO,
        ("algorithm.value_clip",),
        "true = clip_coef; false = null",
        lambda value, values: {"algorithm.value_clip": values["clip_coef"] if value else None},
        True,
    ),
    Name("ent_coef", PPO, ("algorithm.entropy_cost",), default=0.01),
    Name(
        "vf_coef",
        PPO,
        ("algorithm.value_cost",),
        "half of vf_coef",
        lambda value, _: {"algorithm.value_cost": number(value) / 2},
        0.5,
    ),
    Name("max_grad_norm", PPO, ("optimizer.clip_norm",), default=0.5),
    Name(
        "target_kl",
        PPO,
        ("algorithm.target_kl",),
        "target_kl / 1.5, because actorlearn ends an update early at 1.5 times the key. actorlearn compares before "
        "each minibatch, CleanRL after each epoch",
        lambda value, _: {"algorithm.target_kl": None if value is None else number(value) / 1.5},
    ),
    *without("batch_size minibatch_size num_iterations", PPO, "the script computes it from other arguments", nothing),
    # DQN
    Name(
        "learning_rate", DQN, ("optimizer.learning_rate",), "also sets optimizer.schedule: constant", _constant, 2.5e-4
    ),
    *without("tau", DQN, WHOLE_COPIES, only((1,), WHOLE_COPIES), 1.0),
    count("target_network_frequency", DQN, "algorithm.target_every_steps", 500),
    Name("batch_size", DQN, ("replay.batch_size",), default=128),
    Name("start_e", DQN, ("algorithm.epsilon_initial",), default=1),
    Name("end_e", DQN, ("algorithm.epsilon_final",), default=0.05),
    Name("exploration_fraction", DQN, ("algorithm.epsilon_steps",), EPSILON, epsilon_steps, 0.5),
    Name("learning_starts", DQN, ("replay.learning_starts_steps",), STARTS, learning_starts, 10_000),
    Name(
        "train_frequency",
        DQN,
        ("algorithm.horizon", "replay.ratio"),
        "horizon = train_frequency; ratio = batch_size / (train_frequency x num_envs)",
        _ratio,
        10,
    ),
    # SAC
    Name("policy_lr", SAC, ("optimizer.learning_rate",), "also sets optimizer.schedule: constant", _constant, 3e-4),
    Name(
        "q_lr",
        SAC,
        ("optimizer.groups",),
        "becomes learning_rate of the groups critic_1, critic_2 and temperature",
        _critic_rate,
        1e-3,
    ),
    Name(
        "batch_size",
        SAC,
        ("replay.batch_size", "replay.ratio"),
        "replay.ratio = batch_size / num_envs",
        _sac_batch,
        256,
    ),
    Name("tau", SAC, ("algorithm.target_rate",), default=0.005),
    Name(
        "learning_starts", SAC, ("replay.learning_starts_steps", "algorithm.random_steps"), STARTS, random_start, 5_000
    ),
    *without(
        "policy_frequency",
        SAC,
        "the actor is updated as often as the critics, once in every step; CleanRL does the same on average",
        default=2,
    ),
    *without(
        "target_network_frequency", SAC, "the target critics move after every optimizer step", only((1,), EVERY_STEP), 1
    ),
    *without("alpha", SAC, "the temperature is always learned", default=0.2),
    *without(
        "autotune",
        SAC,
        "the temperature is always learned, as with autotune = true",
        only((True,), "the temperature is always learned"),
        True,
    ),
    # Both
    count("buffer_size", (*DQN, *SAC), "replay.capacity_steps", 1_000_000),
)

_PLAIN = {"algorithm.reward_clip": None, "algorithm.life_loss_terminal": False}
_ATARI = {
    "env.preset": "dqn",
    "env.fire_on_reset": True,
    "model.name": "nature",
    "algorithm.reward_clip": 1.0,
    "algorithm.life_loss_terminal": True,
}
_FIXED_PPO: Keys = {
    "model.init": "orthogonal",
    "algorithm.loss_scale": 1.0,
    "algorithm.bootstrap_on_truncation": False,
    "optimizer.name": "adam",
    "optimizer.epsilon": 1e-5,
}
_FIXED_PERCEPTRON: Keys = {"model.name": "mlp", "model.hidden_sizes": [64, 64], "model.activation": "tanh"}
_FIXED_DQN: Keys = {
    "algorithm.loss_scale": 2.0,  # the Huber loss has a factor 1/2
    "algorithm.huber_delta": 1e6,
    "algorithm.bootstrap_on_truncation": True,
    "algorithm.epsilon_hold_steps": 0,
    "optimizer.name": "adam",
    "optimizer.epsilon": 1e-8,
    "optimizer.epsilon_hat": False,
    "optimizer.clip_norm": 0.0,
}

CLEANRL = Library(
    title="CleanRL",
    table=TABLE,
    other_defaults={
        "ppo": {"num_envs": 4},
        "ppo_atari": {"total_timesteps": 10_000_000, "num_envs": 8, "clip_coef": 0.1},
        "ppo_continuous_action": {
            "total_timesteps": 1_000_000,
            "learning_rate": 3e-4,
            "num_steps": 2048,
            "num_minibatches": 32,
            "update_epochs": 10,
            "ent_coef": 0.0,
        },
        "dqn": {"buffer_size": 10_000},
        "dqn_atari": {
            "total_timesteps": 10_000_000,
            "learning_rate": 1e-4,
            "target_network_frequency": 1_000,
            "batch_size": 32,
            "end_e": 0.01,
            "exploration_fraction": 0.1,
            "learning_starts": 80_000,
            "train_frequency": 4,
        },
        "sac_continuous_action": {"total_timesteps": 1_000_000},
    },
    fixed={
        "ppo": {
            **_FIXED_PPO,
            **_FIXED_PERCEPTRON,
            **_PLAIN,
            "model.normalize_observation": False,
            "algorithm.normalize_reward": False,
        },
        "ppo_atari": {**_FIXED_PPO, **_ATARI},
        "ppo_continuous_action": {
            **_FIXED_PPO,
            **_FIXED_PERCEPTRON,
            "model.log_std_init": 0.0,
            "model.normalize_observation": True,
            "algorithm.normalize_reward": True,
            "algorithm.reward_clip": 10.0,
        },
        "dqn": {
            **_FIXED_DQN,
            **_PLAIN,
            "model.name": "mlp",
            "model.hidden_sizes": [120, 84],
            "model.activation": "relu",
        },
        "dqn_atari": {**_FIXED_DQN, **_ATARI},
        "sac_continuous_action": {
            "model.name": "mlp",
            "model.hidden_sizes": [256, 256],
            "model.activation": "relu",
            "algorithm.loss_scale": 1.0,
            "algorithm.horizon": 1,
            "algorithm.reward_clip": None,
            "algorithm.bootstrap_on_truncation": True,
            "optimizer.name": "adam",
            "optimizer.epsilon": 1e-8,
            "optimizer.clip_norm": 0.0,
        },
    },
    names_here={**dict.fromkeys(PPO, "ppo"), **dict.fromkeys(DQN, "dqn"), SAC[0]: "sac"},
)


def from_cleanrl(script: str, args: Mapping[str, Any] | object) -> Converted:
    """Convert the arguments of a script of CleanRL into keys, for ``train(env, **keys)``.

    Args:
        script: ppo, ppo_atari, ppo_continuous_action, dqn, dqn_atari or sac_continuous_action.
        args: Its ``Args``, or a mapping. Names that are left out have the defaults of the script.

    Returns:
        The keys, and the given names whose values have no counterpart in actorlearn, each with the reason.

    Raises:
        ValueError: The script has no such name, or a value is of a wrong type.
    """
    return CLEANRL.convert(script, args if isinstance(args, Mapping) else vars(args))
