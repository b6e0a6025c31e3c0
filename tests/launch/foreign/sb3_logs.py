"""The logs in the folder ``logs``, from runs of other programs, and how they were made.

``PPO_1`` and ``PPO_2``: ``python -m tests.launch.foreign.sb3_logs`` where stable-baselines3 2.9.2 is installed; two
seeds of 2,000 steps of CartPole, the second one in two environments. ``CartPole-v1__ppo__1__1795414823``: CleanRL's own
``ppo.py`` of commit fe8d8a0, with gymnasium 0.29.1, by ``python ppo.py --total-timesteps 3000 --num-envs 2 --no-cuda``.
The event files were renamed, because their names had the host.
"""

from __future__ import annotations

import shutil
from pathlib import Path

LOGS = Path(__file__).with_name("logs")
CLEANRL = LOGS / "CartPole-v1__ppo__1__1795414823"
PPO_1, PPO_2 = LOGS / "PPO_1", LOGS / "PPO_2"
ENVIRONMENTS = {PPO_1: 1, PPO_2: 2}


def make(folder: Path, seed: int, environments: int) -> None:
    """Train with Stable-Baselines3, which logs into a folder: TensorBoard's events, progress.csv, Monitor's files."""
    from stable_baselines3 import PPO
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.logger import configure

    shutil.rmtree(folder, ignore_errors=True)
    env = make_vec_env("CartPole-v1", n_envs=environments, seed=seed, monitor_dir=str(folder))
    model = PPO("MlpPolicy", env, seed=seed, n_steps=256 // environments, device="cpu")
    model.set_logger(configure(str(folder), ["csv", "tensorboard"]))
    model.learn(2_000)
    env.close()
    for file in folder.glob("events*"):
        file.rename(folder / "events.out.tfevents.0")


if __name__ == "__main__":
    for seed, (folder, environments) in enumerate(ENVIRONMENTS.items(), start=1):
        make(folder, seed, environments)
