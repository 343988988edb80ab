"""The compiled kernels of policy `replicas`."""

from __future__ import annotations

from placewright.solver.machine_code import MachineCode

MACHINE_CODE = MachineCode(
    (
        "placewright.formulations.replicas.heuristics.annealing_kernel",
        "placewright.solver.batched_pdhg",
    )
)

if __name__ == "__main__":
    MACHINE_CODE.compile()
