"""Describes which elements of an observation of several parts, stored as one vector, are an image."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

SMALLEST_SIDE = 3
"""Smallest height and width of an image to which the built-in networks apply convolutions."""
Side = Annotated[int, Meta(ge=1, le=65_536)]


class ImagePart(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The consecutive elements of a vector that are a flattened image."""

    start: Annotated[int, Meta(ge=0)]
    """Index of the image's first element."""
    shape: tuple[Side, Side, Side]
    """The image's shape in the environment: [height, width, channels] or [channels, height, width]."""
    channels_last: bool = True
    """Whether the last axis is the channels; if not, the first is."""

    @property
    def stop(self) -> int:
        """Index of the element after the image's last one."""
        first, second, third = self.shape
        return self.start + first * second * third

    @property
    def channels_first(self) -> tuple[int, int, int]:
        """The image's shape as [channels, height, width]."""
        first, second, third = self.shape
        return (third, first, second) if self.channels_last else self.shape
