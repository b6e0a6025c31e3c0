"""The plan: which processes and segments a topology means on a machine with these cores. Pure data; can be printed.

Beside a Plan, a run has a Description of environment and network, Addresses of segments and sockets, a ProcessTable of
its present processes, and a Resumption: the checkpoints it continues from.
"""

from __future__ import annotations

from dataclasses import dataclass

from actorlearn.memory.rollout import BlockShape, block_fields
from actorlearn.memory.shared import segment_bytes
from actorlearn.parameters.mixing import GraphSettings
from actorlearn.worker.handshake import shape_to_match
from actorlearn.worker.roles import ROLES
from launch.machine.cores import Cores
from launch.plan import exactness
from launch.plan.addresses import Addresses
from launch.plan.auto import Choice, choose, cpu_flags, misfits
from launch.plan.probe import Description
from launch.plan.processes import PlannedProcess, PlannedSegment, first_processes
from launch.plan.segments import block_shape, learner_segments, run_segments, server_segments
from launch.topology.load import Topology, TopologyError
from launch.topology.modes import asked, mode


@dataclass(frozen=True)
class Plan:
    """Plan of a run: all that follows from topology, description and machine."""

    topology: Topology
    """Without any ``auto``."""
    description: Description
    cores: Cores
    choices: tuple[Choice, ...]
    """Values chosen for ``auto``, and defaults that follow the cores, each with its reason."""
    exact: bool
    """Whether checkpoints allow an exact resume."""
    processes: tuple[PlannedProcess, ...]
    """Processes that the run begins with, in the order in which they are started."""

    @property
    def block_shape(self) -> BlockShape:
        """Shape of every simulator's segment."""
        return block_shape(self.topology, self.description)

    @property
    def segments(self) -> list[PlannedSegment]:
        """Segments at the start of the run, with their sizes."""
        topology, simulators = self.topology, self.topology.simulators
        kinds = learner_segments(topology, self.description).items()
        several = [(f"{kind}-{learner}", *made) for learner in range(topology.learners.count) for kind, made in kinds]
        shared = [*several, *run_segments(topology, self.description), *server_segments(topology, self.description)]
        rows = f"{simulators.groups} group(s) x {simulators.blocks} block(s) x {topology.algorithm.horizon + 1} rows"
        what = f"{rows} x {simulators.envs // simulators.groups} environments"
        size = segment_bytes(block_fields(self.block_shape))
        members = [process for process in self.processes if ROLES.spec(process.id.role).makes_rows]
        return [
            *(PlannedSegment(name, segment_bytes(fields), said) for name, fields, said in shared),
            *(PlannedSegment(process.name, size, what) for process in members),
        ]

    @property
    def bytes_total(self) -> int:
        """Bytes of shared memory that the run needs at its start."""
        return sum(segment.bytes for segment in self.segments)

    @property
    def misfits(self) -> list[str]:
        """Warnings of what the topology asks of this machine that it has not, each with the way out."""
        return misfits(self.topology, cpu_flags(), self.cores.usable)

    @property
    def expected_shape(self) -> dict[str, str]:
        """Values that a simulator must report about itself to be admitted, by key."""
        horizon, simulators = self.topology.algorithm.horizon, self.topology.simulators
        return shape_to_match(self.topology.env.id, self.description, horizon, simulators.blocks, simulators.groups)

    @property
    def graph(self) -> GraphSettings | None:
        """Graph on which learners mix their weights; None where they do not."""
        return mode(self.topology).graph(asked(self.topology))

    def mailbox(self, process: PlannedProcess, addresses: Addresses) -> str:
        """Return the endpoint on which a trainer receives other learners' messages; "" where it has none."""
        if not ROLES.spec(process.id.role).learns:
            return ""
        listens = mode(self.topology).exchange(process.id.learner, 0, asked(self.topology), addresses.folders).listens
        return listens.endpoint if listens else ""

    def sockets(self, addresses: Addresses) -> list[str]:
        """Endpoints that will be listened on; all are ipc, owner-only."""
        return [
            addresses.control.endpoint,
            *filter(None, (self.mailbox(process, addresses) for process in self.processes)),
        ]


def plan(topology: Topology, description: Description) -> Plan:
    """Work out the run for this machine. Raises TopologyError when it has too many processes, or cannot be exact.

    So it does where rows would be of parts of games, where an agent's next game would wait for the other agents, or
    where games would be begun at will that cannot be.
    """
    _refuse_restarts(topology, description)
    cores = Cores.here()
    chosen, choices = choose(topology, cpu_flags(), cores)
    _refuse_parts_of_games(chosen, description)
    exact = exactness.choose_exact(chosen, description)
    return Plan(chosen, description, cores, (*choices, exact), exact.value, first_processes(chosen))


def _refuse_parts_of_games(topology: Topology, description: Description) -> None:
    """Refuse groups of environments that are not whole games of all their agents."""
    simulators, agents = topology.simulators, description.agents
    whole, envs = agents * simulators.groups, simulators.envs
    if envs % whole:
        lower, upper = envs // whole * whole, -(-envs // whole) * whole
        raise TopologyError(
            f"simulators.envs: {envs}; each game of {topology.env.id} has a row for each of its {agents} agents, and "
            f"{simulators.groups} group(s) have whole games: write {f'{lower} or {upper}' if lower else upper}"
        )
    if agents > 1 and simulators.reset == "wait":
        raise TopologyError(
            f"simulators.reset: wait; a game of {topology.env.id} has {agents} agents, and games of several agents "
            "need simulators.reset: inside"
        )


def _refuse_restarts(topology: Topology, description: Description) -> None:
    """Refuse keys that begin games at will where the environment cannot."""
    simulators = topology.simulators
    asked = {
        f"simulators.decorrelation_steps: {simulators.decorrelation_steps}": simulators.decorrelation_steps > 0,
        f"simulators.reset: {simulators.reset}": simulators.reset == "wait",
    }
    if description.no_restart and (keys := [key for key, needed in asked.items() if needed]):
        way_out = "leave that key out, or write env.vector: none"
        raise TopologyError(f"{keys[0]} begins games at will, but {description.no_restart}; {way_out}")
