"""Malformed messages from any peer do not disturb a real run."""

from __future__ import annotations

import pytest

from actorlearn import __version__
from actorlearn.wire.channel import Dealer
from actorlearn.wire.messages import PROTOCOL_VERSION, Request, encode
from launch.runs import find
from launch.runs.client import ask
from tests import odd_messages
from tests.system.conftest import PACED, Start

pytestmark = [pytest.mark.system, pytest.mark.timeout(300)]

PEERS = [
    *("cli-1", "cli-2", "trainer.1", "simulator-0.3", "evaluator-7.0", "nobody.0", "x.y", ".0"),
    *("trainer.0", "simulator-0.0", "simulator-1.0"),  # peers of these names are connected already
    *("trainer.0.failed", "simulator-1.0.failed"),
]


def test_ten_thousand_odd_messages_end_no_run(launched: Start) -> None:
    run = launched("catch", PACED, "total_steps=20_000")
    run.wait_for(run.rows, "row")
    found = find.read(run.run_dir)
    assert found
    dealers = [Dealer(found.control, peer) for peer in PEERS]
    odd_messages.send(dealers, 10_000, seed=1)
    dealers[0].send(encode(Request(protocol=PROTOCOL_VERSION, version=__version__, command="status")))
    run.wait_for(lambda: b"phase" in (dealers[0].recv() or b""), "answer behind all others")
    for dealer in dealers:
        dealer.close()
    assert ask(found, "status", timeout_s=30.0).data["phase"] == "running"
    reports = len(run.rows())
    run.wait_for(lambda: len(run.rows()) > reports + 5, "reports")
    run.full_speed()
    assert run.end() == 0, run.screen()
    assert run.summary()["status"] == "finished"
    assert run.leftovers() == []
    assert run.summary()["complaints"] > 1_000
    assert len([e for e in run.events("warned") if "was not understood" in e["cause"]]) < 20
    assert (run.run_dir / "events.jsonl").stat().st_size < 2**22
