"""Sweeps of all kinds that are killed at any point do each run once, and decide the same as without kills."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from launch.sweeps.axes import Axis, Choices, Range, Values, combinations, draw_different
from launch.sweeps.decisions import OVER, WAIT, Listed, Population, Search, next_generation, next_step, open_runs
from launch.sweeps.history import Begun, Dropped, History, RunId, Trial
from launch.sweeps.keys import PopulationKeys
from launch.sweeps.slots import Slots
from tests.launch.sweeps.worlds import Killed, World

AXES: list[Axis] = [Range("rate", 0.001, 1.0, log=True), Choices("horizon", (5, 10, 20))]

seeds = st.lists(st.integers(0, 50), min_size=1, max_size=4, unique=True)
listed = st.builds(
    lambda number, seed, seeds: Listed(draw_different(AXES, seed, number), seeds),
    st.integers(1, 5),
    st.integers(0, 100),
    seeds,
)
populations = st.builds(
    lambda seed, seeds, generations: Population(
        AXES, PopulationKeys(every_steps=1, seed=seed, quantile=0.4), seeds, 1, generations
    ),
    st.integers(0, 100),
    st.lists(st.integers(0, 50), min_size=2, max_size=6, unique=True),
    st.integers(1, 4),
)


def slots_of(at_once: int) -> Slots:
    """Return slots with nothing to share."""
    return Slots(at_once, "the test says so")


def score(values: Values, seed: int) -> float | None:
    """Return a score that depends on values and seed alone; for some of them None, as for a run that fails."""
    return None if (seed + int(1000 * values["rate"])) % 11 == 0 else values["rate"] * values["horizon"] + seed


def live_on(search: Search, world: World, random: Random, kills: list[int]) -> History:
    """Start the sweep again and again, killed after each of these numbers of chances, and at last run it to its end."""
    for chances in kills:
        try:
            return world.live(search, random, chances)
        except Killed:
            for _ in range(random.randrange(3)):  # runs go on meanwhile
                world.end_one(random)
    return world.live(search, random)


@given(
    st.one_of(listed, populations), st.integers(0, 2**32), st.lists(st.integers(0, 40), max_size=6), st.integers(1, 4)
)
def test_every_run_is_done_once_whenever_the_sweep_is_killed(
    search: Search, entropy: int, kills: list[int], at_once: int
) -> None:
    world = World(score, slots_of(at_once))
    history = live_on(search, world, Random(entropy), kills)
    expected = [run for trial in history.trials.values() for run in search.runs(trial)]
    assert sorted(history.ended) == sorted(expected) == sorted(world.begun)
    assert len({*world.begun}) == len(world.begun)
    assert world.most <= at_once and not world.alive
    assert search.choose(history) is OVER
    assert all(history.ended[run].score == world.over[run] for run in expected)


@given(
    st.one_of(listed, populations), st.integers(0, 2**32), st.lists(st.integers(0, 40), max_size=6), st.integers(1, 4)
)
def test_kills_and_the_order_in_which_runs_end_change_no_trial_and_no_score(
    search: Search, entropy: int, kills: list[int], at_once: int
) -> None:
    killed = live_on(search, World(score, slots_of(at_once)), Random(entropy), kills)
    whole = World(score, slots_of(1)).live(search, Random(0))
    assert killed.trials == whole.trials
    assert {run: ended.score for run, ended in killed.ended.items()} == {
        run: ended.score for run, ended in whole.ended.items()
    }


@given(
    st.one_of(listed, populations),
    st.integers(0, 2**32),
    st.lists(st.integers(0, 40), max_size=6),
    st.lists(st.sampled_from("abc"), min_size=1, max_size=4),
)
def test_a_host_is_free_only_when_its_run_has_ended_also_after_a_kill_of_the_sweep(
    search: Search, entropy: int, kills: list[int], hosts: list[str]
) -> None:
    world = World(score, Slots(len(hosts), "as many as hosts", hosts=hosts))
    history = live_on(search, world, Random(entropy), kills)
    assert history.has_ended(world.begun)
    assert all(not Counter(busy) - Counter(hosts) for busy in world.busy)
    runs = sum(len(search.runs(trial)) for trial in history.trials.values())
    if runs >= len(hosts) and not kills and isinstance(search, Listed):
        assert sorted(max(world.busy, key=len)) == sorted(hosts), "every host has its runs"


@given(st.lists(st.integers(1, 4), max_size=3))
def test_a_grid_has_every_combination_once(sizes: list[int]) -> None:
    axes = [Choices(f"key{number}", tuple(range(size))) for number, size in enumerate(sizes)]
    found = combinations(axes)
    count = 1
    for size in sizes:
        count *= size
    assert len(found) == len({tuple(values.items()) for values in found}) == count
    assert all([*values] == [axis.key for axis in axes] for values in found)


def test_begun_runs_come_before_other_runs_and_these_before_new_trials() -> None:
    search, world = Listed([{"rate": 0.1}, {"rate": 0.2}], [1, 2]), World(score, slots_of(1))
    with suppress(Killed):
        world.live(search, Random(0), 5)  # begun, chosen, and started with the first seed
    history = world.history()
    assert (history.starts.keys(), len(history.trials)) == ({(0, 1)}, 1)
    assert next_step(search, history, set()) == RunId(0, 1)
    assert next_step(search, history, {RunId(0, 1)}) == RunId(0, 2)
    second = Trial(number=1, values={"rate": 0.2})
    assert next_step(search, history, {RunId(0, 1), RunId(0, 2)}) == second
    assert next_step(search, history, set(), set_aside={RunId(0, 1), RunId(0, 2)}) == second


def test_a_generation_waits_for_the_previous_one_and_is_given_up_if_its_runs_are_set_aside() -> None:
    search = Population(AXES, PopulationKeys(every_steps=1), [1, 2], 1, generations=2)
    world = World(lambda values, seed: float(seed), slots_of(2))
    with suppress(Killed):
        world.live(search, Random(0), 10)  # both members of the first generation are chosen and begun
    history, both = world.history(), {RunId(0, 1), RunId(1, 2)}
    assert world.alive == both
    assert next_step(search, history, both) is WAIT
    assert next_step(search, history, set(), set_aside=both) is OVER


def test_a_population_in_which_all_fail_is_over() -> None:
    search = Population(AXES, PopulationKeys(every_steps=1), [1, 2, 3], 1, generations=3)
    history = World(lambda values, seed: None, slots_of(2)).live(search, Random(0))
    assert len(history.trials) == 3 and all(ended.status == "failed" for ended in history.ended.values())


def test_only_begun_runs_of_a_dropped_trial_are_open() -> None:
    search, world = Listed([{"rate": 0.1}], [1, 2]), World(score, slots_of(1))
    with suppress(Killed):
        world.live(search, Random(0), 5)
    history = world.history()
    history.add(Dropped(trial=0, env_steps=5, score=0.0, bound=1.0))
    assert open_runs(search, history) == [RunId(0, 1)]
    assert next_step(search, history, {RunId(0, 1)}) is WAIT
    assert next_step(search, history, set()) is OVER


RATE = [Range("rate", 0.001, 1.0, log=True)]
scored = st.lists(st.one_of(st.none(), st.integers(-5, 5).map(float)), min_size=2, max_size=12).filter(
    lambda scores: any(score is not None for score in scores)
)


@given(scored, st.floats(0.01, 0.5), st.integers(1, 5))
def test_the_worst_members_continue_from_some_of_the_best_and_the_others_from_themselves(
    scores: list[float | None], quantile: float, generation: int
) -> None:
    keys = PopulationKeys(every_steps=1, quantile=quantile)
    before = [{"rate": 0.1 + place / 100} for place in range(len(scores))]
    found = next_generation(RATE, keys, generation, before, scores)
    known = sorted((score for score in scores if score is not None), reverse=True)
    count = max(1, int(quantile * len(scores)))
    for place, (member, score) in enumerate(zip(found, scores, strict=True)):
        values, parent = member
        from_score = scores[parent]
        assert from_score is not None, "no member continues from one that has failed"
        if parent == place:
            assert values == before[place]
        else:
            assert score is None or score <= from_score
            assert from_score >= known[min(count, len(known)) - 1], "its parent is one of the best"
            assert values["rate"] != before[parent]["rate"]
    replaced = [place for place, member in enumerate(found) if member[1] != place]
    lost = [place for place, score in enumerate(scores) if score is None]
    assert {*lost} <= {*replaced} and len(replaced) <= max(count, len(lost))


def test_each_member_of_the_worst_fifth_is_replaced_by_one_of_the_best_fifth() -> None:
    keys = PopulationKeys(every_steps=1)
    before = [{"rate": (place + 1) / 100} for place in range(10)]
    found = next_generation(RATE, keys, 1, before, [float(place) for place in range(10)])
    assert [parent for _, parent in found[2:]] == [*range(2, 10)]
    for values, parent in found[:2]:
        assert parent in (8, 9)
        ratio = values["rate"] / before[parent]["rate"]
        assert min(abs(ratio - 0.8), abs(ratio - 1.2)) < 1e-5


def first_generation(seed: int, members: int) -> list[Values]:
    search, history = Population(RATE, PopulationKeys(every_steps=1, seed=seed), range(members), 1, 2), History()
    history.add(Begun(format=1, version="", keys={}, topology=""))
    for _ in range(members):
        trial = search.choose(history)
        assert isinstance(trial, Trial)
        history.add(trial)
    return [trial.values for trial in history.trials.values()]


def test_generations_follow_from_seed_and_number_alone() -> None:
    keys, first = PopulationKeys(every_steps=1, seed=4), first_generation(4, 5)
    assert first == first_generation(4, 5) and first[:3] == first_generation(4, 3)
    assert first != first_generation(5, 5)
    scores = [0.0, 1.0, 2.0, 3.0, 4.0]
    assert next_generation(RATE, keys, 1, first, scores) == next_generation(RATE, keys, 1, first, scores)
    assert len({str(next_generation(RATE, keys, number, first, scores)) for number in range(1, 9)}) > 1
