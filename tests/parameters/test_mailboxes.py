"""Any mailbox gives the newest message, whole and without waiting, also while real processes are killed."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actorlearn.address import ByLearner, Ipc
from actorlearn.memory.shared import Segment
from actorlearn.parameters.frame_headers import MAILBOX
from actorlearn.parameters.mailbox import CONTRADICTIONS, Mailbox, SocketMailbox, ipc_transport
from actorlearn.parameters.shared_counts import SharedCounts, counts_fields
from actorlearn.wire.channel import ChannelError, Push
from tests.examples import examples
from tests.parameters.posting_learner import KINDS, LEARNERS, SIZE, address, socket_mailbox, tattooed
from tests.sizes import ROOT
from tests.wire.doors import until

SMALL = 64


def content(mailbox: Mailbox, peer: int, size: int = SMALL) -> tuple[int, int]:
    """Version and count of a peer's newest message; fails if it is torn or another peer's."""
    out = np.full(size, np.nan, np.float32)
    version = mailbox.take(peer, out)
    assert (out == out[0]).all()
    count, learner = divmod(int(out[0]), LEARNERS)
    assert learner == peer
    return version, count


class MailboxContract:
    """Tests that every kind of mailbox passes."""

    kind = ""

    @pytest.fixture
    def mailboxes(self, tmp_path: Path) -> Iterator[list[Mailbox]]:
        opened = [KINDS[self.kind](tmp_path, learner, size=SMALL) for learner in range(LEARNERS)]
        yield opened
        for mailbox in opened:
            mailbox.close()

    def test_before_the_first_message_the_version_is_minus_1(self, mailboxes: list[Mailbox]) -> None:
        out = np.full(SMALL, 7, np.float32)
        for peer in (1, 2, LEARNERS):  # there is no such learner as the last
            assert mailboxes[0].version(peer) == mailboxes[0].take(peer, out) == -1
        assert (out == 7).all()

    def test_a_message_comes_whole_and_stays_until_the_next(self, mailboxes: list[Mailbox]) -> None:
        version = mailboxes[1].post(tattooed(1, 7, SMALL))
        until(lambda: mailboxes[0].version(1) == version)
        assert content(mailboxes[0], 1) == content(mailboxes[0], 1) == (version, 7)
        assert mailboxes[0].version(1) == version
        assert mailboxes[0].version(2) == -1

    def test_versions_of_own_messages_count_up_by_one(self, mailboxes: list[Mailbox]) -> None:
        versions = [mailboxes[0].post(tattooed(0, count, SMALL)) for count in range(5)]
        assert versions == list(range(versions[0], versions[0] + 5)) and versions[0] >= 0

    def test_weights_may_be_changed_after_they_are_posted(self, mailboxes: list[Mailbox]) -> None:
        weights = tattooed(1, 1, SMALL)
        version = mailboxes[1].post(weights)
        weights.fill(np.nan)
        until(lambda: mailboxes[0].version(1) == version)
        assert content(mailboxes[0], 1) == (version, 1)

    def test_of_many_unread_messages_a_reader_gets_the_newest(self, mailboxes: list[Mailbox]) -> None:
        for count in range(1000):
            version = mailboxes[2].post(tattooed(2, count, SMALL))
        for reader in mailboxes[:2]:
            until(lambda reader=reader: reader.version(2) == version)
            assert content(reader, 2) == (version, 999)

    def test_a_learner_that_comes_late_gets_the_next_message(self, tmp_path: Path) -> None:
        first = KINDS[self.kind](tmp_path, 0, size=SMALL)
        first.post(tattooed(0, 1, SMALL))
        late = KINDS[self.kind](tmp_path, 1, size=SMALL)
        version = first.post(tattooed(0, 2, SMALL))
        until(lambda: late.version(0) == version)
        assert content(late, 0) == (version, 2)
        first.close()
        late.close()

    def test_versions_go_on_after_a_restart_and_the_reader_follows(self, tmp_path: Path) -> None:
        reader = KINDS[self.kind](tmp_path, 0, size=SMALL)
        before = -1
        for incarnation in range(3):
            writer = KINDS[self.kind](tmp_path, 1, incarnation, size=SMALL)
            version = writer.post(tattooed(1, incarnation, SMALL))
            assert version > before
            until(lambda version=version: reader.version(1) == version)
            assert content(reader, 1) == (version, incarnation)
            before = writer.post(tattooed(1, 9, SMALL))
            writer.close()
        reader.close()

    def test_posting_weights_of_another_size_is_refused(self, mailboxes: list[Mailbox]) -> None:
        with pytest.raises(ValueError):
            mailboxes[0].post(np.zeros(SMALL + 1, np.float32))

    @contextmanager
    def posting(self, folder: Path, learner: int, incarnation: int) -> Iterator[subprocess.Popen]:
        """A process that posts as fast as it can; killed with SIGKILL."""
        command = [sys.executable, "-m", "tests.parameters.posting_learner"]
        writer = subprocess.Popen([*command, self.kind, str(folder), str(learner), str(incarnation)], cwd=ROOT)
        try:
            yield writer
        finally:
            writer.send_signal(signal.SIGKILL)
            writer.wait()

    @pytest.mark.timeout(120)
    def test_no_message_is_torn_while_peers_post_and_are_killed(self, tmp_path: Path) -> None:
        reader = KINDS[self.kind](tmp_path, 0)
        newest = {1: -1, 2: -1}

        def read(times: int) -> None:
            for _ in range(times):
                for peer in newest:
                    until(lambda peer=peer: reader.version(peer) > newest[peer])
                    version, _ = content(reader, peer, SIZE)
                    assert version > newest[peer]
                    newest[peer] = version

        with self.posting(tmp_path, 2, 0):
            for incarnation in range(2):  # the second continues the versions of the first
                with self.posting(tmp_path, 1, incarnation):
                    read(30)
        assert content(reader, 1, SIZE)[0] >= newest[1]
        reader.close()
        for left in tmp_path.glob("*.sock"):  # of the killed processes; a run removes the folder
            left.unlink()

    @pytest.mark.timeout(120)
    def test_posting_goes_on_when_a_peer_is_stopped_or_killed(self, tmp_path: Path) -> None:
        writer = KINDS[self.kind](tmp_path, 0)
        with self.posting(tmp_path, 1, 0) as peer:
            until(lambda: writer.version(1) >= 0)
            peer.send_signal(signal.SIGSTOP)
            for count in range(200):
                writer.post(tattooed(0, count))
        for count in range(200):
            version = writer.post(tattooed(0, count))
        successor = KINDS[self.kind](tmp_path, 1, 1)
        version = writer.post(tattooed(0, 200))
        until(lambda: successor.version(0) == version)
        assert content(successor, 0, SIZE) == (version, 200)
        writer.close()
        successor.close()


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=examples(30))
@given(deeds=st.lists(st.tuples(st.sampled_from(("post", "take")), st.integers(0, 2), st.integers(0, 2)), max_size=40))
def test_in_any_order_versions_never_go_back_and_belong_to_their_content(
    tmp_path_factory: pytest.TempPathFactory, kind: str, deeds: list[tuple[str, int, int]]
) -> None:
    folder = tmp_path_factory.mktemp("m")
    mailboxes = [KINDS[kind](folder, learner, size=SMALL) for learner in range(LEARNERS)]
    posted: dict[int, list[int]] = {learner: [] for learner in range(LEARNERS)}
    taken: dict[tuple[int, int], int] = {}
    try:
        for deed, learner, peer in deeds:
            if deed == "post":
                version = mailboxes[learner].post(tattooed(learner, len(posted[learner]), SMALL))
                posted[learner].append(version)
            elif learner != peer and mailboxes[learner].version(peer) >= 0:
                seen = mailboxes[learner].version(peer)
                version, count = content(mailboxes[learner], peer)
                assert version == posted[peer][count] >= max(seen, taken.get((learner, peer), -1))
                taken[learner, peer] = version
        for reader in range(LEARNERS):
            for peer in set(range(LEARNERS)) - {reader}:
                newest = posted[peer][-1] if posted[peer] else -1
                until(lambda r=reader, p=peer, n=newest: mailboxes[r].version(p) == n)
    finally:
        for mailbox in mailboxes:
            mailbox.close()


class TestSharedMailbox(MailboxContract):
    """In shared memory."""

    kind = "shared"

    def test_a_message_outlives_the_mailbox_that_posted_it(self, tmp_path: Path) -> None:
        writer = KINDS["shared"](tmp_path, 1, size=SMALL)
        version = writer.post(tattooed(1, 3, SMALL))
        writer.close()
        reader = KINDS["shared"](tmp_path, 0, size=SMALL)
        assert content(reader, 1) == (version, 3)
        reader.close()


@pytest.fixture(scope="module")
def reader_of_bytes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SocketMailbox]:
    """One mailbox for all examples."""
    mailbox = socket_mailbox(tmp_path_factory.mktemp("m"), 0, size=SMALL)
    yield mailbox
    mailbox.close()


class TestSocketMailbox(MailboxContract):
    """Through ZeroMQ."""

    kind = "socket"

    @pytest.fixture
    def reader(self, tmp_path: Path) -> Iterator[SocketMailbox]:
        mailbox = socket_mailbox(tmp_path, 0, size=SMALL)
        yield mailbox
        mailbox.close()

    @pytest.fixture
    def line(self, tmp_path: Path, reader: SocketMailbox) -> Iterator[Push]:
        """A socket of another sender, connected to the reader."""
        with closing(Push(address(tmp_path, 0))) as line:
            yield line

    @staticmethod
    def frame(sender: int = 1, version: int = 5) -> bytes:
        """A valid message, made without a mailbox."""
        content = tattooed(1, 5, SMALL).tobytes()
        return MAILBOX.pack(bytes(16), sender, version, 0, zlib.crc32(content)) + content

    def test_a_valid_message_is_taken(self, reader: SocketMailbox, line: Push) -> None:
        line.send(self.frame())
        until(lambda: reader.version(1) == 5)
        assert content(reader, 1) == (5, 5) and reader.dropped == 0

    @pytest.mark.parametrize(
        "spoil",
        [
            lambda good: b"",
            lambda good: good[:-1],
            lambda good: good[: MAILBOX.size],
            lambda good: good[:28] + b"\xff" * 4 + good[32:],
            lambda good: good[:32] + b"\xff" * 8 + good[40:],
            lambda good: good[:-1] + bytes([good[-1] ^ 1]),
        ],
        ids=["empty", "short", "header alone", "sender", "version -1", "one bit"],
    )
    def test_an_invalid_message_is_dropped_and_counted(
        self, reader: SocketMailbox, line: Push, spoil: Callable[[bytes], bytes]
    ) -> None:
        line.send(spoil(self.frame()))
        until(lambda: reader.dropped == 1)
        assert reader.version(1) == -1
        line.send(self.frame())
        until(lambda: reader.version(1) == 5)

    def test_an_older_message_is_dropped(self, reader: SocketMailbox, line: Push) -> None:
        line.send(self.frame(version=5))
        until(lambda: reader.version(1) == 5)
        line.send(self.frame(version=4))
        until(lambda: reader.dropped == 1)
        assert reader.version(1) == 5

    def test_a_huge_version_mutes_its_sender_for_only_a_few_messages(self, reader: SocketMailbox, line: Push) -> None:
        line.send(self.frame(version=2**62))
        until(lambda: reader.version(1) == 2**62)
        for number in range(1, CONTRADICTIONS + 2):
            line.send(self.frame(version=number))
            until(lambda number=number: reader.dropped == number or reader.version(1) == number)
        assert reader.version(1) == CONTRADICTIONS + 1
        assert reader.dropped == CONTRADICTIONS - 1

    def test_late_or_repeated_messages_do_not_lower_the_version(self, reader: SocketMailbox, line: Push) -> None:
        line.send(self.frame(version=100))
        until(lambda: reader.version(1) == 100)
        for count in range(1, 3 * CONTRADICTIONS):
            line.send(self.frame(version=(7, 8)[count % 2]))
            until(lambda count=count: reader.dropped == count)
        assert reader.version(1) == 100

    def test_a_too_large_message_is_not_received_and_the_next_one_is(self, reader: SocketMailbox, line: Push) -> None:
        line.send(self.frame() + b"x" * (1 << 20))

        def good_comes() -> bool:  # zmq has closed the connection and takes a moment to reconnect
            line.send(self.frame())
            return reader.version(1) == 5

        until(good_comes)

    @settings(max_examples=examples(200))
    @given(st.lists(st.binary(max_size=MAILBOX.size + 4 * SMALL + 4), max_size=3))
    def test_random_frames_are_dropped_without_error(self, reader_of_bytes: SocketMailbox, frames: list[bytes]) -> None:
        assert not reader_of_bytes.keep(frames)

    def test_bytes_of_a_stranger_do_not_disturb_messages(self, reader: SocketMailbox, tmp_path: Path) -> None:
        with socket.socket(socket.AF_UNIX) as stranger:
            stranger.connect(f"{tmp_path}/messages-0.sock")
            stranger.sendall(b"GET / HTTP/1.1\r\n\r\n" * 100)
            with closing(Push(address(tmp_path, 0))) as line:
                line.send(self.frame())
                until(lambda: reader.version(1) == 5)

    def test_the_socket_file_is_accessible_to_its_owner_only_and_removed_on_close(self, tmp_path: Path) -> None:
        mailbox = socket_mailbox(tmp_path, 0)
        assert (tmp_path / "messages-0.sock").stat().st_mode & 0o077 == 0
        mailbox.close()
        assert not (tmp_path / "messages-0.sock").exists()

    def test_the_error_about_an_endpoint_that_cannot_be_bound_names_it(self, tmp_path: Path) -> None:
        with pytest.raises(ChannelError, match="nowhere"):
            socket_mailbox(tmp_path / "nowhere", 0)

    def test_messages_go_to_the_peers_that_are_present_at_the_time(self, tmp_path: Path) -> None:
        there = [0, 1]
        mailbox = socket_mailbox(tmp_path, 0, size=SMALL, peers=lambda: there)
        reader = socket_mailbox(tmp_path, 2, size=SMALL, peers=lambda: ())
        first = mailbox.post(tattooed(0, 0, SMALL))
        there[:] = [0, 2]
        second = mailbox.post(tattooed(0, 1, SMALL))
        until(lambda: reader.version(0) == second)
        there[:] = [0]
        mailbox.post(tattooed(0, 2, SMALL))
        there[:] = [0, 2]
        last = mailbox.post(tattooed(0, 3, SMALL))
        until(lambda: reader.version(0) == last)
        assert content(reader, 0) == (last, 3) and first < second < last
        mailbox.close()
        reader.close()

    @pytest.mark.parametrize("counted", [False, True])
    def test_sending_counts_does_not_replace_weights_that_are_not_sent_yet(self, tmp_path: Path, counted: bool) -> None:
        def opened(learner: int) -> SocketMailbox:
            counts = None
            if counted:
                Segment.create(tmp_path / f"counts-{learner}", counts_fields(2)).close()
                counts = SharedCounts(Segment.open(tmp_path / f"counts-{learner}"), learner)
                counts.begin(0, 0)
                told[learner] = counts
            return SocketMailbox(learner, SMALL, ipc_transport(sockets, learner), lambda: (0, 1), counts=counts)

        told: dict[int, SharedCounts] = {}
        sockets = ByLearner(Ipc(f"{tmp_path}/messages.sock"))
        writer = opened(0)
        version = writer.post(tattooed(0, 3, SMALL))  # there is no reader yet, so the socket keeps the message
        if counted:
            told[0].add(0, 20)
        writer.tell_counts()
        reader = opened(1)
        until(lambda: reader.version(0) == version)
        assert content(reader, 0) == (version, 3)
        if counted:
            assert told[1].total == (20, 1)
        if counted:
            told[0].add(1, 20)
        writer.tell_counts()
        if counted:
            until(lambda: told[1].total == (40, 2))
        after = writer.post(tattooed(0, 4, SMALL))
        until(lambda: reader.version(0) == after)
        assert reader.dropped == 0
        writer.close()
        reader.close()
