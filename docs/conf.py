"""Settings of Sphinx, which makes HTML of these pages: ``make docs``."""

project = "actorlearn"
extensions = ["myst_parser"]
myst_heading_anchors = 3
html_theme = "furo"
exclude_patterns = ["results/*.jsonl"]
