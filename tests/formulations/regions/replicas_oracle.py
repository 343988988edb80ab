"""Every plan of a tiny round of policy `replicas`, by brute force, from the Round document alone.

Final replicas are enumerated, then homes. Whether the copies can be carried is tried by order: one
copy after the other, each split over all paths, drops between them. That loses nothing where links
are so fast that the window is no limit, as it must be in these rounds: copies at the same time
need no less room than the same copies one after the other in the order of their ends. What is under
way can be copied on in time, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, combinations, pairwise, permutations, product
from typing import NamedTuple, TypeAlias

from placewright.instances.derived.ranges import expand
from placewright.instances.documents.round import Round

Vector = tuple[int, ...]
Replica: TypeAlias = tuple[str, str]
"""Dataset and region."""

Layout: TypeAlias = frozenset[Replica]
Budget: TypeAlias = tuple[tuple[Replica, int], ...]
"""GiB left of each link, by source and target."""


class Layouts(NamedTuple):
    """The term values of all plans, by what is replicated in the end."""

    vectors: dict[Layout, set[Vector]]

    def all(self) -> set[Vector]:
        """Return the values of all plans."""
        return set().union(*self.vectors.values())


def vectors(round_: Round) -> set[Vector]:
    """Return (overload, remote_reads, copies, imbalance, hottest) of every plan."""
    return Enumeration(round_).layouts().all()


def subsets(items: list[str]) -> Iterator[frozenset[str]]:
    """Yield all subsets."""
    sizes = range(len(items) + 1)
    yield from map(frozenset, chain.from_iterable(combinations(items, n) for n in sizes))


class Enumeration:
    """The plans of one round."""

    def __init__(self, round_: Round) -> None:
        self.round, geo = round_, round_.geo
        self.regions = [d.name for d in round_.cluster.domains if d.level == geo.level]
        self.links = {(k.source, k.target): k for k in geo.links if k.bandwidth}
        self.size = {d.name: d.size for d in geo.datasets}
        self.lawful = {d.name: set(d.regions or self.regions) for d in geo.datasets}
        self.arriving = frozenset(
            (c.dataset, c.region) for c in geo.copying if c.ready > round_.now
        )
        done = {(c.dataset, c.region) for c in geo.copying if c.ready <= round_.now}
        self.held = frozenset({(d.name, r) for d in geo.datasets for r in d.replicas} | done)
        self.storage = {r.name: r.storage for r in geo.regions if r.storage is not None}
        self.used = self.use(self.held | self.arriving)
        self.supply: dict[tuple[str, str], int] = {}
        for host in round_.cluster.hosts:
            if host.healthy and host.gpus:
                key = host.parent or "", host.gpu_model or ""
                more = 1000 * host.gpus * len(expand(host.name))
                self.supply[key] = self.supply.get(key, 0) + more
        self.carried: dict[tuple[str, str, frozenset[str], Budget], set[Budget]] = {}

    def layouts(self) -> Layouts:
        """Return the values of every plan."""
        names = list(self.size)
        found: dict[Layout, set[Vector]] = {}
        for chosen in product(*(self.final(name) for name in names)):
            layout = frozenset(
                (d, r) for d, where in zip(names, chosen, strict=True) for r in where
            )
            if self.possible(layout):
                found[layout] = set(self.values(layout))
        return Layouts(found)

    def final(self, dataset: str) -> list[frozenset[str]]:
        """Return where the dataset may be in the end."""
        mine = {r for d, r in self.held | self.arriving if d == dataset}
        if not mine:
            return [frozenset()]
        stays = frozenset(r for d, r in self.arriving if d == dataset)
        may = [r for r in self.regions if r in (mine | self.lawful[dataset]) - stays]
        return [stays | some for some in subsets(may) if stays | some]

    def possible(self, layout: Layout) -> bool:
        """Whether some order of copies and drops leads there."""
        before = self.held | self.arriving
        creates, drops = layout - before, before - layout
        budget = tuple((key, self.round.geo.budget(link)) for key, link in self.links.items())
        states = {(frozenset(self.held), frozenset(creates), frozenset(drops), budget)}
        while states:
            after = set()
            for held, todo, gone, left in states:
                if not todo:
                    return True
                for drop in gone:
                    if len({r for d, r in held | self.arriving if d == drop[0]}) > 1:
                        after.add((held - {drop}, todo, gone - {drop}, left))
                for create in todo:
                    if not self.fits(held | {create}):
                        continue
                    sources = frozenset(r for d, r in held | self.arriving if d == create[0])
                    for rest in self.carry(*create, sources, left):
                        after.add((held | {create}, todo - {create}, gone, rest))
            states = after
        return False

    def fits(self, held: frozenset[Replica]) -> bool:
        """Whether no region without room has more than before, arriving copies included."""
        used = self.use(held | self.arriving)
        return all(used[r] <= max(limit, self.used[r]) for r, limit in self.storage.items())

    def use(self, replicas: frozenset[Replica]) -> dict[str, int]:
        """Return the GiB in each region with a limit."""
        return {r: sum(self.size[d] for d, where in replicas if where == r) for r in self.storage}

    def carry(
        self, dataset: str, target: str, sources: frozenset[str], budget: Budget
    ) -> set[Budget]:
        """Return what budgets may be left after a copy, over all splits over all paths."""
        key = dataset, target, sources, budget
        if key not in self.carried:
            paths = list(self.paths(dataset, target, sources))
            ends: set[Budget] = set()
            for parts in splits(self.size[dataset], len(paths)):
                left = dict(budget)
                for path, gib in zip(paths, parts, strict=True):
                    for link in path:
                        left[link] -= gib
                if min(left.values(), default=0) >= 0:
                    ends.add(tuple(left.items()))
            self.carried[key] = ends
        return self.carried[key]

    def paths(
        self, dataset: str, target: str, sources: frozenset[str]
    ) -> Iterator[list[tuple[str, str]]]:
        """Yield the simple paths from a source, all within the dataset's residency."""
        lawful = self.lawful[dataset]
        for number in range(len(self.regions)):
            for stops in permutations(self.regions, number):
                for source in sources:
                    path = [source, *stops, target]
                    steps = list(pairwise(path))
                    if (
                        len(set(path)) == len(path)
                        and lawful.issuperset(path)
                        and all(step in self.links for step in steps)
                    ):
                        yield steps

    def values(self, layout: Layout) -> Iterator[Vector]:
        """Yield the terms for all homes."""
        used = self.use(layout)
        total, limits = sum(used.values()), sum(self.storage.values())
        imbalance = sum(
            max(0, used[r] - (total * limit // limits if limits else 0))
            for r, limit in self.storage.items()
        )
        copies = sum(self.size[d] for d, _ in layout - self.held - self.arriving)
        states: set[tuple[tuple[tuple[tuple[str, str], int], ...], int, int]] = {((), 0, 0)}
        for job in self.round.jobs:
            asks = job.options[0].milli_gpu
            reads = sum(read.gib for read in job.reads)
            homes = self.homes(layout, job.name)
            after = set()
            for demand, homeless, remote in states:
                if not homes:
                    after.add((demand, homeless + 3 * asks, remote + reads))
                for place, gib in homes.items():
                    more = dict(demand)
                    more[place] = more.get(place, 0) + asks
                    after.add((tuple(sorted(more.items())), homeless, remote + gib))
            states = after
        for demand, homeless, remote in states:
            overload, hottest = homeless, 0
            by_region = dict.fromkeys(self.regions, 0)
            for (region, model), asked in demand:
                has = self.supply[region, model]
                overload += max(0, asked - has) + -(-max(0, 5 * asked - 6 * has) // 5)
                by_region[region] += asked
            for region, asked in by_region.items():
                has = sum(s for (r, _), s in self.supply.items() if r == region)
                hottest = max(hottest, -(-1000 * asked // (has or 1000)))
            yield overload, remote, copies, imbalance, hottest

    def homes(self, layout: Layout, name: str) -> dict[tuple[str, str], int]:
        """Return the regions and models where a job may be at home, and its remote GiB there."""
        (job,) = [job for job in self.round.jobs if job.name == name]
        models = {model for _, model in self.supply}
        for group in job.options[0].groups:
            models &= set(group.gpu_models or models)
        homes = {}
        for region in self.regions:
            if job.regions is not None and region not in job.regions:
                continue
            gib = 0
            for read in job.reads:
                lawful = self.lawful[read.dataset]
                if region not in lawful:
                    break
                if (read.dataset, region) in layout:
                    continue
                holders = {r for d, r in layout if d == read.dataset} & lawful
                if not read.remote or not any((h, region) in self.links for h in holders):
                    break
                gib += read.gib
            else:
                homes.update({(region, m): gib for m in models if (region, m) in self.supply})
        return homes


def splits(gib: int, parts: int) -> Iterator[tuple[int, ...]]:
    """Yield all ways to split whole GiB."""
    if parts == 1:
        yield (gib,)
    elif parts:
        for first in range(gib + 1):
            for rest in splits(gib - first, parts - 1):
                yield (first, *rest)
