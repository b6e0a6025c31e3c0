"""Contract tests for plug-ins: test classes that check that a plug-in behaves as its interface says.

Derive a test class from one of them and set its attributes:

    from actorlearn.testing.environment import EnvironmentContract

    class TestCorridor(EnvironmentContract):
        section = {"id": "my_package:Corridor"}

`pytest` then runs the inherited tests together with your own. The built-in environments, networks and algorithms are
tested by the same classes. Only tests may import this package, because it needs pytest.
"""

import pytest

# So that a failed assert shows the compared values, as in a test file.
pytest.register_assert_rewrite(*(f"actorlearn.testing.{name}" for name in ("algorithm", "environment", "model")))
