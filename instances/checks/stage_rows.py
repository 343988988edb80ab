"""Rows of capacity of rounds with stages, in counts.

There is a row per resource and set of GPU models (hosts without GPUs are a model of their own), per
quota, and per pool of the whole cluster. Sets are those that task groups allow, and unions of those
that overlap (Hall's condition). Unhealthy and reserved hosts have nothing, reserved GPUs neither,
and what runs there holds nothing of them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

from placewright.instances.checks.deadlines import unions
from placewright.instances.derived.hardware import hardware, pooled_resources
from placewright.instances.derived.ranges import expand
from placewright.instances.documents.job import Job
from placewright.instances.documents.option import Option, TaskGroup
from placewright.instances.documents.round import Round
from placewright.topology.units import UNLIMITED, WHOLE_GPU

NO_MODEL = ""
"""The GPU model of hosts without GPUs."""


class Row(NamedTuple):
    """What hosts of some `models`, a tenant's quota (`owner`), or a pool (neither) have."""

    resource: str
    capacity: int
    models: frozenset[str] | None = None
    owner: str | None = None
    per_job: bool = False

    def text(self) -> str:
        """Say in a few words whose capacity it is."""
        if self.owner is not None:
            return f"quota of tenant {self.owner} of {self.resource}"
        if self.models is None:
            return f"pool of {self.resource}"
        models = sorted(self.models - {NO_MODEL})
        return self.resource + (f" of {', '.join(models)}" if models else "")


class StageRows:
    """The rows of a round, and what options ask of them.

    Attributes
    ----------
    rows
        Those of which some job asks something.
    """

    def __init__(self, round_: Round) -> None:
        self._round = round_
        self._hosts: dict[str, tuple[str, dict[str, int]]] = {}
        pooled, closed, reserved = pooled_resources(round_.cluster), set[str](), dict[str, int]()
        for reservation in round_.reservations:
            for name in expand(reservation.host):
                if reservation.gpus is None:
                    closed.add(name)
                else:
                    reserved[name] = reserved.get(name, 0) | sum(1 << g for g in reservation.gpus)
        self._reserved = reserved
        for entry in round_.cluster.hosts:
            one = hardware(entry, pooled)
            for name in expand(entry.name) if entry.healthy else ():
                if name not in closed:
                    gpus = one.gpus - reserved.get(name, 0).bit_count()
                    has = {**one.capacity, "gpu": gpus * WHOLE_GPU}
                    self._hosts[name] = one.gpu_model or NO_MODEL, has
        every = {hardware(entry).gpu_model or NO_MODEL for entry in round_.cluster.hosts}
        self._models = frozenset(every)
        self.rows = tuple(self._made())

    def _made(self) -> Iterable[Row]:
        sets: dict[str, set[frozenset[str]]] = {}
        options = [option for job in self._round.jobs for option in job.options]
        for group in (group for option in options for group in option.groups):
            for resource, amount in asked_of(group).items():
                if amount:
                    sets.setdefault(resource, set()).add(self.allowed(group))
        have: dict[tuple[str, str], int] = {}
        for model, has in self._hosts.values():
            for resource, amount in has.items():
                have[resource, model] = have.get((resource, model), 0) + amount
        for resource, mine in sets.items():
            for models in sorted(unions(mine), key=lambda one: (len(one), sorted(one))):
                capacity = sum(have.get((resource, model), 0) for model in models)
                if capacity < UNLIMITED:
                    yield Row(resource, capacity, models)
        for tenant in self._round.tenants:
            for resource, most in tenant.quota.items():
                yield Row(resource, most, owner=tenant.name)
        for pool in self._round.cluster.pools:
            if pool.level is None:
                yield Row(pool.resource, pool.capacity, per_job=pool.per == "job")

    def allowed(self, group: TaskGroup) -> frozenset[str]:
        """Return the GPU models of hosts on which tasks of a group may be."""
        if group.gpu_models is not None:
            return self._models & frozenset(group.gpu_models)
        return self._models - {NO_MODEL} if group.gpu else self._models

    def asked(self, job: Job, option: Option) -> list[int]:
        """Return what a job asks of each row with an option, all tasks at once."""
        return [self._asked(row, job, option) for row in self.rows]

    def _asked(self, row: Row, job: Job, option: Option) -> int:
        if row.owner is not None:
            return option.amount_of(row.resource) if job.tenant == row.owner else 0
        if row.per_job:
            return option.uses.get(row.resource, 0)
        return sum(
            group.count * asked_of(group).get(row.resource, 0)
            for group in option.groups
            if row.models is None or self.allowed(group) <= row.models
        )

    def held(self, job: Job) -> list[int]:
        """Return what a running job holds of each row, where it is."""
        if job.running is None:
            return [0] * len(self.rows)
        option = job.options[job.running.option]
        held = self.asked(job, option)
        for r, row in enumerate(self.rows):
            if row.models is None:
                continue
            held[r] = 0
            for task in job.running.tasks:
                model = self._hosts.get(task.host, (None, None))[0]
                group = option.groups[task.group]
                if model not in row.models:
                    continue
                if row.resource == "gpu":
                    mask = self._reserved.get(task.host, 0)
                    each = min(group.gpu, WHOLE_GPU)
                    held[r] += each * sum(not mask >> gpu & 1 for gpu in task.gpus)
                else:
                    held[r] += asked_of(group).get(row.resource, 0)
        return held

    def places(self, group: TaskGroup) -> int:
        """Return how many tasks of a group fit the empty hosts, at most its count."""
        allowed, found = self.allowed(group), 0
        asked = {resource: amount for resource, amount in asked_of(group).items() if amount}
        named = self._named(group)
        for name, (model, has) in self._hosts.items():
            if found >= group.count:
                break
            if model in allowed and (named is None or name in named):
                each = (has.get(resource, 0) // amount for resource, amount in asked.items())
                found += min(each, default=group.count)
        return min(found, group.count)

    def _named(self, group: TaskGroup) -> Collection[str] | None:
        if group.hosts is None and not group.host_sets:
            return None
        lists = [] if group.hosts is None else [group.hosts]
        lists += [self._round.host_sets[name] for name in group.host_sets]
        sets = [{name for entry in one for name in expand(entry)} for one in lists]
        return set.intersection(*sets)


def asked_of(group: TaskGroup) -> dict[str, int]:
    """Return what a task of a group asks of its host, by resource."""
    return {"gpu": group.gpu, "cpu": group.cpu, "memory": group.memory, **group.resources}
