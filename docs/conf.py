"""How Sphinx builds the documentation: ``make docs``. Nothing is loaded from outside, neither here nor by a reader."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

import streamtune

project = "StreamTune"
author = "the StreamTune authors"
copyright = "the StreamTune authors, Apache-2.0"
release = version = streamtune.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "streamtune_docs"]
exclude_patterns = ["_ext", "_build"]
source_suffix = {".md": "markdown"}

myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence", "deflist"]

autodoc_typehints = "signature"
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
# Fields of settings and nouns are on pages of their own; pydantic's own methods are in pydantic's manual.
autodoc_default_options = {"exclude-members": "model_config, model_post_init"}

nitpicky = True
# Types of other libraries, and names that are spelled short in annotations: there is no inventory to look them up in.
nitpick_ignore_regex = [("py:.*", ".*")]

html_theme = "furo"
html_title = "StreamTune"
html_theme_options = {"navigation_with_keys": True}
html_copy_source = False
html_show_sphinx = False
