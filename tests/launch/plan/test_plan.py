"""The plan: rows, names, seeds, segments and settings of processes, at the start of a run and after changes."""

from __future__ import annotations

from collections.abc import Iterable
from types import SimpleNamespace

import msgspec
import pytest

from actorlearn.memory.progress import ROWS
from actorlearn.memory.shared import segment_bytes
from actorlearn.memory.shared_rollout import message_fields, message_size
from actorlearn.parameters.mixing import GraphSettings
from actorlearn.parameters.settings import GossipExchangeSettings, SyncExchangeSettings
from actorlearn.replay.rows import replay_fields
from actorlearn.wire.identity import ProcessId
from actorlearn.worker.settings import EvaluatorSettings, InferenceSettings, SimulatorSettings, TrainerSettings
from launch.commands import check
from launch.plan.plan import Plan, PlannedProcess
from launch.plan.planning import plan
from launch.plan.roles import server_of
from launch.runtime.process_table import ProcessTable
from launch.supervision import events as ev
from launch.topology.load import TopologyError, in_all, parse
from tests.launch.described import DESCRIPTION
from tests.launch.opened import ADDRESSES, named, told
from tests.launch.supervision.story import asked, lose, two


def planned(*overrides: str) -> Plan:
    topology = parse("env: {id: CartPole-v1}", ["simulators.count=2", *overrides])
    return plan(topology, DESCRIPTION, ADDRESSES)


def living(*overrides: str) -> ProcessTable:
    """The processes of a run that has just begun."""
    return ProcessTable(planned(*overrides), SimpleNamespace(add_learners=list, do=id))  # type: ignore[arg-type]


def rows(processes: Iterable[PlannedProcess]) -> list[int]:
    return [process.index for process in processes]


def remove(made: ProcessTable, name: str) -> None:
    made.listed.remove(named(made.listed, name))


def env_seeds(made: Plan, name: str, incarnation: int = 0) -> list[int]:
    settings = told(made, name, incarnation)
    assert isinstance(settings, SimulatorSettings)
    return settings.env_seeds


def test_the_key_cuda_graphs_reaches_the_settings_of_inference_servers() -> None:
    for word, expected in (("true", True), ("false", False)):
        settings = told(planned("inference.count=1", f"inference.cuda_graphs={word}"), "inference-0")
        assert isinstance(settings, InferenceSettings)
        assert settings.policy.cuda_graphs is expected


def test_more_processes_than_rows_are_refused_in_one_line() -> None:
    most = ROWS - 2  # a trainer and an inference server
    assert rows(planned(f"simulators.count={most}", "inference.count=1").processes) == list(range(ROWS))
    with pytest.raises(
        TopologyError, match=f"simulators.count {most + 1}, .* 257 processes, .* maximum is 256; write"
    ) as e:
        planned(f"simulators.count={most + 1}", "inference.count=1")
    assert "\n" not in str(e.value)
    with pytest.raises(TopologyError, match="1026 processes"):
        planned("simulators.count=1024", "inference.count=1")


@pytest.mark.parametrize("key", ["simulators.decorrelation_steps=5", "simulators.reset=wait"])
def test_keys_that_start_games_at_any_time_are_refused_for_environments_that_cannot(key: str) -> None:
    description = msgspec.structs.replace(DESCRIPTION, no_restart="my:Class cannot reset single games")
    plan(parse("env: {id: CartPole-v1}"), description)
    topology = parse("env: {id: CartPole-v1}", [key])
    says = (
        r"simulators.*: (5|wait): this key starts new games at any time, but my:Class cannot reset single games; leave"
    )
    with pytest.raises(TopologyError, match=says):
        plan(topology, description)


def test_simulators_can_be_added_and_removed_for_ever_and_no_name_is_used_twice() -> None:
    made = living()
    names = {process.name for process in made.listed}
    for _ in range(ROWS):
        for process in made.add_simulators(3):
            assert process.name not in names
            names.add(process.name)
            made.listed.remove(process)
        assert len(made.listed) == len(set(rows(made.listed))) == 3
    assert "simulator-769" in names


def test_a_replay_has_no_room_for_more_simulators_than_it_was_made_for() -> None:
    made = living("algorithm.name=dqn")
    with pytest.raises(TopologyError, match=r"attach 1 simulators: a replay has room for 2 simulators of a learner"):
        made.add_simulators(1)
    assert len(made.listed) == len(planned("algorithm.name=dqn").processes)
    remove(made, "simulator-0")
    assert [process.id.learner for process in made.add_simulators(1)] == [0]


