"""Losses of several networks, each with a gradient for its own network; and losses that CUDA graphs compute."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch
from msgspec.structs import replace
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from actorlearn.algorithms.a2c import A2C
from actorlearn.algorithms.interface import Batch, Networks
from actorlearn.algorithms.make import extra_networks
from actorlearn.algorithms.sac import SAC
from actorlearn.algorithms.settings import Polyak
from actorlearn.extra_networks import ExtraNetwork
from actorlearn.learning import losses
from actorlearn.learning.losses import CapturedLoss, Gradient, LossAndMetrics, LossPerNetwork, SingleLoss
from actorlearn.learning.losses import make as make_losses
from actorlearn.learning.make import make
from actorlearn.learning.minibatches import Minibatch
from actorlearn.learning.target import Target
from actorlearn.learning.update import Learning
from actorlearn.models.make import make as make_model
from actorlearn.models.several import networks
from actorlearn.worker.passes import ComputePool, FlatNetwork
from tests import named
from tests.learning.made import ENVIRONMENTS, HORIZON, batch, trainer_settings
from tests.learning.replayed import Played, replaying, source


class Judged(A2C):
    """An actor and two other networks; each loss depends on all three."""

    def extra_networks(self, actions: object) -> dict[str, ExtraNetwork]:
        return {"judge": ExtraNetwork({"value": 1}), "number": ExtraNetwork({"it": 1}, observation=False)}

    def losses(
        self, networks: Networks, batch: Batch, generator: torch.Generator, progress: float
    ) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        seen = batch.observation[0]
        acting, judge, number = networks["actor"](seen), networks["judge"](seen)["value"], networks["number"]()["it"]
        noise = torch.randn(judge.shape, generator=generator)
        all_of_them = (acting["logits"].sum(-1, keepdim=True) + judge + number + 1.0).square()
        return (
            {
                "actor": all_of_them.mean(),
                "judge": 2.0 * (all_of_them * noise).mean(),
                "number": 3.0 * all_of_them.sum(),
            },
            {"noise": noise.mean()},
        )


def learning(name: str = "Judged") -> Learning:
    settings = trainer_settings(name=f"{__name__}:{name}")
    return make(settings)


def of(made: Learning, name: str) -> Tensor:
    """The gradient of one network, as one vector."""
    parameters = networks(made.network.module)[name].parameters()
    return torch.cat([p.grad.reshape(-1) for p in parameters if p.grad is not None])


def test_each_network_gets_the_gradient_of_its_own_loss_alone() -> None:
    made, minibatch = learning(), Minibatch(batch(), seed=7)
    made.network.gradients.fill_(9.0)  # what the update before has left
    result = made.losses.compute_gradient(minibatch, 0.0)
    found = {name: of(made, name).clone() for name in ("actor", "judge", "number")}
    own = networks(made.network.module)
    losses, _ = made.algorithm.losses(own, minibatch.batch, torch.Generator().manual_seed(7), 0.0)  # type: ignore[attr-defined]
    torch.testing.assert_close(result.loss, sum(losses.values()).detach())
    for name, loss in losses.items():
        expected = torch.autograd.grad(loss, list(own[name].parameters()), retain_graph=True, allow_unused=True)
        whole = [torch.zeros_like(p) if g is None else g for p, g in zip(own[name].parameters(), expected, strict=True)]
        torch.testing.assert_close(found[name], torch.cat([g.reshape(-1) for g in whole]))
    assert all(gradient.any() for gradient in found.values())


def test_losses_on_two_cores_have_the_same_bits_as_on_one() -> None:
    one, two = (make(replace(trainer_settings(name=f"{__name__}:Judged"), threads=threads)) for threads in (1, 2))
    for made in (one, two):
        made.losses.compute_gradient(Minibatch(batch(), seed=7), 0.0)
    assert two.network.pool.count == 2
    assert torch.equal(one.network.gradients, two.network.gradients)


def test_an_error_in_the_backward_pass_is_raised_on_one_core_or_two() -> None:
    class Detached(Judged):
        def losses(self, *arguments: Any) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
            losses, metrics = super().losses(*arguments)
            return {name: loss.detach() for name, loss in losses.items()}, metrics

    for threads in (1, 2):
        made = make(replace(trainer_settings(name=f"{__name__}:Judged"), threads=threads))
        made.losses = make_losses(Detached(made.algorithm_settings), made.network, None, "cpu", "fp32")  # type: ignore[arg-type]
        with pytest.raises(RuntimeError, match="does not require grad"):
            made.losses.compute_gradient(Minibatch(batch()), 0.0)


def test_the_error_about_an_algorithm_without_losses_names_its_networks() -> None:
    class Silent(Judged):
        def losses(self, *arguments: Any) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
            return {}, {}

    made = learning()
    losses = make_losses(Silent(made.algorithm_settings), made.network, None, "cpu", "fp32")  # type: ignore[arg-type]
    with pytest.raises(
        ValueError, match="losses returns no loss; it must return at least one, for actor, judge, number"
    ):
        losses.compute_gradient(Minibatch(batch()), 0.0)


def test_a_losss_random_numbers_depend_on_the_minibatchs_seed_alone() -> None:
    made = learning()
    drawn = [
        float(made.losses.compute_gradient(Minibatch(batch(), seed=seed), 0.0).metrics["noise"]) for seed in (1, 2, 1)
    ]
    assert drawn[0] == drawn[2] != drawn[1]


def test_each_minibatch_of_a_rollout_has_a_reproducible_seed_of_its_own() -> None:
    settings = trainer_settings(name=f"{__name__}:Judged", minibatches=2, epochs=2)
    made = make(settings)
    seeds = [m.seed for m in made.minibatches.draw(batch(), 5, 4, 0)]
    assert len(set(seeds)) == 4
    assert [m.seed for m in made.minibatches.draw(batch(), 5, 3, 0)] == seeds[1:]
    assert not set(seeds) & {m.seed for m in made.minibatches.draw(batch(), 6, 4, 0)}


def test_a_loss_of_one_network_leaves_the_others_as_they_are() -> None:
    class Half(Judged):
        def losses(self, *rows: object) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
            losses, metrics = super().losses(*rows)  # type: ignore[arg-type]
            return {"judge": losses["judge"]}, metrics

    made = learning()
    made.algorithm.__class__ = Half
    made.learn(batch(), 0, 0)
    assert of(made, "judge").any() and not of(made, "actor").any() and not of(made, "number").any()


def test_a_loss_that_is_not_finite_changes_nothing() -> None:
    made, bad = learning(), batch()
    bad.observation[0, 0] = float("nan")
    before = made.sha256()
    made.learn(bad, 0, 0)
    assert made.sha256() == before and made.skipped == 1


def test_an_algorithm_has_one_loss_or_networks_and_losses() -> None:
    class Contradiction:
        heads = columns = act = prepare = losses = len

    from actorlearn.algorithms.settings import ALGORITHMS

    with pytest.raises(ValueError, match="lacks extra_networks "):
        ALGORITHMS.spec("a2c").check(Contradiction, "it")
    with pytest.raises(ValueError, match="lacks loss "):
        ALGORITHMS.spec("a2c").check(
            type("NoLoss", (), dict.fromkeys(("heads", "columns", "act", "prepare"), len)), "it"
        )


# CUDA graphs --------------------------------------------------------------------------------------------------------


class Recorded(TorchDispatchMode):
    """Stands for a CUDA graph on a machine without a GPU: records the operations of a function, and repeats them.

    As in a graph, a replay reads the recorded inputs and overwrites the recorded results, and no operation may wait for
    the GPU to read a number from it.
    """

    def __init__(self, work: Callable[[], LossAndMetrics], device: torch.device, generator: object = None) -> None:
        super().__init__()
        self._calls: list[tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any], list[Any]]] = []
        with self:
            self.result = work()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        by_mask = func is torch.ops.aten.index.Tensor and any(x is not None and x.dtype == torch.bool for x in args[1])
        if by_mask or func in (torch.ops.aten._local_scalar_dense.default, torch.ops.aten.nonzero.default):
            raise RuntimeError(f"{func}: not permitted when stream is capturing")
        results = func(*args, **(kwargs or {}))
        self._calls.append((func, args, kwargs or {}, tree_leaves(results)))
        return results

    @torch.no_grad()
    def replay(self) -> LossAndMetrics:
        for func, args, kwargs, results in self._calls:
            for old, new in zip(results, tree_leaves(func(*args, **kwargs)), strict=True):
                if isinstance(old, Tensor) and old.data_ptr() != new.data_ptr():
                    old.copy_(new)
        return self.result


class Once(Recorded):
    """A graph whose replays compute nothing, as if nothing of the loss ran on the GPU."""

    def replay(self) -> LossAndMetrics:
        return self.result


class Falling(A2C):
    """A loss that depends on the progress."""

    def loss(self, outputs: Any, batch: Batch, progress: float) -> tuple[Tensor, Any]:
        loss, metrics = super().loss(outputs, batch, progress)
        return loss * (1.0 - progress), metrics


def captured(made: Learning, warned: list[str]) -> CapturedLoss:
    plain, detached = (SingleLoss(made.algorithm, made.network, detached=detached) for detached in (False, True))
    return CapturedLoss(plain, detached, made.network, warned.append)


def played() -> Batch:
    """A batch with the columns that PPO records."""
    columns = {name: torch.zeros(HORIZON, ENVIRONMENTS) for name in ("log_prob", "value")}
    return dataclasses.replace(batch(), columns=columns)


def minibatches(made: Learning) -> list[Minibatch]:
    """Minibatches of two shapes, in turn."""
    whole, size = played(), made.network.state_size
    state = {"state": torch.rand(1, ENVIRONMENTS, size)} if size else {}
    prepared = made.minibatches.prepare(dataclasses.replace(whole, columns={**whole.columns, **state}))
    parts = [torch.tensor(part) for part in ([0, 1, 2], [3, 4], [5, 6, 7], [2, 7])]
    return [Minibatch(prepared.environments(part)) for part in parts]


def check_captured(made: Learning, minibatches: Sequence[Minibatch]) -> None:
    """Check that captured and plain losses of a learner compute the same."""
    plain, detached = (SingleLoss(made.algorithm, made.network, detached=detached) for detached in (False, True))
    check_replayed(plain, detached, made.network, minibatches)


def check_replayed(plain: Gradient, detached: Gradient, network: FlatNetwork, minibatches: Sequence[Minibatch]) -> None:
    """Check captured ``detached`` against ``plain``, with other weights and progress for each minibatch."""
    warned: list[str] = []
    gradients = network.gradients
    replayed = CapturedLoss(plain, detached, network, warned.append)
    for number, minibatch in enumerate(minibatches):
        network.weights.mul_(1.1)
        found, gradient = told(replayed.compute_gradient(minibatch, number / 8)), gradients.clone()
        expected = told(plain.compute_gradient(minibatch, number / 8))
        torch.testing.assert_close(gradient, gradients, rtol=1e-3, atol=1e-5)
        assert found == pytest.approx(expected, rel=1e-3, abs=1e-5)
    assert not warned


def told(computed: LossAndMetrics) -> dict[str, float]:
    metrics = {name: float(metric.sum()) for name, metric in computed.metrics.items()}
    return {**metrics, "loss": float(computed.loss.detach())}


@pytest.mark.parametrize("recurrence", ["none", "lstm"])
@pytest.mark.parametrize(
    "algorithm",
    [
        *({"name": name} for name in ("a2c", "ppo", "impala", "pqn", f"{__name__}:Falling")),
        {"name": "ppo", "schedule": "cosine", "entropy_cost_final": 0.5, "ratio_clip_final": 0.01},
    ],
    ids=["a2c", "ppo", "impala", "pqn", "of the progress", "of a cosine of the progress"],
)
def test_a_captured_loss_equals_the_loss(
    algorithm: dict[str, Any], recurrence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(losses, "Captured", Recorded)
    made = make(trainer_settings(named.model(name="mlp", hidden_sizes=[4], recurrence=recurrence), **algorithm))
    check_captured(made, minibatches(made))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.filterwarnings("default")  # torch warns once of what it finds out about the GPU
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("name", ["a2c", "ppo"])
def test_a_loss_in_a_cuda_graph_equals_the_loss(name: str, precision: str) -> None:
    settings = msgspec.structs.replace(trainer_settings(name=name), device="cuda", precision=precision)
    made = make(settings)
    assert isinstance(made.losses, CapturedLoss)
    parts = minibatches(make(trainer_settings(name=name)))
    check_captured(made, [part._replace(batch=part.batch.map(Tensor.cuda)) for part in parts])


@pytest.mark.parametrize("name", ["dqn", "c51"])
def test_a_captured_loss_of_a_replay_equals_the_loss(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(losses, "Captured", Recorded)
    made = replaying(tmp_path, name=name)
    played = Played(tmp_path, made)
    for number in range(3):
        played.rollout(number)
    check_captured(made, [source(made).draw_one(30) for _ in range(4)])


def soft_actor_critic(device: str, precision: str) -> tuple[FlatNetwork, LossPerNetwork, Batch]:
    """SAC's networks, the gradients of its losses, and a batch for them."""
    algorithm: Any = SAC(named.algorithm(name="sac", random_steps=0))
    heads, extra = algorithm.heads((2,)), extra_networks(algorithm, (2,))
    module = make_model(named.model(name="mlp", hidden_sizes=[8]), (3,), "float32", heads, 0, extra)
    network = FlatNetwork(module.to(device), ComputePool(), precision, False)
    plain = LossPerNetwork(algorithm, network, Target(network, Polyak(0.01), 10), device, precision)
    given = Batch.plain(
        observation=torch.rand(2, 16, 3),
        action=2.0 * torch.rand(1, 16, 2) - 1.0,
        reward=torch.rand(1, 16),
        columns={name: torch.rand(1, 16) for name in ("discount", "weight")},
    ).map(lambda tensor: tensor.to(device))
    return network, plain, given


