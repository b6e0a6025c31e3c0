"""Population-based training: the worst go on from the best, with values near theirs; all others go on as they are."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from launch.sweeps.axes import Range
from launch.sweeps.keys import PopulationKeys
from launch.sweeps.population import first_generation, next_generation

AXES = [Range("rate", 0.001, 1.0, log=True)]
scored = st.lists(st.one_of(st.none(), st.integers(-5, 5).map(float)), min_size=2, max_size=12).filter(
    lambda scores: any(score is not None for score in scores)
)


@given(scored, st.floats(0.01, 0.5), st.integers(1, 5))
def test_the_worst_go_on_from_some_of_the_best_and_the_others_from_themselves(
    scores: list[float | None], quantile: float, generation: int
) -> None:
    keys = PopulationKeys(every_steps=1, quantile=quantile)
    before = [{"rate": 0.1 + place / 100} for place in range(len(scores))]
    found = next_generation(AXES, keys, generation, before, scores)
    known = sorted((score for score in scores if score is not None), reverse=True)
    count = max(1, int(quantile * len(scores)))
    for place, (member, score) in enumerate(zip(found, scores, strict=True)):
        assert member.parent is not None
        from_score = scores[member.parent]
        assert from_score is not None, "nobody goes on from a member that has failed"
        if member.parent == place:
            assert member.values == before[place]
        else:
            assert score is None or score <= from_score
            assert from_score >= known[min(count, len(known)) - 1], "its parent is one of the best"
            assert member.values["rate"] != before[member.parent]["rate"]
    replaced = [place for place, member in enumerate(found) if member.parent != place]
    lost = [place for place, score in enumerate(scores) if score is None]
    assert {*lost} <= {*replaced} and len(replaced) <= max(count, len(lost))


def test_a_fifth_is_replaced_each_by_one_of_the_best_fifth() -> None:
    keys = PopulationKeys(every_steps=1)
    before = [{"rate": (place + 1) / 100} for place in range(10)]
    found = next_generation(AXES, keys, 1, before, [float(place) for place in range(10)])
    assert [member.parent for member in found[2:]] == [*range(2, 10)]
    for member in found[:2]:
        assert member.parent in (8, 9)
        ratio = member.values["rate"] / before[member.parent]["rate"]
        assert min(abs(ratio - 0.8), abs(ratio - 1.2)) < 1e-5


def test_generations_follow_from_seed_and_number_alone() -> None:
    keys = PopulationKeys(every_steps=1, seed=4)
    first = first_generation(AXES, keys, 5)
    assert first == first_generation(AXES, keys, 5) and first[:3] == first_generation(AXES, keys, 3)
    assert first != first_generation(AXES, PopulationKeys(every_steps=1, seed=5), 5)
    before, scores = [member.values for member in first], [0.0, 1.0, 2.0, 3.0, 4.0]
    assert next_generation(AXES, keys, 1, before, scores) == next_generation(AXES, keys, 1, before, scores)
    assert len({str(next_generation(AXES, keys, number, before, scores)) for number in range(1, 9)}) > 1


def test_of_two_the_better_goes_on_and_the_other_from_it() -> None:
    keys = PopulationKeys(every_steps=1)
    found = next_generation(AXES, keys, 1, [{"rate": 0.1}, {"rate": 0.2}], [1.0, 2.0])
    assert [member.parent for member in found] == [1, 1] and found[1].values == {"rate": 0.2}
    equal = next_generation(AXES, keys, 1, [{"rate": 0.1}, {"rate": 0.2}], [1.0, 1.0])
    assert [member.parent for member in equal] == [0, 0], "of equal ones the first is the best"