def test_a_free_row_is_used_again_and_no_two_processes_share_a_row() -> None:
    made = living()
    row = named(made.listed, "simulator-0").index
    made.add_simulators(2)
    remove(made, "simulator-0")
    (new,) = made.add_simulators(1)
    assert (new.name, new.index) == ("simulator-4", row)
    assert len(set(rows(made.listed))) == len(made.listed)


def test_a_full_run_says_how_many_simulators_still_fit() -> None:
    made = living(f"simulators.count={ROWS - 4}", "inference.count=1")
    with pytest.raises(
        TopologyError, match="attach 3 simulators: .* at most 256 .* has 254; attach at most 2, or detach"
    ):
        made.add_simulators(3)
    assert [process.index for process in made.add_simulators(2)] == [ROWS - 2, ROWS - 1]


def test_evaluators_and_inference_servers_do_not_change_the_seeds_of_simulators() -> None:
    seeds = env_seeds(planned(), "simulator-1")
    for overrides in (["evaluator.count=1"], ["inference.count=2"], ["inference.count=0", "evaluator.count=1"]):
        assert env_seeds(planned(*overrides), "simulator-1") == seeds
    assert named(living("evaluator.count=1").listed, "simulator-1").index == named(living().listed, "simulator-1").index
    others = [env_seeds(planned(), "simulator-0"), env_seeds(planned(), "simulator-1", 1)]
    others.append(env_seeds(planned("seed=7"), "simulator-1"))
    assert all(other != seeds for other in others)


# Several learners -----------------------------------------------------------------------------------------------------


def test_each_learner_has_a_trainer_servers_and_simulators_of_its_own() -> None:
    made = planned("learners.count=2", "inference.count=2", "evaluator.count=1")
    assert [(process.name, process.id.learner) for process in made.processes] == [
        *(("trainer-0", 0), ("trainer-1", 1)),
        *(("inference-0", 0), ("inference-1", 0), ("inference-2", 1), ("inference-3", 1)),
        *(("simulator-0", 0), ("simulator-1", 0), ("simulator-2", 1), ("simulator-3", 1)),
        ("evaluator-0", 0),
    ]
    for name, learner, server in (("simulator-0", 0, 0), ("simulator-1", 0, 1), ("simulator-3", 1, 3)):
        settings = told(made, name)
        assert isinstance(settings, SimulatorSettings)
        assert settings.weights == ADDRESSES.own("weights", learner)
        assert settings.rollouts == ADDRESSES.own("rollouts", learner)
        assert settings.trainer_wakeup == ADDRESSES.wakeup(ProcessId("trainer", learner))
        assert settings.inference_wakeup == ADDRESSES.wakeup(ProcessId("inference", server))
        assert settings.id.learner == learner


def test_added_simulators_are_dealt_to_the_learners_in_turn() -> None:
    made = living("learners.count=2", "inference.count=1")
    new = made.add_simulators(3)
    assert [(process.name, process.id.learner) for process in new] == [
        ("simulator-4", 0),
        ("simulator-5", 1),
        ("simulator-6", 0),
    ]
    assert [
        server_of(planned("learners.count=2", "inference.count=1").topology, process.id).number for process in new
    ] == [0, 1, 0]


def test_no_two_simulators_of_any_learner_play_the_same_games() -> None:
    made = planned("learners.count=3")
    seeds = [seed for number in range(6) for seed in env_seeds(made, f"simulator-{number}")]
    assert len(set(seeds)) == len(seeds)


def test_gossip_has_segments_for_messages_and_counts_and_each_trainer_a_rank() -> None:
    made = planned("mode=gossip", "gossip.graph=[[1], [0]]", "gossip.gradient_every=5", "seed=3")
    names = [segment.name for segment in made.segments]
    assert names[:6] == ["weights-0", "rollouts-0", "account-0", "messages-0", "gradients-0", "counts"]
    settings = told(made, "trainer-0")
    assert isinstance(settings, TrainerSettings)
    exchange = settings.exchange
    assert isinstance(exchange, GossipExchangeSettings)
    assert (exchange.rank, exchange.learners, exchange.gradient_every) == (0, 1, 5)
    assert exchange.messages == ADDRESSES.each("messages")
    assert exchange.counts == ADDRESSES.segment("counts")
    assert exchange.log == str(ADDRESSES.run_dir / "exchanges-0.jsonl")
    assert exchange.graph == GraphSettings(name="lists", lists=((1,), (0,)))
    assert planned("mode=gossip", "seed=3").graph == GraphSettings(name="ring", seed=3)


