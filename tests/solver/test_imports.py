"""Solvers are loaded late, and in any order."""

from __future__ import annotations

import subprocess
import sys

import pytest

SOLVE = """
from placewright.solver import InProcess, Limits, Model
model = Model()
columns = model.variables("x", 3, upper=2)
model.add(model.rows("cap", 1, upper=4), columns, 1)
model.term("value", columns, [1, 2, 3], sense="max")
for backend in sys.argv[1:]:
    assert InProcess().solve(backend, model.arrays("value"), Limits(20)).objective == 10, backend
"""


def run(code: str, *arguments: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", f"import sys\nsys.path[:0] = {sys.path!r}\n{code}", *arguments],
        check=False,
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr


def test_importing_the_package_imports_no_solver() -> None:
    run(
        "import placewright.solver\n"
        "from placewright import load_round, solve_round\n"
        "placewright.solver.available()\n"
        "loaded = {'highspy', 'ortools', 'pulp', 'networkx', 'scipy'} & set(sys.modules)\n"
        "assert not loaded, loaded"
    )


@pytest.mark.nightly(after=1)
@pytest.mark.parametrize(
    "order", [("highs", "cp-sat", "scip", "cbc", "highs"), ("scip", "highs", "cbc", "cp-sat")]
)
def test_solvers_work_beside_each_other_in_any_order(order: tuple[str, ...]) -> None:
    run(SOLVE, *order)
