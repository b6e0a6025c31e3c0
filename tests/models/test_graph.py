"""CUDA graphs: the same numbers as the eager pass, also after the weights have changed."""

from __future__ import annotations

import pytest
import torch

from actorlearn.models.graph import Graph
from actorlearn.models.interface import state_size, unroll
from actorlearn.models.make import autocast
from tests.models.networks import images, network

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")]


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("name", ["nips", "nature", "impala"])
def test_a_replay_is_the_eager_pass(name: str, precision: str) -> None:
    net = network(name).cuda()
    with torch.inference_mode():
        graph = Graph(net, [images(8).cuda()[None]], precision)
        for parameter in net.parameters():
            parameter.mul_(1.5)
        seen = images(9)[1:].cuda()
        with autocast("cuda", precision):
            expected = net(seen)
        for head, output in graph(seen[None])[0].items():
            torch.testing.assert_close(output[0], expected[head], rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("recurrence", ["lstm", "gru"])
def test_a_replay_reads_state_and_first_rows(recurrence: str) -> None:
    net = network("nips", recurrence=recurrence).cuda()
    seen, state = images(8).cuda()[None], torch.randn(8, state_size(net)).cuda()
    first = torch.zeros(1, 8, dtype=torch.bool).cuda()
    with torch.inference_mode():
        graph = Graph(net, [seen, state, first], "fp32")
        first[0, 2] = True
        outputs, after = graph(seen, 2.0 * state, first)
        expected, expected_after = unroll(net, seen, 2.0 * state, first)
        torch.testing.assert_close(after, expected_after, rtol=1e-3, atol=1e-3)
        for head, output in outputs.items():
            torch.testing.assert_close(output, expected[head], rtol=1e-3, atol=1e-3)
