"""Rules about cells: guaranteed jobs run in cells of their tenants, other cells stay whole."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping
from typing import Any, NamedTuple

from placewright.instances.derived.hardware import Hardware
from placewright.instances.documents.base import Document
from placewright.instances.documents.option import Option, TaskGroup
from placewright.instances.documents.plan import DecisionKind
from placewright.instances.documents.round import Round
from placewright.instances.errors import Path, value_text
from placewright.instances.verify.reading import Reading, demand
from placewright.instances.verify.result import Finding, Rule
from placewright.instances.verify.rules.cells.facts import BoundCell, CellFacts, Chain, Entry
from placewright.instances.verify.rules.gang.pools_left import asked
from placewright.topology.units import WHOLE_GPU

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


def _sections(reading: Reading) -> list[int]:
    return [i for i, entry in enumerate(reading.plan.sections) if entry.get("kind") == KIND]


def read_bindings(reading: Reading) -> tuple[CellFacts, list[BoundCell]] | None:
    """Return the bindings of the first section `cells` whose names the round has."""
    given = _sections(reading)
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
    given, owners = _sections(reading), _owners(reading.round)
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


RULES_OF_CELLS: tuple[Rule[Reading], ...] = (
    Rule("cells", cells),
    Rule("inside_cells", inside_cells),
    Rule("claims", claims),
    Rule("granted", granted),
)
