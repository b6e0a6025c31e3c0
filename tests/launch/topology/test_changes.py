"""Keys that a resume changes are found, described and undone."""

from __future__ import annotations

from typing import Any

import pytest

from launch.topology.changes import changes, changes_task, flat, say, undo
from launch.topology.load import as_text, dump, parse, tree

FILE = "env: {id: CartPole-v1}"
PICKLED: dict[str, Any] = {"env": {"id": "actorlearn.envs.pickled:Own", "kwargs": {"file": "a", "sha256": "1"}}}


@pytest.mark.parametrize(
    ("before", "now", "said"),
    [
        ({"seed": 1}, {"seed": 1.0}, ""),
        ({"seed": 1, "model": {"a": 1}}, {"seed": 2, "model": {"a": None}}, "seed: 1 → 2, model.a: 1 → null"),
        (
            {"algorithm": {"a": 1, "name": "a2c"}},
            {"algorithm": {"b": 1, "name": "ppo"}},
            "algorithm.name: 'a2c' → 'ppo'",
        ),
    ],
)
def test_changes_are_described_in_one_line(before: dict[str, Any], now: dict[str, Any], said: str) -> None:
    """Keys that only one of the topologies has depend on a choice such as algorithm.name, which alone is shown."""
    assert say(changes(before, now)) == said


@pytest.mark.parametrize(
    "words", [["algorithm.name=dqn"], ["algorithm.name=sac"], ["mode=gossip", "learners.count=2"], ["env.kwargs.a=1"]]
)
def test_undoing_the_changes_restores_the_topology(words: list[str]) -> None:
    """This also holds if a choice adds or removes a section and keys."""
    one, other = (tree(parse(FILE, given)) for given in ([], words))
    for before, now in ((one, other), (other, one)):
        undone = undo(now, changes(before, now))
        assert flat(undone) == flat(before)
        assert dump(parse(as_text(undone))) == dump(parse(as_text(before)))


def test_a_moved_file_of_a_pickled_environment_is_no_change_and_is_not_undone() -> None:
    moved = {"env": {"id": PICKLED["env"]["id"], "kwargs": {"file": "b", "sha256": "1"}}}
    assert changes(PICKLED, moved) == {}
    longer = {"env": {"id": PICKLED["env"]["id"], "kwargs": {"file": "b", "sha256": "1", "length": 8}}}
    assert undo(longer, changes(PICKLED, longer)) == moved
    assert changes_task(changes(PICKLED, longer)) and not changes_task({"seed": {"was": 1, "is": 2}})
    assert not changes_task({"env.preset": {"is": 1}}), "a default that this version has and an earlier one had not"
