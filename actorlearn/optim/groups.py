"""Parameter groups: ranges of the flat vector that are clipped and stepped with optimizer numbers of their own.

Each network of an algorithm with several is a group. Reads gradients, writes parameters and state.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Generic, NamedTuple, TypeVar

import torch
from torch import Tensor

from actorlearn.nearest import nearest
from actorlearn.optim.clip import clip_by_global_norm
from actorlearn.optim.interface import Optimizer, copy_state
from actorlearn.optim.specs import OptimizerSettings

OptimizerT = TypeVar("OptimizerT", bound=Optimizer)


class Group(NamedTuple):
    """Parameters that are clipped together and stepped by the same numbers."""

    name: str
    """Name of the network; empty where there is only one."""
    number: int
    """Its place among all groups, and that of its learning rate in ``GroupedOptimizer.step``."""
    span: slice
    """Its range of the flat vector."""
    settings: OptimizerSettings


class Part(NamedTuple, Generic[OptimizerT]):
    """Adjacent groups with equal numbers, and the optimizer that steps them."""

    span: slice
    group: int
    """Number of the first of its groups."""
    optimizer: OptimizerT


def make_groups(settings: OptimizerSettings, networks: Mapping[str, slice], size: int) -> tuple[Group, ...]:
    """Return a group for each network, or one of all ``size`` parameters where ``networks`` is empty.

    Raises ValueError where ``optimizer.groups`` names a network that there is not.
    """
    for name in settings.groups:
        if not networks:
            raise ValueError(
                f"optimizer.groups: {name!r} is no network of the algorithm, which has only one; write these numbers "
                "in the section optimizer itself"
            )
        if name not in networks:
            closest = nearest(name, networks)
            raise ValueError(
                f"optimizer.groups: {name!r} is no network of the algorithm, whose networks are {', '.join(networks)}"
                f"{f'; did you mean {closest}?' if closest else ''}"
            )
    spans = networks or {"": slice(0, size)}
    return tuple(
        Group(name, number, span, settings.of_group(name)) for number, (name, span) in enumerate(spans.items())
    )


def groups_within(groups: Sequence[Group], span: slice) -> tuple[Group, ...]:
    """Return the groups of one range of the flat vector, their ranges counted from its start."""
    cut = (
        group._replace(span=slice(max(group.span.start - span.start, 0), min(group.span.stop, span.stop) - span.start))
        for group in groups
    )
    return tuple(group for group in cut if group.span.start < group.span.stop)


def clip(gradients: Tensor, groups: Sequence[Group]) -> Tensor:
    """Scale each group's gradient in place so that its norm is at most its ``clip_norm``; return the old norm of all.

    If that norm is not finite the gradients are not usable (``clip_by_global_norm``).
    """
    if len(groups) == 1:
        return clip_by_global_norm(gradients, groups[0].settings.clip_norm)
    norm: Tensor = torch.linalg.vector_norm(gradients)
    for group in groups:
        if group.settings.clip_norm > 0.0:
            clip_by_global_norm(gradients[group.span], group.settings.clip_norm)
    return norm


class GroupedOptimizer(Generic[OptimizerT]):
    """An optimizer for each group, on one flat vector, with the state of one optimizer for all of it.

    Elements are updated independently, so adjacent groups with equal numbers share an optimizer: a vector whose groups
    are all alike is stepped by one.
    """

    def __init__(
        self, make: Callable[[OptimizerSettings, Tensor], OptimizerT], groups: Sequence[Group], parameters: Tensor
    ) -> None:
        """Make the optimizers; raises ValueError for state that cannot be joined."""
        self.vectors = groups[0].settings.state_vectors
        self.parts: list[Part[OptimizerT]] = []
        first = 0
        for place, group in enumerate(groups):
            if place + 1 < len(groups) and groups[place + 1].settings == group.settings:
                continue
            span = slice(groups[first].span.start, group.span.stop)
            optimizer = make(group.settings, parameters[span])
            self.parts.append(Part(span, groups[first].number, optimizer))
            first = place + 1
        for part in self.parts if len(self.parts) > 1 else ():
            for name, tensor in part.optimizer.state().items():
                if name not in self.vectors and tensor.numel() > 1:
                    raise ValueError(
                        f"optimizer.groups: the optimizer {groups[0].settings.name!r} keeps {name!r}, which its "
                        "settings' state_vectors does not name (actorlearn/optim/specs.py); name it there, or "
                        "leave optimizer.groups out"
                    )

    def step(self, parameters: Tensor, gradients: Tensor, learning_rates: Sequence[float]) -> None:
        """Change the parameters in place by one step; ``learning_rates`` has one for each of all groups."""
        for span, group, optimizer in self.parts:
            optimizer.step(parameters[span], gradients[span], learning_rates[group])

    def state(self) -> dict[str, Tensor]:
        """Return the state as one optimizer would: of several parts the vectors are joined, which copies them.

        Everything else, such as Adam's count of steps, is equal in all parts, as they step together.
        """
        states = [part.optimizer.state() for part in self.parts]
        if len(states) == 1:
            return states[0]
        return {
            name: torch.cat([state[name] for state in states]) if name in self.vectors else tensor
            for name, tensor in states[0].items()
        }

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Copy a state in; raises ValueError where it is of another size or of another optimizer."""
        if len(self.parts) > 1:
            copy_state(state, self.state())  # checks the shapes; slices would always fit
        for span, _, optimizer in self.parts:
            optimizer.restore({name: state[name][span] if name in self.vectors else state[name] for name in state})
