"""Evaluation: whole games as many as asked for, the weights that are played, and when."""

import signal
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from actorlearn.acting.exploration import mix
from actorlearn.address import ByLearner, Ipc, Shm
from actorlearn.memory.progress import progress_fields
from actorlearn.memory.shared import Segment
from actorlearn.metrics.timings import SECTIONS
from actorlearn.parameters.published import Published, weights_fields
from actorlearn.processes import evaluator
from actorlearn.processes.evaluator import (
    AVERAGE,
    EvaluationSchedule,
    PublishedWeights,
    Repeats,
    open_if_there,
    play,
    players,
    summary,
)
from actorlearn.wire.channel import Router
from actorlearn.wire.identity import ProcessId
from actorlearn.wire.messages import Evaluated, Finished, Message, Order, Warned, decode, encode
from actorlearn.worker.settings import EvaluatorSettings
from tests import named
from tests.acting.policies import policy, policy_settings
from tests.identities import address_of, peer

CARTPOLE = named.env(id="CartPole-v1")


@pytest.mark.parametrize("episodes", [1, 3, 8, 11])
def test_exactly_as_many_whole_games_are_played_as_asked_for(episodes: int) -> None:
    steps = 0
    scores = []
    for score in play(policy(), CARTPOLE, episodes, greedy=False, seed=1):
        if score is None:
            steps += 1
        else:
            scores.append(score)
    assert len(scores) == episodes
    assert all(score >= 8 for score in scores), "CartPole pays 1 a step and cannot fall in fewer than 8"
    assert steps >= max(scores)


@pytest.mark.parametrize("algorithm", ["a2c", "ppo", "impala"])
def test_games_of_box_actions_are_played_sampled_and_greedily(algorithm: str) -> None:
    pendulum = named.env(id="Pendulum-v1", time_limit_steps=20)
    box = policy(numbers=3, actions=(1,), algorithm=algorithm)
    sampled, greedy = ([s for s in play(box, pendulum, 3, greedy, seed=1) if s is not None] for greedy in (False, True))
    assert len(sampled) == len(greedy) == 3
    assert sampled != greedy and max(sampled + greedy) < 0


def test_the_same_seed_plays_the_same_games_and_another_does_not() -> None:
    def scores(seed: int) -> list[float]:
        return [s for s in play(policy(), CARTPOLE, 6, greedy=False, seed=seed) if s is not None]

    assert scores(1) == scores(1) != scores(2)


@pytest.mark.nightly
def test_fire_begins_a_game_that_stands_still() -> None:
    breakout = named.env(id="ALE/Breakout-v5", noop_max=0, time_limit_steps=600)
    idle: Any = SimpleNamespace(state_size=0, choose=lambda *_: {"action": torch.zeros(2, dtype=torch.int64)})

    def steps(fire_after: int) -> int:
        return [*play(idle, breakout, 2, greedy=True, seed=1, fire_after=fire_after)].count(None)

    assert (steps(0), steps(601)) == (600, 600), "nobody serves, and the limit ends the games"
    assert 100 < steps(30) < 600, "five balls are served and lost"


def test_nothing_is_pressed_in_games_without_fire() -> None:
    freeway = named.env(id="ALE/Freeway-v5", noop_max=0, time_limit_steps=200)
    idle: Any = SimpleNamespace(state_size=0, choose=lambda *_: {"action": torch.zeros(1, dtype=torch.int64)})
    scores = [score for score in play(idle, freeway, 1, greedy=True, seed=1, fire_after=1) if score is not None]
    assert scores == [0.0], "its second action is up, by which the chicken crosses"


def test_repeats_are_counted_for_each_environment_and_from_the_start_of_its_game() -> None:
    repeats = Repeats(3)
    none, third = np.zeros(3, np.bool_), np.array([False, False, True])
    counts = [repeats.count(np.array(actions), none).tolist() for actions in ([1, 2, 3], [1, 0, 3], [1, 0, 3])]
    assert counts == [[1, 1, 1], [2, 1, 2], [3, 2, 3]]
    assert repeats.count(np.array([0, 0, 3]), third).tolist() == [1, 3, 1]


def test_random_numbers_depend_on_the_moment_and_on_nothing_else() -> None:
    one, other = policy(), policy()
    observation = torch.zeros(64, 4)
    first = one.choose(observation, moment=5)["action"]
    one.choose(observation, moment=6)
    assert torch.equal(one.choose(observation, moment=5)["action"], first)
    assert torch.equal(other.choose(observation, moment=5)["action"], first)
    assert not torch.equal(other.choose(observation, moment=6)["action"], first)


