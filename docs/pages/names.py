"""The pages for users of Stable-Baselines3 and CleanRL, generated from the tables of their names."""

from __future__ import annotations

from pathlib import Path

from docs.pages.markdown import table, value
from launch.names.cleanrl import CLEANRL
from launch.names.library import Library, Name
from launch.names.stable_baselines3 import STABLE_BASELINES3

_STABLE_BASELINES3 = """# From Stable-Baselines3

This page translates the hyperparameters of PPO, A2C, DQN and SAC of Stable-Baselines3 2.9, and those of the files of
RL Baselines3 Zoo, into [keys](topology.md). The page is generated from `launch/names/stable_baselines3.py` by `make
pages`.

`from_stable_baselines3` converts a dictionary of hyperparameters. It returns the keys, with which you can call
[`train`](python.md), and what it left out:

```python
import actorlearn

hyperparameters = {
    "n_envs": 8,
    "n_steps": 128,
    "batch_size": 256,
    "n_epochs": 4,
    "learning_rate": "lin_2.5e-4",
    "policy_kwargs": {"net_arch": {"pi": [64, 64], "vf": [256, 256]}},
    "target_kl": 0.03,
    "total_timesteps": 20_000,
    "use_sde": True,
}
keys, left_out = actorlearn.from_stable_baselines3("ppo", hyperparameters)
print(keys["optimizer.schedule"], keys["model.value_hidden_sizes"])  # linear [256, 256]
print(left_out)  # {'use_sde': 'state-dependent exploration (gSDE) is not supported'}
run = actorlearn.train("CartPole-v1", **keys)
```

* *Defaults*: a name that you leave out has the default of Stable-Baselines3, which may differ from that of
  actorlearn.
* *Left out*: a given value without a counterpart is in `left_out`, with the reason. A name that the algorithm does
  not have raises a `ValueError`.
* *Schedules*: `"lin_2.5e-4"` of RL Baselines3 Zoo, and any function of the remaining progress that is constant,
  linear or half a period of a cosine.
* *Atari*: `env_wrapper` with `AtariWrapper` sets the preprocessing. Give `train` an id such as `ALE/Pong-v5`.
* *Policies*: `MlpPolicy` is `model.name: mlp`, and `CnnPolicy` is `nature`. `MultiInputPolicy` sets no key, because the
  default does the same: an observation with images and numbers gets the network
  [`mixed`](environments.md#what-a-policy-sees), with convolutions for each image; other observations get `mlp`.
* *Time limits*: `env_wrapper` with `TimeLimit`, and `max_episode_steps`, are `env.time_limit_steps`.
* *Acting*: `model.predict(observation, deterministic=True)` is `run.policy().act(observation, greedy=True)`, which
  returns the action alone. A recurrent policy keeps its state itself.
* *MaskablePPO* of sb3-contrib is `ppo` with [masks of valid actions](environments.md#valid-actions), which all
  algorithms with choices have. The environment tells them in `info["action_mask"]`, or in the key `action_mask` of a
  Dict observation, instead of by `action_masks()` or `ActionMasker`; `env.action_mask: auto` finds them.
  `predict(observation, action_masks=…)` is `act(observation, action_mask=…)`.
* *VecEnv*: `train` makes the environments itself, in processes of its own, so you give it no `VecEnv`.
  `simulators.count` and `simulators.envs` set how many there are, `env.wrappers` lists wrappers of gymnasium, and
  `model.normalize_observation` and `algorithm.normalize_reward` replace `VecNormalize`.
* *Models*: a model that Stable-Baselines3 has saved (`.zip`) cannot be loaded. Train again with the converted keys.
* *Other differences*: with `clip_range_vf`, the error of a clipped value is at least that of the unclipped one, as in
  the original PPO. DQN's share of random actions falls from the first step; Stable-Baselines3 acts at random until
  `learning_starts`. With `normalize`, the statistics of observations are collected before learning begins.
* *Results*: the networks, losses and schedules are the same; random numbers, and so single runs, are not. No scores
  of Stable-Baselines3 have been reproduced with converted hyperparameters.
"""

