"""Settings of learners that learn together: sections of the topology, and the settings of each learner's exchange.

``modes.py`` describes the modes. This module never loads torch, because processes without torch import it.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from actorlearn.address import ByLearner, Ipc, Shm
from actorlearn.memory.rollout import BlockShape
from actorlearn.optim.specs import Beta, OuterRule, OuterSettings, Rate
from actorlearn.parameters.mixing import Graph, GraphSettings
from actorlearn.parameters.store import CHUNKS
from actorlearn.registry import Settings
from actorlearn.wire.identity import ProcessId

MOST_LEARNERS = 64
"""Largest number of learners that a run can have, including those that have left: their numbers are not reused."""


class LearnersSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Learners. Each consists of a trainer, its inference servers and its simulators."""

    count: Annotated[
        int,
        Meta(
            ge=1, le=MOST_LEARNERS, description="number of learners; each has its own simulators and inference servers"
        ),
    ] = 1
    rate_scaling: Annotated[
        Literal["none", "sqrt", "linear"],
        Meta(
            description="how learning_rate grows if the batch is n times the base batch, where n = learners.count "
            "x replay.batch_size / replay.base_batch_size (without a replay n = learners.count): "
            "linear = it is multiplied by n, sqrt = by the square root of n, none = it does not grow"
        ),
    ] = "none"
    chunks: Annotated[
        int,
        Meta(ge=1, le=1_024, description="async: number of parts of the parameter store; each part has its own lock"),
    ] = CHUNKS
    local_steps: Annotated[
        int,
        Meta(
            ge=1,
            le=10_000,
            description="optimizer steps that a learner takes alone between two exchanges. In mode async it "
            "exchanges with the parameter store, with numbers above 1 only with adam; in modes gossip and sync it "
            "exchanges weights with other learners, in sync also at the end of each batch",
        ),
    ] = 1
    outer: Annotated[
        OuterRule,
        Meta(
            description="sync, gossip: how new weights follow from the mean of the learners' weights after "
            "local_steps; none = they are the mean; nesterov = DiLoCo's outer optimizer; momentum = "
            "NoLoCo's, designed for gossip.graph: random-matching"
        ),
    ] = "none"
    outer_learning_rate: Annotated[
        Rate,
        Meta(
            description="learning rate of the outer optimizer: without momentum, the share of the way from the "
            "previous weights to the mean"
        ),
    ] = 0.7
    outer_momentum: Annotated[
        Beta, Meta(description="momentum of the outer optimizer; 0.9 in DiLoCo, 0.5 in NoLoCo")
    ] = 0.9
    quorum: Annotated[
        int,
        Meta(
            ge=0,
            le=MOST_LEARNERS,
            description="async with parameter servers: number of gradients, computed from one version of the weights, "
            "whose mean makes the next version. Later gradients of that version are dropped, so the run "
            "does not wait for the slowest learners; 0 = each gradient makes a version",
        ),
    ] = 0
    pull_rows: Annotated[
        int,
        Meta(
            ge=0,
            le=10_000,
            description="async: during a rollout, the learner reads the parameter store after every so many steps of "
            "each environment; 0 = it reads the store only between rollouts",
        ),
    ] = 0

    @property
    def outer_optimizer(self) -> OuterSettings:
        """The settings of the outer optimizer; if ``outer`` is none, the settings of no outer optimizer."""
        if self.outer == "none":
            return OuterSettings()
        return OuterSettings(rule=self.outer, learning_rate=self.outer_learning_rate, momentum=self.outer_momentum)


class ParameterServersSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Parameter servers: processes that each hold a part of the weights, in mode async."""

    count: Annotated[
        int,
        Meta(
            ge=0,
            le=64,
            description="async: number of parameter servers, which are placed on the nodes in turn; 0 = the "
            "weights are in shared memory, on one machine only. With several nodes the default is 1",
        ),
    ]
    wire: Annotated[
        Literal["float32", "bfloat16"],
        Meta(
            description="number type in which gradients and weights are sent; bfloat16 halves the bytes and rounds "
            "the numbers"
        ),
    ] = "float32"


class ModeSection(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base class of sections whose keys only one mode reads. Each key has a default."""


