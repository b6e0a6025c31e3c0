"""Converts the observations, masks and actions of an environment between gymnasium's spaces and arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Self

import numpy as np
from gymnasium.spaces import Space

from actorlearn.envs.action_space import ActionSpace
from actorlearn.envs.interface import EnvSpec
from actorlearn.envs.masks import Masks, find_masks
from actorlearn.envs.observations import Indexed, Vector, Whole, layout_of
from actorlearn.observation_parts import ActionMask


class Spaces(NamedTuple):
    """Conversions of the observations and actions of one environment."""

    actions: ActionSpace
    layout: Whole | Vector
    """Converter of observations, without their masks."""
    masks: Masks | None
    """Reader of masks of valid actions; None if the environment has no masks."""
    left_out: tuple[str, ...]
    """Parts of the observations that are left out, such as text."""
    indexed: int = 0
    """Number of agents of a game if the agent's index is added to observations (``env.agent_index``); else 0."""

    @classmethod
    def of(
        cls,
        env_id: str,
        observation: Space[Any],
        action: Space[Any],
        *,
        scale_actions: bool = False,
        action_mask: str = "none",
        first_info: Callable[[], Any] = dict,
    ) -> Self:
        """Return the conversions for these spaces; raises ValueError for spaces that are not supported.

        ``scale_actions`` and ``action_mask`` are keys of the section ``env``. ``first_info`` begins a game and returns
        its info, in which a mask may be found.
        """
        actions = ActionSpace(env_id, action, scale_actions)
        space, masks = find_masks(env_id, action_mask, observation, actions.actions, first_info)
        layout, left_out = layout_of(env_id, space)
        return cls(actions, layout, masks, left_out)

    @property
    def rows(self) -> Whole | Vector | Indexed:
        """Converter of observations, with the agent's index and without masks."""
        return Indexed(self.layout, self.indexed) if self.indexed else self.layout

    def spec(self, **more: Any) -> EnvSpec:
        """Return the `EnvSpec` of environments with these spaces; ``more``: fields that the spaces do not determine."""
        rows = self.rows
        shape = tuple(int(size) for size in rows.shape)
        mask = ActionMask(self.masks.source, self.masks.length, shape) if self.masks else None
        return EnvSpec(
            observation_shape=mask.row_shape if mask else shape,
            observation_dtype="uint8" if rows.dtype == np.uint8 else "float32",
            observation_from=rows.words,
            images=rows.images,
            action_mask=mask,
            left_out=self.left_out,
            actions=self.actions.actions,
            frames_per_step=1,
            **more,
        )
