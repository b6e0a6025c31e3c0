"""The modes in which learners learn together, each described by a spec with all its properties.

Pure; never loads torch, so that supervisor, command line and trainers use the same specs. ``made_by`` names the mode's
exchange, the class that computes new weights. Modes are registered by entry points, the shipped ones too:

    [project.entry-points."actorlearn.modes"]
    averaging = "my_package.averaging_mode:SPEC"

A topology names it: ``mode: averaging``. Keys of its own, if it has any, stand in a section of the same name.

| mode   | weights                | a learner waits for         | exchange                                          |
|--------|------------------------|-----------------------------|---------------------------------------------------|
| alone  | its own                | none                        | ``alone.py``                                      |
| sync   | the same everywhere    | all others, at every update | ``allreduce.py``: Stooke & Abbeel 2018, section 4.2 |
| async  | in a store for all     | none                        | ``asynchronous.py``: there, section 4.3           |
| async  | of parameter servers   | none, or for a quorum       | ``served.py``                                     |
| gossip | its own, mixed         | none, or its in-peers       | ``gossip.py``: Assran et al. 2019                 |
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
from actorlearn.parameters.allgather import SLOTS, rows_fields
from actorlearn.parameters.exchange_log import NAME
from actorlearn.parameters.mixing import GraphSettings
from actorlearn.parameters.published import slots_in_words, weights_fields
from actorlearn.parameters.rendezvous import forget_meetings, meeting
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
    """The part of a topology that is about learners that learn together."""

    learners: LearnersSettings
    section: ModeSection | None
    """The mode's own section; None where it has none."""
    optimizer: str
    """Name of the optimizer."""
    seed: int
    across: bool = False
    """Whether learners may be on different machines: what they would read of one another in memory is not made."""
    servers: ParameterServersSettings = ParameterServersSettings(count=0)


class Sizes(NamedTuple):
    """Numbers by which the segments of learners are laid out."""

    weights: int
    """Numbers that are published: parameters, and statistics behind them."""
    statistics: int
    vectors: int
    """Vectors, as long as the parameters, that the optimizer keeps."""

    @property
    def parameters(self) -> int:
        """Numbers that the optimizer moves."""
        return self.weights - self.statistics


class Layout(NamedTuple):
    """A segment of shared memory that is to be made."""

    name: str
    fields: list[Field]
    what: str
    """Its content, in words for people."""


class Refusal(NamedTuple):
    """The reason why a mode does not take a topology."""

    key: str
    rule: str
    way_out: str


