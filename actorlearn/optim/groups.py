"""Parameter groups: ranges of the flat vector of parameters with their own clipping, learning rate and epsilon.

If an algorithm has several networks, such as an actor and critics, the parameters of each network are a group.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Generic, NamedTuple, TypeVar

import torch
from torch import Tensor

from actorlearn.nearest import nearest
from actorlearn.optim.interface import Optimizer, copy_state
from actorlearn.optim.specs import OptimizerSettings

OptimizerT = TypeVar("OptimizerT", bound=Optimizer)


class ParameterGroup(NamedTuple):
    """The parameters of one network, with common optimizer settings; their gradient is clipped by its own norm."""

    name: str
    """Name of the network; empty if there is only one."""
    number: int
    """Index of the group, and of its learning rate in the argument of ``GroupedOptimizer.step``."""
    span: slice
    """The group's range of the flat vector."""
    settings: OptimizerSettings


class SharedOptimizer(NamedTuple, Generic[OptimizerT]):
    """An optimizer of one or more adjacent groups, which have equal settings."""

    span: slice
    group: int
    """Index of the first of its groups."""
    optimizer: OptimizerT


def make_groups(settings: OptimizerSettings, networks: Mapping[str, slice], size: int) -> tuple[ParameterGroup, ...]:
    """Return a group for each network, or one group of all ``size`` parameters if ``networks`` is empty.

    Raises ValueError if ``optimizer.groups`` names a network that does not exist.
    """
    for name in settings.groups:
        if not networks:
            raise ValueError(
                f"optimizer.groups: {name!r} is not a network of the algorithm, which has only one; write these "
                "numbers in the section optimizer itself"
            )
        if name not in networks:
            closest = nearest(name, networks)
            raise ValueError(
                f"optimizer.groups: {name!r} is not a network of the algorithm, whose networks are "
                f"{', '.join(networks)}{f'; did you mean {closest}?' if closest else ''}"
            )
    spans = networks or {"": slice(0, size)}
    return tuple(
        ParameterGroup(name, number, span, settings.of_group(name)) for number, (name, span) in enumerate(spans.items())
    )


def groups_within(groups: Sequence[ParameterGroup], span: slice) -> tuple[ParameterGroup, ...]:
    """Return the groups, or parts of them, within ``span`` of the flat vector, with ranges counted from its start."""
    cut = (
        group._replace(span=slice(max(group.span.start - span.start, 0), min(group.span.stop, span.stop) - span.start))
        for group in groups
    )
    return tuple(group for group in cut if group.span.start < group.span.stop)


def clip(gradients: Tensor, groups: Sequence[ParameterGroup]) -> Tensor:
    """Scale the gradient of each group in place so that its l2 norm is at most the group's ``clip_norm``.

    Returns the norm of the whole gradient before that, as a tensor of shape []. If it is not finite, the gradients
    must not be used.
    """
    if len(groups) == 1:
        return clip_by_global_norm(gradients, groups[0].settings.clip_norm)
    norm: Tensor = torch.linalg.vector_norm(gradients)
    for group in groups:
        if group.settings.clip_norm > 0.0:
            clip_by_global_norm(gradients[group.span], group.settings.clip_norm)
    return norm


@torch.no_grad()
def clip_by_global_norm(gradients: Tensor, max_norm: float) -> Tensor:
    """Scale the gradients in place so that their l2 norm is at most `max_norm`; 0: no limit.

    Returns the norm before that, as a tensor of shape [], so that the caller need not wait for a GPU. If it is not
    finite, the gradients must not be used: check `isfinite(norm)` before the step.
    """
    norm: Tensor = torch.linalg.vector_norm(gradients)
    if max_norm > 0.0:
        gradients.mul_((max_norm / norm).clamp_(max=1.0))
    return norm


class GroupedOptimizer(Generic[OptimizerT]):
    """Optimizers for the groups of one flat vector, with a common state as if they were one optimizer.

    Adjacent groups with equal settings share an optimizer, because optimizers update each element independently.
    """

    def __init__(
        self,
        make: Callable[[OptimizerSettings, Tensor], OptimizerT],
        groups: Sequence[ParameterGroup],
        parameters: Tensor,
    ) -> None:
        """Make the optimizers by ``make(settings, parameters)``.

        Raises ValueError if there are several, and ``state_vectors`` of the settings lacks one of their vectors.
        """
        self.vectors = groups[0].settings.state_vectors
        self.parts: list[SharedOptimizer[OptimizerT]] = []
        first = 0
        for place, group in enumerate(groups):
            if place + 1 < len(groups) and groups[place + 1].settings == group.settings:
                continue
            span = slice(groups[first].span.start, group.span.stop)
            optimizer = make(group.settings, parameters[span])
            self.parts.append(SharedOptimizer(span, groups[first].number, optimizer))
            first = place + 1
        for part in self.parts if len(self.parts) > 1 else ():
            for name, tensor in part.optimizer.state().items():
                if name not in self.vectors and tensor.numel() > 1:
                    raise ValueError(
                        f"optimizer.groups: the optimizer {groups[0].settings.name!r} keeps the vector {name!r}, which "
                        "its settings' state_vectors does not list (actorlearn/optim/specs.py); add it there, or "
                        "leave optimizer.groups out"
                    )

    def step(self, parameters: Tensor, gradients: Tensor, learning_rates: Sequence[float]) -> None:
        """Change the parameters in place by one step; ``learning_rates`` has one rate for each group."""
        for span, group, optimizer in self.parts:
            optimizer.step(parameters[span], gradients[span], learning_rates[group])

    def state(self) -> dict[str, Tensor]:
        """Return the state in the form of a single optimizer's state.

        With several optimizers, vectors are concatenated, which copies them. Other tensors, such as Adam's number of
        steps, are equal in all of them, because they take the same steps.
        """
        states = [part.optimizer.state() for part in self.parts]
        if len(states) == 1:
            return states[0]
        return {
            name: torch.cat([state[name] for state in states]) if name in self.vectors else tensor
            for name, tensor in states[0].items()
        }

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Copy a saved state into this one; raises ValueError if it is of another size or another optimizer."""
        if len(self.parts) > 1:
            copy_state(state, self.state())  # checks the shapes; slices would always fit
        for span, _, optimizer in self.parts:
            optimizer.restore({name: state[name][span] if name in self.vectors else state[name] for name in state})
