"""Sample Factory's APPO on Pong with its own network (Nature), timed by what it logs.

Usage: SECONDS WORKERS ENVIRONMENTS EPOCHS: so many processes, environments in each, passes over a batch. All else is
its own default for Atari. It counts emulator frames, four to a step. Prints one JSON line.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version

FRAMES_A_STEP = 4
WARMUP_S = 20.0
_LINE = re.compile(r"Total num frames: (\d+)")


def main() -> None:
    """Measure and print."""
    seconds = float(sys.argv[1])
    workers, environments, epochs = sys.argv[2:]
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "sf_examples.atari.train_atari", "--algo=APPO", "--env=atari_pong"]
        command += ["--device=cpu", f"--train_dir={folder}", "--experiment=bench", "--async_rl=True"]
        command += [f"--num_workers={workers}", f"--num_envs_per_worker={environments}", "--worker_num_splits=2"]
        command += [f"--num_epochs={epochs}", f"--train_for_seconds={int(seconds + WARMUP_S + 30)}"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        seen: list[tuple[float, int]] = []
        said: list[str] = []
        first: tuple[float, int] | None = None
        for line in process.stdout or ():
            said.append(line)
            found = _LINE.search(line)
            if not found:
                continue
            seen.append((time.monotonic(), int(found[1])))
            if first is None and seen[-1][0] - seen[0][0] >= WARMUP_S:
                first = seen[-1]
            if first and seen[-1][0] - first[0] >= seconds:
                break
        process.kill()  # its workers outlive it: the caller of this script ends the whole session
    if first is None or seen[-1] == first:
        sys.exit((said or ["no output"])[-1].strip())
    rate = (seen[-1][1] - first[1]) / FRAMES_A_STEP / (seen[-1][0] - first[0])
    print(json.dumps({"steps_per_s": rate, "version": f"sample-factory {version('sample-factory')}"}), flush=True)


if __name__ == "__main__":
    main()
