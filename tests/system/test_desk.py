"""The desk in a browser: its pages show runs that live, lose processes, are changed and end.

The tests also take the pictures of docs/: with ACTORLEARN_PICTURES=docs they replace those there.
"""

from __future__ import annotations

import csv
import io
import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from numpy.typing import NDArray
from PIL import Image

from actorlearn.metrics.writer import EVENTS_FILE, METRICS_FILE
from launch.desk.watched import id_of
from launch.runs import find
from launch.runs.find import RunFolder
from tests.launch.desk.folders import AGAIN, DIED, SPAWNED, append, row, write_run
from tests.launch.runs.folders import me
from tests.sizes import ROOT
from tests.system.conftest import PACED, Start
from tests.system.launched import PATIENCE_S, Launched

PATIENCE_MS = 1000 * PATIENCE_S
PICTURES = os.environ.get("ACTORLEARN_PICTURES")
"""Folder into which pictures are written; if it is not set, they are thrown away."""

pytestmark = [pytest.mark.system, pytest.mark.timeout(600)]


class Served:
    """A desk, and its answers to requests that do not come from its page."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        assert process.stdout is not None
        self.address = process.stdout.readline().strip()
        self.root, _, self.token = self.address.partition("?")

    def status(self, path: str, method: str = "GET", **headers: str) -> int:
        request = urllib.request.Request(self.root + path, method=method, headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as refused:
            return refused.code

    def load_of(self, run: RunFolder, process: str) -> dict[str, list[float]]:
        address = f"{self.root}processes/{id_of(run)}/{process}?{self.token}"
        with urllib.request.urlopen(address, timeout=PATIENCE_S) as answer:
            return dict(json.load(answer)["load"])

    def measured(self, run: RunFolder, process: str, samples: int, within_s: float) -> dict[str, list[float]]:
        """Wait until the desk has so many samples of a process."""
        until_s = time.monotonic() + within_s
        while len((load := self.load_of(run, process))["seconds"]) < samples:
            assert time.monotonic() < until_s, f"{load} after {within_s} s"
            time.sleep(0.2)
        return load


@pytest.fixture
def serve(environment: dict[str, str], tmp_path: Path) -> Iterator[Any]:
    """Start desks of the test's folder of runs; they are ended with the test."""
    started: list[subprocess.Popen[str]] = []

    def start(*options: str) -> Served:
        command = [sys.executable, "-m", "launch", "desk", "--runs", str(tmp_path), "--port", "0", *options]
        started.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment, cwd=tmp_path))
        return Served(started[-1])

    yield start
    for process in started:
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE_S) == 0
        assert process.stdout is not None
        process.stdout.close()


