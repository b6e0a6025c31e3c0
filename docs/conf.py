"""Settings of Sphinx, which makes HTML of these pages: ``make docs``. Nothing is loaded from elsewhere."""

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
exclude_patterns = ["results/*.jsonl", "results/ledger/runs"]
