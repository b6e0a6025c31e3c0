"""Messages and the sockets and pipes they pass through; this file holds the required version of libzmq.

It imports nothing, so that it can be imported where libzmq is missing or broken.
"""

MINIMUM_LIBZMQ = (4, 3, 5)
"""Oldest version of libzmq that is accepted; older ones have known remote crashes."""
