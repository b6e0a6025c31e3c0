from __future__ import annotations

from actorlearn.envs.interface import EnvSpec
from actorlearn.worker.handshake import shape_to_match
from launch.plan.probe import Description


def test_who_has_made_an_environment_and_who_has_asked_of_it_say_the_same() -> None:
    seen = {"observation_shape": (1, 10, 10), "observation_dtype": "uint8", "frames_per_step": 1}
    made = EnvSpec(actions=3, **seen)
    asked = Description(actions=3, columns={}, weights=1, **seen)
    said = shape_to_match("catch", made, horizon=5, blocks=2, groups=1)
    assert said == shape_to_match("catch", asked, horizon=5, blocks=2, groups=1)
    assert (said["observation"], said["algorithm.horizon"], said["simulators.blocks"]) == ("uint8[1, 10, 10]", "5", "2")