class Watched:
    """A page, its errors and warnings, and the addresses that it has requested."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.complaints: list[str] = []
        self.asked: list[str] = []
        page.set_default_timeout(PATIENCE_MS)
        page.on("console", self._said)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("request", lambda request: self.asked.append(request.url))

    def _said(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(message.text)

    def sees(self, selector: str, text: str) -> None:
        self.page.locator(selector, has_text=text).first.wait_for()

    def turn_to(self, run: Launched) -> None:
        """Filter the list of runs to this one, and open it by keys."""
        self.sees("#runs a", run.run_dir.name)
        self.page.keyboard.press("/")
        self.page.keyboard.type(run.run_dir.name)
        self.page.locator("#runs li:nth-child(2)").wait_for(state="detached")
        self.page.keyboard.press("Tab")
        self.page.keyboard.press("Enter")
        self.sees("h2", run.run_dir.name)

    def picture(self, name: str, whole: bool = False) -> None:
        taken = self.page.screenshot(full_page=whole, animations="disabled")
        assert len(taken) > 10_000
        if PICTURES:
            Path(PICTURES, f"{name}.png").write_bytes(taken)


def living(launched: Start) -> Launched:
    run = launched("catch", PACED, "algorithm.horizon=5", "total_steps=1_000_000", "inference.count=1")
    run.wait_for(lambda: run.rows()[3:], "report")
    return run


def test_a_page_shows_deaths_of_a_run_and_saves_and_stops_it(launched: Start, serve: Any, browser: Any) -> None:
    run = living(launched)
    desk = serve("--allow-changes")
    seen = Watched(browser.new_page(viewport={"width": 1280, "height": 940}, color_scheme="light"))
    page = seen.page
    answer = page.goto(desk.address)
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    page.locator("#connection", has_text="live").wait_for()
    assert "token" not in page.url, "the address that is kept has no token"

    seen.turn_to(run)
    seen.sees("#part-graph svg .name", "simulator-1")
    page.locator("#curves canvas").first.wait_for()
    page.locator(".tile", has_text="mean score").first.wait_for()
    seen.sees("#part-stages", "simulation limit")
    seen.sees("#part-graph svg .box.running", "% busy")
    seen.sees("#part-graph svg .words", "lag")
    bytes_per_s = page.locator("#part-graph svg .words", has_text="B/s")
    bytes_per_s.nth(1).wait_for()
    assert bytes_per_s.count() == 2, "observations and weights"
    seen.picture("desk-run")

    os.kill(run.pids()["simulator-1"], signal.SIGKILL)
    seen.sees("#part-events .alarm", "simulator-1 died")
    seen.sees("#alarm", "simulator-1 died: signal 9")
    seen.sees("#part-events li", "simulator-1 restarted (incarnation 1)")
    seen.sees("#part-graph svg .box.running", "simulator-1")
    seen.sees("#part-graph svg .box", "1 restart")
    seen.picture("desk-death")

    page.get_by_role("button", name="save").click()
    seen.sees("#part-events li", "trainer saved")

    page.locator("#part-graph svg .box", has_text="trainer").click()
    seen.sees("#process pre", "trainer.0")
    page.locator("#process .trace canvas").nth(1).wait_for()
    page.get_by_label("Process", exact=True).last.select_option("simulator-1")
    seen.sees("#process pre", "simulator-1.1")
    page.keyboard.press("Escape")

    page.keyboard.press("t")
    page.locator("html[data-theme=dark]").wait_for()
    seen.picture("desk-dark", whole=True)
    page.set_viewport_size({"width": 390, "height": 844})
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "nothing is wider than a telephone"
    seen.picture("desk-narrow")

    page.on("dialog", lambda asked: asked.accept())
    page.get_by_role("button", name="stop").click()
    seen.sees("h2 .status", "stopped")
    assert run.end() == 0
    assert run.leftovers() == []
    assert seen.complaints == []
    assert [url for url in seen.asked if not url.startswith(desk.root)] == []


def test_buttons_ask_before_they_change_a_run_and_say_what_was_done(launched: Start, serve: Any, browser: Any) -> None:
    run = living(launched)
    seen = Watched(browser.new_page(viewport={"width": 1280, "height": 940}))
    page = seen.page
    page.goto(serve("--allow-changes").address)
    seen.turn_to(run)
    seen.sees("#part-graph svg .box.running", "simulator-1")
    seen.sees("#part-graph svg .box.running", "inference")
    asked: list[str] = []
    answers = [False, True, True]

    def answer_dialog(dialog: Any) -> None:
        asked.append(dialog.message)
        dialog.accept() if answers[len(asked) - 1] else dialog.dismiss()

    page.on("dialog", answer_dialog)
    attach = page.get_by_role("button", name="attach")
    count = page.get_by_label("Number of simulators to attach")
    count.fill("60")
    attach.click()
    assert "Attach 60 simulators to" in asked[-1] and "64 processes will share" in asked[-1], "4 run already"
    assert page.locator("#changes output").inner_text() == "", "the question was answered with no"
    count.fill("1")
    attach.click()
    seen.sees("#changes output", "simulator-2")
    seen.sees("#part-graph svg .name", "simulator-2")
    detach = page.get_by_role("button", name="detach")
    detach.click()
    seen.sees("#changes output", "choose the simulator to detach")
    page.get_by_label("Simulator to detach").select_option("simulator-0")
    detach.click()
    seen.sees("#changes output", "simulator-0")
    assert "Detach simulator-0 from" in asked[-1]
    page.locator("#part-graph svg .name", has_text="simulator-0").wait_for(state="detached")
    run.ctrl_c()
    assert run.end() == 130
    assert seen.complaints == []


def test_requests_without_a_token_are_refused_and_change_nothing(launched: Start, serve: Any, browser: Any) -> None:
    run = living(launched)
    desk = serve()
    token = desk.token
    origin = desk.root.rstrip("/")
    assert desk.status("") == 403
    assert desk.status("page/desk.js") == 403
    assert desk.status("stream?token=wrong") == 403
    assert desk.status(f"?{token}", Host="evil.example") == 403
    assert desk.status(f"?{token}") == 200
    assert desk.status(f"page/../server.py?{token}") == 404
    seen = Watched(browser.new_page())
    seen.page.goto(desk.address)
    seen.turn_to(run)
    seen.sees("#part-graph svg .name", "trainer")
    assert seen.page.locator("#changes button").count() == 0
    run_id = seen.page.url.partition("run=")[2]
    assert desk.status(f"runs/{run_id}/stop?{token}", "POST", Origin=origin) in (404, 405)

    changing = serve("--allow-changes")
    token = changing.token
    assert changing.status(f"runs/{run_id}/stop?{token}", "POST") == 403, "it does not come from the page"
    assert changing.status(f"runs/{run_id}/stop?{token}", "POST", Origin="http://evil.example") == 403
    assert changing.status(f"runs/{run_id}/stop", "POST", Origin=changing.root.rstrip("/")) == 403
    run.ctrl_c()
    assert run.end() == 130
    assert run.events("stopping")[-1]["cause"] == "interrupted"
    assert seen.complaints == []


def test_the_report_in_the_docs_has_three_seeds_of_two_modes_and_asks_for_nothing(browser: Any) -> None:
    seen = Watched(browser.new_page(viewport={"width": 1280, "height": 940}))
    page = seen.page
    page.goto((ROOT / "docs" / "results" / "catch-sync-gossip.html").as_uri())
    seen.sees("table", "interquartile mean")
    seen.sees("table", "gossip")
    assert page.locator("#rest tbody button").count() == 2
    assert page.locator("#runs a").count() == 6
    page.locator("#curves canvas").first.wait_for()
    seen.picture("report-of-two-modes")
    page.keyboard.press("j")
    seen.sees("#part-graph svg .name", "trainer-0")
    assert seen.complaints == []
    assert [url for url in seen.asked if not url.startswith(("file:", "data:"))] == []


def test_a_report_opens_from_a_file_and_asks_for_nothing(
    launched: Start, command: Any, browser: Any, tmp_path: Path
) -> None:
    for number, keys in enumerate((["seed=1"], ["seed=2"], ["seed=1", "algorithm.horizon=8"])):
        run = launched("catch", "total_steps=20_000", "name=catch", *keys, run_dir=tmp_path / f"catch-{number}")
        assert run.end() == 0, run.screen()
    folders = [tmp_path / f"catch-{number}" for number in range(3)]
    done = command("report", *folders, "-o", tmp_path / "report.html")
    assert done.returncode == 0, done.stderr
    seen = Watched(browser.new_page(viewport={"width": 1280, "height": 940}))
    page = seen.page
    page.goto((tmp_path / "report.html").as_uri())
    seen.sees("table", "interquartile mean")
    seen.sees("table", "algorithm.horizon")
    assert page.locator("#table tbody tr").count() == 2, "two groups: seeds are one"
    page.locator("summary", has_text="As a table").first.click()
    seen.sees("#curves table", "catch")
    seen.picture("report")
    page.keyboard.press("j")
    seen.sees("#part-about", "git checkout")
    seen.sees("#part-about", "actorlearn run")
    seen.sees("#part-graph svg .name", "trainer")
    parts = json.loads(page.locator("#parts").inner_text() or page.evaluate("document.getElementById('parts').text"))
    assert {name.partition("/")[0] for name in parts} == {"desk", "runs", "groups", "curve", "band", "run"}
    assert seen.complaints == []
    assert [url for url in seen.asked if not url.startswith(("file:", "data:"))] == []

    wrong = command("report", folders[0], "--y", "scored_mean", "-o", tmp_path / "no.html")
    assert wrong.returncode == 2 and "no run has this metric; did you mean " in wrong.stderr


def written(folder: Path, *events: dict[str, Any], **meta: Any) -> RunFolder:
    """Write a run with five reports; it counts as alive while this test runs."""
    return write_run(folder, [row(n) for n in range(5)], [*SPAWNED, *events], **me(), **meta)


def test_the_chosen_simulator_stays_chosen_while_others_are_attached(serve: Any, browser: Any, tmp_path: Path) -> None:
    """Detaching once hit another process than the one that was shown."""
    run = written(tmp_path / "watched")
    page = Watched(browser.new_page()).page
    page.goto(f"{serve('--allow-changes').address}#run={id_of(run)}")
    choice = page.get_by_label("Simulator to detach")
    choice.select_option("simulator-1")
    append(run, EVENTS_FILE, {**SPAWNED[1], "process": "simulator-2", "time_s": 11.0})
    append(run, METRICS_FILE, row(5))
    choice.locator("option", has_text="simulator-2").wait_for(state="attached")
    assert choice.input_value() == "simulator-1"
    append(run, EVENTS_FILE, {"kind": "detached", "process": "simulator-1", "time_s": 12.0})
    append(run, METRICS_FILE, row(6))
    choice.locator("option", has_text="simulator-1").wait_for(state="detached")
    assert choice.input_value() == "", "no other process takes its place"


def rename_environment(run: Path, name: str) -> None:
    topology = run / "topology.yaml"
    topology.write_text(topology.read_text().replace("CartPole-v1", name))


def test_runs_are_sorted_picked_filtered_and_drawn_by_environment_and_the_address_keeps_it(
    serve: Any, browser: Any, tmp_path: Path
) -> None:
    for name, horizon, seed in (("pole-a", 5, 1), ("pole-b", 5, 2), ("pole-c", 9, 1)):
        made = write_run(tmp_path / name, [row(n, loss=0.5) for n in range(9 + horizon)], seed=seed, horizon=horizon)
        rename_environment(made.path, "CartPole-v99")
    other = write_run(tmp_path / "cat", [row(n) for n in range(40)])
    rename_environment(other.path, "Catch-v99")
    seen = Watched(browser.new_page(viewport={"width": 1400, "height": 1000}))
    page = seen.page
    page.goto(f"{serve().address}#filter=-v99")  # without other runs of this machine
    titles = page.locator(".pair-title")
    page.locator("#table tbody tr").nth(2).wait_for()
    assert sorted(titles.all_inner_texts()) == ["CartPole-v99", "Catch-v99"]

    def first_cells() -> list[str]:
        return page.locator("#table tbody th").all_inner_texts()

    page.get_by_role("button", name="steps", exact=True).click()
    page.locator("#table [aria-sort=ascending]").wait_for()
    assert "made" in first_cells()[0] and "cat" in first_cells()[2]
    page.get_by_role("button", name="steps ▲").click()
    page.locator("#table [aria-sort=descending]").wait_for()
    assert "cat" in first_cells()[0]
    page.locator(".fold").click()
    seen.sees("#table .member a", "pole-b")

    page.get_by_label("Draw pole-a").check()
    page.locator(".pair").nth(1).wait_for(state="detached")
    page.locator("#more").fill("loss")
    page.keyboard.press("Enter")
    page.locator(".pair").nth(1).wait_for()
    assert titles.all_inner_texts() == ["mean score", "loss"]
    page.locator("#smooth").fill("0.9")
    page.locator("#log").select_option("y")
    page.locator("#filter").fill("cartpole")
    seen.picture("desk-table")
    page.reload()
    page.locator("#table tbody tr").nth(1).wait_for()
    assert page.locator("#filter").input_value() == "cartpole" and page.locator("#smooth").input_value() == "0.9"
    assert page.locator("#log").input_value() == "y" and page.locator("#table [aria-sort=descending]").count() == 1
    page.locator(".pair").nth(1).wait_for()

    page.locator("#filter").fill("nothing of that name")
    seen.sees("#runs", "No run matches the filter.")
    page.goto(page.url.partition("#")[0] + "#run=unknown")
    seen.sees("#head", "knows no run of this address")
    assert seen.complaints == []


def write_pongs(folder: Path) -> list[RunFolder]:
    """Two runs of one name in two folders, and another; the filter -v98 leaves only these."""
    runs = [
        write_run(folder / "monday" / "pong", [row(n, episode_return_mean=0.25 * n - 1) for n in range(9)]),
        write_run(folder / "tuesday" / "pong", [row(n, episode_return_mean=n / 3) for n in range(9)], horizon=9),
        write_run(folder / "other", [row(n, episode_return_mean=20.0 * n, loss=0.5) for n in range(90)], horizon=20),
    ]
    for run in runs:
        rename_environment(run.path, "CartPole-v98")
    return runs


def test_runs_of_one_name_are_told_apart_by_their_folders(
    serve: Any, browser: Any, command: Any, tmp_path: Path
) -> None:
    monday, *others = write_pongs(tmp_path)
    report = tmp_path / "report.html"
    assert command("report", *(run.path for run in (monday, *others)), "-o", report).returncode == 0
    for address in (serve().address, report.as_uri()):
        for name, width in (("desk-places", 1400), ("desk-places-narrow", 390)):
            seen = Watched(browser.new_page(viewport={"width": width, "height": 900}))
            page = seen.page
            page.goto(f"{address}#filter=-v98")
            for place in ("monday", "tuesday"):
                seen.sees("#table tbody th .place", place)
                seen.sees("#curves .said .place", place)
                page.locator("#runs .place", has_text=place).first.wait_for(state="attached")  # hidden if narrow
            assert page.locator("#table tbody tr", has_text="other").locator(".place").count() == 0
            places = page.locator("#table .place, .said .place")
            assert places.evaluate_all("places => places.every(place => place.scrollWidth <= place.clientWidth + 1)")
            seen.picture(name, whole=True)
            page.locator("#curves summary").first.click()
            seen.sees("#curves thead th", "pong · monday")
            page.goto(f"{page.url.partition('#')[0]}#run={id_of(monday)}")
            seen.sees("h2 .place", "monday")
            assert seen.complaints == []


def column(page: Any, heading: str) -> tuple[list[str], list[float]]:
    """Return the texts of a column of the table of runs, and their right edges."""
    at = page.locator("#table thead th").all_inner_texts().index(heading) + 1
    cells = page.locator(f"#table tbody tr > :nth-child({at})")
    ends = cells.evaluate_all(
        "cells => cells.map(cell => { const range = document.createRange(); range.selectNodeContents(cell);"
        " return range.getBoundingClientRect().right; })"
    )
    return cells.all_inner_texts(), ends


def test_numbers_of_a_column_have_one_precision_and_one_right_edge(serve: Any, browser: Any, tmp_path: Path) -> None:
    for number, (score, rate) in enumerate(((20.123456, "0.00028374198234712"), (-3.0, "0.01"), (1 / 3, "0.0005"))):
        run = write_run(tmp_path / f"run-{number}", [row(12_345 * (number + 1), episode_return_mean=score)])
        topology = run.path / "topology.yaml"
        topology.write_text(f"{topology.read_text()}optimizer: {{learning_rate: {rate}}}\n")
        rename_environment(run.path, "CartPole-v97")
    seen = Watched(browser.new_page(viewport={"width": 1400, "height": 900}))
    page = seen.page
    names = ("score", "steps", "minutes", "key%3Aoptimizer.learning_rate")
    page.goto(f"{serve().address}#filter=-v97&sort=steps&{'&'.join(f'column={name}' for name in names)}")
    page.locator("#table tbody tr").nth(2).wait_for()
    texts = {
        "score": ["20.12", "-3.00", "0.33"],
        "steps ▲": ["1,234,500", "2,469,000", "3,703,500"],
        "minutes": ["412", "823", "1,235"],
        "optimizer.learning_rate": ["0.00028", "0.01000", "0.00050"],
    }
    for heading, expected in texts.items():
        shown, ends = column(page, heading)
        assert shown == expected
        assert max(ends) - min(ends) < 1, heading
    numeric = page.locator("#table td.number").first.evaluate("cell => getComputedStyle(cell).fontVariantNumeric")
    assert numeric == "tabular-nums"
    digits = page.locator("body").inner_text()
    assert "00028374198234712" not in digits and "0.333333" not in digits
    page.locator("#curves summary").first.click()
    page.locator("#curves table td").first.wait_for()  # the table is filled after it was opened
    cells = page.locator("#curves table td").all_inner_texts()
    assert {len(cell.rpartition(".")[2]) for cell in cells if cell != "–"} == {2}, "one picture has one precision"
    seen.picture("desk-digits")
    assert seen.complaints == []


def test_the_columns_of_the_table_are_chosen_and_the_address_keeps_them(
    serve: Any, browser: Any, command: Any, tmp_path: Path
) -> None:
    runs = write_pongs(tmp_path)
    report = tmp_path / "report.html"
    assert command("report", *(run.path for run in runs), "-o", report).returncode == 0
    for address in (serve().address, report.as_uri()):
        seen = Watched(browser.new_page(viewport={"width": 1400, "height": 1000}))
        page = seen.page
        page.goto(f"{address}#filter=-v98")
        page.locator("#table tbody tr").nth(2).wait_for()

        def headings(page: Any = page) -> list[str]:
            found: list[str] = page.locator("#table thead th").all_inner_texts()
            return found

        first = headings()
        assert first[:3] == ["group or run", "score", "best"] and "loss" not in first
        assert "95 % interval" not in first and "mode" not in first, "columns without a value are left out"
        page.locator("#tools summary", has_text="Columns").click()
        for name in ("best", "minutes", "environment", "algorithm", "started"):
            if name in first:
                page.locator("#tools").get_by_label(name, exact=True).uncheck()
        page.locator("#tools").get_by_label("mode", exact=True).check()
        page.locator("#tools").get_by_label("algorithm.horizon", exact=True).check()
        page.locator("#tools").get_by_label("loss", exact=True).check()
        seen.sees("#table td", "0.5")
        chosen = ["group or run", "score", "steps", "steps/s", "state", "mode", "seeds", "algorithm.horizon", "loss"]
        assert headings() == chosen
        seen.picture("desk-columns")
        page.get_by_role("button", name="loss", exact=True).click()
        page.locator("#table [aria-sort=ascending]").wait_for()
        assert "other" in page.locator("#table tbody th").first.inner_text(), "what is missing comes last"
        page.reload()
        seen.sees("#table td", "0.5")
        assert headings() == [*chosen[:-1], "loss ▲"]
        page.set_viewport_size({"width": 390, "height": 844})
        page.locator("#tools summary", has_text="Columns").click()
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        seen.picture("desk-columns-narrow", whole=True)
        page.get_by_role("button", name="default columns").click()
        page.locator("#table thead th", has_text="best").wait_for()
        assert headings() == first
        assert seen.complaints == []


def saved(page: Any, link: str) -> list[list[str]]:
    """The rows of the CSV file that a link saves."""
    with page.expect_download() as caught:
        page.get_by_role("link", name=link).click()
    data = Path(caught.value.path()).read_bytes()
    assert not data.startswith(b"\xef\xbb\xbf") and data.endswith(b"\r\n")
    return list(csv.reader(data.decode().splitlines(), strict=True))


def test_the_table_and_the_curves_are_saved_as_csv(serve: Any, browser: Any, command: Any, tmp_path: Path) -> None:
    scores = {"=cmd|'x'!A1": -20.123456, '+a "quoted", name': 0.25, "plain;=1+1": 7.0, "left out": 1.0}
    runs = []
    for number, (name, score) in enumerate(scores.items()):
        rows = [row(n, episode_return_mean=score, **{"=loss": 0.125}) for n in range(3)]
        runs.append(write_run(tmp_path / name, rows, horizon=number + 1))
        rename_environment(runs[-1].path, "Ködel-v96" if number < 3 else "Left-out-v96")
    report = tmp_path / "report.html"
    assert command("report", *(run.path for run in runs), "-o", report).returncode == 0
    choice = "&".join(f"column={name}" for name in ("score", "env", "key%3Aalgorithm.horizon", "metric%3A%3Dloss"))
    for address in (serve().address, report.as_uri()):
        seen = Watched(browser.new_page(viewport={"width": 1400, "height": 900}, accept_downloads=True))
        page = seen.page
        page.goto(f"{address}#filter=ködel&sort=-score&metric=%3Dloss&metric=episode_return_mean&{choice}")
        page.locator("#table tbody tr").nth(2).wait_for()
        seen.sees("#table td", "0.125")
        assert saved(page, "table as CSV") == [
            ["group or run", "score", "environment", "algorithm.horizon", "'=loss"],
            ["plain;'=1+1", "7", "Ködel-v96", "3", "0.125"],
            ['\'+a "quoted", name', "0.25", "Ködel-v96", "2", "0.125"],
            ["'=cmd|'x'!A1", "-20.1235", "Ködel-v96", "1", "0.125"],
        ]
        if address.startswith("file:"):
            continue  # a report has the curves of one metric
        head, *points = saved(page, "curves as CSV")
        assert head[:5] == ["environment", "metric", "curve", "smoothed", "axis"]
        assert head[5:] == ["at", "value", "interval from", "interval to"]
        assert {len(point) for point in points} == {len(head)}
        assert len(points) == 2 * 2 * 3 * 3, "of two metrics, on two axes, of three runs, three points"
        assert ["Ködel-v96", "episode_return_mean", "'=cmd|'x'!A1", "0", "steps", "200", "-20.1235", "", ""] in points
        assert ["Ködel-v96", "'=loss", "plain;'=1+1", "0", "minutes", "0", "0.125", "", ""] in points
        page.goto(f"{page.url.partition('#')[0]}#run={id_of(runs[0])}")
        seen.sees("h2", "cmd")
        assert len(saved(page, "curves as CSV")) == 1 + 2 * 3
        assert seen.complaints == []


def brightest(page: Any, box: Any, at: str) -> int:
    """The brightest pixel of a strip at the edge of a box: white where nothing is hidden behind the edge."""
    x = box["x"] + 2 if at == "left" else box["x"] + box["width"] - 5
    clip = {"x": x, "y": box["y"], "width": 3, "height": box["height"]}
    return int(np.asarray(Image.open(io.BytesIO(page.screenshot(clip=clip))).convert("L")).max())


def test_tables_and_pictures_wider_than_the_screen_are_shaded_at_its_edge(
    serve: Any, browser: Any, tmp_path: Path
) -> None:
    """Scroll bars of telephones are hidden until one scrolls."""
    run = written(tmp_path / "watched", DIED)
    write_run(tmp_path / "ended", [row(n) for n in range(3)], horizon=9)
    page = Watched(browser.new_page(viewport={"width": 390, "height": 844}, color_scheme="light")).page
    desk = serve()
    for hash, selector, rows in (
        ("#filter=-v", "#table .wide", "#table tbody tr"),
        (f"#run={id_of(run)}", "#part-graph .wide", "#part-graph svg"),
        (f"#run={id_of(run)}", "#part-processes .wide", "#part-processes tbody tr"),
    ):
        page.goto(f"{desk.address}{hash}")
        wide = page.locator(selector).first
        page.locator(rows).first.wait_for()
        wide.scroll_into_view_if_needed()
        assert wide.evaluate("wide => wide.scrollWidth > wide.clientWidth"), selector
        place, line = wide.bounding_box(), page.locator(rows).first.bounding_box()
        box = {**place, "y": line["y"], "height": min(line["height"], 200)}
        assert 150 < brightest(page, box, "right") < 235, f"{selector} goes on"
        for head in wide.locator("thead tr").all():
            place_of_head = head.bounding_box()
            assert brightest(page, {**place_of_head, "x": place["x"], "width": place["width"]}, "right") < 235
            caption = wide.locator("caption").bounding_box()
            assert caption["x"] + caption["width"] < place["x"] + place["width"] - 20, "the shade is beside it"
        wide.evaluate("wide => wide.scrollBy(10_000, 0)")
        assert brightest(page, box, "right") > 250, f"{selector} ends"
        if "graph" in selector:  # the first column of a table stays in its place
            assert brightest(page, box, "left") < 235
            wide.evaluate("wide => wide.scrollTo(0, 0)")
            assert brightest(page, box, "left") > 250
    page.goto(f"{desk.address}#filter=-v")
    page.locator("#table tbody tr").first.wait_for()
    if PICTURES:
        Path(PICTURES, "desk-scroll-narrow.png").write_bytes(page.screenshot())


@pytest.mark.smoke
def test_an_open_and_focused_table_stays_so_while_reports_come(serve: Any, browser: Any, tmp_path: Path) -> None:
    run = written(tmp_path / "watched")
    seen = Watched(browser.new_page())
    page = seen.page
    page.goto(f"{serve().address}#run={id_of(run)}")
    seen.sees("#part-graph svg .name", "trainer")
    for number, place in enumerate(("#curves figure", "#part-graph")):
        summary = page.locator(f"{place} summary").first
        summary.focus()
        page.keyboard.press("Enter")
        page.locator(f"{place} table").first.wait_for()
        append(run, METRICS_FILE, row(5 + number, env_steps_per_s=60.0 + number))
        append(run, EVENTS_FILE, {**DIED, "time_s": 10.0 + number})
        seen.sees(
            f"{place} table", f"{500 + 100 * number} steps" if place == "#curves figure" else f"{60 + number} steps/s"
        )
        assert page.evaluate("document.activeElement.tagName") == "SUMMARY"
        assert summary.evaluate("summary => summary === document.activeElement && summary.parentElement.open")
    assert seen.complaints == []


def test_rows_that_a_report_changes_are_patched_and_not_replaced(serve: Any, browser: Any, tmp_path: Path) -> None:
    """Hover, selection and focus were once lost with every report."""
    run = written(tmp_path / "watched", DIED)
    write_run(tmp_path / "ended", [row(n) for n in range(3)], horizon=9)
    seen = Watched(browser.new_page(viewport={"width": 1280, "height": 940}))
    page = seen.page
    desk = serve()
    number = 7001  # a score that no cell contains before
    for hash, selector, text, changed in (
        ("#filter=-v", "#table tbody tr", "watched", "#table td"),
        ("#filter=-v", "#runs li", "watched", "#runs .line"),
        (f"#run={id_of(run)}", "#part-events li", "simulator-1 died", "#part-events li"),
        (f"#run={id_of(run)}", "#part-graph .box", "trainer", "#part-events li"),
    ):
        page.goto(f"{desk.address}{hash}")
        line = page.locator(selector, has_text=text).first
        line.hover()
        line.evaluate("line => { window.line = line; }")
        line.evaluate("line => getSelection().selectAllChildren(line.querySelector('b, time, .name, th a'))")
        selected = page.evaluate("String(getSelection())")
        assert selected
        line.evaluate("line => (line.querySelector('a, [tabindex]') ?? line).focus({preventScroll: true})")
        focused = page.evaluate("document.activeElement.nodeName")
        append(run, METRICS_FILE, row(number, episode_return_mean=number))
        append(run, EVENTS_FILE, {"kind": "warned", "cause": f"slow {number}", "time_s": 30.0})
        seen.sees(changed, f"slow {number}" if "events" in changed else f"{number:,}")
        assert line.evaluate("line => line === window.line"), selector
        if "events" not in selector:  # a new event moves the others down
            assert line.evaluate("line => line.matches(':hover')"), selector
        assert page.evaluate("String(getSelection())") == selected, selector
        assert page.evaluate("document.activeElement.nodeName") == focused, selector
        number += 1
    assert seen.complaints == []


def test_the_table_of_processes_sorts_and_runs_show_their_start(serve: Any, browser: Any, tmp_path: Path) -> None:
    again = {**SPAWNED[2], "incarnation": 1, "time_s": 22.0}
    run = written(tmp_path / "watched", DIED, again, started="2026-01-02T12:00:00+00:00")
    seen = Watched(browser.new_context(timezone_id="UTC", viewport={"width": 1280, "height": 940}).new_page())
    page = seen.page
    page.goto(f"{serve().address}#filter=watched")
    seen.sees("#table td", "2026-01-02 12:00")
    page.goto(f"{page.url.partition('#')[0]}#run={id_of(run)}")
    seen.sees("#head", "started 2026-01-02 12:00")
    names = page.locator("#part-processes tbody th")
    names.nth(2).wait_for()
    for words, first in (("process", "simulator-0"), ("process ▲", "trainer"), ("last death", "simulator-1")):
        page.locator("#part-processes thead button", has_text=words).click()
        names.first.filter(has_text=first).wait_for()
    page.locator("#part-processes thead button", has_text="last death ▲").click()
    page.locator("#part-processes [aria-sort=descending]").wait_for()
    assert names.first.inner_text() == "simulator-1", "what is missing comes last in either order"
    page.reload()
    page.locator("#part-processes [aria-sort=descending]").wait_for()
    page.locator("#part-processes th button", has_text="trainer").click()
    page.locator("#process[open]").wait_for()
    page.keyboard.press("Escape")
    assert page.evaluate("document.activeElement.textContent") == "trainer"
    assert all("404" in text for text in seen.complaints), "these processes have no log"


def test_a_picture_names_its_curves_and_counts_the_points_that_its_axes_cannot_show(
    serve: Any, browser: Any, tmp_path: Path
) -> None:
    """All points of a run may be below 0; the picture was once empty and did not say why."""
    run = write_run(tmp_path / "watched", [row(n, episode_return_mean=n - 6.0) for n in range(10)])
    seen = Watched(browser.new_page(viewport={"width": 1280, "height": 940}))
    page = seen.page
    page.goto(f"{serve().address}#run={id_of(run)}")
    seen.sees("#curves .said", "last3watched")
    assert page.locator("#curves .lost").first.inner_text() == ""
    for axes, text in (("y", "7 of 10 points are not above 0"), ("xy", "7 of 10"), ("x", "1 of 10")):
        page.locator("#log").select_option(axes)
        seen.sees("#curves .lost", text)
    page.locator("#smooth").fill("0.5")
    seen.sees("#curves .said", "last, smoothed")
    assert seen.complaints == []


def test_a_narrow_page_shows_the_run_before_the_list(serve: Any, browser: Any, tmp_path: Path) -> None:
    """On a telephone the list of runs, the topology and the histograms once stood before the events."""
    run = written(tmp_path / "watched", DIED)
    write_run(tmp_path / "ended", [row(n) for n in range(3)], horizon=9)
    seen = Watched(browser.new_page(viewport={"width": 390, "height": 844}))
    page = seen.page
    page.goto(f"{serve().address}#run={id_of(run)}")
    order = ["#head", "#figures", "#curves", "#part-events", "#part-processes", "#part-graph", "#runs"]
    seen.sees("#part-graph svg .box", "trainer")
    boxes = [page.locator(selector).bounding_box() for selector in order]
    tops = [box["y"] for box in boxes if box]
    assert len(tops) == len(order) and tops == sorted(tops)
    page.get_by_role("link", name="all runs").click()
    seen.sees("#table th", "watched")
    page.locator("#runs").wait_for(state="hidden")
    assert seen.complaints == []


def test_a_link_at_the_top_of_a_narrow_page_goes_to_the_list_of_runs(serve: Any, browser: Any, tmp_path: Path) -> None:
    """Users once had to scroll over the whole page of a run to open another."""
    run = written(tmp_path / "watched", DIED)
    write_run(tmp_path / "ended", [row(n) for n in range(3)], horizon=9)
    seen = Watched(browser.new_page(viewport={"width": 390, "height": 844}))
    page = seen.page
    page.goto(f"{serve().address}#run={id_of(run)}")
    seen.sees("#part-graph svg .box", "trainer")
    link = page.get_by_role("link", name="list of runs")
    assert link.bounding_box()["y"] < 100
    link.focus()
    page.keyboard.press("Enter")
    other = page.locator("#runs a", has_text="ended")
    page.wait_for_function("scrollY > 844")
    assert 0 < other.bounding_box()["y"] < 844, "the list is in view"
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.id") == "filter", "the keyboard goes on from the list"
    other.click()
    seen.sees("h2", "ended")
    page.wait_for_function("scrollY === 0")
    page.get_by_role("link", name="all runs").click()
    link.wait_for(state="hidden")
    page.goto(f"{page.url.partition('#')[0]}#run={id_of(run)}")
    link.wait_for()
    page.set_viewport_size({"width": 1400, "height": 900})
    link.wait_for(state="hidden")
    assert seen.complaints == []


@pytest.mark.smoke
def test_names_are_shown_as_text_and_may_be_long(serve: Any, browser: Any, command: Any, tmp_path: Path) -> None:
    markup = "<img src=x onerror=alert(1)>"
    run = written(tmp_path / (markup + "x" * 200), {"kind": "warned", "cause": f"</script>{markup}" * 40})
    topology = run.path / "topology.yaml"
    topology.write_text(topology.read_text().replace("made", f"'{markup * 9}'").replace("CartPole-v1", "Y" * 300))
    append(run, METRICS_FILE, row(5, **{markup * 9: 1.0}))
    report = tmp_path / "report.html"
    assert command("report", run.path, "-o", report).returncode == 0
    for address in (serve().address, report.as_uri()):
        seen = Watched(browser.new_page(viewport={"width": 390, "height": 844}))
        seen.page.goto(f"{address}#run={id_of(run)}")
        seen.sees("h2", "onerror")
        for hash in (f"#run={id_of(run)}", "#"):
            seen.page.goto(f"{address.partition('?')[0]}{hash}")
            seen.sees("#curves figure", "As a table")
            assert seen.page.locator("img").count() == 0
            assert seen.page.evaluate("document.documentElement.scrollWidth <= innerWidth"), hash
        assert seen.complaints == []


def test_hidden_pages_give_up_their_connections(serve: Any, browser: Any, tmp_path: Path) -> None:
    """A browser has six connections to a host, and each page that is live keeps one."""
    run = written(tmp_path / "watched")
    desk = serve()
    context = browser.new_context()
    # This browser never hides pages, so a script tells them that they are hidden.
    context.add_init_script(
        "let is_hidden = false; Object.defineProperty(document, 'hidden', {get: () => is_hidden});"
        "window.hide = (now) => { is_hidden = now; document.dispatchEvent(new Event('visibilitychange')); };"
    )
    pages = []
    for _ in range(8):
        page = context.new_page()
        page.set_default_timeout(PATIENCE_MS)
        page.goto(desk.address)
        page.locator("#connection", has_text="live").wait_for()
        page.evaluate("hide(true)")
        pages.append(page)
    pages[0].evaluate("hide(false)")
    append(run, METRICS_FILE, row(5))
    pages[0].locator("table", has_text="0.5").wait_for()
    context.close()


def test_a_page_of_an_ended_desk_is_refused_by_the_next_and_says_so(serve: Any, browser: Any, tmp_path: Path) -> None:
    written(tmp_path / "watched")
    first = serve()
    page = Watched(browser.new_page()).page
    page.goto(first.address)
    page.locator("#connection", has_text="live").wait_for()
    first.process.send_signal(signal.SIGINT)
    first.process.wait(PATIENCE_S)
    page.locator("#connection", has_text="trying again").wait_for()
    serve("--port", first.root.rpartition(":")[2].rstrip("/"))
    page.locator("#connection", has_text="refused: open the address").wait_for()


def test_forty_groups_look_different(serve: Any, browser: Any, tmp_path: Path) -> None:
    """There were once 28 looks; the 29th group looked as the first."""
    for number in range(40):
        write_run(tmp_path / f"watched-{number}", [row(1)], horizon=number + 1)
    page = Watched(browser.new_page()).page
    page.goto(f"{serve().address}#filter=watched")
    page.locator("#runs .swatch").nth(39).wait_for()
    looks = page.locator("#runs .swatch line").evaluate_all(
        "lines => lines.map(line => line.style.stroke + line.getAttribute('stroke-dasharray'))"
    )
    assert len(looks) == len(set(looks)) == 40


def test_curves_are_smoothed_along_the_axis_and_not_by_their_points(serve: Any, browser: Any, tmp_path: Path) -> None:
    """The mean of a group has 100 points and its seeds fewer: smoothed, it was far outside of its seeds."""
    for seed, every in ((1, 1), (2, 4), (3, 10)):
        write_run(tmp_path / f"watched-{seed}", [row(n) for n in range(0, 121, every)], seed=seed)
    page = Watched(browser.new_page(accept_downloads=True)).page
    page.goto(f"{serve().address}#filter=made&smooth=0.9")
    page.locator("#curves .said", has_text="last, smoothed").first.wait_for()
    page.locator("#curves .said .value").nth(7).wait_for()
    for axis in ("steps", "minutes"):
        points = [point for point in saved(page, "curves as CSV")[1:] if point[4] == axis]
        last = {point[2]: float(point[6]) for point in points}
        assert len(last) == 4 and 10 < min(last.values()) < 11.5
        assert max(last.values()) < 1.001 * min(last.values()), "four curves on one straight line"


def test_a_longer_run_does_not_change_how_others_are_smoothed(serve: Any, browser: Any, tmp_path: Path) -> None:
    """All curves of a picture were once averaged over a hundredth of the longest."""
    write_run(tmp_path / "watched-short", [row(n, episode_return_mean=float(n % 7)) for n in range(50)])
    page = Watched(browser.new_page(accept_downloads=True)).page
    page.goto(f"{serve().address}#filter=watched-&smooth=0.9")
    page.locator("#curves .said", has_text="last, smoothed").first.wait_for()

    def of_short() -> list[list[str]]:
        return [point for point in saved(page, "curves as CSV")[1:] if point[2] == "watched-short"]

    alone = of_short()
    assert len(alone) == 100 and alone[20][6] != str(20 % 7)
    write_run(tmp_path / "watched-long", [row(n) for n in range(500)], horizon=9)
    page.locator("#curves .said", has_text="watched-long").first.wait_for()
    assert of_short() == alone


def drawn(page: Any, picture: int = 0) -> NDArray[np.bool_]:
    """Where a picture has the colour of the first curve, [height, width]."""
    # In one step, because each report replaces the swatches, and one that is gone has no colour.
    colour = page.evaluate("getComputedStyle(document.querySelector('#curves .swatch line')).stroke")
    wanted = [int(number) for number in re.findall(r"\d+", colour)]
    taken = Image.open(io.BytesIO(page.locator("#curves .u-over").nth(picture).screenshot())).convert("RGB")
    return abs(np.asarray(taken).astype(int) - wanted).max(axis=2) < 40  # type: ignore[no-any-return]


def test_a_logarithmic_axis_spans_the_curves_and_not_whole_decades(serve: Any, browser: Any, tmp_path: Path) -> None:
    run = write_run(tmp_path / "watched", [row(n, episode_return_mean=12.0 + n) for n in range(37)])
    page = Watched(browser.new_page(color_scheme="light")).page
    page.goto(f"{serve().address}#run={id_of(run)}&log=y")
    page.locator("#curves .u-over").first.wait_for()
    taken = drawn(page)
    rows = np.flatnonzero(taken.any(axis=1))
    assert rows[-1] - rows[0] > 0.8 * len(taken), "from 12 to 48"
    page.locator("#log").select_option("xy")
    page.locator("#curves .lost", has_text="1 of 37").first.wait_for()
    taken = drawn(page, 1)
    columns = np.flatnonzero(taken.any(axis=0))
    assert columns[-1] - columns[0] > 0.95 * taken.shape[1], "from 0.03 to 1.2 minutes"


def test_a_logarithmic_axis_has_no_line_across_what_it_cannot_show(serve: Any, browser: Any, tmp_path: Path) -> None:
    rows = [row(n, episode_return_mean=-9.0 if 10 <= n < 30 else 5.0 + n) for n in range(40)]
    run = write_run(tmp_path / "watched", rows)
    page = Watched(browser.new_page(color_scheme="light")).page
    page.goto(f"{serve().address}#run={id_of(run)}&log=y")
    page.locator("#curves .lost", has_text="20 of 40").first.wait_for()
    columns = drawn(page).any(axis=0)
    third = len(columns) // 3
    assert columns[:third].any() and not columns[third : 2 * third].any() and columns[2 * third :].any()


def test_a_rate_of_all_simulators_stands_beside_all_their_names(serve: Any, browser: Any, tmp_path: Path) -> None:
    """The rate of a learner once stood beside its first simulator."""
    names = ("trainer", "simulator-0", "simulator-1")
    run = written(tmp_path / "watched", *({**SPAWNED[0], "process": name} for name in names))
    append(run, METRICS_FILE, row(5, env_steps_per_s=100.0))
    page = Watched(browser.new_page()).page
    page.goto(f"{serve().address}#run={id_of(run)}")
    page.get_by_text("Data between processes").click()
    page.locator("tr", has_text="experience").filter(has_text="simulator-0, simulator-1").wait_for()


def test_a_curve_that_began_as_one_point_has_no_dots_later(serve: Any, browser: Any, tmp_path: Path) -> None:
    """A run that was watched from its first report had a dot for each report."""
    run = write_run(tmp_path / "watched", [row(0)], **me())
    page = Watched(browser.new_page()).page
    page.goto(f"{serve().address}#run={id_of(run)}")
    plot = page.locator("#curves .plot").first
    plot.locator("canvas").wait_for()
    append(run, METRICS_FILE, *(row(n) for n in range(1, 9)))
    page.locator("#curves .said", has_text="0.8").first.wait_for()
    grown = plot.screenshot()
    page.reload()
    page.locator("#curves .said", has_text="0.8").first.wait_for()
    assert plot.screenshot() == grown


def test_the_last_number_of_a_curve_that_ends_early_says_where_it_ends(
    serve: Any, browser: Any, tmp_path: Path
) -> None:
    """The mean of a group ends with its shortest seed; its last number stood beside later ones of the seeds."""
    for seed, count in ((1, 11), (2, 21)):
        write_run(tmp_path / f"watched-{seed}", [row(n) for n in range(count)], seed=seed)
    page = Watched(browser.new_page()).page
    page.goto(f"{serve().address}#filter=made")
    values = page.locator("#curves figure").first.locator(".value")
    values.nth(2).wait_for()
    assert sorted(values.all_inner_texts(), key=len) == [
        "2\nwatched-2",
        "1\nat 1K steps\nmade",
        "1\nat 1K steps\nwatched-1",
    ]
    second = page.locator("#curves figure").nth(1).locator(".value")
    assert sum("at 0.3333 min" in text for text in second.all_inner_texts()) == 2


def with_log(run: RunFolder) -> RunFolder:
    """The same run with a log of its trainer."""
    (run.path / "logs").mkdir()
    (run.path / "logs" / "trainer.log").write_text("ready\n")
    return run


TRAINER_HERE = {**SPAWNED[0], "pid": os.getpid(), "time_s": 1.0}
"""A trainer that is this process, so that it can be measured."""


def test_the_desk_records_the_load_of_processes_before_their_run_is_opened(
    serve: Any, browser: Any, tmp_path: Path
) -> None:
    """It was recorded only while a page of the run was open: nobody knew the memory before a process was killed."""
    run = with_log(written(tmp_path / "watched", TRAINER_HERE))
    desk = serve()
    desk.measured(run, "trainer", samples=3, within_s=PATIENCE_S)
    opened_s = time.time()
    seen = Watched(browser.new_page())
    page = seen.page
    page.goto(f"{desk.address}#run={id_of(run)}")
    with page.expect_response(re.compile("/processes/")) as answered:
        page.locator("#part-processes th button", has_text="trainer").click()
    load = answered.value.json()["load"]
    assert [at for at in load["seconds"] if at < opened_s][2:]
    assert min(load["bytes"]) > 1_000_000 and None not in load["cores"]
    page.locator("#process .trace canvas").nth(1).wait_for()
    assert seen.complaints == []


def test_processes_are_measured_while_the_best_scores_of_long_runs_are_read(serve: Any, tmp_path: Path) -> None:
    """The time to read them once counted as time of measuring, which then paused each time."""
    for number in range(6):
        long = write_run(tmp_path / f"long-{number}", [], seed=number)
        (long.path / METRICS_FILE).write_text(200_000 * f"{json.dumps(row(1))}\n")
    run = with_log(written(tmp_path / "watched", TRAINER_HERE))
    serve().measured(run, "trainer", samples=3, within_s=20.0)


@contextmanager
def started(*command: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process that is killed when it is no longer needed."""
    with subprocess.Popen(command) as process:
        try:
            yield process
        finally:
            process.kill()


