"""Every hyperparameter of Stable-Baselines3 and CleanRL has a counterpart, or a reason that it has none."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

import pytest

import actorlearn
from launch.names.cleanrl import CLEANRL
from launch.names.hints import OTHERS, hint
from launch.names.library import Library
from launch.names.stable_baselines3 import STABLE_BASELINES3, read_python
from launch.python import asked
from launch.topology.keys import leaves, structs_of
from launch.topology.load import Topology, TopologyError, as_text, parse
from tests.sizes import ROOT

# Constructors and `learn` of Stable-Baselines3 2.9, in the order of its signatures.
_SB3_BOTH = "policy env learning_rate gamma stats_window_size tensorboard_log policy_kwargs verbose seed device"
_SB3_LEARN = "_init_setup_model total_timesteps callback log_interval tb_log_name reset_num_timesteps progress_bar"
_SB3_ON_POLICY = (
    "n_steps gae_lambda normalize_advantage ent_coef vf_coef max_grad_norm use_sde sde_sample_freq "
    "rollout_buffer_class rollout_buffer_kwargs"
)
_SB3_OFF_POLICY = (
    "buffer_size learning_starts batch_size tau train_freq gradient_steps replay_buffer_class replay_buffer_kwargs "
    "optimize_memory_usage n_steps target_update_interval"
)
_SB3_POLICIES = (
    "net_arch activation_fn features_extractor_class features_extractor_kwargs normalize_images optimizer_class "
    "optimizer_kwargs"
)
_SB3_ACTOR_CRITIC = f"{_SB3_POLICIES} ortho_init log_std_init full_std use_expln squash_output share_features_extractor"
# Names that RL Baselines3 Zoo adds in its files of hyperparameters.
_ZOO = "n_envs n_timesteps normalize frame_stack env_wrapper vec_env_wrapper env_kwargs"
SB3 = {
    "ppo": f"{_SB3_BOTH} {_SB3_LEARN} {_SB3_ON_POLICY} {_SB3_ACTOR_CRITIC} {_ZOO} "
    "batch_size n_epochs clip_range clip_range_vf target_kl",
    "a2c": f"{_SB3_BOTH} {_SB3_LEARN} {_SB3_ON_POLICY} {_SB3_ACTOR_CRITIC} {_ZOO} rms_prop_eps use_rms_prop",
    "dqn": f"{_SB3_BOTH} {_SB3_LEARN} {_SB3_OFF_POLICY} {_SB3_POLICIES} {_ZOO} "
    "exploration_fraction exploration_initial_eps exploration_final_eps max_grad_norm",
    "sac": f"{_SB3_BOTH} {_SB3_LEARN} {_SB3_OFF_POLICY} {_SB3_POLICIES} {_ZOO} action_noise ent_coef target_entropy "
    "use_sde sde_sample_freq use_sde_at_warmup log_std_init use_expln clip_mean n_critics share_features_extractor",
}
# Fields of `Args` in CleanRL's scripts, in the order of the scripts.
_CLEANRL = "exp_name seed torch_deterministic cuda track wandb_project_name wandb_entity capture_video"
_CLEANRL_MODEL = "save_model upload_model hf_entity"
_CLEANRL_PPO = (
    f"{_CLEANRL} env_id total_timesteps learning_rate num_envs num_steps anneal_lr gamma gae_lambda num_minibatches "
    "update_epochs norm_adv clip_coef clip_vloss ent_coef vf_coef max_grad_norm target_kl batch_size minibatch_size "
    "num_iterations"
)
_CLEANRL_DQN = (
    f"{_CLEANRL} {_CLEANRL_MODEL} env_id total_timesteps learning_rate num_envs buffer_size gamma tau "
    "target_network_frequency batch_size start_e end_e exploration_fraction learning_starts train_frequency"
)
SCRIPTS = {
    "ppo": _CLEANRL_PPO,
    "ppo_atari": _CLEANRL_PPO,
    "ppo_continuous_action": f"{_CLEANRL_PPO} {_CLEANRL_MODEL}",
    "dqn": _CLEANRL_DQN,
    "dqn_atari": _CLEANRL_DQN,
    "sac_continuous_action": f"{_CLEANRL} env_id total_timesteps num_envs buffer_size gamma tau batch_size "
    "learning_starts policy_lr q_lr policy_frequency target_network_frequency alpha autotune",
}
ALGORITHMS = [
    pytest.param(library, algorithm, id=f"{library.title}-{algorithm}")
    for library, lists in ((STABLE_BASELINES3, SB3), (CLEANRL, SCRIPTS))
    for algorithm in lists
]
ENVIRONMENT = {
    "ppo_atari": "ALE/Pong-v5",
    "dqn_atari": "ALE/Pong-v5",
    "sac": "Pendulum-v1",
    "sac_continuous_action": "Pendulum-v1",
    "ppo_continuous_action": "Pendulum-v1",
}


def half_a_period(left: float) -> float:
    return 5e-4 * (1 + math.cos(math.pi * (1 - left)))


def checked(env: str, keys: Mapping[str, object]) -> Topology:
    return asked.read(env, None, keys).check()


@pytest.mark.parametrize(("library", "lists"), [(STABLE_BASELINES3, SB3), (CLEANRL, SCRIPTS)], ids=["sb3", "cleanrl"])
def test_the_table_has_the_librarys_names_and_each_once(library: Library, lists: dict[str, str]) -> None:
    for algorithm, names in lists.items():
        assert sorted(library.of(algorithm)) == sorted(names.split()), algorithm
        assert library.other_defaults.get(algorithm, {}).keys() <= {*names.split()}, algorithm
        once = [name.name for name in library.table if algorithm in name.algorithms]
        assert len(once) == len(set(once)), algorithm


@pytest.mark.parametrize(("library", "algorithm"), ALGORITHMS)
def test_every_name_has_keys_of_its_algorithm_or_a_reason_that_it_has_none(library: Library, algorithm: str) -> None:
    read = {*structs_of("algorithm")[library.names_here[algorithm]].__struct_fields__, "name"}
    for name, entry in library.of(algorithm).items():
        assert entry.keys or entry.how, name
        assert {*entry.keys} <= {*leaves()}, name
        assert {key.removeprefix("algorithm.") for key in entry.keys if key.startswith("algorithm.")} <= read, name


@pytest.mark.parametrize(("library", "algorithm"), ALGORITHMS)
def test_the_hint_for_an_unknown_key_names_the_counterpart_or_the_reason(library: Library, algorithm: str) -> None:
    for name, entry in library.of(algorithm).items():
        said = hint(name, library.names_here[algorithm])
        assert (entry.keys[0] in said) if entry.keys else (entry.how in said or "did you mean" in said), name


def test_the_names_of_other_programs_have_keys() -> None:
    assert {key for name in OTHERS.table for key in name.keys} <= {*leaves()}


REPLAYED = "c51, dqn, r2d1, sac"


@pytest.mark.parametrize(
    ("algorithm", "key", "says"),
    [
        # Names of Stable-Baselines3 and CleanRL
        ("ppo", "n_steps", "did you mean algorithm.horizon?"),
        ("ppo", "algorithm.n_steps", "did you mean algorithm.horizon?"),
        ("dqn", "n_steps", "did you mean algorithm.n_step?"),
        ("impala", "n_steps", "did you mean algorithm.horizon?"),
        ("c51", "n_steps", "did you mean algorithm.horizon (a2c, ppo) or algorithm.n_step (dqn, sac)?"),
        ("ppo", "batch_size", "did you mean algorithm.minibatches (n_steps x n_envs / batch_size, rounded up)?"),
        ("a2c", "batch_size", "did you mean algorithm.minibatches (n_steps x n_envs / batch_size, rounded up)?"),
        ("c51", "trainer.batch_size", "did you mean replay.batch_size?"),
        ("ppo", "simulators.n_envs", "did you mean simulators.count and simulators.envs (their product is n_envs)?"),
        (
            "ppo",
            "net_arch",
            "did you mean model.hidden_sizes and model.value_hidden_sizes (pi becomes model.hidden_sizes; vf or qf "
            "becomes model.value_hidden_sizes if it differs from pi)?",
        ),
        (
            "a2c",
            "model.policy",
            "did you mean model.name (MlpPolicy = mlp; CnnPolicy = nature; MultiInputPolicy = the default: mixed if "
            "there are images, else mlp)?",
        ),
        (
            "ppo",
            "env_wrapper",
            "did you mean env.wrappers (package.module:Class; TimeLimit = env.time_limit_steps; AtariWrapper = "
            "env.preset: dqn)?",
        ),
        ("ppo", "target_kl", "did you mean algorithm.target_kl?"),
        ("a2c", "target_kl", "a2c has no counterpart of target_kl; only ppo has one"),
        (
            "ppo",
            "use_sde",
            "use_sde of Stable-Baselines3 has no counterpart: state-dependent exploration (gSDE) is not supported",
        ),
        (
            "ppo",
            "anneal_lr",
            "did you mean optimizer.schedule (true = linear, to 0 at the end of the run; false = constant)?",
        ),
        ("dqn", "algorithm.gamma", "did you mean algorithm.discount?"),
        ("ppo", "algorithm.n_epochs", "did you mean algorithm.epochs?"),
        ("ppo", "buffer_size", f"ppo has no counterpart of buffer_size; only {REPLAYED} have one"),
        ("dqn", "buffer_size", "did you mean replay.capacity_steps?"),
        ("c51", "buffer_size", "did you mean replay.capacity_steps?"),
        ("ppo", "tau", "ppo has no counterpart of tau; only sac has one"),
        ("dqn", "tau", "dqn has no counterpart of tau: dqn always copies the whole network, as with tau = 1"),
        ("sac", "tau", "did you mean algorithm.target_rate?"),
        ("dqn", "gae_lambda", "dqn has no counterpart of gae_lambda; only a2c, impala, ppo, vaco have one"),
        ("dqn", "algorithm.ent_coef", "dqn has no counterpart of ent_coef; only a2c, impala, ppo, vaco have one"),
        ("sac", "ent_coef", "sac has no counterpart of ent_coef: the temperature is always learned, as with auto"),
        ("dqn", "clip_range", "dqn has no counterpart of clip_range; only ppo has one"),
        ("dqn", "alpha", "did you mean replay.alpha?"),
        # Names of other programs
        ("ppo", "max_episode_steps", "did you mean env.time_limit_steps?"),
        ("ppo", "env.max_episode_steps", "did you mean env.time_limit_steps?"),
        ("ppo", "lr", "did you mean optimizer.learning_rate?"),
        ("ppo", "precision", "did you mean trainer.precision?"),
        ("ppo", "lstm", "did you mean model.recurrence?"),
        ("ppo", "use_lstm", "did you mean model.recurrence?"),
        ("ppo", "threads", "did you mean trainer.threads?"),
        ("ppo", "lambda", "did you mean algorithm.gae_lambda?"),
        ("pqn", "lambda", "did you mean algorithm.q_lambda?"),
        ("dqn", "lambda", "dqn has no counterpart of lambda; only a2c, impala, ppo, pqn, vaco have one"),
        ("ppo", "algorithm.gae", "did you mean algorithm.gae_lambda?"),
        ("ppo", "log_dir", "give the folder of the run with the option --run-dir, in Python with run_dir="),
        ("ppo", "logdir", "give the folder of the run with the option --run-dir, in Python with run_dir="),
        ("ppo", "render", "did you mean evaluator.record (or the command actorlearn eval RUN --record)?"),
        ("ppo", "save_freq", "did you mean checkpoint.every_steps?"),
        ("ppo", "checkpoint_freq", "did you mean checkpoint.every_steps?"),
        ("ppo", "checkpoint.freq", "did you mean checkpoint.every_steps?"),
        ("ppo", "eval_freq", "did you mean evaluator.every_steps?"),
        ("ppo", "evaluator.freq", "did you mean evaluator.every_steps?"),
        ("ppo", "reward_scale", "did you mean algorithm.normalize_reward?"),
        ("dqn", "reward_scale", "dqn has no counterpart of reward_scale; only a2c, impala, ppo, pqn, vaco have one"),
        ("ppo", "model.layers", "did you mean model.hidden_sizes?"),
        ("ppo", "wandb", "did you mean report.writers?"),
        # Keys without their section, and mistyped keys
        ("dqn", "n_step", "did you mean algorithm.n_step?"),
        ("ppo", "n_step", f"ppo has no counterpart of n_step; only {REPLAYED} have one"),
        ("ppo", "every_steps", "did you mean evaluator.every_steps or checkpoint.every_steps?"),
        ("ppo", "report.every_steps", "did you mean report.every_s?"),
        ("ppo", "simulators.env", "did you mean simulators.envs?"),  # although env is a name of Stable-Baselines3 too
    ],
)
@pytest.mark.parametrize("written", ["file", "argument", "before the algorithm"])
def test_errors_of_unknown_keys_give_the_hint_for_the_algorithm(
    algorithm: str, key: str, says: str, written: str
) -> None:
    section, _, name = key.rpartition(".")
    tree: dict = {"env": {"id": "CartPole-v1"}, "algorithm": {"name": algorithm}}
    (tree.setdefault(section, {}) if section else tree)[name] = 1
    with pytest.raises(TopologyError) as caught:
        if written == "file":
            parse(as_text(tree), [], "t")
        elif written == "argument":
            asked.read("CartPole-v1", algorithm, {key: 1}).check()
        else:
            parse("env: {id: CartPole-v1}\nalgorithm: {name: vaco}\n", [f"{key}=1", f"algorithm.name={algorithm}"])
    assert str(caught.value).partition("; ")[2] == says


def test_the_hint_is_for_the_default_algorithm_if_none_is_named() -> None:
    for text, overrides in (("n_steps: 1\n", []), ("", ["n_steps=1"])):
        with pytest.raises(TopologyError, match=r"; did you mean algorithm\.horizon\?$"):
            parse("env: {id: CartPole-v1}\n" + text, overrides, "t")


@pytest.mark.parametrize("written", ["file", "command line"])
def test_the_hint_is_for_all_algorithms_if_a_wrong_one_is_named(written: str) -> None:
    text, overrides = "env: {id: CartPole-v1}\nn_steps: 1\nalgorithm: {name: p}\n", []
    if written == "command line":
        text, overrides = "env: {id: CartPole-v1}\n", ["n_steps=1", "algorithm.name=p"]
    with pytest.raises(TopologyError) as caught:
        parse(text, overrides, "t")
    assert "did you mean algorithm.horizon (a2c, ppo) or algorithm.n_step (dqn, sac)?" in str(caught.value)


@pytest.mark.parametrize(("library", "lists"), [(STABLE_BASELINES3, SB3), (CLEANRL, SCRIPTS)], ids=["sb3", "cleanrl"])
def test_the_librarys_defaults_are_a_topology(library: Library, lists: dict[str, str]) -> None:
    """They are also complete: no key's value depends on the kind of the environment."""
    for algorithm in lists:
        keys, left_out = library.convert(algorithm, {"total_timesteps": 100_000})
        assert checked(ENVIRONMENT.get(algorithm, "CartPole-v1"), keys).algorithm.name == library.names_here[algorithm]
        assert left_out == {}
        assert {"algorithm.loss_scale", "algorithm.reward_clip", "optimizer.epsilon", "model.name"} <= keys.keys()


