"""Every plan of a tiny round of policy `geo`, by brute force, from the Round document alone.

Running jobs are kept, preempted or migrated within their region, then pending jobs start in some
region or wait, one after the other. Tasks ask whole GPUs and nothing else, of one group: only how
many GPUs a host has left matters.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations_with_replacement
from typing import NamedTuple

from placewright.instances.derived.ranges import expand
from placewright.instances.documents.job import Job
from placewright.instances.documents.round import Round

Vector = tuple[int, ...]
WHOLE = 1000


class Host(NamedTuple):
    """What no plan changes of a host."""

    name: str
    region: str
    model: str
    gpus: int
    healthy: bool


class Fate(NamedTuple):
    """Where a job's tasks are after the round (hosts by index), and what that counts.

    `come` are the hosts to which tasks come.
    """

    after: tuple[int, ...] | None
    come: frozenset[int] = frozenset()
    preempted: bool = False
    started: bool = False


def vectors(round_: Round) -> set[Vector]:
    """Return (value, remote_reads, egress_cost, gpu_cost) of every plan.

    Under strict priority `value` is one number per priority of jobs that may start or stop, highest
    first, if pending jobs have several.
    """
    return Enumeration(round_).all()


def reach(round_: Round) -> dict[tuple[str, str], int | None]:
    """Return by dataset and region what the cheapest source costs per GiB; None: nobody has it.

    What lies in the region costs nothing.
    """
    geo = round_.geo
    links = {(k.source, k.target): k for k in geo.links if k.bandwidth}
    names = [d.name for d in round_.cluster.domains if d.level == geo.level]
    costs: dict[tuple[str, str], int | None] = {}
    for dataset in geo.datasets:
        holds = set(dataset.replicas)
        holds.update(
            c.region for c in geo.copying if c.dataset == dataset.name and c.ready <= round_.now
        )
        lawful = set(dataset.regions or names)
        for region in names:
            ways = [links[h, region].egress for h in holds & lawful if (h, region) in links]
            cost = min(ways, default=None) if region in lawful else None
            costs[dataset.name, region] = 0 if region in holds else cost
    return costs


def holding(round_: Round) -> dict[str, set[str]]:
    """Return the regions that hold each dataset now."""
    held = {d.name: set(d.replicas) for d in round_.geo.datasets}
    for copy in round_.geo.copying:
        if copy.ready <= round_.now:
            held[copy.dataset].add(copy.region)
    return held


class Enumeration:
    """The plans of one round."""

    def __init__(self, round_: Round) -> None:
        self.round = round_
        self.hosts = [
            Host(name, h.parent or "", h.gpu_model or "", h.gpus or 0, h.healthy)
            for h in round_.cluster.hosts
            for name in expand(h.name)
        ]
        index = {h.name: i for i, h in enumerate(self.hosts)}
        self.costs, self.held = reach(round_), holding(round_)
        self.residency = {d.name: d.regions for d in round_.geo.datasets}
        self.before: dict[str, tuple[int, ...]] = {
            j.name: tuple(sorted(index[t.host] for t in j.running.tasks))
            for j in round_.jobs
            if j.running is not None
        }
        self.prices = {r.name: r.prices for r in round_.geo.regions}
        self.found: set[Vector] = set()
        pending = {j.priority for j in round_.jobs if j.running is None}
        running = {j.priority for j in round_.jobs if j.running and not j.running.pinned}
        by_class = round_.policy.priority == "strict" and len(pending | running) > 1
        self.classes = sorted(pending | running, reverse=True) if by_class else None

    def all(self) -> set[Vector]:
        """Enumerate, running jobs first."""
        running = [j for j in self.round.jobs if j.running is not None]
        pending = [j for j in self.round.jobs if j.running is None]
        room = [h.gpus for h in self.hosts]
        for job in running:
            for host in self.before[job.name]:
                room[host] -= self.gpus(job)
        self.choose([*running, *pending], room, {})
        return self.found

    def gpus(self, job: Job) -> int:
        """GPUs of one task."""
        return job.options[0].groups[0].gpu // WHOLE

    def choose(self, jobs: list[Job], room: list[int], fates: dict[str, Fate]) -> None:
        """Give the first job every fate; hosts may be short of GPUs until all have one."""
        if not jobs:
            if min(room) >= 0 and self.lawful(fates):
                self.found.add(self.count(fates))
            return
        job, *others = jobs
        for fate in self.fates(job):
            left = list(room)
            for host in self.before.get(job.name, ()):
                left[host] += self.gpus(job)
            for host in fate.after or ():
                left[host] -= self.gpus(job)
            if job.running is None and min(left) < 0:
                continue  # whoever comes later frees nothing
            self.choose(others, left, {**fates, job.name: fate})

    def fates(self, job: Job) -> Iterator[Fate]:
        """Yield all that may happen to a job, room aside."""
        before = self.before.get(job.name)
        yield Fate(before)
        if before is not None and job.running is not None and not job.running.pinned:
            yield Fate(None, preempted=True)
            for after in self.places(job, {self.hosts[before[0]].region}):
                come = frozenset(h for h in after if after.count(h) > before.count(h))
                if come:
                    yield Fate(after, come)
        if before is None:
            for after in self.places(job, self.regions(job)):
                yield Fate(after, frozenset(after), started=True)

    def regions(self, job: Job) -> set[str]:
        """Return where the job may start, with all its data now."""
        names = {h.region for h in self.hosts}
        if job.regions is not None:
            names &= set(job.regions)
        for read in job.reads:
            lawful = self.residency[read.dataset]
            names = {
                r
                for r in names
                if (lawful is None or r in lawful)
                and (
                    r in self.held[read.dataset]
                    or (read.remote and self.costs[read.dataset, r] is not None)
                )
            }
        return names

    def places(self, job: Job, regions: set[str]) -> Iterator[tuple[int, ...]]:
        """Yield the hosts of the job's tasks, all of one region, healthy and of its models."""
        group = job.options[0].groups[0]
        able = [
            i
            for i, h in enumerate(self.hosts)
            if h.healthy and (group.gpu_models is None or h.model in group.gpu_models)
        ]
        for after in combinations_with_replacement(able, group.count):
            where = {self.hosts[h].region for h in after}
            if len(where) == 1 and where <= regions:
                yield after

    def lawful(self, fates: dict[str, Fate]) -> bool:
        """Whether quotas are kept, no victim could stay, and only higher jobs profit from one."""
        jobs = {j.name: j for j in self.round.jobs}
        if any(self.exceeds(fates, t, r, starting=True) for t, r in self.quotas()):
            return False
        stopped = [name for name, fate in fates.items() if fate.preempted]
        for name in stopped:
            if not self.breaks(fates, {name}, set(), {name}):
                return False
            mine = jobs[name].priority
            back = {other for other in stopped if jobs[other].priority >= mine}
            higher = {n for n, fate in fates.items() if fate.come and jobs[n].priority > mine}
            gone = {other for other in higher if fates[other].started}
            while more := {
                other
                for other in higher - gone - back
                if any(fates[other].come & set(self.before[one]) for one in back)
            }:
                back |= more
            owners = {other for other in stopped if jobs[other].priority == mine}
            if self.breaks(fates, back, gone, owners):
                return False
        return True

    def breaks(
        self, fates: dict[str, Fate], back: set[str], gone: set[str], owners: set[str]
    ) -> bool:
        """Whether GPUs or an owner's quota are too few with jobs back and others not started."""
        changed = {
            name: Fate(self.before[name]) if name in back else Fate(None) if name in gone else fate
            for name, fate in fates.items()
        }
        left = [h.gpus for h in self.hosts]
        for job in self.round.jobs:
            for host in changed[job.name].after or ():
                left[host] -= self.gpus(job)
        tenants = {job.tenant for job in self.round.jobs if job.name in owners}
        return min(left) < 0 or any(
            self.exceeds(changed, tenant, region, starting=False)
            for tenant, region in self.quotas()
            if tenant in tenants
            and (region is None or any(self.inside(self.before[o], region) for o in owners))
        )

    def quotas(self) -> dict[tuple[str, str | None], int]:
        """Return the limits by tenant and region; None is the whole round."""
        limits: dict[tuple[str, str | None], int] = {
            (t.name, None): t.quota["gpu"] for t in self.round.tenants if "gpu" in t.quota
        }
        for region in self.round.geo.regions:
            limits |= {(tenant, region.name): most for tenant, most in region.quotas.items()}
        return limits

    def exceeds(
        self, fates: dict[str, Fate], tenant: str, region: str | None, *, starting: bool
    ) -> bool:
        """Whether a tenant holds more than its limit and than before; `starting`: a job starts."""
        was = now = 0
        starts = not starting
        for job in self.round.jobs:
            if job.tenant != tenant:
                continue
            fate, asks = fates[job.name], job.options[0].milli_gpu
            was += asks * self.inside(self.before.get(job.name), region)
            now += asks * self.inside(fate.after, region)
            starts |= fate.started and self.inside(fate.after, region)
        return starts and now > max(self.quotas()[tenant, region], was)

    def inside(self, hosts: tuple[int, ...] | None, region: str | None) -> bool:
        """Whether a job on these hosts is in the region; None is every region."""
        return hosts is not None and region in (None, self.hosts[hosts[0]].region)

    def count(self, fates: dict[str, Fate]) -> Vector:
        """Return the terms."""
        remote = egress = price = 0
        values = dict.fromkeys([0] if self.classes is None else self.classes, 0)
        for job in self.round.jobs:
            fate, mine = fates[job.name], 0 if self.classes is None else job.priority
            if fate.started:
                values[mine] += job.value_of(0)
            if fate.preempted:
                values[mine] -= job.value_of(0)
            if fate.after is None:
                continue
            region = self.hosts[fate.after[0]].region
            for read in job.reads:
                if region not in self.held[read.dataset]:
                    remote += read.gib
                    # Who runs already goes on without what it could not read from elsewhere.
                    cost = self.costs[read.dataset, region] if read.remote else None
                    egress += read.gib * (cost or 0)
            prices = self.prices.get(region, {})
            price += sum(self.gpus(job) * prices.get(self.hosts[h].model, 0) for h in fate.after)
        return (*values.values(), remote, egress, price)
