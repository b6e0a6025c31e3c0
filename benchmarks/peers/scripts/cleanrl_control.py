"""CleanRL's ``ppo_continuous_action``, as its repository has it, timed from outside.

Usage: SECONDS THREADS ENV ENVIRONMENTS HORIZON MINIBATCHES EPOCHS LEARNING_RATE. Its network has two hidden layers of
64 with tanh for policy and value each. It prints "SPS" once an update; the rate is measured between these lines,
without its start. Its gymnasium has the environments of v4, which MuJoCo steps as those of v5. Prints one JSON line.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version

WARMUP_UPDATES = 2


def main() -> None:
    """Measure and print."""
    seconds, threads, env, environments, horizon, minibatches, epochs, learning_rate = sys.argv[1:]
    options = {
        "env-id": re.sub("-v5$", "-v4", env),
        "num-envs": environments,
        "num-steps": horizon,
        "num-minibatches": minibatches,
        "update-epochs": epochs,
        "learning-rate": learning_rate,
    }
    command = [sys.executable, "-u", "-m", "cleanrl.ppo_continuous_action", "--no-cuda"]
    command += [word for name, value in options.items() for word in (f"--{name}", value)]
    moments: list[float] = []
    said: list[str] = []
    with tempfile.TemporaryDirectory() as folder:  # it writes TensorBoard files where it is
        process = subprocess.Popen(
            command,
            cwd=folder,
            env={**os.environ, "OMP_NUM_THREADS": threads},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for line in process.stdout or ():
            said.append(line)
            if line.startswith("SPS:"):
                moments.append(time.monotonic())
            if len(moments) > WARMUP_UPDATES + 1 and moments[-1] - moments[WARMUP_UPDATES] >= float(seconds):
                break
        process.kill()
        process.wait()
    if len(moments) < WARMUP_UPDATES + 2:
        sys.exit(said[-1].strip() if said else "it said nothing")
    updates = len(moments) - 1 - WARMUP_UPDATES
    rate = updates * int(environments) * int(horizon) / (moments[-1] - moments[WARMUP_UPDATES])
    print(json.dumps({"steps_per_s": rate, "version": f"cleanrl {version('cleanrl')}"}), flush=True)


if __name__ == "__main__":
    main()
