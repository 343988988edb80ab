"""The traces of Muri: work is iterations times the time of one, which its simulator stretches.

References
----------
Zhao et al., "Multi-resource interleaving for deep learning training", SIGCOMM 2022.
"""

from __future__ import annotations

import numpy as np

from placewright.instances.converters.support.csv_table import Table
from placewright.instances.traces.tables import (
    MAX_GPUS,
    MAX_S,
    MAX_WORK_S,
    given_once,
    numbered,
    positive,
)
from placewright.instances.traces.trace import SECOND, Trace

STRETCH = 1015
"""Thousandths by which an iteration takes longer in the artifact's simulator."""

_MAX_ITERATIONS = 10**12
_PLACES = 3
_STAGES = ("resource_time_0", "resource_time_1", "resource_time_2")
_STAGE_PLACES = 6


def muri_trace(table: Table) -> Trace:
    """Read job_id, num_gpu, submit_time (ms), iterations, model_name, iteration_time (ms), stages.

    The further columns of the trace: `iteration_us` and `iterations`, the stage times `stage_0_us`,
    `stage_1_us` and `stage_2_us` (storage and CPU, GPU, network).
    """
    iterations = positive(table, "iterations", _MAX_ITERATIONS)
    iteration_us = table.decimals("iteration_time", _PLACES, MAX_S)
    work = np.empty(len(iterations), dtype=np.int64)
    for row, (count, us) in enumerate(zip(iterations.tolist(), iteration_us.tolist(), strict=True)):
        worked = _rounded(count * us * STRETCH, 1000)
        if worked > MAX_WORK_S * SECOND:
            raise table.error(row, "iterations", f"expected at most {MAX_WORK_S} s of iterations")
        work[row] = worked
    models, model = numbered(table.columns.get("model_name"), len(work))
    stages = {
        f"stage_{number}_us": table.decimals(column, _STAGE_PLACES, MAX_S // 1000) // 1000
        for number, column in enumerate(_STAGES)
        if table.has(column)
    }
    return Trace.of(
        1000 * table.integers("submit_time", 1000 * MAX_S),
        positive(table, "num_gpu", MAX_GPUS),
        np.maximum(work, 1),
        names=tuple(given_once(table, "job_id")) if table.has("job_id") else None,
        model=model,
        models=models,
        extra={"iterations": iterations, "iteration_us": iteration_us, **stages},
    )


def _rounded(number: int, by: int) -> int:
    return (2 * number + by) // (2 * by)