def test_the_page_of_a_living_run_shows_the_load_of_the_whole_machine(serve: Any, browser: Any, tmp_path: Path) -> None:
    """The page once showed only the processes of the run, and not that others used the processors."""
    with started("sleep", "600") as supervisor:
        about = {"supervisor_pid": supervisor.pid, "supervisor_started": find.start_time(supervisor.pid)}
        run = write_run(tmp_path / "watched", [row(n) for n in range(5)], [TRAINER_HERE], **about)
        seen = Watched(browser.new_page(viewport={"width": 1400, "height": 900}, color_scheme="light"))
        page = seen.page
        section = page.locator("#part-machine")
        with started(sys.executable, "-c", "while True: pass"):
            page.goto(f"{serve().address}#run={id_of(run)}")
            section.locator(".trace canvas").nth(1).wait_for()
            said = section.locator("p").first.inner_text()
        found = re.search(r"([\d.]+) of (\d+) cores and ([\d.]+) of ([\d.]+) GiB", said)
        assert found, said
        cores, all_cores, gib, all_gib = map(float, found.groups())
        assert 0.8 <= cores <= all_cores == psutil.cpu_count()
        assert 0.1 <= gib <= all_gib == pytest.approx(psutil.virtual_memory().total / 2**30, abs=0.06)
        light = section.locator("canvas").first.screenshot()
        page.keyboard.press("t")
        page.locator("html[data-theme=dark]").wait_for()
        assert section.locator("canvas").first.screenshot() != light
        seen.picture("desk-machine")
        page.set_viewport_size({"width": 390, "height": 844})
        page.wait_for_function("document.querySelector('#part-machine .u-wrap').clientWidth < 390")
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    section.locator(".card").wait_for(state="detached")
    assert seen.complaints == []


