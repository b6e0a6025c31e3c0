"""Finds the key that a user means who writes another library's name for a hyperparameter, for error messages."""

from __future__ import annotations

from collections.abc import Iterable

from actorlearn.algorithms.settings import ALGORITHMS, AlgorithmSpec
from launch.names.cleanrl import CLEANRL
from launch.names.library import Library, Name
from launch.names.stable_baselines3 import STABLE_BASELINES3

OTHERS = Library(
    title="other programs",
    table=tuple(
        Name(name, (), (key,), how)
        for name, key, how in (
            ("lr", "optimizer.learning_rate", ""),
            ("gae", "algorithm.gae_lambda", ""),
            ("gae_lam", "algorithm.gae_lambda", ""),
            ("lam", "algorithm.gae_lambda", ""),
            ("lambda", "algorithm.gae_lambda", ""),
            ("lambda", "algorithm.q_lambda", ""),
            ("rollout", "algorithm.horizon", ""),
            ("reward_scale", "algorithm.normalize_reward", ""),
            ("lstm", "model.recurrence", ""),
            ("use_lstm", "model.recurrence", ""),
            ("layers", "model.hidden_sizes", ""),
            ("num_workers", "simulators.count", ""),
            ("max_episode_steps", "env.time_limit_steps", ""),
            ("precision", "trainer.precision", ""),
            ("threads", "trainer.threads", ""),
            ("render", "evaluator.record", "or the command actorlearn eval RUN --record"),
            ("eval_freq", "evaluator.every_steps", ""),
            ("evaluator_freq", "evaluator.every_steps", ""),
            ("save_freq", "checkpoint.every_steps", ""),
            ("checkpoint_freq", "checkpoint.every_steps", ""),
            ("wandb", "report.writers", ""),
        )
    ),
    other_defaults={},
    fixed={},
    names_here={},
)
"""Names of programs that have no table of their own; each is valid for all algorithms that have its key."""
LIBRARIES = (STABLE_BASELINES3, CLEANRL, OTHERS)
_RUN_DIR = "give the folder of the run with the option --run-dir, in Python with run_dir="
OPTIONS = dict.fromkeys(("log_dir", "logdir", "run_dir"), _RUN_DIR)
"""Names whose counterpart is an option of a command -> remedy."""
NAMED_ELSEWHERE = {
    "mlppolicy": "mlp",
    "cnnpolicy": "nature",
    "multiinputpolicy": "mixed",
    "ddpg": "sac",
    "td3": "sac",
    "trpo": "ppo",
}
"""Networks and algorithms of other libraries, in small letters -> the nearest one of actorlearn."""


def hint(word: str, algorithm: str, same: Iterable[str] = ()) -> str:
    """Return the remedy for an unknown key that is a hyperparameter of another library, such as ``n_steps``.

    The remedy is the key with the same meaning, or the reason why there is none; "" if no library has the name.
    ``algorithm``: value of ``algorithm.name``; if no such algorithm exists, keys of all algorithms are proposed.
    ``same``: dotted keys whose last part is ``word``, proposed if no library has a key for it.
    """
    if word in OPTIONS:
        return OPTIONS[word]
    found = [(library, name) for library in LIBRARIES for name in library.table if name.name == word]
    chosen = [(library, name) for library, name in found if algorithm in _algorithms(library, name)]
    if not any(name.keys for _, name in found):
        found += [(OTHERS, Name(word, (), (key,))) for key in same]
    having: dict[str, list[tuple[Library, Name]]] = {}
    keys = dict.fromkeys(key for _, name in found for key in name.keys[:1])
    read = read_by(algorithm, keys)
    for library, name in chosen or found:
        if name.keys and name.keys[0] in read:
            having.setdefault(name.keys[0], []).append((library, name))
    if having:
        several = len(having) > 1
        return f"did you mean {' or '.join(_counterpart(entries, several) for entries in having.values())}?"
    if keys and chosen:
        return f"{algorithm} has no counterpart of {word}: {chosen[0][1].how}"
    if keys:
        readers = [spec.name for spec in ALGORITHMS.specs() if any(_has(spec, key) for key in keys)]
        having_one = f"{', '.join(readers)} ha{'ve' if readers[1:] else 's'} one"
        return f"{algorithm} has no counterpart of {word}; only {having_one}"
    return f"{word} of {found[0][0].title} has no counterpart: {found[0][1].how}" if found else ""


def read_by(algorithm: str, keys: Iterable[str]) -> list[str]:
    """Return those keys that an algorithm uses; if there is no such algorithm, return all of them."""
    try:
        spec = ALGORITHMS.spec(algorithm)
    except ValueError:
        return [*keys]
    return [key for key in keys if _has(spec, key)]


def _has(spec: AlgorithmSpec, key: str) -> bool:
    section, _, name = key.partition(".")
    if section == "algorithm":
        return name == "name" or name in spec.settings.__struct_fields__
    return section != "replay" or spec.replayed


def _algorithms(library: Library, name: Name) -> set[str]:
    """Return actorlearn's names of the algorithms for which an entry of a library's table is valid."""
    return {library.names_here[algorithm] for algorithm in name.algorithms}


def _counterpart(entries: list[tuple[Library, Name]], several: bool) -> str:
    """Return the keys in a name's table entries as text, with remarks on their values.

    ``several``: whether the message also has other keys for the name; then the text lists the entries' algorithms.
    """
    keys = [key for key in entries[0][1].keys if all(key in name.keys for _, name in entries)]
    algorithms = sorted(set().union(*(_algorithms(library, name) for library, name in entries)))
    alike = len({name.how for _, name in entries}) == 1
    remarks = {name.how if alike else f"{library.title}: {name.how}": "" for library, name in entries if name.how}
    if keys[0].rpartition(".")[2] == entries[0][1].name:
        keys, remarks = keys[:1], {}  # the key has the same name, in another section
    said = ": ".join(filter(None, [", ".join(algorithms) if several else "", "; ".join(remarks)]))
    return " and ".join(keys) + (f" ({said})" if said else "")
