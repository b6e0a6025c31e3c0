"""The contracts of actorlearn, inherited: `python -m pytest` in this folder runs some forty tests."""

from actorlearn.testing.algorithm import AlgorithmContract
from actorlearn.testing.environment import EnvironmentContract
from actorlearn.testing.model import ModelContract


class TestCorridor(EnvironmentContract):
    section = {"id": "actorlearn_corridor.environment:Corridor", "kwargs": {"length": 3}}


class TestCorridors(EnvironmentContract):
    """The kind of environments, which the package registers."""

    section = {"id": "corridors/v0", "length": 3}
    exact = False


class TestFourier(ModelContract):
    section = {"name": "fourier", "frequencies": 5}
    observation_shape = (2,)


class TestFourierWithAMemory(ModelContract):
    section = {"name": "fourier", "recurrence": "gru", "recurrent_size": 8}
    observation_shape = (2,)


class TestAWR(AlgorithmContract):
    section = {"name": "awr", "temperature": 0.5}


class TestAWROfNumbers(TestAWR):
    actions = (2,)