def test_the_time_left_does_not_jump_with_the_rate(serve: Any, browser: Any, tmp_path: Path) -> None:
    """Each report once moved it by a fifth."""
    reports = []
    steps = 0
    for number in range(100):
        rate = 15.0 if number % 2 else 5.0
        steps += int(2 * rate)
        reports.append(row(number, time_s=2.0 * number + 2.0, env_steps=steps, env_steps_per_s=rate))
    run = write_run(tmp_path / "watched", reports[:90], **me())
    page = Watched(browser.new_page()).page
    page.goto(f"{serve().address}#run={id_of(run)}")
    left: list[int] = []
    for one in reports[90:96]:
        append(run, METRICS_FILE, one)
        page.locator("#head", has_text=f"{one['env_steps']:,} of").wait_for()
        found = re.search(r"(\d+):(\d+):(\d+) left", page.locator("#head").inner_text())
        assert found
        hours, minutes, seconds = map(int, found.groups())
        left.append(3600 * hours + 60 * minutes + seconds)
    assert max(left) < 1.04 * min(left), "about 2:45:00"
    assert 0.9 * 9900 < left[-1] < 1.1 * 9900


def test_a_metric_is_found_by_a_part_of_its_name(serve: Any, browser: Any, tmp_path: Path) -> None:
    """Users once had to scroll through a list of a hundred metrics."""
    many = {f"made_{number:02}": 1.0 for number in range(60)}
    run = write_run(tmp_path / "watched", [row(n, zebras=0.7, loss=0.5, **many) for n in range(5)], **me())
    seen = Watched(browser.new_page(viewport={"width": 1280, "height": 940}))
    page = seen.page
    page.goto(f"{serve().address}#run={id_of(run)}")
    seen.sees("#curves .said", "last")
    metric, more, titles = page.locator("#metric"), page.locator("#more"), page.locator(".pair-title")
    assert metric.input_value() == "mean score"
    offered = metric.evaluate("metric => [...metric.list.options].map(option => option.value)")
    assert offered[0] == "episode_return_mean" and {"zebras", "loss", *many} <= set(offered)

    page.keyboard.press("m")
    assert metric.input_value() == "" and metric.get_attribute("placeholder") == "mean score", "all are offered"
    page.keyboard.type("zebr")
    append(run, METRICS_FILE, row(5, zebras=0.7, loss=0.5, episode_return_mean=8.125, **many))
    seen.sees("#runs", "8.125")
    assert metric.input_value() == "zebr", "a report does not replace what is being typed"
    page.keyboard.press("Enter")
    page.locator("#curves .plot[aria-label^=zebras]").first.wait_for()
    assert "metric=zebras" in page.url
    page.wait_for_function("document.activeElement.value === 'zebras'")
    metric.click()
    assert metric.input_value() == "" and metric.get_attribute("placeholder") == "zebras", "all are offered again"

    page.keyboard.type("made_4")
    page.keyboard.press("Enter")
    refusal = "metric => metric.validationMessage"
    assert "10 metrics" in metric.evaluate(refusal) and "made_40" in metric.evaluate(refusal)
    page.keyboard.type("2")
    assert metric.evaluate(refusal) == ""
    page.keyboard.press("Enter")
    page.locator("#curves .plot[aria-label^='made 42']").first.wait_for()
    page.keyboard.type("nothing of that name")
    page.keyboard.press("Enter")
    assert "no metric" in metric.evaluate(refusal)
    page.keyboard.press("Escape")
    assert metric.input_value() == "made 42" and metric.evaluate(refusal) == ""

    more.focus()
    page.keyboard.type("made_42")
    page.keyboard.press("Enter")
    assert more.evaluate(refusal) == "" and page.url.count("metric=") == 1, "it is drawn already"
    page.keyboard.type("LOSS")
    page.keyboard.press("Enter")
    titles.nth(1).wait_for()
    assert titles.all_inner_texts() == ["made 42", "loss"] and more.input_value() == ""
    page.get_by_role("button", name="loss ×").click()
    titles.nth(1).wait_for(state="detached")
    # A browser puts the name of an option that is clicked into the field, and says that it was replaced.
    more.evaluate("more => { more.value = 'zebras'; more.dispatchEvent(new Event('input')); }")
    titles.nth(1).wait_for()
    assert titles.all_inner_texts() == ["made 42", "zebras"]
    assert seen.complaints == []


