"""Anti-affinity across regions: labels whose level has domains that span several regions.

Each region enforces a label within itself. Of the regions that share a domain of the label's level
only one at a time may start jobs of the label: the one in which such a job runs, otherwise the one
to which the job of highest value is assigned. If jobs of the label already run in several regions
of a domain, they are not moved, since a migration counts as an arrival. At first no more jobs of a
label are assigned than there are domains without one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import numpy as np

from placewright.array_types import Bools, Ints
from placewright.formulations.common.wan.arrays import NONE
from placewright.formulations.geo.problem.compile import Problem

Domain = tuple[str, int]
"""A label and a domain of its level."""


class CrossRegionAntiAffinity:
    """The anti-affinity labels of a round whose levels span several regions."""

    def __init__(self, problem: Problem) -> None:
        round_, cluster = problem.round, problem.cluster
        self._problem = problem
        # Of higher priority classes first, then of higher value.
        self._worth: dict[int, tuple[int, int]] = {}
        self._domains: dict[int, tuple[str, list[int]]] = {}
        of_level: dict[str, list[int]] = {}
        for level in range(cluster.levels.index(round_.geo.level)):
            domain = np.full(len(problem.wan.regions), NONE, dtype=np.int64)
            domain[problem.wan.host_region] = cluster.domain[level]
            of_level[cluster.levels[level]] = domain.tolist()
        for j, job in enumerate(round_.jobs):
            rule = job.anti_affinity
            if rule is not None and rule.level in of_level:
                self._domains[j] = rule.label, of_level[rule.level]
                level = job.priority if problem.priority_classes else 0
                self._worth[j] = level, job.value_of(0)

    def __bool__(self) -> bool:
        """Whether there are any such labels."""
        return bool(self._domains)

    def first_regions(self) -> Bools:
        """Return where jobs may be assigned in the first pass (jobs, regions)."""
        current_region, allowed = self._problem.current_region, self._problem.eligible.copy()
        occupied = {domain for _, domain in self._labelled_jobs(current_region)}
        labelled: defaultdict[str, list[int]] = defaultdict(list)
        for j, (label, domain) in self._domains.items():
            if current_region[j] == NONE:
                allowed[j] &= [(label, d) not in occupied for d in domain]
                labelled[label].append(j)
        for label, jobs in labelled.items():
            jobs.sort(key=lambda j: self._worth[j], reverse=True)
            domains = {(label, d) for d in self._domains[jobs[0]][1]}
            startable = [j for j in jobs if allowed[j].any()]
            allowed[startable[len(domains - occupied) :]] = False
        return allowed

    def forbidden(self, where: Ints) -> set[tuple[int, int]]:
        """Return the (pending job, region) pairs that a label forbids.

        A job of the label that runs in the region itself does not count, since it may be preempted.

        Parameters
        ----------
        where
            (jobs,): the regions of jobs, NONE of jobs without one.
        """
        occupied, current_region = self._regions_with_label(where), self._problem.current_region
        started = {domain for j, domain in self._labelled_jobs(where) if current_region[j] == NONE}
        return {
            (j, r)
            for j, (label, domain) in self._domains.items()
            if where[j] == NONE and current_region[j] == NONE
            for r in np.flatnonzero(self._problem.eligible[j]).tolist()
            if (label, domain[r]) in started or occupied[label, domain[r]] - {r}
        }

    def immovable(self, where: Ints) -> set[int]:
        """Return running jobs that may not migrate, as their label is in another region, too."""
        occupied = self._regions_with_label(where)
        return {j for j, domain in self._labelled_jobs(where) if len(occupied[domain]) > 1}

    def yielding(self, region: Ints) -> Bools:
        """Return the assigned jobs that must give way to another region of their domain (jobs,).

        Parameters
        ----------
        region
            (jobs,): the assigned regions, NONE of jobs without one.
        """
        best: dict[Domain, int] = {}
        for j, domain in self._labelled_jobs(region):
            first = best.setdefault(domain, j)
            if self._worth[j] > self._worth[first]:
                best[domain] = j
        found = np.zeros(len(region), dtype=np.bool_)
        for j, domain in self._labelled_jobs(region):
            found[j] = region[j] != region[best[domain]]
        return found

    def _regions_with_label(self, where: Ints) -> defaultdict[Domain, set[int]]:
        """Return the regions of each (label, domain) that have a job of the label."""
        occupied: defaultdict[Domain, set[int]] = defaultdict(set)
        for j, domain in self._labelled_jobs(where):
            occupied[domain].add(int(where[j]))
        return occupied

    def _labelled_jobs(self, region: Ints) -> Iterator[tuple[int, Domain]]:
        """Yield jobs that have a label and a region, each with its (label, domain)."""
        for j, (label, domain) in self._domains.items():
            if region[j] != NONE:
                yield j, (label, domain[region[j]])
