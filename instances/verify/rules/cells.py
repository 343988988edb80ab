"""Rules about cells: guaranteed jobs run in cells of their tenants, other cells stay whole."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from placewright.array_types import Bools
from placewright.instances.derived.hardware import Hardware
from placewright.instances.documents.base import Document
from placewright.instances.documents.cells import OwnedCells
from placewright.instances.documents.job import Job
from placewright.instances.documents.option import Option, TaskGroup
from placewright.instances.documents.plan import DecisionKind, Detail, Reason
from placewright.instances.documents.round import Round
from placewright.instances.errors import Path, value_text
from placewright.instances.verify import policies
from placewright.instances.verify.reading import HostFacts, Reading, demand, reserved_places
from placewright.instances.verify.result import Finding, rules
from placewright.instances.verify.rules.gang.free_hosts import FreeHosts, asked, is_plain
from placewright.instances.verify.rules.gang.limits import Pools, asked_by
from placewright.instances.verify.rules.gang.reasons import ReasonTests
from placewright.topology.units import WHOLE_GPU

# Facts about the cells of a round, for the rules about them.
#
# Cells are sets of hosts here: whatever hosts of the GPU model lie in a domain. Sizes are counted
# in hosts, so that no tree is needed: the claims for cells of a level and above fit what is free
# if they have no more hosts than lie in domains of that level that are free as a whole.


Hosts: TypeAlias = frozenset[str]
Entry: TypeAlias = tuple[str, int]
"""A tenant, and the index of an entry of its cells."""
Chain: TypeAlias = tuple[str, str | None]
"""A GPU model, and the domain that the cells are within."""


@dataclass(frozen=True, slots=True)
class BoundCell:
    """A binding: its path, entry and domain, and the jobs that it names."""

    path: Path
    entry: Entry
    domain: str
    jobs: tuple[str, ...] = ()


class CellFacts:
    """The cells that tenants own, and the hosts that they can be bound to."""

    def __init__(self, reading: Reading) -> None:
        self.reading, round_ = reading, reading.round
        self.tenants = {tenant.name: tenant for tenant in round_.tenants}
        self.owned: dict[Entry, OwnedCells] = {
            (t.name, c): entry for t in round_.tenants for c, entry in enumerate(t.cells)
        }
        models = sorted(
            {h.hardware.gpu_model or "" for h in reading.cluster.hosts.values() if h.hardware.gpus}
        )
        self.chain_of: dict[Entry, Chain] = {
            entry: (owned.gpu_model or models[0], owned.within)
            for entry, owned in self.owned.items()
        }
        self.hosts: dict[Chain, list[HostFacts]] = {c: [] for c in self.chain_of.values()}
        for host in reading.cluster.hosts.values():
            model = host.hardware.gpu_model or ""
            inside = [c for c in self.hosts if c[0] == model and c[1] in host.domains]
            for chain in inside or [(model, None)]:
                if chain in self.hosts and host.hardware.gpus:
                    self.hosts[chain].append(host)
        self._without_mixed_cells()
        owned_levels = {(self.chain_of[e], owned.level): None for e, owned in self.owned.items()}
        self.cells = {(chain, level): self._cells(chain, level) for chain, level in owned_levels}
        self.unusable = _unusable(reading)

    def _without_mixed_cells(self) -> None:
        """Leave out the cells of a model's chains that contain hosts of a separate chain."""
        for chain in [chain for chain in self.hosts if chain[1] is None]:
            mine = [self._at(self.owned[e].level) for e, c in self.chain_of.items() if c == chain]
            apart = {
                host.domains[min(mine)]
                for other, hosts in self.hosts.items()
                if other[0] == chain[0] and other != chain
                for host in hosts
            }
            self.hosts[chain] = [h for h in self.hosts[chain] if h.domains[min(mine)] not in apart]

    def _cells(self, chain: Chain, level: str) -> dict[str, Hosts]:
        """Return the hosts of each domain of a level, of those in a chain."""
        at = self.reading.cluster.levels[level]
        found: defaultdict[str, set[str]] = defaultdict(set)
        for host in self.hosts[chain]:
            found[host.domains[at]].add(host.name)
        return {domain: frozenset(hosts) for domain, hosts in found.items()}

    def hosts_of(self, bound: BoundCell) -> Hosts | None:
        """Return the hosts of a cell, or None if its domain is no cell of its entry."""
        owned = self.owned[bound.entry]
        return self.cells[self.chain_of[bound.entry], owned.level].get(bound.domain)

    def left(self, bound: list[BoundCell]) -> Counter[Entry]:
        """Return how many cells of each entry are not bound."""
        left = Counter({entry: owned.count for entry, owned in self.owned.items()})
        left.subtract(Counter(one.entry for one in bound))
        return left

    def free(self, chain: Chain, level: str, bound: list[BoundCell]) -> dict[str, Hosts]:
        """Return the cells of a level that are usable and not bound, wholly."""
        taken = self.unusable.union(*(self.hosts_of(one) or () for one in bound))
        cells = self.cells[chain, level]
        return {domain: hosts for domain, hosts in cells.items() if hosts.isdisjoint(taken)}

    def short(self, bound: list[BoundCell]) -> Iterator[tuple[Chain, str, int, int]]:
        """Yield chain and level where claims have more hosts than there are, and both numbers."""
        left = self.left(bound)
        for chain, level in self.cells:
            claimed = 0
            for entry, owned in self.owned.items():
                if self.chain_of[entry] == chain and self._at(owned.level) <= self._at(level):
                    size = len(next(iter(self.cells[chain, owned.level].values())))
                    claimed += left[entry] * size
            there = sum(map(len, self.free(chain, level, bound).values()))
            if claimed > there:
                yield chain, level, claimed, there

    def _at(self, level: str) -> int:
        return self.reading.cluster.levels[level]

    def guaranteed(self, job: Job) -> bool:
        """Whether the cells of its tenant are for a job."""
        tenant = self.tenants.get(job.tenant or "")
        return tenant is not None and bool(tenant.cells) and not job.opportunistic

    def before(self) -> list[BoundCell]:
        """Return the bindings of the round in which a job that they are for runs."""
        used = {
            (self.reading.jobs[name].tenant, task.host)
            for name, running in self.reading.running.items()
            if self.guaranteed(self.reading.jobs[name])
            for task in running.tasks
        }
        found = []
        for b, binding in enumerate(self.reading.round.bindings):
            one = BoundCell(("bindings", b), (binding.tenant, binding.cell), binding.domain)
            hosts = self.hosts_of(one) if one.entry in self.owned else None
            if hosts and any((binding.tenant, host) in used for host in hosts):
                found.append(one)
        return found


