from __future__ import annotations

import time

from actorlearn.nearest import ROUGHLY, nearest, nearest_few


def test_a_slip_is_taken_for_the_word_it_is_most_like() -> None:
    assert nearest("horizn", ["discount", "horizon", "horizons"]) == "horizon"
    assert nearest("lunarlander", ["CartPole-v1", "LunarLander-v3"], ROUGHLY) == "LunarLander-v3"
    assert nearest("PPO", ["a2c", "ppo"]) == "ppo"


def test_several_words_are_given_the_most_similar_first() -> None:
    assert nearest_few("steps_l", ["loss", "step", "steps_l2"], 2) == ["steps_l2", "step"]


def test_what_is_like_nothing_has_no_suggestion_unless_any_will_do() -> None:
    assert nearest("xyz", ["horizon", "discount"]) == ""
    assert nearest("xyz", ["horizon"], likeness=0.0) == "horizon"
    assert nearest("", []) == ""


def test_a_word_of_any_length_is_compared_in_no_time() -> None:
    began_s = time.process_time()  # other programs of the machine do not count
    assert nearest("a" * 1_000_000, ["a" * 64]) == "a" * 64
    assert time.process_time() - began_s < 1.0