def test_learners_that_share_experience_have_a_segment_for_it() -> None:
    shared = ("mode=gossip", "algorithm.name=impala", "simulators.envs=4", "gossip.experience=3")
    made = planned(*shared, "gossip.graph=none", "gossip.experience_graph=complete", "seed=3")
    (segment,) = (segment for segment in made.segments if segment.name == "experience-0")
    settings = told(made, "trainer-0")
    assert isinstance(settings, TrainerSettings) and settings.experience is not None
    experience = settings.experience
    assert (experience.messages, experience.environments) == (ADDRESSES.each("experience"), 3)
    assert experience.graph == GraphSettings(name="complete", seed=3)
    rows = message_size(message_fields(experience.shape, 3))
    assert 3 * 4 * rows <= segment.bytes <= 3 * 4 * rows + 20_000
    without = planned(*shared[:-1])
    assert "experience-0" not in [segment.name for segment in without.segments]
    assert told(without, "trainer-0").experience is None


def test_learners_in_sync_have_a_segment_for_the_gradients_of_all_learners() -> None:
    made = planned("mode=sync", "learners.count=3")
    floats = -(-made.description.weights // 16) * 16  # whole cache lines
    (segment,) = (segment for segment in made.segments if segment.name == "gradients")
    assert 4 * 2 * 3 * floats <= segment.bytes <= 4 * 2 * 3 * floats + 20_000
    settings = told(made, "trainer-1")
    assert isinstance(settings, TrainerSettings)
    assert isinstance(settings.exchange, SyncExchangeSettings)
    assert settings.exchange.gradients == ADDRESSES.segment("gradients")
    for overrides in (["learners.count=1"], ["learners.count=2", "mode=async"]):
        assert "gradients" not in [segment.name for segment in planned(*overrides).segments]


def test_the_plan_lists_the_sockets_that_processes_bind() -> None:
    two = ["learners.count=2", "inference.count=1", "evaluator.count=1"]
    for mode in ("sync", "async", "gossip"):
        made = planned(*two, f"mode={mode}")
        assert made.sockets == [ADDRESSES.control.endpoint]
    made = planned(*two, "mode=gossip", "gossip.transport=zmq")
    messages = [ADDRESSES.socket(f"messages-{learner}").endpoint for learner in range(2)]
    assert made.sockets == [ADDRESSES.control.endpoint, *messages]
    listens = told(made, "trainer-1").exchange.listens
    assert listens and listens.endpoint == messages[1]


# Learners that are attached and detached ------------------------------------------------------------------------------


GOSSIP = ("mode=gossip", "learners.count=2", "inference.count=1", "gossip.gradient_every=1")


def test_an_attached_learner_has_processes_of_its_own() -> None:
    made = living(*GOSSIP)
    new = made.add_learners(2)
    assert [(process.name, process.id.learner) for process in new] == [
        *(("trainer-2", 2), ("trainer-3", 3), ("inference-2", 2), ("inference-3", 3)),
        *(("simulator-4", 2), ("simulator-5", 2), ("simulator-6", 3), ("simulator-7", 3)),
    ]
    assert len(set(rows(made.listed))) == len(made.listed) == 16
    settings = told(planned(*GOSSIP), named(made.listed, "simulator-6").id)
    assert isinstance(settings, SimulatorSettings)
    assert (settings.weights, settings.rollouts) == (ADDRESSES.own("weights", 3), ADDRESSES.own("rollouts", 3))
    assert settings.trainer_wakeup == ADDRESSES.wakeup(ProcessId("trainer", 3))
    assert settings.inference_wakeup == ADDRESSES.wakeup(ProcessId("inference", 3))
    trainer = told(planned(*GOSSIP), named(made.listed, "trainer-3").id)
    assert isinstance(trainer, TrainerSettings)
    assert isinstance(trainer.exchange, GossipExchangeSettings)
    assert trainer.exchange.rank == trainer.learner == 3


def test_the_number_of_a_detached_learner_is_not_used_again() -> None:
    made = living(*GOSSIP)
    for process in [process for process in made.listed if process.id.learner == 0]:
        made.listed.remove(process)
    assert made.add_learners(1)[0].name == "trainer-2"
    assert [process.id.learner for process in made.add_simulators(4)] == [1, 2, 1, 2]


def test_learners_can_be_attached_until_rows_or_numbers_run_out() -> None:
    made = living(*GOSSIP)
    with pytest.raises(TopologyError, match="attach 62 learners: .* at most 256 .* has 10; attach at most 49") as error:
        living("mode=gossip", "learners.count=2", "simulators.count=4").add_learners(62)
    assert "\n" not in str(error.value)
    with pytest.raises(TopologyError, match="attach 63 learners: .* at most 64 .* has had 2; attach at most 62"):
        made.add_learners(63)
    for _ in range(62):
        for process in made.add_learners(1):
            made.listed.remove(process)
    with pytest.raises(TopologyError, match="has had 64; attach at most 0, or start another run"):
        made.add_learners(1)


def test_a_learner_that_the_gossip_graph_does_not_list_is_not_attached() -> None:
    made = living("mode=gossip", "learners.count=2", "gossip.graph=[[2], [0], [1]]")
    assert made.add_learners(1)[0].name == "trainer-2"
    with pytest.raises(TopologyError, match="attach 1 learners: .* 0 to 2, and the next learner is 3; .* longer lists"):
        made.add_learners(1)


def test_each_learner_of_a_replayed_algorithm_has_a_replay_whose_size_is_shown() -> None:
    keys = ["simulators.envs=4", "learners.count=2", "replay.capacity_steps=1001"]
    topology = parse("{env: {id: CartPole-v1}, algorithm: {name: dqn}}", ["simulators.count=2", *keys])
    made = plan(topology, DESCRIPTION)
    found = {segment.name: segment for segment in made.segments if segment.name.startswith("replay")}
    assert found.keys() == {"replay-0", "replay-1"}
    assert "8 rings of 126 + 5 rows" in found["replay-0"].what  # 1001 / 8, and a rollout of 4 with one row more
    settings = told(made, "trainer-1")
    assert isinstance(settings, TrainerSettings) and settings.replay is not None
    assert settings.replay.secondary is None
    assert settings.replay.segment.file.name == "replay-1"
    assert found["replay-1"].bytes == segment_bytes(replay_fields(settings.replay.shape))
    assert settings.rollout_steps == 4 * 2 * 8  # horizon, learners, environments of each
    assert settings.replay.settings.capacity_steps == 1001


@pytest.mark.parametrize(("mode", "own"), [("sync", False), ("async", True), ("gossip", True)])
def test_the_evaluator_of_several_learners_reads_the_weights_of_each(mode: str, own: bool) -> None:
    evaluator = told(planned(f"mode={mode}", "learners.count=2", "evaluator.count=1"), "evaluator-0")
    assert isinstance(evaluator, EvaluatorSettings)
    assert (evaluator.weights, evaluator.own_weights) == (ADDRESSES.each("weights"), own)


def test_a_secondary_learner_has_weights_of_its_own_that_the_evaluator_plays() -> None:
    topology = parse(
        "{env: {id: CartPole-v1}, algorithm: {name: dqn}}", ["evaluator.count=1", "replay.secondary_batch_size=64"]
    )
    made = plan(topology, DESCRIPTION)
    sizes = {segment.name: segment.bytes for segment in made.segments}
    assert sizes["secondary-0"] == sizes["weights-0"]
    trainer, evaluator = (told(made, name) for name in ("trainer", "evaluator-0"))
    assert isinstance(trainer, TrainerSettings) and trainer.replay is not None
    assert isinstance(evaluator, EvaluatorSettings)
    assert trainer.replay.secondary == evaluator.secondary == ADDRESSES.segment("secondary-0")
    assert trainer.replay.settings.secondary_batch_size == 64


def test_check_shows_the_scaled_learning_rate_and_epsilon_of_larger_batches() -> None:
    keys = ["learners.count=4", "learners.rate_scaling=sqrt"]
    larger = ["replay.batch_size=128", "replay.base_batch_size=32"]
    numbers = {}
    for name in ("dqn", "a2c"):
        own = [*keys, *larger] if name == "dqn" else keys
        topology = parse(f"{{env: {{id: CartPole-v1}}, algorithm: {{name: {name}}}}}", own)
        made = plan(topology, DESCRIPTION)
        found = check.optimizer(made)
        numbers[name] = [found[key] / getattr(topology.optimizer, key) for key in ("learning_rate", "epsilon")]
    assert numbers == {"dqn": [4.0, 0.25], "a2c": [2.0, 1.0]}


def test_a_learner_of_an_algorithm_without_replay_has_no_replay() -> None:
    assert not [segment for segment in planned().segments if segment.name.startswith("replay")]
    settings = told(planned(), "trainer")
    assert isinstance(settings, TrainerSettings) and settings.replay is None


def test_games_of_several_agents_are_not_split_between_groups_and_have_one_seed_each() -> None:
    def of_three(*overrides: str) -> Plan:
        topology = parse("env: {id: CartPole-v1}", ["simulators.count=2", *overrides])
        return plan(topology, msgspec.structs.replace(DESCRIPTION, agents=3))

    assert len(env_seeds(of_three("simulators.envs=12", "simulators.groups=2"), "simulator-1")) == 4
    with pytest.raises(TopologyError, match=r"simulators.envs: 8: .* has 3 agents, .* write 6 or 9$"):
        of_three("simulators.envs=8")
    with pytest.raises(TopologyError, match=r"must be a multiple of 6; write 6$"):
        of_three("simulators.envs=2", "simulators.groups=2")
    with pytest.raises(
        TopologyError, match=r"simulators.reset: wait: .* has 3 agents; write simulators.reset: inside$"
    ):
        of_three("simulators.envs=6", "simulators.reset=wait")
    assert planned("simulators.reset=wait").topology.simulators.reset == "wait"


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        ([], "0.003 to 0 at 100,000 steps, linear"),
        (["algorithm.name=dqn"], "0.001 to 0 at 100,000 steps, linear"),
        (["optimizer.learning_rate_final=1.0e-3", "schedule_steps=50_000"], "0.003 to 0.001 at 50,000 steps, linear"),
        (
            ["optimizer.schedule=constant", "optimizer.warmup_steps=500"],
            "0 to 0.003 in 500 steps, then 0.003 throughout",
        ),
        (["optimizer.schedule=cosine"], "0.003 to 0 at 100,000 steps, cosine"),
    ],
)
def test_check_shows_the_schedule_of_the_learning_rate(keys: list[str], says: str) -> None:
    assert check.learning_rate(parse("env: {id: CartPole-v1}\ntotal_steps: 100_000\n", keys)) == says


