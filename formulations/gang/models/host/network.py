"""The terms `bottleneck` and `contention` of the host-indexed model: what links carry."""

from __future__ import annotations

from collections import defaultdict
from itertools import combinations
from math import comb

import numpy as np

from placewright.array_types import Ints
from placewright.formulations.gang import parameters
from placewright.formulations.gang.models.host.model import (
    DomainRows,
    HostModel,
    Tasks,
    TaskSet,
    add_arrival,
    add_domain_rows,
    add_domain_uses,
)
from placewright.formulations.gang.problem.jobs import Group
from placewright.formulations.gang.problem.limits import BOTTLENECK, CONTENTION
from placewright.formulations.gang.problem.terms import (
    UNLIMITED,
    LinkBandwidths,
    least_time_us,
    num_ranks,
    pinned_loads,
    rates_in_place,
)
from placewright.topology.collectives import Uplinks, uplinks_of

# The term `bottleneck`: the least time of the collective of each group that starts or migrates.
#
# The bandwidths that may bind are b_1 > b_2 > ...; a group's time at b_k is T_k, and T_0 = 0.
#
#     slow[t,k]      some link of at most b_k is crossed         slow[t,k] >= slow[t,k+1]
#     use[t,d]       set t uses domain d                         tasks of t in d <= most use[t,d]
#     leaving        more than one domain (of a level, NVLink), and this one    b_k: out of it
#                    where all are as wide: sum_d use[t,d] - a <= (domains - 1) slow[t,k]
#     between        these two innermost domains and no other    b_k: between them, in a fabric
#     inside         two GPUs in one NVLink domain               b_k: there
#     bottleneck     sum over t and k of (T_k - T_(k-1)) slow[t,k]
#
# A ring whose ranks go along the tree crosses each of these links once, so the time is exact for
# jobs that start, except where GPUs form a mesh. For trees, and for migrated jobs whose tasks
# keep their ranks, it is a lower bound. (NVLink domains are at least as fast inside as out of
# them; where one is not, one-GPU tasks are not charged for the inside.)


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
        self.hosts = np.unique(m.hosts[Tasks.of(m, [t]).hosts])
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
        network = m.problem.cluster.network
        leaving = [
            (domain[level], mbps)
            for level, mbps in enumerate(self.speeds.leaving_level)
            if (mbps < UNLIMITED).any() and len(np.unique(domain[level][self.hosts])) > 1
        ]
        leaving.append((self.speeds.nvlink_domain, self.leaving))
        found = set(self.inside[self.mine].tolist())
        for parts, mbps in leaving[:-1] if len(self.mine) < 2 else leaving:
            found |= set(mbps[np.unique(parts[self.hosts])].tolist())
        pairs: list[tuple[int, int, int]] = []
        if network is not None and self.group.count > 1:
            leaves = np.unique(domain[-2][self.hosts]).tolist()
            if comb(len(leaves), 2) <= parameters.PARAMETERS.models.max_domain_pairs:
                pairs = [(a, b, network.carries([a], [b])) for a, b in combinations(leaves, 2)]
        found |= {mbps for *_, mbps in pairs}
        self.widths = sorted(found - {UNLIMITED}, reverse=True)
        if not self.widths:
            return
        times = np.array([0, *(least_time_us(self.group, mbps) for mbps in self.widths)])
        self.slow = m.model.variables("slow", len(self.widths), upper=1)
        m.model.term(BOTTLENECK, self.slow, np.diff(times).astype(np.float64), sense="min")
        rows = m.model.rows("slow", len(self.widths) - 1, lower=0.0)
        m.model.add(rows, self.slow[:-1], 1.0)
        m.model.add(rows, self.slow[1:], -1.0)
        for parts, mbps in leaving:
            islands, use = self._use(parts)
            self._leaving(use, mbps[islands.parts])
        self._inside(islands, use)
        if pairs:
            self._between(pairs)

    def _slow(self, mbps: int) -> int:
        """Return the column of a bandwidth."""
        return int(self.slow[self.widths.index(mbps)])

    def _use(self, domain: np.ndarray) -> tuple[DomainRows, Ints]:
        """Append a variable per domain that says whether it is used."""
        return add_domain_uses(self.m, "use", self.entry, [self.t], domain)

    def _more_than_one(self, use: Ints, column: int) -> None:
        """Force a column to 1 if a job that starts or migrates uses more than one domain."""
        m = self.m
        row = m.model.row("use", use, upper=0.0)
        add_arrival(m, row, self.entry, -1.0)
        m.model.add(row, column, 1 - min(len(use), self.group.count))

    def _leaving(self, use: Ints, mbps: Ints) -> None:
        """Append the rows of links out of domains, whose `use` and bandwidth is given."""
        m = self.m
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
        m.model.add(rows, spans, 1.0)
        m.model.add(rows, [self._slow(int(mbps[i])) for i in some], -1.0)

    def _between(self, pairs: list[tuple[int, int, int]]) -> None:
        """Append the rows of two innermost domains of a fabric, the only ones that are used."""
        m, leaf = self.m, self.m.problem.cluster.domain[-2]
        domains, use = self._use(leaf)
        there = add_domain_rows(m, self.entry, [self.t], leaf, lower=0.0, upper=np.inf)
        m.model.add(there.rows, use, -1.0)
        rows = m.model.rows("between", len(pairs), upper=1.0)
        for row, (a, b, mbps) in zip(rows, pairs, strict=True):
            m.model.add(row, use, np.where(np.isin(domains.parts, (a, b)), 1.0, -1.0))
            m.model.add(row, self._slow(mbps), -1.0)

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


