"""``actorlearn manifest``: prints a run as a manifest for Kubernetes."""

from __future__ import annotations

from collections.abc import Sequence

import yaml

from launch.plan.manifest import LISTEN, manifest
from launch.topology.load import load


def show(topology: str, overrides: Sequence[str], image: str, secret: str, claim: str | None) -> int:
    """Print the manifest of a topology; return the exit status."""
    loaded = load(topology, [*overrides, f"nodes.listen={LISTEN}"])
    objects = manifest(loaded, image=image, secret=secret, claim=claim)
    print(yaml.dump_all(objects, Dumper=_Readable, sort_keys=False, width=1000), end="")
    return 0


class _Readable(yaml.SafeDumper):
    """Writes texts of several lines as literal blocks."""


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.Node:
    lines = "\n".join(line.rstrip() for line in text.split("\n"))
    return dumper.represent_scalar("tag:yaml.org,2002:str", lines, style="|" if "\n" in text else None)


_Readable.add_representer(str, _text)
