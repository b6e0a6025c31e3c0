"""Classes of policy lag cover all lags, each once, and say which they are."""

from __future__ import annotations

from actorlearn.algorithms.lags import LAG_CLASSES


def test_every_lag_is_of_one_class() -> None:
    assert all(sum(lag in one for one in LAG_CLASSES) == 1 for lag in range(50))


def test_each_class_of_lags_has_words() -> None:
    said = ["0 updates", "1 update", "2 to 3 updates", "4 to 7 updates", "8 or more updates"]
    assert [one.words for one in LAG_CLASSES] == said