# The term `contention`: load of links beyond their bandwidth, less that of the kept jobs alone.
#
#     cross[t,d]    set t has a task in domain d and one outside  tasks of t in d <= n (cross + all)
#     all[t,d]      all n tasks of t are in d                       n all <= tasks of t in d
#     over[d]       >= pinned + sum of kept rates + sum_t rate[t] cross[t,d] - bandwidth
#     before[d]     max(0, pinned + sum of kept rates - bandwidth)
#     contention    sum_d over[d] - before[d]
#
# "Tasks of t in d" are those of jobs that start or migrate. `before` counts in the wrong direction
# for a minimum. So where kept jobs may exceed the bandwidth, but pinned ones alone do not, a 0/1
# variable says whether they do.


def add_contention(m: HostModel) -> None:
    """Append the term, its variables and rows.

    The model has all jobs of the round, and their hosts.
    """
    m.model.term(CONTENTION, m.y[:0], np.zeros(0), sense="min")
    links = uplinks_of(m.problem.cluster)
    for one, pinned in zip(links, pinned_loads(m.problem, links), strict=True):
        kept = _kept_rates(m, one)
        crossing: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
        for t, task_set in enumerate(m.task_sets):
            group = task_set.group
            if group is not None and group.rate_mbps and group.required < one.level:
                for d, column in _crossing(m, one, t, task_set, group):
                    crossing[d].append((column, group.rate_mbps))
        for d, columns in crossing.items():
            _over(m, int(one.mbps[d] - pinned[d]), columns, kept[d])


def _kept_rates(m: HostModel, one: Uplinks) -> dict[int, list[tuple[int, int]]]:
    """Return by domain (column of `kept`, rate) of the running jobs that cross its link."""
    rates: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
    for e, entry in enumerate(m.entries):
        if entry.may_stay:
            for rate, hosts in rates_in_place(m.problem, entry.job):
                for d in one.crossed_from(hosts).tolist():
                    rates[d].append((int(m.kept[e]), rate))
    return rates


def _crossing(
    m: HostModel, one: Uplinks, t: int, task_set: TaskSet, group: Group
) -> list[tuple[int, int]]:
    """Append whether a set crosses the link of each domain; return (domain, column) pairs."""
    entry = task_set.users[0][0]
    if len(np.unique(one.domain[m.hosts[Tasks.of(m, [t]).hosts]])) < 2:
        return []
    count = float(group.count)
    found, cross = add_domain_uses(m, "cross", entry, [t], one.domain)
    holds_all = found.most >= group.count
    if holds_all.any():
        full = m.model.variables("all", int(holds_all.sum()), upper=1)
        m.model.add(found.rows[holds_all], full, -count)
        whole = add_domain_rows(m, entry, [t], one.domain, lower=0.0, upper=np.inf)
        m.model.add(whole.rows[holds_all], full, -count)
    counts = one.exists[found.parts]
    return list(zip(found.parts[counts].tolist(), cross[counts].tolist(), strict=True))


def _over(
    m: HostModel, room: int, crossing: list[tuple[int, int]], kept: list[tuple[int, int]]
) -> None:
    """Append the load of a link beyond `room`, what pinned jobs leave of its bandwidth."""
    columns, rates = np.array([*crossing, *kept], dtype=np.int64).T
    # A whole number: backends that take integers alone may solve the model.
    over = m.model.variables("over", 1, upper=float(max(int(rates.sum()) - room, 0)))
    m.model.add(m.model.row("link", columns, rates, upper=room), over, -1.0)
    # What pinned jobs alone exceed counts on neither side.
    m.model.term(CONTENTION, over, 1.0, sense="min", constant=float(min(room, 0)))
    most = sum(rate for _, rate in kept)
    if most <= room or not kept:
        return
    held, each = np.array(kept, dtype=np.int64).T
    if room <= 0:
        m.model.term(CONTENTION, held, -each.astype(np.float64), sense="min")
        return
    before = m.model.variables("over before", 1, upper=float(most - room))
    exceeds = m.model.variables("exceeds", 1, upper=1)
    rows = m.model.rows("over before", 2, upper=0.0)
    m.model.add(rows[0], before, 1.0)
    m.model.add(rows[0], exceeds, -float(most - room))
    m.model.add(rows[1], before, 1.0)
    m.model.add(rows[1], held, -each)
    m.model.add(rows[1], exceeds, float(room))
    m.model.term(CONTENTION, before, -1.0, sense="min")
