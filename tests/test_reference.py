"""The generated pages of the reference are those that their program writes."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"
PAGES = runpy.run_path(str(DOCS / "write_reference.py"))["PAGES"]


@pytest.mark.parametrize("name", PAGES)
def test_a_generated_page_is_as_written(name):
    """`python docs/write_reference.py` writes them anew."""
    assert (DOCS / "reference" / name).read_text() == PAGES[name]()