def test_mixed_seeds_and_moments_seldom_collide_in_32_bits() -> None:
    drawn = {mix(seed, moment) for seed in range(40) for moment in range(500)}
    assert len(drawn) > 19_980  # of 20,000: a few meet by chance in 32 bits
    assert all(0 <= number < 2**32 for number in drawn)


def test_a_summary_has_mean_deviation_extremes_and_all_scores() -> None:
    assert summary([1.0, 3.0]) == {
        "episodes": 2,
        "mean": 2.0,
        "std": pytest.approx(2**0.5),
        "min": 1.0,
        "max": 3.0,
        "returns": [1.0, 3.0],
    }
    assert summary([4.0])["std"] == 0.0


def published(folder: Path, learner: int) -> Published:
    return Published(Segment.create(folder / f"weights-{learner}", weights_fields(3)))


def test_learners_are_followed_as_they_come_and_go(tmp_path: Path) -> None:
    first, second = (published(tmp_path, learner) for learner in (0, 12))
    learners = PublishedWeights(ByLearner(Shm(str(tmp_path / "weights"))))
    assert (learners.env_steps, learners.weights()) == (None, (0, {}))
    first.publish(np.full(3, 1.0, np.float32), env_steps=10)
    assert learners.env_steps == 10
    learners.follow([peer("trainer-0.0"), peer("trainer-12.3"), peer("trainer-13.0")])  # the last one has left again
    assert list(learners.weights()[1]) == ["trainer-0"]  # the other has published nothing yet
    for version in range(3):
        second.publish(np.full(3, version, np.float32), env_steps=20 + version)
    version, weights = learners.weights()
    assert (version, learners.env_steps) == (2, 22)
    assert {name: flat.tolist() for name, flat in weights.items()} == {
        "trainer-0": [1.0] * 3,
        "trainer-12": [2.0] * 3,
    }
    learners.follow([peer("trainer-12.3")])
    assert list(learners.weights()[1]) == ["trainer-12"]


def test_the_new_segment_of_a_restarted_trainer_is_opened(tmp_path: Path) -> None:
    """A learner that moves to another node and back leaves a mapping of removed weights behind."""
    learners = PublishedWeights(ByLearner(Shm(str(tmp_path / "weights"))))
    published(tmp_path, 1).publish(np.full(3, 1.0, np.float32), env_steps=10)
    learners.follow([peer("trainer-1.0")])
    assert learners.env_steps == 10
    (tmp_path / "weights-1").unlink()
    published(tmp_path, 1).publish(np.full(3, 2.0, np.float32), env_steps=20)
    learners.follow([peer("trainer-1.1")])
    assert learners.env_steps == 20 and list(learners.weights()[1]) == ["trainer-1"]


def test_learners_that_share_a_segment_of_weights_are_one_policy(tmp_path: Path) -> None:
    published(tmp_path, 0).publish(np.full(3, 4.0, np.float32), env_steps=10)
    learners = PublishedWeights(Shm(str(tmp_path / "weights-0")))
    learners.follow([peer("trainer-0.0"), peer("trainer-1.0")])
    assert list(learners.weights()[1]) == ["trainer-0"]


def scored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, learners: list[ProcessId]) -> list[Message]:
    """Run an evaluator that is ordered to play the final weights of these learners; return its messages."""
    monkeypatch.setattr(evaluator, "set_policy", lambda _: True)  # the test's own scheduling class stays
    Segment.create(tmp_path / "progress", progress_fields(len(SECTIONS))).close()
    before, router = signal.getsignal(signal.SIGTERM), Router(Ipc(f"{tmp_path}/control"))
    said: list[Message] = []

    def supervise() -> None:
        while not said or not isinstance(said[-1], Finished):
            peer_id, text = router.recv(30_000) or pytest.fail("the evaluator said nothing")
            said.append(decode(text, "supervisor"))
            if len(said) == 1:
                router.send(peer_id, encode(Order(version=1, phase="score", learners=learners)))

    settings = EvaluatorSettings(
        id=ProcessId("evaluator", 0),
        run_id="run",
        control=address_of(router),
        progress=Shm(str(tmp_path / "progress")),
        index=0,
        seed=0,
        env=CARTPOLE,
        policy=policy_settings(),
        weights=ByLearner(Shm(str(tmp_path / "weights"))),
        own_weights=False,
        every_steps=None,
        episodes=2,
        greedy=True,
    )
    supervisor = Thread(target=supervise)
    supervisor.start()
    evaluator.run(settings)
    supervisor.join()
    router.close()
    signal.signal(signal.SIGTERM, before)
    return [message for message in said if isinstance(message, Evaluated | Warned | Finished)]


