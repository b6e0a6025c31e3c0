"""``actorlearn keys``: it says where to move each file, shows no secret, and refuses in one line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from actorlearn.wire.keys import node_keys
from launch.cli import app

Told = pytest.CaptureFixture[str]


def keys(*words: str | Path) -> int:
    """Return the exit status of a command."""
    with pytest.raises(SystemExit) as ended:
        app(["keys", *map(str, words)], prog_name="actorlearn")
    return int(ended.value.code or 0)


def test_keys_are_made_listed_and_revoked_without_showing_a_secret(tmp_path: Path, capsys: Told) -> None:
    folder = tmp_path / "keys"
    assert keys("new", "--node", "a", "--node", "b", folder) == 0
    said = capsys.readouterr().out
    assert f"{folder}/head.key: the secret key of the head; leave it" in said
    assert f"{folder}/b.key: move it to node b" in said
    public = node_keys(folder / "a.key").keys.pair.public.hex()
    (folder / "b.key").unlink()
    assert keys("list", folder, "--json") == 0
    listed = json.loads(capsys.readouterr().out)
    assert listed["nodes"].keys() == {"a", "b"} and listed["nodes"]["a"] == public
    assert listed["secrets_here"] == ["a"]
    assert keys("revoke", "a", folder) == 0
    assert keys("list", folder) == 0
    said += capsys.readouterr().out
    assert "\nb  " in said and "\na  " not in said
    for file in (folder / "head.key",):
        for line in file.read_text().splitlines():
            assert not line.startswith("secret") or line.split()[1] not in said


def test_new_keys_of_a_head_alone_come_with_the_command_that_adds_nodes(tmp_path: Path, capsys: Told) -> None:
    assert keys("new", tmp_path / "keys") == 0
    assert "no node can connect yet: add some with `actorlearn keys new --node NAME" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "match"),
    [
        (("new", "--node", "a/b", "{}"), "'a/b': a node's name is 1 to 64 letters"),
        (("list", "{}/nowhere"), "make it with `actorlearn keys new"),
        (("revoke", "c", "{}"), "'c': this node has no key in"),
    ],
)
def test_a_wrong_request_is_one_line_and_status_2(
    tmp_path: Path, capsys: Told, words: tuple[str, ...], match: str
) -> None:
    assert keys(*(word.format(tmp_path) for word in words)) == 2
    said = capsys.readouterr().err
    assert match in said and said.count("\n") == 1
