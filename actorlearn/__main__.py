"""``actorlearn`` and ``python -m actorlearn``: the command line, even if another package is called ``launch``.

ROS 2 has a package ``launch`` and puts it first on PYTHONPATH. A wheel therefore has our folder ``launch`` inside this
package, where it neither hides that package nor overwrites its files, and this module imports it by its path. Only the
supervisor and the command line need it. In the other processes of a run ``import launch`` finds the other package,
which an environment may use.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path


def main() -> None:
    """Run the command line and end the process with its exit status."""
    _import_from_here()
    import_launch()
    from launch.cli import main as command_line

    command_line()


def _import_from_here() -> None:
    """Put the working directory first on sys.path, as ``python -m`` does and as in the processes of a run.

    For a script that pip installed, Python searches the script's folder instead.
    """
    here = os.getcwd()
    if not sys.flags.safe_path and here not in sys.path:
        sys.path.insert(0, here)


def import_launch() -> None:
    """Import our ``launch`` by its path, so that later ``import launch.…`` in this process find our modules."""
    here = Path(__file__).resolve().parent
    installed, checkout = here / "launch", here.parent / "launch"
    folder = str(installed if installed.is_dir() else checkout)
    if folder in getattr(sys.modules.get("launch"), "__path__", ()):
        return
    spec = importlib.util.spec_from_file_location(
        "launch", f"{folder}/__init__.py", submodule_search_locations=[folder]
    )
    assert spec is not None and spec.loader is not None  # as for any file that ends in .py
    sys.modules["launch"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(sys.modules["launch"])


if __name__ == "__main__":
    main()
