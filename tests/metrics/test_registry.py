"""The registry of metrics: complete for what is reported, a default for the rest, and a page that is up to date."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from actorlearn.algorithms.settings import ALGORITHMS, AlgorithmSpec
from actorlearn.memory.account import REASONS
from actorlearn.metric import Kind, Merge, Metric
from actorlearn.metrics.energy import Energy
from actorlearn.metrics.registry import DROPPED, GROUPS, METRICS, is_registered, metric
from actorlearn.metrics.timings import SECTIONS
from actorlearn.processes.counts import Lags

ROOT = Path(__file__).parents[2]


def test_no_name_is_registered_twice_and_each_says_what_it_is() -> None:
    names = [one.name for group in GROUPS.values() for one in group]
    assert len(names) == len(set(names)) == len(METRICS)
    assert all(one.description and "|" not in one.description for one in METRICS.values())
    assert all(one.weight in ("", *METRICS) for one in METRICS.values())


def test_what_owners_report_is_registered() -> None:
    reported = [*Lags().row(), *(f"share_{section}" for section in SECTIONS), *(f"dropped_{why}" for why in REASONS)]
    assert all(map(is_registered, reported))
    assert tuple(f"dropped_{why}" for why in REASONS) == DROPPED
    assert isinstance(Energy().row(0), dict) and is_registered("frames_per_kj")


def test_a_metric_that_nobody_registered_is_shown_and_averaged() -> None:
    mine = metric("temperature_loss")
    assert not is_registered("temperature_loss")
    assert (mine.kind, mine.merge, mine.learning, mine.shown_as) == (Kind.GAUGE, Merge.MEAN, True, "temperature loss")


class Described:
    """A stranger's algorithm, as far as its spec goes."""

    heads = columns = act = prepare = loss = lambda self: None
    metrics = (Metric("warmth", "degrees", "heat of the loss", kind=Kind.COUNTER, merge=Merge.SUM),)


def test_metrics_of_an_algorithm_stand_in_its_spec_or_class() -> None:
    assert metric("clipped_share").unit == "share" and is_registered("ratio_mean")
    assert all(name not in METRICS for spec in ALGORITHMS.specs() for name in (m.name for m in spec.metrics))
    assert not is_registered("warmth")
    spec: AlgorithmSpec = ALGORITHMS.spec(f"{__name__}:Described")
    assert metric("warmth") == spec.metrics[0] and is_registered("secondary_warmth")


def test_the_secondary_learner_s_metrics_are_those_of_the_first() -> None:
    ours, theirs = metric("gradient_norm"), metric("secondary_gradient_norm")
    assert (theirs.name, theirs.learning, theirs.merge) == ("secondary_gradient_norm", ours.learning, ours.merge)
    assert is_registered("secondary_gradient_norm") and not is_registered("secondary_temperature_loss")


def test_a_network_s_own_learning_rate_is_described_as_the_optimizer_s() -> None:
    ours, own = metric("learning_rate"), metric("learning_rate_critic_1")
    assert own.learning and own.merge == ours.merge
    assert own.description == f"{ours.description}, of the network critic_1"


@pytest.mark.parametrize("module", ["actorlearn.metrics.registry", "launch.reports.merge", "launch.reports.format"])
def test_the_registry_is_a_leaf_without_torch(module: str) -> None:
    program = f"import sys, {module}; print({{'torch', 'zmq', 'rich'}} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
