"""``actorlearn node``: runs a part of the processes of a run on this machine, until the run ends."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from pathlib import Path

from actorlearn.address import AddressError, Tcp
from actorlearn.wire.channel import Dealer
from actorlearn.wire.keys import KeysError, node_keys
from launch.errors import RunError
from launch.machine.signals import Signals
from launch.nodes.agent import Agent


def serve(join: str, key: Path, folder: Path | None, patience_s: float) -> int:
    """Join the run whose head listens at ``join``, and serve as a node until the run ends; return the exit status.

    ``key``: file with the node's key. ``folder``: for logs, checkpoints and films; None: a temporary one, which is
    removed at the end. ``patience_s``: seconds without contact to the head after which the node gives up.
    """
    try:
        address, own = Tcp.read(join), node_keys(key)
    except AddressError as error:
        raise RunError(f"--join {error}") from None
    except KeysError as error:
        raise RunError(f"--key {error}") from None
    with ExitStack() as stack:
        where = folder or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="actorlearn-node-")))
        signals = Signals()
        stack.callback(signals.close)
        line = Dealer(address, own.name, own.keys)
        stack.callback(line.close, 500)

        def tell(text: str) -> None:
            print(f"{own.name}: {text}", flush=True)

        tell(f"joins {address}")
        return Agent(line, address.host, where, patience_s, tell).run(signals)
