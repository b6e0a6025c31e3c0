"""``actorlearn import``: logs of CleanRL and Stable-Baselines3 become run folders that are read like other runs."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from launch.runs import find
from launch.runs.curves import SCORE, read_curve
from tests.examples import examples
from tests.fuzz.nearly import edited_bytes
from tests.launch.asking import ask, refused
from tests.launch.foreign.sb3_logs import CLEANRL, PPO_1, PPO_2
from tests.launch.runs.folders import write_run

pytestmark = pytest.mark.usefixtures("empty_folder")


def imported(*arguments: str | Path) -> list[dict[str, Any]]:
    """Import logs; return what the command prints about each run."""
    result = ask("import", *arguments, "--json")
    assert result.exit_code == 0, result.output
    found: list[dict[str, Any]] = json.loads(result.stdout)["runs"]
    return found


def test_a_log_of_cleanrl_names_its_environment_algorithm_and_seed() -> None:
    [run] = imported(CLEANRL)
    assert run["folder"] == f"runs/{CLEANRL.name}"
    assert (run["env"], run["algorithm"], run["seed"]) == ({"id": "CartPole-v1"}, {"name": "cleanrl ppo"}, 1)
    assert run["hyperparameters"]["learning_rate"] == "0.00025"
    assert (run["env_steps"], run["episodes"]) == (2786, 106)
    assert run["losses/value_loss"] > 0 and run["env_steps_per_s"] > 0


def test_scores_of_single_games_become_the_mean_of_the_last_hundred() -> None:
    """Of one run, Stable-Baselines3 logs the mean score, and its Monitor logs each game; both give the same score."""
    [logged] = imported(PPO_1)
    [games] = imported(PPO_1 / "0.monitor.csv", *AS_PPO)
    assert logged[SCORE] == pytest.approx(games[SCORE], abs=1e-3)
    assert 0 <= logged["env_steps"] - games["env_steps"] < 500  # the game that was going on at the end
    means = [number for _, number in read_curve(find.find("0.monitor")).newest]
    with (PPO_1 / "0.monitor.csv").open() as file:
        file.readline()
        scores = [float(row["r"]) for row in csv.DictReader(file)]
    assert means == pytest.approx([fmean(scores[: n + 1][-100:]) for n in range(len(scores))])


def test_all_logs_of_a_run_give_the_same_curve() -> None:
    """TensorBoard's file has numbers in single precision, and counts seconds from its own first event."""
    [events] = imported(PPO_2 / "events.out.tfevents.0", "--into", "events", *AS_PPO)
    [progress] = imported(PPO_2 / "progress.csv", "--into", "progress", *AS_PPO)
    one, other = (read_curve(find.read(Path(run["folder"]))) for run in (events, progress))  # type: ignore[arg-type]
    assert [steps for steps, _ in one.newest] == [steps for steps, _ in other.newest]
    assert [score for _, score in one.newest] == pytest.approx([score for _, score in other.newest], rel=1e-6)
    assert one.over_time[-1][0] == pytest.approx(other.over_time[-1][0], abs=0.5)
    assert (one.label, one.game) == ("sb3 ppo", "CartPole-v1")


def test_monitors_of_several_environments_count_the_steps_of_all() -> None:
    [run] = imported(PPO_2)
    shutil.copytree(PPO_2, "games", ignore=shutil.ignore_patterns("events*", "progress.csv"))
    [games] = imported("games", "--algorithm", "sb3 ppo")
    assert games[SCORE] == pytest.approx(run[SCORE], abs=1e-3)
    assert 0 <= run["env_steps"] - games["env_steps"] < 2 * 500
    assert games["env"] == {"id": "CartPole-v1"}


def test_imported_runs_are_plotted_and_compared_beside_ours(tmp_path: Path) -> None:
    imported(CLEANRL.parent)
    for seed in (1, 2):
        keys = f"name: ours\nseed: {seed}\nenv: {{id: CartPole-v1}}\nalgorithm: {{name: ppo}}\n"
        rows = [{"time_s": steps / 100, "env_steps": steps, SCORE: steps / 40 + seed} for steps in (100, 2_500)]
        write_run(tmp_path / "runs" / f"ours-{seed}", topology=keys, rows=rows)
    names = ["PPO_1", "PPO_2", CLEANRL.name, "ours-1", "ours-2"]
    told = json.loads(ask("compare", *names, "--json", "-o", "all.svg").stdout)
    by_algorithm = {group["keys"]["algorithm.name"]: group for group in told["groups"]}
    assert {name: len(its["runs"]) for name, its in by_algorithm.items()} == {"ppo": 2, "sb3 ppo": 2, "cleanrl ppo": 1}
    assert by_algorithm["cleanrl ppo"]["seeds"] == [1] and by_algorithm["sb3 ppo"]["seeds"] == [None, None]
    assert "algorithm.name=sb3 ppo, 2 runs: last IQM" in Path("all.svg").read_text()
    assert ask("plot", *names, "-o", "all.png").exit_code == 0
    assert "imported" in ask("ps", "--all").stdout
    assert ask("top", "PPO_1").exit_code == 0


