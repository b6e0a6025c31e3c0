"""Fixtures for whole runs, from tests/system."""

from tests.system.conftest import command, environment, launched, sockets_root

__all__ = ["command", "environment", "launched", "sockets_root"]
