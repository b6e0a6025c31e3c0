"""An environment with any spaces, for tests of how these are converted."""

from __future__ import annotations

from typing import Any

import gymnasium
import pytest
from gymnasium.spaces import Space

from tests import named


class Spaces(gymnasium.Env[Any, Any]):
    """An environment with the spaces in ``SPACES``; it refuses actions outside of its action space."""

    observation_space: Space[Any]
    action_space: Space[Any]
    SPACES: tuple[Space[Any], Space[Any]]

    def __init__(self) -> None:
        self.observation_space, self.action_space = self.SPACES

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        self.observation_space.seed(seed)
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert self.action_space.contains(action), action
        return self.observation_space.sample(), 1.0, False, False, {}


def of(monkeypatch: pytest.MonkeyPatch, observations: Space[Any], actions: Space[Any], **keys: Any) -> Any:
    """Return settings of an environment with these spaces."""
    monkeypatch.setattr(Spaces, "SPACES", (observations, actions), raising=False)
    return named.env(f"{__name__}:Spaces", **keys)
