"""The state file of a sweep: incomplete lines are ignored, damaged ones refused, and one sweep at a time uses it."""

from __future__ import annotations

from pathlib import Path

import pytest

from launch.errors import FailedError, RunError
from launch.sweeps.history import FORMAT, Begun, Ended, Started, Trial
from launch.sweeps.state import STATE_FILE, State, read

BEGUN = Begun(format=FORMAT, version="0", keys={"seeds": [1]}, topology="env: {id: CartPole-v1}")


def written(folder: Path) -> Path:
    with State(folder) as state:
        state.add(BEGUN)
        state.add(Trial(number=0, values={"a": [1, None, "x"]}))
        state.add(Started(trial=0, seed=1))
        state.add(Ended(trial=0, seed=1, status="finished", score=0.5))
    return folder / STATE_FILE


def test_facts_are_read_again_and_more_can_be_added(tmp_path: Path) -> None:
    path = written(tmp_path / "new" / "sweep")
    with State(path.parent) as state:
        assert state.history.trials[0].values == {"a": [1, None, "x"]}
        assert state.history.ended[0, 1].score == 0.5 and state.history.ended[0, 1].time
        state.add(Trial(number=1, values={}))
    assert len(read(path).trials) == 2
    assert read(tmp_path / "nothing").begun is None


def test_complete_lines_count_wherever_the_file_is_cut(tmp_path: Path) -> None:
    path = written(tmp_path)
    whole = path.read_bytes()
    ends = [place for place, byte in enumerate(whole, start=1) if byte == ord("\n")]
    for cut in range(len(whole)):
        path.write_bytes(whole[:cut])
        lines = sum(end <= cut for end in ends)
        history = read(path)
        assert (history.begun is not None, len(history.trials), len(history.ended)) == (
            lines >= 1,
            lines >= 2,
            lines >= 4,
        )
    path.write_bytes(whole[: ends[2] + 7])
    with State(tmp_path) as state:
        state.add(Ended(trial=0, seed=1, status="failed"))
    assert read(path).ended[0, 1].status == "failed"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b"{}", "kind"),
        (b"\xff", "UTF-8|malformed"),
        (b'{"kind":"chosen","trial":5,"values":{}}', "not the next trial"),
        (b'{"kind":"chosen","trial":1,"values":{},"more":1}', "more"),
        (b'{"kind":"started","trial":0,"seed":1}', "has already ended"),
    ],
)
def test_a_damaged_line_is_named(line: bytes, said: str, tmp_path: Path) -> None:
    path = written(tmp_path)
    path.write_bytes(path.read_bytes() + line + b"\n")
    with (
        pytest.raises(FailedError, match=rf"sweep.jsonl:5: .*({said}).*; .*restore it from a copy"),
        State(tmp_path),
    ):
        pass


def test_another_format_is_named(tmp_path: Path) -> None:
    (tmp_path / STATE_FILE).write_text('{"kind":"begun","format":99,"version":"9","keys":{},"topology":""}\n')
    with pytest.raises(FailedError, match="format is 99, but this version reads"):
        read(tmp_path / STATE_FILE)


def test_only_one_sweep_at_a_time_uses_a_folder(tmp_path: Path) -> None:
    with State(tmp_path) as state:
        state.add(BEGUN)
        with pytest.raises(RunError, match="another `actorlearn sweep` uses this folder; .*--folder"), State(tmp_path):
            pass
    with State(tmp_path) as state:
        assert state.history.begun is not None


def test_a_state_without_facts_leaves_no_file(tmp_path: Path) -> None:
    with State(tmp_path / "sweep"):
        pass
    assert list(tmp_path.iterdir()) == []
