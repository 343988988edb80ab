"""Sorts the jobs of a round into kinds (kinds.py)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain

import numpy as np

from placewright.formulations.common.wan.arrays import NONE, Bools, Ints
from placewright.formulations.gang.placement.placement import Placement
from placewright.formulations.gang.problem.jobs import NO_LEVEL, Choice, Group
from placewright.formulations.geo.models.preemption_rows import Asked, Barring, Holding, Rows
from placewright.formulations.geo.problem.class_arrays import Kinds
from placewright.formulations.geo.problem.running_jobs import Lying

MAX_SETS = 24
"""Most sets of GPU models that have rows of their own."""


def kinds_of(lying: Lying) -> Kinds:
    """Return the kinds of a round."""
    return Sorting(lying).kinds()


class Sorting:
    """Sorts jobs into kinds; without those that run where these stay whatever comes.

    Classes of which all jobs are `settled` are left out, too.
    """

    running = True
    settled: Collection[int] = ()

    def __init__(self, lying: Lying) -> None:
        self.lying, self.problem, self.gangs = lying, lying.problem, lying.gangs
        self.wan = self.problem.wan
        self.regions = len(self.wan.regions)
        self.sets = self._sets()
        self.first_quota = self.regions * len(self.sets)
        self._fits: dict[tuple[int, int, int], Bools] = {}
        self._room = Placement(self.gangs, cleared=True)
        self._asked_of: dict[tuple[Group, ...], Rows] = {}
        self._stays: dict[tuple[int, int, bool], Rows] = {}
        self._rows: dict[tuple[object, Holding], Rows] = {}

    def kinds(self) -> Kinds:
        """Return the kinds."""
        at = self.problem.at
        self.limits = list(self.lying.limits.values())
        caps = self._caps = self._quota_rows()
        self.prepare()
        may_stop = self.lying.may_stop
        self.alike = self.lying.alike if self.running else []
        self.barring = self.bar(may_stop, self.first_quota + len(self.limits))
        of_job = np.full(len(self.wan.round.jobs), NONE, dtype=np.int64)
        number: dict[tuple[object, ...], int] = {}
        where: list[int] = []
        stops: list[bool] = []
        ways: list[tuple[int, int, int, int, int]] = []
        entries: list[tuple[int, int, int]] = []
        stoppable = may_stop.tolist()
        for job_class in self.gangs.classes:
            if job_class.running or all(j in self.settled for j in job_class.jobs):
                continue
            tenant = job_class.tenant if job_class.tenant in caps else NONE
            asked: tuple[object, ...] = tuple(
                (choice.index, choice.value, tuple(self._asked(group) for group in choice.groups))
                for choice in job_class.choices
            )
            kind = number.setdefault((asked, tenant), len(number))
            of_job[list(job_class.jobs)] = kind
            if kind < len(where):
                continue
            where.append(NONE)
            stops.append(False)
            for choice in job_class.choices:
                for r in range(self.regions):
                    for model in self.models_of(choice, r) if self._may(choice, r) else ():
                        for row, amount in self.rows(choice, r, tenant, True, model):
                            entries.append((len(ways), row, amount))
                        ways.append((kind, r, choice.index, choice.value, model))
        for jobs in self.alike:
            j = jobs[0]
            job_class = self.gangs.classes[self.gangs.running[j].job_class]
            tenant = job_class.tenant if job_class.tenant in caps else NONE
            choice, r = job_class.choices[0], int(at[j])
            quotas = self.quota_rows_of(choice, r, tenant)
            stays = tuple((v, m, (*rows, *quotas)) for v, m, rows in self.staying(j))
            kind = number.setdefault((r, stoppable[j], stays), len(number))
            of_job[jobs] = kind
            if kind == len(where):
                where.append(r)
                stops.append(stoppable[j])
                for value, model, rows in stays:
                    entries += [(len(ways), row, amount) for row, amount in rows]
                    ways.append((kind, r, choice.index, value, model))
        room = self.rooms()
        way = np.array(ways, dtype=np.int64).reshape(-1, 5)
        entry = np.array(entries, dtype=np.int64).reshape(-1, 3)
        return Kinds(
            problem=self.problem,
            of_job=of_job,
            at=np.array(where, dtype=np.int64),
            may_stop=np.array(stops, dtype=np.bool_),
            way_kind=way[:, 0],
            way_region=way[:, 1],
            way_option=way[:, 2],
            value=way[:, 3],
            way_model=way[:, 4],
            entry_way=entry[:, 0],
            entry_row=entry[:, 1],
            asks=entry[:, 2],
            room=np.append(room, self.barring.rooms(self.of_sets(room), at, self.alike)),
        )

    def prepare(self) -> None:
        """Do what is to be done before jobs are sorted."""

    def bar(self, may_stop: Bools, first: int) -> Barring:
        """Return the rows, from `first` on, that say for whom jobs stop that may."""
        return Barring(self.gangs, self.regions, self.sets.tolist(), may_stop, first)

    def of_sets(self, room: Ints) -> Ints:
        """Return what there is of the sets of GPU models of these rows (regions, sets)."""
        return room[: self.first_quota].reshape(self.regions, -1)

    def models_of(self, choice: Choice, r: int) -> Sequence[int]:  # noqa: ARG002
        """Return the GPU models apart of which an option has ways in a region; NONE: together."""
        return (NONE,)

    def staying(self, job: int) -> Iterator[tuple[int, int, Rows]]:
        """Yield how a running job may go on: what that counts, on which model, and its rows."""
        running, r = self.gangs.running[job], int(self.problem.at[job])
        choice = self.gangs.classes[running.job_class].choices[0]
        key = running.job_class, r, self.gangs.floats(running)
        if key not in self._stays:
            self._stays[key] = tuple(self.rows(choice, r, NONE, key[2], NONE))
        holding = self.barring.holding(job)
        if (key, holding) not in self._rows:
            self._rows[key, holding] = together(self._stays[key], self.barring.left(holding, r))
        yield choice.value, NONE, self._rows[key, holding]

    def _sets(self) -> Ints:
        """Return sets of GPU models, as bits: those of shapes, and their unions while few."""
        model, allowed = self.gangs.cluster.gpu_model, self.gangs.shape_allowed
        found = np.zeros(len(allowed), dtype=np.int64)
        for m in range(len(self.wan.models)):
            found |= allowed[:, model == m].any(axis=1).astype(np.int64) << m
        self.mask: list[int] = found.tolist()
        masks = set(self.mask) - {0}
        every = sum(1 << m for m in range(len(self.wan.models)))
        found_sets = sorted(masks | {every})
        for mask in list(found_sets):
            for other in list(found_sets):
                if len(found_sets) < MAX_SETS and (mask | other) not in found_sets:
                    found_sets.append(mask | other)
        return np.array(found_sets[:MAX_SETS], dtype=np.int64)

    def _asked(self, group: Group) -> tuple[int, int, int, int]:
        return self.mask[group.shape], group.milli_gpu, group.shape, group.count

    def rows(
        self,
        choice: Choice,
        r: int,
        tenant: int,
        floats: bool,
        model: int,  # noqa: ARG002
    ) -> list[tuple[int, int]]:
        """Return what an option takes of the rows in a region."""
        amounts = self._amounts(choice.groups) if floats else ()
        found = [(r * len(self.sets) + i, amount) for i, amount in amounts]
        if floats:
            found += self.barring.asked(r, self.asked(choice))
        return found + self.quota_rows_of(choice, r, tenant)

    def _amounts(self, groups: tuple[Group, ...]) -> Rows:
        """Return what groups ask of the sets of GPU models that they cannot do without."""
        if groups not in self._asked_of:
            every = [
                sum(g.milli_gpu for g in groups if not self.mask[g.shape] & ~mask)
                for mask in self.sets.tolist()
            ]
            self._asked_of[groups] = tuple((i, milli) for i, milli in enumerate(every) if milli)
        return self._asked_of[groups]

    def asked(self, choice: Choice, mask: int | None = None) -> list[Asked]:
        """Return what the groups of an option ask, of GPU models in `mask` if given."""
        rank = self.gangs.shape_rank
        return [
            (int(rank[g.shape]), self.mask[g.shape] if mask is None else mask, g.milli_gpu)
            for g in choice.groups
        ]

    def quota_rows_of(self, choice: Choice, r: int, tenant: int) -> list[tuple[int, int]]:
        """Return what an option takes of the quotas of a tenant."""
        milli = sum(group.milli_gpu for group in choice.groups)
        rows = self._caps.get(tenant, {})
        return [(row, milli) for region, row in rows.items() if region in (NONE, r) and milli]

    def _may(self, choice: Choice, r: int) -> bool:
        """Whether each group of an option finds enough hosts in a region that nothing runs in."""
        return all(bool(self._enough(group)[r]) for group in choice.groups)

    def _enough(self, group: Group) -> Bools:
        key = group.shape, group.count, group.required
        if key not in self._fits:
            room = np.minimum(self._room.fits(group.shape), group.count).astype(np.float64)
            region, cluster = self.wan.host_region, self.gangs.cluster
            most = np.zeros(self.regions)
            if group.required == NO_LEVEL:
                np.add.at(most, region, room)
            else:
                domain = cluster.domain[group.required]
                np.maximum.at(most, region, np.bincount(domain, weights=room)[domain])
            self._fits[key] = np.asarray(most >= group.count)
        return self._fits[key]

    def _quota_rows(self) -> dict[int, dict[int, int]]:
        """Return the rows of quotas by tenant and region, NONE for all of them."""
        rows: dict[int, dict[int, int]] = {}
        for row, (tenant, region) in enumerate(self.lying.limits, self.first_quota):
            rows.setdefault(tenant, {})[region] = row
        return rows

    def rooms(self) -> Ints:
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
        return np.append(room.ravel(), np.array(self.limits, dtype=np.int64))


def together(*rows: Iterable[tuple[int, int]]) -> Rows:
    """Return rows with all that is taken of each, where that is something."""
    found: dict[int, int] = {}
    for row, amount in chain(*rows):
        found[row] = found.get(row, 0) + amount
    return tuple((row, amount) for row, amount in found.items() if amount)
