"""Settings of Sphinx, which makes HTML of these pages: ``make docs``. Nothing is loaded from elsewhere."""

import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from actorlearn import __version__

project = "actorlearn"
author = "the authors of actorlearn"
version = release = __version__
html_title = f"actorlearn {__version__}"
extensions = ["myst_parser"]
nitpicky = True  # a link that leads nowhere is a warning, and `make docs` ends at warnings
myst_heading_anchors = 3
html_theme = "furo"
html_theme_options = {"top_of_page_buttons": []}
html_copy_source = html_show_sourcelink = html_show_copyright = False
html_use_index = False


def name_benchmarks(_app, _docname, source):
    """Replace links to pages of benchmarks/, which the HTML does not contain, by the names of their files."""
    source[0] = re.sub(r"\[([^]]*)\]\((?:\.\./)+(benchmarks/[\w./-]+)[^)]*\)", r"\1 (`\2`)", source[0])


def setup(app):
    """Called by Sphinx."""
    app.connect("source-read", name_benchmarks)
