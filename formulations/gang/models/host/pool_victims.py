r"""Preemption rows of pools: a job stops for what it holds of a domain, and others gain nothing.

For each level k and each domain d of a pool, with all victims w of at least this level back in
place, and as if nobody of a higher rank had started:

    sum_{rank <= k} takes of d + sum_{w: level >= k} home[w,d] n[w] + sum_H g[k,H,d]
        <= left[d]                          where touched[k,d] = 1
    touched[k,d] >= n[w]                    of w that holds something of d, if one of k stops
    touched[k,d] >= r[k,H]                  of H that holds something of d
    g[k,H,d] >= home[H,d] r[k,H]            a job H of a higher rank is back, or
    takes[H,d] - g[k,H,d] <= M more[H,d]    takes no more than before
    r[k,H] >= more[H,d] + touched[k,d] - 1  it is back where one that is back holds something of d

A job that has no part of d before does not count there: where it comes, it goes back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from placewright.array_types import Ints
from placewright.formulations.gang.models.host.model import HostModel
from placewright.formulations.gang.models.host.pools import PoolColumns
from placewright.formulations.gang.placement.pool_use import taken_of_pool
from placewright.formulations.gang.problem.jobs import ANY_JOB


class PoolVictims:
    """What running jobs hold of the pools of a model before the round.

    Parameters
    ----------
    running
        The entries of each running job; jobs below are positions in it.
    level
        Level of each of them.
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

    def arrivals(self, job: int) -> NDArray[np.bool_]:
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

        Parameters
        ----------
        exact
            Its jobs.
        some
            Column: whether one of them stops.
        back
            The column r of each job that may go back.
        """
        for p in range(len(self.pools)):
            touched = self._touched(p, level, exact, some, back)
            for k in back:
                for d in self._grows(p, k):
                    if d in touched:
                        row = self.m.model.rows("returned", 1, lower=-1.0)
                        columns = [back[k], self._more_of(p, k, d), touched[d]]
                        self._sum(row, columns, [1.0, -1.0, -1.0])
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
        columns = m.model.variables("touched pool", len(domains), upper=1, integer=False)
        touched: dict[int, int] = dict(zip(domains, columns.tolist(), strict=True))
        for d, column in touched.items():
            for k in (k for k in (*exact, *above) if home[k, d]):
                own = self.level[k] == level
                row = m.model.rows("touched pool", 1, lower=1.0 if own else 0.0)
                self._sum(row, [column, *m.y[list(self.running[k])]], 1.0)
                if not own:
                    self._sum(row, some, -1.0)
                if k in back:
                    row = m.model.rows("touched pool", 1, lower=0.0)
                    self._sum(row, [column, back[k]], [1.0, -1.0])
        return touched

    def _grows(self, p: int, job: int) -> list[int]:
        """Return the domains of which a job may take more than before."""
        one = self.pools[p]
        mine = self._taking(p, job) & ~one.stays
        domains: list[int] = np.unique(one.domain[mine]).tolist()
        return [d for d in domains if self._most(p, job) > self.home[p][job, d]]

    def _taking(self, p: int, job: int) -> NDArray[np.bool_]:
        taking: NDArray[np.bool_] = self.job_of_entry[self.pools[p].entry] == job
        return taking

    def _most(self, p: int, job: int) -> int:
        """Return what a job may take of one domain at most."""
        m, pool = self.m, self.pools[p].pool
        choice = m.choice(m.entries[self.running[job][0]])
        tasks = sum(group.count * int(pool.demand[group.shape]) for group in choice.groups)
        return tasks + (pool.used_by(choice.uses) if choice.num_tasks > 1 else 0)

    def _more_of(self, p: int, job: int, d: int) -> int:
        """Return the column: whether a job takes more of a domain than before."""
        if (p, job, d) not in self._more:
            m, one, before = self.m, self.pools[p], int(self.home[p][job, d])
            column = m.model.variables("more", 1, upper=1)
            row = m.model.rows("more", 1, upper=float(before))
            mine = self._taking(p, job) & (one.domain == d)
            self._sum(row, one.columns[mine], one.amount[mine])
            self._sum(row, column, -float(self._most(p, job) - before))
            self._more[p, job, d] = int(column[0])
        return self._more[p, job, d]

    def _limit(self, p: int, level: int, d: int, tested: int, back: Mapping[int, int]) -> None:
        """Append the row of a domain."""
        m, one, home = self.m, self.pools[p], self.home[p][:, d]
        highest = np.flatnonzero((self.level >= level) & (home > 0))
        row = m.model.rows("pool of victims", 1, upper=float(one.left[d]))
        self._sum(row, [tested], float(home[highest].sum()))
        for k in highest.tolist():
            self._sum(row, m.y[list(self.running[k])], -float(home[k]))
        here = one.domain == d
        job = self.job_of_entry[one.entry]
        above = (job != ANY_JOB) & (self.level[job] > level)
        counted = here & ~above & ((job != ANY_JOB) | (self.rank[one.entry] <= level))
        for k in np.unique(job[here & above]).tolist():
            mine = here & (job == k)
            if home[k] == 0:
                continue
            if k in back:
                self._sum(row, self._kept(p, k, d, mine, back[k]), 1.0)
            else:
                counted |= mine & one.stays if d in self._grows(p, k) else mine
        self._sum(row, one.columns[counted], one.amount[counted])

    def _kept(self, p: int, job: int, d: int, mine: NDArray[np.bool_], back: int) -> Ints:
        """Append g of a job: what it has of a domain, back in place or no more than before."""
        m, one, home = self.m, self.pools[p], int(self.home[p][job, d])
        has = m.model.variables("kept of pool", 1, upper=home, integer=False)
        row = m.model.rows("kept of pool", 1, lower=0.0)
        self._sum(row, [int(has[0]), back], [1.0, -float(home)])
        row = m.model.rows("kept of pool", 1, upper=0.0)
        self._sum(row, one.columns[mine], one.amount[mine])
        self._sum(row, has, -1.0)
        if d in self._grows(p, job):
            more = self._more_of(p, job, d)
            self._sum(row, [more], -float(self._most(p, job) - home))
        return has

    def _sum(
        self,
        row: Ints,
        columns: Sequence[int] | Ints,
        amounts: float | Sequence[float] | NDArray[np.number],
    ) -> None:
        """Add some columns to a row."""
        each = np.broadcast_to(np.asarray(amounts, dtype=np.float64), (len(columns),))
        self.m.model.add([row[0]] * len(columns), list(columns), each)