def _unusable(reading: Reading) -> Hosts:
    """Hosts on which no cell may be claimed: failed, reserved, to be vacated, held for good."""
    failed = {host.name for host in reading.cluster.hosts.values() if not host.healthy}
    hosts, others = reserved_places(reading.round)
    owners = {tenant.name for tenant in reading.round.tenants if tenant.cells}
    pinned = {
        task.host
        for name, running in reading.running.items()
        if running.pinned
        and (reading.jobs[name].opportunistic or reading.jobs[name].tenant not in owners)
        for task in running.tasks
    }
    return frozenset(failed | hosts | others.keys() | pinned | reading.vacated)


KIND = "cells"
# What does not say where tasks may be, but for what hosts have.
_OF_GROUP = ("name", "count", "gpu", "cpu", "memory", "resources", "gpu_models", "preferred")
_OF_OPTION = ("name", "groups", "value", "progress")
_OF_JOB = (
    "name",
    "tenant",
    "priority",
    "weight",
    "options",
    "running",
    "opportunistic",
    "annotations",
)
_FIELDS = ("tenant", "cell", "level", "domain", "jobs")


def form(_: Reading, entry: Mapping[str, Any], path: Path) -> Iterator[Finding]:
    """Require a list of bindings with their fields; `sections.section` applies it."""
    bindings = entry.get("bindings")
    if not isinstance(bindings, list | tuple) or set(entry) != {"kind", "bindings"}:
        yield Finding(path, "expected the fields kind and bindings, a list")
        return
    for b, one in enumerate(bindings):
        if not _well_formed(one):
            yield Finding(
                (*path, "bindings", b),
                f"{value_text(one)} is no binding; expected the fields {', '.join(_FIELDS)}",
            )


def _well_formed(one: object) -> bool:
    return (
        isinstance(one, Mapping)
        and set(one) == set(_FIELDS)
        and all(isinstance(one[name], str) for name in ("tenant", "level", "domain"))
        and isinstance(one["cell"], int)
        and isinstance(one["jobs"], list | tuple)
        and all(isinstance(name, str) for name in one["jobs"])
    )


def _owners(round_: Round) -> bool:
    return any(tenant.cells for tenant in round_.tenants)


