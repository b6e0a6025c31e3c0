"""Losses of several networks: the gradient of each is its network's alone, and the random numbers are the seed's."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from msgspec.structs import replace
from torch import Tensor

from actorlearn.algorithms.a2c import A2C
from actorlearn.algorithms.interface import Batch, Networks
from actorlearn.extra_networks import ExtraNetwork
from actorlearn.learning.losses import make as make_losses
from actorlearn.learning.make import make
from actorlearn.learning.minibatches import Minibatch
from actorlearn.learning.update import Learning
from actorlearn.models.several import networks
from tests.learning.made import batch, trainer_settings


class Judged(A2C):
    """An actor with a judge, whose every loss is made with all networks."""

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


def test_the_gradient_of_a_loss_is_that_of_its_network_alone() -> None:
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


def test_cores_that_share_out_losses_give_the_same_bits() -> None:
    one, two = (make(replace(trainer_settings(name=f"{__name__}:Judged"), threads=threads)) for threads in (1, 2))
    for made in (one, two):
        made.losses.compute_gradient(Minibatch(batch(), seed=7), 0.0)
    assert two.network.pool.count == 2
    assert torch.equal(one.network.gradients, two.network.gradients)


def test_an_error_on_the_way_back_is_raised_on_one_core_or_two() -> None:
    class Detached(Judged):
        def losses(self, *arguments: Any) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
            losses, metrics = super().losses(*arguments)
            return {name: loss.detach() for name, loss in losses.items()}, metrics

    for threads in (1, 2):
        made = make(replace(trainer_settings(name=f"{__name__}:Judged"), threads=threads))
        made.losses = make_losses(Detached(made.algorithm_settings), made.network, None, "cpu", "fp32")  # type: ignore[arg-type]
        with pytest.raises(RuntimeError, match="does not require grad"):
            made.losses.compute_gradient(Minibatch(batch()), 0.0)


def test_an_algorithm_without_a_loss_is_told_the_rule() -> None:
    class Silent(Judged):
        def losses(self, *arguments: Any) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
            return {}, {}

    made = learning()
    losses = make_losses(Silent(made.algorithm_settings), made.network, None, "cpu", "fp32")  # type: ignore[arg-type]
    with pytest.raises(
        ValueError, match="losses returns no loss; it must return at least one, for actor, judge, number"
    ):
        losses.compute_gradient(Minibatch(batch()), 0.0)


def test_what_it_draws_depends_on_the_minibatchs_seed_alone() -> None:
    made = learning()
    drawn = [
        float(made.losses.compute_gradient(Minibatch(batch(), seed=seed), 0.0).metrics["noise"]) for seed in (1, 2, 1)
    ]
    assert drawn[0] == drawn[2] != drawn[1]


def test_parts_of_a_rollout_have_seeds_of_their_own_that_come_again() -> None:
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
