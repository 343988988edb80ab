"""Faults to plant: each can be, where it is meant, and a test that fails for it is told."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from examples import by_night
from fuzz import mutants
from fuzz.mutants import Mutant, mutated

ROOT = Path(__file__).parents[2]
MUTANTS = list(mutants.mutants())


def test_there_are_twenty_of_each_group():
    assert Counter(one.group for one in MUTANTS) == {"models": 20, "verifier": 20, "converters": 20}
    assert len({one.why for one in MUTANTS}) == len(MUTANTS)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda one: one.why)
def test_each_is_in_one_place_and_still_a_program(mutant):
    file, text = mutated(ROOT, mutant)
    assert text != file.read_text()
    compile(text, str(file), "exec")
    assert all((ROOT / test).exists() for test in mutant.near)


def test_the_test_that_finds_a_fault_is_told(tmp_path):
    (tmp_path / "sums.py").write_text("def double(x):\n    return x + x\n")
    (tmp_path / "tests").mkdir()
    test = "from sums import double\n\ndef test_{0}():\n    assert double({1}) == 2 * {1}\n"
    for name, number in (("near", 2), ("far", 3)):
        (tmp_path / "tests" / f"test_{name}.py").write_text(test.format(name, number))
    (tmp_path / "pytest.ini").write_text("[pytest]\npythonpath = .\n")
    near = ("tests/test_near.py",)
    fault = Mutant("", "sums.py", "x + x", "x * x", "", near)
    with pytest.raises(LookupError, match=r"0 places in sums\.py; expected one"):
        mutated(tmp_path, fault._replace(old="y"))
    assert mutants.finder(tmp_path, fault, "default", near=True) is None
    if not by_night():
        return
    found = mutants.finder(tmp_path, fault, "default", near=False)
    assert found == "tests/test_far.py::test_far"