def test_an_error_in_a_picture_is_not_reported_as_a_desk_that_does_not_answer(
    serve: Any, browser: Any, tmp_path: Path
) -> None:
    """The picture of a restarted process once could not be drawn, and the page said that the desk did not answer."""
    run = with_log(written(tmp_path / "watched", TRAINER_HERE))
    seen = Watched(browser.new_page())
    page = seen.page
    load = {"seconds": [1.0, 2.0], "cores": [0.5, None], "bytes": [1_000_000, None]}
    page.route("**/processes/**", lambda route: route.fulfill(json={"log": "ready", "load": load}))
    page.goto(f"{serve().address}#run={id_of(run)}")
    page.locator("#part-processes th button", has_text="trainer").click()
    seen.sees("#process pre", "ready")
    assert "not answer" not in page.locator("#process [role=status]").inner_text()


AS_WIDE = """() => {
  const box = document.querySelector("#process .traces").getBoundingClientRect();
  return [...document.querySelectorAll("#process .trace .u-wrap")].every((wrap) => {
    const own = wrap.getBoundingClientRect();
    return 0.9 * box.width < own.width && own.width <= box.width && own.x >= box.x;
  });
}"""


def test_pictures_of_a_process_are_as_wide_as_their_dialog(serve: Any, browser: Any, tmp_path: Path) -> None:
    """They were once 420 pixels wide and cut off on a telephone."""
    run = with_log(written(tmp_path / "watched", TRAINER_HERE))
    seen = Watched(browser.new_page(viewport={"width": 390, "height": 844}))
    page = seen.page
    page.goto(f"{serve().address}#run={id_of(run)}")
    page.locator("#part-processes th button", has_text="trainer").click()
    page.locator("#process .trace .u-wrap").nth(1).wait_for()
    page.wait_for_function(AS_WIDE)  # the log may bring a scroll bar, and pictures follow in the next frame
    seen.picture("desk-process-narrow")
    page.set_viewport_size({"width": 1400, "height": 900})
    page.wait_for_function("document.querySelector('#process .trace .u-wrap').clientWidth > 400")