class GossipSettings(ModeSection, frozen=True, kw_only=True):
    """How learners mix weights in mode gossip, and share experience."""

    graph: Annotated[
        Graph | list[list[int]],
        Meta(
            description="whose weights a learner mixes with its own; those learners are its in-peers. The learners "
            "stand in a circle: ring = the one before it; k-peer = the gossip.peers before it; "
            "exponential = those 1, 2, 4, … places before it, exponential-varying = one of these at "
            "each exchange, in turn; complete = all; random-matching = one at random at each exchange; "
            "none = nobody; a list = the numbers of the in-peers of each learner",
            examples=[[[2], [0], [1]]],
            extra={"or": "lists of in-peers"},
        ),
    ] = "ring"
    peers: Annotated[
        int,
        Meta(
            ge=1,
            le=63,
            description="k-peer: number of in-peers of each learner; if there are fewer other learners, all of them "
            "are in-peers",
        ),
    ] = 1
    max_staleness: (
        Annotated[
            int,
            Meta(
                ge=0,
                le=1_000_000,
                description="a learner waits for its in-peers after this many exchanges in a row in which it had no "
                "new weights to mix; null = it never waits",
            ),
        ]
        | None
    ) = None
    age_corrected: Annotated[
        bool,
        Meta(
            description="correct old messages: before a learner mixes the weights in a message, it adds to them the "
            "change of its own weights since the message was posted, so that older messages do not slow "
            "it down (only with transport shm); false = as in GALA"
        ),
    ] = False
    transport: Annotated[
        Literal["shm", "zmq"],
        Meta(description="how weights are exchanged; shm = shared memory, zmq = ZeroMQ from learner to learner"),
    ] = "shm"
    gradient_every: Annotated[
        int,
        Meta(
            ge=0,
            le=1_000_000,
            description="optimizer steps between two gradients that each learner stores, to compute "
            "gradient_cosine in metrics.jsonl; 0 = none are stored",
        ),
    ] = 0

    experience: Annotated[
        int,
        Meta(
            ge=0,
            le=1_000_000,
            description="number of environments whose newest rollout each learner shares with others; a learner "
            "also learns from the shared rollouts of its in-peers in experience_graph. Only for "
            "algorithms that use probability ratios (impala, ppo, vaco); 0 = nothing is shared",
        ),
    ] = 0
    experience_graph: Annotated[
        Graph | list[list[int]],
        Meta(
            description="whose shared rollouts a learner also learns from; values as for gossip.graph",
            examples=[[[2], [0], [1]]],
            extra={"or": "lists of in-peers"},
        ),
    ] = "ring"

    def mixing(self, seed: int) -> GraphSettings:
        """Return the graph by which weights are mixed; random matchings are drawn from the seed."""
        return self._graph(self.graph, seed)

    def sharing(self, seed: int) -> GraphSettings:
        """Return the graph by which experience is shared; random matchings are drawn from the seed."""
        return self._graph(self.experience_graph, seed)

    def _graph(self, graph: Graph | list[list[int]], seed: int) -> GraphSettings:
        if isinstance(graph, str):
            return GraphSettings(name=graph, peers=self.peers, seed=seed)
        return GraphSettings(name="lists", lists=tuple(map(tuple, graph)))


class ExchangeSettings(Settings, frozen=True, kw_only=True, tag_field="mode"):
    """Base class of the settings of a learner's exchange; the tag is the name of the mode."""

    host: str = ""
    """Address at which other machines reach this machine; empty if all learners are on this machine."""

    @property
    def mode(self) -> str:
        """Name of the mode (``modes.MODES``)."""
        return self.name

    @property
    def together(self) -> int:
        """Number of learners in mode sync; 0 in other modes."""
        return 0

    @property
    def listens(self) -> Ipc | None:
        """Unix socket at which this learner receives messages of others on this machine; None if it has none."""
        return None


class AloneExchangeSettings(ExchangeSettings, tag="alone", frozen=True, kw_only=True):
    """Settings of the exchange of a single learner: none."""


