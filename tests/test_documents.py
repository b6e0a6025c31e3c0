"""README and docs: everything that they name exists, and every page is reachable."""

from __future__ import annotations

import ast
import importlib
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from launch.topology.load import parse
from tests.sizes import PACKAGES, ROOT

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md", *sorted((ROOT / "docs").glob("*.md"))]
MORE_PAGES = sorted((ROOT / "benchmarks").rglob("*.md"))
PLACE = re.compile(r"`((?:actorlearn|launch|benchmarks|configs|docs|tests)/[\w./-]*)`")
LINK = re.compile(r"\]\((?!https?:)([^)#]*)(?:#([\w-]+))?\)")
PYTHON = re.compile(r"```python\n(.*?)```", re.DOTALL)
CALL = re.compile(r"`([\w/]+\.py)`: `([\w.]+)`")
ELSEWHERE = re.compile(r"\]\((https?:[^)]*)\)")
LISTED = (ROOT / "tests" / "external_links.txt").read_text().splitlines()
LOADED = re.compile(r"""<(?:script|link|img|iframe)\b[^>]*(?:src|href)=["']?(?:https?:)?//|url\(["']?(?:https?:)?//""")
"""What makes a browser fetch something from another place."""
Build = Callable[[Path, Path], subprocess.CompletedProcess[str]]


def defined(file: Path) -> set[str]:
    """Functions and methods of a file, as ``function`` and ``Class.method``."""
    found: set[str] = set()
    for node in ast.parse(file.read_text()).body:
        within = f"{node.name}." if isinstance(node, ast.ClassDef) else ""
        parts = node.body if isinstance(node, ast.ClassDef) else [node]
        found |= {f"{within}{part.name}" for part in parts if isinstance(part, ast.FunctionDef)}
    return found


def imported_names(code: str) -> Iterator[tuple[str, str]]:
    """Yield module and name of each import from our packages."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in PACKAGES:
            yield from ((str(node.module), alias.name) for alias in node.names)


def anchors(page: Path) -> set[str]:
    """Names of a page that a link may have: its headings, as Markdown is shown on the web."""
    headings = [line.lstrip("# ").lower() for line in page.read_text().splitlines() if line.startswith("#")]
    return {re.sub(r"[^\w -]", "", heading).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_place_that_is_named_exists(page: Path) -> None:
    missing = sorted({place for place in PLACE.findall(page.read_text()) if not (ROOT / place).exists()})
    assert not missing, f"{page.name} names {missing}"


@pytest.mark.parametrize("page", [*PAGES, *MORE_PAGES], ids=lambda page: page.name)
def test_every_link_leads_to_a_page_and_its_heading(page: Path) -> None:
    broken = []
    for target, anchor in LINK.findall(page.read_text()):
        file = (page.parent / target) if target else page
        if not file.exists() or (anchor and anchor not in anchors(file)):
            broken.append(f"{target}#{anchor}")
    assert not broken, f"{page.name} links to {broken}"


def test_every_function_that_is_named_behind_its_file_is_there() -> None:
    """In lists such as that of an update's calls: `file.py`: `Class.method`."""
    calls = [call for page in PAGES for call in CALL.findall(page.read_text())]
    assert calls
    assert not [f"{file}: {name}" for file, name in calls if name not in defined(ROOT / file)]


def test_every_name_that_examples_import_is_there() -> None:
    code = {f"{page.name}: {block}": block for page in PAGES for block in PYTHON.findall(page.read_text())}
    code |= {str(file.relative_to(ROOT)): file.read_text() for file in (ROOT / "examples").rglob("*.py")}
    imports = {(place, *found) for place, text in code.items() for found in imported_names(text)}
    assert imports
    assert not [each for each in imports if not hasattr(importlib.import_module(each[1]), each[2])]


def test_every_room_has_its_line_in_the_architecture() -> None:
    told = (ROOT / "docs" / "architecture.md").read_text()
    rooms = {folder.parent for package in PACKAGES for folder in (ROOT / package).glob("*/__init__.py")}
    silent = sorted(name for room in rooms if f"| `{(name := room.relative_to(ROOT).as_posix())}/` |" not in told)
    assert not silent, f"docs/architecture.md has no row for {silent}"


def test_every_page_has_a_link_to_it() -> None:
    linked = {target for page in PAGES for target in re.findall(r"\]\((?:docs/)?([\w-]+\.md)", page.read_text())}
    unknown = sorted(page.name for page in (ROOT / "docs").glob("*.md") if page.name not in {*linked, "index.md"})
    assert not unknown, f"no page links to {unknown}"


def test_the_readme_lists_the_extras_of_the_package() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    table = (ROOT / "README.md").read_text().partition("| extra | for |\n")[2].partition("\n\n")[0]
    listed = [name for row in table.splitlines()[1:] for name in re.findall(r"`([\w-]+)`", row.split("|")[1])]
    assert sorted(listed) == sorted(extras)


@pytest.mark.parametrize("text", re.findall(r"```yaml\n(.*?)```", (ROOT / "README.md").read_text(), flags=re.DOTALL))
def test_a_topology_of_the_readme_is_a_topology(text: str) -> None:
    parse(text)


def test_no_page_links_elsewhere_but_to_what_is_listed() -> None:
    found = {link for page in PAGES for link in ELSEWHERE.findall(page.read_text())}
    assert found == set(LISTED), "tests/external_links.txt lists every link that leads out of the project, sorted"
    assert sorted(LISTED) == LISTED


@pytest.fixture(scope="module")
def build() -> Build:
    """Make HTML of a folder of pages, as ``make docs`` does."""
    pytest.importorskip("sphinx", reason="`make docs` installs what makes the pages")
    command = [sys.executable, "-m", "sphinx", "-q", "-n", "-W", "--keep-going", "-b", "html"]
    return lambda pages, made: subprocess.run([*command, pages, made], capture_output=True, text=True, check=False)


@pytest.mark.nightly
@pytest.mark.timeout(300)
def test_the_pages_build_without_a_warning_and_load_nothing_from_elsewhere(build: Build, tmp_path: Path) -> None:
    done = build(ROOT / "docs", tmp_path)
    assert done.returncode == 0, done.stderr
    made = {file: file.read_text() for file in tmp_path.rglob("*.*") if file.suffix in (".html", ".css")}
    assert tmp_path / "tutorial.html" in made
    assert not {file.name: LOADED.findall(text) for file, text in made.items() if LOADED.search(text)}
    assert "docnames" in (tmp_path / "searchindex.js").read_text()


@pytest.mark.nightly
@pytest.mark.timeout(300)
def test_links_that_lead_nowhere_end_the_build(build: Build, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "docs", tmp_path / "docs")
    conf = tmp_path / "docs" / "conf.py"
    conf.write_text(conf.read_text().replace("Path(__file__).parents[1]", f"{str(ROOT)!r}"))
    with (tmp_path / "docs" / "decisions.md").open("a") as page:
        page.write("\n[a](concepts.md#no-such-heading) [b](no-such-page.md) [c](#nowhere)\n")
    done = build(tmp_path / "docs", tmp_path / "html")
    assert done.returncode != 0
    assert all(target in done.stderr for target in ("no-such-heading", "no-such-page", "nowhere"))
