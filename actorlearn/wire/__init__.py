"""Messages between processes, the sockets and pipes through which they pass, and keys for network connections.

This file imports nothing, so that it can be imported where libzmq is missing or broken.
"""

MINIMUM_LIBZMQ = (4, 3, 5)
"""Oldest version of libzmq that is accepted; older ones have known remote crashes."""