class SyncExchangeSettings(ExchangeSettings, tag="sync", frozen=True, kw_only=True):
    """Settings of a learner in mode sync."""

    rank: Annotated[int, Meta(ge=0)] = 0
    """Index of this learner among those that exchange with each other; set when it joins them."""
    learners: Annotated[int, Meta(ge=1)] = 1
    """Number of learners that exchange with each other."""
    rendezvous: Shm
    """Segment of the learners' barrier. Before this learner has joined, the beginning of the names of such segments."""
    gradients: Shm
    """Segment in which the learners share their gradients."""
    trainers: tuple[ProcessId, ...] = ()
    """Trainers of the learners that exchange with each other, by rank, if they are on several machines."""
    generation: int = 0
    """Number of this list of learners, which grows with each change of it."""
    local_steps: Annotated[int, Meta(ge=1)] = 1
    """Number of optimizer steps that each learner takes alone between two exchanges of weights; 1 = gradients are
    exchanged at each step."""

    @property
    def together(self) -> int:
        """Number of learners that exchange with each other."""
        return self.learners

    def __post_init__(self) -> None:
        if self.rank >= self.learners:
            raise ValueError(
                f"exchange.rank: {self.rank} must be from 0 to {self.learners - 1}, because there are {self.learners} "
                "learners"
            )


class AsyncExchangeSettings(ExchangeSettings, tag="async", frozen=True, kw_only=True):
    """Settings of a learner that changes weights in a parameter store in shared memory."""

    store: Shm
    """The segment of the parameter store."""
    local_steps: Annotated[int, Meta(ge=1)] = 1
    """Number of optimizer steps between two exchanges with the store, counted across batches; above 1 only with
    adam."""


class ServedExchangeSettings(ExchangeSettings, tag="served", frozen=True, kw_only=True):
    """Settings of a learner that sends gradients to parameter servers."""

    learners: Annotated[int, Meta(ge=1)]
    servers: Annotated[int, Meta(ge=1)]
    """Number of parameter servers."""
    wire: Literal["float32", "bfloat16"] = "float32"
    """Number type in which gradients and weights are sent."""
    quorum: Annotated[int, Meta(ge=0)] = 0
    """Number of gradients whose mean makes a new version of the weights; 0 = each gradient makes one."""


class GossipExchangeSettings(ExchangeSettings, tag="gossip", frozen=True, kw_only=True):
    """Settings of a learner that mixes its weights with those of others."""

    rank: Annotated[int, Meta(ge=0, lt=MOST_LEARNERS)]
    """Number of this learner."""
    learners: Annotated[int, Meta(ge=1)]
    """Number of learners at the start of the run; others may have been attached since then."""
    counts: Shm
    """Segment with all learners' counts of steps and updates."""
    messages: ByLearner[Shm | Ipc]
    """For each learner, the segment in which it posts its weights, or the socket at which it receives the weights of
    others."""
    graph: GraphSettings = GraphSettings()
    """Graph that says which learners average their weights."""
    local_steps: Annotated[int, Meta(ge=1)] = 1
    """Number of optimizer steps between two exchanges, counted across batches."""
    max_staleness: Annotated[int, Meta(ge=0)] | None = None
    """Number of consecutive exchanges without mixing after which the learner waits for its in-peers; None = it never
    waits."""
    age_corrected: bool = False
    """Whether the change of this learner's weights since a message was posted is added to the message."""
    incarnation: int = 0
    """Number of this learner's trainer process, which is larger than those of all earlier ones."""
    gradients: ByLearner[Shm] | None = None
    """Each learner's segment with its newest gradient; None = gradients are not compared."""
    gradient_every: Annotated[int, Meta(ge=1)] = 1
    """Number of optimizer steps between two gradients that are written to ``gradients``."""
    log: str = ""
    """Path of the log of the changes of this learner's weights (``consensus.py``); empty = no log."""

    @property
    def listens(self) -> Ipc | None:
        """Unix socket at which this learner receives messages of others on this machine; None if it has none."""
        address = self.messages.of(self.rank)
        return address if isinstance(address, Ipc) and not self.host else None


class ExperienceSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of the experience that learners share (``experience.py``)."""

    messages: ByLearner[Shm]
    """For each learner, the segment in which it shares its newest rollout."""
    graph: GraphSettings
    """Graph that says which learners learn from whose rollouts."""
    environments: int
    """Largest number of environments in a message."""
    shape: BlockShape
    """Layout of the rollouts of all learners."""
