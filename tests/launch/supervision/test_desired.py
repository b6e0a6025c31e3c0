"""Orders are sent again until they are applied, and their versions only rise."""

from __future__ import annotations

from actorlearn.wire.messages import Applied, Order
from launch.supervision import events as ev
from tests.launch.supervision.story import ROLES, asked, received, running, up


def test_an_order_is_sent_again_until_it_is_applied() -> None:
    story = running()
    version = story.supervisor.order.version
    applied = [received(n, Applied(order=version)) for n in ROLES if n != "trainer"]
    story.at(1.4, *applied, ev.Tick())
    assert story.orders == {}
    assert set(story.at(1.5, ev.Tick()).orders) == {"trainer.0"}
    assert story.at(1.9, ev.Tick()).orders == {}
    assert set(story.at(2.0, ev.Tick()).orders) == {"trainer.0"}
    story.at(2.1, received("trainer", Applied(order=version)))
    assert story.at(9.0, ev.Tick()).orders == {}


def test_an_order_is_sent_again_although_an_older_one_was_applied() -> None:
    story = running().at(1.2, received("trainer", Applied(order=1)))
    assert "trainer.0" in story.at(2, ev.Tick()).orders


def test_versions_of_orders_only_rise() -> None:
    story = running().at(2, ev.Exited("simulator-0", 0, -9)).at(3, ev.Tick())
    story.at(4, *up("simulator-0", incarnation=1), asked("save"), ev.Interrupted())
    versions = [send.message.version for send in story.ever(ev.Send) if isinstance(send.message, Order)]
    assert versions == sorted(versions)
    assert len(set(versions)) == 6
