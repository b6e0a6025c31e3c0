"""The modes in which several learners learn together, each described by a spec (`ModeSpec`).

A spec names the mode's exchange, which is the class that computes new weights, and plans its shared memory. Specs can
be read without torch, so the supervisor uses them too. Modes, including the built-in ones, are registered by entry
points:

    [project.entry-points."actorlearn.modes"]
    averaging = "my_package.averaging_mode:SPEC"

A topology selects a mode by name: ``mode: averaging``. If the mode has keys of its own, they are in a section of the
same name.

| mode   | weights                | a learner waits for         | exchange                                            |
|--------|------------------------|-----------------------------|-----------------------------------------------------|
| alone  | its own                | none                        | ``alone.py``                                        |
| sync   | equal in all learners  | all others, at every update | ``allreduce.py``: Stooke & Abbeel 2018, section 4.2 |
| async  | in the parameter store | none                        | ``asynchronous.py``: the same paper, section 4.3    |
| async  | in parameter servers   | none, or a quorum           | ``served.py``                                       |
| gossip | its own, mixed         | none, or its in-peers       | ``gossip.py``: Assran et al. 2019                   |
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import ModuleType
from typing import TYPE_CHECKING, NamedTuple, Self

import msgspec

from actorlearn.address import ByLearner, Folders, Shm
from actorlearn.memory.fields import Field
from actorlearn.parameters.barrier import SLOTS, forget_barriers, make_barrier, rows_fields
from actorlearn.parameters.consensus import LOG
from actorlearn.parameters.mixing import GraphSettings
from actorlearn.parameters.published import slots_in_words, weights_fields
from actorlearn.parameters.settings import (
    MOST_LEARNERS,
    AloneExchangeSettings,
    AsyncExchangeSettings,
    ExchangeSettings,
    GossipExchangeSettings,
    GossipSettings,
    LearnersSettings,
    ModeSection,
    ParameterServersSettings,
    ServedExchangeSettings,
    SyncExchangeSettings,
)
from actorlearn.parameters.shard_layout import LOOPBACK, ROLE, Sharding, shard_fields
from actorlearn.parameters.shared_counts import counts_fields
from actorlearn.parameters.store import CHUNKS, store_fields
from actorlearn.registry import Registry, Spec
from actorlearn.wire.identity import ProcessId

if TYPE_CHECKING:
    from actorlearn.parameters.interface import Exchange, Learner


class LearnersAsked(NamedTuple):
    """The keys of a topology that a mode reads."""

    learners: LearnersSettings
    """The section ``learners``."""
    section: ModeSection | None
    """The section of the mode; None if it has none."""
    optimizer: str
    """Name of the optimizer."""
    seed: int
    across: bool = False
    """Whether learners may be on different machines. They then have no shared memory."""
    servers: ParameterServersSettings = ParameterServersSettings(count=0)
    """The section ``parameter_servers``."""


class Sizes(NamedTuple):
    """Sizes that determine the layout of the learners' segments."""

    weights: int
    """Length of the flat vector of weights: parameters, then statistics of normalisation."""
    statistics: int
    """Number of statistics."""
    vectors: int
    """Number of vectors in the optimizer's state; each is as long as the parameters."""

    @property
    def parameters(self) -> int:
        """Number of parameters; these are the weights that the optimizer changes."""
        return self.weights - self.statistics


class Layout(NamedTuple):
    """Layout of a segment of shared memory."""

    name: str
    """Name of the segment's file."""
    fields: list[Field]
    what: str
    """Description of the segment's content, which `actorlearn check` prints."""


class Refusal(NamedTuple):
    """Why a mode refuses a combination of keys of a topology, and how to correct it."""

    key: str
    """The key of the topology whose value is refused."""
    rule: str
    """The rule that the value breaks."""
    way_out: str
    """The remedy."""