@dataclass(frozen=True, kw_only=True)
class ModeSpec(Spec):
    """One mode; its methods here are those of a learner that learns by itself.

    ``made_by`` names the exchange, a class or function that is called with the settings and a ``Learner``.
    """

    tag_field = "mode"
    methods = ("state", "restore", "join", "agree", "merge", "step", "settle")
    described_in = "actorlearn/parameters/interface.py"
    settings: type[ExchangeSettings]
    does: str = ""
    """Words for what learners exchange, for the topology's key ``mode``."""
    section: type[ModeSection] | None = None
    """The keys of a topology that only this mode reads, in a section with its name."""
    reads: frozenset[str] = frozenset()
    """Keys of the topology's section ``learners`` that this mode reads and not all do."""
    alone: bool = False
    """Whether there is never another learner."""
    in_step: bool = False
    """Whether all learners make every update together, so that one that cannot continue stops all."""
    central: bool = False
    """Whether weights and optimizer state are in one place, which learners share."""
    own_weights: bool = False
    """Whether learners have weights of their own, which are evaluated each for itself where there are several."""
    elastic: bool = False
    """Whether learners may be attached to and detached from a living run; one that cannot continue leaves, and the run
    does not end. Hence learners begin only when an order lists them."""
    outlived: bool = False
    """Whether the weights learned by a trainer outlive it, in other learners or in the store. Restarted, it continues
    from these and not from its newest checkpoint; in a resumed run it needs no checkpoint of its own."""
    served: bool = False
    """Whether weights and optimizer state are kept by parameter servers."""
    across_nodes: bool = False
    """Whether learners on different nodes reach each other; where they do not, all are on one."""
    inexact: str = ""
    """Reason why a run that was interrupted does not go on bit for bit as it would have; empty where it can."""

    @property
    def asked_as(self) -> str:
        """Value of a topology's key ``mode``."""
        return self.name

    @cached_property
    def keys(self) -> frozenset[str]:
        """Dotted keys of a topology that this mode reads and not all do."""
        own = self.section.__struct_fields__ if self.section else ()
        return frozenset({*(f"learners.{key}" for key in self.reads), *(f"{self.name}.{key}" for key in own)})

    @classmethod
    def of(cls, name: str, found: object, module: ModuleType) -> Self:
        """Refuse an exchange without a spec: how learners are started and restarted depends on what it says."""
        raise ValueError("a mode needs a ModeSpec (actorlearn/parameters/modes.py)")

    def several(self, count: int) -> bool:
        """Whether there is more than one learner, or may be."""
        return count > 1 or self.elastic

    def unread(self, key: str) -> bool:
        """Whether a topology's key is another mode's alone."""
        return key in MODES.keys - self.keys

    def refusals(self, asked: LearnersAsked) -> Iterator[Refusal]:
        """Yield the combinations of keys that this mode refuses, though each key is valid by itself."""
        return iter(())

    def graph(self, asked: LearnersAsked) -> GraphSettings | None:
        """Return the graph by which weights are mixed; None where none are."""
        return None

    def exchange(self, learner: int, incarnation: int, asked: LearnersAsked, folders: Folders) -> ExchangeSettings:
        """Return the settings of the exchange of one incarnation of a learner."""
        raise NotImplementedError

    def among(
        self, settings: ExchangeSettings, trainers: Sequence[ProcessId], own: ProcessId, generation: int
    ) -> ExchangeSettings:
        """Return the settings completed for a generation: its trainers, and `own` among them.

        `generation`: number of the list of trainers. Raises SharedMemoryFull.
        """
        return settings

    def forget_before(self, settings: ExchangeSettings, generation: int) -> None:
        """Remove the segments of earlier generations, once all have joined in this one."""

    def run_segments(self, asked: LearnersAsked, sizes: Sizes) -> list[Layout]:
        """Return the segments of the run that only this mode has."""
        return []

    def learner_segments(self, asked: LearnersAsked, sizes: Sizes) -> list[Layout]:
        """Return the segments that each learner has one of in this mode; their files end in its number."""
        return []

    def server_segments(self, asked: LearnersAsked, sizes: Sizes) -> list[Layout]:
        """Return the segments that parameter servers make for themselves, by shard."""
        return []


class _Alone(ModeSpec):
    """Mode sync with one learner."""

    @property
    def asked_as(self) -> str:
        """Mode sync: a sole learner is sync without others to wait for."""
        return "sync"

    def exchange(self, learner: int, incarnation: int, asked: LearnersAsked, folders: Folders) -> ExchangeSettings:
        """Return settings without addresses: there are no other learners."""
        return AloneExchangeSettings()


class _Sync(ModeSpec):
    """Mode sync: the mean of all gradients moves weights that are the same everywhere."""

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
        """Make the generation's segment, unless another of its learners has; on several machines there is none."""
        joined = msgspec.structs.replace(settings, rank=trainers.index(own), learners=len(trainers))
        if settings.host:
            return msgspec.structs.replace(joined, trainers=tuple(trainers), generation=generation)
        address = meeting(self._meets_at(settings), [trainer.socket_id for trainer in trainers], generation)
        return msgspec.structs.replace(joined, rendezvous=address)

    def forget_before(self, settings: ExchangeSettings, generation: int) -> None:
        """Remove the meeting segments of earlier generations."""
        forget_meetings(self._meets_at(settings), generation)

    def _meets_at(self, settings: ExchangeSettings) -> Shm:
        assert isinstance(settings, SyncExchangeSettings)
        return settings.rendezvous

    def run_segments(self, asked: LearnersAsked, sizes: Sizes) -> list[Layout]:
        """Return the rows in which learners of one machine show one another their gradients."""
        if asked.across:
            return []
        count = asked.learners.count
        what = f"{SLOTS} slots x {count} learners x {sizes.weights:,} float32, of which they take the mean"
        return [Layout("gradients", rows_fields(count, sizes.weights), what)]


