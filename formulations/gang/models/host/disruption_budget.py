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
from placewright.formulations.gang.problem.disruption_budget import DisruptionBudget
from placewright.formulations.gang.problem.jobs import ANY_JOB


def add_disruption_budget(m: HostModel) -> None:
    """Append the rows of what the rest of the placement leaves; none without a budget."""
    budget = m.problem.budget
    if budget is None:
        return
    inside = {entry.job for entry in m.entries if entry.job != ANY_JOB}
    others = [job for job in m.placement.displaced_jobs() if job not in inside]
    moved = [job for job in others if m.placement.is_running(job)]
    stopped = [job for job in others if not m.placement.is_running(job)]
    left = budget.after(budget.used(stopped, moved))
    add_budget_rows(m, left, [(e, entry.job) for e, entry in enumerate(m.entries)])


def add_budget_rows(
    m: HostModel, budget: DisruptionBudget, entries: Sequence[tuple[int, int]]
) -> None:
    """Append the rows of a budget.

    Parameters
    ----------
    entries
        Entries of the model, and the job that each stands for; of those of one job at most one
        runs.
    """
    counted = [(e, job) for e, job in entries if job in budget.stops]
    stops = {job: budget.stops[job] for _, job in counted}
    protected = sorted(job for job, stop in stops.items() if stop.protected)
    rows = dict(
        zip(protected, m.model.rows("protected", len(protected), lower=1.0).tolist(), strict=True)
    )
    of_protected = [(rows[job], m.y[e]) for e, job in counted if job in rows]
    m.model.add([row for row, _ in of_protected], [y for _, y in of_protected], 1.0)
    jobs, gpus, moves, lost = budget.limits
    milli = {job: stop.preempted.preempted_gpus for job, stop in stops.items()}
    work = {job: stop.migrated.lost_gpu_s for job, stop in stops.items()}
    once = {job: e for e, job in reversed(counted)}
    _limit(m, jobs, [(m.y[e], 1, once[job] == e) for e, job in counted])
    _limit(m, gpus, [(m.y[e], milli[job], milli[job] * (once[job] == e)) for e, job in counted])
    kept = [(m.kept[e], 1, 0) for e, _ in counted]
    _limit(m, moves, [*kept, *((m.y[e], -1, 0) for e, _ in counted)])
    _limit(m, lost, [(m.kept[e], work[job], work[job] * (once[job] == e)) for e, job in counted])


def _limit(m: HostModel, most: int | None, parts: Sequence[tuple[int, int, int]]) -> None:
    """Append  sum of (constant - coefficient * column) <= most,  divided by what all share."""
    if most is None or not parts:
        return
    unit = gcd(*(coefficient for _, coefficient, _ in parts)) or 1
    constant = sum(constant for _, _, constant in parts) // unit
    row = m.model.rows("disruption budget", 1, lower=float(constant - most // unit))
    columns = [column for column, _, _ in parts]
    m.model.add(row[[0] * len(parts)], columns, [c / unit for _, c, _ in parts])