@dataclass(frozen=True, kw_only=True)
class ModeSpec(Spec):
    """Description of a mode, one way in which several learners exchange gradients or weights.

    ``made_by`` names the exchange: a class or function that is called with the settings of the exchange and a
    `Learner`, and returns an `Exchange`. The methods of this base class suit a mode without shared memory.
    """

    tag_field = "mode"
    methods = ("state", "restore", "join", "agree", "merge", "step", "settle")
    described_in = "actorlearn/parameters/interface.py"
    settings: type[ExchangeSettings]
    does: str = ""
    """Description of the mode in a few words, for the documentation of the topology's key ``mode``."""
    section: type[ModeSection] | None = None
    """Type of the topology's section with the keys that only this mode reads; the section has the mode's name."""
    reads: frozenset[str] = frozenset()
    """Keys of the section ``learners`` that this mode reads and some other mode does not."""
    alone: bool = False
    """Whether there is only one learner."""
    in_step: bool = False
    """Whether all learners make every update together, as in mode sync. One that cannot continue then stops all."""
    central: bool = False
    """Whether learners share one copy of the weights and the optimizer state (central weights)."""
    own_weights: bool = False
    """Whether learners act with different weights. The evaluator then evaluates the weights of each learner."""
    elastic: bool = False
    """Whether learners can be attached to, and detached from, a running run. If a learner cannot continue, it leaves,
    and the run continues without it. Learners begin only when the supervisor lists them."""
    outlived: bool = False
    """Whether the weights that a trainer has learned survive its death, in other learners or in a store. A restarted
    trainer continues from these and not from its newest checkpoint. When a run is resumed, it needs no checkpoint of
    its own."""
    served: bool = False
    """Whether parameter servers keep the weights and the optimizer state."""
    across_nodes: bool = False
    """Whether learners can be on several nodes; if not, all learners are on one node."""
    inexact: str = ""
    """Reason why a resumed run cannot end with the weights of an uninterrupted run; empty if it can."""

    @property
    def asked_as(self) -> str:
        """Value of the topology's key ``mode`` that selects this mode; several modes can have the same."""
        return self.name

    @cached_property
    def keys(self) -> frozenset[str]:
        """Keys of a topology, as "section.key", that this mode reads and some other mode does not."""
        fields = self.section.__struct_fields__ if self.section else ()
        return frozenset({*(f"learners.{key}" for key in self.reads), *(f"{self.name}.{key}" for key in fields)})

    @classmethod
    def of(cls, name: str, found: object, module: ModuleType) -> Self:
        """Raise ValueError: a topology cannot name the class of an exchange, only a mode with a spec."""
        raise ValueError("a mode needs a ModeSpec (actorlearn/parameters/modes.py)")

    def several(self, count: int) -> bool:
        """Whether the run may have more than one learner if it begins with ``count``."""
        return count > 1 or self.elastic

    def unread(self, key: str) -> bool:
        """Whether this mode does not read a key, because it is for other modes only."""
        return key in MODES.keys - self.keys

    def refusals(self, asked: LearnersAsked) -> Iterator[Refusal]:
        """Yield the combinations of valid keys that this mode refuses."""
        return iter(())

    def graph(self, asked: LearnersAsked) -> GraphSettings | None:
        """Return the graph that says which learners average their weights; None if weights are not averaged."""
        return None

    def exchange(self, learner: int, incarnation: int, asked: LearnersAsked, folders: Folders) -> ExchangeSettings:
        """Return the settings of a learner's exchange; ``incarnation`` is the number of restarts of its trainer."""
        raise NotImplementedError

    def among(
        self, settings: ExchangeSettings, trainers: Sequence[ProcessId], own: ProcessId, generation: int
    ) -> ExchangeSettings:
        """Return the settings, completed for the learners that exchange with each other.

        ``trainers`` are the trainers of these learners, including ``own``. ``generation`` is the number of this list,
        which grows with each change of it. Raises SharedMemoryFull.
        """
        return settings

    def forget_before(self, settings: ExchangeSettings, generation: int) -> None:
        """Remove the shared memory that `among` has made for earlier lists of learners."""

    def run_segments(self, asked: LearnersAsked, sizes: Sizes) -> list[Layout]:
        """Return the layouts of the shared memory segments that this mode needs once in a run."""
        return []

    def learner_segments(self, asked: LearnersAsked, sizes: Sizes) -> list[Layout]:
        """Return the layouts of the segments that each learner needs; its number is added to their file names."""
        return []

    def server_segments(self, asked: LearnersAsked, sizes: Sizes) -> list[Layout]:
        """Return the layouts of the segments that parameter servers make, one for each shard."""
        return []


