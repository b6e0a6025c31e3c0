"""The section ``gossip`` of a topology: who mixes whose weights, and how these travel.

Pure. What a graph means, and what it promises, is in ``actorlearn/parameters/graph.py``.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from launch.topology.fields import Section, nearest, refuse

GRAPHS = ("none", "ring", "k-peer", "exponential", "exponential-varying", "complete", "random-matching")


def _graph(value: object) -> object:
    if isinstance(value, str) and value in GRAPHS:
        return value
    if not isinstance(value, list) or not value:
        closest = nearest(str(value)[:64], GRAPHS)
        way_out = f"did you mean {closest}?" if closest else "write for example ring or [[2], [0], [1]]"
        refuse(f"must be {', '.join(GRAPHS)} or lists of in-peers", way_out)
    for learner, peers in enumerate(value):
        known = isinstance(peers, list) and all(type(n) is int and 0 <= n < len(value) for n in peers)
        if not known or learner in peers or len(set(peers)) < len(peers):
            refuse(
                f"the list of learner {learner} is numbers of in-peers: others of 0 to {len(value) - 1}, each once",
                "write for example [[2], [0], [1]]",
            )
    return value


Graph = Annotated[
    Literal["none", "ring", "k-peer", "exponential", "exponential-varying", "complete", "random-matching"]
    | list[list[int]],
    BeforeValidator(_graph),
]


class GossipSection(Section):
    """How learners mix their weights in mode gossip (actorlearn.parameters.interface.ExchangeSettings)."""

    graph: Graph = Field(
        description="who mixes whose weights; none: nobody; lists: the in-peers of each learner, by number"
    )
    peers: int = Field(ge=1, le=63, description="k-peer: in-peers of each learner; all others where there are fewer")
    max_staleness: int | None = Field(
        ge=0,
        le=10**6,
        description="exchanges without mixing after which a learner waits for its in-peers; null = never",
    )
    transport: Literal["shm", "zmq"] = Field(description="of weights: shared memory, or ZeroMQ from learner to learner")
    gradient_every: int = Field(
        ge=0, le=10**6, description="updates between two gradients kept for comparing learners; 0 = none are"
    )
