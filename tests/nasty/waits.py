"""A module that takes for ever to import."""

import time

time.sleep(10**6)
