"""The work of other programs: the same network, batch and precision as ours, or a refusal."""

from __future__ import annotations

import pytest

from benchmarks.peers.compare import HERE, REQUIREMENTS
from benchmarks.peers.works import (
    CHEAP,
    OURS,
    SAC_OURS,
    on_cartpole,
    on_continuous_actions,
    on_pong,
    on_ppo_of_numbers,
)
from benchmarks.request import shipped
from launch.errors import RunError
from launch.topology.load import load

SCRIPTS = HERE / "scripts"


def test_what_peers_are_compared_with_is_a_topology_and_their_environments_are_known() -> None:
    for keys in OURS.values():
        load(shipped("pong.yaml"), keys)
    for keys in CHEAP.values():
        load(shipped("cartpole.yaml"), keys)
    for ours, theirs in ((OURS, on_pong(cores=2)), (CHEAP, on_cartpole())):
        for name, peer in theirs.items():
            assert (REQUIREMENTS / f"{peer.environment}.txt").is_file()
            assert {peer.against, peer.also} <= {*ours, None}
            assert (SCRIPTS / peer.script).is_file()
            for word in ("nips", "nature", "fp32", "bf16"):  # the same network and precision on both sides
                assert (word in name) == (word in peer.against)


def test_sac_is_compared_on_the_topologys_environment_and_sizes_with_one_torch_thread_and_two() -> None:
    topology = load(shipped("pendulum-sac.yaml"), ["model.hidden_sizes=[32, 16]"])
    work = ("Pendulum-v1", "4", "256", "0.001")
    assert [(peer.arguments, peer.against) for peer in on_continuous_actions(topology, cores=2).values()] == [
        ((*work, "1", "32", "16"), SAC_OURS),
        ((*work, "2", "32", "16"), SAC_OURS),
    ]
    assert len(on_continuous_actions(topology, cores=1)) == 1


def test_ppo_of_continuous_actions_is_compared_in_the_topologys_shape() -> None:
    topology = load(shipped("control/halfcheetah-ppo.yaml"), ["simulators.count=1", "simulators.envs=8"])
    peers = on_ppo_of_numbers(topology, cores=2).values()
    work = ("HalfCheetah-v5", "8", "256", "8", "10", "0.001")
    assert [peer.arguments for peer in peers] == [("1", *work), ("2", *work)] * 2
    for peer in peers:
        assert (REQUIREMENTS / f"{peer.environment}.txt").is_file()
        assert (SCRIPTS / peer.script).is_file()


@pytest.mark.parametrize("keys", [["model.hidden_sizes=[32]"], ["algorithm.name=a2c"]])
def test_a_topology_that_ppo_peers_cannot_do_is_refused_with_the_keys_that_they_need(keys: list[str]) -> None:
    with pytest.raises(RunError, match=r"algorithm\.name: ppo, model\.name: mlp and hidden_sizes"):
        on_ppo_of_numbers(load(shipped("control/halfcheetah-ppo.yaml"), keys), cores=2)


@pytest.mark.parametrize(
    ("name", "keys"), [("cartpole.yaml", ()), ("pendulum-sac.yaml", ("replay.ratio=128.0",)), ("atari/dqn.yaml", ())]
)
def test_a_topology_that_sac_peers_cannot_do_is_refused_with_the_keys_that_they_need(
    name: str, keys: tuple[str, ...]
) -> None:
    with pytest.raises(RunError, match=r"algorithm\.name: sac.*replay\.ratio equal to replay\.batch_size"):
        on_continuous_actions(load(shipped(name), keys), cores=2)
