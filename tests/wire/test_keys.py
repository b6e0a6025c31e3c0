"""Key files: never overwritten, refused when others may read or change them, and secret in everything that is shown."""

from __future__ import annotations

import stat
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actorlearn.wire import keys as module
from actorlearn.wire.keys import AllowList, KeysError, make_keys, node_keys, read_list, revoke, server_keys


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Keys of a head and two nodes."""
    make_keys(tmp_path / "keys", ["node-1", "node-2"])
    return tmp_path / "keys"


def secret(file: Path) -> str:
    return dict(line.split() for line in file.read_text().splitlines())["secret"]


def test_a_node_s_file_has_its_own_key_and_the_head_s_public_one(folder: Path) -> None:
    head = server_keys(folder)
    for name in ("node-1", "node-2"):
        node = node_keys(folder / f"{name}.key")
        assert node.name == name and node.keys.server == head.pair.public
        assert head.allowed(node.keys.pair.public) == name
    assert head.allowed(head.pair.public) is None and head.allowed(b"") is None


def test_secrets_are_their_owner_s_alone_and_nothing_shows_them(folder: Path) -> None:
    files = [folder / "head.key", folder / "node-1.key"]
    assert [stat.S_IMODE(file.stat().st_mode) for file in files] == [0o600, 0o600]
    assert stat.S_IMODE((folder / "nodes").stat().st_mode) == 0o700
    for file, shown in zip(files, (server_keys(folder), node_keys(files[1])), strict=True):
        assert secret(file) not in f"{shown!r} {shown}"
        assert str(bytes.fromhex(secret(file)))[2:-1] not in f"{shown!r} {shown}"
        assert not [path for path in (folder / "nodes").iterdir() if secret(file) in path.read_text()]


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660])
def test_a_secret_that_others_may_read_is_refused(folder: Path, mode: int) -> None:
    for name, read in (
        ("head.key", lambda: server_keys(folder)),
        ("node-1.key", lambda: node_keys(folder / "node-1.key")),
    ):
        (folder / name).chmod(mode)
        with pytest.raises(KeysError, match=rf"{name}: other users may read it \(mode {mode:04o}\); run chmod 600"):
            read()


def test_a_list_that_others_may_change_is_refused(folder: Path) -> None:
    (folder / "nodes" / "node-1.pub").chmod(0o666)
    with pytest.raises(KeysError, match=r"node-1.pub: other users may change it .*; run chmod 644"):
        server_keys(folder)
    (folder / "nodes" / "node-1.pub").chmod(0o644)
    (folder / "nodes").chmod(0o770)
    with pytest.raises(KeysError, match="other users may add keys to it .*; run chmod 700"):
        server_keys(folder)


def test_nodes_are_added_and_nothing_is_overwritten(folder: Path) -> None:
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert make_keys(folder, ["node-3"]) == [folder / "node-3.key"]
    for names in (["node-1"], ["node-4", "node-2"], ["node-5", "node-5"]):
        with pytest.raises(KeysError, match="has a key in .* already"):
            make_keys(folder, names)
    with pytest.raises(KeysError, match=r"head.key: the file exists and is never overwritten"):
        make_keys(folder, [])
    assert not (folder / "node-4.key").exists()
    assert {path: path.read_bytes() for path in before} == before
    assert set(read_list(folder / "nodes").values()) == {"node-1", "node-2", "node-3"}


@pytest.mark.parametrize("name", ["", "a/b", "..", "head", "n" * 65, "a b", "\n", "é"])
def test_a_name_that_is_none_is_refused_before_anything_is_made(tmp_path: Path, name: str) -> None:
    with pytest.raises(KeysError, match="a node's name is"):
        make_keys(tmp_path / "keys", ["good", name])
    assert not (tmp_path / "keys").exists()


def test_a_revoked_key_may_no_longer_connect_and_its_name_can_be_given_anew(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed, old = AllowList(folder / "nodes"), node_keys(folder / "node-1.key").keys.pair.public
    assert listed(old) == "node-1"
    monkeypatch.setattr(module, "LIST_AGAIN_S", 0.0)
    revoke(folder, "node-1")
    assert listed(old) is None and not (folder / "node-1.key").exists()
    with pytest.raises(KeysError, match="has no key in"):
        revoke(folder, "node-1")
    with pytest.raises(KeysError, match="has no key in"):
        revoke(folder, "../head")
    make_keys(folder, ["node-1"])
    assert listed(old) is None
    assert listed(node_keys(folder / "node-1.key").keys.pair.public) == "node-1"


def test_a_key_whose_public_part_was_removed_by_hand_is_revoked_whole(folder: Path) -> None:
    (folder / "nodes" / "node-1.pub").unlink()
    revoke(folder, "node-1")
    assert not (folder / "node-1.key").exists()
    assert make_keys(folder, ["node-1"]) == [folder / "node-1.key"]
    with pytest.raises(KeysError, match="has no key in"):
        revoke(folder, "head")
    assert (folder / "head.key").exists()


def test_a_list_that_cannot_be_read_now_is_as_it_was(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    listed, own = AllowList(folder / "nodes"), node_keys(folder / "node-1.key").keys.pair.public
    monkeypatch.setattr(module, "LIST_AGAIN_S", 0.0)
    (folder / "nodes" / "node-2.pub").write_text("public 12\n")
    assert listed(own) == "node-1"


@pytest.mark.parametrize(
    "text",
    ["", "x", "name node-1\npublic 12\n", "name node-1\npublic " + "0" * 64, "public " + "0" * 64, "\0" * 100_000],
)
def test_a_file_that_holds_no_key_is_named_and_not_repeated(tmp_path: Path, text: str) -> None:
    file = tmp_path / "node-1.key"
    file.write_text(text)
    file.chmod(0o600)
    with pytest.raises(KeysError, match="node-1.key: ") as refused:
        node_keys(file)
    assert "0" * 64 not in str(refused.value)


def test_files_that_are_none_are_named(tmp_path: Path) -> None:
    for path in (tmp_path / "nowhere", tmp_path):
        with pytest.raises(KeysError, match=str(path)):
            node_keys(path)
    with pytest.raises(KeysError, match="actorlearn keys new"):
        server_keys(tmp_path / "nowhere")


def test_two_names_of_one_key_are_refused(folder: Path) -> None:
    (folder / "nodes" / "twin.pub").write_bytes((folder / "nodes" / "node-1.pub").read_bytes())
    (folder / "nodes" / "twin.pub").chmod(0o644)
    with pytest.raises(KeysError, match="twin.pub: has the key of node-1; each node needs its own"):
        server_keys(folder)


def test_a_public_key_in_a_file_with_a_wrong_name_is_refused_with_the_rule_of_names(folder: Path) -> None:
    (folder / "nodes" / "node-1.pub").rename(folder / "nodes" / "my node.pub")
    with pytest.raises(KeysError, match="my node.pub: a node's name is 1 to 64 letters, .*; rename or remove the file"):
        server_keys(folder)


@given(st.binary(max_size=400) | st.text("abcdef0123456789 \npublicsecrethdnm", max_size=400).map(str.encode))
def test_any_bytes_are_a_key_file_or_refused(folder_of_bytes: Path, content: bytes) -> None:
    file = folder_of_bytes / "x.key"
    file.write_bytes(content)
    file.chmod(0o600)
    with suppress(KeysError):
        node_keys(file)
    with suppress(KeysError):
        server_keys(folder_of_bytes)
    (folder_of_bytes / "x.pub").write_bytes(content)
    (folder_of_bytes / "x.pub").chmod(0o600)
    with suppress(KeysError):
        read_list(folder_of_bytes)


@pytest.fixture(scope="module")
def folder_of_bytes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("keys")