def test_hyperparameters_of_ppo_in_the_zoo_are_converted() -> None:
    keys, left_out = actorlearn.from_stable_baselines3(
        "ppo",
        {
            "n_envs": 8,
            "n_timesteps": 1e6,
            "policy": "MlpPolicy",
            "n_steps": 1024,
            "batch_size": 64,
            "n_epochs": 4,
            "gamma": 0.999,
            "learning_rate": "lin_2.5e-4",
            "clip_range": "lin_0.1",
            "ent_coef": 0.01,
            "normalize": "{'norm_obs': True, 'norm_reward': False}",
            "policy_kwargs": "dict(net_arch=dict(pi=[32], vf=[64, 32]), activation_fn=nn.ELU, ortho_init=False)",
            "target_kl": 0.03,
        },
    )
    made = checked("CartPole-v1", keys)
    assert (made.total_steps, made.simulators.environments, made.algorithm.horizon) == (1_000_000, 8, 1024)
    assert (made.algorithm.minibatches, made.algorithm.epochs, made.algorithm.discount) == (128, 4, 0.999)
    rate = made.optimizer
    assert (rate.learning_rate, rate.schedule, rate.learning_rate_final) == (2.5e-4, "linear", 0.0)
    assert (made.algorithm.ratio_clip, made.algorithm.ratio_clip_final) == (0.1, 0.0)
    assert (made.model.hidden_sizes, made.model.value_hidden_sizes) == ((32,), (64, 32))
    assert (made.model.activation, made.model.init) == ("elu", "torch")
    assert made.algorithm.target_kl == 0.03
    assert made.model.normalize_observation and not made.algorithm.normalize_reward
    assert left_out == {}


