"""CleanRL's arguments: the fields of ``Args`` in six of its scripts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from launch.names.library import (
    EVERY_STEP,
    WHOLE_COPIES,
    Converted,
    Keys,
    Library,
    Name,
    Values,
    count,
    environments,
    integer,
    learning_starts,
    nothing,
    only,
    random_start,
    share_of_steps,
    unless,
    without,
)

PPO = ("ppo", "ppo_atari", "ppo_continuous_action")
DQN = ("dqn", "dqn_atari")
SAC = ("sac_continuous_action",)
ALL = (*PPO, *DQN, *SAC)
SAVING = ("ppo_continuous_action", *DQN)
COMPUTED = "the script computes it from other arguments"
_STARTS = "learning_starts, or batch_size if it is larger"


def _device(values: Values) -> Keys:
    return {} if values["cuda"] else {"trainer.device": "cpu"}


def _tracked(values: Values) -> Keys:
    return {"report.writers": ["tensorboard", "wandb"]} if values["track"] else {}


def _filmed(values: Values) -> Keys:
    return {"evaluator.count": 1, "evaluator.record": True} if values["capture_video"] else {}


def _annealed(values: Values) -> Keys:
    if not values["anneal_lr"]:
        return {"optimizer.schedule": "constant"}
    return {"optimizer.schedule": "linear", "optimizer.learning_rate_final": 0.0}


def _constant(name: str) -> Callable[[Values], Keys]:
    return lambda values: {"optimizer.learning_rate": values[name], "optimizer.schedule": "constant"}


def _target_kl(values: Values) -> Keys:
    given = values["target_kl"]
    return {"algorithm.target_kl": None if given is None else given / 1.5}


def _value_clip(values: Values) -> Keys:
    return {"algorithm.value_clip": values["clip_coef"] if values["clip_vloss"] else None}


def _ratio(values: Values) -> Keys:
    steps = integer(values["train_frequency"])
    ratio = values["batch_size"] / (steps * values["num_envs"])
    return {"algorithm.horizon": steps, "replay.ratio": ratio}


def _sac_batch(values: Values) -> Keys:
    size = integer(values["batch_size"])
    return {"replay.batch_size": size, "replay.ratio": size / integer(values["num_envs"])}


def _critic_rate(values: Values) -> Keys:
    return {"optimizer.groups": {name: {"learning_rate": values["q_lr"]} for name in _LEARNED_WITH_Q_LR}}


_LEARNED_WITH_Q_LR = ("critic_1", "critic_2", "temperature")

TABLE = (
    # Experiment
    Name("exp_name", ALL, ("name",), "the name of the run and of its folder", unless(None, "exp_name", "name")),
    Name("seed", ALL, ("seed",)),
    *without("torch_deterministic", ALL, "no key is needed; docs/guarantees.md says which runs are repeatable"),
    Name(
        "cuda",
        ALL,
        ("trainer.device",),
        "false = cpu; true sets no key: on a machine with a GPU, set trainer.device: cuda",
        _device,
    ),
    Name("track", ALL, ("report.writers",), "true = [tensorboard, wandb]; false sets no key", _tracked),
    *without("wandb_project_name", ALL, "the environment variable WANDB_PROJECT names the project"),
    *without("wandb_entity", ALL, "the environment variable WANDB_ENTITY names the team"),
    Name("capture_video", ALL, ("evaluator.record",), "true also sets evaluator.count: 1", _filmed),
    *without("save_model", SAVING, "every run saves checkpoints; the keys are in the section checkpoint"),
    *without("upload_model", SAVING, "actorlearn export writes a policy that you can upload"),
    *without("hf_entity", SAVING, "actorlearn uploads nothing"),
    Name(
        "env_id",
        ALL,
        ("env.id",),
        "give it as the first argument of train; ids of Atari games are as ALE/Pong-v5",
        nothing,
    ),
    count("total_timesteps", ALL, "total_steps"),
    Name(
        "num_envs", ALL, ("simulators.count", "simulators.envs"), "their product is num_envs", environments("num_envs")
    ),
    Name("gamma", ALL, ("algorithm.discount",)),
    # PPO
    Name("learning_rate", PPO, ("optimizer.learning_rate",)),
    Name(
        "anneal_lr",
        PPO,
        ("optimizer.schedule",),
        "true = linear, to 0 at the end of the run; false = constant",
        _annealed,
    ),
    count("num_steps", PPO, "algorithm.horizon"),
    Name("gae_lambda", PPO, ("algorithm.gae_lambda",)),
    Name("num_minibatches", PPO, ("algorithm.minibatches",)),
    Name("update_epochs", PPO, ("algorithm.epochs",)),
    Name("norm_adv", PPO, ("algorithm.normalize_advantage",)),
    Name("clip_coef", PPO, ("algorithm.ratio_clip",)),
    Name("clip_vloss", PPO, ("algorithm.value_clip",), "true = clip_coef; false = null", _value_clip),
    Name("ent_coef", PPO, ("algorithm.entropy_cost",)),
    Name(
        "vf_coef",
        PPO,
        ("algorithm.value_cost",),
        "half of vf_coef",
        lambda values: {"algorithm.value_cost": values["vf_coef"] / 2},
    ),
    Name("max_grad_norm", PPO, ("optimizer.clip_norm",)),
    Name(
        "target_kl",
        PPO,
        ("algorithm.target_kl",),
        "target_kl / 1.5, because an update ends early at 1.5 times the key; compared before each minibatch, and in "
        "CleanRL after each epoch",
        _target_kl,
    ),
    *without("batch_size minibatch_size num_iterations", PPO, COMPUTED, nothing),
    # DQN
    Name(
        "learning_rate",
        DQN,
        ("optimizer.learning_rate",),
        "with optimizer.schedule: constant",
        _constant("learning_rate"),
    ),
    *without("tau", DQN, WHOLE_COPIES, only("tau", (1,), WHOLE_COPIES)),
    count("target_network_frequency", DQN, "algorithm.target_every_steps"),
    Name("batch_size", DQN, ("replay.batch_size",)),
    Name("start_e", DQN, ("algorithm.epsilon_initial",)),
    Name("end_e", DQN, ("algorithm.epsilon_final",)),
    Name(
        "exploration_fraction",
        DQN,
        ("algorithm.epsilon_steps",),
        "exploration_fraction x total_timesteps",
        partial(share_of_steps, total="total_timesteps"),
    ),
    Name("learning_starts", DQN, ("replay.learning_starts_steps",), _STARTS, learning_starts),
    Name(
        "train_frequency",
        DQN,
        ("algorithm.horizon", "replay.ratio"),
        "horizon = train_frequency; ratio = batch_size / (train_frequency x num_envs)",
        _ratio,
    ),
    # SAC
    Name("policy_lr", SAC, ("optimizer.learning_rate",), "with optimizer.schedule: constant", _constant("policy_lr")),
    Name("q_lr", SAC, ("optimizer.groups",), "learning_rate of critic_1, critic_2 and temperature", _critic_rate),
    Name("batch_size", SAC, ("replay.batch_size", "replay.ratio"), "replay.ratio = batch_size / num_envs", _sac_batch),
    Name("tau", SAC, ("algorithm.target_rate",)),
    Name(
        "learning_starts",
        SAC,
        ("replay.learning_starts_steps", "algorithm.random_steps"),
        _STARTS,
        random_start,
    ),
    *without(
        "policy_frequency",
        SAC,
        "the actor is updated in every step, as often as the critics; on average this is so in CleanRL too",
    ),
    *without(
        "target_network_frequency",
        SAC,
        "the target critics move after every optimizer step",
        only("target_network_frequency", (1,), EVERY_STEP),
    ),
    *without("alpha", SAC, "the temperature is always learned"),
    *without(
        "autotune",
        SAC,
        "the temperature is always learned, as with autotune = true",
        only("autotune", (True,), "the temperature is always learned"),
    ),
    # Both
    count("buffer_size", (*DQN, *SAC), "replay.capacity_steps"),
)

_EXPERIMENT: dict[str, Any] = {
    "exp_name": None,
    "seed": 1,
    "torch_deterministic": True,
    "cuda": True,
    "track": False,
    "wandb_project_name": "cleanRL",
    "wandb_entity": None,
    "capture_video": False,
}
_MODEL = {"save_model": False, "upload_model": False, "hf_entity": ""}
_PPO: dict[str, Any] = {
    **_EXPERIMENT,
    "env_id": "CartPole-v1",
    "total_timesteps": 500_000,
    "learning_rate": 2.5e-4,
    "num_envs": 4,
    "num_steps": 128,
    "anneal_lr": True,
    "gamma": 0.99,
    "gae_lambda": 0.95,
    "num_minibatches": 4,
    "update_epochs": 4,
    "norm_adv": True,
    "clip_coef": 0.2,
    "clip_vloss": True,
    "ent_coef": 0.01,
    "vf_coef": 0.5,
    "max_grad_norm": 0.5,
    "target_kl": None,
    "batch_size": 0,
    "minibatch_size": 0,
    "num_iterations": 0,
}
_DQN: dict[str, Any] = {
    **_EXPERIMENT,
    **_MODEL,
    "env_id": "CartPole-v1",
    "total_timesteps": 500_000,
    "learning_rate": 2.5e-4,
    "num_envs": 1,
    "buffer_size": 10_000,
    "gamma": 0.99,
    "tau": 1.0,
    "target_network_frequency": 500,
    "batch_size": 128,
    "start_e": 1,
    "end_e": 0.05,
    "exploration_fraction": 0.5,
    "learning_starts": 10_000,
    "train_frequency": 10,
}

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
    defaults={
        "ppo": _PPO,
        "ppo_atari": {
            **_PPO,
            "env_id": "BreakoutNoFrameskip-v4",
            "total_timesteps": 10_000_000,
            "num_envs": 8,
            "clip_coef": 0.1,
        },
        "ppo_continuous_action": {
            **_PPO,
            **_MODEL,
            "env_id": "HalfCheetah-v4",
            "total_timesteps": 1_000_000,
            "learning_rate": 3e-4,
            "num_envs": 1,
            "num_steps": 2048,
            "num_minibatches": 32,
            "update_epochs": 10,
            "ent_coef": 0.0,
        },
        "dqn": _DQN,
        "dqn_atari": {
            **_DQN,
            "env_id": "BreakoutNoFrameskip-v4",
            "total_timesteps": 10_000_000,
            "learning_rate": 1e-4,
            "buffer_size": 1_000_000,
            "target_network_frequency": 1_000,
            "batch_size": 32,
            "end_e": 0.01,
            "exploration_fraction": 0.1,
            "learning_starts": 80_000,
            "train_frequency": 4,
        },
        "sac_continuous_action": {
            **_EXPERIMENT,
            "env_id": "Hopper-v4",
            "total_timesteps": 1_000_000,
            "num_envs": 1,
            "buffer_size": 1_000_000,
            "gamma": 0.99,
            "tau": 0.005,
            "batch_size": 256,
            "learning_starts": 5_000,
            "policy_lr": 3e-4,
            "q_lr": 1e-3,
            "policy_frequency": 2,
            "target_network_frequency": 1,
            "alpha": 0.2,
            "autotune": True,
        },
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
    """Return arguments of a script of CleanRL as keys, with which ``train(env, **keys)`` trains.

    Args:
        script: ppo, ppo_atari, ppo_continuous_action, dqn, dqn_atari or sac_continuous_action.
        args: Its ``Args``, or a mapping. Names that are left out have the defaults of the script.

    Returns the keys, and the given names whose values have no counterpart, each with the reason.

    Raises:
        ValueError: The script has no such name, or a value is of a wrong type.
    """
    return CLEANRL.convert(script, args if isinstance(args, Mapping) else vars(args))
