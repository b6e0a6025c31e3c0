"""Pictures of environments made with ``render_mode`` rgb_array, checked."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt


def picture_of(env_id: str, env: Any) -> npt.NDArray[np.uint8]:
    """Return an environment's own picture [lines, columns, 3]; raises ValueError, one line, where there is none."""
    return _checked(env_id, _rendered(env_id, env))


def pictures_of(env_id: str, vector: Any) -> list[npt.NDArray[np.uint8]]:
    """Return the pictures of a vector environment of gymnasium, one of each; raises ValueError, one line."""
    return [_checked(env_id, picture) for picture in _rendered(env_id, vector) or (None,)]


def _rendered(env_id: str, env: Any) -> Any:
    try:
        return env.render()
    except Exception as error:  # an environment may raise anything
        said = f"{type(error).__name__}: {error}".splitlines()[0]
        raise ValueError(f"env.id: {env_id!r} cannot be shown: {said}") from error


def _checked(env_id: str, picture: Any) -> npt.NDArray[np.uint8]:
    if isinstance(picture, np.ndarray) and picture.shape[2:] == (3,):
        if picture.dtype == np.uint8:
            return picture
        if picture.dtype.kind == "f" and np.all((picture >= 0.0) & (picture <= 1.0)):  # MinAtar's
            return np.round(255.0 * picture).astype(np.uint8)
    raise ValueError(f"env.id: {env_id!r} cannot be shown: its render() does not return uint8[lines, columns, 3]")