def test_hyperparameters_of_atari_games_in_the_zoo_are_converted() -> None:
    keys, left_out = actorlearn.from_stable_baselines3(
        "dqn",
        {
            "env_wrapper": ["stable_baselines3.common.atari_wrappers.AtariWrapper"],
            "frame_stack": 4,
            "policy": "CnnPolicy",
            "n_timesteps": 1e7,
            "buffer_size": 100_000,
            "learning_starts": 100_000,
            "target_update_interval": 1000,
            "train_freq": 4,
            "gradient_steps": 1,
            "exploration_fraction": 0.1,
            "exploration_final_eps": 0.01,
            "optimize_memory_usage": False,
        },
    )
    made = checked("ALE/Pong-v5", keys)
    assert (made.model.name, made.env.preset, made.env.stack) == ("nature", "dqn", 4)
    assert (made.algorithm.reward_clip, made.algorithm.life_loss_terminal) == (1.0, True)
    assert (made.algorithm.epsilon_steps, made.algorithm.epsilon_final) == (1_000_000, 0.01)
    assert (made.algorithm.horizon, made.replay.ratio, made.optimizer.clip_norm) == (4, 8.0, 10.0)
    assert left_out == {}


@pytest.mark.parametrize(
    ("algorithm", "given", "expected"),
    [
        (
            "ppo",
            {"learning_rate": lambda left: 1e-3 * left + 1e-4},
            {"optimizer.schedule": "linear", "optimizer.learning_rate_final": 1e-4},
        ),
        ("a2c", {"learning_rate": "linear_1e-3"}, {"optimizer.learning_rate": 1e-3, "optimizer.schedule": "linear"}),
        ("dqn", {"learning_rate": 1e-3}, {"optimizer.learning_rate": 1e-3, "optimizer.schedule": "constant"}),
        ("sac", {"learning_rate": lambda left: 1e-3}, {"optimizer.schedule": "constant"}),
        (
            "ppo",
            {"learning_rate": half_a_period, "clip_range": half_a_period},
            {"optimizer.schedule": "cosine", "algorithm.schedule": "cosine", "algorithm.ratio_clip": 1e-3},
        ),
        (
            "a2c",
            {"policy_kwargs": {"net_arch": [{"pi": [8], "vf": [4, 4]}], "activation_fn": "nn.LeakyReLU"}},
            {
                "model.hidden_sizes": [8],
                "model.value_hidden_sizes": [4, 4],
                "model.activation": "leaky_relu",
            },
        ),
        ("ppo", {"net_arch": {"pi": [16]}}, {"model.hidden_sizes": [16], "model.value_hidden_sizes": []}),
        ("sac", {"net_arch": {"pi": [8], "qf": [4]}}, {"model.hidden_sizes": [8], "model.value_hidden_sizes": [4]}),
        ("sac", {"net_arch": {"pi": [8], "qf": [8]}}, {"model.value_hidden_sizes": None}),
        ("ppo", {"n_steps": 100, "batch_size": 64}, {"algorithm.minibatches": 2}),
        (
            "ppo",
            {"policy": "MultiInputPolicy", "net_arch": [8]},
            {"model.hidden_sizes": [8]},
        ),
        ("dqn", {"policy": type("DQNPolicy", (), {})}, {"model.name": "mlp"}),
        (
            "ppo",
            {"env_wrapper": [{"gymnasium.wrappers.TimeLimit": {"max_episode_steps": 100}}]},
            {"env.time_limit_steps": 100},
        ),
        ("a2c", {}, {"optimizer.name": "rmsprop", "optimizer.epsilon_inside_root": False}),
        ("a2c", {"use_rms_prop": False}, {"optimizer.name": "adam", "optimizer.epsilon": 1e-5}),
        (
            "a2c",
            {"policy_kwargs": {"optimizer_class": "RMSpropTFLike", "optimizer_kwargs": {"eps": 1e-4}}},
            {"optimizer.epsilon_inside_root": True, "optimizer.accumulator_init": 1.0, "optimizer.epsilon": 1e-4},
        ),
        ("a2c", {"optimizer_class": "torch.optim.Adam"}, {"optimizer.name": "adam", "optimizer.epsilon": 1e-5}),
        ("a2c", {"optimizer_class": "RMSpropTFLike", "rms_prop_eps": 1e-3}, {"optimizer.epsilon": 1e-8}),
        ("ppo", {"optimizer_class": "RMSpropTFLike"}, {"optimizer.name": "rmsprop", "optimizer.epsilon": 1e-8}),
        ("ppo", {"optimizer_kwargs": {"betas": [0.5, 0.9]}}, {"optimizer.epsilon": 1e-8}),
        ("dqn", {"gradient_steps": -1, "n_envs": 4, "train_freq": (8, "step")}, {"replay.ratio": 32.0}),
        ("dqn", {"gradient_steps": 2, "n_envs": 4, "train_freq": 4}, {"replay.ratio": 4.0, "algorithm.horizon": 4}),
        ("dqn", {"n_steps": 3}, {"algorithm.n_step": 3}),
        ("sac", {"learning_starts": 10}, {"replay.learning_starts_steps": 256, "algorithm.random_steps": 10}),
        ("sac", {"tau": 0.02, "target_entropy": -3}, {"algorithm.target_rate": 0.02, "algorithm.target_entropy": -3}),
        ("sac", {"train_freq": 64, "gradient_steps": 64, "ent_coef": "auto"}, {"replay.ratio": 256.0}),
    ],
)
def test_values_of_stable_baselines3_are_converted(algorithm: str, given: dict, expected: dict) -> None:
    keys, left_out = actorlearn.from_stable_baselines3(algorithm, {"total_timesteps": 50_000, **given})
    for key, value in expected.items():
        assert keys[key] == (pytest.approx(value) if isinstance(value, float) else value), key
    assert left_out == {}
    checked(ENVIRONMENT.get(algorithm, "CartPole-v1"), keys)


