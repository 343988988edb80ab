"""Facts about the cells of a round, for the rules about them.

Cells are sets of hosts here: whatever hosts of the GPU model lie in a domain. Sizes are counted in
hosts, so that no tree is needed: the claims for cells of a level and above fit what is free if
they have no more hosts than lie in domains of that level that are free as a whole.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from placewright.instances.derived.ranges import expand
from placewright.instances.documents.cells import OwnedCells
from placewright.instances.documents.job import Job
from placewright.instances.errors import Path
from placewright.instances.verify.cluster_facts import HostFacts
from placewright.instances.verify.reading import Reading

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
    reserved = {h for r in reading.round.reservations for h in expand(r.host)}
    owners = {tenant.name for tenant in reading.round.tenants if tenant.cells}
    pinned = {
        task.host
        for name, running in reading.running.items()
        if running.pinned
        and (reading.jobs[name].opportunistic or reading.jobs[name].tenant not in owners)
        for task in running.tasks
    }
    return frozenset(failed | reserved | pinned | reading.vacated)