def read_bindings(reading: Reading) -> tuple[CellFacts, list[BoundCell]] | None:
    """Return the bindings of the first section `cells` whose names the round has."""
    given = policies.given(reading, KIND)
    if not given or not _owners(reading.round):
        return None
    entries = reading.plan.sections[given[0]].get("bindings")
    world = CellFacts(reading)
    bound = []
    for b, raw in enumerate(entries if isinstance(entries, list | tuple) else ()):
        if _well_formed(raw):
            path: Path = ("sections", given[0], "bindings", b)
            one = BoundCell(path, (raw["tenant"], raw["cell"]), raw["domain"], tuple(raw["jobs"]))
            owned = world.owned.get(one.entry)
            if owned is not None and owned.level == raw["level"] and world.hosts_of(one):
                bound.append(one)
    return world, bound


def cells(reading: Reading) -> Iterator[Finding]:
    """Require one section where cells are owned, and bindings as their tenants own them.

    Cells are disjoint, those newly bound usable, and those in use stay bound while they are.
    """
    given, owners = policies.given(reading, KIND), _owners(reading.round)
    if len(given) != owners:
        yield Finding(
            ("sections",), f"{len(given)} sections {KIND!r}; expected {int(owners)} in this round"
        )
    found = read_bindings(reading)
    if found is None:
        return
    world, bound = found
    entries = reading.plan.sections[given[0]].get("bindings")
    known = {one.path[-1] for one in bound}
    for b, raw in enumerate(entries if isinstance(entries, list | tuple) else ()):
        if b not in known and _well_formed(raw):
            yield Finding(
                ("sections", given[0], "bindings", b),
                f"tenant {raw['tenant']!r} has no cell {raw['domain']!r} of level "
                f"{raw['level']!r}; expected tenant, index, level and domain of a cell",
            )
    before = world.before()
    old = {(one.entry, one.domain) for one in before}
    taken: dict[str, str] = {}
    number = Counter[Entry]()
    for one in bound:
        number[one.entry] += 1
        if number[one.entry] > world.owned[one.entry].count:
            yield Finding(
                one.path,
                f"is cell {number[one.entry]} of its kind; expected no more than the tenant's "
                f"{world.owned[one.entry].count}",
            )
        hosts = world.hosts_of(one) or frozenset()
        for host in sorted(hosts & taken.keys())[:1]:
            yield Finding(
                one.path, f"host {host!r} is in {taken[host]!r}, too; expected disjoint cells"
            )
        taken.update(dict.fromkeys(hosts, one.domain))
        bad = sorted(hosts & world.unusable)
        if bad and (one.entry, one.domain) not in old:
            yield Finding(
                one.path, f"host {bad[0]!r} cannot be claimed; expected a cell of usable hosts"
            )
    now = {(one.entry, one.domain) for one in bound}
    for one in before:
        if (one.entry, one.domain) not in now and _stays(world, one):
            yield Finding(
                ("sections", given[0]),
                f"{one.domain!r} is bound to tenant {one.entry[0]!r} before the round and in use "
                "after it; expected it to stay bound to the same cell",
            )


def _stays(world: CellFacts, one: BoundCell) -> bool:
    """Whether a guaranteed job of the tenant is in a cell after the round."""
    hosts = world.hosts_of(one) or frozenset()
    return any(
        placed.job.tenant == one.entry[0]
        and world.guaranteed(placed.job)
        and any(task.host.name in hosts for task in placed.tasks)
        for placed in (*world.reading.kept, *world.reading.placed_anew)
    )


def inside_cells(reading: Reading) -> Iterator[Finding]:
    """Require guaranteed jobs inside their tenant's cells, and each binding to name those in it.

    Those that run are kept: a guarantee is worth nothing if it ends with the round.
    """
    found = read_bindings(reading)
    if found is None:
        return
    world, bound = found
    moved = [(one.path, one.job) for one in reading.migrated]
    for path, job in moved + [(one.path, one.job) for one in reading.preempted]:
        if world.guaranteed(job):
            yield Finding(path, f"guaranteed job {job.name!r} is not kept; expected it to stay")
    cell_of = {host: b for b, one in enumerate(bound) for host in world.hosts_of(one) or ()}
    jobs: defaultdict[int, set[str]] = defaultdict(set)
    for placed in (*world.reading.kept, *world.reading.placed_anew):
        if not world.guaranteed(placed.job):
            continue
        for task in placed.tasks:
            b = cell_of.get(task.host.name)
            if b is None or bound[b].entry[0] != placed.job.tenant:
                yield Finding(
                    task.path,
                    f"host {task.host.name!r} is in no cell that is bound to tenant "
                    f"{placed.job.tenant!r}; expected guaranteed jobs inside their tenant's cells",
                )
            else:
                jobs[b].add(placed.job.name)
    for b, one in enumerate(bound):
        if sorted(one.jobs) != sorted(jobs[b]) or not one.jobs:
            yield Finding(
                (*one.path, "jobs"),
                f"names {value_text(sorted(one.jobs))}; expected the guaranteed jobs inside, "
                f"{value_text(sorted(jobs[b]))}, and no binding without any",
            )


