"""Messages and the sockets and pipes they pass through; what any of it needs of the machine stands here.

Imports nothing, so that it can be asked where libzmq is missing or broken.
"""

MINIMUM_LIBZMQ = (4, 3, 5)
"""Older ones have known remote crashes."""
