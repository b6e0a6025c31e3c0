"""The hyperparameters of Stable-Baselines3, as a table for ``library.py``.

It has the arguments of PPO, A2C, DQN and SAC, of their ``learn`` and policies, and the names of RL Baselines3 Zoo.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from functools import partial
from math import isclose
from typing import Any

from actorlearn.curves import curve
from launch.names.library import (
    EPSILON,
    EVERY_STEP,
    STARTS,
    WHOLE_COPIES,
    Converted,
    Keys,
    Library,
    Name,
    NoCounterpartError,
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

ON_POLICY = ("ppo", "a2c")
OFF_POLICY = ("dqn", "sac")
ALL = (*ON_POLICY, *OFF_POLICY)
_ACTIVATIONS = {"tanh": "tanh", "relu": "relu", "leakyrelu": "leaky_relu", "elu": "elu", "gelu": "gelu", "silu": "silu"}
"""Class of torch in small letters -> ``model.activation``."""
_PERCEPTRONS = ("MlpPolicy", "MultiInputPolicy", "ActorCriticPolicy", "DQNPolicy", "SACPolicy")
"""Endings of the names of policies that are perceptrons; for example, MlpPolicy is the class ActorCriticPolicy."""
_NOISE = "state-dependent exploration (gSDE) is not supported"
_TORCH_EPSILON = 1e-8
"""Default epsilon of torch's optimizers."""


def read_python(text: str) -> Any:
    """Return the value of a Python expression, such as "dict(net_arch=[64], activation_fn=nn.ReLU)".

    RL Baselines3 Zoo has such values. No code is run: a name such as nn.ReLU becomes the text "ReLU". Raises ValueError
    if the expression has anything but literals, names and dict(...).
    """
    try:
        return _literal(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, ValueError, RecursionError):
        raise ValueError("a text may contain only literals and dict(...); give a dict instead") from None


def _literal(node: ast.AST) -> Any:
    match node:
        case ast.Call(func=ast.Name(id="dict"), args=[], keywords=words):
            return {word.arg: _literal(word.value) for word in words}
        case ast.Dict(keys=keys, values=values):
            return {_literal(key): _literal(value) for key, value in zip(keys, values, strict=True) if key}
        case ast.List(elts=items) | ast.Tuple(elts=items):
            return [_literal(item) for item in items]
        case ast.Attribute(attr=word) | ast.Name(id=word):
            return word
    assert isinstance(node, ast.expr)
    return ast.literal_eval(node)


def _scheduled(value: Any) -> tuple[float, float, str]:
    """Return the first value, the last value and the curve ("constant", "linear", "cosine") of a schedule.

    ``value``: a number, a text such as "lin_3e-4", or a function of the remaining progress. Raises NoCounterpartError
    for another curve.
    """
    if isinstance(value, str) and value.startswith(("lin_", "linear_")):
        return number(value.partition("_")[2]), 0.0, "linear"
    if not callable(value):
        return number(value), number(value), "constant"
    progress = (0.0, 0.25, 0.5, 0.75, 1.0)
    found = [number(value(1.0 - gone)) for gone in progress]  # the library's functions take the remaining progress
    first, last = found[0], found[-1]
    for name in ("constant",) if first == last else ("linear", "cosine"):
        expected = [first + curve(name, gone) * (last - first) for gone in progress]
        if all(map(partial(isclose, rel_tol=1e-6, abs_tol=1e-6 * abs(first)), found, expected)):
            return first, last, name
    raise NoCounterpartError("only constant, linear and cosine schedules have a counterpart")


def _rate(value: Any, _: Values) -> Keys:
    first, last, schedule = _scheduled(value)
    final = {} if schedule == "constant" else {"optimizer.learning_rate_final": last}
    return {"optimizer.learning_rate": first, "optimizer.schedule": schedule, **final}


def _clip(value: Any, _: Values) -> Keys:
    first, last, schedule = _scheduled(value)
    if schedule == "constant":
        return {"algorithm.ratio_clip": first, "algorithm.ratio_clip_final": None}
    return {"algorithm.ratio_clip": first, "algorithm.ratio_clip_final": last, "algorithm.schedule": schedule}