@pytest.mark.parametrize(
    ("log", "program"),
    [
        (PPO_1 / "progress.csv", "sb3"),
        (PPO_1 / "0.monitor.csv", "sb3"),
        (PPO_1 / "events.out.tfevents.0", "sb3"),
        (CLEANRL / "events.out.tfevents.0", "cleanrl"),
        (Path("any.csv"), "imported"),
    ],
    ids=lambda value: getattr(value, "name", value),
)
def test_a_given_algorithm_gets_the_name_of_the_program_that_made_the_log(log: Path, program: str) -> None:
    """So the runs of another program are never compared as if actorlearn had made them."""
    Path("any.csv").write_text("step,ep_rew_mean\n1,2\n")
    Path("mine").mkdir()
    shutil.copy(log, Path("mine"))
    [run] = imported(Path("mine", log.name), "--env", "CartPole-v1", "--algorithm", "ppo")
    assert run["algorithm"] == {"name": f"{program} ppo"}
    [again] = imported(Path("mine", log.name), *AS_PPO, "--into", "others")
    assert again["algorithm"] == {"name": "sb3 ppo"}, "a name with a program is not changed"


def test_the_algorithm_of_an_unknown_program_is_called_imported() -> None:
    Path("any.csv").write_text("step,ep_rew_mean,exp_name,env_id\n1,2,ppo,CartPole-v1\n")
    [run] = imported("any.csv")
    assert run["algorithm"] == {"name": "imported ppo"}


@pytest.mark.parametrize("kind", ["progress.csv", "0.monitor.csv", "events.out.tfevents.0"])
@pytest.mark.parametrize("whole_folder", [True, False])
def test_stable_baselines3_names_the_algorithm_in_the_name_of_a_folder(kind: str, whole_folder: bool) -> None:
    folder = Path("logs", "A2C_12")
    folder.mkdir(parents=True)
    shutil.copy(PPO_1 / kind, folder)
    [run] = imported(folder if whole_folder else folder / kind, "--env", "CartPole-v1")
    assert run["algorithm"] == {"name": "sb3 a2c"}


def test_a_table_of_several_runs_is_split_into_runs(tmp_path: Path) -> None:
    """A table as openrlbenchmark writes it: it has the rows of all runs, and some have no score."""
    rows = ["global_step,_runtime,charts/episodic_return,charts/SPS,env_id,exp_name,seed"]
    for seed in (1, 2):
        rows += [f"{n * 10},{n}.5,{n * seed},100,Breakout-v4,ppo_atari,{seed}" for n in range(1, 5)]
        rows += [f"50,9.0,,200,Breakout-v4,ppo_atari,{seed}"]
    Path("history.csv").write_text("\n".join(rows) + "\n")
    first, second = imported("history.csv", "--env", "ALE/Breakout-v5", "--frames-per-step", "4")
    assert [run["run"] for run in (first, second)] == [f"ppo_atari-Breakout-v4-{seed}" for seed in (1, 2)]
    assert (second["seed"], second["env_steps"], second["time_s"], second[SCORE]) == (2, 40, 4.5, 5.0)
    assert (second["frames"], second["env"]) == (160, {"id": "ALE/Breakout-v5"})


def test_the_column_of_the_score_can_be_named_and_a_clock_may_be_missing() -> None:
    Path("mine.csv").write_text("step,reward\n1,0.5\n2,nan\n3,0.75\n")
    [run] = imported("mine.csv", "--score", "reward", "--env", "Mine-v0", "--algorithm", "mine", "--seed", "7")
    assert (run["seed"], run["env_steps"], run["time_s"], run[SCORE]) == (7, 3, None, 0.75)
    assert ask("plot", "mine", "-o", "mine.png").exit_code == 0


