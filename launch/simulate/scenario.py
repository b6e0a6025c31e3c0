"""The inputs of a prediction: costs of stages, work of an update, machines, links, slow learners."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from actorlearn.parameters.frame_headers import HUB
from actorlearn.parameters.mixing import GraphSettings
from launch.topology.schema import SimulatorsSection

Seconds = Annotated[float, Meta(ge=0, le=1e5)]

Exchanging = Literal["alone", "lock-step", "hub", "store", "servers", "quorum", "gossip"]
"""Ways in which learners exchange.

alone: not at all. lock-step: mode sync on one machine. hub: mode sync on several machines. store: mode async on one
machine. servers: mode async with parameter servers. quorum: parameter servers that wait for K gradients. gossip: mode
gossip.
"""


class Costs(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The seconds that each stage of training takes without other load; processor time unless noted otherwise."""

    step_s: Seconds
    """One step of one environment."""
    step_wait_s: Seconds = 0.0
    """Time of one step of one environment in which it waits for another program; uses no processor."""
    pass_s: Seconds
    """One forward pass of the policy, with as many rows as in the topology."""
    copy_s: Seconds = 0.0
    """Copying a rollout into a batch, for each update."""
    gradient_s: Seconds
    """Gradient of one optimizer step, with all threads of the trainer."""
    optimizer_s: Seconds = 0.0
    """Change of all weights by the optimizer, for each optimizer step."""
    publish_s: Seconds = 0.0
    """Publishing of weights, for each update."""
    wake_s: Seconds = 0.0
    """For each update, the time in which processes wait for the kernel to wake them; uses no processor."""
    add_s: Seconds = 0.0
    """Addition of one vector of all weights to another."""
    message_s: Seconds = 0.0
    """Sending or receiving a message, without the time for its bytes; needed at both ends."""
    byte_s: Seconds = 0.0
    """Copying and encrypting, or decrypting, a byte of a message; needed at both ends."""
    hop_s: Seconds = 0.0
    """Time from sending a message until the receiver wakes, on one machine; uses no processor."""
    deviation: Annotated[float, Meta(ge=0, le=10)] = 0.0
    """Standard deviation of the time of a stage, divided by its mean; times are gamma distributed."""


class Work(msgspec.Struct, frozen=True, kw_only=True):
    """The amount of work of one learner for one update."""

    horizon: int
    """Steps of each environment."""
    simulators: SimulatorsSection
    servers: int = 0
    """Inference servers; 0 = simulators run the policy themselves."""
    optimizer_steps: float = 1.0
    """Number of optimizer steps; with a replay the mean, which may be below one."""
    threads: int = 1
    """Threads of the trainer."""
    replay: bool = False
    """Whether it learns from a replay."""
    normalized: bool = False
    """Whether observations are normalised."""

    @property
    def env_steps(self) -> int:
        """Environment steps of an update."""
        return self.horizon * self.simulators.environments

    def with_simulators(self, **keys: int) -> Work:
        """Return the same work with other values of ``simulators``."""
        return msgspec.structs.replace(self, simulators=msgspec.structs.replace(self.simulators, **keys))


class SlowLearners(msgspec.Struct, frozen=True, kw_only=True):
    """How many learners are slower than the others, and by which factor; they are those with the highest numbers."""

    count: int = 0
    """Number of slow learners."""
    factor: float = 1.0
    """Factor by which all their stages take longer; the added time uses no processor."""

    def factor_of(self, learner: int, learners: int) -> float:
        """Return the factor by which the stages of a learner take longer; ``learners``: how many there are."""
        return self.factor if learner >= learners - self.count else 1.0


class Scenario(msgspec.Struct, frozen=True, kw_only=True):
    """One case to predict: learners on machines, and how they exchange."""

    costs: Costs
    work: Work
    exchanging: Exchanging = "alone"
    learners: int = 1
    nodes: int = 1
    machines: int = 1
    """Machines to which the nodes are assigned in turn."""
    cores: float = 1.0
    """Cores of each machine."""
    parameter_servers: int = 1
    shards: int = 1
    """Number of parts of a server's weights that are sent separately."""
    servers_apart: bool = False
    """Whether the servers are on separate machines; else they are on the nodes in turn."""
    quorum: int = 1
    """Number of gradients from which the next version of the weights is made, if learners exchange by quorum."""
    weights: int = 0
    """Numbers that learners exchange."""
    weight_bytes: float = 4.0
    """Bytes of one exchanged number in a message."""
    header_bytes: float = float(HUB.size)
    """Bytes of a message besides its numbers."""
    graph: GraphSettings = GraphSettings()
    local_steps: int = 1
    """Optimizer steps between two exchanges; in lock-step and at a hub, the last step of a batch is an exchange too."""
    max_staleness: int | None = None
    """Number of exchanges without mixing after which a learner waits for its in-peers in gossip; None: never."""
    link_bytes_per_s: float = 125e6
    """Rate of a machine's link, in each direction."""
    latency_s: float = 1e-4
    """Delay of a message between machines on an idle link, in seconds."""
    stragglers: SlowLearners = SlowLearners()
    updates: int = 100
    """Mean number of updates of a learner that are simulated and counted."""
    seed: int = 1

    @property
    def vector_bytes(self) -> float:
        """Bytes of a message with all weights or gradients."""
        return self.header_bytes + self.weight_bytes * self.weights

    @property
    def agrees_apart(self) -> bool:
        """Whether learners at a hub agree on a batch in separate messages, before the messages with its first gradient.

        With a replay, minibatches are drawn after the agreement. With normalised observations, the gradient needs
        statistics that the agreement carries.
        """
        return self.local_steps > 1 or self.work.replay or self.work.normalized

    def machine_of(self, learner: int) -> int:
        """Return the machine of a learner: learners are assigned to nodes in turn, and nodes to machines in turn."""
        return learner % self.nodes % self.machines
