"""What running jobs send over the links from domains to those that hold them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from placewright.array_types import Ints
from placewright.formulations.gang.problem.problem import Problem
from placewright.topology.uplinks import Uplinks


def pinned_loads(problem: Problem, links: Sequence[Uplinks]) -> list[Ints]:
    """Return what pinned jobs send over each link, per level int64 (domains,)."""
    loads = [np.zeros(len(one.exists), dtype=np.int64) for one in links]
    host = problem.cluster.host_index
    for number, job in enumerate(problem.round.jobs):
        if job.running is None or problem.class_of[number] >= 0:
            continue
        for g, group in enumerate(job.options[job.running.option].groups):
            asked = group.communication
            if asked is None or not asked.rate_mbps:
                continue
            hosts = np.array([host[t.host] for t in job.running.tasks if t.group == g])
            for one, load in zip(links, loads, strict=True):
                load[one.crossed_from(hosts)] += asked.rate_mbps
    return loads


def rates_in_place(problem: Problem, job: int) -> Iterator[tuple[int, Ints]]:
    """Yield rate and hosts of each group of a running job that counts, where it runs."""
    running = problem.running[job]
    for g, group in enumerate(problem.classes[running.job_class].choices[0].groups):
        if group.rate_mbps:
            hosts = [host for k, _, host, _ in running.places if k == g]
            yield group.rate_mbps, np.array(hosts, dtype=np.int64)
