"""``python -m launch``: the same as ``actorlearn``."""

from launch.cli import main

main()
