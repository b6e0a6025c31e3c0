"""A copied checkpoint arrives complete or not at all, and only among the checkpoints of its run."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from actorlearn.parameters.checkpoint_folders import read_manifest, seal
from actorlearn.wire.messages import Order
from launch.nodes.copies import Arriving, CopyError, Outgoing
from launch.nodes.messages import CHUNK_BYTES, CopyDone, FileChunk, MessageError, NodeWarning, decode, encode
from launch.nodes.outbox import Outbox
from launch.nodes.stream import Stream
from launch.supervision import events as ev

STEPS = "checkpoints/learner-1/500"


@pytest.fixture
def there(tmp_path: Path) -> Path:
    """The folder of a run with a checkpoint of an empty file, and of one of several parts."""
    folder = tmp_path / "there" / STEPS
    folder.mkdir(parents=True)
    (folder / "empty.bin").touch()
    (folder / "large.bin").write_bytes(bytes(range(256)) * (CHUNK_BYTES // 100))
    seal(folder, 500, {})
    return tmp_path / "there"


def parts(there: Path) -> list[FileChunk | CopyDone | NodeWarning]:
    return [*Outgoing(there, there / STEPS).messages()]


def take(arriving: Arriving, messages: Iterable[FileChunk | CopyDone | NodeWarning]) -> None:
    for message in messages:
        if isinstance(message, FileChunk):
            arriving.take(message)
        else:
            assert isinstance(message, CopyDone)
            arriving.finish(message)


def test_a_folder_arrives_as_it_was(there: Path, tmp_path: Path) -> None:
    here = tmp_path / "here"
    for _ in range(2):  # the second copy replaces the first
        take(Arriving(here, "n1"), parts(there))
    for file in (there / STEPS).iterdir():
        assert (here / STEPS / file.name).read_bytes() == file.read_bytes()
    assert [path.name for path in (here / STEPS).parent.iterdir()] == ["500"]


def test_a_folder_that_is_removed_while_it_is_copied_arrives_whole(there: Path, tmp_path: Path) -> None:
    copy = Outgoing(there, there / STEPS)
    for file in (there / STEPS).iterdir():
        file.unlink()
    here = tmp_path / "here"
    take(Arriving(here, "n1"), copy.messages())
    assert read_manifest(here / STEPS)["env_steps"] == 500


def test_copies_of_one_folder_to_several_machines_do_not_wait_for_each_other(there: Path, tmp_path: Path) -> None:
    slow, fast = (Outgoing(there, there / STEPS).messages() for _ in range(2))
    begun = next(slow)
    for name, messages in (("fast", [*fast]), ("slow", [begun, *slow])):
        take(Arriving(tmp_path / name, "n1"), messages)
        assert read_manifest(tmp_path / name / STEPS)["env_steps"] == 500


def test_a_checkpoint_that_is_saved_again_while_it_is_copied_arrives_as_it_was_saved_last(
    there: Path, tmp_path: Path
) -> None:
    copy = Outgoing(there, there / STEPS).messages()
    begun = next(copy)
    for file in (there / STEPS).iterdir():
        file.unlink()
    (there / STEPS / "large.bin").write_bytes(b"newer")
    seal(there / STEPS, 500, {})
    again = Outgoing(there, there / STEPS).messages()
    take(Arriving(tmp_path / "here", "n1"), [begun, *copy, *again])
    assert (tmp_path / "here" / STEPS / "large.bin").read_bytes() == b"newer"


@pytest.mark.parametrize("missing", [0, 1, 2])
def test_a_copy_with_a_gap_leaves_what_was_there(there: Path, tmp_path: Path, missing: int) -> None:
    here, messages = tmp_path / "here", parts(there)
    take(Arriving(here, "n1"), messages)
    del messages[missing]
    with pytest.raises((CopyError, OSError)):
        take(Arriving(here, "n1"), messages)
    assert read_manifest(here / STEPS)["env_steps"] == 500


def test_a_byte_that_was_changed_on_the_way_is_seen(there: Path, tmp_path: Path) -> None:
    messages = parts(there)
    changed = next(number for number, part in enumerate(messages) if isinstance(part, FileChunk) and part.offset)
    part = messages[changed]
    assert isinstance(part, FileChunk)
    messages[changed] = FileChunk(part.folder, part.file, part.offset, bytes(reversed(part.data)))
    with pytest.raises(CopyError, match=r"large.bin has sha256"):
        take(Arriving(tmp_path / "here", "n1"), messages)
    assert not (tmp_path / "here" / STEPS).exists()


def test_a_large_checkpoint_is_put_in_its_place_without_being_read_again(
    there: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    messages, arriving = parts(there), Arriving(tmp_path / "here", "n1")
    take(arriving, messages[:-1])
    opened: list[str] = []
    own_open = Path.open

    def noted(path: Path, *words: Any, **more: Any) -> Any:
        opened.append(path.name)
        return own_open(path, *words, **more)

    monkeypatch.setattr(Path, "open", noted)
    take(arriving, messages[-1:])
    assert opened == ["manifest.json"] and (tmp_path / "here" / STEPS).is_dir()


def test_checkpoints_that_the_sender_has_removed_are_removed(there: Path, tmp_path: Path) -> None:
    here = tmp_path / "here"
    for old in ("100", "200", "300"):
        (here / STEPS).with_name(old).mkdir(parents=True)
    arriving, kept = Arriving(here, "n1"), (here / STEPS).with_name("300")
    take(arriving, parts(there))
    arriving.remove_older(CopyDone(STEPS, ["200", "500"]), [kept])
    assert sorted(path.name for path in kept.parent.iterdir()) == ["200", "300", "500"]


@pytest.mark.parametrize("folder", ["logs/500", "checkpoints/x", "settings/a/5"])
def test_a_copy_into_a_folder_that_is_no_checkpoint_is_refused(tmp_path: Path, folder: str) -> None:
    with pytest.raises(CopyError, match="not the folder of a checkpoint"):
        Arriving(tmp_path, "n1").take(FileChunk(folder, "a.bin", 0, b"x"))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("folder", ["../5", "/etc/5", "checkpoints/../../5", "checkpoints/.x/5", "a\0b/5", ""])
def test_a_message_with_a_path_outside_the_run_is_refused(folder: str) -> None:
    with pytest.raises(MessageError):
        decode(encode(FileChunk(folder, "a.bin", 0, b"x")), "node")


def test_an_incomplete_copy_leaves_no_file(there: Path, tmp_path: Path) -> None:
    arriving = Arriving(tmp_path / "here", "n1")
    take(arriving, parts(there)[:2])
    arriving.close()
    assert [path for path in (tmp_path / "here").rglob("*") if path.is_file()] == []


def test_a_copy_that_has_not_begun_when_a_newer_one_is_there_is_not_sent(there: Path) -> None:
    waiting = Outgoing(there, there / STEPS)
    waiting.withdraw()
    begun = Outgoing(there, there / STEPS)
    on_its_way = begun.messages()
    sent = [next(on_its_way)]
    begun.withdraw()
    assert list(waiting.messages()) == []
    assert [type(part).__name__ for part in [*sent, *on_its_way]] == ["FileChunk"] * 5 + ["CopyDone"]


def test_a_long_copy_holds_up_its_own_lane_alone(there: Path) -> None:
    stream = Stream(1)
    outbox = Outbox(stream)
    outbox.put("trainer-1", Outgoing(there, there / STEPS).messages())
    outbox.put("trainer-1", ev.Exited("trainer-1", 0, 0))
    outbox.put("simulator-1", ev.Exited("simulator-1", 0, 0))
    outbox.pump()
    kinds = [type(decode(body, "reporter")).__name__ for body in stream.waiting]
    assert kinds[:2] == ["FileChunk", "Exited"] and kinds[-2:] == ["CopyDone", "Exited"]


def test_of_several_waiting_orders_to_a_process_only_the_newest_is_sent() -> None:
    stream = Stream(1)
    outbox = Outbox(stream)
    for version in (1, 2, 3):
        for name in ("a", "b"):
            outbox.put("learner-0", ev.Send(name, 0, Order(version=version)))
    outbox.pump()
    sent = [decode(body, "node") for body in stream.waiting]
    assert [(send.name, send.message.version) for send in sent] == [("a", 3), ("b", 3)]
