"""Hosts of a neighbourhood for a waiting job, a gang say, and those whose quota it would take.

A waiting job is drawn by its value, then hosts for its tasks, and others on which jobs that count
in the same quotas are worth less per GPU: these may stop or wait instead.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from placewright.formulations.gang import parameters
from placewright.formulations.gang.placement.placement import Placement
from placewright.formulations.gang.problem.jobs import NO_LEVEL, Choice
from placewright.formulations.gang.problem.problem import Problem


def draw_tenant_hosts(
    problem: Problem, placement: Placement, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Draw hosts for one waiting job and for the jobs of its tenant that it may replace."""
    waiting = [
        (c, choice)
        for c, job_class in enumerate(problem.classes)
        if not job_class.running and placement.waiting[c]
        for choice in job_class.choices
        if choice.value > 0
        and not choice.is_tied
        and problem.shape_hosts[choice.groups[0].shape].any()
    ]
    if not waiting:
        return np.zeros(0, dtype=np.int64)
    value = np.array([choice.value for _, choice in waiting], dtype=np.float64)
    c, choice = waiting[rng.choice(len(waiting), p=value / value.sum())]
    lost = _lost(problem, placement, set(problem.classes[c].accounts), choice)
    tuning = parameters.PARAMETERS.neighbourhood
    most = tuning.max_hosts if problem.part_demands is None else tuning.max_hosts_with_parts
    homes = _hosts_for(problem, choice, most // 2, rng)
    others = np.setdiff1d(np.flatnonzero(problem.shape_hosts.any(axis=0)), homes)
    # Hosts with nothing to gain come in, too; the first of exponential times draws by weight.
    weight = lost[others] + lost.mean() * tuning.min_gain_share + 1e-9
    first = np.argsort(rng.exponential(size=len(others)) / weight)[: most - len(homes)]
    return np.sort(np.append(homes, others[first]))


def _hosts_for(
    problem: Problem, choice: Choice, most: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Draw hosts of one domain for the tasks of an option."""
    group = choice.groups[0]
    possible = np.flatnonzero(problem.shape_hosts[group.shape])
    if group.required != NO_LEVEL:
        domain = problem.cluster.domain[group.required]
        possible = possible[domain[possible] == domain[rng.choice(possible)]]
    return rng.choice(possible, size=min(most, len(possible)), replace=False)


def _lost(
    problem: Problem, placement: Placement, accounts: set[int], choice: Choice
) -> NDArray[np.float64]:
    """Per host: GPUs of jobs in some accounts, times what an option is worth more per GPU."""
    density = choice.value / max(sum(group.milli_gpu for group in choice.groups), 1)
    gain = np.zeros(problem.cluster.num_hosts)
    for _, start in placement.started():
        if accounts.isdisjoint(problem.classes[start.job_class].accounts):
            continue
        option = placement.choice_of(start)
        milli = sum(group.milli_gpu for group in option.groups)
        worth = option.value / max(milli, 1)
        if worth < density:
            for put in start.tasks:
                gain[put.host] += (
                    (density - worth)
                    * put.count
                    * int(problem.shape_gpu[option.groups[put.group].shape])
                )
    return gain
