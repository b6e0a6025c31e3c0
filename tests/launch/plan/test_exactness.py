"""Which runs can be resumed exactly, and the reasons given for the others."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from launch.commands import check
from launch.plan.exactness import KEY, MOST_BYTES, choose_exact, depends_on, hindrances, reason_to_begin_anew
from launch.plan.planning import plan
from launch.topology.load import Topology, TopologyError, parse
from tests.launch.described import DESCRIPTION

CARTPOLE = "env: {id: CartPole-v1}"


@pytest.mark.parametrize(
    "overrides",
    [
        [],
        ["learners.count=2"],
        ["inference.count=1", "simulators.groups=2", "simulators.reset=wait"],
        ["simulators.blocks=2", "simulators.weights=rollout"],
    ],
)
def test_a_run_in_lock_step_has_exact_checkpoints_unless_the_topology_forbids_them(overrides: list[str]) -> None:
    topology = parse(CARTPOLE, overrides)
    assert hindrances(topology, DESCRIPTION) == []
    for word, value in (("auto", True), ("true", True), ("false", False)):
        assert choose_exact(parse(CARTPOLE, [*overrides, f"{KEY}={word}"]), DESCRIPTION).value is value


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (["mode=gossip", "learners.count=2"], "mode: gossip: "),
        (["mode=async", "learners.count=2"], "mode: async: "),
        (["inference.count=1", "inference.batch_rows=8"], "inference.batch_rows: 8: "),
        (["simulators.blocks=2"], "simulators.blocks: 2: "),
        (["algorithm.name=impala"], "simulators.blocks: 2: "),
        (["trainer.device=cuda"], "trainer.device: cuda: "),
        (["inference.device=cuda"], "inference.device: cuda: "),
        (["algorithm.name=dqn"], "replay.save: false: "),
    ],
)
def test_keys_that_make_a_run_depend_on_timing_or_on_unsaved_state_are_named(overrides: list[str], said: str) -> None:
    described = DESCRIPTION
    (found,) = hindrances(parse(CARTPOLE, overrides), described)
    assert found.startswith(said)
    assert choose_exact(parse(CARTPOLE, overrides), described).why == found
    refused = f"^{KEY}: true: this run has no exact checkpoints: {said}.*; change .*, or set {KEY} to auto or false$"
    with pytest.raises(TopologyError, match=refused):
        choose_exact(parse(CARTPOLE, [*overrides, f"{KEY}=true"]), described)


def test_an_environment_that_cannot_be_saved_is_named() -> None:
    described = msgspec.structs.replace(DESCRIPTION, inexact="the environment my:Game cannot be saved")
    assert hindrances(parse(CARTPOLE), described) == ["env.id: the environment my:Game cannot be saved"]


def test_large_blocks_are_saved_only_if_the_topology_asks_for_it() -> None:
    large = msgspec.structs.replace(DESCRIPTION, observation_shape=(MOST_BYTES // 4 // 17 // 16,))
    found = choose_exact(parse(CARTPOLE), large)
    assert not found.value and "write true" in found.why
    assert choose_exact(parse(CARTPOLE, [f"{KEY}=true"]), large).value


def test_the_plan_has_the_decision_and_its_topology_keeps_auto() -> None:
    for overrides, exact in (([], True), (["simulators.blocks=2"], False)):
        made = plan(parse(CARTPOLE, overrides), DESCRIPTION)
        assert made.exact is exact
        (said,) = (choice for choice in made.choices if choice.key == KEY)
        assert said.value is exact
        assert check.as_json(made)["choices"][-1] == {"key": KEY, "value": exact, "why": said.why}
        assert made.topology.checkpoint.exact == "auto"


def test_simulators_continue_their_games_only_if_the_keys_they_depend_on_are_unchanged() -> None:
    own = {"inexact": "", "rollouts": 3, "simulators": [{"role": "simulator"}], "weights": "0a"}
    saved = {**own, "depends_on": depends_on(parse(CARTPOLE))}

    def why(*overrides: str, state: dict[str, Any] = saved) -> str:
        return reason_to_begin_anew([state], [["simulator-0"]], parse(CARTPOLE, overrides))

    for unchanged in ("total_steps=9", "optimizer.learning_rate=0.1", "checkpoint.keep=9", "algorithm.entropy_cost=1"):
        assert why(unchanged) == ""
    assert why("env.time_limit_steps=9") == "env.time_limit_steps was 0 in the checkpoint and is 9 now"
    for other in ("seed=9", "simulators.envs=4", "inference.count=1", "algorithm.horizon=3", "learners.count=2"):
        assert why(other).startswith(other.partition("=")[0] + " was ")
    assert why(state={}) == "the checkpoint is not exact: it has no snapshots of simulators"
    assert why(state={**saved, "inexact": "simulator-0 has ended"}) == (
        "the checkpoint is not exact: simulator-0 has ended"
    )
    attached = {**saved, "simulators": [{"role": "simulator"}, {"role": "simulator", "number": 7}]}
    assert why(state=attached) == (
        "the checkpoint has snapshots of simulator-0 and simulator-7, and the run starts with simulator-0"
    )
    assert why(state={**saved, "simulators": []}) == ""  # no simulator had begun


def test_a_moved_file_of_a_pickled_environment_does_not_prevent_an_exact_resume() -> None:
    def stored(folder: str, sha256: str = "0a") -> Topology:
        kwargs = f"{{file: {folder}/environment.pickle, sha256: '{sha256}'}}"
        return parse(f"env: {{id: 'actorlearn.envs.pickled:Corridor', kwargs: {kwargs}}}")

    saved = {"inexact": "", "simulators": [], "weights": "0a", "depends_on": depends_on(stored("runs/old"))}
    assert reason_to_begin_anew([saved], [["simulator-0"]], stored("runs/new")) == ""
    assert reason_to_begin_anew([saved], [["simulator-0"]], stored("runs/old", "0b")).startswith("env.kwargs was ")


def test_a_key_that_an_older_checkpoint_lacks_counts_as_its_default() -> None:
    def why(lacks: str, *overrides: str) -> str:
        then, now = (parse(CARTPOLE, ["model.name=mixed", *keys]) for keys in ((), overrides))
        before = {key: value for key, value in depends_on(then).items() if key != lacks}
        state = {"inexact": "", "simulators": [{"role": "simulator"}], "weights": "0a", "depends_on": before}
        return reason_to_begin_anew([state], [["simulator-0"]], now)

    added = (
        "model.layer_norm",
        "model.images",
        "env.wrappers",
        "simulators.blocks",
        "inference.threads",
    )
    for key in added:
        assert why(key) == ""
    said = "model.layer_norm was False in the checkpoint and is True now"
    assert why("model.layer_norm", "model.layer_norm=true") == said
    assert why("seed") == "seed was None in the checkpoint and is 1 now", "every version has saved the seed"


def test_learners_in_lock_step_resume_exactly_only_if_they_saved_the_same_weights() -> None:
    topology = parse(CARTPOLE, ["learners.count=2", "simulators.count=1"])
    names = [["simulator-0"], ["simulator-1"]]
    saved = {"inexact": "", "rollouts": 3, "depends_on": depends_on(topology)}
    one, other = ({**saved, "simulators": [{"role": "simulator", "number": number}]} for number in range(2))
    assert reason_to_begin_anew([{**one, "weights": "0a"}, {**other, "weights": "0a"}], names, topology) == ""
    assert "at different times" in reason_to_begin_anew(
        [{**one, "weights": "0a"}, {**other, "weights": "0b"}], names, topology
    )
