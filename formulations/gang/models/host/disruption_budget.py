"""Rows of the disruption budget (docs/formulations/disruption.md), over the jobs j that count.

preempted_jobs   sum_j (1 - y[j])                    <= what is left of the limit
preempted_gpus   sum_j milli-GPU (1 - y[j])          <= ...
migrated_jobs    sum_j (y[j] - k[j])                 <= ...
lost_gpu_s       sum_j lost milli-GPU-seconds (1 - k[j])   <= ...
min_run_s        y[j] >= 1                           of protected jobs

What the placement of the model does to running jobs that the model does not have counts first.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd

from placewright.formulations.gang.models.host.model import HostModel
from placewright.formulations.gang.problem.jobs import ANY_JOB


def add_disruption_budget(m: HostModel) -> None:
    """Append the rows; none without a budget."""
    budget = m.problem.budget
    if budget is None:
        return
    inside = {entry.job for entry in m.entries if entry.job != ANY_JOB}
    others = [job for job in m.placement.displaced_jobs() if job not in inside]
    moved = [job for job in others if m.placement.is_running(job)]
    stopped = [job for job in others if not m.placement.is_running(job)]
    left = budget.after(budget.used(stopped, moved)).limits
    entries = [e for e, entry in enumerate(m.entries) if entry.job in budget.stops]
    stops = [budget.stops[m.entries[e].job] for e in entries]
    protected = [e for e, stop in zip(entries, stops, strict=True) if stop.protected]
    m.model.add(m.model.rows("protected", len(protected), lower=1.0), m.y[protected], 1.0)
    jobs, gpus, moves, lost = left
    _limit(m, jobs, [(m.y[e], 1, 1) for e in entries])
    each = [stop.preempted.preempted_gpus for stop in stops]
    _limit(m, gpus, [(m.y[e], milli, milli) for e, milli in zip(entries, each, strict=True)])
    kept = [(m.kept[e], 1, 0) for e in entries]
    _limit(m, moves, [*kept, *((m.y[e], -1, 0) for e in entries)])
    work = [stop.migrated.lost_gpu_s for stop in stops]
    _limit(m, lost, [(m.kept[e], w, w) for e, w in zip(entries, work, strict=True)])


def _limit(m: HostModel, most: int | None, parts: Sequence[tuple[int, int, int]]) -> None:
    """Append  sum of (constant - coefficient * column) <= most,  divided by what all share."""
    if most is None or not parts:
        return
    unit = gcd(*(coefficient for _, coefficient, _ in parts)) or 1
    constant = sum(constant for _, _, constant in parts) // unit
    row = m.model.rows("disruption budget", 1, lower=float(constant - most // unit))
    columns = [column for column, _, _ in parts]
    m.model.add(row[[0] * len(parts)], columns, [c / unit for _, c, _ in parts])