def test_esc_in_the_filter_empties_it_and_shows_all_runs_again(serve: Any, browser: Any, tmp_path: Path) -> None:
    """Chromium empties the field on Esc, and reports it by another event than typing."""
    written(tmp_path / "watched")
    written(tmp_path / "other-run", seed=2, horizon=9)
    seen = Watched(browser.new_page())
    page = seen.page
    page.goto(serve().address)
    seen.sees("#runs a", "other-run")
    page.keyboard.press("/")
    page.keyboard.type("watched")
    page.locator("#runs a", has_text="other-run").wait_for(state="detached")
    page.keyboard.press("Escape")
    seen.sees("#runs a", "other-run")
    assert page.locator("#filter").input_value() == "" and "filter" not in page.url
    assert seen.complaints == []


def test_an_alarm_changes_its_colour_once_the_process_runs_again(serve: Any, browser: Any, tmp_path: Path) -> None:
    run = written(tmp_path / "watched")
    seen = Watched(browser.new_page(color_scheme="light"))
    page = seen.page
    page.goto(serve().address)
    seen.sees("#runs a", "watched")
    alarm = page.locator("#alarm")

    def colour() -> str:
        return str(alarm.evaluate("alarm => getComputedStyle(alarm).backgroundColor"))

    append(run, EVENTS_FILE, DIED)
    seen.sees("#alarm a", "watched: simulator-1 died: signal 9")
    red = colour()
    append(run, EVENTS_FILE, AGAIN)
    seen.sees("#alarm a", "watched: simulator-1 died: signal 9; restarted")
    assert colour() != red
    append(run, EVENTS_FILE, {**DIED, "incarnation": 1, "time_s": 25.0})
    seen.sees("#alarm a", "simulator-1 died (incarnation 1): signal 9")
    assert colour() == red and "restarted" not in alarm.inner_text()
    page.get_by_role("button", name="Hide the alarm").click()
    append(run, METRICS_FILE, row(5))
    seen.sees("#table td", "500")
    assert alarm.inner_text() == ""
    assert seen.complaints == []


