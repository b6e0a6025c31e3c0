"""Learning curves of runs: complete ones, young ones, resumed ones, and ones without a score."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from launch.display.plot import figure_of, plot
from launch.runs.curves import read_curve
from launch.runs.find import RunFolder
from tests.launch.runs.folders import write_lines, write_run

PNG = b"\x89PNG\r\n\x1a\n"


def make_run(folder: Path, points: list[tuple[float, int, float | None]], name: str = "", **more: Any) -> RunFolder:
    """Make a run folder with reports of (time_s, env_steps, mean score)."""
    rows = [
        {"time_s": t, "env_steps": s, "frames": 4 * s, "env_steps_per_s": 1000.0, "episode_return_mean": r} | more
        for t, s, r in points
    ]
    topology = f"name: {name}\nenv: {{id: ALE/Pong-v5}}\n" if name else None
    return write_run(folder, topology=topology, rows=rows)


def test_a_run_is_drawn_as_a_picture(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [(10.0, 10_000, None), (20.0, 20_000, -20.0), (30.0, 30_000, -19.0)], "pong")
    plot([run], tmp_path / "new folder" / "pong.png")
    assert (tmp_path / "new folder" / "pong.png").read_bytes().startswith(PNG)


def test_a_curve_has_points_only_where_games_ended(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [(10.0, 10_000, None), (30.0, 30_000, -20.0), (60.0, 60_000, -19.0)], "pong")
    curve = read_curve(run)
    assert curve.stretches == [[(30_000.0, 0.5, -20.0), (60_000.0, 1.0, -19.0)]]
    assert (curve.label, curve.game, curve.frames_per_step, curve.steps_per_s) == ("pong", "ALE/Pong-v5", 4.0, 1000.0)
    assert curve.final == -19.0


def test_other_columns_are_drawn_together_and_an_unknown_one_is_answered_with_the_nearest(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [(60.0, 100, None), (90.0, 200, None)], "pong", steps_l2=0.5, loss=2.0)
    assert read_curve(run, "steps_l2").stretches == [[(100.0, 1.0, 0.5), (200.0, 1.5, 0.5)]]
    plot([run], tmp_path / "norms.svg", ["steps_l2", "loss"])
    picture = (tmp_path / "norms.svg").read_text()
    assert all(f"pong {column}: last" in picture for column in ("steps_l2", "loss"))
    with pytest.raises(
        ValueError,
        match=r"no report has a number in column 'step_l2'; did you mean steps_l2 or \w+ or \w+\?$",
    ):
        plot([run], tmp_path / "x.png", ["step_l2"])
    with pytest.raises(ValueError, match=r"in column 'zzz'; name one that its metrics\.jsonl has, such as"):
        plot([run], tmp_path / "x.png", ["zzz"])


def test_a_restore_breaks_the_line_while_time_goes_on(tmp_path: Path) -> None:
    points = [(60.0, 100, 1.0), (120.0, 200, 2.0), (150.0, 150, None), (180.0, 180, 1.5), (210.0, 260, 3.0)]
    curve = read_curve(make_run(tmp_path / "run", points))
    assert curve.stretches == [[(100.0, 1.0, 1.0), (200.0, 2.0, 2.0)], [(180.0, 3.0, 1.5), (260.0, 3.5, 3.0)]]
    plot([RunFolder(tmp_path / "run", {})], tmp_path / "resumed.png")


def test_a_restore_undoes_points_of_a_metric_that_few_reports_have(tmp_path: Path) -> None:
    """Formerly evaluations between the checkpoint and the next evaluation were kept."""
    rows = [(60.0 * n, 10 * n, float(n)) for n in range(1, 11)]
    again = [(700.0, 55, None), (760.0, 70, None), (800.0, 60, None)]
    assert read_curve(make_run(tmp_path / "run", rows + again)).newest == [(10.0 * n, n) for n in range(1, 6)]
    curve = read_curve(make_run(tmp_path / "later", [*rows, *again, (860.0, 81, 2.5)]))
    assert curve.newest == [*((10.0 * n, n) for n in range(1, 6)), (81.0, 2.5)]
    assert curve.final == 2.5
    with pytest.raises(ValueError, match=r"no report since the run was restored has a score; try again later in the"):
        read_curve(make_run(tmp_path / "all", [*rows, (700.0, 5, None)]))


def test_a_line_still_being_written_is_left_out(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [(60.0, 100, 1.0)])
    with (run.path / "metrics.jsonl").open("a") as file:
        file.write('{"time_s": 120.0, "env_st')
    assert read_curve(run).stretches == [[(100.0, 1.0, 1.0)]]


def make_seeds(folder: Path, ends: list[float], algorithm: str = "a2c", name: str = "pong") -> list[RunFolder]:
    """Make runs of one topology that differ only in the seed."""
    runs = []
    for seed, end in enumerate(ends, start=1):
        run = make_run(folder / f"{algorithm}-{seed}", [(60.0, 100, 0.0), (60.0 * seed + 60, 200 + seed, end)])
        keys = f"seed: {seed}\nenv: {{id: ALE/Pong-v5}}\nalgorithm: {{name: {algorithm}}}\n"
        (run.path / "topology.yaml").write_text(f"name: {name}\n{keys}")
        runs.append(run)
    return runs


def test_seeds_of_a_topology_are_one_line_in_a_band(tmp_path: Path) -> None:
    runs = make_seeds(tmp_path, [1.0, 2.0, 3.0, 4.0, 50.0])
    plot(runs, tmp_path / "band.svg")
    picture = (tmp_path / "band.svg").read_text()
    assert "pong, 5 runs: last IQM " in picture
    estimate, low, high = map(float, re.findall(r"last IQM ([\d.]+) \(([\d.]+) to ([\d.]+)\)", picture)[0])
    assert estimate == pytest.approx(3.0, abs=0.1)  # at 201 steps, where the first one ends; not moved by the last
    assert low < estimate < high
    plot(runs, tmp_path / "apart.svg", apart=True)
    apart = (tmp_path / "apart.svg").read_text()
    assert all(f"pong (a2c-{seed}): last score" in apart for seed in range(1, 6)) and "IQM" not in apart


def test_groups_of_one_name_are_told_apart_by_keys(tmp_path: Path) -> None:
    runs = [*make_seeds(tmp_path, [1.0, 2.0]), *make_seeds(tmp_path, [3.0, 4.0, 5.0], "ppo")]
    plot(runs, tmp_path / "two.svg")
    picture = (tmp_path / "two.svg").read_text()
    assert "algorithm.name=a2c, 2 runs" in picture and "algorithm.name=ppo, 3 runs" in picture


def test_seeds_that_have_no_step_in_common_are_drawn_without_a_band(tmp_path: Path) -> None:
    runs = make_seeds(tmp_path, [1.0, 2.0])
    late = [{"time_s": 9.0 + s, "env_steps": s, "episode_return_mean": 1.0} for s in (900, 1000)]
    write_lines(runs[1].path / "metrics.jsonl", late)
    plot(runs, tmp_path / "x.svg")
    assert "pong, 2 runs, 1,000 steps/s" in (tmp_path / "x.svg").read_text()


@pytest.mark.parametrize(("letters", "lines"), [(20, 1), (90, 2), (400, 5)])
def test_the_legend_has_room_for_long_names(tmp_path: Path, letters: int, lines: int) -> None:
    """The two names are in one line, in two lines, or each broken into several."""
    runs = [
        make_run(tmp_path / letter, [(60.0, 100, 1.0), (90.0, 200, 2.0)], f"{letter} " * (letters // 2))
        for letter in "ab"
    ]
    figure = figure_of(runs, apart=True)
    figure.canvas.draw()
    box, whole = figure.legends[0].get_window_extent(), figure.bbox
    assert whole.x0 <= box.x0 and box.x1 <= whole.x1
    height = figure.legends[0].get_texts()[0].get_fontsize() * figure.dpi / 72
    assert lines <= box.height / height < 3 * lines


def test_the_legend_of_many_groups_is_whole_and_leaves_room_for_the_curves(tmp_path: Path) -> None:
    runs = [make_run(tmp_path / f"run-{n}", [(60.0, 100, 1.0), (90.0, 200, 2.0)], f"{n} " * 40) for n in range(24)]
    figure = figure_of(runs, apart=True)
    figure.canvas.draw()
    box, whole = figure.legends[0].get_window_extent(), figure.bbox
    assert box.y0 >= whole.y0 and box.height < whole.height
    assert all(axes.get_window_extent().height > 250 for axes in figure.axes[:2])


def test_curves_without_a_clock_are_drawn_against_steps_alone(tmp_path: Path) -> None:
    runs = make_seeds(tmp_path, [1.0, 2.0])
    for run in runs:
        rows = [{"env_steps": s, "episode_return_mean": 1.0} for s in (100, 200)]
        write_lines(run.path / "metrics.jsonl", rows)
    plot(runs, tmp_path / "band.png")
    plot(runs[:1], tmp_path / "line.png")
    assert read_curve(runs[0]).newest == [(100.0, 1.0), (200.0, 1.0)] and not read_curve(runs[0]).over_time


def test_runs_of_one_folder_name_are_told_apart_by_the_whole_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sweeps in two folders have runs of the same names."""
    monkeypatch.chdir(tmp_path)
    folders = [tmp_path / sweep / "lr-0-s1" for sweep in ("a", "b")]
    plot([make_run(folder, [(10.0, 1_000, 0.0)], "lr-0-s1") for folder in folders], tmp_path / "both.svg", apart=True)
    picture = (tmp_path / "both.svg").read_text()
    assert all(f"lr-0-s1 ({folder}/lr-0-s1): last score" in picture for folder in ("a", "b"))


