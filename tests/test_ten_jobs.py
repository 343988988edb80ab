"""The page of ten jobs that wait is what `explain` says of them."""

from __future__ import annotations

from tests import ten_jobs as ten


def test_the_page_is_what_explain_says() -> None:
    assert ten.PAGE.read_text() == ten.page(), "rewrite it with: python tests/ten_jobs.py"
