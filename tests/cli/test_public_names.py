"""What `import placewright` offers, and that it loads nothing before it is used."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import placewright


@pytest.mark.parametrize("name", [name for name in placewright.__all__ if name != "solve_round"])
def test_each_public_name_can_be_imported(name):
    assert getattr(placewright, name) is getattr(placewright, name)
    assert name in dir(placewright)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'resolve'"):
        _ = placewright.resolve


def test_the_import_loads_no_solver_numpy_networkx_or_pydantic():
    program = (
        "import sys, placewright;"
        "heavy = {'ortools', 'highspy', 'pulp', 'numba', 'numpy', 'networkx', 'pydantic', 'typer'};"
        "print(sorted(heavy & set(sys.modules)))"
    )
    source = str(Path(__file__).parents[2] / "src")
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": source},
        timeout=60,
        check=True,
    )
    assert done.stdout.strip() == "[]"
