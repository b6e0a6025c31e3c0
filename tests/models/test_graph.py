"""CUDA graphs: the same numbers as the eager pass, also after the weights have changed."""

from __future__ import annotations

import pytest
import torch

from actorlearn.models.graph import Graph
from actorlearn.models.make import autocast
from tests.models.test_make import images, network

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")]


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("name", ["nips", "nature", "impala"])
def test_a_replay_is_the_eager_pass(name: str, precision: str) -> None:
    net = network(name).cuda()
    with torch.inference_mode():
        graph = Graph(net, images(8).cuda(), precision)
        for parameter in net.parameters():
            parameter.mul_(1.5)
        seen = images(9)[1:].cuda()
        with autocast("cuda", precision):
            expected = net(seen)
        for head, output in graph(seen).items():
            torch.testing.assert_close(output, expected[head], rtol=1e-3, atol=1e-3)