class _Alone(ModeSpec):
    """Mode of a single learner, which exchanges nothing."""

    asked_as = "sync"

    def exchange(self, learner: int, incarnation: int, asked: LearnersAsked, folders: Folders) -> ExchangeSettings:
        return AloneExchangeSettings()


class _Sync(ModeSpec):
    """Mode sync: all learners have equal weights, and take each step with the mean of their gradients."""

    def exchange(self, learner: int, incarnation: int, asked: LearnersAsked, folders: Folders) -> ExchangeSettings:
        """Return settings without rank and learners, which ``among`` adds."""
        return SyncExchangeSettings(
            rendezvous=folders.segment("learners"),
            gradients=folders.segment("gradients"),
            local_steps=asked.learners.local_steps,
            host=folders.host,
        )

    def among(
        self, settings: ExchangeSettings, trainers: Sequence[ProcessId], own: ProcessId, generation: int
    ) -> ExchangeSettings:
        """Complete the settings. On one machine, also make the learners' barrier in shared memory, unless it exists."""
        joined = msgspec.structs.replace(settings, rank=trainers.index(own), learners=len(trainers))
        if settings.host:
            return msgspec.structs.replace(joined, trainers=tuple(trainers), generation=generation)
        address = make_barrier(self._barrier_in(settings), [trainer.socket_id for trainer in trainers], generation)
        return msgspec.structs.replace(joined, rendezvous=address)

    def forget_before(self, settings: ExchangeSettings, generation: int) -> None:
        forget_barriers(self._barrier_in(settings), generation)

    def _barrier_in(self, settings: ExchangeSettings) -> Shm:
        assert isinstance(settings, SyncExchangeSettings)
        return settings.rendezvous

    def run_segments(self, asked: LearnersAsked, sizes: Sizes) -> list[Layout]:
        if asked.across:
            return []
        count = asked.learners.count
        what = (
            f"values of which the learners take the mean: {SLOTS} slots x {count} learners x {sizes.weights:,} float32"
        )
        return [Layout("gradients", rows_fields(count, sizes.weights), what)]


class _Async(ModeSpec):
    """Mode async on one machine: each learner applies its gradients to the weights in a store in shared memory."""

    def refusals(self, asked: LearnersAsked) -> Iterator[Refusal]:
        """Refuse several local steps without Adam, because merging them is defined for Adam only."""
        if asked.learners.local_steps > 1 and asked.optimizer != "adam":
            yield Refusal(
                "learners.local_steps",
                f"mode async supports several local steps with adam only, not with {asked.optimizer}",
                "write 1, or optimizer.name: adam",
            )

    def exchange(self, learner: int, incarnation: int, asked: LearnersAsked, folders: Folders) -> ExchangeSettings:
        return AsyncExchangeSettings(store=folders.segment("store"), local_steps=asked.learners.local_steps)

    def run_segments(self, asked: LearnersAsked, sizes: Sizes) -> list[Layout]:
        count, chunks = asked.learners.count, asked.learners.chunks
        fields = store_fields(sizes.parameters, sizes.vectors, sizes.statistics, count, chunks)
        return [Layout("store", fields, f"weights and optimizer state of all learners, in {chunks} chunks")]


class _Served(ModeSpec):
    """Mode async with parameter servers: each learner sends them its gradients, and gets new weights from them."""

    asked_as = "async"  # ``parameter_servers.count`` selects between the store and the servers

    def refusals(self, asked: LearnersAsked) -> Iterator[Refusal]:
        """Refuse the keys of a store in shared memory, and a quorum larger than the number of learners."""
        way_out = "remove the key, or write parameter_servers.count: 0 if all learners are on one machine"
        if asked.learners.local_steps > 1:
            yield Refusal(
                "learners.local_steps", "parameter servers apply each gradient separately, without local steps", way_out
            )
        if asked.learners.chunks != CHUNKS:
            yield Refusal(
                "learners.chunks",
                "chunks divide a store in shared memory, and parameter servers replace this store",
                way_out,
            )
        if asked.learners.quorum > asked.learners.count:
            rule = f"the quorum must not exceed the number of learners, {asked.learners.count}"
            yield Refusal("learners.quorum", rule, f"write a number from 0 to {asked.learners.count}")

    def exchange(self, learner: int, incarnation: int, asked: LearnersAsked, folders: Folders) -> ExchangeSettings:
        return ServedExchangeSettings(
            learners=asked.learners.count,
            servers=asked.servers.count,
            wire=asked.servers.wire,
            quorum=asked.learners.quorum,
            host=folders.host or LOOPBACK,
        )

    def server_segments(self, asked: LearnersAsked, sizes: Sizes) -> list[Layout]:
        found = []
        sharding = Sharding(sizes.parameters, sizes.statistics, asked.servers.count)
        for shard, span in enumerate(sharding.spans):
            size, statistics = span.stop - span.start, shard == sharding.statistics_shard
            fields = shard_fields(size, 0 if statistics else sizes.vectors, asked.learners.count)
            owner = f"{ROLE}-{sharding.server_of(shard)}"
            what = f"{size:,} {'statistics' if statistics else 'parameters with optimizer state'} of {owner}"
            found.append(Layout(f"shard-{shard}", fields, what))
        return found


