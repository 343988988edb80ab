"""What a plan says of data: who reads over links, who waits for data, and which copies are made."""

from __future__ import annotations

from dataclasses import replace

from placewright.formulations.geo.compile import Problem
from placewright.formulations.session import Candidate, DataPlan
from placewright.formulations.wan.compile import NONE, Ints


def with_data(problem: Problem, candidate: Candidate) -> Candidate:
    """Return a candidate that says who reads what from where."""
    region = regions_after(problem, candidate)
    reads = {j: problem.reads_of(j, int(r)) for j, r in enumerate(region) if r != NONE}
    data = DataPlan(reads={j: mine for j, mine in reads.items() if mine})
    return replace(candidate, data=data)


def regions_after(problem: Problem, candidate: Candidate) -> Ints:
    """Return the region where each job runs after a plan (jobs,), NONE of those that wait."""
    region = problem.at.copy()
    for job, (_, places) in candidate.starts.items():
        region[job] = problem.wan.host_region[places[0][2]]
    region[list(candidate.preempted)] = NONE
    return region
