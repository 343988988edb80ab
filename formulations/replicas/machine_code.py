"""The compiled kernels of policy `replicas`: two, so that annealing waits for its own alone.

`python -m placewright.formulations.replicas.machine_code` makes both ahead of the first round.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec

from placewright.solver.machine_code import NOT_INSTALLED, MachineCode

ANNEALING = MachineCode(("placewright.formulations.replicas.heuristics.annealing_kernel",))
DESCENTS = MachineCode(("placewright.solver.batched_pdhg",))
"""Of the relaxations in the tree of bounds."""

if __name__ == "__main__":
    if find_spec("numba") is None:
        sys.exit(NOT_INSTALLED)
    for kernels in (ANNEALING, DESCENTS):
        kernels.compile()