def test_runs_of_one_name_are_told_apart_by_folder(tmp_path: Path) -> None:
    runs = [
        make_run(tmp_path / folder, [(60.0, 100, 1.0), (90.0, 200, 2.0)], "pong") for folder in ("monday", "tuesday")
    ]
    plot(runs, tmp_path / "both.svg", apart=True)
    picture = (tmp_path / "both.svg").read_text()
    assert "pong (monday): last" in picture and "pong (tuesday): last" in picture
    plot([*runs, make_run(tmp_path / "third", [(60.0, 100, 1.0)], "mlp", frames=100)], tmp_path / "three.png")
    with pytest.raises(ValueError, match="monday is given twice"):
        plot([runs[0], runs[0]], tmp_path / "x.png")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda run: None, "there is no metrics.jsonl; name the folder of a run"),
        (lambda run: make_run(run, []), "the file has no reports yet"),
        (lambda run: make_run(run, [(1.0, 10, None), (2.0, 20, None)]), "no game has finished in 2 reports"),
        (
            lambda run: (make_run(run, []).path / "metrics.jsonl").write_text("{]\n"),
            "the file has no reports yet",
        ),
    ],
    ids=["no folder", "no rows", "no scores", "no JSON"],
)
def test_a_run_without_a_curve_is_an_error_in_one_line(tmp_path: Path, make: Any, message: str) -> None:
    make(tmp_path / "run")
    with pytest.raises(ValueError, match=message) as caught:
        plot([RunFolder(tmp_path / "run", {})], tmp_path / "x.png")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "x.png").exists()


def test_an_unknown_format_is_an_error(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [(60.0, 100, 1.0)])
    with pytest.raises(ValueError, match=r"'x\.bmpp' as a picture: end its name in one of .*png"):
        plot([run], tmp_path / "x.bmpp")


def test_importing_the_module_does_not_import_matplotlib() -> None:
    program = "import sys, launch.display.plot; print({'matplotlib', 'torch'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