@pytest.mark.parametrize(("keys", "rows"), [([], "1,000"), (["model.statistics_rows=4_000"], "4,000")])
def test_check_says_that_statistics_are_collected_before_learning_begins(keys: list[str], rows: str) -> None:
    text = "{env: {id: CartPole-v1}, model: {normalize_observation: true}, total_steps: 100_000}"
    loaded = parse(text, keys)
    (said,) = (line for line in check.summary(loaded, plan(loaded, DESCRIPTION)) if "statistics" in line)
    assert f"learning begins after at least {rows} steps" in said and "do not count towards total_steps" in said
    assert said.endswith("model.statistics_rows changes their number")
    without = parse(text, ["model.normalize_observation=false"])
    assert "statistics" not in "".join(check.summary(without, plan(without, DESCRIPTION)))


def test_check_shows_the_environments_and_batch_steps_of_all_learners_together() -> None:
    keys = ["simulators.count=2", "simulators.envs=8", "algorithm.horizon=16"]
    text = "{env: {id: CartPole-v1}}"
    assert in_all(parse(text, keys)) == "1 learner with 16 environments and 256 steps per batch"
    assert in_all(parse(text, [*keys, "learners.count=2"])) == (
        "2 learners with 32 environments and 512 steps per batch in all (16 and 256 for each learner)"
    )
    found = check.as_json(planned("learners.count=2", "simulators.count=1", "simulators.envs=6"))
    steps = found["topology"]["algorithm"]["horizon"] * 12
    assert found["in_all"] == {"learners": 2, "environments": 12, "batch_steps": steps}


def test_attached_simulators_are_not_given_to_learners_that_were_given_up() -> None:
    made = living("learners.count=2")
    (asked_for,) = lose(two(), "trainer-1").then(asked("attach", simulators=3)).did(ev.Enlarge)
    enlarged = made.enlarge(asked_for)
    assert isinstance(enlarged, ev.Enlarged)
    assert [process.id.learner for process in enlarged.processes] == [0, 0, 0]