def test_labels_in_the_picture_of_processes_cover_no_line_and_it_fits_the_page(
    serve: Any, browser: Any, tmp_path: Path
) -> None:
    spawned = [
        {**SPAWNED[0], "process": f"{role}-{learner}", "role": role, "learner": learner}
        for role in ("trainer", "simulator")
        for learner in range(2)
    ]
    evaluator = {**SPAWNED[0], "process": "evaluator-0", "role": "evaluator"}
    each = {f"trainer-{n}": {"env_steps_per_s": 9.0, "bytes_sent": 4096, "staleness_mean": 0.818} for n in range(2)}
    run = write_run(tmp_path / "watched", [row(1, learners=each)], [*spawned, evaluator], **me())
    topology = run.path / "topology.yaml"
    topology.write_text(f"{topology.read_text()}mode: gossip\nreport: {{every_s: 2}}\n")
    seen = Watched(browser.new_page(viewport={"width": 1400, "height": 900}))
    page = seen.page
    page.goto(f"{serve().address}#run={id_of(run)}")
    seen.sees("#part-graph svg .words", "staleness 0.818 · 2.0 KiB/s")
    assert page.locator("#part-graph .wide").evaluate("wide => wide.scrollWidth <= wide.clientWidth")
    covered = """svg => [...svg.querySelectorAll('.words')].flatMap(words => {
        const {x, y, width, height} = words.getBBox();
        const covers = at => at.x > x && at.x < x + width && at.y > y && at.y < y + height;
        const place = (line, n) => line.getPointAtLength(n * line.getTotalLength() / 199);
        const is_covered = line => Array.from({length: 200}, (_, n) => place(line, n)).some(covers);
        return [...svg.querySelectorAll('path.line')].filter(is_covered).map(() => words.textContent);
    })"""
    assert page.locator("#part-graph svg").evaluate(covered) == []
    overlapping = """svg => {
        const all = [...svg.querySelectorAll('.words, .box')].map(one => one.getBoundingClientRect());
        const meet = (a, b) => a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;
        return all.filter((one, at) => all.slice(at + 1).some(other => meet(one, other))).length;
    }"""
    assert page.locator("#part-graph svg").evaluate(overlapping) == 0
    assert seen.complaints == []


