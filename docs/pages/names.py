"""The pages for users of Stable-Baselines3 and CleanRL, generated from the tables of their names."""

from __future__ import annotations

from pathlib import Path

from docs.pages.markdown import table, value
from launch.names.cleanrl import CLEANRL
from launch.names.library import Library, Name
from launch.names.stable_baselines3 import STABLE_BASELINES3

_STABLE_BASELINES3 = """# From Stable-Baselines3

This page is for users of Stable-Baselines3 who want to train with actorlearn. It translates the hyperparameters of PPO,
A2C, DQN and SAC of Stable-Baselines3 2.9 into [keys](topology.md), the settings of actorlearn. It also translates the
additional names in the files of RL Baselines3 Zoo, such as `n_envs` and `normalize`.

`actorlearn.from_stable_baselines3` converts a dictionary of hyperparameters. It returns two dictionaries: the keys,
with which you can call [`train`](python.md), and the names that could not be converted, with reasons:

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

The conversion follows these rules:

* *Defaults*: if you do not give a hyperparameter, its key gets the default of Stable-Baselines3, and not that of
  actorlearn.
* *Values that cannot be converted* are in `left_out`. A name that the algorithm does not have in Stable-Baselines3
  raises a `ValueError`.
* *Schedules*: you can give a text such as `"lin_2.5e-4"`, as in RL Baselines3 Zoo, or a function of the remaining
  progress. The function must be constant, linear or half a period of a cosine.
* *Atari*: `env_wrapper` with `AtariWrapper` sets the preprocessing of actorlearn. Give `train` an id such as
  `ALE/Pong-v5`.
* *Policies*: `MlpPolicy` becomes `model.name: mlp`, and `CnnPolicy` becomes `model.name: nature`. `MultiInputPolicy`
  sets no key, because the default network of actorlearn for Dict observations also has [convolutions for each
  image](environments.md#what-a-policy-sees).
* *Time limits*: `env_wrapper` with `TimeLimit` and its argument `max_episode_steps` becomes `env.time_limit_steps`.
* *MaskablePPO* of sb3-contrib is `ppo` with [masks of valid actions](environments.md#valid-actions). All algorithms for
  Discrete, MultiDiscrete and MultiBinary actions accept masks.

These parts of a program change:

| Stable-Baselines3 | actorlearn |
|---|---|
| `model.predict(observation, deterministic=True)` | `run.policy().act(observation, greedy=True)` |
| a `VecEnv` | `train` makes `simulators.count` processes (*simulators*), each with `simulators.envs` environments |
| wrappers of gymnasium | `env.wrappers` |
| `action_masks()`, or `ActionMasker` | `info["action_mask"]`, or the key `action_mask` of a Dict observation |
| `model.predict(observation, action_masks=mask)` | `run.policy().act(observation, action_mask=mask)` |
| `VecNormalize` | `model.normalize_observation` and `algorithm.normalize_reward` |
| a saved model (`.zip`) | cannot be loaded; train again with the converted keys |

`act` returns only the action. A recurrent policy keeps its state itself.

The networks, losses and schedules are the same as in Stable-Baselines3. Random numbers differ, so single runs differ.
Three other differences remain:

* With `clip_range_vf`, actorlearn uses the larger of the errors of the clipped and the unclipped value, as the original
  PPO does. Stable-Baselines3 uses the error of the clipped value.
* In actorlearn, DQN's share of random actions falls from the first step. In Stable-Baselines3 all actions are random
  until `learning_starts`.
* With `normalize`, actorlearn plays some steps only to collect statistics of observations, before learning begins.
  Stable-Baselines3 learns from the first steps on.

No scores of Stable-Baselines3 have been reproduced with converted hyperparameters yet.
"""

_PROGRAMS = Path(__file__).parents[2] / "examples" / "beside-stable-baselines3"
_BESIDE = """
## Programs side by side

Each section shows the same task in both libraries. The programs are in `examples/beside-stable-baselines3`.
"""
_PAIRS = {
    "quick_start": """### Train, evaluate, act

In actorlearn, other processes make the environments. So `train` takes the id or the class of an environment, and not
an environment object.""",
    "stop_at_score": """### Stop at a score

In actorlearn, the evaluator, which plays games to measure the score, is a separate process. Training goes on while it
plays. So the run stops some thousand steps after the step of the weights that reached the score.""",
    "best_model": """### Keep the best model

By default, actorlearn keeps the checkpoint with the best evaluation, or without an evaluator the one with the best
score in training games. `run.policy(at="best")` loads it.""",
}
"""Programs in this folder, each in a file NAME.py and a file NAME_sb3.py: name -> text of its section."""

_CLEANRL = """# From CleanRL

This page is for users of CleanRL who want to train with actorlearn. It translates the arguments of six scripts of
CleanRL into [keys](topology.md), the settings of actorlearn: `ppo.py`, `ppo_atari.py`,
`ppo_continuous_action.py`, `dqn.py`, `dqn_atari.py` and `sac_continuous_action.py`.

`actorlearn.from_cleanrl` converts the arguments of a script, which you give as its `Args` object or as a dictionary. It
returns two dictionaries: the keys, with which you can call [`train`](python.md), and the arguments that could not be
converted, with reasons:

```python
import actorlearn

keys, left_out = actorlearn.from_cleanrl("ppo", {"num_envs": 8, "target_kl": 0.03, "total_timesteps": 20_000})
print(keys["algorithm.value_cost"], keys["algorithm.target_kl"])  # 0.25 0.02
print(left_out)  # {}
run = actorlearn.train("CartPole-v1", **keys)
```

* *Defaults*: if you do not give an argument, its key gets the default of the script, and not that of actorlearn.
* *Values that cannot be converted* are in `left_out`. An argument that the script does not have raises a `ValueError`.
* *Atari*: give `train` an id such as `ALE/Breakout-v5` instead of `BreakoutNoFrameskip-v4`.

The networks, losses and schedules are the same as in CleanRL. Random numbers differ, so single runs differ. Three other
differences remain:

* In `sac_continuous_action`, the log standard deviation of the policy is at least -5; in actorlearn it is at least -20.
* In `sac_continuous_action`, the actor learns twice in every second step; in actorlearn it learns once in every step.
* With `ppo_continuous_action`, actorlearn plays some steps only to collect statistics of observations, before learning
  begins. CleanRL learns from the first steps on.

No scores of CleanRL have been reproduced with converted arguments yet.
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
        "\n## Names and keys\n\nIf the last cell of a row is empty, the key gets the same value as the name.\n\n"
        f"{table(('name', algorithms, 'keys', 'how the value is converted'), having)}"
        f"\n## Names without a counterpart\n\n{table(('name', algorithms, 'reason'), missing)}"
        f"\n## Keys that are always set\n\n{library.title} has no name for these settings, and always trains with "
        f"them. The conversion sets the keys accordingly.\n\n{table((algorithms, 'keys'), fixed)}"
    )


def _having(library: Library, name: Name) -> tuple[str, ...]:
    return f"`{name.name}`", _algorithms(library, name), ", ".join(f"`{key}`" for key in name.keys), name.how


def _missing(library: Library, name: Name) -> tuple[str, ...]:
    return f"`{name.name}`", _algorithms(library, name), name.how


def _algorithms(library: Library, name: Name) -> str:
    return "all" if len(name.algorithms) == len(library.names_here) else ", ".join(name.algorithms)
