"""Messages and gradients of learners that mix, compared."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from actorlearn.parameters.consensus import cosines, measure


def test_messages_are_measured_from_the_first_learner() -> None:
    messages = {5: np.array([1, 0, 0], np.float32), 2: np.array([0, 2, 0], np.float32)}

    def take(learner: int, out: NDArray[np.float32]) -> int:
        out[:] = messages[learner]
        return learner * 10

    measured = measure([5, 2], take, 3)
    assert measured.versions == {5: 50, 2: 20}
    assert measured.distances == {5: 0.0, 2: pytest.approx(5**0.5)}
    assert measured.distance == pytest.approx(5**0.5 / 2)


def test_cosines_of_gradients() -> None:
    told = cosines({k: np.array(v, np.float32) for k, v in {2: (0, 3), 0: (1, 0), 1: (-2, -2), 7: (0, 0)}.items()})
    assert told == {
        "0-1": pytest.approx(-(0.5**0.5)),
        "0-2": 0.0,
        "0-7": 0.0,
        "1-2": pytest.approx(-(0.5**0.5)),
        "1-7": 0.0,
        "2-7": 0.0,
    }