def test_pictures_are_sorted_by_name_and_choices_show_their_values(serve: Any, browser: Any, tmp_path: Path) -> None:
    """Pictures changed places when a run was started, because that of the newest run stood first."""
    names = ["Ant-v95", "Bee-v95", "Cat-v95"]
    for name, started in zip(names, ("02", "03", "01"), strict=True):
        made = write_run(tmp_path / name, [row(n, loss=0.5) for n in range(3)], started=f"2026-01-{started}T12:00:00Z")
        rename_environment(made.path, name)
    seen = Watched(browser.new_page(viewport={"width": 1400, "height": 900}))
    page = seen.page
    page.goto(f"{serve().address}#filter=-v95")
    page.locator("#table tbody tr").nth(2).wait_for()
    assert page.locator(".pair-title").all_inner_texts() == names
    assert page.locator("#smoothed").inner_text() == "0"
    page.locator("#smooth").fill("0.35")
    assert page.locator("#smoothed").inner_text() == "0.35"
    needed = """more => {
        const {font, paddingLeft, paddingRight, borderLeftWidth} = getComputedStyle(more);
        const pen = document.createElement('canvas').getContext('2d');
        pen.font = font;
        const around = [paddingLeft, paddingRight, borderLeftWidth, borderLeftWidth].map(parseFloat);
        return around.reduce((sum, wide) => sum + wide, pen.measureText('and …').width);
    }"""
    more = page.locator("#more")
    assert more.bounding_box()["width"] >= more.evaluate(needed), "its words are not cut"
    page.evaluate("scrollTo(0, 600)")
    assert page.locator("#metric").bounding_box()["y"] > 0, "the choices stay where they are"
    assert seen.complaints == []


def test_a_number_is_written_alike_everywhere_and_0_without_decimals(serve: Any, browser: Any, tmp_path: Path) -> None:
    page = Watched(browser.new_page()).page
    page.goto(serve().address)
    page.locator("#connection", has_text="live").wait_for()
    texts = page.evaluate(
        """async (all) => {
            const {column_form, written} = await import('./page/texts.js');
            const columns = [[0, 0.05], [0, 0.004, 0.001], [60_000, 1e13], [60_000, 1e-9]];
            return [all.map(written), columns.map((column) => column.map(column_form(column, true)))];
        }""",
        [0.9, 0.8667, 143.13, 12345.6, 0.00012, -0.11, 0, 7, None],
    )
    assert texts[0] == ["0.900", "0.867", "143.1", "12,346", "1.2e-4", "-0.110", "0", "7", "–"], "as in the list"
    assert texts[1] == [["0", "0.05"], ["0", "0.004", "0.001"], ["60,000", "1e+13"], ["60,000", "1e-9"]]