@pytest.mark.parametrize(
    ("algorithm", "given", "why"),
    [
        ("ppo", {"use_sde": True}, "gSDE"),
        ("ppo", {"learning_rate": lambda left: left**2}, "only constant, linear and cosine schedules"),
        ("ppo", {"clip_range_vf": "lin_0.2"}, "only a constant clip_range_vf"),
        ("dqn", {"net_arch": {"pi": [64], "qf": [256]}}, "a list of widths"),
        ("ppo", {"activation_fn": "nn.Softplus"}, "tanh, relu, leaky_relu, elu, gelu, silu"),
        ("ppo", {"policy": "MlpLstmPolicy"}, "only MlpPolicy, MultiInputPolicy and CnnPolicy"),
        ("a2c", {"normalize_advantage": True}, "ppo with one epoch"),
        ("a2c", {"optimizer_kwargs": {"eps": 1e-3}}, "A2C ignores this argument"),
        ("a2c", {"optimizer_class": "SGD"}, "only Adam and RMSpropTFLike"),
        ("dqn", {"tau": 0.5}, "tau = 1"),
        ("dqn", {"train_freq": (1, "episode")}, "episodes has no counterpart"),
        ("sac", {"ent_coef": 0.1}, "always learned"),
        ("sac", {"ent_coef": "auto_0.1"}, "begins at 1"),
        ("sac", {"target_update_interval": 2}, "every optimizer step"),
        ("sac", {"normalize": True}, "with a replay"),
        ("ppo", {"normalize": {"norm_obs": True, "clip_obs": 5.0}}, "clip_obs of VecNormalize cannot be converted"),
        (
            "sac",
            {"env_wrapper": "gymnasium.wrappers.TimeLimit"},
            "TimeLimit can be converted only with max_episode_steps",
        ),
        ("sac", {"env_wrapper": ["gymnasium.wrappers.RescaleAction"]}, "env.wrappers"),
    ],
)
def test_values_without_a_counterpart_are_left_out_and_the_rest_is_a_topology(
    algorithm: str, given: dict, why: str
) -> None:
    keys, left_out = actorlearn.from_stable_baselines3(algorithm, {"total_timesteps": 50_000, **given})
    assert left_out.keys() == given.keys()
    assert why in next(iter(left_out.values()))
    checked(ENVIRONMENT.get(algorithm, "CartPole-v1"), keys)


