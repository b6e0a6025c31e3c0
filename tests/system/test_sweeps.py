"""Sweeps of real runs: after kills and stops of the sweep each run is done once, as its own folder shows."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from benchmarks.namespaces import HEAD
from launch.runs import find
from launch.sweeps.history import History
from launch.sweeps.state import STATE_FILE, read
from launch.topology import strict_yaml
from tests.system.conftest import CONFIGS, PACED, Command
from tests.system.environments import PACED_VARIABLE
from tests.system.launched import PATIENCE_S, hear_ctrl_c, lines, processes_of
from tests.system.namespaces import namespaces
from tests.system.slurm import Slurm
from tests.system.sshd import command_there, needs_sshd, sshd
from tests.waiting import within

pytestmark = [pytest.mark.system, pytest.mark.nightly, pytest.mark.timeout(3600)]

LONG_S = 20 * PATIENCE_S
"""Longest wait for a sweep: it starts twelve runs, and each imports torch three times."""
STEPS = 400
BATCH = 4 * 16
"""Most steps that a run learns from beyond its total steps."""
TINY = {
    "total_steps": STEPS,
    "simulators.count": 1,
    "simulators.envs": 4,
    "report.every_s": 0.2,
    "checkpoint.every_steps": 100,
    "checkpoint.keep": 20,
    "supervision.start_s": 1000,
}
RATES = [0.001, 0.003, 0.01, 0.03]
SEEDS = [3, 1, 2]


class Sweep:
    """``actorlearn sweep`` of one file, begun as often as a test wants."""

    def __init__(self, folder: Path, environment: dict[str, str], by: Sequence[str] = (), **keys: Any) -> None:
        """``by``: words that go before its command."""
        self.file = folder / "tiny.yaml"
        own = {"topology": str(CONFIGS / "catch.yaml"), "overrides": TINY, **keys}
        self.file.write_text(json.dumps(own))
        self.folder = folder / "runs" / "tiny"
        self.environment, self.by = environment, by
        self.process: subprocess.Popen[bytes] | None = None
        self.said = folder / "said"

    def begin(self, *options: str) -> None:
        with self.said.open("ab") as said:
            self.process = subprocess.Popen(
                [*self.by, sys.executable, "-m", "launch", "sweep", str(self.file), *options],
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                cwd=self.file.parent,
                env=self.environment,
                process_group=0,
                preexec_fn=hear_ctrl_c,
            )

    def end(self, *options: str) -> int:
        """Begin it, unless it lives, and wait for its end."""
        if self.process is None:
            self.begin(*options)
        assert self.process is not None
        status = self.process.wait(LONG_S)
        self.process = None
        return status

    def kill(self, sent: int = signal.SIGKILL) -> None:
        assert self.process is not None
        self.process.send_signal(sent)
        if sent == signal.SIGKILL:
            self.process.wait()
            self.process = None

    def history(self) -> History:
        return read(self.folder / STATE_FILE)

    def wait_for(self, happened: Callable[[], Any], what: str) -> None:
        deadline_s = time.monotonic() + LONG_S
        while not happened():
            ended = self.process is not None and self.process.poll() is not None
            if ended or time.monotonic() > deadline_s:
                pytest.fail(f"no {what}; it said:\n{self.said.read_text()[-3000:]}", pytrace=False)
            time.sleep(0.05)

    def runs(self) -> list[find.RunFolder]:
        inside = sorted(self.folder.iterdir()) if self.folder.is_dir() else []
        return [run for path in inside if path.is_dir() and (run := find.read(path))]

    def clear_away(self) -> None:
        for run in self.runs():
            if run.alive:
                with suppress(ProcessLookupError):
                    os.kill(run.meta["supervisor_pid"], signal.SIGKILL)
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()


@pytest.fixture
def sweep(tmp_path: Path, environment: dict[str, str]) -> Iterator[Callable[..., Sweep]]:
    made: list[Sweep] = []

    def make(**keys: Any) -> Sweep:
        made.append(Sweep(tmp_path, environment, **keys))
        return made[-1]

    yield make
    for each in made:
        each.clear_away()
        for meta in (run.meta for run in each.runs()):
            for place in (meta.get("shm"), meta.get("sockets")):
                if place and Path(place).exists():
                    shutil.rmtree(place, ignore_errors=True)


def topology(run: find.RunFolder) -> dict[str, Any]:
    value = strict_yaml.read((run.path / "topology.yaml").read_text(), "topology.yaml").value
    assert isinstance(value, dict)
    return value


def checkpoints_of(sweep: Sweep, count: int) -> bool:
    """Whether ``count`` of its runs have a checkpoint after step 0."""
    return sum(any(int(path.name) > 0 for path in run.checkpoints()) for run in sweep.runs()) >= count


def check_one_life(run: find.RunFolder) -> None:
    """Check a run that was not interrupted: one life, steps that only grow, all of them learned from once."""
    summary, meta = run.summary(), run.meta
    assert summary["status"] == "finished" and meta["earlier"] == [] and meta["resumed_at"] is None
    rows = lines(run.path / "metrics.jsonl")
    steps = [row["env_steps"] for row in rows]
    assert steps == sorted(set(steps)) and STEPS <= steps[-1] == summary["env_steps"] < STEPS + BATCH
    assert summary["steps_used"] == summary["env_steps"]
    spawned = Counter(event["process"] for event in lines(run.path / "events.jsonl") if event["kind"] == "spawned")
    assert set(spawned.values()) == {1} and "trainer" in spawned


def check_ledger(sweep: Sweep, rates: Sequence[float] = RATES, seeds: Sequence[int] = SEEDS) -> None:
    """Check that the folders and the state have each rate with each seed once, and nothing else."""
    runs = sweep.runs()
    wanted = sorted((rate, seed) for rate in rates for seed in seeds)
    told = [topology(run) for run in runs]
    assert sorted((own["optimizer"]["learning_rate"], own["seed"]) for own in told) == wanted
    assert len({run.meta["run_id"] for run in runs}) == len(wanted)
    history = sweep.history()
    assert sorted((history.trials[run.trial].values["optimizer.learning_rate"], run.seed) for run in history.ended) == (
        wanted
    )
    ends = {(end.trial, end.seed): end for end in history.ended.values()}
    for run in runs:
        trial, seed = run.name.removeprefix("tiny-").split("-s")
        end = ends[int(trial), int(seed)]
        assert (end.status, end.env_steps) == ("finished", run.summary()["env_steps"])
        assert end.score == run.summary()["episode_return_mean"]
    assert processes_of(sweep.folder) == []


def test_a_sweep_of_12_runs_that_is_killed_three_times_does_every_run_once(sweep: Callable[..., Sweep]) -> None:
    moments = random.Random(seed := random.randrange(2**32))
    print(f"moments of the kills follow from {seed}")
    rates = {"vary": {"optimizer.learning_rate": RATES}, "seeds": SEEDS, "at_once": 2}
    tried = sweep(**rates)
    for _ in range(3):
        before = len(tried.history().starts)
        tried.begin()
        more = moments.randint(1, 3)
        tried.wait_for(lambda before=before, more=more: len(tried.history().starts) >= before + more, "runs")
        time.sleep(moments.uniform(0, 2))
        tried.kill()
    assert len(tried.history().ended) < 12, "it was over before it was killed three times"
    assert tried.end() == 0, tried.said.read_text()
    check_ledger(tried)
    for run in tried.runs():
        check_one_life(run)
    state = (tried.folder / STATE_FILE).read_bytes()
    assert tried.end() == 0
    assert (tried.folder / STATE_FILE).read_bytes() == state, "nothing is left to do"


def test_runs_that_are_killed_with_their_sweep_go_on_from_their_checkpoints(
    sweep: Callable[..., Sweep], environment: dict[str, str]
) -> None:
    vary = {"optimizer.learning_rate": RATES[:1]}
    own = {**TINY, "env.id": PACED.partition("=")[2]}
    tried = sweep(vary=vary, seeds=[1, 2], at_once=2, overrides=own)
    tried.begin()
    tried.wait_for(lambda: checkpoints_of(tried, 2), "checkpoints")
    tried.kill()
    for run in tried.runs():
        os.kill(run.meta["supervisor_pid"], signal.SIGKILL)
    Path(environment[PACED_VARIABLE]).unlink()
    assert tried.end() == 0, tried.said.read_text()
    check_ledger(tried, RATES[:1], [1, 2])
    for run in tried.runs():
        assert run.meta["resumed_at"] > 0 and len(run.meta["earlier"]) == 1
        assert run.summary()["steps_used"] >= STEPS
    assert [len(starts) for starts in tried.history().starts.values()] == [2, 2]


@pytest.mark.usefixtures("temporary")
def test_runs_over_nodes_that_are_killed_with_their_sweep_are_done_once(
    sweep: Callable[..., Sweep], environment: dict[str, str]
) -> None:
    own = {**TINY, "env.id": PACED.partition("=")[2], "nodes.listen": "127.0.0.1:0"}
    tried = sweep(vary={"optimizer.learning_rate": RATES[:1]}, seeds=[1, 2], at_once=2, overrides=own)
    assert tried.end() == 2
    assert "which a sweep starts only by an engine; name one with --engine" in tried.said.read_text()
    tried.begin("--engine", "local")
    tried.wait_for(lambda: checkpoints_of(tried, 2), "checkpoints")
    tried.kill()
    for run in tried.runs():
        os.kill(run.meta["supervisor_pid"], signal.SIGKILL)
    Path(environment[PACED_VARIABLE]).unlink()
    assert tried.end("--engine", "local") == 0, tried.said.read_text()
    check_ledger(tried, RATES[:1], [1, 2])
    for run in tried.runs():
        assert run.meta["resumed_at"] > 0 and len(run.meta["earlier"]) == 1
        joined = [event["node"] for event in lines(run.path / "events.jsonl") if event["kind"] == "joined"]
        assert joined == ["node-0", "node-0"], "one in each of its lives"


def deals(sweep: Sweep) -> list[set[tuple[int, int]]]:
    """Return the runs that each host had at once, by the state: a run leaves its host when it ends or starts again."""
    held: dict[str, set[tuple[int, int]]] = {}
    found = []
    for fact in lines(sweep.folder / STATE_FILE):
        if fact["kind"] in ("started", "ended"):
            run = fact["trial"], fact["seed"]
            for runs in held.values():
                runs.discard(run)
            for host in fact.get("hosts", []):
                held.setdefault(host, set()).add(run)
                found.append({*held[host]})
    return found


@pytest.mark.slow
@needs_sshd
@pytest.mark.usefixtures("temporary")
def test_a_sweep_over_hosts_survives_a_dead_host_and_kills_of_itself_and_a_head(
    sweep: Callable[..., Sweep], environment: dict[str, str], command: Command, tmp_path: Path
) -> None:
    """Hosts are network namespaces, each with an sshd but for the last."""
    assert command("keys", "new", "--node", "a", tmp_path / "keys").returncode == 0
    with namespaces("n1", "n2", "n3") as network:
        hosts = [f"10.77.0.{number}" for number in (1, 2, 3)]
        served = {host: network.enter(f"n{number}") for number, host in enumerate(hosts[:2], 1)}
        with sshd(tmp_path, served) as options:
            nodes = {"listen": f"{network.head}:0", "hosts": hosts, "command": command_there(environment)}
            nodes["lease_s"] = 300  # on a busy machine a node may be silent for long
            own = {**TINY, "env.id": PACED.partition("=")[2], "nodes": {**nodes, "options": options}}
            vary = {"optimizer.learning_rate": RATES[:2]}
            tried = sweep(vary=vary, seeds=[1, 2], overrides=own, by=network.enter(HEAD))
            words = ("--engine", "ssh", "--keys", str(tmp_path / "keys"))
            tried.begin(*words)
            tried.wait_for(lambda: checkpoints_of(tried, 2), "checkpoints of two runs")
            tried.kill()
            killed = next(run for run in tried.runs() if run.alive and run.checkpoints())
            os.kill(killed.meta["supervisor_pid"], signal.SIGKILL)
            Path(environment[PACED_VARIABLE]).unlink()
            assert tried.end(*words) == 0, tried.said.read_text()
        check_ledger(tried, RATES[:2], [1, 2])
        said = tried.said.read_text()
        assert f"{hosts[2]} will not be used for other runs until the sweep is started again" in said
        starts = [start for starts in tried.history().starts.values() for start in starts]
        assert {host for start in starts for host in start.hosts} == {*hosts}
        assert all(len(runs) == 1 for runs in deals(tried)), "one run at a time on each"
        assert [len(run.meta["earlier"]) for run in tried.runs() if run.name == killed.name] == [1]
        for host in hosts[:2]:
            accepted = (tmp_path / f"sshd-{host}.log").read_text().count("Accepted publickey")
            assert accepted == sum(start.hosts == (host,) for start in starts)


@pytest.mark.slow
@pytest.mark.usefixtures("temporary")
@pytest.mark.parametrize("inside", [True, False], ids=["an allocation", "the queue"])
def test_each_run_of_a_sweep_has_a_machine_of_slurm(
    inside: bool, cluster: Slurm, sweep: Callable[..., Sweep], command: Command, tmp_path: Path
) -> None:
    assert command("keys", "new", "--node", "a", tmp_path / "keys").returncode == 0
    tells = f'echo "$SLURMD_NODENAME" >> {tmp_path / "machines"}; exec "$0" "$@"'
    nodes = {
        "listen": "127.0.0.1:0",
        "lease_s": 300,
        "command": ["sh", "-c", tells, sys.executable, "-m", "actorlearn"],
    }
    tried = sweep(
        vary={"optimizer.learning_rate": RATES[:1]},
        seeds=[1, 2],
        overrides={**TINY, "nodes": {**nodes, **({"hosts": ["n3", "n2"]} if inside else {})}},
        at_once=None if inside else 2,
        by=["salloc", "--quiet", "--nodelist=n2,n3", "--no-kill"] if inside else [],
    )
    assert tried.end("--engine", "slurm", "--keys", str(tmp_path / "keys")) == 0, tried.said.read_text()
    check_ledger(tried, RATES[:1], [1, 2])
    for run in tried.runs():
        check_one_life(run)
    found = (tmp_path / "machines").read_text().split()
    assert sorted(found) == ["n2", "n3"] if inside else len(found) == len({*found}) == 2
    dealt = [start.hosts for starts in tried.history().starts.values() for start in starts]
    assert dealt == ([("n3",), ("n2",)] if inside else [(), ()])
    assert within(30, lambda: cluster.jobs() == "")


def test_ctrl_c_saves_and_ends_all_runs_and_the_next_sweep_continues_them(
    sweep: Callable[..., Sweep], command: Command, environment: dict[str, str]
) -> None:
    own = {**TINY, "env.id": PACED.partition("=")[2]}
    Path(environment[PACED_VARIABLE]).write_text("0.2")  # 80 s for what is done to it, however busy the machine is
    tried = sweep(vary={"optimizer.learning_rate": RATES[:1]}, seeds=[1, 2], at_once=1, overrides=own)
    tried.begin()
    tried.wait_for(lambda: any((run.metrics().last() or {}).get("env_steps") for run in tried.runs()), "update")
    refused = command("sweep", tried.file)
    assert (refused.returncode, "another `actorlearn sweep` uses this folder" in refused.stderr) == (2, True)
    tried.kill(signal.SIGINT)
    assert tried.end() == 130
    (first,) = tried.runs()
    assert (first.status, processes_of(tried.folder), tried.history().ended) == ("stopped", [], {})
    Path(environment[PACED_VARIABLE]).unlink()
    assert tried.end() == 0, tried.said.read_text()
    check_ledger(tried, RATES[:1], [1, 2])
    assert len(first.meta["earlier"]) == 0 and find.read(first.path).meta["resumed_at"] > 0  # type: ignore[union-attr]


def test_the_next_sweep_evaluates_final_weights_whose_evaluation_was_interrupted(sweep: Callable[..., Sweep]) -> None:
    own = {**TINY, "evaluator.count": 1, "evaluator.every_steps": None, "evaluator.episodes": 3000}
    tried = sweep(seeds=[1], overrides=own, goal={"metric": "eval_return_mean", "direction": "maximize"})

    def events() -> list[str]:
        return [event["kind"] for run in tried.runs() for event in lines(run.path / "events.jsonl")]

    tried.begin()
    tried.wait_for(lambda: "scoring" in events(), "evaluation of the final weights")
    tried.kill(signal.SIGINT)
    assert tried.end() == 130
    assert (tried.history().ended, events().count("evaluated")) == ({}, 0)
    assert tried.end() == 0, tried.said.read_text()
    (end,) = tried.history().ended.values()
    assert (end.status, end.score) == ("finished", tried.runs()[0].summary()["eval_return_mean"])
    assert STEPS < end.env_steps < STEPS + BATCH, "it has learned from no more steps"
    assert tried.runs()[0].topology()["total_steps"] == STEPS, "it is compared with the other runs of its trial"


def test_a_failed_run_is_reported_and_tried_again_only_if_asked(sweep: Callable[..., Sweep]) -> None:
    ids = ["tests.system.environments:DiesInStep", "actorlearn.envs.catch:Catch"]
    own = {**TINY, "supervision.restarts": 0}  # or slow restarts may let it come to its end
    tried = sweep(vary={"env.id": ids}, at_once=2, overrides=own)
    assert tried.end() == 1
    ends = {end.trial: end for end in tried.history().ended.values()}
    assert (ends[0].status, ends[1].status) == ("failed", "finished")
    assert "trainer" in ends[0].error or "simulator" in ends[0].error
    assert ends[0].error in tried.said.read_text()
    before = len(tried.history().starts[0, 1])
    assert tried.end() == 1, "a failed run is tried again only with --retry"
    assert len(tried.history().starts[0, 1]) == before
    again = tried.end("--retry")  # a simulator that dies in each third game may come to the end by and by
    assert again == (tried.history().ended[0, 1].status == "failed")
    assert len(tried.history().starts[0, 1]) >= 1 and tried.said.read_text().count("tiny-000-s1 continues from") >= 1


def test_a_trial_that_is_worse_than_the_others_is_dropped_with_all_its_seeds(sweep: Callable[..., Sweep]) -> None:
    """By the metric learning_rate: it falls to 0 along the first trial, and not along one that goes on for ever."""
    tried = sweep(
        overrides={key: value for key, value in TINY.items() if key != "total_steps"},
        vary={"total_steps": [STEPS, 100_000_000]},
        seeds=[1, 2],
        at_once=2,
        goal={"metric": "learning_rate", "direction": "minimize"},
        stopping={"name": "median", "after_trials": 1},
    )
    assert tried.end() == 0, tried.said.read_text()
    history = tried.history()
    assert [*history.dropped] == [1]
    assert {run: end.status for run, end in history.ended.items()} == {
        (0, 1): "finished",
        (0, 2): "finished",
        (1, 1): "dropped",
        (1, 2): "dropped",
    }
    assert processes_of(tried.folder) == []


def test_the_last_generation_is_scored_even_if_its_parents_learned_beyond_its_end(
    sweep: Callable[..., Sweep],
) -> None:
    tried = sweep(
        overrides={**TINY, "total_steps": STEPS + 1},
        vary={"optimizer.learning_rate": {"low": 1e-4, "high": 1e-2, "scale": "log"}},
        seeds=[1, 2],
        at_once=2,
        search={"name": "population", "every_steps": STEPS},
    )
    assert tried.end() == 0, tried.said.read_text()
    ends = tried.history().ended.values()
    assert len(ends) == 4 and all(end.score is not None for end in ends)
    assert all(run.summary()["status"] == "finished" for run in tried.runs())


def test_a_member_of_a_population_whose_values_do_not_fit_together_fails_alone(sweep: Callable[..., Sweep]) -> None:
    tried = sweep(
        overrides={**TINY, "algorithm.name": "ppo", "simulators.envs": 8},
        vary={"algorithm.horizon": [64, 1], "algorithm.minibatches": [4, 32]},
        seeds=[1, 2, 3, 4],
        search={"name": "population", "every_steps": STEPS // 2, "seed": 5},
    )
    assert tried.end() == 1, tried.said.read_text()
    ends = tried.history().ended.values()
    assert {end.status for end in ends} == {"finished", "failed"}
    assert all("algorithm.minibatches = 32" in end.error for end in ends if end.status == "failed")


def test_members_of_a_population_go_on_from_the_checkpoints_of_the_best(sweep: Callable[..., Sweep]) -> None:
    """By the metric learning_rate the member of the higher rate is the best, whatever is learned."""
    tried = sweep(
        overrides={**TINY, "total_steps": 2 * STEPS},
        vary={"optimizer.learning_rate": {"low": 1e-4, "high": 1e-2, "scale": "log"}},
        seeds=[1, 2],
        at_once=2,
        goal={"metric": "learning_rate"},
        search={"name": "population", "every_steps": STEPS},
    )
    tried.begin()
    tried.wait_for(lambda: len(tried.history().trials) > 2, "second generation")
    tried.kill()
    assert tried.end() == 0, tried.said.read_text()
    history = tried.history()
    assert len(history.trials) == len(history.ended) == 4
    rates = [trial.values["optimizer.learning_rate"] for trial in history.trials.values()]
    best = 0 if rates[0] > rates[1] else 1
    assert [history.trials[trial].parent for trial in (2, 3)] == [best, best]
    assert rates[2 + best] == rates[best]
    assert any(rates[3 - best] == pytest.approx(rates[best] * factor) for factor in (0.8, 1.2))
    runs = {run.name: run for run in tried.runs()}
    donor = runs[f"tiny-g000-s{best + 1}"]
    weights = donor.summary()["weights_sha256"]
    for seed in (1, 2):
        child = runs[f"tiny-g001-s{seed}"]
        begun = child.path / "checkpoints" / f"{donor.summary()['env_steps']:012}" / "manifest.json"
        assert json.loads(begun.read_text())["state"]["weights"] == weights
        assert child.meta["resumed_at"] == donor.summary()["env_steps"]
        assert 2 * STEPS <= child.summary()["env_steps"] < 2 * STEPS + BATCH
        assert topology(child)["seed"] == seed and topology(child)["total_steps"] == 2 * STEPS
        assert donor.summary()["env_steps"] < STEPS + BATCH
