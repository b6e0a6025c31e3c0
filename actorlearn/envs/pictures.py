"""Gets pictures from environments with ``render_mode`` rgb_array, and says in errors which package draws them."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt

from actorlearn.envs.specs import GymnasiumSettings, PettingZooSettings

DrawnT = TypeVar("DrawnT", GymnasiumSettings, PettingZooSettings)

SCREENS = ("DISPLAY", "WAYLAND_DISPLAY", "MUJOCO_GL")
"""Environment variables that tell MuJoCo where to draw; if none of them is set, it needs a screen."""
NEEDED = {
    "minatar.": "seaborn draws it: pip install 'actorlearn[minatar]'",
    "gymnasium.envs.mujoco.": "it draws with OpenGL; without a screen it needs EGL (libegl1), or OSMesa "
    "(libosmesa6) and MUJOCO_GL=osmesa",
}
"""Prefix of an environment's module -> the package or library that draws its pictures, as the end of an error."""
PICTURES = {"render_mode": "rgb_array"}
"""The argument with which an environment makes pictures."""


def with_pictures(settings: DrawnT) -> DrawnT:
    """Return the settings with render_mode rgb_array; call this before MuJoCo is imported.

    If no variable of ``SCREENS`` is set, it also sets MUJOCO_GL=egl, so that MuJoCo draws without a screen.
    """
    if not any(name in os.environ for name in SCREENS):
        os.environ["MUJOCO_GL"] = "egl"
    return msgspec.structs.replace(settings, kwargs={**settings.kwargs, **PICTURES})


def without_pictures(maker: Callable[..., Any], kwargs: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return ``kwargs`` without ``PICTURES`` if a class or function takes no render_mode.

    Its environments may make pictures without the argument. A ``render_mode: rgb_array`` of the user is removed too.
    """
    try:
        inspect.signature(maker).bind_partial(**PICTURES)
    except TypeError:
        return {name: value for name, value in kwargs.items() if name not in PICTURES or value != PICTURES[name]}
    except ValueError:  # code that is not Python has no signature
        return kwargs
    return kwargs


def picture_of(env_id: str, env: Any) -> npt.NDArray[np.uint8]:
    """Return an environment's picture, uint8 [height, width, 3]; raises ValueError if it cannot make one."""
    return _checked(env_id, _rendered(env_id, env))


def pictures_of(env_id: str, vector: Any) -> list[npt.NDArray[np.uint8]]:
    """Return the pictures of a gymnasium vector environment, one per environment; raises ValueError if it has none."""
    made = _rendered(env_id, vector)  # a sequence of pictures, or one array [B, height, width, 3]
    return [_checked(env_id, picture) for picture in ((None,) if made is None or not len(made) else made)]


def _rendered(env_id: str, env: Any) -> Any:
    try:
        return env.render()
    except Exception as error:  # an environment may raise anything
        said = f"{type(error).__name__}: {error}".splitlines()[0]
        module = type(getattr(env, "unwrapped", env)).__module__
        needed = "".join(f"; {what}" for beginning, what in NEEDED.items() if module.startswith(beginning))
        raise ValueError(f"env.id: {env_id!r} cannot be rendered: {said}{needed}") from error


def _checked(env_id: str, picture: Any) -> npt.NDArray[np.uint8]:
    if isinstance(picture, np.ndarray) and picture.shape[2:] == (3,):
        if picture.dtype == np.uint8:
            return picture
        if picture.dtype.kind == "f" and np.all((picture >= 0.0) & (picture <= 1.0)):  # as MinAtar makes them
            return np.round(255.0 * picture).astype(np.uint8)
    raise ValueError(
        f"env.id: {env_id!r} cannot be rendered: its render() does not return uint8[height, width, 3]; make the "
        "environment with render_mode='rgb_array', or add a wrapper with such a render() to env.wrappers"
    )