def test_arguments_of_the_wrapper_of_atari_games_are_converted() -> None:
    wrapper = "stable_baselines3.common.atari_wrappers.AtariWrapper"
    given = {"terminal_on_life_loss": False, "clip_reward": False, "noop_max": 0, "action_repeat_probability": 0.25}
    keys, left_out = actorlearn.from_stable_baselines3("ppo", {"env_wrapper": [{wrapper: given}], "n_timesteps": 1e5})
    assert left_out == {}
    assert (keys["algorithm.life_loss_terminal"], keys["algorithm.reward_clip"]) == (False, None)
    assert (keys["env.noop_max"], keys["env.repeat_action_probability"]) == (0, 0.25)
    checked("ALE/Pong-v5", keys)
    _, left_out = actorlearn.from_stable_baselines3("ppo", {"env_wrapper": {wrapper: {"screen_size": 42}}})
    assert "screen_size of AtariWrapper" in left_out["env_wrapper"]


def test_arguments_of_cleanrls_ppo_are_converted() -> None:
    @dataclass
    class Args:
        total_timesteps: int = 100_000
        num_envs: int = 4
        num_steps: int = 128
        vf_coef: float = 0.5
        anneal_lr: bool = True
        clip_vloss: bool = True
        target_kl: float | None = 0.03
        track: bool = False
        batch_size: int = 512

    keys, left_out = actorlearn.from_cleanrl("ppo", Args())
    made = checked("CartPole-v1", keys)
    assert made.algorithm.value_cost == 0.25, "CleanRL halves the squared error"
    assert (made.algorithm.value_clip, made.algorithm.ratio_clip) == (0.2, 0.2)
    assert made.algorithm.target_kl == pytest.approx(0.02), "CleanRL's limit has no factor 1.5"
    rate = made.optimizer
    assert (rate.learning_rate, rate.schedule, rate.learning_rate_final) == (2.5e-4, "linear", 0.0)
    assert (made.simulators.environments, made.algorithm.horizon, made.algorithm.minibatches) == (4, 128, 4)
    assert not made.algorithm.bootstrap_on_truncation
    assert not (made.model.normalize_observation or made.algorithm.normalize_reward), "CleanRL's ppo.py has neither"
    assert left_out == {}


