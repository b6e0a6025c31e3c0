"""An image within an observation of several parts, which is one vector."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

SMALLEST_SIDE = 3
"""Smallest height and width of an image that networks can convolve."""
Side = Annotated[int, Meta(ge=1, le=65_536)]


class ImagePart(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Cells of a vector that are an image, in the order of its axes."""

    start: Annotated[int, Meta(ge=0)]
    """The image's first cell."""
    shape: tuple[Side, Side, Side]
    """The image's sides, as in the environment: [height, width, channels], or [channels, height, width]."""
    channels_last: bool = True
    """Whether the last side is the channels; else the first is."""

    @property
    def stop(self) -> int:
        """The cell after the image's last one."""
        first, second, third = self.shape
        return self.start + first * second * third

    @property
    def channels_first(self) -> tuple[int, int, int]:
        """The image's sides as [channels, height, width]."""
        first, second, third = self.shape
        return (third, first, second) if self.channels_last else self.shape
