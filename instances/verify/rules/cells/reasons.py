"""The rule about reasons of guaranteed jobs: what their tenants' cells have left for them.

Whether an option fits hosts is judged as for other jobs: by a first fit, and by counting places.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from placewright.array_types import Bools
from placewright.instances.documents.job import Job
from placewright.instances.documents.option import Option
from placewright.instances.documents.plan import DecisionKind, Detail, Reason
from placewright.instances.verify.reading import Reading
from placewright.instances.verify.result import Finding, Rule
from placewright.instances.verify.rules.cells.cells import read_bindings
from placewright.instances.verify.rules.cells.facts import BoundCell, CellFacts, Entry
from placewright.instances.verify.rules.gang.accounts import asked_by
from placewright.instances.verify.rules.gang.free_hosts import FreeHosts, is_plain
from placewright.instances.verify.rules.gang.pools import Pools
from placewright.instances.verify.rules.gang.reason_tests import ReasonTests
from placewright.topology.units import WHOLE_GPU

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
        self._beside: FreeHosts | None = None

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

    @property
    def _beside_guaranteed(self) -> FreeHosts:
        """What guaranteed and pinned jobs leave where tasks may arrive."""
        if self._beside is None:
            self._beside = FreeHosts(self._reading)
            self._beside.close(self._reading)
            running = self._reading.running
            there = [
                placed
                for placed in self._reading.placed
                if self._world.guaranteed(placed.job)
                or (placed.job.name in running and running[placed.job.name].pinned)
            ]
            self._beside.take((task.task, task.group) for one in there for task in one.tasks)
            self._beside.pools.beside(Pools(self._reading).taken_by_all(there))
        return self._beside


RULES_OF_REASONS_OF_CELLS: tuple[Rule[Reading], ...] = (Rule("cell_reason", cell_reason),)
