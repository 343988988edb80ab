"""Names that the project once had for standard terms do not return to sources, tests and pages."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = (
    *(
        "benchmarks",
        "cli",
        "docs",
        "explain",
        "formulations",
        "instances",
        "live",
        "report",
        "rounds",
        "solver",
    ),
    *("tests", "topology"),
)
FILES = [
    path
    for path in (
        *ROOT.glob("*.md"),
        *(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.*")),
    )
    if path.suffix in {".md", ".py"} and path != Path(__file__)
]
STANDARD_TERMS = {
    r"ma(ke|kes|king|de)[ _]way": "is preempted, is ejected",
    r"land(ed|ing)": "displacement",
    r"mend(s|ed|ing)?": "exchange, repair",
    r"oust(s|ed|ing)?": "drop/add",
    "owing": "quota repair",
    "coring": "core problem",
    "relaying": "two-step ejection",
    "vacating": "evacuation",
    r"making[ _]room": "repacking",
    "seating": "assignment",
    "barring": "preemption rows",
    "lying": "running jobs; wrong, of a bound",
    "bettered": "improved",
}


@cache
def texts() -> dict[str, str]:
    """Return all texts in lower case by file."""
    return {str(path.relative_to(ROOT)): path.read_text().lower() for path in FILES}


def has(word: re.Pattern[str], text: str) -> bool:
    """Whether a word begins somewhere: asked afterwards, as a search by its letters is quick."""
    return any(
        not "a" <= text[max(0, one.start() - 1) : one.start()] <= "z" for one in word.finditer(text)
    )


@pytest.mark.parametrize("word", STANDARD_TERMS)
def test_the_standard_term_is_used(word: str) -> None:
    found = re.compile(rf"({word})(?![a-z])")
    files = [file for file, text in texts().items() if has(found, text)]
    assert not files, STANDARD_TERMS[word]
