"""Cells that tenants own: which may be bound, and what claims are left (docs/plans.md#cells)."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from fuzz.book.choices import KEEP, START, WAIT, Choice, Choices
from fuzz.book.facts import WHOLE, Facts, Group, Job
from fuzz.policy import Raw

_OF_JOB = {"name", "tenant", "priority", "weight", "options", "opportunistic"}
_OF_OPTION = {"name", "groups", "value", "progress"}
_OF_GROUP = {"name", "count", "gpu", "cpu", "memory", "resources", "gpu_models", "preferred"}


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry of a tenant's cells: so many domains of a level, of hosts of one GPU model."""

    tenant: str
    number: int
    level: str
    model: str
    count: int


class Bound(NamedTuple):
    """A cell in use."""

    entry: Entry
    domain: str


class Cells:
    """The cells of a round, as sets of hosts."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        models = sorted({host.model for host in facts.hosts if host.model is not None})
        self.entries = [
            Entry(t["name"], i, e["level"], e.get("gpu_model", models[0]), e.get("count", 1))
            for t in facts.tenants
            for i, e in enumerate(t.get("cells", ()))
        ]
        self._owners = {entry.tenant for entry in self.entries}
        self._quotas = {t["name"] for t in facts.tenants if t.get("quota")}
        self.pooled = {pool["resource"] for pool in facts.raw["cluster"].get("pools", ())}
        self.unusable = frozenset(self._unusable())
        self.before = [one for one in self._bindings() if self._used_before(one)]
        self.claimed_before = self._short(self.before)

    def guaranteed(self, job: Job) -> bool:
        """Whether the cells of its tenant are for a job."""
        return job.tenant in self._owners and not job.opportunistic

    def admits(self, job: Job, choice: Choice) -> bool:
        """Whether a job may have a choice; guaranteed ones that run are kept."""
        return not self.guaranteed(job) or choice.kind in (START, WAIT, KEEP)

    def hosts(self, level: str, model: str) -> dict[str, frozenset[int]]:
        """Return the hosts of each cell of a level, of the hosts of one GPU model."""
        position = self.facts.levels.index(level)
        found: dict[str, set[int]] = {}
        for host in self.facts.hosts:
            if host.model == model:
                found.setdefault(host.domains[position], set()).add(host.number)
        return {domain: frozenset(hosts) for domain, hosts in found.items()}

    def of(self, bound: Bound) -> frozenset[int]:
        """Return the hosts of a cell."""
        return self.hosts(bound.entry.level, bound.entry.model)[bound.domain]

    def bindings(self, choices: Choices) -> Iterator[tuple[Bound, ...]]:
        """Yield every set of cells that holds the guaranteed jobs, each cell some of them."""
        needed = {
            (job.tenant, place[2])
            for job, choice in zip(self.facts.jobs, choices, strict=True)
            if self.guaranteed(job)
            for place in choice.places
        }
        yield from self._covering(sorted((h, str(tenant)) for tenant, h in needed), ())

    def broken(self, choices: Choices, bound: Collection[Bound]) -> str:
        """Return the rule that bindings break which hold the guaranteed jobs, "" if none."""
        for job, choice in zip(self.facts.jobs, choices, strict=True):
            if not self.admits(job, choice):
                return "inside_cells"
        for entry in self.entries:
            if sum(one.entry == entry for one in bound) > entry.count:
                return "cells"
        for one in bound:
            if one not in self.before and self.of(one) & self.unusable:
                return "cells"
        for one in self.before:
            if one not in bound and self._inside(one, choices):
                return "cells"
        if not self.claimed_before and self._short(bound):
            return "claims"
        if self.may_wait_for_budget:
            return ""
        return "" if all(self._waits(j, choices, bound) for j in self.facts.jobs) else "granted"

    @property
    def may_wait_for_budget(self) -> bool:
        """Whether a guaranteed job may wait since it would evict too much."""
        return (self.facts.policy.get("limits") or {}).get("disruption") is not None

    def section(self, choices: Choices, bound: Collection[Bound]) -> Raw:
        """Write the plan section."""
        return {
            "kind": "cells",
            "bindings": [
                {
                    "tenant": one.entry.tenant,
                    "cell": one.entry.number,
                    "level": one.entry.level,
                    "domain": one.domain,
                    "jobs": [job.name for job in self._inside(one, choices)],
                }
                for one in bound
            ],
        }

    def places(self, choices: Choices) -> Hashable:
        """Return where guaranteed jobs start, the same for GPUs that are interchangeable."""
        held: dict[tuple[int, int], list[tuple[int, int, str, int]]] = {}
        running: dict[tuple[int, int], list[tuple[int, int, int]]] = {}
        tasks = []
        for job in self.facts.jobs:
            for place in () if job.running is None else job.running.places:
                for gpu in place[3]:
                    running.setdefault((place[2], gpu), []).append((job.number, *place[:2]))
        for job, choice in zip(self.facts.jobs, choices, strict=True):
            if self.guaranteed(job) and choice.kind == START:
                tasks += [
                    (job.number, choice.option, place[0], place[2]) for place in choice.places
                ]
                for place in choice.places:
                    # With as much left GPUs are alike, whoever has the rest.
                    group = job.options[choice.option].groups[place[0]]
                    takes = group.each, group.gpu_memory, group.profile or "", place[4] or 0
                    for gpu in place[3]:
                        held.setdefault((place[2], gpu), []).append(takes)
        reserved = {host.number: host.reserved_gpus for host in self.facts.hosts}
        gpus = sorted(
            (host, gpu in reserved[host], running.get((host, gpu), []), sorted(mine))
            for (host, gpu), mine in held.items()
        )
        return repr((sorted(tasks), gpus))

    def _covering(
        self, needed: list[tuple[int, str]], bound: tuple[Bound, ...]
    ) -> Iterator[tuple[Bound, ...]]:
        taken = {(h, one.entry.tenant) for one in bound for h in self.of(one)}
        missing = [pair for pair in needed if pair not in taken]
        if not missing:
            yield bound
            return
        host, tenant = missing[0]
        for entry in self.entries:
            if entry.tenant != tenant:
                continue
            for domain, hosts in self.hosts(entry.level, entry.model).items():
                if host in hosts and not hosts & {h for h, _ in taken}:
                    yield from self._covering(needed, (*bound, Bound(entry, domain)))

    def _inside(self, bound: Bound, choices: Choices) -> list[Job]:
        hosts = self.of(bound)
        return [
            job
            for job, choice in zip(self.facts.jobs, choices, strict=True)
            if job.tenant == bound.entry.tenant
            and self.guaranteed(job)
            and any(place[2] in hosts for place in choice.places)
        ]

    def _free(self, level: str, model: str, bound: Collection[Bound]) -> list[frozenset[int]]:
        """Return the usable cells of a level that no binding touches."""
        taken = self.unusable.union(*(self.of(one) for one in bound))
        return [hosts for hosts in self.hosts(level, model).values() if not hosts & taken]

    def _short(self, bound: Collection[Bound]) -> bool:
        """Whether the claims that are left have more hosts than there are in free cells."""
        position = self.facts.levels.index
        for level, model in {(entry.level, entry.model) for entry in self.entries}:
            claimed = 0
            for entry in self.entries:
                if entry.model == model and position(entry.level) <= position(level):
                    left = entry.count - sum(one.entry == entry for one in bound)
                    claimed += left * len(next(iter(self.hosts(entry.level, model).values())))
            if claimed > sum(map(len, self._free(level, model, bound))):
                return True
        return False

    def _waits(self, job: Job, choices: Choices, bound: Collection[Bound]) -> bool:
        """Whether a job may do what it does: a guaranteed one waits only for want of a cell."""
        if choices[job.number].kind != WAIT or not self.guaranteed(job):
            return True
        raw = self.facts.raw["jobs"][job.number]
        if not set(raw) <= _OF_JOB or job.tenant in self._quotas:
            return True
        for entry in self.entries:
            left = entry.count - sum(one.entry == entry for one in bound)
            free = self._free(entry.level, entry.model, bound)
            if entry.tenant != job.tenant or not left or not free:
                continue
            inside = sorted(frozenset[int]().union(*free))
            for number, option in enumerate(job.options):
                written = raw["options"][number]
                plain = set(written) <= _OF_OPTION
                if (
                    not plain
                    or option.asks.keys() & self.pooled
                    or any(not set(group) <= _OF_GROUP for group in written["groups"])
                ):
                    continue
                needed = 0
                for group in option.groups:
                    each = min(self._room(h, group) for h in inside)
                    if group.models is not None and entry.model not in group.models:
                        each = 0
                    needed += -(-group.count // each) if each else len(self.facts.hosts) + 1
                if needed <= min(map(len, free)):
                    return False
        return True

    def _room(self, number: int, group: Group) -> int:
        """Return how many tasks of a group an empty host holds."""
        host = self.facts.hosts[number]
        rooms = [host.has.get(name, 0) // amount for name, amount in group.wants]
        if group.gpu >= WHOLE:
            rooms.append(host.gpus // group.number)
        elif group.gpu:
            rooms.append(host.gpus * (WHOLE // group.gpu))
        return min(rooms, default=group.count)

    def _bindings(self) -> list[Bound]:
        by_name = {(entry.tenant, entry.number): entry for entry in self.entries}
        return [
            Bound(by_name[one["tenant"], one.get("cell", 0)], one["domain"])
            for one in self.facts.raw.get("bindings", ())
        ]

    def _used_before(self, bound: Bound) -> bool:
        hosts = self.of(bound)
        return any(
            job.tenant == bound.entry.tenant
            and self.guaranteed(job)
            and job.running is not None
            and any(place[2] in hosts for place in job.running.places)
            for job in self.facts.jobs
        )

    def _unusable(self) -> Iterator[int]:
        for host in self.facts.hosts:
            if not host.healthy or host.reserved or host.reserved_gpus or host.vacated:
                yield host.number
        for job in self.facts.jobs:
            if job.running is not None and job.running.pinned and not self.guaranteed(job):
                yield from (place[2] for place in job.running.places)