def claims(reading: Reading) -> Iterator[Finding]:
    """Require that the remaining claims of all tenants fit the free cells, if they did before."""
    found = read_bindings(reading)
    if found is None or next(found[0].short(found[0].before()), None) is not None:
        return
    world, bound = found
    for chain, level, claimed, there in world.short(bound):
        yield Finding(
            ("sections",),
            f"cells of level {level!r} and above that tenants may still claim have {claimed} hosts "
            f"of model {chain[0]!r}; expected at most the {there} in cells that are free",
        )


def granted(reading: Reading) -> Iterator[Finding]:
    """Refuse that a guaranteed job waits if one more cell of its tenant would surely hold it.

    Under a disruption budget it may wait, since its cell would evict too much.
    """
    found, limits = read_bindings(reading), reading.round.policy.limits
    if found is None or (limits is not None and limits.disruption is not None):
        return
    world, bound = found
    left = world.left(bound)
    spare = {key: _least_cell(world, key, bound) for key in world.cells}
    pools = reading.round.cluster.pools
    for index, decision in enumerate(reading.plan.decisions):
        job = reading.jobs.get(decision.job)
        if decision.decision is not DecisionKind.WAIT or job is None or not world.guaranteed(job):
            continue
        if not _asks_only(job, _OF_JOB):
            continue
        tenant = world.tenants[job.tenant or ""]
        for c, owned in enumerate(tenant.cells) if not tenant.quota else ():
            entry = (tenant.name, c)
            cell = spare[world.chain_of[entry], owned.level]
            if (
                left[entry]
                and cell
                and any(
                    _surely_holds(cell, option) and not any(asked(pool, option) for pool in pools)
                    for option in job.options
                )
            ):
                yield Finding(
                    ("decisions", index),
                    f"job {job.name!r} waits although its tenant may claim {cell.domain!r}, which "
                    "holds it; expected it to start",
                )
                break


class _LeastCell(NamedTuple):
    """A lower bound on every free cell of a level: number of hosts, and hardware of each."""

    domain: str
    size: int
    model: str
    hardware: tuple[Hardware, ...]


def _least_cell(
    world: CellFacts, key: tuple[Chain, str], bound: list[BoundCell]
) -> _LeastCell | None:
    """Return the lower bound on the free cells of a level; None without free cells."""
    chain, level = key
    free = world.free(chain, level, bound)
    if not free:
        return None
    names = frozenset[str]().union(*free.values())
    kinds: list[Hardware] = []
    for host in world.hosts[chain]:
        if host.name in names and host.hardware not in kinds:
            kinds.append(host.hardware)
    return _LeastCell(min(free), min(map(len, free.values())), chain[0], tuple(kinds))


