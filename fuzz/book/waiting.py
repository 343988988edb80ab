"""Who waits in which order, when jobs are expected to end, and when maintenance takes hosts.

By docs/formulations/backfill.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from typing import NamedTuple

from fuzz.book.arrangement import arrangement
from fuzz.book.choices import START, Choice
from fuzz.book.facts import WHOLE, Facts, Group, Job, Place, named
from fuzz.book.pools import Domain, Pools, Taken
from fuzz.book.standing import Standing
from fuzz.policy import Raw

NEVER = float("inf")


class Reserved(NamedTuple):
    """A reservation: a job with an option, from when to when, and how many tasks of which group.

    `tasks` are (group, host, number). `kept`: it had one in the last round.
    """

    job: int
    option: int
    at: int
    end: float
    tasks: tuple[tuple[int, int, int], ...]
    kept: bool = False


class Waiting:
    """The queue of a round, ends of its jobs, and maintenance.

    `queue` are the pending jobs that may start, by number, in order. `ends` are the expected ends
    of all jobs, of a pending one if it starts now. `ranks` are precedences: whether a job is
    entitled with some option, and its priority.
    """

    def __init__(self, facts: Facts) -> None:
        self.facts, self.now = facts, facts.raw.get("now", 0)
        raws: list[Raw] = facts.raw["jobs"]
        self.runtimes = [raw.get("expected_runtime_s") for raw in raws]
        self.ends = [self._end(raw) for raw in raws]
        pending = [job for job in facts.jobs if job.running is None and not job.ineligible]
        submitted = [raw.get("submitted", self.now) for raw in raws]
        standing = Standing(facts)
        self.ranks = [
            (any(standing.entitled(job, o) for o in range(len(job.options))), job.priority)
            for job in facts.jobs
        ]
        backfill = facts.policy.get("backfill")
        self.listed = (backfill or {}).get("order") == "listed"
        if not self.listed:
            pending.sort(key=lambda job: (self._turn(job), submitted[job.number], job.number))
        self.queue = [job.number for job in pending]
        self.depth = 0
        if backfill is not None:
            depth = backfill.get("depth", 1)
            self.depth = len(facts.jobs) if depth == "all" else depth
        self.windows = [
            (facts.numbers[name], entry.get("start", 0), entry.get("end", NEVER))
            for entry in facts.raw.get("maintenance", ())
            for name in named(entry["host"])
        ]
        self.free_to_stop = any(job.running and not job.running.pinned for job in facts.jobs)

    def _turn(self, job: Job) -> tuple[bool, int]:
        entitled, priority = self.ranks[job.number]
        return not entitled, -priority

    def _end(self, raw: Raw) -> float:
        runtime, running = raw.get("expected_runtime_s"), raw.get("running")
        if runtime is None:
            return NEVER
        if running is None:
            return float(self.now + runtime)
        if running.get("started") is None:
            return NEVER
        late = self.now - (running["started"] + runtime)
        return float(self.now + max(late, 1) if late >= 0 else self.now - late)

    def end_from(self, job: int, at: int) -> float:
        """Return when a job ends that starts at a time."""
        runtime = self.runtimes[job]
        return NEVER if runtime is None else at + runtime

    def away(self, host: int, start: float, end: float) -> bool:
        """Whether maintenance takes a host at some time from `start` to `end`."""
        return any(h == host and a < end and b > start for h, a, b in self.windows)


class Held(NamedTuple):
    """A job that holds its places until an end."""

    job: Job
    choice: Choice
    end: float


def gpus_reserved(group: Group, tasks: int) -> int:
    """Return the whole GPUs that tasks of a group are reserved on a host."""
    if group.profile is not None:
        return tasks
    if not group.gpu:
        return 0
    return tasks * group.number if group.gpu >= WHOLE else -(-tasks // (WHOLE // group.gpu))


class Timeline:
    """What hosts have left at a time beside jobs that hold places and reservations."""

    def __init__(
        self, waiting: Waiting, held: Sequence[Held], reserved: Sequence[Reserved]
    ) -> None:
        self.waiting, self.facts, self.pools = waiting, waiting.facts, Pools(waiting.facts)
        self.held, self.reserved = list(held), list(reserved)

    def left(self, time: float) -> list[dict[str, int]]:
        """Return what each host has left at a time, `gpu` in whole GPUs."""
        used = [set(host.reserved_gpus) for host in self.facts.hosts]
        left = [dict(host.has) for host in self.facts.hosts]
        for job, choice, end in self.held:
            for group, _, host, gpus, _ in choice.places if end > time else ():
                used[host].update(gpus)
                for name, amount in job.options[choice.option].groups[group].wants:
                    left[host][name] = left[host].get(name, 0) - amount
        for entry in self.facts.hosts:
            left[entry.number]["gpu"] = entry.gpus - len(used[entry.number])
        for r in self.reserved:
            groups = self.facts.jobs[r.job].options[r.option].groups
            for group, number, tasks in r.tasks if r.at <= time < r.end else ():
                left[number]["gpu"] -= gpus_reserved(groups[group], tasks)
                for name, amount in groups[group].wants:
                    left[number][name] = left[number].get(name, 0) - tasks * amount
        return left

    def within_pools(self, mine: Collection[Domain], time: float) -> bool:
        """Whether some domains of pools have enough for all that hold something at a time."""
        held: Taken = Counter()
        for one in self.held if mine else ():
            if one.end > time:
                held.update(self.pools.taken_by(one.job, one.choice))
        for r in self.reserved if mine else ():
            if r.at <= time < r.end:
                held.update(reserved_of_pools(self.pools, r))
        return all(held[where] <= self.pools.capacity(where) for where in mine)

    def times(self) -> list[int]:
        """Return the times, from now on, at which something ends."""
        now = self.waiting.now
        ends = {one.end for one in self.held} | {r.end for r in self.reserved}
        ends |= {end for _, _, end in self.waiting.windows}
        return [now, *sorted(int(end) for end in ends if now < end < NEVER)]

    def breaks(self, at: float, end: float) -> list[float]:
        """Return the times from `at` to `end` at which hosts may have less left than before."""
        return [at, *sorted({r.at for r in self.reserved if at < r.at < end})]

    def within_quota(self, job: Job, option: int, at: float, end: float) -> bool:
        """Whether a job stays within its quotas and caps from `at` to `end`."""
        for account in job.accounts:
            for name, most in self.facts.limits.get(account, {}).items():
                for time in self.breaks(at, end):
                    uses = job.options[option].counts.get(name, 0)
                    for one in self.held:
                        if account in one.job.accounts and one.end > time:
                            uses += one.job.options[one.choice.option].counts.get(name, 0)
                    for r in self.reserved:
                        other = self.facts.jobs[r.job]
                        if account in other.accounts and r.at <= time < r.end:
                            uses += other.options[r.option].counts.get(name, 0)
                    if uses > most:
                        return False
        return True

    def ways(self, job: Job, option: int, at: int) -> list[tuple[int, ...]]:
        """Return all ways to put an option's tasks on hosts from a time on: a host for each."""
        end = self.waiting.end_from(job.number, at)
        if not self.within_quota(job, option, at, end):
            return []
        tables = [self.left(time) for time in self.breaks(at, end)]
        left = [
            {name: min(table[h].get(name, 0) for table in tables) for name in tables[0][h]}
            for h in range(len(self.facts.hosts))
        ]
        tasks = list(job.options[option].tasks())
        found: list[tuple[int, ...]] = []
        self._put(job, option, (at, end), tasks, (), left, found)
        return found

    def _put(
        self,
        job: Job,
        option: int,
        window: tuple[int, float],
        tasks: Sequence[tuple[int, int]],
        before: tuple[int, ...],
        left: list[dict[str, int]],
        found: list[tuple[int, ...]],
    ) -> None:
        if len(before) == len(tasks):
            places = tuple((g, i, h, (), None) for (g, i), h in zip(tasks, before, strict=True))
            if not arrangement(self.facts, job, option, places) and self._pools_hold(
                job, option, window, places
            ):
                found.append(before)
            return
        g, index = tasks[len(before)]
        group = job.options[option].groups[g]
        asked = {**dict(group.wants), "gpu": group.number}
        first = before[-1] if index and not group.ordered else 0
        for host in self.facts.hosts[first:]:
            mine = left[host.number]
            if not may_come(self.waiting, group, host.number, *window):
                continue
            if any(mine.get(name, 0) < amount for name, amount in asked.items()):
                continue
            for name, amount in asked.items():
                mine[name] = mine.get(name, 0) - amount
            self._put(job, option, window, tasks, (*before, host.number), left, found)
            for name, amount in asked.items():
                mine[name] += amount

    def _pools_hold(
        self, job: Job, option: int, window: tuple[int, float], places: tuple[Place, ...]
    ) -> bool:
        """Whether pools have enough for a job in some places all the time."""
        mine = self.pools.taken(job, option, places)
        beside = Held(job, Choice(START, option, places), window[1])
        with_it = Timeline(self.waiting, [*self.held, beside], self.reserved)
        return all(with_it.within_pools(mine, time) for time in self.breaks(*window))


def reserved_of_pools(pools: Pools, reserved: Reserved) -> Taken:
    """Return what a reservation takes of pools."""
    places = [
        (group, 0, host, (), None) for group, host, number in reserved.tasks for _ in range(number)
    ]
    return pools.taken(pools.facts.jobs[reserved.job], reserved.option, places)


def may_come(waiting: Waiting, group: Group, host: int, at: float, end: float) -> bool:
    """Whether a task of a group that runs from `at` to `end` may come to a host."""
    entry = waiting.facts.hosts[host]
    return (
        entry.open
        and not waiting.away(host, at, end)
        and (group.models is None or entry.model in group.models)
        and (group.hosts is None or host in group.hosts)
    )


def is_plain(job: Job) -> bool:
    """Whether a job has one option of one group of whole GPUs, whose tasks lie as they like."""
    groups = job.options[0].groups
    group = groups[0]
    return (
        len(job.options) == len(groups) == 1
        and group.gpu >= WHOLE
        and group.slices is None
        and group.apart is None
        and group.on_hosts is None
        and job.options[0].on_hosts is None
        and group.profile is None
        and not group.gpu_memory
        and job.label is None
    )