class _Async(ModeSpec):
    """Mode async: a learner changes the weights in the store when it has a gradient."""

    def refusals(self, asked: LearnersAsked) -> Iterator[Refusal]:
        """Refuse several local steps without Adam, whose rule they are."""
        if asked.learners.local_steps > 1 and asked.optimizer != "adam":
            yield Refusal(
                "learners.local_steps",
                f"in mode async several are Adam's (appendix A of Stooke and Abbeel), not {asked.optimizer}'s",
                "write 1, or optimizer.name: adam",
            )

    def exchange(self, learner: int, incarnation: int, asked: LearnersAsked, folders: Folders) -> ExchangeSettings:
        """Return the store's address and the number of local steps between merges."""
        return AsyncExchangeSettings(
            rank=learner,
            learners=asked.learners.count,
            store=folders.segment("store"),
            local_steps=asked.learners.local_steps,
        )

    def run_segments(self, asked: LearnersAsked, sizes: Sizes) -> list[Layout]:
        """The store."""
        count, chunks = asked.learners.count, asked.learners.chunks
        fields = store_fields(sizes.parameters, sizes.vectors, sizes.statistics, count, chunks)
        return [Layout("store", fields, f"weights and optimizer state of all learners, in {chunks} chunks")]


class _Served(ModeSpec):
    """Mode async with parameter servers: a learner sends them its gradient, and gets weights back."""

    @property
    def asked_as(self) -> str:
        """Mode async: who keeps the weights is another key's."""
        return "async"

    def refusals(self, asked: LearnersAsked) -> Iterator[Refusal]:
        """Refuse the keys of a store in shared memory."""
        way_out = "leave it out, or write parameter_servers.count: 0, for learners on one machine"
        if asked.learners.local_steps > 1:
            yield Refusal("learners.local_steps", "parameter servers apply each gradient by itself", way_out)
        if asked.learners.chunks != CHUNKS:
            yield Refusal("learners.chunks", "each parameter server has one part of the weights", way_out)
        if asked.learners.quorum > asked.learners.count:
            rule = f"a version waits for so many gradients, and there are {asked.learners.count} learners"
            yield Refusal("learners.quorum", rule, f"write a number from 0 to {asked.learners.count}")

    def exchange(self, learner: int, incarnation: int, asked: LearnersAsked, folders: Folders) -> ExchangeSettings:
        """Return how many servers and learners there are."""
        return ServedExchangeSettings(
            learners=asked.learners.count,
            servers=asked.servers.count,
            wire=asked.servers.wire,
            quorum=asked.learners.quorum,
            host=folders.host or LOOPBACK,
        )

    def server_segments(self, asked: LearnersAsked, sizes: Sizes) -> list[Layout]:
        """Return a segment for each shard."""
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
    """Mode gossip: a learner mixes its weights with those of its in-peers."""

    def refusals(self, asked: LearnersAsked) -> Iterator[Refusal]:
        """Refuse lists of in-peers that are none, or fewer than the learners, and what only shared memory carries."""
        gossip = _gossip(asked)
        yield from self._wrong_lists("gossip.graph", gossip.graph, asked.learners.count)
        yield from self._wrong_lists("gossip.experience_graph", gossip.experience_graph, asked.learners.count)
        if gossip.age_corrected and (gossip.transport != "shm" or asked.across):
            rule = "when a message was posted is known in shared memory alone"
            yield Refusal("gossip.age_corrected", rule, "write false, or gossip.transport: shm and nodes.count: 1")
        if gossip.experience and asked.across:
            rule = "experience is shared through memory of one machine, and learners may be on several (nodes)"
            yield Refusal("gossip.experience", rule, "write 0, or nodes.count: 1")

    def _wrong_lists(self, key: str, graph: str | list[list[int]], count: int) -> Iterator[Refusal]:
        if isinstance(graph, str):
            return
        for learner, peers in enumerate(graph):
            known = all(0 <= peer < len(graph) for peer in peers)
            if not known or learner in peers or len(set(peers)) < len(peers):
                yield Refusal(
                    key,
                    f"the list of learner {learner} is numbers of in-peers: others of 0 to {len(graph) - 1}, each once",
                    "write for example [[2], [0], [1]]",
                )
                break
        if len(graph) < count:
            yield Refusal(
                key,
                f"each learner has a list of its in-peers, and {len(graph)} lists are too few for {count} learners",
                f"write {count} lists, or learners.count: {len(graph)}",
            )

    def graph(self, asked: LearnersAsked) -> GraphSettings | None:
        """Return the topology's graph."""
        return _gossip(asked).mixing(asked.seed)

    def exchange(self, learner: int, incarnation: int, asked: LearnersAsked, folders: Folders) -> ExchangeSettings:
        """Return the graph, the addresses of messages, and those of data for comparing learners."""
        gossip = _gossip(asked)
        compared = gossip.gradient_every > 0 and not folders.host
        bounded = asked.learners.outer == "none" and not gossip.age_corrected  # the bound is for means of messages
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
            log=str(folders.run_dir / f"{NAME}-{learner}.jsonl") if logged else "",
            host=folders.host,
        )

    def run_segments(self, asked: LearnersAsked, sizes: Sizes) -> list[Layout]:
        """Return the segment of all learners' counts."""
        return [Layout("counts", counts_fields(MOST_LEARNERS), "what each learner has learned from")]

    def learner_segments(self, asked: LearnersAsked, sizes: Sizes) -> list[Layout]:
        """Return the segment of a learner's weights for others to mix, and of data for comparing learners."""
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
"""Keys of learners that exchange weights after several steps by themselves."""
_AS_IT_COMES = "learners take what others have learned when it happens to come"
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
    """The modes, and the one that a topology means."""

    def specs(self) -> tuple[ModeSpec, ...]:
        """Return those that can be loaded: alone, those in step, those with servers or a store, and then the others."""
        return tuple(sorted(super().specs(), key=_rank))

    @cached_property
    def keys(self) -> frozenset[str]:
        """Dotted keys of a topology that some modes read and others do not."""
        return frozenset[str]().union(*(mode.keys for mode in self.specs()))

    def elastic(self) -> list[str]:
        """Return the names of the modes in which learners come and go."""
        return [mode.name for mode in self.specs() if mode.elastic]

    def asked_for(self, asked_as: str, learners: int, servers: int = 0) -> ModeSpec:
        """Return the mode of a topology that writes this and begins with so many learners; raises ValueError.

        ``servers``: parameter servers, which only some modes can have.
        """
        for mode in self.specs():
            if mode.asked_as == asked_as and not (mode.alone and learners > 1) and (servers or not mode.served):
                return mode
        raise ValueError(f"mode: {asked_as!r} is none")


def _rank(mode: ModeSpec) -> tuple[bool, bool, bool, bool]:
    return not mode.alone, not mode.in_step, not mode.served, not mode.central


MODES = Modes("mode", "actorlearn.modes", ModeSpec)


def mode_of(settings: ExchangeSettings) -> ModeSpec:
    """Return the mode of an exchange."""
    return MODES.spec(settings.mode)


def make(settings: ExchangeSettings, learner: Learner) -> Exchange:
    """Construct the exchange that the settings are of, for which torch is loaded."""
    made: Exchange = mode_of(settings).load()(settings, learner)
    return made
