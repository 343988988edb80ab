"""Preemption rows: a job stops only where jobs of higher precedence need its place."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from placewright.array_types import Bools, Floats, Ints
from placewright.formulations.gang import parameters
from placewright.formulations.gang.models.host.model import HostModel, TaskSet, milli_each
from placewright.formulations.gang.models.host.rows import PoolColumns
from placewright.formulations.gang.placement.preemption import taken_of_pool
from placewright.formulations.gang.problem.jobs import ANY_JOB, NO_LABEL, RunningJob
from placewright.topology.units import WHOLE_GPU

# Preemption rows of pools: a job stops for what it holds of a domain, and others gain nothing.
#
# For each level k and each domain d of a pool, with all victims w of at least this level back in
# place, and as if nobody of a higher rank had started:
#
#     sum_{rank <= k} takes of d + sum_{w: level >= k} home[w,d] n[w] + sum_H g[k,H,d]
#         <= left[d]                          where touched[k,d] = 1
#     touched[k,d] >= n[w]                    of w that holds something of d, if one of k stops
#     touched[k,d] >= r[k,H]                  of H that holds something of d
#     g[k,H,d] >= home[H,d] r[k,H]            a job H of a higher rank is back, or
#     takes[H,d] - g[k,H,d] <= M more[H,d]    takes no more than before
#     r[k,H] >= more[H,d] + touched[k,d] - 1  it is back where one that is back holds something of d
#
# A job that has no part of d before does not count there: where it comes, it goes back.


class PoolVictims:
    """What running jobs hold of the pools of a model before the round.

    `running` are the entries of each running job; jobs below are positions in it, as in `level`.
    """

    def __init__(
        self,
        m: HostModel,
        pools: Sequence[PoolColumns],
        running: Sequence[Sequence[int]],
        level: Sequence[int],
    ) -> None:
        self.m, self.pools, self.running = m, pools, running
        self.level = np.array(level, dtype=np.int64)
        self.rank = np.array(
            [m.problem.shape_rank[m.choice(e).groups[0].shape] for e in m.entries], dtype=np.int64
        )
        self.job_of_entry = np.full(len(m.entries), ANY_JOB, dtype=np.int64)
        for k, mine in enumerate(running):
            self.job_of_entry[list(mine)] = k
        homes = m.problem.running_placement_of
        jobs = [homes[m.entries[mine[0]].job] for mine in running]
        # (jobs, domains) of each pool
        self.home = [
            np.array([taken_of_pool(m.problem, one.pool, job) for job in jobs]) for one in pools
        ]
        self._more: dict[tuple[int, int, int], int] = {}

    def arrivals(self, job: int) -> Bools:
        """Return which x take of a domain of which a job holds something."""
        m = self.m
        entry = np.array([s.users[0][0] for s in m.task_sets], dtype=np.int64)[m.x_set]
        found = np.zeros(len(m.x), dtype=np.bool_)
        for one, home in zip(self.pools, self.home, strict=True):
            uses = np.array([one.pool.used_by(m.choice(e).uses) for e in m.entries])
            takes = (one.pool.demand[m.x_shape] > 0) | (uses[entry] > 0)
            found |= takes & (home[job] > 0)[one.pool.domain[m.hosts[m.x_host]]]
        return found

    def add_counterfactual(
        self, level: int, exact: Sequence[int], some: Ints, back: Mapping[int, int]
    ) -> None:
        """Append the rows of a level.

        `exact` are its jobs, `some` is the column that says whether one of them stops, `back` has
        the column r of each job that may go back.
        """
        for p in range(len(self.pools)):
            touched = self._touched(p, level, exact, some, back)
            for k in back:
                for d in self._grows(p, k):
                    if d in touched:
                        columns = [back[k], self._more_of(p, k, d), touched[d]]
                        self.m.model.row("returned", columns, [1.0, -1.0, -1.0], lower=-1.0)
            for d, column in touched.items():
                self._limit(p, level, d, column, back)

    def _touched(
        self, p: int, level: int, exact: Sequence[int], some: Ints, back: Mapping[int, int]
    ) -> dict[int, int]:
        """Append whether one that is back holds something of a domain; return columns by domain.

        Where nobody goes back, victims of a higher level are left to its own rows.
        """
        m, home = self.m, self.home[p]
        above = np.flatnonzero(self.level > level).tolist() if back else []
        domains = np.flatnonzero((home[[*exact, *above]] > 0).any(axis=0)).tolist()
        new = m.model.variables("touched pool", len(domains), upper=1, integer=False)
        touched: dict[int, int] = dict(zip(domains, new.tolist(), strict=True))
        for d, column in touched.items():
            for k in (k for k in (*exact, *above) if home[k, d]):
                own = self.level[k] == level
                columns = [column, *m.y[list(self.running[k])]]
                row = m.model.row("touched pool", columns, lower=1.0 if own else 0.0)
                if not own:
                    m.model.add(row, some, -1.0)
                if k in back:
                    m.model.row("touched pool", [column, back[k]], [1.0, -1.0], lower=0.0)
        return touched

    def _grows(self, p: int, job: int) -> list[int]:
        """Return the domains of which a job may take more than before."""
        one = self.pools[p]
        mine = self._taking(p, job) & ~one.stays
        domains: list[int] = np.unique(one.domain[mine]).tolist()
        return [d for d in domains if self._most(p, job) > self.home[p][job, d]]

    def _taking(self, p: int, job: int) -> Bools:
        taking: Bools = self.job_of_entry[self.pools[p].entry] == job
        return taking

    def _most(self, p: int, job: int) -> int:
        """Return what a job may take of one domain at most."""
        m, pool = self.m, self.pools[p].pool
        return max(
            sum(group.count * int(pool.demand[group.shape]) for group in choice.groups)
            + (pool.used_by(choice.uses) if choice.num_tasks > 1 else 0)
            for choice in (m.choice(m.entries[e]) for e in self.running[job])
        )

    def _more_of(self, p: int, job: int, d: int) -> int:
        """Return the column: whether a job takes more of a domain than before."""
        if (p, job, d) not in self._more:
            m, one, before = self.m, self.pools[p], int(self.home[p][job, d])
            column = m.model.variables("more", 1, upper=1)
            mine = self._taking(p, job) & (one.domain == d)
            row = m.model.row("more", one.columns[mine], one.amount[mine], upper=before)
            m.model.add(row, column, before - self._most(p, job))
            self._more[p, job, d] = int(column[0])
        return self._more[p, job, d]

    def _limit(self, p: int, level: int, d: int, tested: int, back: Mapping[int, int]) -> None:
        """Append the row of a domain."""
        m, one, home = self.m, self.pools[p], self.home[p][:, d]
        highest = np.flatnonzero((self.level >= level) & (home > 0))
        row = m.model.row("pool of victims", tested, home[highest].sum(), upper=one.left[d])
        for k in highest.tolist():
            m.model.add(row, m.y[list(self.running[k])], -home[k])
        here = one.domain == d
        job = self.job_of_entry[one.entry]
        above = (job != ANY_JOB) & (self.level[job] > level)
        counted = here & ~above & ((job != ANY_JOB) | (self.rank[one.entry] <= level))
        for k in np.unique(job[here & above]).tolist():
            mine = here & (job == k)
            if home[k] == 0:
                continue
            if k in back:
                m.model.add(row, self._kept(p, k, d, mine, back[k]), 1.0)
            else:
                counted |= mine & one.stays if d in self._grows(p, k) else mine
        m.model.add(row, one.columns[counted], one.amount[counted])

    def _kept(self, p: int, job: int, d: int, mine: Bools, back: int) -> Ints:
        """Append g of a job: what it has of a domain, back in place or no more than before."""
        m, one, home = self.m, self.pools[p], int(self.home[p][job, d])
        has = m.model.variables("kept of pool", 1, upper=home, integer=False)
        m.model.row("kept of pool", [int(has[0]), back], [1.0, -home], lower=0.0)
        row = m.model.row("kept of pool", one.columns[mine], one.amount[mine], upper=0.0)
        m.model.add(row, has, -1.0)
        if d in self._grows(p, job):
            m.model.add(row, self._more_of(p, job, d), home - self._most(p, job))
        return has


# For each running job v of level k, where n[v] = 1 - y[v] says that it stops (victim):
#
#     n[v] <= tasks of a higher rank that arrive on its hosts
#             + jobs of a higher rank that start and count in its quota or in a cap of it
#             + tasks of a higher rank with its label that arrive
#             + tasks of a higher rank that take of a pool domain of which it holds something
#
# For each level k, on each host h, as if nobody of a higher rank had come (counterfactual):
#
#     sum_p demand[p] s[p] + sum_{t: rank <= k} demand[t] x[t,h]
#         + sum_{w: level >= k} demand[w,h] n[w] + sum_H demand[H,h] r[k,H]
#         <= free[h]                          where touched[k,h] = 1
#     touched[k,h] >= n[w]                    of w that ran there, level >= k, if one of k stops
#     r[k,H] = 1                              a job H of a higher rank moves to such a host:
#                                             it is back, and its hosts are touched
#     sum of what the jobs of an account of v hold in this state <= quota or cap, if v stops
#
# Where rules say who may preempt whom, "of a higher rank" is "that may preempt v" in the first row,
# and the counterfactual stands once more for each kind of v, with these in place of all of a higher
# rank, and of the w those that no others may preempt.
#
# GPUs are counted per host, and labels do not matter in the counterfactual: a relaxation. A plan of
# the round is a point of the rows, and a point is a plan once `repair_preemptions` has seen it.
#
# Victims of a level below that of jobs whose start is fixed have no rows, and nobody a
# counterfactual where limits are those of reservations, too: it would be that of another round.
#
# Neighbourhoods have rows that are shorter and stricter (`close_hosts_of_victims`).


MILLI_GPU = -1
"""Instead of a resource's index: the GPUs of a host together."""


