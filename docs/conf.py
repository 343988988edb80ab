"""Sphinx builds the site of these pages: `sphinx-build -W -b html docs FOLDER`.

Pages are Markdown (MyST) and link to each other and to files of the repository as they do there,
so that they read alike in both places. `-W` refuses a link or a heading that leads nowhere.
Files of the repository are downloads of the site; its folders and pages elsewhere are named there.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from sphinx.application import Sphinx

import placewright

DOCS = Path(__file__).parent
sys.path.insert(0, str(DOCS))

from gallery import write_gallery  # noqa: E402

LINK = re.compile(r"\[([^]]+)\]\(((?:\.\./)+[^)#\s]*)(?:#[^)\s]*)?\)")

project = "Placewright"
author = "The authors of Placewright"
version = release = placewright.__version__
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]

html_theme = "furo"
html_title = f"Placewright {version}"
html_copy_source = False
html_show_sphinx = False

myst_heading_anchors = 4
nb_execution_raise_on_error = True
nb_execution_timeout = 120
myst_enable_extensions = ["colon_fence"]

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
napoleon_use_ivar = True


def name_what_is_elsewhere(_app: Sphinx, name: str, source: list[str]) -> None:
    """Put the path in place of a link to a folder, or to a page, outside of this one."""
    folder = (DOCS / name).parent

    def link(found: re.Match[str]) -> str:
        target = (folder / found[2]).resolve()
        if target.is_relative_to(DOCS) or (target.is_file() and target.suffix != ".md"):
            return found[0]
        return f"{found[1]} (`{target.relative_to(DOCS.parent)}`)"

    source[0] = LINK.sub(link, source[0])


def setup(app: Sphinx) -> None:
    """Draw the gallery, and connect the hook."""
    app.connect("builder-inited", lambda _app: write_gallery(DOCS / "gallery"))
    app.connect("source-read", name_what_is_elsewhere)
