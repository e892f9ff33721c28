# SPDX-License-Identifier: Apache-2.0
"""The book. `make docs` copies the tree's pages beside what it generates, and builds from there (scripts/docs)."""
import importlib.util
import os

project = "Telpher"
copyright = "the Telpher authors"
version = release = os.environ.get("TELPHER_VERSION", "")

extensions = ["myst_parser"]
myst_heading_anchors = 4
myst_enable_extensions = ["deflist"]
root_doc = "docs/index"
exclude_patterns = ["README.md"]
suppress_warnings = ["myst.header"]  # a page may begin at any level

html_theme = "furo" if importlib.util.find_spec("furo") else "alabaster"
html_theme_options = {} if html_theme == "furo" else {"page_width": "1200px"}
html_title = "Telpher " + version
html_copy_source = False
html_show_sourcelink = False
highlight_language = "text"
