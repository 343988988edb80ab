"""The term `bottleneck`: the least time of the collective of each group that starts or migrates.

The bandwidths that may bind are b_1 > b_2 > ...; a group's time at b_k is T_k, and T_0 = 0.

    slow[t,k]      some link of at most b_k is crossed         slow[t,k] >= slow[t,k+1]
    use[t,d]       set t uses domain d                         tasks of t in d <= most use[t,d]
    level          sum_d use[t,d] - a <= (domains - 1) slow[t,k]      b_k: leaving a domain of it
    leaving        more than one NVLink domain, and this one   b_k: out of it
    inside         two GPUs in one NVLink domain               b_k: there
    bottleneck     sum over t and k of (T_k - T_(k-1)) slow[t,k]

A ring whose ranks go along the tree crosses each of these links once, so the time is exact for jobs
that start, except where GPUs form a mesh. For trees, and for migrated jobs whose tasks keep their
ranks, it is a lower bound. (NVLink domains are at least as fast inside as out of them; where one
is not, one-GPU tasks are not charged for the inside.)
"""

from __future__ import annotations

import numpy as np

from placewright.array_types import Ints
from placewright.formulations.gang.models.host.domain_rows import (
    DomainRows,
    add_domain_rows,
    arrival_of,
)
from placewright.formulations.gang.models.host.model import HostModel
from placewright.formulations.gang.problem.collectives import (
    UNLIMITED,
    LinkBandwidths,
    least_time_us,
    num_ranks,
)
from placewright.formulations.gang.problem.jobs import Group
from placewright.formulations.gang.problem.terms import BOTTLENECK


def add_bottleneck(m: HostModel) -> None:
    """Append the term, its variables and rows."""
    m.model.term(BOTTLENECK, m.y[:0], np.zeros(0), sense="min")
    speeds = LinkBandwidths.of(m.problem.cluster)
    for t, task_set in enumerate(m.task_sets):
        if task_set.group is not None and task_set.group.timed and num_ranks(task_set.group) > 1:
            _Collective(m, speeds, t, task_set.group).add()


class _Collective:
    """The collective of one task set."""

    def __init__(self, m: HostModel, speeds: LinkBandwidths, t: int, group: Group) -> None:
        self.m, self.speeds, self.t, self.group = m, speeds, t, group
        self.entry = m.task_sets[t].users[0][0]
        at = np.append(m.x_host[m.x_set == t], m.stays.host[m.stays.set == t])
        self.hosts = np.unique(m.hosts[at])
        number = int(speeds.nvlink_domain.max(initial=0)) + 1
        # All hosts of an NVLink domain are equal.
        self.leaving = np.full(number, UNLIMITED, dtype=np.int64)
        self.inside = np.full(number, UNLIMITED, dtype=np.int64)
        self.leaving[speeds.nvlink_domain[self.hosts]] = speeds.leaving_nvlink_domain[self.hosts]
        self.inside[speeds.nvlink_domain[self.hosts]] = speeds.inside_nvlink_domain[self.hosts]
        self.mine = np.unique(speeds.nvlink_domain[self.hosts])
        self.alone = num_ranks(group) == group.count
        if self.alone and len(self.mine) > 1:
            self.inside[self.inside < self.leaving] = UNLIMITED

    def add(self) -> None:
        """Append variables, rows and the group's part of the term."""
        m, domain = self.m, self.m.problem.cluster.domain
        levels = [
            level
            for level, mbps in enumerate(self.speeds.leaving_level)
            if mbps < UNLIMITED and len(np.unique(domain[level][self.hosts])) > 1
        ]
        found = {self.speeds.leaving_level[level] for level in levels}
        found |= set(self.inside[self.mine].tolist())
        if len(self.mine) > 1:
            found |= set(self.leaving[self.mine].tolist())
        self.widths = sorted(found - {UNLIMITED}, reverse=True)
        if not self.widths:
            return
        times = np.array([0, *(least_time_us(self.group, mbps) for mbps in self.widths)])
        self.slow = m.model.variables("slow", len(self.widths), upper=1)
        m.model.term(BOTTLENECK, self.slow, np.diff(times).astype(np.float64), sense="min")
        rows = m.model.rows("slow", len(self.widths) - 1, lower=0.0)
        m.model.add(rows, self.slow[:-1], 1.0)
        m.model.add(rows, self.slow[1:], -1.0)
        for level in levels:
            _, use = self._use(domain[level])
            self._more_than_one(use, self._slow(self.speeds.leaving_level[level]))
        islands, use = self._use(self.speeds.nvlink_domain)
        self._leaving(islands, use)
        self._inside(islands, use)

    def _slow(self, mbps: int) -> int:
        """Return the column of a bandwidth."""
        return int(self.slow[self.widths.index(mbps)])

    def _use(self, domain: np.ndarray) -> tuple[DomainRows, Ints]:
        """Append a variable per domain that says whether it is used."""
        m = self.m
        found = add_domain_rows(m, self.entry, [self.t], domain)
        use = m.model.variables("use", len(found.parts), upper=1)
        m.model.add(found.rows, use, -np.minimum(found.most, self.group.count).astype(np.float64))
        return found, use

    def _more_than_one(self, use: Ints, column: int) -> None:
        """Force a column to 1 if a job that starts or migrates uses more than one domain."""
        m = self.m
        row = m.model.rows("use", 1, upper=0.0)
        m.model.add(row[[0] * len(use)], use, 1.0)
        for y, sign in arrival_of(m, self.entry):
            m.model.add(row, [y], [-sign])
        m.model.add(row, [column], [-float(min(len(use), self.group.count) - 1)])

    def _leaving(self, islands: DomainRows, use: Ints) -> None:
        """Append the rows of links out of NVLink domains."""
        m, mbps = self.m, self.leaving[islands.parts]
        if len(use) < 2 or self.group.count < 2 or (mbps >= UNLIMITED).all():
            return
        if len(set(mbps.tolist())) == 1:
            self._more_than_one(use, self._slow(int(mbps[0])))
            return
        spans = m.model.variables("spans", 1, upper=1)
        self._more_than_one(use, int(spans[0]))
        some = np.flatnonzero(mbps < UNLIMITED)
        rows = m.model.rows("leaving", len(some), upper=1.0)
        m.model.add(rows, use[some], 1.0)
        m.model.add(rows, spans[[0] * len(some)], 1.0)
        m.model.add(rows, [self._slow(int(mbps[i])) for i in some], -1.0)

    def _inside(self, islands: DomainRows, use: Ints) -> None:
        """Append the rows of links inside NVLink domains."""
        m, mbps = self.m, self.inside[islands.parts]
        column = use.copy()  # where nothing is known, being there is all that counts
        known = np.flatnonzero(mbps < UNLIMITED)
        column[known] = [self._slow(int(mbps[i])) for i in known]
        if self.alone:
            # One task in a domain needs nothing of its inside.
            counted = add_domain_rows(m, self.entry, [self.t], self.speeds.nvlink_domain, upper=1.0)
            m.model.add(counted.rows, column, -(counted.most - 1.0))
            return
        rows = m.model.rows("inside", len(known), upper=0.0)
        m.model.add(rows, use[known], 1.0)
        m.model.add(rows, column[known], -1.0)