def _value_clip(value: Any, _: Values) -> Keys:
    if value is None:
        return {"algorithm.value_clip": None}
    first, _last, schedule = _scheduled(value)
    if schedule != "constant":
        raise NoCounterpartError("only a constant clip_range_vf has a counterpart")
    return {"algorithm.value_clip": first}


def _minibatches(value: Any, values: Values) -> Keys:
    """Convert ``batch_size`` into the number of minibatches of a rollout, of which the last may be smaller."""
    steps = whole("n_steps", values) * whole("n_envs", values)
    return {"algorithm.minibatches": -(-steps // integer(value))}


def _total(values: Values) -> int | None:
    name = "n_timesteps" if values["total_timesteps"] is None else "total_timesteps"
    return None if values[name] is None else whole(name, values)


def _total_steps(_: Any, values: Values) -> Keys:
    return {} if (steps := _total(values)) is None else {"total_steps": steps}


def _epsilon_steps(value: Any, values: Values) -> Keys:
    return epsilon_steps(value, {**values, "total_timesteps": _total(values)})


def _train_freq(given: Any) -> tuple[int, str]:
    if isinstance(given, tuple | list) and len(given) == 2:
        return integer(given[0]), str(given[1])
    return integer(given), "step"


def _horizon(value: Any, _: Values) -> Keys:
    steps, unit = _train_freq(value)
    if unit != "step":
        raise NoCounterpartError("train_freq in episodes has no counterpart, only in steps; set algorithm.horizon")
    return {"algorithm.horizon": steps}


def _ratio(value: Any, values: Values) -> Keys:
    gradient_steps, batch = integer(value), whole("batch_size", values)
    if gradient_steps < 0:  # as many as steps of all environments
        return {"replay.ratio": float(batch)}
    steps, unit = _train_freq(values["train_freq"])
    if unit != "step" or not gradient_steps:
        raise NoCounterpartError(
            "only a positive number has a counterpart, and only if train_freq is in steps; set replay.ratio"
        )
    return {"replay.ratio": batch * gradient_steps / (steps * whole("n_envs", values))}


def _own_rmsprop(values: Values) -> bool:
    """Whether A2C would train with torch's RMSProp: only with ``use_rms_prop`` and without ``optimizer_class``."""
    return bool(values.get("use_rms_prop")) and values["optimizer_class"] is None


def _rmsprop(_: Any, values: Values) -> Keys:
    """Convert ``use_rms_prop`` into the keys of torch's RMSProp, if A2C uses it."""
    if not _own_rmsprop(values):
        return {}
    return {
        "optimizer.name": "rmsprop",
        "optimizer.epsilon": values["rms_prop_eps"],
        "optimizer.decay": 0.99,
        "optimizer.epsilon_inside_root": False,
        "optimizer.accumulator_init": 0.0,
    }


def _optimizer(value: Any, values: Values) -> Keys:
    """Convert ``optimizer_class``: Adam, or the RMSProp of TensorFlow 1.

    The policies of Stable-Baselines3 set Adam's epsilon to 1e-5, but only if ``optimizer_kwargs`` is not given.
    """
    if _own_rmsprop(values):
        return {}
    if value is None or _word(value) == "Adam":
        epsilon = 1e-5 if values["optimizer_kwargs"] is None else _TORCH_EPSILON
        return {"optimizer.name": "adam", "optimizer.epsilon": epsilon}
    if _word(value) != "RMSpropTFLike":
        raise NoCounterpartError("only Adam and RMSpropTFLike have a counterpart; set optimizer.name and its keys")
    numbers = {"optimizer.decay": 0.99, "optimizer.epsilon_inside_root": True, "optimizer.accumulator_init": 1.0}
    return {"optimizer.name": "rmsprop", "optimizer.epsilon": _TORCH_EPSILON, **numbers}


def _adam(value: Any, _: Values) -> Keys:
    if value is not None and _word(value) != "Adam":
        raise NoCounterpartError("only Adam has a counterpart; set optimizer.name and its keys")
    return {}


def _optimizer_numbers(value: Any, values: Values) -> Keys:
    known = {"eps": "optimizer.epsilon", "betas": "optimizer.betas", "alpha": "optimizer.decay"}
    given = value or {}
    if given and _own_rmsprop(values):
        raise NoCounterpartError("A2C ignores this argument if use_rms_prop is true and optimizer_class is not given")
    if strange := [name for name in given if name not in known and given[name]]:
        raise NoCounterpartError(f"{', '.join(strange)} cannot be converted; set the keys of the section optimizer")
    return {known[name]: value for name, value in given.items() if name in known}


def _word(value: Any) -> str:
    """Return the name of a class without its module; ``value``: the class or its dotted name."""
    return str(getattr(value, "__name__", value)).rpartition(".")[2]


def _perceptron(values: Values) -> bool:
    return _word(values["policy"]).endswith(_PERCEPTRONS)


def _policy(value: Any, values: Values) -> Keys:
    if "MultiInput" in _word(value):  # the class of PPO and A2C is MultiInputActorCriticPolicy
        return {}
    if _perceptron(values):
        return {"model.name": "mlp"}
    if _word(value).endswith("CnnPolicy"):
        return {"model.name": "nature"}
    raise NoCounterpartError(
        "only MlpPolicy, MultiInputPolicy and CnnPolicy have a counterpart; set model.name and, for a policy with an "
        "LSTM, model.recurrence"
    )


def _no_images(value: Any, values: Values) -> Keys:
    if not _perceptron(values):
        raise NoCounterpartError("sac learns only from vectors; use MlpPolicy or MultiInputPolicy")
    return _policy(value, values)


def _layers(given: Any, values: Values, default: Sequence[int], value_network: str = "") -> Keys:
    """Convert ``net_arch`` into the widths of hidden layers.

    ``value_network``: name of the value network or of the critics in ``net_arch``; empty: there is only one network.
    """
    if not _perceptron(values):
        if given:
            raise NoCounterpartError("CnnPolicy becomes model.name: nature, whose layers cannot be changed")
        return {}
    if isinstance(given, Sequence) and len(given) == 1 and isinstance(given[0], Mapping):
        given = given[0]  # the form before Stable-Baselines3 1.8
    if isinstance(given, Mapping):
        if not value_network:
            raise NoCounterpartError("dqn has one network, so net_arch must be a list of widths")
        policy, value = ([*given.get(name, [])] for name in ("pi", value_network))
        return {"model.hidden_sizes": policy, "model.value_hidden_sizes": None if value == policy else value}
    return {"model.hidden_sizes": [*default] if given is None else [*given]}


def _activation(value: Any, values: Values, default: str) -> Keys:
    word = default if value is None else _word(value).lower()
    if not _perceptron(values):
        return {}
    if word not in _ACTIVATIONS:
        raise NoCounterpartError(f"actorlearn has only the activation functions {', '.join(_ACTIVATIONS.values())}")
    return {"model.activation": _ACTIVATIONS[word]}


def _normalized(value: Any, _: Values) -> Keys:
    """Convert ``normalize`` of RL Baselines3 Zoo into keys like VecNormalize, which clips rewards to 10 by default.

    Raises NoCounterpartError for other arguments of VecNormalize, such as clip_obs.
    """
    given = read_python(value) if isinstance(value, str) else value
    wanted = given if isinstance(given, Mapping) else dict.fromkeys(("norm_obs", "norm_reward"), bool(given))
    if strange := [name for name in wanted if name not in ("norm_obs", "norm_reward", "clip_reward")]:
        raise NoCounterpartError(
            f"{', '.join(strange)} of VecNormalize cannot be converted; set model.normalize_observation and "
            "algorithm.normalize_reward"
        )
    rewards = bool(given) and wanted.get("norm_reward", True)
    return {
        "model.normalize_observation": bool(given) and wanted.get("norm_obs", True),
        "algorithm.normalize_reward": rewards,
        **({"algorithm.reward_clip": wanted.get("clip_reward", 10.0)} if rewards else {}),
    }


def _wrappers(value: Any) -> list[tuple[str, Mapping[str, Any]]]:
    """Return the class name and the arguments of each wrapper in ``env_wrapper``.

    RL Baselines3 Zoo writes a wrapper as a name, or as a mapping from the name to its arguments, alone or in a list.
    """
    given = value or []
    each = [given] if isinstance(given, str | type | Mapping) else [*given]
    return [
        (_word(name), kwargs or {})
        for one in each
        for name, kwargs in (one.items() if isinstance(one, Mapping) else [(one, {})])
    ]


def _atari(arguments: Mapping[str, Any]) -> Keys:
    """Return the keys for AtariWrapper with these arguments; raises NoCounterpartError, for example for screen_size."""
    known = {
        "noop_max": "env.noop_max",
        "frame_skip": "env.frame_skip",
        "action_repeat_probability": "env.repeat_action_probability",
    }
    given = {"clip_reward": True, "terminal_on_life_loss": True, **arguments}
    clips, ends = bool(given.pop("clip_reward")), bool(given.pop("terminal_on_life_loss"))
    if strange := [name for name in given if name not in known]:
        raise NoCounterpartError(f"{', '.join(strange)} of AtariWrapper cannot be converted; set env.preset")
    return {
        "env.preset": "dqn",
        "env.fire_on_reset": True,
        "algorithm.reward_clip": 1.0 if clips else None,
        "algorithm.life_loss_terminal": ends,
        **{known[name]: value for name, value in given.items()},
    }


def _wrapper(value: Any, _values: Values) -> Keys:
    match _wrappers(value):
        case []:
            return {}
        case [("TimeLimit", {"max_episode_steps": steps})]:
            return {"env.time_limit_steps": integer(steps)}
        case [("TimeLimit", _)]:
            raise NoCounterpartError("TimeLimit can be converted only with max_episode_steps; set env.time_limit_steps")
        case [("AtariWrapper", arguments)]:
            return _atari(arguments)
    raise NoCounterpartError("set env.wrappers: [package.module:Class], and instead of TimeLimit env.time_limit_steps")


def _stacked(value: Any, values: Values) -> Keys:
    if not value:
        return {}
    if [name for name, _ in _wrappers(values["env_wrapper"])] != ["AtariWrapper"]:
        raise NoCounterpartError("set env.wrappers: [{name: gymnasium.wrappers:FrameStackObservation, kwargs: ...}]")
    return {"env.stack": integer(value)}


_SCHEDULE = "the schedule is constant, linear or cosine; linear and cosine also set optimizer.learning_rate_final"
_FUNCTIONS = f"one of {', '.join(_ACTIVATIONS.values())}"
_SIZES = "pi becomes model.hidden_sizes; vf or qf becomes model.value_hidden_sizes if it differs from pi"
_POLICIES = "MlpPolicy = mlp; CnnPolicy = nature; MultiInputPolicy = the default: mixed if there are images, else mlp"
_WRAPPERS = "package.module:Class; TimeLimit = env.time_limit_steps; AtariWrapper = env.preset: dqn"
_RATIO = "batch_size x gradient_steps / (train_freq x n_envs); if gradient_steps is -1, batch_size"
_REPLAYED = "algorithms with a replay normalise neither observations nor rewards"
_FROM_ONE = only(("auto", "auto_1", "auto_1.0"), "the temperature is always learned and begins at 1, as with auto")

TABLE: tuple[Name, ...] = (
    Name("policy", (*ON_POLICY, "dqn"), ("model.name",), _POLICIES, _policy, "MlpPolicy"),
    Name("policy", ("sac",), ("model.name",), _POLICIES, _no_images, "MlpPolicy"),
    Name("env", ALL, ("env.id",), "give it as the first argument of train", nothing),
    Name("learning_rate", ALL, ("optimizer.learning_rate", "optimizer.schedule"), _SCHEDULE, _rate, 3e-4),
    count("n_steps", ON_POLICY, "algorithm.horizon", 2048),
    count("n_steps", OFF_POLICY, "algorithm.n_step", 1),
    Name(
        "batch_size",
        ("ppo",),
        ("algorithm.minibatches",),
        "n_steps x n_envs / batch_size, rounded up",
        _minibatches,
        64,
    ),
    count("batch_size", OFF_POLICY, "replay.batch_size", 256),
    count("n_epochs", ("ppo",), "algorithm.epochs", 10),
    Name("gamma", ALL, ("algorithm.discount",), default=0.99),
    Name("gae_lambda", ON_POLICY, ("algorithm.gae_lambda",), default=0.95),
    Name(
        "clip_range",
        ("ppo",),
        ("algorithm.ratio_clip",),
        "a linear or cosine schedule also sets algorithm.ratio_clip_final and algorithm.schedule",
        _clip,
        0.2,
    ),
    Name("clip_range_vf", ("ppo",), ("algorithm.value_clip",), "", _value_clip),
    Name("normalize_advantage", ("ppo",), ("algorithm.normalize_advantage",), default=True),
    *without(
        "normalize_advantage",
        ("a2c",),
        "a2c does not normalise advantages; ppo with one epoch and one minibatch does",
        default=False,
    ),
    Name("ent_coef", ON_POLICY, ("algorithm.entropy_cost",), default=0.0),
    *without("ent_coef", ("sac",), "the temperature is always learned, as with auto", _FROM_ONE, "auto"),
    Name("vf_coef", ON_POLICY, ("algorithm.value_cost",), default=0.5),
    Name("max_grad_norm", (*ON_POLICY, "dqn"), ("optimizer.clip_norm",), default=0.5),
    Name(
        "use_rms_prop",
        ("a2c",),
        ("optimizer.name",),
        "true = rmsprop, as in torch, unless optimizer_class is given; false = adam",
        _rmsprop,
        True,
    ),
    Name(
        "rms_prop_eps",
        ("a2c",),
        ("optimizer.epsilon",),
        "only with use_rms_prop and without optimizer_class",
        nothing,
        1e-5,
    ),
    *without("use_sde", (*ON_POLICY, "sac"), _NOISE, default=False),
    *without("sde_sample_freq", (*ON_POLICY, "sac"), _NOISE, default=-1),
    *without("use_sde_at_warmup", ("sac",), _NOISE, default=False),
    *without(
        "rollout_buffer_class rollout_buffer_kwargs", ON_POLICY, "the algorithm determines the kind of its buffer"
    ),
    Name("target_kl", ("ppo",), ("algorithm.target_kl",)),
    # DQN and SAC
    count("buffer_size", OFF_POLICY, "replay.capacity_steps", 1_000_000),
    Name("learning_starts", ("dqn",), ("replay.learning_starts_steps",), STARTS, learning_starts, 100),
    Name(
        "learning_starts",
        ("sac",),
        ("replay.learning_starts_steps", "algorithm.random_steps"),
        STARTS,
        random_start,
        100,
    ),
    *without("tau", ("dqn",), WHOLE_COPIES, only((1,), WHOLE_COPIES), 1.0),
    Name("tau", ("sac",), ("algorithm.target_rate",), default=0.005),
    Name(
        "train_freq",
        OFF_POLICY,
        ("algorithm.horizon",),
        "a number of steps; a number of episodes cannot be converted",
        _horizon,
        1,
    ),
    Name("gradient_steps", OFF_POLICY, ("replay.ratio",), _RATIO, _ratio, 1),
    *without("action_noise", ("sac",), "the policy itself is stochastic"),
    *without(
        "replay_buffer_class replay_buffer_kwargs",
        OFF_POLICY,
        "transitions are drawn uniformly, or by priority with replay.prioritised: true",
    ),
    *without("optimize_memory_usage", OFF_POLICY, "the replay always stores each frame only once", default=False),
    count("target_update_interval", ("dqn",), "algorithm.target_every_steps", 10_000),
    *without(
        "target_update_interval",
        ("sac",),
        "the target critics move after every optimizer step",
        only((1,), EVERY_STEP),
        1,
    ),
    Name("exploration_fraction", ("dqn",), ("algorithm.epsilon_steps",), EPSILON, _epsilon_steps, 0.1),
    Name("exploration_initial_eps", ("dqn",), ("algorithm.epsilon_initial",), default=1.0),
    Name("exploration_final_eps", ("dqn",), ("algorithm.epsilon_final",), default=0.05),
    Name(
        "target_entropy",
        ("sac",),
        ("algorithm.target_entropy",),
        "auto = null",
        lambda value, _: {"algorithm.target_entropy": None if value == "auto" else number(value)},
        "auto",
    ),
    # All
    *without("stats_window_size", ALL, "scores are always means of the last 100 games", default=100),
    Name(
        "tensorboard_log",
        ALL,
        ("report.writers",),
        "events for TensorBoard are written by default, to the folder of the run",
        nothing,
    ),
    *without("policy_kwargs", ALL, "its entries, such as net_arch, are names of these tables", nothing),
    *without("verbose", ALL, "train shows a progress bar, unless progress=False", nothing),
    Name("seed", ALL, ("seed",), "null = 1", unless(None, "seed", integer)),
    Name("device", ALL, ("trainer.device",), "auto = cpu", unless("auto", "trainer.device", str), "auto"),
    *without("_init_setup_model", ALL, "the processes of a run make the network", default=True),
    # learn
    Name("total_timesteps", ALL, ("total_steps",), "", _total_steps),
    *without("callback", ALL, "use the arguments on_report, on_evaluation and on_checkpoint of train"),
    *without("log_interval", ALL, "a report comes every report.every_s seconds"),
    Name("tb_log_name", ALL, ("name",), "the name of the run and of its folder", unless(None, "name")),
    *without("reset_num_timesteps", ALL, "to continue a run, use actorlearn resume", default=True),
    *without("progress_bar", ALL, "train shows a progress bar, unless progress=False", nothing),
    # policy_kwargs
    Name(
        "net_arch",
        ON_POLICY,
        ("model.hidden_sizes", "model.value_hidden_sizes"),
        _SIZES,
        partial(_layers, default=(64, 64), value_network="vf"),
    ),
    Name("net_arch", ("dqn",), ("model.hidden_sizes",), "", partial(_layers, default=(64, 64))),
    Name(
        "net_arch",
        ("sac",),
        ("model.hidden_sizes", "model.value_hidden_sizes"),
        _SIZES,
        partial(_layers, default=(256, 256), value_network="qf"),
    ),
    Name("activation_fn", ON_POLICY, ("model.activation",), _FUNCTIONS, partial(_activation, default="tanh")),
    Name("activation_fn", OFF_POLICY, ("model.activation",), _FUNCTIONS, partial(_activation, default="relu")),
    Name(
        "ortho_init",
        ON_POLICY,
        ("model.init",),
        "true = orthogonal; false = torch",
        switch({"model.init": "orthogonal"}, {"model.init": "torch"}),
        True,
    ),
    Name("log_std_init", ON_POLICY, ("model.log_std_init",), default=0.0),
    *without("log_std_init", ("sac",), _NOISE, default=-3.0),
    *without("clip_mean", ("sac",), _NOISE, default=2.0),
    *without("n_critics", ("sac",), "sac always has two critics", default=2),
    *without("full_std", ON_POLICY, _NOISE, default=True),
    *without("squash_output", ON_POLICY, _NOISE, default=False),
    *without("use_expln", (*ON_POLICY, "sac"), _NOISE, default=False),
    *without(
        "features_extractor_class features_extractor_kwargs", ALL, "write your network, and name it in model.name"
    ),
    *without(
        "share_features_extractor",
        (*ON_POLICY, "sac"),
        "the network, model.name, determines whether policy and value share an encoder",
        default=True,
    ),
    *without("normalize_images", ALL, "bytes are always divided by 255", default=True),
    Name(
        "optimizer_class",
        ON_POLICY,
        ("optimizer.name",),
        "Adam = adam, with optimizer.epsilon: 1e-5 unless optimizer_kwargs is given; RMSpropTFLike = rmsprop",
        _optimizer,
    ),
    Name("optimizer_class", OFF_POLICY, ("optimizer.name",), "Adam = adam", _adam),
    Name(
        "optimizer_kwargs",
        ALL,
        ("optimizer.epsilon",),
        "eps = optimizer.epsilon; betas = optimizer.betas; alpha = optimizer.decay",
        _optimizer_numbers,
    ),
    # RL Baselines3 Zoo
    Name("n_timesteps", ALL, ("total_steps",), "", nothing),
    Name("n_envs", ALL, ("simulators.count", "simulators.envs"), "their product is n_envs", environments, 1),
    Name(
        "normalize",
        ON_POLICY,
        ("model.normalize_observation", "algorithm.normalize_reward"),
        "norm_obs sets the first key, norm_reward the second; true sets both",
        _normalized,
        False,
    ),
    *without("normalize", OFF_POLICY, _REPLAYED, only((False, None, ""), _REPLAYED), False),
    Name("frame_stack", ALL, ("env.stack",), "only for Atari games", _stacked),
    Name("env_wrapper", ALL, ("env.wrappers",), _WRAPPERS, _wrapper),
    *without("vec_env_wrapper", ALL, "env.wrappers can wrap only single environments"),
    Name("env_kwargs", ALL, ("env.kwargs",), "", lambda value, _: {"env.kwargs": {**value}} if value else {}),
)


_FIXED: Keys = {
    "algorithm.loss_scale": 1.0,
    "algorithm.reward_clip": None,
    "algorithm.life_loss_terminal": False,
    "algorithm.bootstrap_on_truncation": True,
}
_ADAM: Keys = {"optimizer.name": "adam", "optimizer.epsilon": _TORCH_EPSILON}

STABLE_BASELINES3 = Library(
    title="Stable-Baselines3",
    table=TABLE,
    other_defaults={
        "a2c": {"learning_rate": 7e-4, "n_steps": 5, "gae_lambda": 1.0},
        "dqn": {"learning_rate": 1e-4, "batch_size": 32, "train_freq": 4, "max_grad_norm": 10.0},
        "sac": {"share_features_extractor": False},
    },
    fixed={
        "ppo": _FIXED,
        "a2c": _FIXED,
        "dqn": {**_FIXED, **_ADAM, "optimizer.epsilon_hat": False, "algorithm.epsilon_hold_steps": 0},
        "sac": {**_FIXED, **_ADAM, "optimizer.clip_norm": 0.0},
    },
    names_here={algorithm: algorithm for algorithm in ALL},
)


def from_stable_baselines3(algorithm: str, hyperparameters: Mapping[str, Any]) -> Converted:
    """Convert hyperparameters of Stable-Baselines3 into keys, for ``train(env, **keys)``.

    Args:
        algorithm: ppo, a2c, dqn or sac.
        hyperparameters: Arguments of its constructor, of ``learn``, or an entry of RL Baselines3 Zoo, with n_envs.
            Names that are left out have the defaults of Stable-Baselines3. ``policy_kwargs`` may be text, as in
            RL Baselines3 Zoo. A schedule is a function of the remaining progress, or ``"lin_3e-4"``, which is linear.

    Returns:
        The keys, and the given names whose values have no counterpart in actorlearn, each with the reason. The entries
        of ``policy_kwargs`` count as names.

    Raises:
        ValueError: The algorithm has no such name, or a value is of a wrong type.
    """
    written = hyperparameters.get("policy_kwargs") or {}
    try:
        inside = read_python(written) if isinstance(written, str) else written
        if not isinstance(inside, Mapping):
            raise ValueError("must be a dict")
    except ValueError as error:
        raise ValueError(f"policy_kwargs: {written!r:.100}: {error}") from None
    outside = {name: value for name, value in hyperparameters.items() if name != "policy_kwargs"}
    return STABLE_BASELINES3.convert(algorithm.lower(), {**outside, **inside})
