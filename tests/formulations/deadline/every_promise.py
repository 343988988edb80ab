"""Every promise that a job of a tiny round can be given, and all choices of them that fit.

Written down as docs/file-formats.md and docs/formulations/deadline.md have it, without a look at
the formulation, for rounds whose jobs have one task group of whole GPUs per option.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from itertools import combinations
from operator import add, ge
from typing import Any, NamedTuple

Raw = dict[str, Any]
Values = dict[tuple[int, ...], tuple["Given | None", ...]]
"""By (broken, *admitted) the promises of some jobs."""


class Do(NamedTuple):
    """What becomes of a job now: option and host of each task; None: it does not run."""

    option: int
    hosts: tuple[str, ...]


class Given(NamedTuple):
    """A promise: option, due time, leases."""

    option: int
    at: int
    value: int
    leases: tuple[int, ...]


class Promises:
    """The promises of a round, given as the raw document."""

    def __init__(self, raw: Raw) -> None:
        self.raw, self.jobs = raw, raw["jobs"]
        self.now = raw.get("now", 0)
        self.length, self.horizon = raw["leases"]["length_s"], raw["leases"]["horizon"]
        self.hosts = {host["name"]: host for host in raw["cluster"]["hosts"]}
        self.healthy = {name for name, host in self.hosts.items() if host.get("healthy", True)}
        self.reserved = {one["host"] for one in raw.get("reservations", ())}
        self.quota = {t["name"]: t["quota"]["gpu"] for t in raw.get("tenants", ())}
        self.gone = [self._away(lease) for lease in range(self.horizon)]
        self.before = [self._before(job) for job in self.jobs]
        self._given: dict[tuple[int, Do | None], list[Given]] = {}
        asking = [
            job
            for job in self.jobs
            if "promise" in job.get("deadline", {}) or job.get("deadline", {}).get("due")
        ]
        self.levels = self.levels_of(asking)

    def levels_of(self, jobs: list[Raw]) -> list[int]:
        """The priorities by which a term is decided that counts these jobs; [] if it is one."""
        if self.raw["policy"].get("priority") == "preemption":
            return []
        every = {job.get("priority", 0) for job in jobs}
        return sorted(every, reverse=True) if len(every) > 1 else []

    @staticmethod
    def by_level(levels: list[int], job: Raw, value: int) -> tuple[int, ...]:
        """An amount of a job, in the place of its priority."""
        priority = job.get("priority", 0)
        return tuple(value * (level == priority) for level in levels) if levels else (value,)

    def _away(self, lease: int) -> set[str]:
        begin = self.now + lease * self.length
        return {
            outage["host"]
            for outage in self.raw["leases"].get("outages", ())
            if outage.get("start") is None or outage["start"] < begin + self.length
            if outage.get("end") is None or outage["end"] > begin
        }

    def _before(self, job: Raw) -> Do | None:
        running = job.get("running")
        if running is None:
            return None
        tasks = sorted(running["tasks"], key=lambda task: task.get("index", 0))
        return Do(running.get("option", 0), tuple(task["host"] for task in tasks))

    def pinned(self, j: int) -> bool:
        """Whether a job runs and may not move."""
        return bool(self.jobs[j].get("running", {}).get("pinned"))

    def group(self, j: int, option: int) -> Raw:
        """The only task group of an option."""
        group: Raw = self.jobs[j]["options"][option]["groups"][0]
        return group

    def milli(self, j: int, option: int) -> int:
        """What an option asks in all."""
        group = self.group(j, option)
        return int(group["gpu"]) * int(group.get("count", 1))

    # What a lease does.

    def gain(self, j: int, option: int, hosts: int) -> int:
        """Thousandths of a second of work of one lease."""
        speed, overhead, part = self.pace(j, option, hosts)
        return speed * part * max(0, self.length - overhead) // 1000

    def pace(self, j: int, option: int, hosts: int) -> tuple[int, int, int]:
        """Speed, overhead and the part of the speed that so many hosts leave."""
        paces = self.jobs[j].get("deadline", {}).get("paces")
        pace = paces[option] if paces else {}
        part, spanning = 1000, pace.get("spanning", [])
        if hosts > 1 and spanning:
            part = next((p for most, p in spanning if hosts <= most), spanning[-1][1])
        return pace.get("speed", 1000), pace.get("overhead_s", 0), part

    def counted(self, j: int, option: int) -> int:
        """On how many hosts a later lease counts."""
        before = self.before[j]
        if before is not None and self.pinned(j):
            return len(set(before.hosts))
        models = self.group(j, option).get("gpu_models")
        most = max(
            (h["gpus"] for h in self.hosts.values() if models is None or h["gpu_model"] in models),
            default=0,
        )
        return max(1, -(-(self.milli(j, option) // 1000) // most)) if most else 1

    def done(self, j: int, option: int, leases: tuple[int, ...], here: int) -> int | None:
        """When the job is done by exactly these leases; None: they do too little or too much."""
        left = 1000 * self.jobs[j]["deadline"]["work_s"]
        for lease in leases:
            hosts = here if lease == 0 else self.counted(j, option)
            if left <= 0:
                return None
            speed, overhead, part = self.pace(j, option, hosts)
            if lease == leases[-1]:
                if left > self.gain(j, option, hosts):
                    return None
                begin = self.now + lease * self.length
                return begin + overhead - (-1000 * left // (speed * part))
            left -= self.gain(j, option, hosts)
        return None

    def offered(self, j: int, do: Do | None) -> list[Given]:
        """All promises that a job can have if it does that now, each with its leases."""
        if (j, do) not in self._given:
            self._given[j, do] = list(self._offered(j, do))
        return self._given[j, do]

    def _offered(self, j: int, do: Do | None) -> Iterator[Given]:
        deadline = self.jobs[j].get("deadline")
        if deadline is None:
            return
        before = self.before[j]
        dues = [(due["at"], due["value"]) for due in deadline.get("due", ())]
        if deadline.get("promise") is not None:
            dues.append((deadline["promise"]["at"], deadline["promise"]["value"]))
        late = max(0, (deadline.get("ready") or self.now) - self.now)
        for option in range(len(self.jobs[j]["options"])) if do is None else (do.option,):
            first = -(-late // self.length)
            if before is not None and before.option != option:
                first = max(1, first)
            here = self.counted(j, option) if do is None else len(set(do.hosts))
            for leases in self._leases(j, do, first):
                done = self.done(j, option, leases, here)
                if done is not None:
                    for at, value in dues:
                        if done <= at:
                            yield Given(option, at, value, leases)

    def _leases(self, j: int, do: Do | None, first: int) -> Iterator[tuple[int, ...]]:
        """Yield all sets of leases from the first on: with the current one exactly if it runs."""
        later = range(max(first, 1), self.horizon)
        for number in range(len(later) + 1):
            for leases in combinations(later, number):
                if do is not None:
                    leases = (0, *leases)
                if self.pinned(j) and leases != tuple(range(len(leases))):
                    continue
                if leases:
                    yield leases

    def free(self, lease: int, models: frozenset[str]) -> int:
        """Milli-GPU of some models in a later lease."""
        have = sum(
            1000 * self.hosts[name]["gpus"]
            for name in self.healthy - self.gone[lease]
            if self.hosts[name]["gpu_model"] in models
        )
        for j, before in enumerate(self.before):
            if before is not None and self.pinned(j) and lease < self._runs_until(j, before):
                have -= sum(
                    self.group(j, before.option)["gpu"]
                    for host in before.hosts
                    if host in self.healthy - self.gone[lease]
                    and self.hosts[host]["gpu_model"] in models
                )
        return have

    def _runs_until(self, j: int, before: Do) -> int:
        each = self.gain(j, before.option, len(set(before.hosts)))
        if "deadline" not in self.jobs[j] or not each:
            return self.horizon
        return min(self.horizon, -(-1000 * self.jobs[j]["deadline"]["work_s"] // each))

    @cached_property
    def capacity(self) -> list[tuple[str, frozenset[str] | str, list[int]]]:
        """Each row of capacity: by sets of models, and of tenants; what it has in each lease."""
        models = sorted({host["gpu_model"] for host in self.hosts.values()})
        rows: list[tuple[str, frozenset[str] | str, list[int]]] = []
        for number in range(1, len(models) + 1):
            rows += [
                ("models", some, [self.free(t, some) for t in range(self.horizon)])
                for some in map(frozenset, combinations(models, number))
            ]
        for tenant, quota in self.quota.items():
            left = []
            for lease in range(self.horizon):
                held = sum(
                    self.milli(j, before.option)
                    for j, before in enumerate(self.before)
                    if before is not None and self.pinned(j)
                    if self.jobs[j].get("tenant") == tenant and lease < self._runs_until(j, before)
                )
                left.append(max(0, quota - held))
            rows.append(("tenant", tenant, left))
        return rows

    def demand(self, j: int, option: int) -> tuple[int, ...]:
        """What a job asks of each row in one lease."""
        if self.pinned(j):
            return (0,) * len(self.capacity)
        allowed = self.group(j, option).get("gpu_models")
        milli, asked = self.milli(j, option), []
        for kind, what, _ in self.capacity:
            if kind == "tenant":
                asked.append(milli if self.jobs[j].get("tenant") == what else 0)
            else:
                models = {host["gpu_model"] for host in self.hosts.values()}
                inside = models.intersection(allowed or models) <= set(what)
                asked.append(milli if inside else 0)
        return tuple(asked)

    def kept(self, lists: tuple[tuple[int, Do | None, bool | None], ...]) -> dict[Any, Any]:
        """Best choices of promises: (broken, *admitted) to the promises, none beaten by another.

        Each list entry is a job, what it does now, and whether it must have a promise (None: as it
        likes).
        """
        capacity = [row[2] for row in self.capacity]
        start = tuple(tuple(row[1:]) for row in capacity)
        none = (0,) * (1 + max(len(self.levels), 1))
        states: dict[Any, dict[tuple[int, ...], tuple[Given | None, ...]]] = {start: {none: ()}}
        for j, do, must in lists:
            old = self.jobs[j].get("deadline", {}).get("promise")
            loss = 0 if old is None else old["value"]
            after: dict[Any, dict[tuple[int, ...], tuple[Given | None, ...]]] = {}
            moves: list[Given | None] = [] if must is False else list(self.offered(j, do))
            if not must:
                moves.append(None)
            for left, values in states.items():
                for given in moves:
                    rest = left if given is None else self._less(left, j, given)
                    if rest is None:
                        continue
                    value = 0 if given is None else given.value
                    kept = after.setdefault(rest, {})
                    more = max(0, loss - value), *self.by_level(self.levels, self.jobs[j], value)
                    for before, had in values.items():
                        kept.setdefault(tuple(map(add, before, more)), (*had, given))
            states = {left: _unbeaten(values) for left, values in after.items()}
        every: dict[tuple[int, ...], tuple[Given | None, ...]] = {}
        for values in states.values():
            for key, had in values.items():
                every.setdefault(key, had)
        return _unbeaten(every)

    def _less(self, left: Any, j: int, given: Given) -> Any:
        asked = self.demand(j, given.option)
        rows = []
        for ask, row in zip(asked, left, strict=True):
            new = [have - ask * (t + 1 in given.leases) for t, have in enumerate(row)]
            if any(have < 0 for t, have in enumerate(new) if t + 1 in given.leases and ask):
                return None
            rows.append(tuple(new))
        return tuple(rows)


def _unbeaten(values: dict[tuple[int, ...], Any]) -> dict[tuple[int, ...], Any]:
    """Keep what nothing beats in all: the less in the first, and the more in the others."""
    best: dict[tuple[int, ...], Any] = {}
    for key in sorted(values, key=lambda key: (key[0], *(-part for part in key[1:]))):
        if not any(all(map(ge, other[1:], key[1:])) for other in best):
            best[key] = values[key]
    return best