def test_another_column_is_not_taken_for_the_steps_or_the_time() -> None:
    head = "global_step,relative_time,env_steps,time_s,ep_rew_mean"
    Path("two.csv").write_text(f"{head}\n10,1.0,7.5,99,0.5\n20,2.0,15.5,99,0.75\n")
    [run] = imported("two.csv", "--env", "Mine-v0", "--algorithm", "mine")
    assert (run["env_steps"], run["time_s"], run[SCORE]) == (20, 2.0, 0.75)


def test_long_logs_are_thinned_out_and_keep_their_ends() -> None:
    rows = "\n".join(f"{step},{step / 10},{step}" for step in range(12_000))
    Path("long.csv").write_text(f"step,time_s,ep_rew_mean\n{rows}\n")
    imported("long.csv", "--env", "Mine-v0", "--algorithm", "mine")
    curve = read_curve(find.find("long")).newest
    assert (len(curve), curve[0], curve[-1]) == (5_000, (0.0, 0.0), (11_999.0, 11_999.0))


def test_an_event_file_that_is_cut_short_is_read_as_far_as_it_is_whole() -> None:
    shutil.copytree(CLEANRL, CLEANRL.name)
    file = Path(CLEANRL.name, "events.out.tfevents.0")
    file.write_bytes(file.read_bytes()[:9_000])
    [run] = imported(CLEANRL.name)
    assert 0 < run["env_steps"] < 2786


def test_a_log_that_cannot_be_imported_is_refused_before_anything_is_written() -> None:
    assert "nowhere: no such file or folder" in refused("import", "nowhere")
    assert "does not contain its environment; give it with --env" in refused("import", PPO_1 / "progress.csv")
    Path("empty").mkdir()
    assert "empty contains no logs" in refused("import", "empty")
    Path("x.txt").write_text("x")
    assert "x.txt is not a supported log" in refused("import", "x.txt")
    Path("x.csv").write_text("a,b\n1,2\n")
    assert "no column of steps; one of global_step" in refused("import", "x.csv")
    Path("x.csv").write_text("step,ep_rew_mean\n1,2\nx,3\n")
    assert "row 3: step is 'x'; it must be a number of steps" in refused("import", "x.csv")
    Path("x.monitor.csv").write_text("r,l,t\n1,2,3\n")
    assert "not a file of Monitor" in refused("import", "x.monitor.csv")
    Path("x.csv").write_text("step,other\n1,2\n")
    both = "x.csv does not contain its environment and algorithm; give them with --env and --algorithm"
    assert refused("import", "x.csv") == both
    assert "x.csv does not contain its algorithm; give it with --alg" in refused("import", "x.csv", "--env", "Mine-v0")
    assert "none of the known scores charts/episodic_return" in refused("import", "x.csv", *AS_PPO)
    assert "no 'ohter'; the numbers in it: other" in refused("import", "x.csv", *AS_PPO, "--score", "ohter")
    assert "is the seed of one run, but 3 runs were found" in refused("import", CLEANRL.parent, "--seed", "1")
    assert not Path("runs").exists()
    imported(PPO_1)
    assert "runs/PPO_1 already exists; remove it" in refused("import", PPO_1)
    assert "was imported from another program and cannot be resumed" in refused("resume", "PPO_1")


AS_PPO = ("--env", "CartPole-v1", "--algorithm", "sb3 ppo")


def test_numbers_that_are_not_finite_count_as_missing() -> None:
    """JSON has no NaN, so a reader would leave out a row that has one."""
    lines = ["global_step,_runtime,charts/episodic_return,loss,env_id,exp_name,seed"]
    lines += [f"{100 * n},nan,{n},inf,CartPole-v1,ppo,{1.0 + n % 2}" for n in range(4)]
    Path("runs.csv").write_text("\n".join([*lines, "500,1,nan,1,CartPole-v1,ppo,1.0"]))
    runs = imported("runs.csv")
    assert [run["seed"] for run in runs] == [1, 2], "as pandas writes them"
    assert [len(read_curve(find.find(Path(run["folder"]).name)).newest) for run in runs] == [2, 2]
    Path("steps.csv").write_text("global_step,charts/episodic_return\nnan,1\n")
    assert "must be a number of steps" in refused("import", "steps.csv", *AS_PPO)
    Path("monitor.csv").write_text('#{"t_start": 1.0}\nr,l,t\n1.0,nan,2.0\n')
    assert "not finite" in refused("import", "monitor.csv", *AS_PPO)


