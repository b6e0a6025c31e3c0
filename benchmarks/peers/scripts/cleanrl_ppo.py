"""CleanRL's ``ppo_atari_envpool``, as its package has it, timed from outside. Usage: SECONDS. Prints one JSON line.

Its own settings: 8 environments, 128 steps, 4 epochs of 4 minibatches, the Nature network. It prints "SPS" once
an update; the rate is measured between these lines, without its start.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version

STEPS_AN_UPDATE = 8 * 128
WARMUP_UPDATES = 2


def main() -> None:
    """Measure and print."""
    seconds = float(sys.argv[1])
    command = [sys.executable, "-u", "-m", "cleanrl.ppo_atari_envpool", "--cuda", "False", "--env-id", "Pong-v5"]
    moments: list[float] = []
    said: list[str] = []
    with tempfile.TemporaryDirectory() as folder:  # it writes TensorBoard files where it is
        process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        for line in process.stdout or ():
            said.append(line)
            if line.startswith("SPS:"):
                moments.append(time.monotonic())
            if len(moments) > WARMUP_UPDATES + 1 and moments[-1] - moments[WARMUP_UPDATES] >= seconds:
                break
        process.kill()
        process.wait()
    if len(moments) < WARMUP_UPDATES + 2:
        sys.exit(said[-1].strip() if said else "it said nothing")
    updates = len(moments) - 1 - WARMUP_UPDATES
    rate = updates * STEPS_AN_UPDATE / (moments[-1] - moments[WARMUP_UPDATES])
    print(json.dumps({"steps_per_s": rate, "version": f"cleanrl {version('cleanrl')}"}), flush=True)


if __name__ == "__main__":
    main()
