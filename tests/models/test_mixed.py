"""The network for observations of several parts: convolutions see the images, and the other numbers are all there."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict, Discrete

from actorlearn.envs.observations import layout
from actorlearn.models.encoders import STACKS, smallest_side
from actorlearn.models.make import make
from actorlearn.observation_parts import SMALLEST_SIDE, ImagePart
from tests import named

SPACE = Dict(
    {
        "a": Discrete(3),
        "camera": Box(0, 255, (40, 48, 3), np.uint8),
        "frames": Box(0, 255, (4, 10, 10), np.uint8),
        "speed": Box(-1, 1, (2,), np.float32),
    }
)
"""Vectors of 3, 5,760, 400 and 2 cells; the channels are last in ``camera``, and first in ``frames``."""
CAMERA, FRAMES = ImagePart(3, (40, 48, 3)), ImagePart(5763, (4, 10, 10), channels_last=False)
LENGTH = 6165


def test_images_are_found_in_a_dict() -> None:
    found, _ = layout(SPACE)
    assert (found.shape, found.images) == ((LENGTH,), (CAMERA, FRAMES))
    assert CAMERA.channels_first == (3, 40, 48) and FRAMES.channels_first == (4, 10, 10)


@pytest.mark.parametrize(
    "space",
    [SPACE["camera"], Dict({"camera": SPACE["camera"]}), Dict({"flat": Box(0, 1, (2, 9, 2)), "n": Discrete(2)})],
)
def test_one_image_alone_and_a_box_too_small_to_convolve_are_none(space: object) -> None:
    found, _ = layout(space)  # type: ignore[arg-type]
    assert found.images == ()


def test_a_convolution_sees_the_pixels_of_its_image_in_their_places() -> None:
    network = make(named.model("mixed", images=(CAMERA, FRAMES)), (LENGTH,), "float32", {"value": 1}, 0)
    camera, frames = network.trunks["value"].encoder.convolutions  # type: ignore[union-attr, index, attr-defined]
    seen: list[torch.Tensor] = []
    for convolutions in (camera, frames):
        convolutions.register_forward_hook(lambda _module, given, _out: seen.append(given[0]))
    observation = {
        "a": 2,
        "camera": np.random.default_rng(0).integers(256, size=(40, 48, 3), dtype=np.uint8),
        "frames": np.random.default_rng(1).integers(256, size=(4, 10, 10), dtype=np.uint8),
        "speed": np.zeros(2, np.float32),
    }
    row = np.zeros((1, LENGTH), np.float32)
    layout(SPACE)[0].store(observation, row, 0)
    network(torch.from_numpy(row))
    np.testing.assert_allclose(seen[0][0], np.moveaxis(observation["camera"], -1, 0) / 255, rtol=1e-6)
    np.testing.assert_allclose(seen[1][0], observation["frames"] / 255, rtol=1e-6)


def test_each_number_outside_the_images_changes_the_output() -> None:
    network = make(named.model("mixed", images=(CAMERA, FRAMES)), (LENGTH,), "float32", {"value": 1}, 0)
    before = network(torch.zeros(1, LENGTH))["value"]
    for cell in (0, 1, 2, LENGTH - 2, LENGTH - 1):
        row = torch.zeros(1, LENGTH)
        row[0, cell] = 1.0
        assert not torch.equal(network(row)["value"], before)


def test_an_image_of_more_cells_than_memory_has_is_refused() -> None:
    large = (ImagePart(0, (65_536, 65_536, 65_536)),)
    with pytest.raises(ValueError, match=r"model.images: .* reach beyond the observation's"):
        make(named.model("mixed", images=large), (LENGTH,), "float32", {"value": 1}, 0)


@pytest.mark.parametrize("shape", [(2, 9, 1), (9, 2, 1)])
def test_an_image_that_cannot_be_convolved_is_refused(shape: tuple[int, int, int]) -> None:
    with pytest.raises(ValueError, match=r"model.images: \[\(0, ., ., 1\)\]: height and width .* at least 3; remove"):
        make(named.model("mixed", images=(ImagePart(0, shape),)), (LENGTH,), "float32", {"value": 1}, 0)
    assert smallest_side(STACKS["minatar"].convolutions) == SMALLEST_SIDE


@pytest.mark.parametrize("images", [(ImagePart(LENGTH - 1, (3, 3, 1)),), (CAMERA, ImagePart(4, (3, 3, 1)))])
def test_images_that_are_not_in_the_observation_or_overlap_are_refused(images: tuple[ImagePart, ...]) -> None:
    with pytest.raises(ValueError, match=r"model.images: .* must not overlap or reach beyond the observation's"):
        make(named.model("mixed", images=images), (LENGTH,), "float32", {"value": 1}, 0)


def test_it_has_the_keys_of_the_perceptron() -> None:
    """With them a topology may leave the network out: with an image in its observations it gets this one."""
    model = named.model("mixed", images=(FRAMES,), hidden_sizes=(8,), value_hidden_sizes=(16, 4), layer_norm=True)
    trunks = make(model, (LENGTH,), "float32", {"logits": 2, "value": 1}, 0).trunks
    widths = {
        head: [layer.out_features for layer in trunks[head].encoder.layers if isinstance(layer, torch.nn.Linear)]  # type: ignore[union-attr, index]
        for head in ("logits", "value")
    }
    assert widths == {"logits": [8], "value": [16, 4]}
    assert sum(isinstance(layer, torch.nn.LayerNorm) for layer in trunks["value"].encoder.layers) == 2  # type: ignore[union-attr, index]
