"""PettingZoo's parallel environments as a `VectorEnv`; one policy plays all agents.

Each agent counts as an environment: G games of A agents are B = G * A environments. Agent ``j`` of game ``g``, in the
order of ``possible_agents``, is environment ``g * A + j``. While an agent is not in its game, because it has ended or
has not joined yet, its time steps are void (``envs/interface.py``) and its actions are ignored. A game is over when it
has no agent left.

Ids have the prefix ``pettingzoo:``, followed by a registered id (butterfly/pistonball-v6), a module with a function
``parallel_env`` (mpe2.simple_spread_v3) or package.module:Class.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from typing import Any

import numpy as np
import numpy.typing as npt
from pettingzoo import ParallelEnv, aec_registry, parallel_registry
from pettingzoo.env_registry.spec import EnvSpec as Registered

from actorlearn import imports
from actorlearn.envs import states
from actorlearn.envs.checked_rows import CheckedRows
from actorlearn.envs.construct import called
from actorlearn.envs.interface import EnvSpec, Row, seed31
from actorlearn.envs.observations import layout_of, short
from actorlearn.envs.pictures import picture_of, with_pictures, without_pictures
from actorlearn.envs.registered import did_you_mean
from actorlearn.envs.spaces import Spaces
from actorlearn.envs.specs import PettingZooSettings

Game = Any
"""A ``pettingzoo.ParallelEnv``; Any, because this extra is not installed where types are checked."""
PREFIX = "pettingzoo:"
EXAMPLES = (
    "ids are like 'pettingzoo:butterfly/pistonball-v6', 'pettingzoo:mpe2.simple_spread_v3' or "
    "'pettingzoo:my_package.my_module:MyEnv'"
)


class PettingZoo(CheckedRows):
    """G games of one id, stepped one after the other.

    Every reset of a game has a seed, because without one the effect on random numbers depends on the environment. The
    first seed is given; each later seed is derived from it and from the number of resets so far.
    """

    interface = "pettingzoo.ParallelEnv"

    def __init__(
        self, settings: PettingZooSettings, seeds: Sequence[int], beat: Callable[[], object] = lambda: None
    ) -> None:
        """Make one game per seed; ``beat`` is called before each step and reset, as a sign that nothing hangs."""
        self._beat = beat
        self._seeds = [seed31(seed) for seed in seeds]
        self._games: list[Game] = []
        for _ in seeds:
            beat()
            self._games.append(_constructed(settings))
        self._agents, spaces = _alike(settings, self._games[0], self._seeds[0])
        super().__init__(settings.id, spaces, len(seeds) * len(self._agents))
        self.spec = spaces.spec(agents=len(self._agents), inexact=states.inexact(self._games[0]))
        self._limit = settings.time_limit_steps or 2**62
        self._begun = [0] * len(seeds)  # number of resets so far, of each game
        self._steps = [0] * len(seeds)  # steps of each running game
        self._present = np.zeros((len(seeds), len(self._agents)), np.bool_)
        """[G, A] whether an agent is in its game and takes the next action; a game without such agents is over."""

    def reset(self, row: Row) -> None:
        """Start every game from its seed, and write the first observations to ``row``."""
        self._need_open()
        self._begun = [0] * len(self._games)
        for game in range(len(self._games)):
            self._begin(game)
        self._write_first(row, np.ones(self.count, np.bool_))

    def restart(self, chosen: npt.NDArray[np.bool_], row: Row) -> None:
        """Start a new game for the chosen agents, and write their first observations to ``row``.

        Raises ValueError if only some of a game's agents are chosen.
        """
        self._need_open()
        games = chosen.reshape(self._present.shape)
        if (games.any(axis=1) != games.all(axis=1)).any():
            raise ValueError(f"{self._id!r}: a restart must choose all {len(self._agents)} agents of a game, or none")
        for game in np.flatnonzero(games.all(axis=1)).tolist():
            self._begin(game)
        self._write_first(row, chosen)

    def step(self, action: npt.NDArray[Any], row: Row) -> None:
        """Take action [B, …], and write the results to ``row``."""
        self._need_open()
        chosen = self._actions.taken(action, self.count)
        terminated, truncated, first = np.zeros((3, self.count), np.bool_)
        for game in range(len(self._games)):
            own = slice(game * len(self._agents), (game + 1) * len(self._agents))
            self._beat()
            if not self._present[game].any():
                self._begin(game)
                first[own] = True
            else:
                first[own] = ~self._present[game]
                self._step(game, chosen[own], terminated[own], truncated[own])
        self._write(row, terminated, truncated, first, np.repeat(self._steps, len(self._agents)))

    def state(self) -> dict[str, npt.NDArray[Any]]:
        """Return the games' states, and which agents are in them."""
        own = {"seeds": self._seeds, "begun": self._begun, "steps": self._steps, "present": self._present}
        return self._saved(self._games, own)

    def restore(self, state: Mapping[str, npt.NDArray[Any]]) -> None:
        """Restore a state; each game is reset before, because some set their attributes only in ``reset``."""
        with self._restoring():
            seeds, begun, steps = (state[name].tolist() for name in ("seeds", "begun", "steps"))
            present = np.array(state["present"], np.bool_)
            if present.shape != self._present.shape or {len(seeds), len(begun), len(steps)} != {len(self._games)}:
                raise ValueError(f"the state has {present.size} agents instead of {self.count}")
            for game in range(len(self._games)):
                self._begin(game)
            self._restore_valid(state)
            states.put_back(self._games, state)
        self._seeds, self._begun, self._steps, self._present = seeds, begun, steps, present

    def close(self) -> None:
        """Close every game."""
        games, self._games, self._open = self._games, [], False
        for game in games:
            self._beat()
            game.close()

    def render(self) -> list[npt.NDArray[np.uint8]]:
        """Return a picture of each game; raises ValueError if the games cannot make any."""
        return [picture_of(self._id, game) for game in self._games]

    def _begin(self, game: int) -> None:
        """Reset game number ``game`` with its next seed, and gather the first observations."""
        self._beat()
        begun, first = self._begun[game], game * len(self._agents)
        self._begun[game], self._steps[game] = begun + 1, 0
        seed = _nth_seed(self._seeds[game], begun)
        observations, infos = self._answered(first, "reset", self._games[game].reset(seed=seed), 2)
        self._present[game] = self._listed(game)
        if not self._present[game].any():
            self._refuse(first, "agents", self._games[game].agents, "a game begins with one agent or more")
        for j, agent in enumerate(self._agents):
            self._arrive(first + j, observations, infos, agent, self._present[game, j])

    def _step(
        self, game: int, chosen: Sequence[Any], terminated: npt.NDArray[np.bool_], truncated: npt.NDArray[np.bool_]
    ) -> None:
        """Step one game with the actions ``chosen`` [A]: gather observations and rewards, and write the flags [A]."""
        env, before = self._games[game], game * len(self._agents)
        acting = self._listed(game)
        answer = env.step({agent: chosen[j] for j, agent in enumerate(self._agents) if acting[j]})
        observations, rewards, over, cut, infos = self._answered(before, "step", answer, 5)
        self._steps[game] += 1
        listed, at_limit = self._listed(game), self._steps[game] >= self._limit
        for j, agent in enumerate(self._agents):
            i = before + j
            if self._present[game, j]:
                self._reward[i] = self._number(i, self._of(i, "rewards", rewards, agent))
                terminated[j] = self._flag(i, "terminated", self._of(i, "terminations", over, agent))
                was_cut = self._flag(i, "truncated", self._of(i, "truncations", cut, agent))
                truncated[j] = (was_cut or at_limit or not listed[j]) and not terminated[j]
                seen, ended = self._of(i, "observations", observations, agent), terminated[j] or truncated[j]
                self._gather(i, seen, self._info_of(i, infos, agent), bool(ended))
                self._present[game, j] = not ended
            else:
                has_ended = (
                    isinstance(over, Mapping) and isinstance(cut, Mapping) and (over.get(agent) or cut.get(agent))
                )
                self._present[game, j] = listed[j] and not has_ended and not at_limit
                self._arrive(i, observations, infos, agent, self._present[game, j])

    def _arrive(self, i: int, observations: Any, infos: Any, agent: Any, present: bool) -> None:
        """Gather an agent's first observation; if it is not ``present`` in the game, gather zeros instead."""
        self._reward[i] = 0.0
        if present:
            self._gather(i, self._of(i, "observations", observations, agent), self._info_of(i, infos, agent))
            return
        self._observation[i] = 0
        self._valid[i] = True

    def _info_of(self, i: int, infos: Any, agent: Any) -> Any:
        """Return an agent's info, or {} if masks are not in infos, because nothing else in it is used."""
        reads = self._masks is not None and self._masks.source == "info"
        return self._of(i, "infos", infos, agent) if reads else {}

    def _listed(self, game: int) -> list[bool]:
        """Return for each possible agent whether the game's ``agents`` contain it."""
        listed = set(self._games[game].agents)
        if strangers := listed.difference(self._agents):
            first = game * len(self._agents)
            self._refuse(first, "agents", sorted(map(str, strangers)), "they must be among possible_agents")
        return [agent in listed for agent in self._agents]

    def _of(self, i: int, name: str, values: Any, agent: Any) -> Any:
        if not isinstance(values, Mapping) or agent not in values:
            self._refuse(
                i, name, values, f"it must map each agent that acted or arrived to its value, but lacks {agent!r}"
            )
        return values[agent]