def test_an_evaluator_that_finds_no_final_weights_warns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    warned, over = scored(tmp_path, monkeypatch, [peer("trainer-0.0")])
    assert isinstance(warned, Warned) and isinstance(over, Finished)
    said = "the final weights were not evaluated, because this machine has received no weights; "
    said += "`actorlearn eval RUN` evaluates them"
    assert warned.text == said


def test_learners_with_equal_weights_are_one_policy_whoever_of_them_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = policy().flat.numel()
    for learner, env_steps in ((0, 100), (1, 900), (2, 900)):
        there = Published(Segment.create(tmp_path / f"weights-{learner}", weights_fields(size)))
        there.publish(np.zeros(size, np.float32), env_steps=env_steps)
    played, _ = scored(tmp_path, monkeypatch, [peer("trainer-1.0"), peer("trainer-2.0")])
    assert isinstance(played, Evaluated)
    assert (played.env_steps, len(played.returns), played.learners) == (900, 2, {})


def test_of_learners_with_equal_weights_the_newest_are_played(tmp_path: Path) -> None:
    """A learner may have made an update that another one has not yet published."""
    learners = PublishedWeights(ByLearner(Shm(str(tmp_path / "weights"))), own_weights=False)
    for learner, env_steps in ((0, 10), (1, 20), (2, 20)):
        published(tmp_path, learner).publish(np.full(3, env_steps, np.float32), env_steps=env_steps)
    learners.follow([peer("trainer-0.0"), peer("trainer-1.0"), peer("trainer-2.0")])
    assert learners.env_steps == 20
    assert {name: flat.tolist() for name, flat in learners.weights()[1].items()} == {"trainer-1": [20.0] * 3}


def test_weights_that_are_not_on_this_machine_yet_are_opened_once_they_are(tmp_path: Path) -> None:
    secondary = Shm(str(tmp_path / "weights-0"))
    assert open_if_there(None) is open_if_there(secondary) is None
    learners = PublishedWeights(secondary)
    learners.follow([peer("trainer-1.0")])
    assert learners.env_steps is None
    published(tmp_path, 0).publish(np.full(3, 4.0, np.float32), env_steps=10)
    learners.follow([peer("trainer-0.1"), peer("trainer-1.0")])
    there = open_if_there(secondary)
    assert there is not None and there.env_steps == learners.env_steps == 10


def test_the_weights_of_several_learners_and_their_average_are_played() -> None:
    one, other = torch.tensor([1.0, 2.0]), torch.tensor([3.0, -2.0])
    assert list(players({"trainer-0": one})) == [AVERAGE]
    assert players({"trainer-0": one})[AVERAGE].tolist() == [1.0, 2.0]
    several = players({"trainer-0": one, "trainer-1": other})
    assert list(several) == ["trainer-0", "trainer-1", AVERAGE]
    assert several[AVERAGE].tolist() == [2.0, 0.0]


def played(schedule: EvaluationSchedule, *looks: int) -> list[int]:
    """Return which of these steps, seen one after the other, an evaluator plays."""
    found = []
    for env_steps in looks:
        if schedule.due(env_steps):
            found.append(env_steps)
            schedule.note_played(env_steps)
    return found


def test_evaluations_stay_on_the_multiples_however_late_each_is() -> None:
    assert played(EvaluationSchedule(100), 0, 96, 104, 192, 199, 203, 299, 312, 398, 400, 899) == [
        104,
        203,
        312,
        400,
        899,
    ]


def test_a_restarted_evaluator_waits_for_the_next_multiple() -> None:
    assert played(EvaluationSchedule(100), 140, 196, 204) == [204]
    resumed = EvaluationSchedule(100)
    assert played(resumed, 1_340, 1_396) == []  # the weights that the trainer has restored
    assert played(resumed, 1_404) == [1_404]


def test_without_a_period_only_the_last_weights_are_played() -> None:
    schedule = EvaluationSchedule(None)
    assert played(schedule, 0, 104, 10**12) == []
    assert schedule.due(10**12 + 1, last=True)


def test_the_last_weights_are_played_once_wherever_they_fall() -> None:
    schedule = EvaluationSchedule(100)
    assert played(schedule, 0, 104, 151) == [104]
    assert schedule.due(151, last=True)
    schedule.note_played(151)
    assert not schedule.due(151, last=True)
    assert not EvaluationSchedule(100).due(0, last=True)  # the initial weights
