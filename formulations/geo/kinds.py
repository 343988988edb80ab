"""Jobs that regions cannot tell apart but for data: what they ask, and rows of what there is.

A **way** is an option in a region. It asks milli-GPU of sets of GPU models: a set's row counts the
groups that may have no other model. A **kind** holds jobs whose ways ask and are worth the same,
pending ones or such as run in one region. Rows bound whatever gangs do on hosts, for tasks that
move within a region count wherever they are; what pinned jobs hold is not there.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from placewright.formulations.gang.jobs import NO_LEVEL, Choice, Group
from placewright.formulations.gang.placing.placement import Placement
from placewright.formulations.gang.problem import Problem as Gangs
from placewright.formulations.geo.compile import Problem
from placewright.formulations.wan.compile import NONE, Bools, Ints

MAX_SETS = 24
"""Most sets of GPU models that have rows of their own."""


@dataclass(frozen=True, slots=True, eq=False)
class Kinds:
    """What jobs ask, as arrays.

    Attributes
    ----------
    of_job : Ints
        (jobs,): the kind of each job, NONE of pinned ones.
    at : Ints
        (kinds,): the region where jobs of a kind run, NONE if they are pending.
    may_stop : Bools
        (kinds,): whether jobs that run may make way for others at all.
    way_kind, way_region, way_option : Ints
        (ways,): of which kind, in which region and with which option.
    value : Ints
        (ways,): what starting that way counts, of a running job what it loses if it stops.
    entry_way, entry_row, asks : Ints
        (entries,): what a way takes of a row.
    room : Ints
        (rows,): what there is.
    """

    problem: Problem
    of_job: Ints
    at: Ints
    may_stop: Bools
    way_kind: Ints
    way_region: Ints
    way_option: Ints
    value: Ints
    entry_way: Ints
    entry_row: Ints
    asks: Ints
    room: Ints

    @property
    def ways(self) -> int:
        """The number of ways."""
        return len(self.way_kind)


def kinds_of(problem: Problem, gangs: Gangs) -> Kinds:
    """Return the kinds of a round, of which `gangs` are all jobs as one round of gangs."""
    return _Sorting(problem, gangs).kinds()


class _Sorting:
    def __init__(self, problem: Problem, gangs: Gangs) -> None:
        self.problem, self.gangs, self.wan = problem, gangs, problem.wan
        self.regions = len(self.wan.regions)
        self.sets = self._sets()
        self._fits: dict[tuple[int, int, int], Bools] = {}
        self._room = Placement(gangs, cleared=True)
        self._caps = self._quota_rows()

    def kinds(self) -> Kinds:
        """Return the kinds."""
        wan, at = self.wan, self.problem.at
        of_job = np.full(len(wan.round.jobs), NONE, dtype=np.int64)
        number: dict[tuple[object, ...], int] = {}
        where: list[int] = []
        stops: list[bool] = []
        ways: list[tuple[int, int, int, int]] = []
        entries: list[tuple[int, int, int]] = []
        stoppable, floats = self._stoppable(), self._floating()
        for job_class in self.gangs.classes:
            capped = job_class.tenant if job_class.tenant in self._caps else NONE
            asked = tuple(
                (choice.index, choice.value, tuple(self._asked(group) for group in choice.groups))
                for choice in job_class.choices
            )
            for j in job_class.jobs:
                key = (asked, capped, int(at[j]), bool(stoppable[j]), bool(floats[j]))
                kind = number.get(key)
                if kind is None:
                    kind = number[key] = len(number)
                    where.append(int(at[j]))
                    stops.append(bool(stoppable[j]))
                    for choice in job_class.choices:
                        for r in range(self.regions) if at[j] == NONE else (int(at[j]),):
                            if at[j] == NONE and not self._may(choice, r):
                                continue
                            for row, amount in self._rows(choice, r, capped, floats[j]):
                                entries.append((len(ways), row, amount))
                            ways.append((kind, r, choice.index, choice.value))
                of_job[j] = kind
        way = np.array(ways, dtype=np.int64).reshape(-1, 4)
        entry = np.array(entries, dtype=np.int64).reshape(-1, 3)
        return Kinds(
            self.problem,
            of_job,
            np.array(where, dtype=np.int64),
            np.array(stops, dtype=np.bool_),
            *way.T,
            *entry.T,
            room=self._rooms(),
        )

    def _sets(self) -> Ints:
        """Return sets of GPU models, as bits: those of shapes, and their unions while few."""
        model = self.gangs.cluster.gpu_model
        masks = set()
        for hosts in self.gangs.shape_allowed:
            found = np.unique(model[hosts & (model >= 0)]).tolist()
            masks.add(sum(1 << m for m in found))
        self._mask = [
            sum(1 << m for m in np.unique(model[hosts & (model >= 0)]).tolist())
            for hosts in self.gangs.shape_allowed
        ]
        masks.discard(0)
        every = sum(1 << m for m in range(len(self.wan.models)))
        found_sets = sorted(masks | {every})
        for mask in list(found_sets):
            for other in list(found_sets):
                if len(found_sets) < MAX_SETS and (mask | other) not in found_sets:
                    found_sets.append(mask | other)
        return np.array(found_sets[:MAX_SETS], dtype=np.int64)

    def _asked(self, group: Group) -> tuple[int, int, int, int]:
        return self._mask[group.shape], group.milli_gpu, group.shape, group.count

    def _rows(self, choice: Choice, r: int, tenant: int, floats: bool) -> list[tuple[int, int]]:
        """Return what an option takes of the rows in a region."""
        found = []
        milli = sum(group.milli_gpu for group in choice.groups)
        for s, mask in enumerate(self.sets.tolist()) if floats else ():
            amount = sum(g.milli_gpu for g in choice.groups if not self._mask[g.shape] & ~mask)
            if amount:
                found.append((r * len(self.sets) + s, amount))
        for region, row in self._caps.get(tenant, {}).items():
            if region in (NONE, r) and milli:
                found.append((row, milli))
        return found

    def _may(self, choice: Choice, r: int) -> bool:
        """Whether each group of an option finds enough hosts in a region that nothing runs in."""
        return all(bool(self._enough(group)[r]) for group in choice.groups)

    def _enough(self, group: Group) -> Bools:
        key = group.shape, group.count, group.required
        if key not in self._fits:
            room = np.minimum(self._room.fits(group.shape), group.count)
            region, cluster = self.wan.host_region, self.gangs.cluster
            if group.required == NO_LEVEL:
                most = np.bincount(region, weights=room, minlength=self.regions)
            else:
                domain = cluster.domain[group.required]
                each = np.bincount(domain, weights=room)[domain]
                most = np.zeros(self.regions)
                np.maximum.at(most, region, each)
            self._fits[key] = most >= group.count
        return self._fits[key]

    def _quota_rows(self) -> dict[int, dict[int, int]]:
        """Return the rows of quotas by tenant and region, NONE for all of them."""
        tenants = {tenant.name: t for t, tenant in enumerate(self.wan.round.tenants)}
        rows: dict[int, dict[int, int]] = {}
        self._limits: list[int] = []
        first = self.regions * len(self.sets)
        limits = {(t, NONE): most for (t, res), most in self.gangs.quota.items() if res < 0}
        held: dict[tuple[int, int], int] = {}
        pinned: dict[tuple[int, int], int] = {}
        for j in np.flatnonzero(self.problem.at != NONE).tolist() if self.problem.quota else ():
            job = self.wan.round.jobs[j]
            if job.running is not None and job.tenant is not None:
                key = tenants[job.tenant], int(self.problem.at[j])
                milli = job.options[job.running.option].milli_gpu
                held[key] = held.get(key, 0) + milli
                pinned[key] = pinned.get(key, 0) + milli * job.running.pinned
        for (r, name), most in self.problem.quota.items():
            key = tenants[name], r
            limits[key] = max(most, held.get(key, 0)) - pinned.get(key, 0)
        for (tenant, region), most in limits.items():
            rows.setdefault(tenant, {})[region] = first + len(self._limits)
            self._limits.append(most)
        return rows

    def _rooms(self) -> Ints:
        """Return what there is of each row."""
        cluster = self.gangs.cluster
        gpus = np.repeat(np.arange(cluster.num_hosts), cluster.gpu_count)
        free = np.where(self.gangs.usable, self.gangs.cleared.gpu_free, 0)
        each = np.bincount(gpus, weights=free, minlength=cluster.num_hosts).astype(np.int64)
        each[~self.gangs.open] = 0
        room = np.zeros((self.regions, len(self.sets)), dtype=np.int64)
        for s, mask in enumerate(self.sets.tolist()):
            mine = (cluster.gpu_model >= 0) & ((mask >> np.maximum(0, cluster.gpu_model)) & 1 > 0)
            np.add.at(room[:, s], self.wan.host_region[mine], each[mine])
        return np.append(room.ravel(), np.array(self._limits, dtype=np.int64))

    def _stoppable(self) -> Bools:
        """Whether running jobs may have to make way for one of higher precedence (jobs,)."""
        jobs, at = self.wan.round.jobs, self.problem.at
        rank = np.array([job.priority + 2**31 * (not job.opportunistic) for job in jobs])
        pinned = np.array([bool(job.running and job.running.pinned) for job in jobs], dtype=bool)
        comes = np.where(self.problem.can & ~pinned[:, None], rank[:, None], -(2**62))
        top = comes.max(axis=0, initial=-(2**62))
        return (at != NONE) & (rank < top[at])

    def _floating(self) -> Bools:
        """Whether running jobs lie where others could arrive, (jobs,); pending ones do."""
        floats = np.ones(len(self.wan.round.jobs), dtype=np.bool_)
        for j, running in self.gangs.running.items():
            floats[j] = self.gangs.floats(running)
        return floats
