"""A2C on CartPole as one plain loop over gymnasium's own vector environments. Usage: SECONDS ENVS HORIZON VECTOR.

VECTOR is sync or async, gymnasium's two for any environment, or own, its class of many CartPoles. Two hidden layers of
64 for policy and value each. Prints one JSON line.
"""

from __future__ import annotations

import json
import sys
import time

import gymnasium
import torch
from torch import nn

WARMUP_S = 3.0


def perceptron(outputs: int) -> nn.Sequential:
    """4 numbers in."""
    return nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, outputs))


class Loop:
    """One update after another."""

    def __init__(self, envs: int, horizon: int, vector: str) -> None:
        """Build environments, networks and optimizer."""
        torch.set_num_threads(1)
        torch.manual_seed(0)
        mode = "vector_entry_point" if vector == "own" else vector
        self.env = gymnasium.make_vec("CartPole-v1", envs, vectorization_mode=mode)
        self.envs, self.horizon = envs, horizon
        self.policy, self.value = perceptron(2), perceptron(1)
        parameters = [*self.policy.parameters(), *self.value.parameters()]
        self.optimizer = torch.optim.Adam(parameters, 3e-3, eps=1e-5)
        self.observation, _ = self.env.reset(seed=0)

    def update(self) -> None:
        """Sample ``horizon`` steps of all environments and learn from them once."""
        seen, actions, rewards, dones = [], [], [], []
        for _ in range(self.horizon):
            observation = torch.from_numpy(self.observation)
            with torch.inference_mode():
                action = torch.distributions.Categorical(logits=self.policy(observation)).sample()
            self.observation, reward, terminated, truncated, _ = self.env.step(action.numpy())
            seen.append(observation)
            actions.append(action)
            rewards.append(torch.from_numpy(reward).float())
            dones.append(torch.from_numpy(terminated | truncated))
        with torch.inference_mode():
            running = self.value(torch.from_numpy(self.observation)).squeeze(-1)
        returns = []
        for reward, done in zip(reversed(rewards), reversed(dones), strict=True):
            running = reward + 0.99 * running * ~done
            returns.append(running)
        target = torch.cat(returns[::-1])
        observation = torch.cat(seen)
        policy, value = torch.distributions.Categorical(logits=self.policy(observation)), self.value(observation)
        advantage = (target - value.squeeze(-1)).detach()
        loss = -(policy.log_prob(torch.cat(actions)) * advantage).mean()
        loss = loss + 0.5 * (target - value.squeeze(-1)).square().mean()
        self.optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.optimizer.param_groups[0]["params"], 0.5)
        self.optimizer.step()


def main() -> None:
    """Measure and print."""
    seconds, envs, horizon, vector = sys.argv[1:]
    loop = Loop(int(envs), int(horizon), vector)
    until_s = time.monotonic() + WARMUP_S
    while time.monotonic() < until_s:
        loop.update()
    updates, began_s = 0, time.monotonic()
    while (elapsed_s := time.monotonic() - began_s) < float(seconds):
        loop.update()
        updates += 1
    loop.env.close()
    rate = updates * loop.horizon * loop.envs / elapsed_s
    print(json.dumps({"steps_per_s": rate, "version": f"gymnasium {gymnasium.__version__}"}), flush=True)


if __name__ == "__main__":
    main()