@pytest.mark.parametrize("script", ["ppo", "dqn", "sac_continuous_action"])
def test_a_rate_of_cleanrl_that_is_not_annealed_is_constant(script: str) -> None:
    given = {"anneal_lr": False} if script == "ppo" else {}
    made = checked(ENVIRONMENT.get(script, "CartPole-v1"), actorlearn.from_cleanrl(script, given).keys)
    assert made.optimizer.schedule == "constant"
    assert made.optimizer.rate_at_end == made.optimizer.learning_rate


def test_arguments_of_cleanrls_other_scripts_are_converted() -> None:
    dqn = checked("CartPole-v1", actorlearn.from_cleanrl("dqn", {}).keys)
    assert (dqn.replay.ratio, dqn.algorithm.horizon, dqn.algorithm.epsilon_steps) == (12.8, 10, 250_000)
    assert (dqn.algorithm.huber_delta, dqn.algorithm.loss_scale) == (1e6, 2.0), "the squared error"
    sac = checked("Pendulum-v1", actorlearn.from_cleanrl("sac_continuous_action", {"learning_starts": 5e3}).keys)
    assert sac.optimizer.learning_rate == 3e-4
    assert {sac.optimizer.of_group(name).learning_rate for name in ("critic_1", "critic_2", "temperature")} == {1e-3}
    assert sac.algorithm.random_steps == 5_000
    _, left_out = actorlearn.from_cleanrl("sac_continuous_action", {"autotune": False, "alpha": 0.1})
    assert left_out.keys() == {"autotune", "alpha"}


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (
            lambda: actorlearn.from_stable_baselines3("td3", {}),
            "'td3' is not one of the algorithms of Stable-Baselines3 that can be converted",
        ),
        (lambda: actorlearn.from_stable_baselines3("ppo", {"n_step": 5}), "did you mean n_steps?"),
        (lambda: actorlearn.from_stable_baselines3("a2c", {"batch_size": 5}), "a2c of Stable-Baselines3 has no such"),
        (
            lambda: actorlearn.from_stable_baselines3("ppo", {"n_steps": 5.5}),
            "n_steps: 5.5: must be a whole number; write a value that Stable-Baselines3 accepts, for example its ",
        ),
        (
            lambda: actorlearn.from_stable_baselines3("ppo", {"n_steps": "abc"}),
            "n_steps: 'abc': must be a whole number",
        ),
        (
            lambda: actorlearn.from_stable_baselines3("ppo", {"n_steps": math.inf}),
            "n_steps: inf: must be a whole number",
        ),
        (lambda: actorlearn.from_stable_baselines3("ppo", {"n_envs": "abc"}), "n_envs: 'abc': must be a whole number"),
        (
            lambda: actorlearn.from_stable_baselines3("ppo", {"batch_size": 0}),
            "batch_size: 0: cannot be converted; write a value that Stable-Baselines3 accepts, for example its default",
        ),
        (lambda: actorlearn.from_stable_baselines3("sac", {"train_freq": "abc"}), "train_freq: 'abc': must be a whole"),
        (
            lambda: actorlearn.from_stable_baselines3("dqn", {"n_timesteps": "abc"}),
            "n_timesteps: 'abc': must be a whole",
        ),
        (
            lambda: actorlearn.from_stable_baselines3("dqn", {"n_timesteps": 1e3, "exploration_fraction": "x"}),
            "exploration_fraction: 'x': must be a number; ",
        ),
        (lambda: actorlearn.from_stable_baselines3("ppo", {"learning_rate": "fast"}), "'fast': must be a number; "),
        (lambda: actorlearn.from_stable_baselines3("sac", {"target_entropy": []}), "[]: must be a number; "),
        (lambda: actorlearn.from_cleanrl("ppo", {"vf_coef": "high"}), "vf_coef: 'high': must be a number; "),
        (lambda: actorlearn.from_stable_baselines3("dqn", {}), "share of total_timesteps, which is missing"),
        (lambda: actorlearn.from_stable_baselines3("ppo", {"policy_kwargs": "dict(x=f())"}), "only literals and dict"),
        (lambda: actorlearn.from_cleanrl("ppo_lstm", {}), "they are ppo, ppo_atari"),
    ],
)
def test_wrong_names_and_values_are_refused(call, says: str) -> None:
    with pytest.raises(ValueError, match=re.escape(says)):
        call()