_PROGRAMS = Path(__file__).parents[2] / "examples" / "beside-stable-baselines3"
_BESIDE = """
## Programs side by side

The files are in `examples/beside-stable-baselines3`. A test runs all of them, those of Stable-Baselines3 if it is
installed.
"""
_PAIRS = {
    "quick_start": """### Train, evaluate, act

Training uses processes of its own in actorlearn, so `train` takes the id of an environment or its class, not an
instance.""",
    "stop_at_score": """### Stop at a score

An evaluator of actorlearn is a process. The run goes on while the evaluator plays, and stops some thousand steps after
the checkpoint that had the score.""",
    "best_model": """### Keep the best model

actorlearn keeps the checkpoint with the best evaluation by default. Without an evaluator it keeps the one with the best
score in training. `run.policy(at="best")` loads it.""",
}
"""Programs in this folder, each in a file NAME.py and a file NAME_sb3.py: name -> text of its section."""

_CLEANRL = """# From CleanRL

This page translates the arguments of six scripts of CleanRL into [keys](topology.md): `ppo.py`, `ppo_atari.py`,
`ppo_continuous_action.py`, `dqn.py`, `dqn_atari.py` and `sac_continuous_action.py`. The page is generated from
`launch/names/cleanrl.py` by `make pages`.

`from_cleanrl` converts the arguments of a script: its `Args`, or a dictionary. It returns the keys, with which you
can call [`train`](python.md), and what it left out:

```python
import actorlearn

keys, left_out = actorlearn.from_cleanrl("ppo", {"num_envs": 8, "target_kl": 0.03, "total_timesteps": 20_000})
print(keys["algorithm.value_cost"], keys["algorithm.target_kl"])  # 0.25 0.02
print(left_out)  # {}
run = actorlearn.train("CartPole-v1", **keys)
```

* *Defaults*: an argument that you leave out has the default of the script, which may differ from that of actorlearn.
* *Left out*: a given value without a counterpart is in `left_out`, with the reason. An argument that the script does
  not have raises a `ValueError`.
* *Atari*: give `train` an id such as `ALE/Breakout-v5` for `BreakoutNoFrameskip-v4`.
* *Other differences*: SAC's log standard deviation is at least -20, not -5, and the actor learns in every step
  instead of twice in every second one. With `ppo_continuous_action`, the statistics of observations are collected
  before learning begins.
* *Results*: the networks, losses and schedules are the same; random numbers, and so single runs, are not. No scores
  of CleanRL have been reproduced with converted arguments.
"""


def stable_baselines3_page() -> str:
    """Return the page for users of Stable-Baselines3, in Markdown."""
    return _STABLE_BASELINES3 + _BESIDE + "".join(map(_beside, _PAIRS)) + _tables(STABLE_BASELINES3, "algorithms")


def cleanrl_page() -> str:
    """Return the page for users of CleanRL, in Markdown."""
    return _CLEANRL + _tables(CLEANRL, "scripts")


def _beside(pair: str) -> str:
    ours, theirs = (_program(f"{pair}{end}.py") for end in ("", "_sb3"))
    return (
        f"\n{_PAIRS[pair]}\n\nactorlearn, {_lines(ours)} lines:\n\n```python\n{ours}```\n"
        f"\nStable-Baselines3, {_lines(theirs)} lines:\n\n```python\n{theirs}```\n"
    )


def _program(name: str) -> str:
    return (_PROGRAMS / name).read_text()


def _lines(program: str) -> int:
    return sum(bool(line.strip()) for line in program.splitlines())


def _tables(library: Library, algorithms: str) -> str:
    having = [_having(library, name) for name in library.table if name.keys]
    missing = [_missing(library, name) for name in library.table if not name.keys]
    fixed = [
        (algorithm, ", ".join(f"{key} {value(given)}" for key, given in keys.items()))
        for algorithm, keys in library.fixed.items()
    ]
    return (
        f"\n## Names and keys\n\n{table(('name', algorithms, 'keys', 'value, if it is not the same'), having)}"
        f"\n## Names without a counterpart\n\n{table(('name', algorithms, 'reason'), missing)}"
        f"\n## What the library does without a name\n\n{table((algorithms, 'keys'), fixed)}"
    )


def _having(library: Library, name: Name) -> tuple[str, ...]:
    return f"`{name.name}`", _algorithms(library, name), ", ".join(f"`{key}`" for key in name.keys), name.how


def _missing(library: Library, name: Name) -> tuple[str, ...]:
    return f"`{name.name}`", _algorithms(library, name), name.how


def _algorithms(library: Library, name: Name) -> str:
    return "all" if len(name.algorithms) == len(library.defaults) else ", ".join(name.algorithms)