def add_preemption(
    m: HostModel, running: Sequence[Sequence[int]] | None = None, pools: Sequence[PoolColumns] = ()
) -> None:
    """Append the rows of every running job of a model of the whole round.

    `running` has the entries of each running job, if some have several.
    """
    if running is None:
        running = m.entries_of_running
    if not running:
        return
    rows = _PreemptionRows(m, running, pools)
    rows.add_causes()
    for level in sorted(set(rows.level)):
        if level >= m.problem.fixed_rank and not m.problem.has_reservations:
            rows.add_counterfactual(level)
            kinds = {v.kind: v for v in rows.victims if v.level == level}
            for victim in kinds.values() if m.problem.over.sets is not None else ():
                rows.add_counterfactual(level, victim)


class _PreemptionRows:
    """What the rows of all levels have in common; `level` is that of each running job."""

    def __init__(
        self, m: HostModel, running: Sequence[Sequence[int]], pools: Sequence[PoolColumns]
    ) -> None:
        self.m, self.running = m, running
        problem = m.problem
        self.victims = [min(map(self._running, mine), key=lambda v: v.level) for mine in running]
        self.level = [victim.level for victim in self.victims]
        self.pools = PoolVictims(m, pools, running, self.level)
        self.rank = problem.shape_rank[m.x_shape]
        self.entry_shape = np.array([m.choice(entry).groups[0].shape for entry in m.entries])
        self.entry_rank = problem.shape_rank[self.entry_shape]
        self.accounts = [m.problem.classes[entry.job_class].accounts for entry in m.entries]
        self.places = [np.flatnonzero(m.stays.entry == mine[0]) for mine in running]
        of_set = np.array([s.users[0][0] for s in m.task_sets], dtype=np.int64)
        moving = np.array([entry.job != ANY_JOB for entry in m.entries], dtype=np.bool_)
        self._job_of_entry = np.full(len(m.entries), -1, dtype=np.int64)
        for k, mine in enumerate(running):
            self._job_of_entry[list(mine)] = k
        # The running job of each x, -1 for pending ones.
        self.x_job = np.where(moving[of_set[m.x_set]], self._job_of_entry[of_set[m.x_set]], -1)
        self.resources = [MILLI_GPU, *np.flatnonzero(problem.shape_demand.any(axis=0)).tolist()]

    def _resizes(self, task_set: TaskSet) -> bool:
        return self.m.entries[task_set.users[0][0]].resizes

    def _running(self, entry: int) -> RunningJob:
        return self.m.problem.running[self.m.entries[entry].job]

    def add_causes(self) -> None:
        """Let each job stop only if something of a higher rank may be in its way."""
        m = self.m
        away_shape, over = m.set_shape[m.away_set], m.problem.over
        starts = np.array([not entry.may_stay for entry in m.entries], dtype=np.bool_)
        label = np.array([m.choice(entry).label for entry in m.entries], dtype=np.int64)
        labelled = np.isin(
            m.x_set, [t for t, s in enumerate(m.task_sets) if label[s.users[0][0]] != NO_LABEL]
        )
        for k, mine in enumerate(self.running):
            if self.level[k] < m.problem.fixed_rank:
                continue
            here = np.isin(m.x_host, m.stays.host[self.places[k]])
            causes = here | self.pools.arrivals(k)
            if label[mine[0]] != NO_LABEL:
                causes |= labelled
            row = m.model.row("victim", m.y[list(mine)], lower=1.0)
            victim = self.victims[k]
            m.model.add(row, m.x[causes & over(m.x_shape, victim) & (self.x_job != k)], 1.0)
            m.model.add(row, m.away[over(away_shape, victim)], 1.0)
            if sharing := self._sharing(mine[0]):
                same = starts & np.isin(np.arange(len(starts)), sharing)
                m.model.add(row, m.y[same & over(self.entry_shape, victim)], 1.0)

    def _sharing(self, entry: int) -> list[int]:
        """Return the entries that count in a quota or cap of one."""
        m = self.m
        keys = m.problem.quota_keys.get(self.accounts[entry], ())
        mine = {account for account, _ in keys} - m.problem.totals_of_pools
        return [e for e, of in enumerate(self.accounts) if mine.intersection(of)] if mine else []

    def add_counterfactual(self, level: int, victim: RunningJob | None = None) -> None:
        """Let what victims of a level have given back be of use for higher ranks only.

        With a victim: what those of its kind have given back for those that may preempt it.
        """
        m = self.m
        victims = [k for k, mine in enumerate(self.level) if mine >= level]
        if victim is None:
            above, entry_above = self.rank > level, self.entry_rank > level
        else:
            over = m.problem.over
            above, entry_above = over(m.x_shape, victim), over(self.entry_shape, victim)
            victims = [k for k in victims if over.covers(self.victims[k].kind, victim.kind)]
        if not above.any() and not entry_above.any():
            return
        exact = [k for k in victims if self.level[k] == level]
        if victim is not None:
            exact = [k for k in exact if self.victims[k].kind == victim.kind]
        self._add_quota(victims, exact, entry_above)
        most = parameters.PARAMETERS.models.max_returned_hosts
        returns = len(m.hosts) * len(set(self.level)) <= most
        moves = np.flatnonzero((self.x_job >= 0) & above & returns)
        movers = np.unique(self.x_job[moves])
        touching = victims if len(movers) else exact
        hosts = self._hosts(touching)
        if len(movers):
            hosts = np.union1d(hosts, self._hosts(movers))
        touched = np.full(len(m.hosts), -1, dtype=np.int64)
        touched[hosts] = m.model.variables("touched", len(hosts), upper=1, integer=False)
        some = self._touch(touched, exact, touching)
        back = self._returned(touched, moves, movers)
        if victim is None:
            self.pools.add_counterfactual(level, exact, some, back)
        for resource in self.resources:
            self._add_capacity(resource, ~above, hosts, touched, victims, back)

    def _hosts(self, jobs: Iterable[int]) -> Ints:
        found: Ints = np.unique(
            np.concatenate([[], *(self.m.stays.host[self.places[k]] for k in jobs)])
        ).astype(np.int64)
        return found

    def _touch(self, touched: Ints, exact: Sequence[int], jobs: Sequence[int]) -> Ints:
        """Touched >= n[v] for v of the level, and >= n[w] for all others if such a v stops.

        Returns the column that says whether one of the level does.
        """
        m = self.m
        some = m.model.variables("victims of a level", 1, upper=1, integer=False)
        rows = m.model.rows("victims of a level", len(exact), lower=1.0)
        m.model.add(rows, some, 1.0)
        for row, k in zip(rows, exact, strict=True):
            m.model.add(row, m.y[list(self.running[k])], 1.0)
        for k in jobs:
            hosts = np.unique(m.stays.host[self.places[k]])
            own = k in exact
            rows = m.model.rows("touched", len(hosts), lower=1.0 if own else 0.0)
            m.model.add(rows, touched[hosts], 1.0)
            for e in self.running[k]:
                m.model.add(rows, m.y[e], 1.0)
            if not own:
                m.model.add(rows, some, -1.0)
        return some

    def _returned(self, touched: Ints, moves: Ints, movers: Ints) -> dict[int, int]:
        """Append r of the movers; return its column by running job."""
        m = self.m
        columns = m.model.variables("returned", len(movers), upper=1)
        column_of = dict(zip(movers.tolist(), columns.tolist(), strict=True))
        there = moves[touched[m.x_host[moves]] >= 0]
        # Where it ran, a job that resizes may take no more than before: it has not come.
        at_home = {(k, h) for k in movers.tolist() for h in m.stays.host[self.places[k]].tolist()}
        sizes = np.isin(m.x_set, [t for t, s in enumerate(m.task_sets) if self._resizes(s)])
        there = there[
            [
                not sizes[i] or (int(self.x_job[i]), int(m.x_host[i])) not in at_home
                for i in there.tolist()
            ]
        ]
        rows = m.model.rows("returned", len(there), upper=1.0)
        most = m.capacity[m.x_set[there], m.x_host[there]]
        m.model.add(rows, touched[m.x_host[there]], 1.0)
        m.model.add(rows, m.x[there], 1.0 / most)
        m.model.add(rows, [column_of[k] for k in self.x_job[there].tolist()], -1.0)
        for k, column in column_of.items():
            hosts = np.unique(m.stays.host[self.places[k]])
            rows = m.model.rows("touched", len(hosts), lower=0.0)
            m.model.add(rows, touched[hosts], 1.0)
            m.model.add(rows, column, -1.0)
        return column_of

    def _add_capacity(
        self,
        resource: int,
        others: Bools,
        hosts: Ints,
        touched: Ints,
        victims: Sequence[int],
        back: dict[int, int],
    ) -> None:
        m = self.m
        x_demand, stay_demand, free = self._amounts(resource)
        most = np.zeros(len(m.hosts))
        rows = np.full(len(m.hosts), -1, dtype=np.int64)
        homes = {*victims, *back}
        for k in homes:
            np.add.at(most, m.stays.host[self.places[k]], stay_demand[self.places[k]])
        constant = np.zeros(len(m.hosts))
        for k in victims:
            np.add.at(constant, m.stays.host[self.places[k]], stay_demand[self.places[k]])
        hosts = hosts[most[hosts] > 0]
        rows[hosts] = m.model.rows(
            "counterfactual", len(hosts), upper=(free + most - constant)[hosts]
        )
        m.model.add(rows[hosts], touched[hosts], most[hosts])
        stays = np.flatnonzero((rows[m.stays.host] >= 0) & (stay_demand > 0))
        m.model.add(rows[m.stays.host[stays]], m.stays.s[stays], stay_demand[stays])
        below = np.flatnonzero((rows[m.x_host] >= 0) & others & (x_demand > 0))
        m.model.add(rows[m.x_host[below]], m.x[below], x_demand[below])
        for k in victims:
            at = self.places[k][rows[m.stays.host[self.places[k]]] >= 0]
            for e in self.running[k]:
                m.model.add(rows[m.stays.host[at]], m.y[e], -stay_demand[at])
        for k, column in back.items():
            at = self.places[k][rows[m.stays.host[self.places[k]]] >= 0]
            at = at[stay_demand[at] > 0]
            left = m.model.variables("moved back", len(at), upper=1, integer=False)
            each = m.model.rows("moved back", len(at), lower=0.0)
            m.model.add(each, left, 1.0)
            m.model.add(each, column, -1.0)
            for e in (e for e in self.running[k] if not m.entries[e].resizes):
                mine = np.flatnonzero(m.stays.entry == e)[np.searchsorted(self.places[k], at)]
                m.model.add(each, m.stays.s[mine], 1.0)
            m.model.add(rows[m.stays.host[at]], left, stay_demand[at])

    def _amounts(self, resource: int) -> tuple[Floats, ...]:
        """Return what each x and each place takes of a resource, and what hosts have of it."""
        m = self.m
        if resource != MILLI_GPU:
            demand = m.problem.shape_demand[:, resource].astype(np.float64)
            free = m.placement.free[m.hosts, resource].astype(np.float64)
            return demand[m.x_shape], demand[m.stay_shape], free
        gpu = m.problem.shape_gpu.astype(np.float64)
        held = np.minimum(milli_each(m), WHOLE_GPU) * m.stays.usable
        shares = m.problem.is_share
        sharing = np.union1d(m.x_host[shares[m.x_shape]], m.stays.host[shares[m.stay_shape]])
        free = (m.placement.whole[m.hosts] * WHOLE_GPU).astype(np.float64)
        free[sharing] = m.placement.free_milli_gpu[m.hosts[sharing]]
        return gpu[m.x_shape], held.astype(np.float64), free

    def _add_quota(self, victims: Sequence[int], exact: Sequence[int], entry_above: Bools) -> None:
        """Keep what the accounts of a victim hold within quota or cap in the counterfactual."""
        m = self.m
        left = m.placement.quota_left()
        accounts = self.accounts
        for k in exact:
            for key in m.problem.quota_keys.get(accounts[self.running[k][0]], ()):
                if key[0] in m.problem.totals_of_pools:
                    continue
                amount = [m.problem.demand_of(m.choice(entry), key[1]) for entry in m.entries]
                above = [w for w in victims if key[0] in accounts[self.running[w][0]]]
                fixed = float(sum(amount[self.running[w][0]] for w in above))
                mine = list(self.running[k])
                row = m.model.row("quota of victims", m.y[mine], -fixed, upper=left[key] - fixed)
                for e, entry in enumerate(m.entries):
                    job = int(self._job_of_entry[e])
                    kept = entry.job != ANY_JOB and job not in above
                    starts = entry.job == ANY_JOB and not entry_above[e]
                    if key[0] in accounts[e] and (kept or starts):
                        m.model.add(row, m.y[e], float(amount[e]))
                    elif key[0] in accounts[e] and entry.resizes:
                        # It holds what its option asks, or is back with what it held.
                        less = amount[e] - amount[self.running[job][0]]
                        higher = self.level[job] > self.level[k]
                        m.model.add(row, m.y[e], float(min(less, 0) if higher else less))


