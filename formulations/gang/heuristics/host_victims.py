"""Displacement by column generation: which running jobs stop on each host, at least disruption."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from placewright.array_types import Bools, Floats, Ints
from placewright.formulations.gang import parameters
from placewright.formulations.gang.heuristics.disaggregation import StartCounts
from placewright.formulations.gang.heuristics.displacement import DisplacementCost
from placewright.formulations.gang.models.aggregate.host_columns import (
    HostPatterns,
    exchangeable_slots,
    exchanged_slots,
    follow,
    knapsack,
)
from placewright.formulations.gang.models.aggregate.solve import PricedModel
from placewright.formulations.gang.placement.gang_tree import compact_hosts
from placewright.formulations.gang.placement.greedy import fill_by_policy, upgrade_options
from placewright.formulations.gang.placement.placement import Placement
from placewright.formulations.gang.problem.jobs import (
    ANY_JOB,
    NO_LABEL,
    NO_LEVEL,
    NOWHERE,
    Choice,
    Group,
    JobPlacement,
    TaskPlacement,
)
from placewright.formulations.gang.problem.limits import DISRUPTION
from placewright.formulations.gang.problem.problem import Problem
from placewright.formulations.plan_messages import HOLD_SLACK
from placewright.formulations.session import Session
from placewright.solver import Arrays, Model, Status

# Column generation (Dantzig and Wolfe 1960): the running jobs that stop on a host, and who arrives.
#
# The aggregate model knows no hosts: it prices a stop at the least cost of its class. Here a column
# is a host, the set K of its running jobs that stop, and a multiset P of tasks that fit then:
#
#     x[h,K,P]   whether host h has it
#     y[c,o]     pending jobs of class c that start with option o
#     e[s,t]     slots of shape s that tasks of shape t take (host_columns.py)
#
#     min  sum cost(K) x
#     tasks   sum P[s] x + sum_t (e[t,s] - e[s,t])   >=  tasks of shape s of the jobs in y
#     hosts   sum_(K,P) x[h,K,P]                     <=  1      (= 1 where gangs stay as planned)
#     value   sum value y - sum value(K) x           >=  that of the best plan
#     quota   sum use y - sum freed(K) x             <=  what is left
#
# At prices pi of tasks and the other duals, the best P of a set is a knapsack in what the host has
# free then, and the sets of a host are few. Prices are looked at between the last duals and those
# of the best Lagrangian bound so far (Wentges 1997). Then the integer program decides the hosts
# that the last relaxation leaves open. Gangs whose rules look at domains stay where the plan has
# them, and so do running jobs that move in it; others stay or stop.


USED_TOLERANCE = 1e-6
STEPS = 5
"""Relaxations in which the cost has to fall by the gap, or column generation ends."""


def displace_by_hosts(session: Session, model: PricedModel, plan: Placement) -> Placement | None:
    """Return a placement worth what `plan` is, at less disruption.

    None if hosts may not be looked at one by one, without time, or without a gain.
    """
    if not isinstance(model.patterns, HostPatterns) or not _may_look_at_hosts(plan.problem):
        return None
    master = _Master(session, model.patterns, plan)
    values = master.solve()
    return None if values is None else master.placement(values)


def _may_look_at_hosts(problem: Problem) -> bool:
    return (
        problem.budget is None
        and not problem.pools
        and problem.over.sets is None
        and not problem.resizes
        and problem.counts_gpus_alone
        and bool(problem.usable.all())
    )


def _is_free(problem: Problem, choice: Choice) -> bool:
    """Whether the tasks of an option may be on any hosts, as far as rules go."""
    group = choice.groups[0]
    if len(choice.groups) > 1 or choice.label != NO_LABEL or choice.uses:
        return False
    if group.is_arranged or group.domain_limit is not None or group.num_hosts is not None:
        return False
    return (
        group.required == NO_LEVEL or len(problem.cluster.names[group.required]) == 1
    ) and not group.counts_all_levels


class _Master:
    """The restricted master problem, and its columns so far."""

    def __init__(self, session: Session, patterns: HostPatterns, plan: Placement) -> None:
        self._session, self._grid, self._plan = session, patterns.grid, plan
        problem = self._problem = plan.problem
        self._base = Placement(problem)
        moved = [start.job for _, start in plan.changed() if start.job != ANY_JOB]
        for job in moved:
            self._base.stop(self._base.start_of(job))
        self._cost = DisplacementCost(self._base)
        self._of_plan = self._cost.add_sets_of(plan)
        self._list_arrivals()
        self._list_sets()
        self._model = Model()
        self._add_rows()
        self._add_starts()
        self._row = np.zeros(0, dtype=np.int64)
        self._cuts = np.zeros((0, len(problem.shape_gpu)), dtype=np.int64)
        self._x = np.zeros(0, dtype=np.int64)
        self._seen: set[tuple[int, bytes]] = set()
        self._idle = np.zeros(self._model.columns, dtype=np.bool_)
        self._add_plan()

    def _list_arrivals(self) -> None:
        """List what the plan starts: jobs that stay where it has them, and all others by option."""
        problem = self._problem
        shape = (problem.cluster.num_hosts, len(problem.shape_gpu))
        self._fixed, self._arrived = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
        self._gangs: list[JobPlacement] = []
        self._starts: StartCounts = defaultdict(int)
        for _, start in self._plan.changed():
            choice = problem.classes[start.job_class].choices[start.choice]
            free = start.job == ANY_JOB and _is_free(problem, choice)
            if free:
                self._starts[start.job_class, start.choice] += 1
            else:
                self._gangs.append(start)
            for put in start.tasks:
                at = self._arrived if free else self._fixed
                at[put.host, choice.groups[put.group].shape] += put.count

    def _list_sets(self) -> None:
        """List what each set of victims costs, is worth and leaves, one row per host and set."""
        problem, grid, table = self._problem, self._grid, self._cost.table
        jobs = self._cost.candidates
        # What tasks in place leave, and what each victim gives back.
        away = [*problem.not_competing, *(start.job for start in self._gangs)]
        tasks = problem.running_tasks[~np.isin(problem.running_tasks[:, 0], away)]
        left = grid.free - self._fixed @ grid.sizes
        np.subtract.at(left, tasks[:, 2], grid.sizes[tasks[:, 3]])
        hosts = problem.cluster.num_hosts
        key, number = jobs.job * hosts + jobs.host, tasks[:, 0] * hosts + tasks[:, 2]
        order = np.argsort(key)
        where = np.searchsorted(key[order], number)
        found = (where < len(key)) & (key[order][where.clip(max=len(key) - 1)] == number)
        held = np.zeros((len(key), left.shape[1]), dtype=np.int64)
        np.add.at(held, order[where[found]], grid.sizes[tasks[found, 3]])
        running = [problem.running[j] for j in jobs.job.tolist()]
        choices = [problem.classes[one.job_class].choices[0] for one in running]
        of_job = np.array(
            [
                (one.preempt_cost + problem.demand_of(choice, -1), choice.value)
                for one, choice in zip(running, choices, strict=True)
            ],
            dtype=np.int64,
        ).reshape(-1, 2)
        each = self._cost.sums_of_victims(np.column_stack([of_job, held]))
        self._disruption, self._worth = each[:, 0], each[:, 1]
        self._free = left[table.host] + each[:, 2:]
        rank = np.where(self._fixed > 0, problem.shape_rank, problem.shape_rank.max() + 1)
        self._usable = (self._free >= 0).all(axis=1)
        self._usable &= table.level <= rank.min(axis=1)[table.host]
        # Hosts that allow the same shapes, and sets of one level, share a knapsack.
        allowed = np.packbits(problem.shape_hosts, axis=0).T
        self._first, alike = np.unique(allowed, axis=0, return_index=True, return_inverse=True)[1:]
        self._alike: Ints = alike.reshape(-1)
        key = np.column_stack([self._alike[table.host], table.level])
        first, of_set = np.unique(key, axis=0, return_index=True, return_inverse=True)[1:]
        self._of_set = of_set.reshape(-1)
        self._allowed = problem.shape_hosts[:, table.host[first]].T & (
            problem.shape_rank >= table.level[first, None]
        )

    def _add_rows(self) -> None:
        problem, model, grid = self._problem, self._model, self._grid
        hosts, ranks = problem.cluster.num_hosts, problem.shape_rank
        # A task of a lower rank may not come where one of a higher rank may.
        takes = np.column_stack([grid.sizes, ranks.max(initial=0) - ranks])
        self._pairs = exchangeable_slots(takes, problem.shape_hosts[:, self._first])
        self._tasks = model.rows("tasks", len(ranks), lower=0.0)
        self._exchange = model.variables(
            "exchange", len(self._pairs), upper=float(len(grid.free)), integer=False
        )
        model.add(self._tasks[self._pairs[:, 0]], self._exchange, -1.0)
        model.add(self._tasks[self._pairs[:, 1]], self._exchange, 1.0)
        self._needs: Bools = np.any(self._fixed, axis=1)
        self._hosts = model.rows("hosts", hosts, lower=self._needs.astype(float), upper=1.0)
        left = self._base.quota_left()
        fixed = 0
        for start in self._gangs:
            job_class = problem.classes[start.job_class]
            choice = job_class.choices[start.choice]
            problem.charge_quota(left, job_class.accounts, choice)
            fixed += choice.value
        # Of each account: what a set of victims gives back, and what is there for starts.
        self._keys = list(left)
        self._gives = np.column_stack(
            [-self._worth, *(self._cost.freed_quota(key) for key in self._keys)]
        )
        self._least = np.array(
            [self._plan.value - self._base.value - fixed, *(-left[key] for key in self._keys)],
            dtype=float,
        )
        self._accounts = model.rows("accounts", len(self._least), lower=self._least - HOLD_SLACK)

    def _add_starts(self) -> None:
        problem, model = self._problem, self._model
        taken = np.bincount(
            [start.job_class for start in self._gangs], minlength=len(problem.classes)
        )
        self._options = [
            (c, o, choice)
            for c, job_class in enumerate(problem.classes)
            if not job_class.running
            for o, choice in enumerate(job_class.choices)
            if _is_free(problem, choice)
        ]
        groups = [choice.groups[0] for _, _, choice in self._options]
        self._y_class = np.array([c for c, _, _ in self._options], dtype=np.int64)
        pending = np.array([len(one.jobs) for one in problem.classes], dtype=np.int64)
        most = (pending - taken)[self._y_class]
        self._most = most.astype(float)
        self._y = model.variables("start", len(most), upper=most)
        self._y_shape = np.array([group.shape for group in groups], dtype=np.int64)
        self._count = np.array([group.count for group in groups], dtype=np.int64)
        model.add(self._tasks[self._y_shape], self._y, -self._count)
        model.term(DISRUPTION, self._y, 0.0, sense="min")
        self._takes = np.zeros((len(self._options), len(self._least)))
        for i, (c, _, choice) in enumerate(self._options):
            accounts = problem.classes[c].accounts
            self._takes[i] = [
                choice.value,
                *(
                    -problem.demand_of(choice, resource) if owner in accounts else 0
                    for owner, resource in self._keys
                ),
            ]
        at, account = np.nonzero(self._takes)
        model.add(self._accounts[account], self._y[at], self._takes[at, account])
        row = model.rows("jobs", len(pending), upper=(pending - taken).astype(float))
        model.add(row[self._y_class], self._y, 1.0)

    def _add_plan(self) -> None:
        """Add the columns of the plan, with which the integer program begins."""
        # Lawful as it is, whatever its ranks.
        rows = self._of_plan[(self._free[self._of_plan] >= 0).all(axis=1)]
        self._usable[rows] = True
        self._add(rows, self._arrived[self._cost.table.host[rows]])
        self._planned = len(self._x)

    def _add(self, rows: Ints, cuts: Ints) -> bool:
        """Add columns, int64 (columns,) and (columns, shapes); return whether one is new."""
        fresh = []
        for i, key in enumerate(zip(rows.tolist(), map(bytes, cuts), strict=True)):
            if key not in self._seen:
                self._seen.add(key)
                fresh.append(i)
        rows, cuts = rows[fresh], cuts[fresh]
        # One more than the row allows: at a bound of its own the price would leave the row's dual.
        x = self._model.variables("victims", len(rows), upper=2.0)
        self._model.term(DISRUPTION, x, self._disruption[rows].astype(float), sense="min")
        self._model.add(self._hosts[self._cost.table.host[rows]], x, 1.0)
        for which, amount in ((self._tasks, cuts), (self._accounts, self._gives[rows])):
            at, k = np.nonzero(amount)
            self._model.add(which[k], x[at], amount[at, k])
        self._row, self._x = np.append(self._row, rows), np.append(self._x, x)
        self._cuts = np.concatenate([self._cuts, cuts])
        self._idle = np.append(self._idle, np.zeros(len(fresh), dtype=np.bool_))
        return bool(fresh)

    def solve(self) -> Floats | None:
        """Generate columns, then solve the integer program; None without time or a gain.

        Hosts that the relaxation decides stay decided: all of them, or some if nothing fits then.
        """
        tuning = parameters.PARAMETERS.insertion
        relaxed = self._generate()
        if relaxed is None:
            return None
        arrays = self._model.arrays(DISRUPTION).without_columns(self._idle)
        planned = float(arrays.cost @ self._start())
        if arrays.cost[: len(relaxed)] @ relaxed >= planned * (1 - tuning.host_victims_gap_rel):
            return None
        decided = self._x[: np.searchsorted(self._x, len(relaxed))]
        decided = decided[relaxed[decided] > 1 - USED_TOLERANCE]
        for each in (len(decided) + 1, 4, 1):
            kept = decided[np.arange(1, len(decided) + 1) % each > 0]
            solved = self._session.optimise(
                self._with_decided(arrays, kept),
                share=tuning.host_victims_share,
                most=tuning.max_host_victims_seconds,
                gap=tuning.host_victims_gap_rel,
                start=self._start() if each == 1 else None,
            )
            if solved is not None and solved.values is not None:
                return solved.values
        return None

    def _generate(self) -> Floats | None:
        """Generate columns, until the cost is within the gap of its bound or falls no longer.

        Return the last relaxation's values, None without one.
        """
        tuning, session = parameters.PARAMETERS.insertion, self._session
        until, gap = session.part(tuning.host_victims_share), tuning.host_victims_gap_rel
        priced = np.concatenate([self._tasks, self._accounts])
        best, proven = np.zeros(len(priced)), -np.inf
        costs: list[float] = []
        values: Floats | None = None
        while len(costs) <= STEPS or costs[-1] < costs[-1 - STEPS] * (1 - gap):
            arrays = self._model.arrays(DISRUPTION, relax=True)
            relaxed = until.optimise(arrays.without_columns(self._idle))
            if relaxed is None or relaxed.values is None or relaxed.row_duals is None:
                if relaxed is not None and relaxed.status is Status.INFEASIBLE:
                    session.degraded.append("victims by hosts: the plan is no point of the program")
                break
            values = relaxed.values
            costs.append(float(arrays.cost @ values))
            self._set_idle(arrays, values, relaxed.row_duals)
            duals = relaxed.row_duals[priced].clip(min=0.0)
            for prices in (best + tuning.host_victims_step * (duals - best), duals):
                added, bound = self._price(prices)
                if bound > proven:
                    proven, best = bound, prices
                if added:
                    break
            if not added or costs[-1] - proven <= gap * proven:
                break
        return values

    def _set_idle(self, arrays: Arrays, values: Floats, duals: Floats) -> None:
        """Mark columns that programs leave out: unused ones of most reduced cost."""
        self._idle = np.zeros(arrays.columns, dtype=np.bool_)
        unused = self._x[self._planned :]
        unused = unused[values[unused] <= USED_TOLERANCE]
        order = np.argsort(arrays.reduced_costs(duals)[unused], kind="stable")
        self._idle[unused[order[len(self._hosts) :]]] = True

    def _with_decided(self, arrays: Arrays, columns: Ints) -> Arrays:
        """Return the program in which some hosts have these columns."""
        lower, upper = arrays.lower.copy(), arrays.upper.copy()
        of = self._cost.table.host[self._row]
        decided = np.isin(self._x, columns)
        upper[self._x[np.isin(of, of[decided])]] = 0.0
        lower[columns] = upper[columns] = 1.0
        return replace(arrays, lower=lower, upper=upper)

    def _start(self) -> Floats:
        """Return the plan as values of the columns."""
        values = np.zeros(self._model.columns)
        values[self._x[: self._planned]] = 1.0
        values[self._y] = [self._starts[c, o] for c, o, _ in self._options]
        return values

    def placement(self, values: Floats) -> Placement:
        """Return the placement that whole-number values of the columns give."""
        problem, table, jobs = self._problem, self._cost.table, self._cost.candidates
        number = np.rint(values).astype(np.int64)
        found = Placement(problem)
        chosen = np.flatnonzero(number[self._x])
        hosts = table.host[self._row[chosen]]
        stopped = np.zeros(problem.cluster.num_hosts, dtype=np.int64)
        stopped[hosts] = table.stopped[self._row[chosen]]
        leaves = stopped[jobs.host] >> jobs.bit & 1 > 0
        for job in np.unique(jobs.job[leaves]).tolist():
            found.stop(found.start_of(job))
        for start in self._gangs:
            if start.job != ANY_JOB:
                found.stop(found.start_of(start.job))
        for start in self._gangs:
            tasks = [(put.group, put.host, put.count) for put in start.tasks]
            self._put(found, start.job_class, start.choice, tasks, start.job)
        slots = np.zeros((problem.cluster.num_hosts, len(problem.shape_gpu)), dtype=np.int64)
        slots[hosts] = self._cuts[chosen]
        for slot, task, n in exchanged_slots(self._pairs, number[self._exchange]):
            left = n
            for host in np.flatnonzero(slots[:, slot]).tolist():
                some = min(left, int(slots[host, slot]))
                slots[host, [slot, task]] += -some, some
                left -= some
        alike, level = self._alike_hosts(found), np.zeros(len(slots), dtype=np.int64)
        level[hosts] = table.level[self._row[chosen]]
        for i in np.argsort(-self._count, kind="stable").tolist():
            c, o, choice = self._options[i]
            shape, starts = choice.groups[0].shape, int(number[self._y[i]])
            if choice.is_single_task:
                each = np.repeat(np.arange(len(slots)), slots[:, shape])[:starts]
                np.subtract.at(slots[:, shape], each, 1)
                for host in each.tolist():
                    self._put(found, c, o, [(0, host, 1)])
                continue
            for _ in range(starts):
                where = self._hosts_of(choice.groups[0], slots, alike, level)
                if not where:
                    break
                self._put(found, c, o, [(0, host, n) for host, n in where])
                for host, n in where:
                    slots[host, shape] -= n
                    alike[host] = NOWHERE
        fill_by_policy(found)
        upgrade_options(found)
        return found

    def _alike_hosts(self, found: Placement) -> Ints:
        """Return numbers of hosts, (hosts,): slots on those of one number may change places.

        `NOWHERE` where somebody stays or has arrived.
        """
        problem = self._problem
        key = np.column_stack([self._alike, self._grid.free, problem.host_kind])
        alike: Ints = np.unique(key, axis=0, return_inverse=True)[1].reshape(-1)
        alike[[put.host for _, start in found.started() for put in start.tasks]] = NOWHERE
        return alike

    def _hosts_of(
        self, group: Group, slots: Ints, alike: Ints, level: Ints
    ) -> list[tuple[int, int]]:
        """Return hosts with slots for a group, and how many, close together; [] if too few.

        Slots of hosts that are alike change places for that, if enough of them may.
        """
        cluster, each = self._problem.cluster, slots[:, group.shape]
        donors = np.flatnonzero((alike != NOWHERE) & (each > 0)).tolist()
        wide = each.copy()
        if donors:
            most = np.zeros(alike.max() + 1, dtype=np.int64)
            np.maximum.at(most, alike[donors], each[donors])
            wide = np.where(alike == NOWHERE, each, most[alike])
        for offer in (wide, each):
            where = compact_hosts(cluster, group, np.where(offer > 0, 0.0, np.inf), offer)
            left = [donor for donor in donors if donor not in dict(where)]
            swaps = []
            for host, n in where:
                if each[host] >= n:
                    continue
                fitting = (d for d in left if alike[d] == alike[host] and each[d] >= n)
                donor = next((d for d in fitting if self._may_swap(slots, level, host, d)), None)
                if donor is None:
                    break
                left.remove(donor)
                swaps.append((host, donor))
            else:
                for host, donor in swaps:
                    slots[[host, donor]] = slots[[donor, host]]
                return where
        return []

    def _may_swap(self, slots: Ints, level: Ints, one: int, other: int) -> bool:
        """Whether all slots of two hosts may be where the victims of the other one were."""
        rank = self._problem.shape_rank
        return bool(
            (rank[slots[one] > 0] >= level[other]).all()
            and (rank[slots[other] > 0] >= level[one]).all()
        )

    def _put(
        self,
        found: Placement,
        c: int,
        o: int,
        tasks: Iterable[tuple[int, int, int]],
        job: int = ANY_JOB,
    ) -> None:
        """Start a job with tasks as (group, host, count)."""
        groups = self._problem.classes[c].choices[o].groups
        found.start(
            c,
            o,
            [
                TaskPlacement(group, host, count, found.put(groups[group].shape, host, count))
                for group, host, count in tasks
            ],
            job,
        )

    def _price(self, prices: Floats) -> tuple[bool, float]:
        """Add the best columns of each host at some prices; return if any is new, and the bound."""
        table, grid = self._cost.table, self._grid
        price, of_account = np.split(prices, [len(self._tasks)])
        cost = self._disruption - self._gives @ of_account
        taken = []
        for k, allowed in enumerate(self._allowed):
            mine = np.flatnonzero((self._of_set == k) & self._usable)
            top = self._free[mine].max(axis=0, initial=0)
            gain, last = knapsack(grid, price, allowed, top)
            cost[mine] -= gain[tuple(self._free[mine].T)]
            taken.append(last)
        cost[~self._usable] = np.inf
        order = np.lexsort((cost, table.host))
        first = np.flatnonzero(np.diff(table.host[order], prepend=-1))
        rows = order[first]
        rows = rows[self._usable[rows]]
        cuts = [follow(grid, taken[self._of_set[r]], self._free[r]) for r in rows.tolist()]
        added = self._add(rows, np.array(cuts, dtype=np.int64).reshape(-1, len(price)))
        # The starts of a class that gain most.
        gain = np.zeros(len(self._problem.classes))
        each = self._takes @ of_account - self._count * price[self._y_shape]
        np.maximum.at(gain, self._y_class, each)
        most = np.zeros(len(gain))
        most[self._y_class] = self._most
        # Hosts whose gangs stay need a column; of others only those that gain pay.
        least = np.where(self._needs[table.host[rows]], cost[rows], cost[rows].clip(max=0.0))
        bound = self._least @ of_account + least.sum()
        return added, float(bound - gain @ most)
