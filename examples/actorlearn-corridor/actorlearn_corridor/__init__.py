"""An environment, a network and an algorithm for actorlearn: ``docs/plugins.md`` explains each file."""