def close_hosts_of_victims(m: HostModel) -> None:
    """Append the rows of every running job of a model of some hosts.

    x[t,h] <= capacity y[v]                       tasks of rank at most v's level, h where v runs
    1 - y[v] <= sum over those above it x[t,h]    something does arrive from another host

    Tasks that have arrived in the placement already count, too.
    """
    rank = m.problem.shape_rank[m.x_shape]
    at_home = _at_home(m)
    for e, entry in enumerate(m.entries):
        if entry.job == ANY_JOB:
            continue
        level = m.problem.running[entry.job].level
        places = m.stays.host[m.stays.entry == e]
        least = m.placement.least_arrived[m.hosts[places]]
        if (least <= level).any():
            m.model.row("no profit", m.y[e], lower=1.0)
            continue
        there = np.isin(m.x_host, places)
        below = np.flatnonzero(there & (rank <= level))
        rows = m.model.rows("no profit", len(below), upper=0.0)
        m.model.add(rows, m.x[below], 1.0)
        m.model.add(rows, m.y[e], -m.capacity[m.x_set[below], m.x_host[below]])
        if (least < m.placement.none_arrived).any():
            continue
        comes = m.x[there & (rank > level) & ~at_home]
        m.model.row("victim", np.append(m.y[e], comes), lower=1.0)


def _at_home(m: HostModel) -> Bools:
    """Return for each x whether a task of its set runs on its host already, bool (x,)."""
    homes = set(zip(m.stays.set.tolist(), m.stays.host.tolist(), strict=True))
    pairs = zip(m.x_set.tolist(), m.x_host.tolist(), strict=True)
    return np.array([pair in homes for pair in pairs], dtype=np.bool_)
