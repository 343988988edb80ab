"""Preemption feasibility: every stopped running job is a lawful victim, or is back in place.

Lawful: all that has arrived on its hosts is of strictly higher precedence, and something of it
comes from elsewhere. Each step stops an arrival or brings a job back, so the steps end.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from placewright.formulations.gang.placement.placement import Placement
from placewright.formulations.gang.problem.jobs import ANY_JOB
from placewright.formulations.gang.problem.problem import Problem


def repair_preemptions(placement: Placement) -> None:
    """Make preemptions lawful: stop unlawful arrivals, bring back jobs that are stopped in vain.

    Pending jobs that exceed a quota are stopped before.
    """
    _stop_beyond_quota(placement)
    while _stop_unlawful_arrivals(placement) or _restart_needless_victims(placement):
        pass


def running_host_groups(problem: Problem, job: int) -> set[tuple[int, int]]:
    """Return the (host, group) pairs of a running job's tasks; none for a pending job."""
    running = problem.running.get(job)
    return set() if running is None else {(host, group) for group, _, host, _ in running.places}


def _hosts(placement: Placement, job: int) -> set[int]:
    """Return the hosts of a running job."""
    return {host for _, _, host, _ in placement.problem.running[job].places}


def _stop_unlawful_arrivals(placement: Placement) -> bool:
    """Stop arrivals that have no higher precedence than a victim; whether there were any."""
    problem = placement.problem
    unlawful = [
        j for stopped in placement.stopped for j in stopped if not placement.may_be_preempted(j)
    ]
    if not unlawful:
        return False
    by_host = _arrivals_by_host(placement)
    for job in unlawful:
        level = problem.running[job].level
        for number in sorted(set().union(*(by_host[h] for h in _hosts(placement, job)))):
            # All groups of a job have the rank of its priority.
            if placement.get(number) is not None and _rank(placement, number) <= level:
                placement.stop(number)
    return True


def _restart_needless_victims(placement: Placement) -> bool:
    """Restart stopped jobs in whose place no job arrives; return whether others had to stop."""
    problem = placement.problem
    comes: defaultdict[int, int] = defaultdict(int)  # highest rank that comes to a host
    for number, start in placement.changed():
        for host, _ in {(put.host, put.group) for put in start.tasks} - running_host_groups(
            problem, start.job
        ):
            comes[host] = max(comes[host], _rank(placement, number))
    stopped = sorted(
        (job for off in placement.stopped for job in off),
        key=lambda job: (-problem.running[job].level, job),
    )
    for job in stopped:
        running = problem.running[job]
        if any(comes[host] > running.level for host in _hosts(placement, job)):
            continue
        in_the_way = _to_stop_for_quota(placement, running.job_class)
        if not in_the_way and not placement.fits_in_place(job):
            by_host = _arrivals_by_host(placement)
            in_the_way = set().union(*(by_host[h] for h in _hosts(placement, job)))
        for number in sorted(in_the_way):
            placement.stop(number)
        placement.restart(problem.running_placement_of[job])
        if in_the_way:
            return True
    return False


def _rank(placement: Placement, number: int) -> int:
    """Return the rank of a placed job, 0 if it was stopped."""
    problem, start = placement.problem, placement.get(number)
    if start is None:
        return 0
    group = problem.classes[start.job_class].choices[start.choice].groups[0]
    return int(problem.shape_rank[group.shape])


def _arrivals_by_host(placement: Placement) -> defaultdict[int, set[int]]:
    """Return the numbers of the jobs with tasks that arrive on each host."""
    by_host: defaultdict[int, set[int]] = defaultdict(set)
    for number, start in placement.changed():
        for put in start.tasks:
            if not put.stays:
                by_host[put.host].add(number)
    return by_host


def _stop_beyond_quota(placement: Placement) -> None:
    """Stop pending jobs, the last ones first, of tenants that exceed a quota."""
    over = {tenant for (tenant, _), amount in placement.quota_left().items() if amount < 0}
    classes = placement.problem.classes
    for number in _last_started(placement, over):
        start = placement.get(number)
        if start is not None and placement.over_quota(classes[start.job_class].tenant):
            placement.stop(number)


def _to_stop_for_quota(placement: Placement, job_class: int) -> set[int]:
    """Return pending jobs that must stop, the last first, before one of a class may come back."""
    problem = placement.problem
    back = problem.classes[job_class]
    stop: set[int] = set()
    if not placement.quota_excess(back.tenant, back.choices[0]):
        return stop
    left = placement.quota_left()
    for number in _last_started(placement, {back.tenant}):
        if problem.within_quota(left, back.tenant, back.choices[0]):
            break
        start = placement.get(number)
        if start is not None:
            stop.add(number)
            choice = problem.classes[start.job_class].choices[start.choice]
            problem.charge_quota(left, back.tenant, choice, -1)
    return stop


def _last_started(placement: Placement, tenants: Iterable[int]) -> list[int]:
    """Return the numbers of started pending jobs of some tenants, the last one first."""
    classes, wanted = placement.problem.classes, set(tenants)
    return [
        number
        for number, start in (reversed(list(placement.changed())) if wanted else ())
        if start.job == ANY_JOB and classes[start.job_class].tenant in wanted
    ]
