"""How Sphinx builds these pages: `sphinx-build -W -n docs site`. The build needs no network."""

from __future__ import annotations

import os
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent), str(HERE / "_ext")]

import distrf  # noqa: E402

project = "distrf"
author = "the distrf developers"
copyright = author
version = release = distrf.__version__

extensions = [
    "myst_nb",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "commands",
    "contents",
    "mathml",
    "members",
    "notebooks",
]
templates_path = ["_templates"]
exclude_patterns = ["_build"]
root_doc = "index"

# Headings get anchors, so that a page can link to a section of another.
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3
myst_links_external_new_tab = False
# Notebooks are kept without output. NOTEBOOKS=cache runs those that changed, so that their pages have pictures.
nb_execution_mode = os.environ.get("NOTEBOOKS", "off")
nb_execution_timeout = 300
nb_execution_raise_on_error = True
nb_merge_streams = True

default_role = "code"  # `name` in docstrings
autosummary_generate = True
autodoc_typehints = "none"  # the docstrings say the types in words
numpydoc_show_class_members = False  # the template lists them
numpydoc_xref_param_type = False

nitpicky = True
smartquotes = False  # they would make one dash of the two of an option

html_theme = "pydata_sphinx_theme"
html_title = "distrf"
html_static_path = ["_static"]
html_css_files = ["distrf.css"]
html_sidebars = {"**": ["contents"]}
html_show_sourcelink = False
html_theme_options = {
    "navbar_center": [],
    "show_prev_next": True,
    "navigation_with_keys": False,
    "navbar_align": "left",
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
}
html_math_renderer = "mathml"