HISTORY = b"global_step,_runtime,charts/episodic_return,loss,env_id,exp_name,seed\n1,0.5,2,3,CartPole-v1,ppo,1.0\n"
MONITOR = b'#{"t_start": 1.0, "env_id": "CartPole-v1"}\nr,l,t\n1.0,9,2.0\n'
ODD_CELLS = ("1.7e308", "-1.7e308", "1e300", "-5", "nan", "inf", "", "1" * 140_000, "\0", '"', "é\x1b", "0", "1e20")
LONG, DEEP = b"1" * 140_000, b"[" * 100_000


@pytest.mark.parametrize(
    ("name", "content", "rule"),
    [
        ("x.csv", HISTORY + LONG, "field larger than field limit"),
        ("x.csv", LONG + b"," + HISTORY, "field larger than field limit"),
        ("x.csv", b"\xff\xfe" + HISTORY, "'utf-8' codec can't decode byte 0xff"),
        ("x.csv", HISTORY + b"2,1,1.7e308,1,CartPole-v1,ppo,1.0\n", "a score is from -1e+100 to 1e+100"),
        ("x.csv", HISTORY + b"1e300,1,2,1,CartPole-v1,ppo,1.0\n", "a number of steps is from 0 to 2^53"),
        ("x.csv", HISTORY + b"-5,1,2,1,CartPole-v1,ppo,1.0\n", "a number of steps is from 0 to 2^53"),
        ("x.monitor.csv", b"#" + DEEP, "RecursionError"),
        ("x.monitor.csv", MONITOR + LONG, "field larger than field limit"),
        ("x.monitor.csv", MONITOR + b"1.7e308,1,3\n", "a score is from -1e+100 to 1e+100"),
        ("x.monitor.csv", MONITOR + b"1,1e300,3\n", "a number of steps is from 0 to 2^53"),
        ("x.monitor.csv", MONITOR + b"1,-5,3\n", "l is negative"),
        ("x.monitor.csv", MONITOR.replace(b'"CartPole-v1"', b'["a"]'), "env_id is not text"),
    ],
)
def test_a_malformed_log_is_refused_in_one_line_that_names_the_file(name: str, content: bytes, rule: str) -> None:
    Path(name).write_bytes(content)
    line = refused("import", name, *AS_PPO)
    assert line.startswith(name) and rule in line and len(line) < 700
    assert not Path("runs").exists()


@pytest.mark.parametrize("row", ["x" * 300 + ",ppo,1", "CartPole-v1," + "x" * 300 + ",1"])
def test_a_name_that_is_too_long_is_refused(row: str) -> None:
    Path("x.csv").write_text(f"step,ep_rew_mean,env_id,exp_name,seed\n1,2,{row}\n")
    assert "has at most 200" in refused("import", "x.csv")


def test_a_number_that_is_no_seed_is_left_out() -> None:
    Path("x.csv").write_text("step,ep_rew_mean,seed\n1,2,1e300\n")
    [run] = imported("x.csv", *AS_PPO)
    assert "seed" not in run


def event_files() -> list[bytes]:
    return [next(folder.glob("events*")).read_bytes() for folder in (CLEANRL, PPO_1)]


def recorded(event: bytes) -> bytes:
    """Frame an event as TensorBoard does, with right checksums: damage is found only when the event is decoded."""
    from tensorboard.compat.tensorflow_stub.pywrap_tensorflow import masked_crc32c

    length = len(event).to_bytes(8, "little")
    return b"".join(
        (length, masked_crc32c(length).to_bytes(4, "little"), event, masked_crc32c(event).to_bytes(4, "little"))
    )


def events_of(data: bytes) -> list[bytes]:
    found = []
    while data:
        length = int.from_bytes(data[:8], "little")
        found.append(data[12 : 12 + length])
        data = data[16 + length :]
    return found


def summary(step: int, number: float, size: int = 1) -> bytes:
    """Make an event with one score, whose tensor claims to have ``size`` numbers."""
    from tensorboard.compat.proto import event_pb2, summary_pb2, tensor_pb2, tensor_shape_pb2, types_pb2

    dimension = tensor_shape_pb2.TensorShapeProto.Dim(size=size)
    shape = tensor_shape_pb2.TensorShapeProto(dim=[dimension])
    tensor = tensor_pb2.TensorProto(dtype=types_pb2.DT_DOUBLE, tensor_shape=shape, double_val=[number])
    value = summary_pb2.Summary.Value(tag="charts/episodic_return", tensor=tensor)
    event: bytes = event_pb2.Event(step=step, summary=summary_pb2.Summary(value=[value])).SerializeToString()
    return event