def check_soft_actor_critic(device: str, precision: str) -> None:
    """Check graphs of SAC's losses with minibatches of different seeds, and of one seed again."""
    network, plain, given = soft_actor_critic(device, precision)
    check_replayed(plain, plain, network, [Minibatch(given, seed=seed) for seed in (7, 8, 9, 8)])


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_a_network_that_was_called_without_gradient_has_a_gradient_in_its_next_call(
    precision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cache of earlier releases of torch gives the second call the weights that were cast without gradient."""
    network, plain, given = soft_actor_critic("cpu", precision)
    caches: list[bool] = []
    computed = SAC.losses

    def watched(*arguments: Any) -> Any:
        caches.append(torch.is_autocast_enabled("cpu") and torch.is_autocast_cache_enabled())
        return computed(*arguments)

    monkeypatch.setattr(SAC, "losses", watched)
    plain.compute_gradient(Minibatch(given, seed=7), 0.0)
    assert caches == [False]
    for name, module in networks(network.module).items():
        assert all(p.grad is not None and p.grad.any() for p in module.parameters()), name


def test_captured_losses_of_several_networks_draw_the_losses_random_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(losses, "Captured", Recorded)
    check_soft_actor_critic("cpu", "fp32")


class Delayed(Judged):
    """An actor that has a loss in every second call only, beside a judge with a far larger gradient."""

    calls = 0

    def losses(self, *arguments: Any) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        losses, metrics = super().losses(*arguments)
        self.calls += 1
        actor = {} if self.calls % 2 else {"actor": losses["actor"]}
        return {"judge": 1e2 * losses["judge"], **actor}, metrics


def test_a_wrong_gradient_of_a_small_network_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(losses, "Captured", Recorded)
    made, warned = learning("Delayed"), list[str]()
    replayed = CapturedLoss(made.losses, made.losses, made.network, warned.append)
    for seed in range(3):
        replayed.compute_gradient(Minibatch(batch(), seed=seed), 0.0)
    assert len(warned) == 1 and "differs by" in warned[0]


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.filterwarnings("default")  # torch warns once of what it finds out about the GPU
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_losses_of_several_networks_in_a_cuda_graph_equal_the_losses(precision: str) -> None:
    check_soft_actor_critic("cuda", precision)


@pytest.mark.parametrize("useless", [False, True])
def test_a_captured_loss_that_gives_old_numbers_is_reported_and_not_used(
    useless: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(losses, "Captured", Once)
    made, warned = make(trainer_settings()), list[str]()
    replayed, gradients = captured(made, warned), made.network.gradients
    given = minibatches(made)
    if useless:  # the first gradient is NaN, so it cannot show that the graph is wrong
        given[0].batch.reward[0, 0] = torch.nan
    for minibatch in given:
        made.weights.mul_(1.1)
        replayed.compute_gradient(minibatch, 0.0)
        found = gradients.clone()
        made.losses.compute_gradient(minibatch, 0.0)
        torch.testing.assert_close(found, gradients, equal_nan=True)
    assert len(warned) == 1
    assert "trainer.cuda_graphs: gradients are computed without CUDA graphs, because the gradient of the" in warned[0]


class Growing(A2C):
    """A loss that depends on how often it was computed."""

    calls = 0

    def loss(self, outputs: Any, batch: Batch, progress: float) -> tuple[Tensor, Any]:
        loss, metrics = super().loss(outputs, batch, progress)
        self.calls += 1
        return loss * (1.0 + 0.005 * self.calls), metrics


def test_a_captured_loss_that_drifts_away_from_the_loss_is_reported_and_not_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(losses, "Captured", Recorded)
    made, warned = make(trainer_settings(name=f"{__name__}:Growing")), list[str]()
    replayed, minibatch = captured(made, warned), minibatches(made)[0]
    told_at = [replayed.compute_gradient(minibatch, 0.0) and len(warned) for _ in range(40)]
    assert told_at[0] == 0 and told_at[-1] == 1
    assert "differs by" in warned[0]


@pytest.mark.parametrize("error", [RuntimeError, TypeError])
def test_a_loss_that_cannot_be_captured_is_reported_and_computed_without_a_graph(
    error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise error("operation not permitted when stream is capturing")

    monkeypatch.setattr(losses, "Captured", refuse)
    made, warned = make(trainer_settings()), list[str]()
    replayed = captured(made, warned)
    for minibatch in minibatches(made):
        assert torch.isfinite(replayed.compute_gradient(minibatch, 0.0).loss)
    assert len(warned) == 1
    assert "not permitted" in warned[0]


def test_minibatches_of_many_shapes_are_computed_and_the_user_is_warned_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(losses, "Captured", Recorded)
    made, warned = make(trainer_settings()), list[str]()
    replayed, prepared = captured(made, warned), made.minibatches.prepare(played())
    for size in (1, 2, 3, 4, 5, 6, 2):
        minibatch = Minibatch(prepared.environments(torch.arange(size)))
        found, gradient = told(replayed.compute_gradient(minibatch, 0.0)), made.network.gradients.clone()
        assert found == pytest.approx(told(made.losses.compute_gradient(minibatch, 0.0)), rel=1e-4)
        torch.testing.assert_close(gradient, made.network.gradients)
    assert len(warned) == 1
    assert "minibatches have had 4 shapes" in warned[0]


def test_metrics_are_those_of_the_newest_step_if_target_kl_leaves_out_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(losses, "Captured", Recorded)

    def learned(target_kl: float, graphs: bool) -> dict[str, float]:
        made = make(trainer_settings(name="ppo", epochs=2, minibatches=2, target_kl=target_kl))
        if graphs:
            made.losses = captured(made, [])
        return made.learn(played(), 0, 0)

    limits = (0.1 * 1.02**number for number in range(100))
    limit = next(limit for limit in limits if 0.0 < learned(limit, graphs=False)["learned_share"] < 1.0)
    assert learned(limit, graphs=True) == pytest.approx(learned(limit, graphs=False), rel=1e-4)


def test_metrics_of_a_skipped_step_are_kept_when_the_next_minibatch_overwrites_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(losses, "Captured", Recorded)
    found = []
    for graphs in (False, True):
        made = make(trainer_settings(name="ppo", epochs=1, minibatches=2))
        if graphs:
            made.losses = captured(made, [])
        whole = played()
        first = next(made.minibatches.draw(made.minibatches.prepare(whole), 0, 2, 0)).part
        assert first is not None
        whole.reward[0, min(first.tolist())] = torch.nan  # a transition of the first minibatch
        found.append(made.learn(whole, 0, 0))
        assert made.skipped
    assert math.isnan(found[0]["loss"])
    assert found[0] == pytest.approx(found[1], nan_ok=True, rel=1e-4)
