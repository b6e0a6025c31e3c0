"""Contract tests of plug-ins: classes with tests of all that the rest of the system relies on, for inheritance.

    from actorlearn.testing.environment import EnvironmentContract

    class TestCorridor(EnvironmentContract):
        section = {"id": "my_package:Corridor"}

`pytest` then collects the inherited tests with your own. The shipped environments, networks and algorithms are tested
by the same classes. Only tests import this package: it needs pytest, which a run does not need.
"""

import pytest

# So that a failed assert shows the compared values, as in a test file.
pytest.register_assert_rewrite(*(f"actorlearn.testing.{name}" for name in ("algorithm", "environment", "model")))
