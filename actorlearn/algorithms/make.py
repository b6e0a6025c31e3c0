"""Makes an algorithm from its settings, and lists its extra networks."""

from __future__ import annotations

from collections.abc import Mapping
from inspect import signature

from actorlearn.actions import Actions
from actorlearn.algorithms.interface import Algorithm, MultiNetworkAlgorithm
from actorlearn.algorithms.settings import ALGORITHMS, AlgorithmSettings
from actorlearn.extra_networks import ExtraNetwork


def make(settings: AlgorithmSettings) -> Algorithm:
    """Make the algorithm; raises ValueError if its class cannot be called with settings or lacks `prepared_rows`."""
    kind = ALGORITHMS.spec(settings.name).load()
    try:
        signature(kind).bind(settings)
    except TypeError as error:
        raise ValueError(
            f"algorithm.name: {settings.name!r} must be called as Name(settings) and make an Algorithm "
            f"(actorlearn/algorithms/interface.py): {error}"
        ) from error
    algorithm: Algorithm = kind(settings)
    if not isinstance(getattr(algorithm, "prepared_rows", None), int):
        raise ValueError(
            f"algorithm.name: {settings.name!r} lacks the integer prepared_rows; it says for how many of a "
            "batch's last observations the method prepare needs the network's outputs "
            "(actorlearn/algorithms/interface.py); write 0 if it needs none"
        )
    return algorithm


def extra_networks(algorithm: Algorithm, actions: Actions) -> Mapping[str, ExtraNetwork]:
    """Return the networks that the algorithm needs besides its actor, such as SAC's critics; {} for most algorithms."""
    return algorithm.extra_networks(actions) if isinstance(algorithm, MultiNetworkAlgorithm) else {}
