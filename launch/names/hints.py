"""Hints for error messages: the key of a topology that is meant if a user writes the name of another library. Pure."""

from __future__ import annotations

from launch.names.cleanrl import CLEANRL
from launch.names.library import Library, Name
from launch.names.stable_baselines3 import STABLE_BASELINES3

LIBRARIES = (STABLE_BASELINES3, CLEANRL)
OTHERS = {
    "lr": "optimizer.learning_rate",
    "gae_lam": "algorithm.gae_lambda",
    "lam": "algorithm.gae_lambda",
    "rollout": "algorithm.horizon",
    "num_workers": "simulators.count",
    "max_episode_steps": "env.time_limit_steps",
}
"""Names of programs that have no table -> keys."""
NAMED_ELSEWHERE = {
    "mlppolicy": "mlp",
    "cnnpolicy": "nature",
    "multiinputpolicy": "mixed",
    "ddpg": "sac",
    "td3": "sac",
    "trpo": "ppo",
}
"""Networks and algorithms of other libraries, in small letters -> the nearest one of actorlearn."""


def hint(word: str) -> str:
    """Return a hint for a name of another library: its key, or why there is none; "" for an unknown name."""
    if word in OTHERS:
        return f"did you mean {OTHERS[word]}?"
    found = [(library, name) for library in LIBRARIES for name in library.table if name.name == word]
    having: dict[str, list[tuple[Library, Name]]] = {}
    for library, name in found:
        if name.keys:
            having.setdefault(name.keys[0], []).append((library, name))
    if having:
        of_some = len(having) > 1 or sum(map(len, having.values())) < len(found)
        return f"did you mean {' or '.join(_counterpart(entries, of_some) for entries in having.values())}?"
    return f"{word} of {found[0][0].title} has no counterpart: {found[0][1].how}" if found else ""


def _counterpart(entries: list[tuple[Library, Name]], of_some: bool) -> str:
    """Return the keys for a name, with remarks on the values.

    ``entries``: the entries of the name in the libraries' tables. ``of_some``: whether the keys are the counterpart
    only for some algorithms, whose names are then added.
    """
    keys = [key for key in entries[0][1].keys if all(key in name.keys for _, name in entries)]
    algorithms = sorted({library.names_here[algorithm] for library, name in entries for algorithm in name.algorithms})
    alike = len({name.how for _, name in entries}) == 1
    remarks = {name.how if alike else f"{library.title}: {name.how}": "" for library, name in entries if name.how}
    if keys[0].rpartition(".")[2] == entries[0][1].name:
        remarks = {}  # the key has the same name, in another section
    said = ": ".join(filter(None, [", ".join(algorithms) if of_some else "", "; ".join(remarks)]))
    return " and ".join(keys) + (f" ({said})" if said else "")