def _surely_holds(cell: _LeastCell, option: Option) -> bool:
    """Whether a cell surely holds an option: its groups on hosts of their own."""
    if not _asks_only(option, _OF_OPTION) or any(
        not _asks_only(g, _OF_GROUP) for g in option.groups
    ):
        return False
    needed = 0
    for group in option.groups:
        each = min(_tasks_per_host(has, group) for has in cell.hardware)
        if not each or (group.gpu_models and cell.model not in group.gpu_models):
            return False
        needed += -(-group.count // each)
    return needed <= cell.size


def _asks_only(document: Document, fields: Collection[str]) -> bool:
    """Whether nothing but these fields of a document is given."""
    return all(
        name in fields or getattr(document, name) == field.get_default(call_default_factory=True)
        for name, field in type(document).model_fields.items()
    )


def _tasks_per_host(has: Hardware, group: TaskGroup) -> int:
    """How many tasks of a group an empty host holds."""
    rooms = [has.capacity.get(name, 0) // amount for name, amount in demand(group) if amount]
    if group.gpu >= WHOLE_GPU:
        rooms.append(has.gpus * WHOLE_GPU // group.gpu)
    elif group.gpu:
        rooms.append(has.gpus * (WHOLE_GPU // group.gpu))
    return min(rooms, default=group.count)


RULES_OF_CELLS = rules(cells, inside_cells, claims, granted)


# The rule about reasons of guaranteed jobs: what their tenants' cells have left for them.
#
# Whether an option fits hosts is judged as for other jobs: by a first fit, and by counting places.


_REASONS = (Reason.NEVER_FITS, Reason.QUOTA, Reason.CAPACITY, Reason.NOT_CHOSEN)
_OTHERS = (Reason.HOSTS_AWAY, Reason.DISPLACED_BY_PRIORITY, Reason.DISRUPTION_LIMIT)


def cell_reason(reading: Reading) -> Iterator[Finding]:
    """Refuse a reason of a guaranteed job, or facts of it, that the cells of its tenant refute."""
    found = read_bindings(reading)
    if found is None:
        return
    judgement = _Judgement(reading, *found)
    for index, decision in enumerate(reading.plan.decisions):
        job, detail = reading.jobs.get(decision.job), decision.detail or Detail()
        if (
            job is None
            or decision.decision is not DecisionKind.WAIT
            or decision.reason not in (*_REASONS, *_OTHERS)
            or not found[0].guaranteed(job)
        ):
            continue
        if problem := judgement.refuted(job, decision.reason, detail):
            yield Finding(
                ("decisions", index, "reason"),
                f"reason {decision.reason.value!r} of guaranteed job {job.name!r}: {problem}",
            )


class _Judgement:
    """What refutes reasons of guaranteed jobs."""

    def __init__(self, reading: Reading, world: CellFacts, bound: list[BoundCell]) -> None:
        self._reading, self._world, self._bound = reading, world, bound
        self._tests, self._left = ReasonTests(reading), world.left(bound)

    def refuted(self, job: Job, reason: Reason, detail: Detail) -> str:
        """Say what refutes a reason, "" if nothing does."""
        number, tenant = detail.option or 0, job.tenant or ""
        if reason is Reason.DISRUPTION_LIMIT:
            nobody = "nothing runs that it could evict; expected another"
            return "" if self._anyone_to_evict() else nobody
        if reason not in _REASONS or number >= len(job.options):
            return f"option {number}; expected a reason of guaranteed jobs, of one of its options"
        options = range(len(job.options)) if detail.option is None else [number]
        problems = [self._of_option(job, o, reason, detail) for o in options]
        if all(problems):
            return f"{problems[0]}; expected another"
        unused = sum(self._left[entry] for entry in self._entries(tenant))
        if detail.cells is not None and (detail.cells, detail.tenant) != (unused, tenant):
            return (
                f"{detail.cells} cells of tenant {detail.tenant!r} are not in use; "
                f"expected {unused} of {tenant!r}"
            )
        return self._wrong_facts(job, number, reason, detail)

    def _of_option(self, job: Job, number: int, reason: Reason, detail: Detail) -> str:
        """Say why a reason is not that of an option, "" if it may be."""
        empty, tests = Reason.NEVER_FITS, self._tests
        if reason is empty:
            return "it fits the empty cluster" if tests.passes(empty, job, number) else ""
        if not detail.unproven and tests.fails(empty, job, number):
            return "it does not fit the empty cluster"
        beyond = tests.fails(Reason.QUOTA, job, number) or self._excess(job, number) > 0
        if reason is not Reason.QUOTA and beyond:
            return "it asks more than is left of the quota or the cells of its tenant"
        option, inside = job.options[number], self._inside(job.tenant or "")
        fits, lacks = self._fits(option, inside), self._lacks(option, inside)
        if reason is Reason.NOT_CHOSEN:
            return "it does not fit what is left of its tenant's cells" if lacks else ""
        short = any(asked > free for _, asked, free in self._claims(job.tenant or ""))
        if reason is Reason.CAPACITY and not short:
            return "its tenant may claim every cell that it does not use"
        if reason is Reason.QUOTA and beyond:
            return ""
        if reason is Reason.QUOTA and short:
            return "cells that its tenant may claim are not usable"
        return "it fits what is left of its tenant's cells" if fits and not detail.unproven else ""

    def _wrong_facts(self, job: Job, number: int, reason: Reason, detail: Detail) -> str:
        """Say which amounts are not true, "" if all are."""
        said = detail.asked, detail.used, detail.limit, detail.excess, detail.free
        if detail.cells is None or detail.resource is None:
            return ""
        tenant = job.tenant or ""
        if reason is Reason.CAPACITY:
            claims = [pair for level, *pair in self._claims(tenant) if level == detail.level]
            true = [pair for pair in claims if pair[0] > pair[1]]
            wrong = [detail.asked, detail.free] not in true or detail.resource != "gpu"
            return f"amounts {said} at level {detail.level!r}; expected one of {true}" * wrong
        asked, limit = asked_by(job.options[number])["gpu"], self._owned(tenant)
        excess = self._excess(job, number)
        expected = asked, excess + limit - asked, limit, excess, None
        wrong = said != expected or detail.resource != "gpu" or excess <= 0
        return f"amounts {said} of {detail.resource!r}; expected {expected} of 'gpu'" * wrong

    def _anyone_to_evict(self) -> bool:
        """Whether a job runs before the round that may be evicted."""
        jobs, running = self._reading.jobs, self._reading.running
        return any(
            not now.pinned and not self._world.guaranteed(jobs[name])
            for name, now in running.items()
        )

    def _entries(self, tenant: str) -> Iterable[Entry]:
        return (entry for entry in self._world.owned if entry[0] == tenant)

    def _size(self, entry: Entry) -> int:
        """Return the milli-GPU of a cell of an entry."""
        chain, level = self._world.chain_of[entry], self._world.owned[entry].level
        return self._gpus(next(iter(self._world.cells[chain, level].values())))

    def _gpus(self, hosts: Iterable[str]) -> int:
        facts = self._reading.cluster.hosts
        return WHOLE_GPU * sum(facts[host].hardware.gpus for host in hosts)

    def _owned(self, tenant: str) -> int:
        """Return the milli-GPU of all cells that a tenant owns."""
        owned = self._world.owned
        return sum(owned[entry].count * self._size(entry) for entry in self._entries(tenant))

    def _excess(self, job: Job, number: int) -> int:
        """Return the milli-GPU by which an option exceeds what its tenant's cells have left."""
        used = sum(
            placed.option.milli_gpu
            for placed in self._reading.placed
            if placed.job.tenant == job.tenant and self._world.guaranteed(placed.job)
        )
        return used + job.options[number].milli_gpu - self._owned(job.tenant or "")

    def _claims(self, tenant: str) -> Iterator[tuple[str, int, int]]:
        """Yield level, claimed and free milli-GPU, for each level of each chain of a tenant."""
        world, levels = self._world, self._reading.cluster.levels
        for entry in self._entries(tenant):
            chain, level = world.chain_of[entry], world.owned[entry].level
            claimed = sum(
                self._left[other] * self._size(other)
                for other in self._entries(tenant)
                if world.chain_of[other] == chain
                and levels[world.owned[other].level] <= levels[level]
            )
            free = world.free(chain, level, self._bound).values()
            yield level, claimed, sum(map(self._gpus, free))

    def _inside(self, tenant: str) -> Bools:
        """Return the hosts of cells that a tenant uses, and of free ones that it may claim."""
        hosts: set[str] = set()
        for one in self._bound:
            if one.entry[0] == tenant:
                hosts.update(self._world.hosts_of(one) or ())
        for entry in self._entries(tenant):
            if self._left[entry]:
                chain, level = self._world.chain_of[entry], self._world.owned[entry].level
                hosts.update(*self._world.free(chain, level, self._bound).values())
        return np.array([host in hosts for host in self._reading.cluster.hosts], dtype=np.bool_)

    def _fits(self, option: Option, inside: Bools) -> bool:
        """Whether an option surely fits some hosts beside guaranteed and pinned jobs."""
        return is_plain(option) and self._only_on(inside).fits(option)

    def _lacks(self, option: Option, inside: Bools) -> bool:
        """Whether some group of an option surely has too few places there."""
        return self._only_on(inside).lacks(option)

    def _only_on(self, inside: Bools) -> FreeHosts:
        state = self._beside_guaranteed.copy()
        state.open &= inside
        return state

    @cached_property
    def _beside_guaranteed(self) -> FreeHosts:
        """What guaranteed and pinned jobs leave where tasks may arrive."""
        state, running = FreeHosts(self._reading), self._reading.running
        state.close(self._reading)
        there = [
            placed
            for placed in self._reading.placed
            if self._world.guaranteed(placed.job)
            or (placed.job.name in running and running[placed.job.name].pinned)
        ]
        state.take((task.task, task.group) for one in there for task in one.tasks)
        state.pools.beside(Pools(self._reading).taken_by_all(there))
        return state


RULES_OF_REASONS_OF_CELLS = rules(cell_reason)
