"""Fuzz a target for as long as you like: ``python -m tests.fuzz.by_hand TARGET [--seconds 600] [--folder FOLDER]``.

With atheris (``pip install atheris``; it is not a dependency) readers are instrumented, and inputs are chosen by the
branches that they reach. Half of the inputs are raw bytes, half are made from bytes by the target's strategy. Without
atheris the strategy draws at random. Inputs that reached new branches stay in FOLDER, from which the next call
continues. An input that fails is printed; add it to ``found.py`` when the reader is fixed.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

MOST_BYTES = 8192
"""Largest input; ``test_inputs.py`` counts what larger ones cost."""

try:
    import atheris  # type: ignore[import-not-found, unused-ignore]
except ImportError:
    atheris = None

with (
    atheris.instrument_imports(include=["actorlearn", "launch", "yaml", "json"])
    if atheris
    else contextlib.nullcontext()
):
    from hypothesis import HealthCheck, given, settings

    from tests.fuzz.targets import Target, targets
    from tests.fuzz.watched import unwatched


def main() -> None:
    """Run one target."""
    made = targets()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target", choices=[name.replace(" ", "-") for name in made])
    parser.add_argument("--seconds", type=int, default=600)
    parser.add_argument("--folder", type=Path, help="folder of inputs that are kept")
    told = parser.parse_args()
    target = made[next(name for name in made if name.replace(" ", "-") == told.target)]
    with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="fuzz-") as scratch:
        read = in_folders(target, Path(scratch))
        with unwatched():
            assert read(target.right)
        if atheris:
            by_branches(target, read, told.seconds, told.folder)
        else:
            at_random(target, read, told.seconds)


def in_folders(target: Target, scratch: Path) -> Callable[[bytes], bool]:
    """Return a reader that reads each input in a new folder, and removes it."""
    numbers = itertools.count()

    def read(data: bytes) -> bool:
        folder = scratch / str(next(numbers))
        folder.mkdir()
        try:
            return target.read(data, folder)
        except BaseException:
            print(f"FOUND: {data!r}", file=sys.stderr, flush=True)
            raise
        finally:
            shutil.rmtree(folder)

    return read


def by_branches(target: Target, read: Callable[[bytes], bool], seconds: int, kept: Path | None) -> None:
    """Let atheris look for inputs that reach new branches; it ends the process."""

    @settings(database=None, deadline=None, suppress_health_check=list(HealthCheck))
    @given(target.inputs)
    def structured(data: bytes) -> None:
        read(data)

    def one(data: bytes) -> None:
        if data[:1] < b"\x80":
            read(data[1:])
        else:
            structured.hypothesis.fuzz_one_input(data[1:])

    corpus = kept or Path(tempfile.mkdtemp(dir="/dev/shm", prefix="fuzz-"))
    corpus.mkdir(parents=True, exist_ok=True)
    small = [example for example in (target.right, *target.hostile) if len(example) < MOST_BYTES]
    for number, example in enumerate(small):
        (corpus / f"given-{number}").write_bytes(b"\x00" + example)
    limits = [f"-max_total_time={seconds}", f"-max_len={MOST_BYTES}", "-timeout=60", "-rss_limit_mb=4000"]
    atheris.Setup([sys.argv[0], *limits, str(corpus)], one)
    atheris.Fuzz()


def at_random(target: Target, read: Callable[[bytes], bool], seconds: int) -> None:
    """Draw inputs until the time is over."""
    count, deadline_s = itertools.count(), time.monotonic() + seconds

    @settings(max_examples=1_000, database=None, deadline=None, suppress_health_check=list(HealthCheck))
    @given(target.inputs)
    def structured(data: bytes) -> None:
        next(count)
        if time.monotonic() < deadline_s:
            read(data)

    while time.monotonic() < deadline_s:
        structured()
    print(f"{next(count):,} inputs read")


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
