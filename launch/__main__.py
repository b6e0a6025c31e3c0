"""``python -m launch`` in a checkout: the same as ``actorlearn``."""

from actorlearn.__main__ import main

main()
