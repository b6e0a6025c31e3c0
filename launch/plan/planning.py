"""Makes the plan of a run from a topology, the description of its environment and network, and this machine."""

from __future__ import annotations

from launch.machine.cores import Cores, in_turn
from launch.plan.addresses import NOWHERE, Addresses
from launch.plan.auto import AUTO, Choice, choose, cpu_flags, with_values
from launch.plan.exactness import choose_exact
from launch.plan.pace import more_simulators, shorter_rollouts
from launch.plan.plan import Plan, Resumption
from launch.plan.probe import Description
from launch.plan.roles import devices, first_processes
from launch.topology.load import Topology, TopologyError


def plan(topology: Topology, description: Description, addresses: Addresses = NOWHERE) -> Plan:
    """Return the plan of a run on this machine.

    Raises TopologyError if there are too many processes, if checkpoints must be exact and cannot be, if a group would
    not have whole games, if ``simulators.reset: wait`` is used with several agents, or if the environment cannot begin
    new games at any time and the topology needs this.
    """
    _refuse_restarts(topology, description)
    cores = Cores.here()
    topology, found = _with_mask(topology, description)
    more = more_simulators(topology, description, cores)
    topology = with_values(topology, more)
    chosen, choices = choose(topology, cpu_flags(), cores)
    shorter = shorter_rollouts(topology, description, cores.usable)
    chosen = with_values(chosen, shorter)
    replaced = {choice.key for choice in more}
    choices = [*(choice for choice in choices if choice.key not in replaced), *found, *more, *shorter]
    _refuse_parts_of_games(chosen, description)
    exact = choose_exact(chosen, description)
    return plan_chosen(chosen, description, exact.value, addresses, Resumption(), (*choices, exact))


def plan_chosen(
    topology: Topology,
    description: Description,
    exact: bool,
    addresses: Addresses,
    resumption: Resumption,
    choices: tuple[Choice, ...] = (),
) -> Plan:
    """Return the plan of a topology without any ``auto``, such as the one a node receives; raises TopologyError."""
    return Plan(
        topology=topology,
        description=description,
        exact=exact,
        addresses=addresses,
        resumption=resumption,
        cores=Cores.here(),
        pins=tuple(in_turn()) if topology.simulators.pin else (),
        devices=devices(topology),
        processes=first_processes(topology),
        choices=choices,
    )


def _with_mask(topology: Topology, description: Description) -> tuple[Topology, list[Choice]]:
    """Replace ``env.action_mask: auto`` by the place where the environment gives its masks of valid actions.

    Returns the topology, and the choice if there are masks. The processes of the run then need not begin a game to find
    out where the masks are.
    """
    if getattr(topology.env, "action_mask", "none") != AUTO:
        return topology, []
    mask = description.action_mask
    source = mask.source if mask else "none"
    why = f"the environment tells its valid actions by {mask}; write none to allow all actions"
    choice = Choice("env.action_mask", source, why)
    return with_values(topology, [choice]), [choice] if mask else []


def _refuse_parts_of_games(topology: Topology, description: Description) -> None:
    """Refuse groups without all agents of their games, and ``simulators.reset: wait`` with several agents."""
    simulators, agents = topology.simulators, description.agents
    whole, envs = agents * simulators.groups, simulators.envs
    if envs % whole:
        lower, upper = envs // whole * whole, -(-envs // whole) * whole
        raise TopologyError(
            f"simulators.envs: {envs}: a game of {topology.env.id} has {agents} agents, and each group has whole "
            f"games, so it must be a multiple of {whole}; write {f'{lower} or {upper}' if lower else upper}"
        )
    if agents > 1 and simulators.reset == "wait":
        raise TopologyError(
            f"simulators.reset: wait: games of several agents need reset: inside, and a game of {topology.env.id} has "
            f"{agents} agents; write simulators.reset: inside"
        )


def _refuse_restarts(topology: Topology, description: Description) -> None:
    """Refuse keys that start new games at any time, if the environment cannot do this."""
    simulators = topology.simulators
    asked = {
        f"simulators.decorrelation_steps: {simulators.decorrelation_steps}": simulators.decorrelation_steps > 0,
        f"simulators.reset: {simulators.reset}": simulators.reset == "wait",
    }
    if description.no_restart and (keys := [key for key, needed in asked.items() if needed]):
        way_out = "leave the key out, or write env.vector: none"
        raise TopologyError(
            f"{keys[0]}: this key starts new games at any time, but {description.no_restart}; {way_out}"
        )
