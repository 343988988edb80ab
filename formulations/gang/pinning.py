"""Running jobs that heuristics leave alone: those whose options tie their tasks to each other.

Only the exact model moves them. Elsewhere they are treated as pinned, in a problem of its own: what
it finds are plans of the round, but its bounds are not bounds of the round.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from placewright.formulations.gang.problem import Problem
from placewright.instances.documents import WHOLE_GPU


def with_tied_pinned(problem: Problem) -> Problem:
    """Return the problem in which running jobs with tied options stay; itself if there are none."""
    tied = {
        job
        for job, running in problem.running.items()
        if problem.classes[running.job_class].choices[0].tied
    }
    if not tied:
        return problem
    cleared, quota = problem.cleared.copy(), dict(problem.quota)
    pinned_hosts, reserved_free = problem.pinned_hosts.copy(), problem.reserved_free.copy()
    remaining = problem.pinned_remaining
    for job in tied:
        running = problem.running[job]
        job_class = problem.classes[running.job_class]
        groups = job_class.choices[0].groups
        problem.hold(cleared, job, running.places, 1)
        problem.charge_quota(quota, job_class.tenant, job_class.choices[0])
        for group, _, host, gpus in running.places:
            milli = int(problem.shape_gpu[groups[group].shape])
            remaining += milli * int(problem.vacate[host])
            pinned_hosts[host] = True
            at = int(problem.cluster.gpu_start[host]) + np.array(gpus, dtype=np.int64)
            reserved_free[host] -= min(milli, WHOLE_GPU) * int((~problem.usable[at]).sum())
    cleared.busy[:] = problem.cleared.busy
    return replace(
        problem,
        cleared=cleared,
        classes=tuple(
            replace(c, jobs=tuple(j for j in c.jobs if not (c.running and j in tied)))
            for c in problem.classes
        ),
        pinned_hosts=pinned_hosts,
        pinned_remaining=remaining,
        reserved_free=reserved_free,
        running={j: running for j, running in problem.running.items() if j not in tied},
        quota=quota,
    )