@pytest.mark.parametrize("name", ["MultiInputPolicy", "MultiInputActorCriticPolicy"])
def test_a_policy_of_several_inputs_sets_no_network(name: str) -> None:
    assert "model.name" not in actorlearn.from_stable_baselines3("ppo", {"policy": type(name, (), {})})[0]


@pytest.mark.parametrize(
    ("name", "meant"), [("MultiInputPolicy", "mixed"), ("MlpPolicy", "mlp"), ("CnnPolicy", "nature")]
)
def test_for_a_policy_of_stable_baselines3_as_network_the_counterpart_is_suggested(name: str, meant: str) -> None:
    with pytest.raises(TopologyError, match=rf"did you mean {meant}\?"):
        parse("env: {id: CartPole-v1}\n", [f"model.name={name}"], "t")


def test_reading_policy_kwargs_runs_no_code() -> None:
    assert read_python("dict(net_arch=[64, 64], activation_fn=nn.ReLU, log_std_init=-2)") == {
        "net_arch": [64, 64],
        "activation_fn": "ReLU",
        "log_std_init": -2,
    }
    for text in ("__import__('os').system('x')", "dict(", "open('x')"):
        with pytest.raises(ValueError):
            read_python(text)


@pytest.mark.parametrize("page", ["from-stable-baselines3.md", "from-cleanrl.md"])
def test_the_example_of_each_page_prints_what_it_says(
    page: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    example = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / page).read_text(), flags=re.DOTALL)[0]
    monkeypatch.setattr("launch.python.train", lambda env, **keys: checked(env, keys))
    exec(example, {})
    assert capsys.readouterr().out.splitlines() == re.findall(r"print\(.*\)  # (.*)", example)
