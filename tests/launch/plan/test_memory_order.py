"""A run starts on a processor with an unsupported memory order only if the topology accepts the risk."""

from __future__ import annotations

import platform
from pathlib import Path

import pytest
from typer.testing import CliRunner

from launch.cli import app
from launch.errors import RunError
from launch.plan.memory_order import disorder, refuse_disorder
from launch.topology.load import parse

TEXT = "env: {id: CartPole-v1}\n"


@pytest.mark.parametrize("machine", ["aarch64", "arm64", "riscv64", "ppc64le", "i686"])
def test_a_run_starts_on_an_unsupported_processor_only_with_any_memory_order(machine: str) -> None:
    with pytest.raises(RunError) as refused:
        refuse_disorder(parse(TEXT), machine)
    assert f"processor {machine}: " in str(refused.value)
    assert "use an x86-64 machine, or accept the risk with supervision.any_memory_order: true" in str(refused.value)
    refuse_disorder(parse(TEXT, ["supervision.any_memory_order=true"]), machine)
    assert disorder(machine)


@pytest.mark.parametrize("machine", ["x86_64", "AMD64"])
def test_a_run_starts_on_x86_64_without_an_error(machine: str) -> None:
    refuse_disorder(parse(TEXT), machine)
    assert disorder(machine) == ""


def test_the_command_line_refuses_an_unsupported_processor_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    (tmp_path / "cart.yaml").write_text(TEXT)
    new = tmp_path / "new"
    refused = CliRunner().invoke(app, ["run", str(tmp_path / "cart.yaml"), "--run-dir", str(new)])
    assert refused.exit_code == 2
    assert refused.stderr.startswith("actorlearn: processor aarch64: ") and len(refused.stderr.splitlines()) == 1
    assert not new.exists()
