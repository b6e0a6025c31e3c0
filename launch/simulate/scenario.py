"""The numbers of one case to predict: stage costs, the work of an update, machines, links, stragglers. Pure."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from actorlearn.parameters.frame_headers import MEETING
from actorlearn.parameters.mixing import GraphSettings
from launch.topology.schema import SimulatorsSection

Seconds = Annotated[float, Meta(ge=0, le=1e5)]

Exchanging = Literal["alone", "lock-step", "hub", "store", "servers", "quorum", "gossip"]
"""Ways in which learners exchange: not at all; by the shared memory of one machine, in lock-step or by a store for all;
through a hub in the first learner; through parameter servers, each learner for itself or K of N together; by gossip."""


class Costs(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Times of the stages when nothing else runs on their cores, in seconds; processor time if not said otherwise."""

    step_s: Seconds
    """One step of one environment."""
    step_wait_s: Seconds = 0.0
    """Time of such a step in which the environment waits for something else; uses no processor."""
    pass_s: Seconds
    """One inference batch, of the rows that the topology has."""
    copy_s: Seconds = 0.0
    """Gathering of a rollout, for each update."""
    gradient_s: Seconds
    """Gradient of one optimizer step, with all threads of the trainer."""
    optimizer_s: Seconds = 0.0
    """Change of all weights by the optimizer, for each optimizer step."""
    publish_s: Seconds = 0.0
    """Publishing of weights, for each update."""
    wake_s: Seconds = 0.0
    """Time of an update in which all its processes wait to be woken; uses no processor."""
    add_s: Seconds = 0.0
    """Addition of one vector of all weights to another."""
    message_s: Seconds = 0.0
    """Sending or receiving of one message, apart from its bytes, at each end."""
    byte_s: Seconds = 0.0
    """Copying and encryption of one byte of a message, at each end."""
    hop_s: Seconds = 0.0
    """Time between the sending of a message and the receiver's waking, on one machine; uses no processor."""
    deviation: Annotated[float, Meta(ge=0, le=10)] = 0.0
    """Standard deviation of each stage of an update over its mean, a number; times are gamma distributed."""


class Work(msgspec.Struct, frozen=True, kw_only=True):
    """The work of one learner for one update, counted."""

    horizon: int
    """Steps of each environment."""
    simulators: SimulatorsSection
    servers: int = 0
    """Inference servers; 0 = simulators run the policy themselves."""
    optimizer_steps: float = 1.0
    """Optimizer steps; of a replay, whose rollouts may give less than one, their mean."""
    threads: int = 1
    """Threads of the trainer."""

    @property
    def env_steps(self) -> int:
        """Environment steps of an update."""
        return self.horizon * self.simulators.environments

    def with_simulators(self, **keys: int) -> Work:
        """Return the same with other keys of simulators."""
        return msgspec.structs.replace(self, simulators=msgspec.structs.replace(self.simulators, **keys))


class Stragglers(msgspec.Struct, frozen=True, kw_only=True):
    """Learners that are slower than the others."""

    count: int = 0
    """Number of slow learners: the last ones."""
    factor: float = 1.0
    """Factor by which all their stages take longer; what is added uses no processor."""

    def factor_of(self, learner: int, learners: int) -> float:
        """Return the factor of one of so many learners."""
        return self.factor if learner >= learners - self.count else 1.0


class Scenario(msgspec.Struct, frozen=True, kw_only=True):
    """One case: learners on machines, and how they exchange."""

    costs: Costs
    work: Work
    exchanging: Exchanging = "alone"
    learners: int = 1
    nodes: int = 1
    machines: int = 1
    """Machines on which the nodes are, in turn."""
    cores: float = 1.0
    """Cores of each machine."""
    parameter_servers: int = 1
    shards: int = 1
    """Parts of a server's weights that travel each for itself."""
    servers_apart: bool = False
    """Whether they are on machines of their own; else on the nodes in turn."""
    quorum: int = 1
    """Fresh gradients of a version that make the next one."""
    weights: int = 0
    """Numbers that learners exchange."""
    weight_bytes: float = 4.0
    """Bytes of one of them on the wire."""
    header_bytes: float = float(MEETING.size)
    """Bytes of a message besides these."""
    graph: GraphSettings = GraphSettings()
    local_steps: int = 1
    """Optimizer steps between two exchanges; in lock-step those at the end of a batch come too."""
    max_staleness: int | None = None
    """Exchanges without mixing after which a learner that gossips waits; None = never."""
    link_bytes_per_s: float = 125e6
    """Rate of a machine's link, in each direction."""
    latency_s: float = 1e-4
    """Time of a byte from one machine to another on an idle link."""
    stragglers: Stragglers = Stragglers()
    updates: int = 100
    """Mean number of updates of a learner that are simulated, after a tenth of as many."""
    seed: int = 1

    @property
    def vector_bytes(self) -> float:
        """Bytes of a message with all weights."""
        return self.header_bytes + self.weight_bytes * self.weights

    def machine_of(self, learner: int) -> int:
        """Return the machine of a learner: learners fill the nodes, and nodes the machines, in turn."""
        return learner % self.nodes % self.machines
