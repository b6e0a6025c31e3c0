"""Sets the time slice and the scheduling class of this process in Linux. Needs no privilege.

Both apply to the calling thread, and to threads and processes that it starts later, so set them first. The functions
return ``False`` if nothing has changed: on an older kernel, or if a sandbox refuses the call.
"""

from __future__ import annotations

import ctypes
import os
import platform
from typing import Literal

SLICE_NS = 100_000
"""Time slice, in nanoseconds, of processes that wait for each other: the shortest that the kernel gives.

With it PAAC on two cores made 2,433 steps/s beside one busy process at nice 19, and 2,353 beside two. Without it there
were 2,332 and 2,145 steps/s. On an idle machine, and beside one busy process at nice 0, it made no difference."""

SchedulingClass = Literal["other", "batch", "idle"]
"""Scheduling class of Linux: other (the default), batch (a wakeup does not preempt the running thread), or idle (the
process gets only processor time that no other process uses)."""
POLICIES = {"other": os.SCHED_OTHER, "batch": os.SCHED_BATCH, "idle": os.SCHED_IDLE}
"""Scheduling class -> its number. Classes of these numbers share the processor by EEVDF."""

_SETATTR, _GETATTR = "sched_setattr", "sched_getattr"
_CALLS = {
    "x86_64": {_SETATTR: 314, _GETATTR: 315},
    "aarch64": {_SETATTR: 274, _GETATTR: 275},
}
"""Numbers of the system calls by machine; glibc before 2.41 has no functions for them."""
_RESET_ON_FORK = 0x40000000


class _Attributes(ctypes.Structure):
    """The C struct ``sched_attr`` of Linux in its first version (include/uapi/linux/sched/types.h)."""

    _fields_ = (
        ("size", ctypes.c_uint32),
        ("policy", ctypes.c_uint32),
        ("flags", ctypes.c_uint64),
        ("nice", ctypes.c_int32),
        ("priority", ctypes.c_uint32),
        ("runtime", ctypes.c_uint64),
        ("deadline", ctypes.c_uint64),
        ("period", ctypes.c_uint64),
    )


def set_slice(ns: int) -> bool:
    """Set the time slice, 100_000 to 100_000_000 nanoseconds, and return whether it is set.

    In Linux's scheduler EEVDF, a thread that wakes up waits for the end of the running thread's slice, unless its own
    slice is shorter. With a short slice it runs at once; its share of the processor is unchanged. This needs Linux
    6.12. Older kernels accept the call and ignore it, so the slice is read back. A process in a real-time class has no
    slice, and the result is False.
    """
    attributes = _attributes()
    if attributes is None or attributes.policy & ~_RESET_ON_FORK not in POLICIES.values():
        return False
    attributes.runtime = ns
    if _call(_SETATTR, ctypes.byref(attributes), 0) != 0:
        return False
    return slice_ns() == ns


def slice_ns() -> int:
    """Return the time slice of the calling thread in nanoseconds; 0 on kernels before Linux 6.12, which have none."""
    attributes = _attributes()
    return 0 if attributes is None else int(attributes.runtime)


def set_policy(policy: SchedulingClass) -> bool:
    """Change the scheduling class of this thread; returns whether that succeeded.

    The kernel may refuse a change from class idle, depending on the nice value and its limit.
    """
    try:
        os.sched_setscheduler(0, POLICIES[policy], os.sched_param(0))
    except OSError:
        return False
    return True


def _attributes() -> _Attributes | None:
    """Return the kernel's attributes of the calling thread; None if the call is not available."""
    attributes = _Attributes()
    size = ctypes.sizeof(attributes)
    if _call(_GETATTR, ctypes.byref(attributes), size, 0) != 0:
        return None
    attributes.size = size
    return attributes


def _call(name: str, *arguments: object) -> int:
    """Make one of the two system calls for the calling thread; returns -1 if it fails or is not available."""
    number = _CALLS.get(platform.machine(), {}).get(name)
    if number is None:
        return -1
    converted = [ctypes.c_long(value) if isinstance(value, int) else value for value in arguments]
    return int(ctypes.CDLL(None).syscall(ctypes.c_long(number), ctypes.c_long(0), *converted))
