"""Random events in random order: old incarnations stay ignored, and restart budgets hold."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from actorlearn.wire.identity import ProcessId
from launch.plan.plan import PlannedProcess, Start
from launch.supervision import events as ev
from tests.examples import examples
from tests.launch.supervision.story import (
    RESTARTS,
    ROLES,
    TWO,
    WINDOW_S,
    Story,
    asked,
    failed,
    finished,
    hello,
    planned,
    spawned,
)


class AnyHistory(RuleBasedStateMachine):
    """Random events in random order; whatever happens, the invariants hold, and two Ctrl-C end the run."""

    roles = ROLES
    mode = "sync"

    @initialize()
    def begin(self) -> None:
        self.story = Story(self.roles, mode=self.mode)
        self.living: set[tuple[str, int]] = set()
        self.spawns: dict[str, list[float]] = {}
        self.questions = 0
        self.learner = {process.name: process.id.learner for process in planned(self.roles)}
        self.happen(ev.Begin())

    def happen(self, event: ev.Event) -> None:
        self.questions += isinstance(event, ev.ClientRequest) and self.story.done is None
        self.story.then(event)
        events = []
        for action in self.story.last:
            if isinstance(action, Start):
                assert action.name not in {name for name, _ in self.living}, "two living incarnations of one name"
                self.living.add((action.name, action.incarnation))
                if action.incarnation > 0:
                    self.spawns.setdefault(action.name, []).append(self.story.now_s)
                events.append(spawned(action.name, action.incarnation))
            elif isinstance(action, ev.Enlarge):
                events.append(ev.Enlarged(action.client, self.more(action)))
        for event in events:
            self.happen(event)

    def more(self, action: ev.Enlarge) -> tuple[PlannedProcess, ...]:
        number, learner = len(self.seen("simulator")), len(self.seen("trainer"))
        if action.learners:
            ids = [ProcessId("trainer", learner, learner), ProcessId("simulator", number, learner)]
        else:
            ids = [ProcessId("simulator", number, self.learners()[0])]
        self.learner |= {own.name: own.learner for own in ids}
        return tuple(PlannedProcess(own, 0) for own in ids)

    def learners(self) -> list[int]:
        """Learners whose trainers are listed; like the plan, the supervisor forgets trainers that have gone."""
        return [self.learner[p["name"]] for p in self.story.supervisor.processes() if p["role"] == "trainer"]

    def seen(self, *roles: str) -> set[str]:
        return {spawn.name for spawn in self.story.ever(Start) if spawn.name.startswith(roles)}

    @rule(seconds=st.sampled_from([0.05, 0.2, 1.0, 5.0, 61.0, 121.0]))
    def time_passes(self, seconds: float) -> None:
        self.story.now_s += seconds
        self.happen(ev.Tick())

    @precondition(lambda self: self.living)
    @rule(data=st.data(), returncode=st.sampled_from([-9, -15, 0, 1, 3]))
    def one_dies(self, data: st.DataObject, returncode: int) -> None:
        key = data.draw(st.sampled_from(sorted(self.living)))
        self.living.discard(key)
        self.happen(ev.Exited(*key, returncode))

    @rule(
        data=st.data(),
        incarnation=st.integers(0, 3),
        say=st.sampled_from([hello, lambda n, i: hello(n, i, run_id="x"), lambda n, i: failed(n, "E: x", i)]),
    )
    def one_speaks(self, data: st.DataObject, incarnation: int, say: Any) -> None:
        known = sorted(self.living) + [(name, incarnation) for name in self.roles]
        self.happen(say(*data.draw(st.sampled_from(known))))

    @precondition(lambda self: self.living)
    @rule(data=st.data(), reason=st.sampled_from(["drained", "stopped", "stopped", "total_steps"]))
    def one_finishes(self, data: st.DataObject, reason: str) -> None:
        name, incarnation = data.draw(st.sampled_from(sorted(self.living)))
        self.happen(finished(name, reason, incarnation))

    @rule(data=st.data())
    def one_hangs(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.roles)))
        self.happen(ev.Silent(name, 0, 30.0, "it waits", data.draw(st.booleans()), data.draw(st.booleans())))
        if data.draw(st.booleans()):
            self.happen(ev.Stalled(name, 0, 30.0))

    @rule(command=st.sampled_from(["attach", "save", "status", "stop"]))
    def someone_asks(self, command: str) -> None:
        self.happen(asked(command, simulators=1))

    @rule()
    def someone_brings_a_learner(self) -> None:
        self.happen(asked("attach", learners=1))

    @rule(data=st.data())
    def someone_detaches(self, data: st.DataObject) -> None:
        self.happen(asked("detach", names=[data.draw(st.sampled_from(sorted(self.seen("simulator", "trainer"))))]))

    @invariant()
    def restarts_stay_within_the_budget(self) -> None:
        for times in getattr(self, "spawns", {}).values():
            for then_s, now_s in zip(times, times[RESTARTS:], strict=False):
                assert now_s - then_s >= WINDOW_S

    @invariant()
    def members_are_alive(self) -> None:
        if hasattr(self, "story"):
            order, phase = self.story.supervisor.order, self.story.supervisor.phase
            ending = phase in ("ending", "over")  # orders are not renewed once all processes are told to end
            assert ending or {(member.id.name, member.id.incarnation) for member in order.members} <= self.living

    @invariant()
    def used_segments_are_not_dropped(self) -> None:
        if hasattr(self, "story"):
            order = self.story.supervisor.order
            used = {member.id.socket_id for member in (*order.members, *order.gone)}
            used |= {f"{name}.{incarnation}" for name, incarnation in self.living}
            assert used.isdisjoint(word for action in self.story.ever(ev.DropMembers) for word in action.ids)

    @invariant()
    def processes_without_a_trainer_are_told_to_end(self) -> None:
        if hasattr(self, "story"):
            learners, told = self.learners(), {(kill.name, kill.incarnation) for kill in self.story.ever(ev.Kill)}
            for listed in self.story.supervisor.processes():
                key = listed["name"], listed["incarnation"]
                own = listed["role"] != "evaluator" and self.learner[listed["name"]] not in learners
                assert not own or key in told or listed["name"] in self.story.supervisor.order.leaving, key
            assert learners, "a run has a learner until its end"

    def teardown(self) -> None:
        if hasattr(self, "story"):
            self.happen(ev.Interrupted())
            self.happen(ev.Interrupted())
            assert len(self.story.ever(ev.Done)) == 1
            assert isinstance(self.story.all[-1], ev.Done)
            assert len(self.story.ever(ev.Answer)) == self.questions, "every question gets one answer"


class AnyHistoryOfTwo(AnyHistory):
    """Random events in a run of two learners."""

    roles = TWO


class AnyHistoryOfGossip(AnyHistoryOfTwo):
    """Random events in a run whose learners are attached and detached."""

    mode = "gossip"


ANYTHING = settings(max_examples=examples(40), stateful_step_count=40, suppress_health_check=list(HealthCheck))
AnyHistory.TestCase.settings = AnyHistoryOfTwo.TestCase.settings = AnyHistoryOfGossip.TestCase.settings = ANYTHING
TestAnyHistory, TestAnyHistoryOfTwo = AnyHistory.TestCase, AnyHistoryOfTwo.TestCase
TestAnyHistoryOfGossip = AnyHistoryOfGossip.TestCase
