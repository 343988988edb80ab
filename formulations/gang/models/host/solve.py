"""Lexicographic optimisation of the host-indexed model, and the rows of necessity that it adds."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Generator, Iterator, Sequence
from dataclasses import replace
from math import inf

import numpy as np
from numpy.typing import NDArray

from placewright.array_types import Bools, Floats, Ints
from placewright.formulations.gang import parameters
from placewright.formulations.gang.models.host.model import (
    HostModel,
    Moves,
    build_host_model,
    entries_of,
    milli_each,
)
from placewright.formulations.gang.models.host.preemption import add_preemption
from placewright.formulations.gang.models.host.rows import (
    ANY_FREE,
    GpuSlots,
    PoolColumns,
    add_disruption_budget,
    add_gpus,
    add_pools,
)
from placewright.formulations.gang.models.host.terms import (
    add_disruption,
    add_stranded,
    add_terms,
    add_value,
)
from placewright.formulations.gang.models.tenant_share_rows import with_actual_shares
from placewright.formulations.gang.placement.assignment import assign
from placewright.formulations.gang.placement.disruption_budget import complete, repair_disruptions
from placewright.formulations.gang.placement.greedy import fill_by_policy
from placewright.formulations.gang.placement.placement import Placement
from placewright.formulations.gang.placement.preemption import taken_of_pool
from placewright.formulations.gang.problem.jobs import ANY_JOB, NO_LABEL, TaskPlacement
from placewright.formulations.gang.problem.limits import CONTENTION, DISRUPTION, SENSE, VALUE
from placewright.formulations.gang.problem.problem import Problem
from placewright.formulations.gang.problem.terms import STRANDED
from placewright.formulations.plan_messages import (
    HOLD_SLACK,
    SHARPNESS,
    Bound,
    Candidate,
    near,
    tighter,
)
from placewright.formulations.session import Session
from placewright.solver import Arrays, certified_bound, multipliers
from placewright.topology.units import WHOLE_GPU

# Necessity rows: a job stops only if it does not fit in its place beside all others.
#
# For each running job v, n[v] = 1 - y[v] says that it stops, and z[i] that it has reason i to:
#
#     sum_i z[i] >= n[v]
#     what others use + what v used there > what there is        where z[i] = 1
#
# A reason is a resource of one of its hosts, one shared GPU, the whole GPUs of a host, a quota of
# its tenant, a domain of a pool, or a label in its domains. For the whole GPUs of host h there
# are two rows:
#
#     sum_t x[t,h] >= 1                  tasks of whole GPUs arrive: one may have taken v's very GPU
#     gpus used + gpus(v) > whole[h]      v would not find as many others
#
# The first is what verification asks for (docs/plans.md#who-may-be-preempted), and stands in the
# block `NECESSITY`, all rows of which hold for every lawful plan. The second is how placements
# count. It stands in `COUNTED`, whose rows are a **restriction**, which bounds leave out. There,
# where v stops, are also rows against what the relaxed rows of `preemption.py` cannot see:
#
#     x[t,h] <= capacity y[v]       tasks of rank at most v's level of whole GPUs where h has shared
#                                    ones, and tasks that meet v's label, movers above it, too
#
# The other rows of `NECESSITY` say where parts of GPUs are: for tasks alone, so that no reason is
# made up, and beside v, where v stops, only of a rank above its level:
#
#     sum_i b[i,f] <= sum_t x[t,h]                              shares f on h; likewise w[i]
#     sum_{f: rank <= level} f b[i,f] + f(w) s[w] + f(w) n[w] <= free[i]       w ran on v's GPU i


NECESSITY = "necessity"
COUNTED = "necessity by counts"
Numbers = NDArray[np.number]


def add_necessity(m: HostModel, slots: GpuSlots, pools: Sequence[PoolColumns] = ()) -> None:
    """Append the rows of every running job of a model of the whole round."""
    rows = _NecessityRows(m, slots, pools)
    rows.add_parts_in_use()
    for mine in m.entries_of_running:
        rows.add(mine[0])


class _NecessityRows:
    """The rows, and what uses each host and quota."""

    def __init__(self, m: HostModel, slots: GpuSlots, pools: Sequence[PoolColumns]) -> None:
        self.m, self.slots, self.pools = m, slots, pools
        self.rank = m.problem.shape_rank[m.x_shape]
        self.x_gpu, self.stay_gpu = m.problem.shape_gpu[m.x_shape], milli_each(m)
        self.x_on = _positions(m.x_host, len(m.hosts))
        self.stays_on = _positions(m.stays.host, len(m.hosts))
        self.slots_on = _positions(slots.host, len(m.hosts))
        self.uses_of = _positions(slots.use_slot, len(slots.host))
        # Of each use of a slot, whether a whole GPU is meant: w, or a running task that stays.
        self.whole_use = (slots.use_milli == WHOLE_GPU) & ~np.isin(slots.use, slots.b)
        self.entry_label = np.array([m.choice(e).label for e in m.entries], dtype=np.int64)
        entry_of_x = np.array([s.users[0][0] for s in m.task_sets], dtype=np.int64)[m.x_set]
        self.x_label = self.entry_label[entry_of_x]
        self.x_job = np.array([e.job for e in m.entries], dtype=np.int64)[entry_of_x]
        level = [m.problem.running[m.entries[e].job].level for e in m.stays.entry.tolist()]
        self.stay_level = np.array(level, dtype=np.int64)
        self.quota_left = m.placement.quota_left()
        # The columns y of the job of each entry.
        self.runs = {e: m.y[mine] for mine in m.entries_of_running for e in mine}
        self.entries_of: defaultdict[int, list[int]] = defaultdict(list)
        for e, entry in enumerate(m.entries):
            for account in m.problem.classes[entry.job_class].accounts:
                self.entries_of[account].append(e)

    def add_parts_in_use(self) -> None:
        """Let no part of a GPU, and no whole one, be set aside for no task."""
        m, slots = self.m, self.slots
        shared, key = m.problem.is_share[m.x_shape], slots.parts.keys(m)
        w = np.flatnonzero(self.whole_use & ~np.isin(slots.use, m.stays.s))
        for h in np.unique(slots.host).tolist():
            x = self.x_on[h]
            cuts = np.flatnonzero(slots.host[slots.b_slot] == h)
            for one in np.unique(slots.b_key[cuts]).tolist():
                asked = x[shared[x] & (key[x] == one)]
                self._at_most(slots.b[cuts[slots.b_key[cuts] == one]], m.x[asked], 1.0)
            self._at_most(
                slots.use[w[slots.host[slots.use_slot[w]] == h]], m.x[x], self.x_gpu[x] // WHOLE_GPU
            )

    def _at_most(self, parts: Ints, tasks: Ints, amounts: float | Numbers) -> None:
        """Append the row: sum of the parts <= weighted sum of the tasks."""
        row = self.m.model.row(NECESSITY, parts, upper=0.0)
        self.m.model.add(row, tasks, -np.asarray(amounts))

    def add(self, e: int) -> None:
        """Append the rows of one running job, an entry."""
        m = self.m
        places = np.flatnonzero(m.stays.entry == e)
        reasons = [
            *self._resources(places),
            *self._quotas(e),
            *self._pool_domains(e),
            *self._label(e),
        ]
        for h in np.unique(m.stays.host[places]).tolist():
            mine = places[(m.stays.host[places] == h) & (self.stay_gpu[places] > 0)]
            if len(mine):
                reasons += [*self._shared_gpus(h, mine), self._whole_gpus(h, mine)]
        m.model.row(NECESSITY, [*self.runs[e], *reasons], lower=1.0)
        self._forbid_profit(e, places)

    def _reason(
        self, least: float, columns: Sequence[Ints], amounts: Sequence[Numbers] | float = 1.0
    ) -> Ints:
        """Append a reason: these columns use at least so much; return its column."""
        z = self.m.model.variables("reason", 1, upper=1)
        self._use(NECESSITY, z, least, columns, amounts)
        return z

    def _use(
        self,
        block: str,
        z: Ints,
        least: float,
        columns: Sequence[Ints],
        amounts: Sequence[Numbers] | float,
    ) -> None:
        row = self.m.model.rows(block, 1, lower=least, when=z)
        given = amounts if isinstance(amounts, float) else np.concatenate(list(amounts))
        self.m.model.add(row, np.concatenate(columns), given)

    def _resources(self, places: Ints) -> Iterator[int]:
        """Yield a reason for each resource of each host that the job uses."""
        m = self.m
        demand = m.problem.shape_demand
        for h in np.unique(m.stays.host[places]).tolist():
            x, stays = self.x_on[h], self.stays_on[h]
            own = demand[m.stay_shape[places[m.stays.host[places] == h]]].sum(axis=0)
            for r in np.flatnonzero(own).tolist():
                yield from self._reason(
                    m.placement.free[m.hosts[h], r] + 1.0 - own[r],
                    (m.x[x], m.stays.s[stays]),
                    (demand[m.x_shape[x], r], demand[m.stay_shape[stays], r]),
                )

    def _shared_gpus(self, h: int, mine: Ints) -> Iterator[int]:
        """Yield a reason for each GPU of the job that tasks may share, beside whole GPUs.

        Where shares have memory or GPUs are cut, any task there is one.
        """
        m, slots = self.m, self.slots
        own_uses = m.stays.s[mine]
        for i in self.slots_on[h].tolist():
            there = mine[[slots.gpu[i] in m.stays.gpus[p] for p in mine.tolist()]]
            if not len(there):
                continue
            uses = self.uses_of[i]
            uses = uses[~self.whole_use[uses] & ~np.isin(slots.use[uses], own_uses)]
            own = self.stay_gpu[there]
            if (own < WHOLE_GPU).all() and m.problem.part_demands is None:
                least = slots.free[i] + 1.0 - int(own.sum())
                yield from self._reason(least, (slots.use[uses],), (slots.use_milli[uses],))
            else:
                yield from self._reason(1.0, (slots.use[uses],))

    def _whole_gpus(self, h: int, mine: Ints) -> int:
        """Append the two rows of the whole GPUs of a host; return the column of the reason."""
        m, slots = self.m, self.slots
        x = self.x_on[h][self.x_gpu[self.x_on[h]] >= WHOLE_GPU]
        z = self._reason(1.0, (m.x[x],))
        whole = self.stay_gpu[mine] >= WHOLE_GPU
        own = max(1, int(m.stays.usable[mine[whole]].sum()))
        if not len(self.slots_on[h]):
            stays = self.stays_on[h]
            columns = (m.x[x], m.stays.s[stays])
            amounts = (
                self.x_gpu[x] // WHOLE_GPU,
                m.stays.usable[stays] * (self.stay_gpu[stays] > 0),
            )
            self._use(COUNTED, z, m.placement.whole[m.hosts[h]] + 1.0 - own, columns, amounts)
            return int(z[0])
        free = self.slots_on[h][slots.free[self.slots_on[h]] == WHOLE_GPU].tolist()
        uses = np.concatenate([np.zeros(0, dtype=np.int64), *(self.uses_of[i] for i in free)])
        used = slots.use[uses[self.whole_use[uses]]]
        self._use(COUNTED, z, len(free) + 1.0 - own, (used,), 1.0)
        return int(z[0])

    def _quotas(self, e: int) -> Iterator[int]:
        """Yield a reason for each quota and cap of the job."""
        m = self.m
        accounts = m.problem.classes[m.entries[e].job_class].accounts
        for key in m.problem.quota_keys.get(accounts, ()):
            if key[0] in m.problem.totals_of_pools:
                continue
            others = self.entries_of[key[0]]
            asks = [m.problem.demand_of(m.choice(m.entries[i]), key[1]) for i in others]
            own = asks[others.index(e)]
            if own:
                least = self.quota_left[key] + 1.0 - own
                yield from self._reason(least, (m.y[others],), (np.array(asks),))

    def _pool_domains(self, e: int) -> Iterator[int]:
        """Yield a reason for each domain of a pool of which the job holds something."""
        start = self.m.problem.running_placement_of[self.m.entries[e].job]
        for one in self.pools:
            held = taken_of_pool(self.m.problem, one.pool, start)
            for d in np.flatnonzero(held).tolist():
                there = one.domain == d
                least = one.left[d] + 1.0 - held[d]
                yield from self._reason(least, (one.columns[there],), (one.amount[there],))

    def _label(self, e: int) -> Iterator[int]:
        """Yield a reason for the label of the job."""
        if self.entry_label[e] != NO_LABEL:
            yield from self._reason(1.0, (self.m.x[self._meets_label(e)],))

    def _meets_label(self, e: int) -> Bools:
        """Return whether each x is of another job with the label, in a domain of this one."""
        m, job = self.m, self.m.entries[e].job
        label = m.problem.labels[int(self.entry_label[e])]
        domain = m.problem.cluster.domain[label.level][m.hosts[m.x_host]]
        there = np.isin(domain, sorted(label.running_domains[job]))
        meets: Bools = there & (self.x_label == self.entry_label[e]) & (self.x_job != job)
        return meets

    def _forbid_profit(self, e: int, places: Ints) -> None:
        """Forbid arrivals where the job stops that the relaxed rows do not judge exactly."""
        m = self.m
        level = m.problem.running[m.entries[e].job].level
        below = self.rank <= level
        on_shared = self.x_gpu >= (1 if m.problem.part_demands is not None else WHOLE_GPU)
        on_shared &= np.isin(m.x_host, self.slots.host)
        barred = below & on_shared & np.isin(m.x_host, m.stays.host[places])
        if self.entry_label[e] != NO_LABEL:
            barred |= self._meets_label(e) & (below | (self.x_job != ANY_JOB))
        x = np.flatnonzero(barred)
        rows = m.model.rows(COUNTED, len(x), upper=0.0)
        m.model.add(rows, m.x[x], 1.0)
        for y in self.runs[e]:
            m.model.add(rows, y, -m.capacity[m.x_set[x], m.x_host[x]])
        if m.problem.part_demands is None:
            self._keep_gpus_free(e, places, level)

    def _keep_gpus_free(self, e: int, places: Ints, level: int) -> None:
        """Let shares on the GPUs of a job that stops leave it room, but for those above it.

        Beside it are who stays there, and who stops of at least its level.
        """
        m, slots = self.m, self.slots
        for p in places[self.stay_gpu[places] > 0].tolist():
            on_host = self.slots_on[int(m.stays.host[p])]
            for i in on_host[np.isin(slots.gpu[on_host], m.stays.gpus[p])].tolist():
                b = np.flatnonzero((slots.b_slot == i) & (slots.parts.rank[slots.b_key] <= level))
                ran = np.flatnonzero(np.isin(m.stays.s, slots.use[self.uses_of[i]]))
                back = ran[self.stay_level[ran] >= level]
                milli = np.minimum(self.stay_gpu, WHOLE_GPU)
                most = float(milli[back].sum())
                row = m.model.row(NECESSITY, self.runs[e], -most, upper=slots.free[i] - most)
                m.model.add(row, slots.b[b], slots.parts.milli[slots.b_key[b]])
                m.model.add(row, m.stays.s[ran], milli[ran])
                for q in back.tolist():
                    m.model.add(row, self.runs[int(m.stays.entry[q])], -float(milli[q]))


def _positions(of: Ints, size: int) -> list[Ints]:
    """Return where each of 0 ... size-1 stands in an array."""
    order = np.argsort(of, kind="stable")
    return np.split(order, np.searchsorted(of[order], np.arange(1, size)))


# Reads a solution of the host-indexed model: starts its jobs, on the GPUs that it names.


FreePlaces = defaultdict[tuple[int, int], list[int]]
"""Per host and key of a part the GPUs that have a place for it."""


def start_jobs(m: HostModel, slots: GpuSlots, values: Floats, placement: Placement) -> None:
    """Start in `placement`, which must be as when the model was built, what a solution starts."""
    number = np.rint(values).astype(np.int64)
    staying = _charge_stays(m, number, placement)
    free_places = _free_places(m, slots, number, placement)
    left = _gpus_of_stopped(m, number, placement, free_places)
    hosts: list[list[int]] = [[] for _ in m.task_sets]  # one per task
    for i in np.flatnonzero(number[m.x]):
        hosts[m.x_set[i]] += [int(m.hosts[m.x_host[i]])] * int(number[m.x[i]])
    set_of = m.set_of
    for e, entry in enumerate(m.entries):
        for _ in range(int(number[m.y[e]])):
            puts = staying.get(e, [])
            for k, group in enumerate(m.choice(entry).groups):
                for _ in range(group.count - sum(put.group == k for put in puts)):
                    host = hosts[set_of[e, k]].pop()
                    gpus = _charge_arrival(
                        m, slots, placement, group.shape, host, free_places, left
                    )
                    puts.append(TaskPlacement(k, host, 1, gpus))
            placement.start(entry.job_class, entry.choice, puts, entry.job)


def _charge_stays(
    m: HostModel, number: Ints, placement: Placement
) -> dict[int, list[TaskPlacement]]:
    """Charge the places that running jobs keep; return them per entry."""
    staying: defaultdict[int, list[TaskPlacement]] = defaultdict(list)
    for p in np.flatnonzero(number[m.stays.s]).tolist():
        e, (_, group, _) = int(m.stays.entry[p]), m.task_sets[m.stays.set[p]].users[0]
        host, gpus = int(m.hosts[m.stays.host[p]]), m.stays.gpus[p]
        placement.hold(m.task_sets[m.stays.set[p]].shape, host, gpus, m.stays.slot[p])
        staying[e].append(TaskPlacement(group, host, 1, gpus, True, m.stays.slot[p]))
    return staying


def _free_places(m: HostModel, slots: GpuSlots, number: Ints, placement: Placement) -> FreePlaces:
    """Return the GPUs that have a place for each kind of part, per host."""
    free_places: FreePlaces = defaultdict(list)
    free: dict[int, list[int]] = {}
    gpu_of: dict[int, int] = {}
    for i in np.flatnonzero(number[slots.b]).tolist():
        slot = int(slots.b_slot[i])
        host = int(m.hosts[slots.host[slot]])
        if slot not in gpu_of:
            gpu_of[slot] = int(slots.gpu[slot])
            if gpu_of[slot] == ANY_FREE:
                if host not in free:
                    named = set(slots.gpu[slots.host == slots.host[slot]].tolist())
                    free[host] = [g for g in placement.free_gpu_ids(host) if g not in named]
                gpu_of[slot] = free[host].pop(0)
        key = (host, int(slots.b_key[i]))
        free_places[key] += [gpu_of[slot]] * int(number[slots.b[i]])
    return free_places


def _gpus_of_stopped(
    m: HostModel, number: Ints, placement: Placement, free_places: FreePlaces
) -> dict[int, dict[int, int]]:
    """Return the GPUs of hosts where jobs stop that no part has a place on.

    Each with the highest level of the jobs that it had and that stop, -1 if there are none. What
    jobs had that resize is left to these.
    """
    levels: dict[int, dict[int, int]] = {}
    links = placement.link_state
    away = np.flatnonzero(number[m.y[m.stays.entry]] == 0)
    resized = {mine[0] for mine in m.entries_of_running if number[m.y[mine[1:]]].any()}
    stops = np.array([e not in resized for e in m.stays.entry[away].tolist()], dtype=np.bool_)
    for p in away[stops].tolist():
        host = int(m.hosts[m.stays.host[p]])
        if links is not None and links.demands.differ[host]:
            continue  # its GPUs are chosen together, by their links
        if host not in levels:
            parts = {g for (h, _), gpus in free_places.items() if h == host for g in gpus}
            levels[host] = {g: -1 for g in placement.free_gpu_ids(host) if g not in parts}
        level = m.problem.running[m.entries[int(m.stays.entry[p])].job].level
        for gpu in levels[host].keys() & set(m.stays.gpus[p]):
            levels[host][gpu] = max(levels[host][gpu], level)
    for p in away[~stops].tolist():
        for gpu in m.stays.gpus[p]:
            levels.get(int(m.hosts[m.stays.host[p]]), {}).pop(gpu, None)
    return levels


def _charge_arrival(
    m: HostModel,
    slots: GpuSlots,
    placement: Placement,
    shape: int,
    host: int,
    free_places: FreePlaces,
    left: dict[int, dict[int, int]],
) -> tuple[int, ...]:
    """Charge a task to a host; return its GPUs if they are named.

    A share gets one with a place for it. Whole GPUs are, where that is lawful, those of jobs that
    stop: these are not in need of a place elsewhere then.
    """
    problem, rank = placement.problem, int(placement.problem.shape_rank[shape])
    gpus: tuple[int, ...] = ()
    if problem.is_share[shape]:
        gpus = (free_places[host, slots.parts.key(m, shape, host)].pop(),)
    elif host in left:
        lawful = [g for g in left[host] if left[host][g] < rank]
        lawful.sort(key=lambda g: -left[host][g])
        number = int(problem.shape_gpu[shape]) // WHOLE_GPU
        gpus = tuple(lawful[:number]) if number <= len(lawful) else ()
    if not gpus:
        return placement.put(shape, host)
    for gpu in gpus:
        left.get(host, {}).pop(gpu, None)
    placement.hold(shape, host, gpus)
    placement.note_arrivals(shape, host, 1)
    return gpus


# Lexicographic optimisation of the host-indexed model of a whole round, term by term.


def solve_exactly(
    problem: Problem, session: Session, known: Candidate | None = None, most: float = inf
) -> Iterator[Candidate | Bound]:
    """Yield bound and plan of each term, the terms before it held at the best plan's values.

    If the first term is proven already, the second is the first to be solved. Branch and bound
    begins at the `known` plan, where that is a point of the model. With `most` seconds for each
    solve it ends at the first term that these do not prove.
    """
    tuning = parameters.PARAMETERS.models
    first = problem.terms[0]
    holds: list[tuple[str, int]] = []
    if session.best is not None and session.settled(session.best[first]):
        holds.append((first, session.best[first]))
    left = problem.terms[len(holds) :]
    if not left:
        return
    exact, slots = exact_model(problem)
    for term, value in holds:
        exact.model.hold(term, value, HOLD_SLACK)
    start: Floats | None = None
    without = {NECESSITY, COUNTED} if problem.running else set()
    for term in left:
        # Proving the first term counts most; what it leaves is for the others.
        if not _is_met(problem, session, term):
            arrays = exact.model.arrays(term, relax=True, without=without)
            share = tuning.exact_relaxation_share
            certified = _certified(problem, session, arrays, term, share, most)
            if certified is not None:
                yield Bound(term, certified, tuple(holds), certified=True)
        # A bound that the best plan meets, without a solver or by the relaxation, needs no search.
        if session.best is not None and _is_met(problem, session, term):
            exact.model.hold(term, session.best[term], HOLD_SLACK)
            holds.append((term, session.best[term]))
            continue
        arrays = exact.model.arrays(term, without=without)
        if start is None and known is not None:
            start = _point_of(exact, session, arrays, known)
        share = tuning.exact_search_share
        outcome = session.optimise(arrays, share=share, most=most, gap=0.0, start=start)
        if outcome is None:
            return
        if outcome.bound is not None:
            yield Bound(term, problem.round_bound(term, outcome.bound), tuple(holds))
        if outcome.values is None or outcome.objective is None:
            return
        start = outcome.values
        yield from _plans_of(exact, slots, start)
        if problem.running and not _is_proven(session, term):
            yield from _solve_with_necessity(exact, slots, session, term, holds)
        if most < inf and not _is_proven(session, term):
            return
        if problem.shares:
            start = with_actual_shares(
                exact.model, problem, *exact.y_columns, problem.shares, start
            )
        # By now the best plan is no worse than this one; bounds hold for the best.
        held = round(outcome.objective) if session.best is None else session.best[term]
        exact.model.hold(term, held, HOLD_SLACK)
        holds.append((term, held))


def _solve_with_necessity(
    exact: HostModel, slots: GpuSlots, session: Session, term: str, holds: list[tuple[str, int]]
) -> Iterator[Candidate | Bound]:
    """Yield a plan of the restriction that needs no repair, and a bound by the rows of necessity.

    For a term of which the plan was worse than the point that it repairs.
    """
    tuning = parameters.PARAMETERS.models
    for without in ((), (COUNTED,)):
        outcome = session.optimise(
            exact.model.arrays(term, without=without), share=tuning.exact_search_share, gap=0.0
        )
        if outcome is None:
            return
        if without and outcome.bound is not None:
            yield Bound(term, exact.problem.round_bound(term, outcome.bound), tuple(holds))
        if outcome.values is not None:
            yield from _plans_of(exact, slots, outcome.values)
        if _is_proven(session, term):
            return


def _point_of(m: HostModel, session: Session, arrays: Arrays, plan: Candidate) -> Floats | None:
    """Return a point of the model at which jobs run as in a plan, None if there is none.

    Where tasks arrive and stay is fixed; a solver completes the point.
    """
    number = np.zeros(arrays.columns)
    column_of = {
        (t, int(m.hosts[h])): x
        for t, h, x in zip(m.x_set.tolist(), m.x_host.tolist(), m.x.tolist(), strict=True)
    }
    set_of = m.set_of
    entries: defaultdict[tuple[int, int, int], list[int]] = defaultdict(list)
    for e, entry in enumerate(m.entries):
        entries[entry.job_class, entry.choice, entry.job] += [e] * entry.most
    stays = _columns_of_stays(m)
    kept = {job: running.places for job, running in m.problem.running.items()}
    places_of = {job: (0, kept[job]) for job in kept.keys() - plan.preempted.keys()}
    for job, (option, places) in plan.starts.items():
        job_class = m.problem.classes[m.problem.class_of[job]]
        places_of[job] = (job_class.choice_of(option), places)
    for job, (choice, places) in places_of.items():
        key = (m.problem.class_of[job], choice, job if job in kept else ANY_JOB)
        if not entries[key]:
            return None
        e = entries[key].pop()
        number[m.y[e]] += 1
        for group, _, host, gpus in places:
            column = stays.get((e, group, host, gpus), column_of.get((set_of[e, group], host)))
            if column is None:
                return None
            number[column] += 1
    fixed = np.concatenate([m.y, m.x, m.stays.s])
    lower, upper = arrays.lower.copy(), arrays.upper.copy()
    if (number[fixed] < lower[fixed]).any() or (number[fixed] > upper[fixed]).any():
        return None
    lower[fixed] = upper[fixed] = number[fixed]
    found = session.optimise(
        replace(arrays, lower=lower, upper=upper),
        share=parameters.PARAMETERS.models.exact_relaxation_share,
        gap=1.0,
    )
    return None if found is None else found.values


def _columns_of_stays(m: HostModel) -> dict[tuple[int, int, int, tuple[int, ...]], int]:
    """Return the column of each place of a running job, by entry, group, host and GPUs."""
    stays = m.stays
    groups = [m.task_sets[t].users[0][1] for t in stays.set.tolist()]
    hosts = m.hosts[stays.host].tolist()
    keys = zip(stays.entry.tolist(), groups, hosts, stays.gpus, strict=True)
    return dict(zip(keys, stays.s.tolist(), strict=True))


def _is_met(problem: Problem, session: Session, term: str) -> bool:
    """Whether the best plan has the bound of a term; with `contention`, but for rounding."""
    if session.best is None or CONTENTION in problem.terms:
        return _is_proven(session, term)
    return session.best[term] == session.best_known.bounds.get(term)


def _is_proven(session: Session, term: str) -> bool:
    """Whether the value of a term of the best plan equals its bound, but for rounding."""
    bound = session.best_known.bounds.get(term)
    return (
        session.best is not None
        and bound is not None
        and near(bound, session.best[term], SHARPNESS)
    )


def _plans_of(exact: HostModel, slots: GpuSlots, values: Floats) -> Iterator[Candidate]:
    """Yield the plan of a point of the model, its preemptions lawful, and one with more starts."""
    placement = Placement(exact.problem, cleared=True)
    start_jobs(exact, slots, values, placement)
    repair_disruptions(placement)
    yield assign(placement, "exact")
    if complete(placement):
        yield assign(placement, "exact")


# Victim selection: which running jobs stop so that the pending jobs start, in large rounds.
#
# Two host-indexed models without arrivals of running jobs, which are most of the exact model:
#
#     stays or stops   every running job is kept or preempted: a restriction, so a point is a plan
#     moves anywhere   who moves uses no capacity: a relaxation, so its optimum bounds `disruption`
#
# They apply to few pending jobs, and to the terms `value` and then `disruption`.


def select_victims(problem: Problem, session: Session) -> Iterator[Candidate | Bound]:
    """Yield plans in which running jobs stay or stop, and lower bounds on `disruption`."""
    tuning = parameters.PARAMETERS.models
    if (
        problem.terms[:2] != (VALUE, DISRUPTION)
        or problem.num_pending.sum() > tuning.max_victim_pending_jobs
    ):
        return
    if _size(problem) > tuning.max_victim_variables:
        return
    least: float | None = None
    if session.best is not None and session.settled(session.best[VALUE]):
        least = yield from _bound_disruption(problem, session, session.best[VALUE])
    if session.best is not None and least == session.best[DISRUPTION]:
        return
    known = None if session.best is None else session.best[VALUE]
    yield from _stay_or_stop(problem, session)
    if session.best is not None and (least is None or session.best[VALUE] != known):
        yield from _bound_disruption(problem, session, session.best[VALUE])


def _size(problem: Problem) -> int:
    """Return about how many variables the models have."""
    hosts = problem.shape_hosts.sum(axis=1)
    _, sets = entries_of(problem, problem.num_pending)
    return int(sum(hosts[s.shape] for s in sets)) + len(problem.running_tasks)


def _model(problem: Problem, moves: Moves) -> tuple[HostModel, GpuSlots, list[PoolColumns]]:
    """Return the model of a whole round, without rows of necessity and terms."""
    cleared = Placement(problem, cleared=True)
    everywhere = np.arange(problem.cluster.num_hosts)
    exact = build_host_model(
        problem,
        cleared,
        everywhere,
        problem.num_pending,
        list(problem.running),
        moves,
        resizing=True,
    )
    pools = add_pools(exact)
    slots = add_gpus(exact)
    add_preemption(exact, pools=pools)
    return exact, slots, pools


def exact_model(problem: Problem) -> tuple[HostModel, GpuSlots]:
    """Return the exact model of a whole round; rows of `COUNTED` make it a restriction."""
    exact, slots = _whole_model(problem, "placed")
    if STRANDED in problem.terms:
        add_stranded(exact, slots)
    return exact, slots


def _whole_model(problem: Problem, moves: Moves) -> tuple[HostModel, GpuSlots]:
    exact, slots, pools = _model(problem, moves)
    add_necessity(exact, slots, pools)
    add_disruption_budget(exact)
    add_terms(exact, slots)
    return exact, slots


def _certified(
    problem: Problem,
    session: Session,
    arrays: Arrays,
    term: str,
    share: float,
    most: float = inf,
) -> float | None:
    """Return the bound of a term that the duals of its relaxation prove, None if they do not."""
    relaxed = session.optimise(arrays, share=share, most=most)
    if relaxed is None or relaxed.row_duals is None:
        return None
    found = certified_bound(arrays, multipliers(arrays, relaxed.row_duals))
    return None if found is None else problem.round_certified(term, found)


def _stay_or_stop(problem: Problem, session: Session) -> Iterator[Candidate]:
    """Yield plans of the restriction: every running job is kept or preempted."""
    tuning = parameters.PARAMETERS.models
    exact, slots = _whole_model(problem, "none")
    start: Floats | None = None
    for term in (VALUE, DISRUPTION):
        outcome = session.optimise(
            exact.model.arrays(term),
            share=tuning.victim_share,
            most=tuning.max_victim_seconds,
            gap=0.0,
            start=start,
        )
        if outcome is None or outcome.values is None or outcome.objective is None:
            break
        start = outcome.values
        exact.model.hold(term, round(outcome.objective), HOLD_SLACK)
    if start is None:
        return
    placement = Placement(problem, cleared=True)
    start_jobs(exact, slots, start, placement)
    repair_disruptions(placement)
    yield assign(placement, "stopping")
    # Some of those that stop may fit elsewhere.
    fill_by_policy(placement)
    repair_disruptions(placement)
    yield assign(placement, "stopping")


def _bound_disruption(
    problem: Problem, session: Session, value: int
) -> Generator[Bound, None, float | None]:
    """Bound `disruption` among plans worth `value` by the relaxation; return the best bound."""
    tuning = parameters.PARAMETERS.models
    exact, *_ = _model(problem, "away")
    add_disruption_budget(exact)
    add_value(exact)
    add_disruption(exact)
    exact.model.hold(VALUE, value, HOLD_SLACK)
    holds = ((VALUE, value),)
    arrays = exact.model.arrays(DISRUPTION, relax=True)
    least = _certified(problem, session, arrays, DISRUPTION, tuning.victim_share)
    if least is not None:
        yield Bound(DISRUPTION, least, holds, certified=True)
    outcome = session.optimise(
        exact.model.arrays(DISRUPTION),
        share=tuning.victim_share,
        most=tuning.max_victim_seconds,
        gap=0.0,
    )
    if outcome is not None and outcome.bound is not None:
        claimed = problem.round_bound(DISRUPTION, outcome.bound)
        least = tighter(least, claimed, SENSE[DISRUPTION])
        yield Bound(DISRUPTION, claimed, holds)
    return least
