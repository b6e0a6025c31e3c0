"""Bad networks and algorithms, as a user would run them: one clear line each, nothing hangs, nothing is left behind."""

from __future__ import annotations

import pytest

from tests.nasty import environments, plugins
from tests.system.conftest import CONFIGS, Command, Start

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(600)]

SOUND = [f"env.id={environments.__name__}:Sound", "env.kwargs.after=1_000_000_000"]
SMALL = ["simulators.count=1", "simulators.envs=2", "algorithm.horizon=8"]

REFUSED = {
    "NetOfOtherShape": "returns logits as torch.float32 [2, 1], not float32 [2, 2]",
    "NetNan": "returns logits with values that are not finite",
    "NetRaises": "cannot compute outputs for an observation: LookupError: no such layer (plugins.py, line",
}
"""Network -> words of the line."""

LATE = {
    "NetOfOtherShapeLate": ["the network returns logits [1, 2]", "the first dimension of each must be 16"],
    "NetNanLate": ["FloatingPointError: non-finite updates from"],
    "NetRaisesLate": ["LookupError: no such layer (plugins.py, line"],
    "NetHangsLate": ["no sign of life for", "supervision.trainer_hang_s", "logs/trainer.log"],
    "NetCrashesLate": ["signal 11; its last output is in logs/trainer.log"],
    "LossRaisesLate": ["ArithmeticError: negative variance (plugins.py, line"],
    "LossNanLate": ["FloatingPointError: non-finite updates from"],
    "LossIsTextLate": ["AttributeError: 'str' object"],
    "LossHangsLate": ["no sign of life for", "supervision.trainer_hang_s", "logs/trainer.log"],
    "LossExitsLate": ["SystemExit: 0 (plugins.py, line"],
}
"""Network or algorithm -> words of the line with which the run ends, and of its summary."""


def named(name: str) -> list[str]:
    """Overrides of the topology of Catch for this class."""
    own = f"{plugins.__name__}:{name}"
    other = [] if name.startswith("Net") else ["model.hidden_sizes=[8]"]
    return [f"model={{name: '{own}'}}" if name.startswith("Net") else f"algorithm={{name: '{own}'}}", *other]


@pytest.mark.parametrize("name", REFUSED)
def test_one_that_cannot_be_used_is_refused_in_one_line(name: str, command: Command) -> None:
    done = command("check", CONFIGS / "catch.yaml", *SOUND, *named(name), *SMALL)
    assert done.returncode == 2, done
    (line,) = done.stderr.splitlines()
    assert line.startswith("actorlearn: ") and name in line and REFUSED[name] in line


@pytest.mark.parametrize("name", LATE)
def test_one_that_fails_in_a_run_ends_it_with_one_line(name: str, launched: Start) -> None:
    limits = [
        "supervision.restarts=1",
        "supervision.restarts_within_s=100_000",
        "supervision.trainer_hang_s=5",
        "supervision.trainer_spin_s=20",
    ]
    run = launched("catch", *SOUND, *named(name), *SMALL, *limits, "total_steps=4_000")
    assert run.end(300) == 1, run.screen()
    (line,) = (line for line in run.stdout.read_text().splitlines() if "  failed: trainer: " in line)
    for text in (line, run.summary()["error"]):
        assert [words for words in LATE[name] if words not in text] == [], text
    assert "Traceback" not in run.screen() and run.stderr.read_text() == ""
    assert run.leftovers() == []
