from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from actorlearn.envs.interface import empty_row
from actorlearn.envs.make import make
from tests import named
from tests.ledger.env import ACTIONS, VARIABLE, DamagedRowError, Ledger, produced, read, read_all, reward_of


def played(env: Ledger, steps: int) -> list[tuple[Any, ...]]:
    """Take steps; return each row: the observation's bytes, reward and ends, or the bytes of a reset."""
    rows: list[tuple[Any, ...]] = []
    for number in range(steps):
        observation, reward, terminated, truncated, _ = env.step(number % ACTIONS)
        rows.append((observation.tobytes(), reward, terminated, truncated))
        if terminated or truncated:
            rows.append((env.reset()[0].tobytes(),))
    return rows


@pytest.mark.parametrize("dtype", ["uint8", "float32"])
def test_observations_identify_their_rows(dtype: str) -> None:
    env = make(named.env(id="tests.ledger.env:Ledger", kwargs={"dtype": dtype}), [3, 4])
    row = empty_row(env.spec, 2)
    env.reset(row)
    numbers, ends, streams = [], 0, set()
    for _ in range(100):
        for b, shown in enumerate(read_all(row.observation)):
            assert (shown.step == 0) == row.first[b]
            assert row.reward[b] == (0 if row.first[b] else reward_of(shown.stream, shown.number))
            ends |= row.terminated[b] + 2 * row.truncated[b]
            streams.add((b, shown.stream))
        numbers.append([shown.number for shown in read_all(row.observation)])
        env.step(np.array([1, 2]), row)
    env.close()
    assert numbers == [[n, n] for n in range(100)]
    assert len(streams) == 2
    assert ends == 3, "games end in both ways"


def test_torn_and_poisoned_observations_are_refused() -> None:
    env = Ledger()
    one = env.reset(seed=1)[0]
    other = env.step(0)[0]
    torn = np.concatenate([one[:16], other[16:]])
    with pytest.raises(DamagedRowError):
        read(torn)
    with pytest.raises(DamagedRowError):
        read(np.full(32, 0xA5, np.uint8))
    assert read(other).number == 1


def test_the_folder_holds_what_each_environment_produced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    env, idle = Ledger(), Ledger()
    newest = read(env.reset(seed=1)[0])
    rows = played(env, 30)
    assert [page.nonce for page in produced(tmp_path)] == [env.nonce]
    assert idle.nonce != env.nonce
    page = produced(tmp_path)[0]
    assert (page.stream, page.shown, page.steps) == (newest.stream, 1 + len(rows), 30)


def test_a_restored_environment_continues_from_the_state() -> None:
    env, other = Ledger(), Ledger()
    env.reset(seed=1)
    played(env, 7)
    other.reset(seed=2)
    other.restore(env.state())
    assert played(env, 50) == played(other, 50)