@pytest.mark.parametrize(
    ("event", "rule"),
    [
        ((-5, 1.0), "a number of steps is from 0 to 2^53"),
        ((1, 1.7e308), "a score is from -1e+100 to 1e+100"),
        ((1, float("nan")), "has no finite number"),
        ((1, 1.0, 10**13), "none of the known scores"),
    ],
)
def test_an_impossible_event_is_refused(event: Any, rule: str) -> None:
    Path("x.tfevents").write_bytes(recorded(summary(*event)))
    assert rule in refused("import", "x.tfevents", *AS_PPO)


def hyperparameters(rows: dict[str, str]) -> bytes:
    """Make an event with CleanRL's table of hyperparameters."""
    from tensorboard.compat.proto import event_pb2, summary_pb2, tensor_pb2, types_pb2

    text = "|param|value|\n|-|-|\n" + "\n".join(f"|{key}|{value}|" for key, value in rows.items())
    tensor = tensor_pb2.TensorProto(dtype=types_pb2.DT_STRING, string_val=[text.encode()])
    value = summary_pb2.Summary.Value(tag="hyperparameters/text_summary", tensor=tensor)
    event: bytes = event_pb2.Event(summary=summary_pb2.Summary(value=[value])).SerializeToString()
    return event


def test_hyperparameters_are_read_as_they_were_logged_or_refused() -> None:
    rows = {"env_id": "X", "seed": "1", "a": "08", "b": "1e-05", "c": "yes", "d": "1" * 30, "e": "\x1b: #"}
    Path("x.tfevents").write_bytes(recorded(summary(1, 1.0)) + recorded(hyperparameters(rows)))
    [run] = imported("x.tfevents", *AS_PPO)
    its = find.read(Path(run["folder"]))
    assert its is not None and its.topology()["hyperparameters"] == {key: rows[key] for key in "abcde"}
    for wrong in ({str(n): "1" for n in range(2_500)}, {"a": "x" * 300_000}):
        Path("x.tfevents").write_bytes(recorded(summary(1, 1.0)) + recorded(hyperparameters(wrong)))
        line = refused("import", "x.tfevents", *AS_PPO, "--into", "others")
        assert "its settings cannot be written" in line and "a topology has at most" in line
        assert not Path("others").exists()


@st.composite
def tables(draw: st.DrawFn, right: list[bytes]) -> bytes:
    """Draw one of these tables with odd bytes or cells."""
    if draw(st.booleans()):
        return draw(edited_bytes(right))
    table = draw(st.sampled_from(right))
    for _ in range(draw(st.integers(1, 3))):
        cell = draw(st.sampled_from(table.replace(b"\n", b",").split(b",")))
        table = table.replace(cell, draw(st.sampled_from(ODD_CELLS)).encode(), 1) if cell else table
    return table


@st.composite
def files_of_events(draw: st.DrawFn) -> bytes:
    """Draw a file of events with odd bytes, or with an odd event."""
    whole = event_files()
    if draw(st.booleans()):
        return draw(edited_bytes(whole))
    events = sorted({event for data in whole for event in events_of(data)}, key=len)
    return whole[0] + recorded(draw(edited_bytes(events)))


EXAMPLES = 100
READERS = {
    "x.csv": tables([HISTORY, b"step,ep_rew_mean\n1,2\n3,4\n"]),
    "x.monitor.csv": tables([MONITOR]),
    "x.tfevents": files_of_events(),
}


@pytest.mark.parametrize("name", READERS)
def test_any_log_is_imported_or_refused_in_one_line(name: str) -> None:
    @settings(max_examples=examples(EXAMPLES), suppress_health_check=list(HealthCheck), print_blob=True)
    @given(READERS[name] | st.binary(max_size=200))
    def read(data: bytes) -> None:
        shutil.rmtree("runs", ignore_errors=True)
        Path(name).write_bytes(data)
        result = ask("import", name, *AS_PPO, "--json")
        if result.exit_code == 0:
            for run in json.loads(result.stdout)["runs"]:
                assert 0 <= run["env_steps"] <= 2**53
                its = find.read(Path(run["folder"]))
                assert its is not None and its.topology()["env"] == {"id": "CartPole-v1"}
        else:
            assert result.exit_code == 2 and len(result.stderr.splitlines()) == 1, result.output

    read()
