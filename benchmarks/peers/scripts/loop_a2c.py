"""A2C as one plain loop in one process, on ale-py's or EnvPool's vector environment; the simplest fast peer.

Same game, network, environments, horizon and learning as the topology it is compared with. Usage: SECONDS ENVS HORIZON
VECTOR (ale or envpool) NETWORK (nips or nature) PRECISION (fp32 or bf16) THREADS. Prints one JSON line.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn
from windows import Windows

WARMUP_S = 5.0
Step = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray, np.ndarray]]


class ActorCritic(nn.Module):
    """The NIPS or Nature stack with a head for logits and one for the value."""

    def __init__(self, network: str, actions: int) -> None:
        """Build for uint8 [4, 84, 84]."""
        super().__init__()
        convolutions = [nn.Conv2d(4, 16, 8, 4), nn.ReLU(), nn.Conv2d(16, 32, 4, 2), nn.ReLU()]
        features, flat = 256, 32 * 9 * 9
        if network == "nature":
            convolutions = [nn.Conv2d(4, 32, 8, 4), nn.ReLU(), nn.Conv2d(32, 64, 4, 2), nn.ReLU()]
            convolutions += [nn.Conv2d(64, 64, 3, 1), nn.ReLU()]
            features, flat = 512, 64 * 7 * 7
        self.trunk = nn.Sequential(*convolutions, nn.Flatten(), nn.Linear(flat, features), nn.ReLU())
        self.policy, self.value = nn.Linear(features, actions), nn.Linear(features, 1)

    def forward(self, observation: Tensor) -> tuple[Tensor, Tensor]:
        """Logits [N, A] and values [N]."""
        features = self.trunk(observation.float() / 255.0)
        return self.policy(features).float(), self.value(features).float().squeeze(-1)


def ale(envs: int, threads: int) -> tuple[np.ndarray, Step, int, str]:
    """ale-py's vector environment: first observation, step, actions, version."""
    import ale_py
    from ale_py.vector_env import AtariVectorEnv

    env = AtariVectorEnv("pong", envs, num_threads=threads, noop_max=30, reward_clipping=False)
    first, _ = env.reset(seed=0)

    def step(action: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        observation, reward, terminated, truncated, _ = env.step(action)
        return observation, reward, terminated | truncated

    return first, step, 6, f"ale-py {ale_py.__version__}"


def pool(envs: int, threads: int) -> tuple[np.ndarray, Step, int, str]:
    """EnvPool's environment: first observation, step, actions, version."""
    import envpool

    env = envpool.make("Pong-v5", env_type="gymnasium", num_envs=envs, num_threads=threads, seed=0)
    first, _ = env.reset()

    def step(action: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        observation, reward, terminated, truncated, _ = env.step(action)
        return observation, reward, terminated | truncated

    return first, step, env.action_space.n, f"envpool {envpool.__version__}"


class Loop:
    """One update after another."""

    def __init__(self, arguments: list[str]) -> None:
        """Build environments, network and optimizer."""
        envs, horizon, vector, network, precision, threads = arguments
        torch.set_num_threads(int(threads))
        torch.manual_seed(0)
        self.envs, self.horizon, self.bf16 = int(envs), int(horizon), precision == "bf16"
        make = {"ale": ale, "envpool": pool}[vector]
        self.observation, self.step, actions, self.version = make(self.envs, int(threads))
        self.network = ActorCritic(network, actions)
        self.optimizer = torch.optim.Adam(self.network.parameters(), 7e-4, eps=1e-5)

    def update(self) -> None:
        """Sample ``horizon`` steps of all environments and learn from them once."""
        seen, actions, rewards, dones = [], [], [], []
        for _ in range(self.horizon):
            observation = torch.from_numpy(np.ascontiguousarray(self.observation))
            with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16, enabled=self.bf16):
                logits, _ = self.network(observation)
            action = torch.distributions.Categorical(logits=logits).sample()
            self.observation, reward, done = self.step(action.numpy())
            seen.append(observation)
            actions.append(action)
            rewards.append(torch.from_numpy(np.sign(reward)).float())
            dones.append(torch.from_numpy(done))
        with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16, enabled=self.bf16):
            _, bootstrap = self.network(torch.from_numpy(np.ascontiguousarray(self.observation)))
        returns, running = [], bootstrap.clone()
        for reward, done in zip(reversed(rewards), reversed(dones), strict=True):
            running = reward + 0.99 * running * ~done
            returns.append(running)
        target = torch.cat(returns[::-1])
        with torch.autocast("cpu", torch.bfloat16, enabled=self.bf16):
            logits, value = self.network(torch.cat(seen))
        policy = torch.distributions.Categorical(logits=logits)
        advantage = (target - value).detach()
        loss = -(policy.log_prob(torch.cat(actions)) * advantage).mean()
        loss = loss + 0.5 * (target - value).square().mean() - 0.01 * policy.entropy().mean()
        self.optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.network.parameters(), 0.5)
        self.optimizer.step()


def main() -> None:
    """Measure and print."""
    seconds = float(sys.argv[1])
    loop = Loop(sys.argv[2:])
    until_s = time.monotonic() + WARMUP_S
    while time.monotonic() < until_s:
        loop.update()
    updates, began_s, windows = 0, time.monotonic(), Windows()
    while (elapsed_s := time.monotonic() - began_s) < seconds:
        loop.update()
        updates += 1
        windows.count(loop.horizon * loop.envs)
    rate = updates * loop.horizon * loop.envs / elapsed_s
    print(json.dumps({"steps_per_s": rate, "windows": windows.rates, "version": loop.version}), flush=True)


if __name__ == "__main__":
    main()
