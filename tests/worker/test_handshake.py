from __future__ import annotations

from actorlearn.actions import MultiDiscrete
from actorlearn.envs.interface import EnvSpec
from actorlearn.wire.identity import ProcessId
from actorlearn.wire.messages import Hello, decode, encode
from actorlearn.worker.handshake import shape_to_match
from launch.plan.probe import Description


def test_who_has_made_an_environment_and_who_has_asked_of_it_say_the_same() -> None:
    seen = {"observation_shape": (1, 10, 10), "observation_dtype": "uint8", "frames_per_step": 1}
    made = EnvSpec(actions=3, **seen)
    asked = Description(actions=3, columns={}, weights=1, **seen)
    said = shape_to_match("catch", made, horizon=5, blocks=2, groups=1)
    assert said == shape_to_match("catch", asked, horizon=5, blocks=2, groups=1)
    assert (said["observation"], said["algorithm.horizon"], said["simulators.blocks"]) == ("uint8[1, 10, 10]", "5", "2")


def test_a_simulator_with_thousands_of_choices_at_once_says_hello() -> None:
    def made(sizes: list[int]) -> EnvSpec:
        return EnvSpec(
            actions=MultiDiscrete(tuple(sizes)), observation_shape=(4,), observation_dtype="uint8", frames_per_step=1
        )

    sizes = [2] * 3000
    others = [*sizes[:1500], 3, *sizes[1501:]]
    said, other = (shape_to_match("env", made(each), horizon=5, blocks=2, groups=1) for each in (sizes, others))
    assert said["actions"] != other["actions"], "they differ in one part in the middle"
    hello = Hello(id=ProcessId("simulator", 0), pid=1, run_id="run-1", protocol=1, version="0.1.0", shape=said)
    assert decode(encode(hello), "supervisor") == hello
