"""``actorlearn compare``: how runs are grouped, what is printed, and which runs are left out or refused."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.launch.asking import ask, refused
from tests.launch.runs.folders import write_run

ROOT = Path(__file__).parents[3]
ENDS = {("a2c", 1): 5.0, ("a2c", 2): 7.0, ("a2c", 3): 6.0, ("ppo", 1): 9.0, ("ppo", 2): 8.0, ("ppo", 3): 10.0}


@pytest.fixture(autouse=True)
def runs(empty_folder: Path) -> Path:
    for (algorithm, seed), end in ENDS.items():
        make_run(empty_folder / "runs" / f"{algorithm}-{seed}", algorithm, seed, [(10, 0.0), (100 + seed, end)])
    return empty_folder / "runs"


def make_run(folder: Path, algorithm: str, seed: int, points: list[tuple[int, float]], env: str = "Cart") -> None:
    topology = f"name: {folder.name}\nseed: {seed}\nenv: {{id: {env}}}\nalgorithm: {{name: {algorithm}}}\n"
    rows = [{"time_s": float(s), "env_steps": s, "episode_return_mean": score, "loss": -score} for s, score in points]
    write_run(folder, topology=topology, rows=rows)


def test_groups_are_printed_the_better_one_first_with_a_picture(tmp_path: Path) -> None:
    result = ask("compare", *ENDS_BY_NAME, "-o", tmp_path / "seeds.svg")
    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()
    assert lines[0] == "episode_return_mean at 101 steps, the last step that all runs have reached"
    assert lines[2].split()[:4] == ["algorithm.name=ppo", "1", "2", "3"]
    assert lines[3].split()[:4] == ["algorithm.name=a2c", "1", "2", "3"]
    assert lines[2].split()[4:8] == ["8.899", "7.913", "to", "9.785"]  # at 101 steps of 101 to 103
    assert lines[3].split()[-2:] == ["0.00", "0.10"]
    assert "p is at least 0.1" in result.output
    assert "algorithm.name=a2c, 3 runs: last IQM 5.932 (" in (tmp_path / "seeds.svg").read_text()


def test_the_option_json_prints_every_number() -> None:
    answer = json.loads(ask("compare", *ENDS_BY_NAME, "--json", "--y", "loss").output)
    assert (answer["column"], answer["env_steps"]) == ("loss", 101.0)
    best, other = answer["groups"]
    assert (best["keys"], best["seeds"], best["p"]) == ({"algorithm.name": "a2c"}, [1, 2, 3], None)
    assert best["runs"] == ["a2c-1", "a2c-2", "a2c-3"]
    assert best["last"][0] == -5.0
    assert other["p"] == pytest.approx(0.1)
    assert other["better_than_first"] == {"estimate": 0.0, "low": 0.0, "high": 0.0}
    assert best["interquartile_mean"]["estimate"] == pytest.approx(best["mean"])
    assert best["deviation"] == pytest.approx(np.std(best["last"], ddof=1))


def test_one_group_or_one_run_is_printed_without_a_p_value() -> None:
    assert "all runs" in ask("compare", "ppo-1", "ppo-2").output
    alone = ask("compare", "ppo-1")
    assert "p:" not in alone.output and "–" in alone.output


def test_a_single_run_has_no_interval() -> None:
    """An interval of width 0 would say that another seed gives the same score."""
    result = ask("compare", "ppo-1", "a2c-1", "a2c-2")
    (alone,) = (line for line in result.output.splitlines() if line.startswith("algorithm.name=ppo"))
    assert "one run: no interval" in alone and " to " not in alone
    groups = json.loads(ask("compare", "ppo-1", "a2c-1", "a2c-2", "--json").output)["groups"]
    assert groups[0]["interquartile_mean"] == {"estimate": pytest.approx(9.0, rel=0.01), "low": None, "high": None}
    assert groups[1]["interquartile_mean"]["low"] is not None
    assert groups[1]["better_than_first"] == {"estimate": 0.0, "low": None, "high": None}


@pytest.mark.parametrize("differing", [5, 9])
def test_groups_that_differ_in_many_keys_have_different_names(runs: Path, differing: int) -> None:
    """The first keys, which give a group its name, are the same in two of the groups."""
    for number, rate in enumerate((0.1, 0.2, 0.2)):
        make_run(runs / f"many-{number}", "ppo", 1, [(10, 0.0), (100, float(number))])
        keys = "".join(f"key_{key}: {rate}\n" for key in range(differing))
        own = "".join(f"z_{key}: {number}\n" for key in range(differing - 3))
        with (runs / f"many-{number}" / "topology.yaml").open("a") as file:
            file.write(keys + own)
    names = [line.split("  ")[0] for line in ask("compare", "many").output.splitlines()[3:6]]
    assert len(set(names)) == 3, names
    assert "z_0=1" in names[1] and "z_0=2" in names[0]


def test_groups_that_no_common_key_tells_apart_are_named_by_a_run(runs: Path) -> None:
    for name, extra in (("first", "x: 1\ny: 1\n"), ("second", "x: 2\nz: 1\n"), ("third", "y: 2\nz: 2\n")):
        make_run(runs / name, "ppo", 1, [(10, 0.0), (100, 1.0)])
        with (runs / name / "topology.yaml").open("a") as file:
            file.write(extra)
    output = ask("compare", "first", "second", "third").output
    assert [f"all runs ({name})" in output for name in ("first", "second", "third")] == [True] * 3


def test_reports_that_a_resume_has_undone_do_not_count(runs: Path) -> None:
    make_run(runs / "back", "ppo", 4, [(10, 0.0), (90, 50.0), (60, 1.0), (101, 2.0)])
    assert json.loads(ask("compare", "back", "--json").output)["groups"][0]["last"] == [2.0]


def test_a_run_without_a_report_is_left_out_with_a_line(runs: Path) -> None:
    make_run(runs / "young", "ppo", 9, [])
    result = ask("compare", "ppo-1", "young", "ppo-2")
    assert result.exit_code == 0
    first = result.output.splitlines()[0]
    assert first.startswith("left out: ") and "young" in first and "the file has no reports yet" in first
    answer = json.loads(ask("compare", "ppo-1", "young", "--json").output)
    assert [group["runs"] for group in answer["groups"]] == [["ppo-1"]] and len(answer["warnings"]) == 1
    assert "the file has no reports yet" in refused("compare", "young")


def make_sweeps(runs: Path) -> None:
    """Make two sweeps that have a run of the same name, keys and seed; the run of the second went on for longer."""
    make_run(runs / "sw" / "sw-0-s1", "dqn", 1, [(10, 0.0), (90, 4.0)])
    make_run(runs / "sw" / "sw-0-s2", "dqn", 2, [(10, 0.0), (110, 5.0)])
    make_run(runs / "sw2" / "sw-0-s1", "dqn", 1, [(12, 0.2), (110, 6.0)])


def test_of_two_runs_with_equal_keys_and_seed_only_one_counts(runs: Path) -> None:
    """Such runs are not independent: most of them learned the same weights."""
    make_sweeps(runs)
    reason = "left out: runs/sw/sw-0-s1: has the keys and the seed 1 of runs/sw2/sw-0-s1, so it is not independent"
    lines = ask("compare", "sw", "ppo-1", "ppo-2").output.splitlines()
    assert [line.partition(";")[0] for line in lines if line.startswith("left out")] == [reason]
    assert lines[-1].endswith("with 2 and 2 runs p is at least 0.33")
    answer = json.loads(ask("compare", "sw", "--json").output)
    (group,) = answer["groups"]
    assert (group["runs"], group["seeds"], group["last"]) == (["sw-0-s2", "sw-0-s1"], [2, 1], [5.0, 6.0])
    assert [Path(folder).parent.name for folder in group["folders"]] == ["sw", "sw2"]
    assert len(answer["warnings"]) == 1 and answer["warnings"][0].startswith(reason)


def test_runs_without_a_seed_all_count(runs: Path) -> None:
    """The logs of some programs do not contain the seed."""
    for name in ("ppo-1", "ppo-2"):
        file = runs / name / "topology.yaml"
        file.write_text(re.sub("seed: .*\n", "", file.read_text()))
    answer = json.loads(ask("compare", "ppo-1", "ppo-2", "--json").output)
    assert (answer["groups"][0]["seeds"], answer["warnings"]) == ([None, None], [])


@pytest.mark.parametrize("command", ["plot", "compare", "report"])
def test_runs_of_equal_names_are_told_apart_by_their_folders(runs: Path, command: str) -> None:
    make_sweeps(runs)
    first = ask(command, "sw-0").output.splitlines()[0]
    assert sorted(first.removeprefix("3 runs: ").split(", ")) == ["runs/sw/sw-0-s1", "runs/sw2/sw-0-s1", "sw-0-s2"]


@pytest.mark.parametrize("command", ["plot", "compare", "report"])
def test_files_beside_runs_that_a_shell_pattern_matches_are_left_out_with_a_line(runs: Path, command: str) -> None:
    """A sweep writes the output of each run beside the folder of the run."""
    make_sweeps(runs)
    (runs / "sw" / "sw-0-s1.log").touch()
    (runs / "sw" / "sw.jsonl").touch()
    words = sorted(str(path.relative_to(runs.parent)) for path in (runs / "sw").iterdir())
    result = ask(command, *words)
    assert result.exit_code == 0, result.output
    assert "left out, as they are not run folders: runs/sw/sw-0-s1.log, runs/sw/sw.jsonl\n" in result.output
    assert "runs/sw/sw.jsonl' is neither a run folder nor" in refused(command, "runs/sw/sw.jsonl")


def test_runs_of_several_environments_are_compared_with_a_warning(runs: Path) -> None:
    make_run(runs / "other", "ppo", 1, [(10, 0.0), (102, 500.0)], "Pole")
    result = ask("compare", "ppo-1", "other")
    assert result.exit_code == 0
    assert result.output.startswith("warning: the runs play different environments (Cart, Pole), whose scores have")
    assert "warning:" not in ask("compare", "ppo-1", "a2c-1").output


@pytest.mark.parametrize("command", ["plot", "compare", "report"])
def test_the_runs_whose_names_begin_with_a_given_word_are_listed_in_one_line(command: str) -> None:
    lines = ask(command, "ppo").output.splitlines()
    assert lines[0].startswith("3 runs: ") and sorted(lines[0][8:].split(", ")) == ["ppo-1", "ppo-2", "ppo-3"]
    (newest,) = ask(command, "newest").output.splitlines()[:1]
    assert newest in {f"1 run: {name}" for name in ENDS_BY_NAME}
    for words in (["ppo-1"], ["runs/ppo-1", "ppo-2"]):
        assert not re.match(r"\d runs?: ", ask(command, *words).output)
    assert json.loads(ask("compare", "ppo", "--json").output)["groups"]


def test_plot_and_report_say_where_they_write_if_no_file_is_named(runs: Path, tmp_path: Path) -> None:
    for command, name in (("plot", "curves.png"), ("report", "report.html")):
        assert ask(command, "ppo-1").output == f"wrote {runs / 'ppo-1' / name}\n"
        assert (runs / "ppo-1" / name).is_file()
        assert ask(command, "ppo-1", "ppo-2").output == f"wrote {name}\n"
        assert (tmp_path / name).is_file()


def test_runs_that_cannot_be_compared_are_refused_in_one_line(runs: Path, tmp_path: Path) -> None:
    assert refused("compare", "ppo-1", "runs/ppo-1") == "ppo-1 is given twice: name each run once"
    make_run(runs / "late", "ppo", 5, [(500, 0.0), (600, 1.0)])
    assert "no steps in common" in refused("compare", "ppo-1", "late")
    for command in ("compare", "plot"):
        line = refused(command, "ppo-1", "--y", "los")
        assert line == "runs/ppo-1: no report has a number in column 'los'; did you mean loss?"
    assert "cannot write 'x.doc' as a picture" in refused("compare", "ppo-1", "-o", tmp_path / "x.doc")
    (runs / "ppo-2" / "topology.yaml").write_text("{")
    assert "ppo-2 has no readable topology.yaml" in refused("compare", "ppo-1", "ppo-2")


ENDS_BY_NAME = [f"{algorithm}-{seed}" for algorithm, seed in ENDS]


def test_a_closed_standard_output_is_not_reported_as_a_file_that_cannot_be_written(runs: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "actorlearn", "compare", *map(str, sorted(runs.iterdir())), "--json"]
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True, check=False, cwd=ROOT)
    os.close(writer)
    assert (done.returncode, done.stderr) == (1, "")
