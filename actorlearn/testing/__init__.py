"""Contract tests: what the rest of the system relies on, as classes whose tests an author of a plug-in inherits.

    from actorlearn.testing.environment import EnvironmentContract

    class TestCorridor(EnvironmentContract):
        section = {"id": "my_package:Corridor"}

`pytest` then collects the inherited tests with one's own. The shipped environments, networks and algorithms are held to
the same classes. Only tests import this package: it needs pytest, which a run does not.
"""

import pytest

# So that a failed assert shows the values compared, as in a test file.
pytest.register_assert_rewrite(*(f"actorlearn.testing.{name}" for name in ("algorithm", "environment", "model")))
