"""A module that cannot be imported."""

raise ImportError("the engine needs a key")
