"""The tests marked gpu are found by their files, and reported one by one."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.gpu.marked import marked_files, told
from benchmarks.gpu.stay import Stay
from benchmarks.tests.gpu.hosts import RICH, asked
from launch.errors import FailedError

XML = """<testsuites><testsuite>
<testcase classname="tests.models.test_graph" name="test_a" time="1.25"/>
<testcase classname="tests.models.test_graph" name="test_b" time="0.5"><failure message="1 != 2&#10;more"/></testcase>
<testcase classname="tests.models.test_graph" name="test_c" time="0"><skipped message="no CUDA device"/></testcase>
</testsuite></testsuites>"""


def test_files_are_found_by_the_mark() -> None:
    names = {path.name for path in marked_files()}
    assert {"test_graph.py", "test_on_a_gpu.py", "test_staging.py"} <= names
    assert "test_bench.py" not in names


def test_each_is_told_and_one_that_failed_is_a_shortfall(tmp_path: Path) -> None:
    (tmp_path / "results.xml").write_text(XML)
    stay = Stay(asked(tmp_path), RICH, "tests", 1.0)
    made = told(tmp_path / "results.xml", stay)
    assert [row[:3] for row in made.rows] == [
        ("models.test_graph::test_a", "passed", "1.2 s"),
        ("models.test_graph::test_b", "failed", "0.5 s"),
        ("models.test_graph::test_c", "skipped", "0.0 s"),
    ]
    assert stay.shortfalls == ["models.test_graph::test_b: 1 != 2"]


def test_tests_that_were_all_skipped_are_no_success(tmp_path: Path) -> None:
    (tmp_path / "results.xml").write_text(
        XML.replace("failure", "skipped").replace('1.25"/>', '1"><skipped/></testcase>')
    )
    stay = Stay(asked(tmp_path), RICH, "tests", 1.0)
    told(tmp_path / "results.xml", stay)
    assert stay.shortfalls[0].startswith("all 3 were skipped")


def test_none_at_all_is_no_success(tmp_path: Path) -> None:
    (tmp_path / "results.xml").write_text("<testsuites/>")
    with pytest.raises(FailedError, match="no test is marked"):
        told(tmp_path / "results.xml", Stay(asked(tmp_path), RICH, "tests", 1.0))
