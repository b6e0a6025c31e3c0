"""Arrays of several simulators become one tensor; on the CPU one array is used where it lies."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from actorlearn.worker.staging import Staging


def test_one_array_is_used_where_it_lies() -> None:
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    joined = Staging("cpu").join({"reward": [array]}, 1)["reward"]
    array[0, 0] = 7.0
    assert joined[0, 0] == 7.0


@pytest.mark.parametrize("dim", [0, 1])
def test_several_are_joined_in_their_order_and_keep_their_type(dim: int) -> None:
    arrays = [np.full((2, 3), number, np.uint8) for number in range(3)]
    joined = Staging("cpu").join({"observation": arrays}, dim)["observation"]
    assert joined.dtype == torch.uint8
    assert torch.equal(joined, torch.from_numpy(np.concatenate(arrays, dim)))
    arrays[0][:] = 9
    assert not (joined == 9).any()  # a copy


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU: joins in pinned memory")
def test_to_a_gpu_a_buffer_is_used_again_while_shapes_stay() -> None:
    staging = Staging("cuda")
    for size in (3, 3, 4):
        arrays = [np.full((2, size), number, np.float32) for number in range(2)]
        joined = staging.join({"reward": arrays}, 1)["reward"]
        assert joined.is_cuda and joined.tolist() == [[0.0] * size + [1.0] * size] * 2