class _Gossip(ModeSpec):
    """Mode gossip: each learner learns alone, and averages its weights with those of its neighbours."""

    def refusals(self, asked: LearnersAsked) -> Iterator[Refusal]:
        """Refuse invalid lists of neighbours, and options that need shared memory if learners do not share it."""
        gossip = _gossip(asked)
        yield from self._wrong_lists("gossip.graph", gossip.graph, asked.learners.count)
        yield from self._wrong_lists("gossip.experience_graph", gossip.experience_graph, asked.learners.count)
        if gossip.age_corrected and (gossip.transport != "shm" or asked.across):
            rule = "the time at which a message was posted is known only in shared memory"
            yield Refusal("gossip.age_corrected", rule, "write false, or gossip.transport: shm and nodes.count: 1")
        if gossip.experience and asked.across:
            rule = (
                "learners share experience through the memory of one machine, and with several nodes they may "
                "be on several machines"
            )
            yield Refusal("gossip.experience", rule, "write 0, or nodes.count: 1")

    def _wrong_lists(self, key: str, graph: str | list[list[int]], count: int) -> Iterator[Refusal]:
        if isinstance(graph, str):
            return
        for learner, peers in enumerate(graph):
            known = all(0 <= peer < len(graph) for peer in peers)
            if not known or learner in peers or len(set(peers)) < len(peers):
                yield Refusal(
                    key,
                    f"the list of learner {learner} must name other learners, 0 to {len(graph) - 1}, each once",
                    "write for example [[2], [0], [1]]",
                )
                break
        if len(graph) < count:
            yield Refusal(
                key,
                f"each learner needs a list of its in-peers, and {len(graph)} lists are too few for {count} learners",
                f"write {count} lists, or learners.count: {len(graph)}",
            )

    def graph(self, asked: LearnersAsked) -> GraphSettings | None:
        return _gossip(asked).mixing(asked.seed)

    def exchange(self, learner: int, incarnation: int, asked: LearnersAsked, folders: Folders) -> ExchangeSettings:
        gossip = _gossip(asked)
        compared = gossip.gradient_every > 0 and not folders.host
        bounded = asked.learners.outer == "none" and not gossip.age_corrected  # the bound assumes means of messages
        logged = compared and gossip.transport == "shm" and bounded
        return GossipExchangeSettings(
            rank=learner,
            learners=asked.learners.count,
            counts=folders.segment("counts"),
            messages=ByLearner(
                folders.segment("messages") if gossip.transport == "shm" else folders.socket("messages")
            ),
            graph=gossip.mixing(asked.seed),
            local_steps=asked.learners.local_steps,
            max_staleness=gossip.max_staleness,
            age_corrected=gossip.age_corrected,
            incarnation=incarnation,
            gradients=ByLearner(folders.segment("gradients")) if compared else None,
            gradient_every=max(gossip.gradient_every, 1),
            log=str(folders.run_dir / f"{LOG}-{learner}.jsonl") if logged else "",
            host=folders.host,
        )

    def run_segments(self, asked: LearnersAsked, sizes: Sizes) -> list[Layout]:
        return [Layout("counts", counts_fields(MOST_LEARNERS), "steps and updates of each learner")]

    def learner_segments(self, asked: LearnersAsked, sizes: Sizes) -> list[Layout]:
        found, gossip = [], _gossip(asked)
        if asked.across:
            return []
        if gossip.transport == "shm":
            what = f"{slots_in_words(sizes.weights, 'weights')}, for other learners"
            found.append(Layout("messages", weights_fields(sizes.weights), what))
        if every := gossip.gradient_every:
            what = f"{slots_in_words(sizes.parameters, 'gradients')}, one every {every:,} optimizer steps"
            found.append(Layout("gradients", weights_fields(sizes.parameters), what))
        return found


