"""The signal at which a process writes its stack: it never ends a process, also while the process ends slowly."""

from __future__ import annotations

import subprocess
import sys
import time

from actorlearn.processes.parent import STACK_SIGNAL

PROGRAM = """if True:
    import ctypes, sys
    from actorlearn.processes.__main__ import main
    libc = ctypes.CDLL(None)
    libc.on_exit(ctypes.cast(libc.sleep, ctypes.c_void_p), None)  # sleep(status) after Python has ended
    sys.exit(main(["spaces", "/missing/settings.json"]))
"""


def test_a_process_that_ends_slowly_survives_its_stack_signal() -> None:
    with subprocess.Popen([sys.executable, "-c", PROGRAM], stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert "settings.json" in process.stderr.readline()  # the handler is there
        ended_s = time.monotonic()
        while process.poll() is None:
            process.send_signal(STACK_SIGNAL)
            time.sleep(0.05)
        assert process.returncode == 2, "its own status, not that of the signal"
        assert time.monotonic() - ended_s > 0.5, "the signals came after Python had ended"
