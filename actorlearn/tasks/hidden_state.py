"""Detects state of a plug-in's algorithm that it has not declared, and that checkpoints therefore do not contain."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from actorlearn.algorithms.interface import Algorithm
from actorlearn.algorithms.state import DeclaredState, declared_by

SAME = 1e-5
"""Largest difference at which two tensors count as equal, relative to the largest number; rounding may differ."""
_REMEDY = "declare it in the attribute state (docs/plugins.md#state-of-an-algorithm)"


def hidden_state(make: Callable[[], Algorithm], update: Callable[[Algorithm, int], Sequence[Tensor]]) -> str:
    """Return a description of undeclared state that an algorithm keeps; empty if none is found.

    ``make`` makes a new algorithm. ``update(algorithm, number)`` acts and makes one update with it, on a batch that
    depends on ``number``, and returns all results. After two updates the declared state is copied to a second
    algorithm. The third update must then give the same results with both. It must also change no other attribute of
    the algorithm, and draw from no global random generator.
    """
    first = make()
    declared = DeclaredState(first)
    for number in range(2):
        update(first, number)
        if declared.vector.requires_grad:
            raise ValueError("the algorithm's state has a gradient; change it in place, with detached tensors")
        declared_by(first)
    saved, attributes, generators = declared.vector.clone(), _attributes(first), _global_generators()
    results = [*update(first, 2), declared.vector]
    if generators != _global_generators():
        return "an update draws from a global random generator, and checkpoints do not contain its state"
    after = _attributes(first)
    if changed := sorted(name for name in after.keys() | attributes if after.get(name) != attributes.get(name)):
        return f"an update changes the algorithm's attribute {changed[0]}, and checkpoints do not contain it; {_REMEDY}"
    second = make()
    restored = DeclaredState(second)
    restored.vector.copy_(saved)
    again = [*update(second, 2), restored.vector]
    if not all(_same(one, other) for one, other in zip(results, again, strict=True)):
        return (
            "a second object with the same declared state learns differently, so the algorithm has state that "
            f"it does not declare; {_REMEDY}"
        )
    return ""


def _same(one: Tensor, other: Tensor) -> bool:
    """Whether two results are equal up to rounding."""
    if one.shape != other.shape or not one.numel():
        return one.shape == other.shape
    one, other = one.detach().double(), other.detach().double()
    return torch.allclose(one, other, rtol=0.0, atol=SAME * float(one.abs().max()), equal_nan=True)


def _global_generators() -> tuple[Any, ...]:
    """Return the states of the global random generators of torch, Python and numpy."""
    return torch.random.get_rng_state().numpy().tobytes(), random.getstate(), _frozen(np.random.get_state(), set())


def _attributes(algorithm: Algorithm) -> dict[str, Any]:
    """Return the attributes of an algorithm except its declared state, each in a form that can be compared later."""
    own: Mapping[str, Any] = getattr(algorithm, "__dict__", {})
    return {name: _frozen(value, set()) for name, value in own.items() if name != "state"}


def _frozen(value: Any, inside: set[int]) -> Any:
    """Return a copy of a value's contents that can be compared later.

    ``inside`` has the ids of the containers and objects around the value, to end the recursion of a cycle.
    """
    match value:
        case Tensor():
            return tuple(value.shape), value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
        case np.ndarray():
            return value.shape, value.dtype.str, value.tobytes()
        case torch.Generator():
            return value.get_state().numpy().tobytes()
        case np.random.Generator():
            return repr(value.bit_generator.state)
        case random.Random():
            return value.getstate()
    parts = _parts(value)
    if parts is None or id(value) in inside:
        return repr(value) if parts is None else "..."
    return type(value).__name__, [_frozen(part, inside | {id(value)}) for part in parts]


def _parts(value: Any) -> list[Any] | None:
    """Return the parts of a container or an object; None for a value without parts."""
    if isinstance(value, Mapping):
        return [part for item in value.items() for part in item]
    if isinstance(value, set | frozenset):
        return sorted(value, key=repr)
    if isinstance(value, Sequence) and not isinstance(value, str | bytes | range):
        return list(value)
    if isinstance(value, type) or callable(value) or not hasattr(value, "__dict__"):
        return None if not isinstance(value, torch.nn.Module) else list(value.state_dict().items())
    return [part for item in vars(value).items() for part in item]