make = PettingZoo


def make_rendered(
    settings: PettingZooSettings, seeds: Sequence[int], beat: Callable[[], object] = lambda: None
) -> PettingZoo:
    """Make one game per seed that can be rendered."""
    return PettingZoo(with_pictures(settings), seeds, beat)


def spec(settings: PettingZooSettings) -> EnvSpec:
    """Return the `EnvSpec`; makes one game and closes it."""
    with closing(_constructed(settings)) as game:
        agents, spaces = _alike(settings, game, 0)
        return spaces.spec(agents=len(agents), inexact=states.inexact(game))


def _alike(settings: PettingZooSettings, game: Game, seed: int) -> tuple[list[Any], Spaces]:
    """Return a game's agents, and the conversions of their common spaces; raises ValueError if spaces differ."""
    agents = list(getattr(game, "possible_agents", ()))
    if not agents:
        raise ValueError(
            f"env.id: {settings.id!r} has no possible_agents: all agents must be known before a game begins"
        )
    spaces = [(game.observation_space(agent), game.action_space(agent)) for agent in agents]
    (observed_by_first, acted), *others = spaces
    common = Spaces.of(
        settings.id,
        observed_by_first,
        acted,
        scale_actions=settings.scale_actions,
        action_mask=settings.action_mask,
        first_info=lambda: next(iter(game.reset(seed=seed)[1].values())),
    )
    whole = layout_of(settings.id, observed_by_first)[0]
    for agent, (own, own_acted) in zip(agents[1:], others, strict=True):
        found, _ = layout_of(settings.id, own)
        if (found.shape, found.dtype) != (whole.shape, whole.dtype):
            what, spaces_of_both = "observation", (own, observed_by_first)
        elif own_acted != acted:
            what, spaces_of_both = "action", (own_acted, acted)
        else:
            continue
        theirs, first = map(short, spaces_of_both)
        raise ValueError(
            f"env.id: {settings.id!r}: agent {agent!r} has {what} space {theirs}, but {agents[0]!r} has {first}; one "
            "policy plays all agents, so their spaces must be equal; set env.id to a class that pads them (supersuit)"
        )
    if not settings.agent_index:
        return agents, common
    if len(common.layout.shape) != 1:
        raise ValueError(
            f"env.agent_index: true needs vectors, but observations of {settings.id!r} are {short(observed_by_first)}"
        )
    return agents, common._replace(indexed=len(agents))