def _gossip(asked: LearnersAsked) -> GossipSettings:
    assert isinstance(asked.section, GossipSettings)
    return asked.section


_LOCAL_STEPS = frozenset({"local_steps", "outer", "outer_learning_rate", "outer_momentum"})
"""Keys of section ``learners`` for optimizer steps that a learner takes alone between two exchanges."""
_AS_IT_COMES = "timing decides when a learner gets the weights or gradients of the others"
ALONE = _Alone(
    name="alone",
    made_by="actorlearn.parameters.alone:Alone",
    settings=AloneExchangeSettings,
    alone=True,
)
SYNC = _Sync(
    name="sync",
    made_by="actorlearn.parameters.allreduce:Sync",
    settings=SyncExchangeSettings,
    does="averages gradients",
    reads=_LOCAL_STEPS,
    in_step=True,
    across_nodes=True,
    outlived=True,
)
ASYNC = _Async(
    name="async",
    made_by="actorlearn.parameters.asynchronous:Async",
    settings=AsyncExchangeSettings,
    does="uses a central parameter store",
    reads=frozenset({"chunks", "local_steps", "pull_rows"}),
    central=True,
    own_weights=True,
    outlived=True,
    inexact=_AS_IT_COMES,
)
SERVED = _Served(
    name="served",
    made_by="actorlearn.parameters.served:Served",
    settings=ServedExchangeSettings,
    does="uses a central parameter store",
    reads=frozenset({"chunks", "local_steps", "pull_rows", "quorum"}),
    served=True,
    central=True,
    own_weights=True,
    across_nodes=True,
    outlived=True,
    inexact=_AS_IT_COMES,
)
GOSSIP = _Gossip(
    name="gossip",
    made_by="actorlearn.parameters.gossip:Gossip",
    settings=GossipExchangeSettings,
    does="mixes weights with neighbours",
    section=GossipSettings,
    reads=_LOCAL_STEPS,
    own_weights=True,
    elastic=True,
    across_nodes=True,
    inexact=_AS_IT_COMES,
)


class Modes(Registry[ModeSpec]):
    """The registry of modes."""

    def specs(self) -> tuple[ModeSpec, ...]:
        """Return the modes that can be loaded: alone, sync, async with servers, async with a store, then the others."""
        return tuple(sorted(super().specs(), key=_rank))

    @cached_property
    def keys(self) -> frozenset[str]:
        """Keys of a topology, as "section.key", that some modes read and others do not."""
        return frozenset[str]().union(*(mode.keys for mode in self.specs()))

    def elastic(self) -> list[str]:
        """Return the names of the modes in which learners can be attached and detached."""
        return [mode.name for mode in self.specs() if mode.elastic]

    def asked_for(self, asked_as: str, learners: int, servers: int = 0) -> ModeSpec:
        """Return the mode that a topology selects; raises ValueError if there is none.

        ``asked_as`` is the value of its key ``mode``. One value can stand for several modes. They are told apart by the
        number of learners at the start and the number of parameter servers.
        """
        for mode in self.specs():
            if mode.asked_as == asked_as and not (mode.alone and learners > 1) and (servers or not mode.served):
                return mode
        raise ValueError(f"mode: {asked_as!r} must be one of {sorted({mode.asked_as for mode in self.specs()})}")


def _rank(mode: ModeSpec) -> tuple[bool, bool, bool, bool]:
    return not mode.alone, not mode.in_step, not mode.served, not mode.central


MODES = Modes("mode", "actorlearn.modes", ModeSpec)


def mode_of(settings: ExchangeSettings) -> ModeSpec:
    """Return the mode of an exchange."""
    return MODES.spec(settings.mode)


def make(settings: ExchangeSettings, learner: Learner) -> Exchange:
    """Make the exchange of a learner from its settings; imports torch."""
    made: Exchange = mode_of(settings).load()(settings, learner)
    return made
