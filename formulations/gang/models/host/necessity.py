"""Necessity rows: a job stops only if it does not fit in its place beside all others.

For each running job v, n[v] = 1 - y[v] says that it stops, and z[i] that it has reason i to:

    sum_i z[i] >= n[v]
    what others use + what v used there > what there is        where z[i] = 1

A reason is a resource of one of its hosts, one shared GPU, the whole GPUs of a host, a quota of its
tenant, a domain of a pool, or a label in its domains. For the whole GPUs of host h there are two
rows:

    sum_t x[t,h] >= 1                   tasks of whole GPUs arrive: one may have taken v's very GPU
    gpus used + gpus(v) > whole[h]      v would not find as many others

The first is what verification asks for (docs/plans.md#who-may-be-preempted), and stands in the
block `NECESSITY`, all rows of which hold for every lawful plan. The second is how placements
count. It stands in `COUNTED`, whose rows are a **restriction**, which bounds leave out. There,
where v stops, are also rows against what the relaxed rows of `preemption.py` cannot see:

    x[t,h] <= capacity y[v]        tasks of rank at most v's level of whole GPUs where h has shared
                                   ones, and tasks that meet v's label, movers above it, too

The other rows of `NECESSITY` say where parts of GPUs are: for tasks alone, so that no reason is
made up, and beside v, where v stops, only of a rank above its level:

    sum_i b[i,f] <= sum_t x[t,h]                              shares f on h; likewise w[i]
    sum_{f: rank <= level} f b[i,f] + f(w) s[w] + f(w) n[w] <= free[i]       w ran on v's GPU i
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from placewright.array_types import Ints
from placewright.formulations.gang.models.host.gpus import GpuSlots
from placewright.formulations.gang.models.host.model import HostModel, milli_each
from placewright.formulations.gang.models.host.pools import PoolColumns
from placewright.formulations.gang.placement.pool_use import taken_of_pool
from placewright.formulations.gang.problem.jobs import ANY_JOB, NO_LABEL
from placewright.topology.units import WHOLE_GPU

NECESSITY = "necessity"
COUNTED = "necessity by counts"
Numbers = NDArray[np.number]


def add_necessity(m: HostModel, slots: GpuSlots, pools: Sequence[PoolColumns] = ()) -> None:
    """Append the rows of every running job of a model of the whole round."""
    rows = _NecessityRows(m, slots, pools)
    rows.add_parts_in_use()
    for e, entry in enumerate(m.entries):
        if entry.job != ANY_JOB:
            rows.add(e)


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
        row = self.m.model.rows(NECESSITY, 1, upper=0.0)
        self._sum(row, parts, 1.0)
        self._sum(row, tasks, -np.asarray(amounts, dtype=np.float64))

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
        row = m.model.rows(NECESSITY, 1, lower=1.0)
        self._sum(row, np.array([m.y[e], *reasons]), 1.0)
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
        self._sum(row, np.concatenate(columns), given)

    def _sum(self, row: Ints, columns: Ints, amounts: float | Numbers) -> None:
        """Add some columns to a row."""
        self.m.model.add([row[0]] * len(columns), columns, amounts)

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

    def _meets_label(self, e: int) -> NDArray[np.bool_]:
        """Return whether each x is of another job with the label, in a domain of this one."""
        m, job = self.m, self.m.entries[e].job
        label = m.problem.labels[int(self.entry_label[e])]
        domain = m.problem.cluster.domain[label.level][m.hosts[m.x_host]]
        there = np.isin(domain, sorted(label.running_domains[job]))
        meets: NDArray[np.bool_] = (
            there & (self.x_label == self.entry_label[e]) & (self.x_job != job)
        )
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
        m.model.add(rows, m.y[[e] * len(x)], -m.capacity[m.x_set[x], m.x_host[x]])
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
                row = m.model.rows(NECESSITY, 1, upper=slots.free[i] - most)
                self._sum(row, slots.b[b], slots.parts.milli[slots.b_key[b]])
                self._sum(row, m.stays.s[ran], milli[ran])
                self._sum(row, m.y[m.stays.entry[back]], -milli[back])
                self._sum(row, m.y[[e]], -most)


def _positions(of: Ints, size: int) -> list[Ints]:
    """Return where each of 0 ... size-1 stands in an array."""
    order = np.argsort(of, kind="stable")
    return np.split(order, np.searchsorted(of[order], np.arange(1, size)))
