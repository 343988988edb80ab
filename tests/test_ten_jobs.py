"""The page of ten jobs that wait is what `explain` says of them."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType


def test_the_page_is_what_explain_says(helper: Callable[[str, str], ModuleType]) -> None:
    ten = helper(__file__, "ten_jobs")
    assert ten.PAGE.read_text() == ten.page(), "rewrite it with: python tests/ten_jobs.py"
