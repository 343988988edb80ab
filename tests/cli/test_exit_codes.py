"""Exit codes: one enumeration, from which every verb takes its codes."""

import re
from pathlib import Path

import placewright.cli
from placewright.cli.interrupts import ExitCode

ROOT = Path(__file__).parents[2]
NAMED = re.compile(r"\b[Ee]xit (?:code )?(\d+(?:(?:, | or )\d+)*)")


def test_meanings_are_told_apart():
    assert len({code.meaning for code in ExitCode}) == len(ExitCode)


def test_no_verb_has_a_code_of_its_own():
    folder = Path(placewright.cli.__file__).parent
    own = re.compile(r"Exit\(\d|\bEXIT_[A-Z]+ = \d|_End\(\d")
    assert [path.name for path in folder.rglob("*.py") if own.search(path.read_text())] == []


def test_codes_that_pages_name_are_of_the_enumeration():
    known = {str(code.value) for code in ExitCode}
    for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
        for numbers in re.findall(
            r"\b[Ee]xit (?:code )?(\d+(?:(?:, | or )\d+)*)", page.read_text()
        ):
            assert set(re.split(", | or ", numbers)) <= known, page
