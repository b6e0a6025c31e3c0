"""``python -m tests.chaos``; ``main`` is in a module that the processes of its pool can import by name."""

import sys

from tests.chaos.campaign import main

sys.exit(main())
