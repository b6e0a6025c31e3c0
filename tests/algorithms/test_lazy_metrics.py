"""Metrics of a loss are computed at most once, when one is read, and without gradient."""

from __future__ import annotations

import torch

from actorlearn.algorithms.lazy_metrics import LazyMetrics


def test_metrics_are_computed_once_when_the_first_is_read() -> None:
    calls = []

    def compute() -> dict[str, torch.Tensor]:
        calls.append(torch.is_grad_enabled())
        return {"mean": weight.mean(), "kept": kept}

    weight = torch.ones(3, requires_grad=True)
    kept = weight.sum()  # computed with a gradient, before
    metrics = LazyMetrics(compute)
    assert calls == []
    assert metrics["mean"].item() == 1.0 and not metrics["mean"].requires_grad
    assert not metrics["kept"].requires_grad
    assert list(metrics) == ["mean", "kept"] and len(metrics) == 2 and "other" not in metrics
    assert calls == [False]
