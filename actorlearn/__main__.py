"""``actorlearn`` and ``python -m actorlearn``: the command line, also where another package is called ``launch``.

ROS 2 has one, and a PYTHONPATH on which it comes first. So a wheel carries our folder inside this package, where it
neither hides that one nor overwrites its files, and the folder is imported from where it lies. Only the supervisor and
the command line need it: in the processes of a run ``launch`` is what an environment's author means by it.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path


def main() -> None:
    """Run the command line; ends the process with its exit status."""
    _import_from_here()
    import_launch()
    from launch.cli import main as command_line

    command_line()


def _import_from_here() -> None:
    """Have modules in the working directory found first, as they are in the processes of a run and by ``python -m``.

    Of a program that pip installed Python searches the program's own folder instead.
    """
    here = os.getcwd()
    if not sys.flags.safe_path and here not in sys.path:
        sys.path.insert(0, here)


def import_launch() -> None:
    """Import our own ``launch``, from whose folder all ``import launch.…`` of this process are then answered."""
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