def _nth_seed(seed: int, number: int) -> int:
    """Return the seed of an environment's game with this number: ``seed`` for 0, else a seed derived from it."""
    return seed31(int(np.random.SeedSequence([seed, number]).generate_state(1)[0])) if number else seed


def _constructed(settings: PettingZooSettings) -> Game:
    """Make a game from env.id and env.kwargs; raises ValueError with a message of one line if that fails."""
    what = f"env.id: {settings.id!r}"
    maker = _maker(settings.id, what)
    made = called(maker, (), without_pictures(maker, settings.kwargs), what)
    if not isinstance(made, ParallelEnv):
        rule = "it must be a pettingzoo.ParallelEnv (pettingzoo.utils.aec_to_parallel converts games with turns)"
        raise ValueError(f"{what} makes {made!r:.200}; {rule}")
    return made


def _maker(env_id: str, what: str) -> Callable[..., Any]:
    """Return the class or function that an id names."""
    name = env_id.removeprefix(PREFIX)
    if "/" in name:
        return _registered(name, what)
    module_name, _, attribute = name.partition(":")
    try:
        module = imports.module(module_name, what)
    except ValueError:
        _refuse_module_name(module_name, what)
        raise
    maker: Callable[..., Any] | None = getattr(module, attribute or "parallel_env", None)
    if not callable(maker):
        raise ValueError(f"{what}: {module_name} has no class or function {attribute or 'parallel_env'!r}; {EXAMPLES}")
    return maker


def _refuse_module_name(name: str, what: str) -> None:
    """Raise ValueError with a suggestion if ``name`` is a module of a game of PettingZoo, such as sisl.pursuit_v4."""
    family, _, game = name.rpartition(".")
    registered = f"{family}/{game.replace('_v', '-v')}"
    near = [known for known in parallel_registry if known.rpartition("-v")[0] == registered.rpartition("-v")[0]]
    if family and near:
        raise ValueError(f"{what}: PettingZoo's own games are named by their ids; did you mean {PREFIX + near[0]!r}?")
    turns = [known for known in aec_registry if known.rpartition("/")[2].partition("-v")[0] == game.partition("_v")[0]]
    if turns and turns[0] not in parallel_registry:
        raise ValueError(
            f"{what}: {turns[0]} is a game with turns; only parallel environments can be played, and {EXAMPLES}"
        )


def _registered(name: str, what: str) -> Callable[..., Any]:
    """Return the function or class that makes a registered id, with the arguments of the registration as defaults."""
    found = parallel_registry.get(name)
    if found is None:
        if name.startswith("mpe/"):
            way_out = "it comes with mpe2: `pip install mpe2`, and write for example 'pettingzoo:mpe2.simple_spread_v3'"
        else:
            way_out = did_you_mean(name, {known: PREFIX + known for known in parallel_registry}) + EXAMPLES
        raise ValueError(f"{what}: no parallel environment of PettingZoo has this id; {way_out}")
    return _entry(found, what)


def _entry(found: Registered, what: str) -> Callable[..., Any]:
    point = found.entry_point
    maker: Callable[..., Any] = imports.attribute(point, what) if isinstance(point, str) else point
    own = {**found.kwargs, **({} if found.max_cycles in (None, -1) else {"max_cycles": found.max_cycles})}
    return (lambda **kwargs: maker(**{**own, **kwargs})) if own else maker
