"""Every plan of a tiny round of policy `deadline`, enumerated from its document.

What a job may do now is written down as the documents have it, without a look at the formulation;
reservations are of whole hosts. What matters of a plan are its values, and of plans with the same
current lease only those that no other beats in both `broken` and `admitted`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import combinations_with_replacement, product
from operator import add
from typing import Any

MILLION = 10**6
MOST_CURRENT = 60_000
"""Current leases of a round; beyond it is not tiny."""

Do = Any
"""`every_promise.Do`: option and host of each task of a job; None if it does not run."""


class TooManyError(Exception):
    """The round is not tiny."""


@dataclass(frozen=True)
class Found:
    """A plan: what runs where, what is promised, and its values."""

    now: tuple[Do, ...]
    promises: tuple[Any, ...]
    values: dict[str, int] = field(compare=False)


class Every:
    """All plans of a round, whose promises are `every_promise.Promises`."""

    def __init__(self, promises: Any, do: Any) -> None:
        self.promises, self._do = promises, do
        self.jobs, self.before = promises.jobs, promises.before
        self.gone = promises.gone[0]

    def doings(self, j: int) -> Iterator[Do]:
        """Whatever may become of a job now, as far as it alone is concerned."""
        before, job = self.before[j], self.jobs[j]
        if before is not None and self.promises.pinned(j):
            yield before
            return
        yield None
        ready = job.get("deadline", {}).get("ready")
        if before is None and ready is not None and ready > self.promises.now:
            return
        if before is not None and not self.gone.intersection(before.hosts):
            yield before
        stays = Counter() if before is None else Counter(before.hosts)
        for option in range(len(job["options"])) if before is None else (before.option,):
            group = self.promises.group(j, option)
            count, models = group.get("count", 1), group.get("gpu_models")
            open_ = sorted(self.promises.healthy - self.gone)
            for hosts in combinations_with_replacement(open_, count):
                come = Counter(hosts) - stays
                if before is not None and not come:
                    continue
                if self.promises.reserved.isdisjoint(come) and all(
                    models is None or self.promises.hosts[host]["gpu_model"] in models
                    for host in come
                ):
                    yield self._do(option, hosts)

    def currents(self) -> Iterator[tuple[Do, ...]]:
        """All that may run now together, by what hosts and quotas hold."""
        choices = [list(self.doings(j)) for j in range(len(self.jobs))]
        number = 1
        for each in choices:
            number *= len(each)
        if number > MOST_CURRENT:
            raise TooManyError(number)
        for now in product(*choices):
            if self._fits(now) and self._within_quotas(now):
                yield now

    def _fits(self, now: tuple[Do, ...]) -> bool:
        used: Counter[str] = Counter()
        for j, do in enumerate(now):
            if do is not None:
                for host in do.hosts:
                    used[host] += self.promises.group(j, do.option)["gpu"] // 1000
        return all(used[name] <= host["gpus"] for name, host in self.promises.hosts.items())

    def _within_quotas(self, now: tuple[Do, ...]) -> bool:
        for tenant, quota in self.promises.quota.items():
            mine = [j for j, job in enumerate(self.jobs) if job.get("tenant") == tenant]
            starts = any(self.before[j] is None and now[j] is not None for j in mine)
            had = sum(self.promises.milli(j, b.option) for j in mine if (b := self.before[j]))
            has = sum(self.promises.milli(j, d.option) for j in mine if (d := now[j]))
            if starts and has > max(quota, had):
                return False
        return True

    def come(self, j: int, do: Do) -> set[str]:
        """The hosts where tasks of a job arrive."""
        before = self.before[j]
        if do is None or do == before:
            return set()
        stays = Counter() if before is None else Counter(before.hosts)
        return set(Counter(do.hosts) - stays)

    def lawful(self, now: tuple[Do, ...], promised: tuple[bool, ...]) -> bool:
        """Whether no job that stops could stay, by counts of GPUs, and only higher ones profit."""
        come = [Counter() if do is None else self._arrivals(j, do) for j, do in enumerate(now)]
        ranks = [(promised[j], job.get("priority", 0)) for j, job in enumerate(self.jobs)]
        stopped = [
            j
            for j, (before, do) in enumerate(zip(self.before, now, strict=True))
            if before is not None and do is None and not self.gone.intersection(before.hosts)
        ]
        levels = {j: (False, self.jobs[j].get("priority", 0)) for j in stopped}
        for j in stopped:
            if not self._breaks(now, {j}, set(), {j}):
                return False
            back = {i for i in stopped if levels[i] >= levels[j]}
            higher = {i for i, some in enumerate(come) if some and ranks[i] > levels[j]}
            while more := {
                i
                for i in higher - back
                if self.before[i] is not None
                and any(host in self.before[one].hosts for one in back for host in come[i])
            }:
                back |= more
            gone = {i for i in higher if self.before[i] is None}
            if self._breaks(now, back, gone, {i for i in stopped if levels[i] == levels[j]}):
                return False
        return True

    def _arrivals(self, j: int, do: Do) -> Counter[str]:
        before = self.before[j]
        if do == before:
            return Counter()
        return Counter(do.hosts) - (Counter() if before is None else Counter(before.hosts))

    def _breaks(
        self, now: tuple[Do, ...], back: set[int], gone: set[int], owners: set[int]
    ) -> bool:
        """Whether hosts or an owner's quota have too little with jobs back, and others gone."""
        changed = tuple(
            self.before[j] if j in back else None if j in gone else do for j, do in enumerate(now)
        )
        if not self._fits(changed):
            return True
        for tenant in {self.jobs[j].get("tenant") for j in owners} & self.promises.quota.keys():
            mine = [j for j, job in enumerate(self.jobs) if job.get("tenant") == tenant]
            had = sum(self.promises.milli(j, b.option) for j in mine if (b := self.before[j]))
            has = sum(self.promises.milli(j, d.option) for j in mine if (d := changed[j]))
            if has > max(self.promises.quota[tenant], had):
                return True
        return False

    def plans(self) -> Iterator[Found]:
        """Yield all plans, but for those that another one of the same current lease beats."""
        known: dict[Any, Any] = {}
        for now in self.currents():
            able = [
                do is not None and bool(self.promises.offered(j, do)) for j, do in enumerate(now)
            ]
            for promised in product(*[(False, True) if one else (False,) for one in able]):
                if not self.lawful(now, promised):
                    continue
                key = tuple(
                    (j, _kind(do), None if do is None else promised[j]) for j, do in enumerate(now)
                )
                if key not in known:
                    known[key] = self.promises.kept(
                        tuple(
                            (j, do, None if do is None else promised[j]) for j, do in enumerate(now)
                        )
                    )
                others = self._others(now, promised)
                for (broken, *admitted), given in known[key].items():
                    values = {"broken": broken}
                    values |= _named("admitted", self.promises.levels, admitted)
                    yield Found(now, given, values | others)

    def _others(self, now: tuple[Do, ...], promised: tuple[bool, ...]) -> dict[str, int]:
        disruption = early = 0
        ready = [
            job
            for j, job in enumerate(self.jobs)
            if self.before[j] or (job.get("deadline", {}).get("ready") or 0) <= self.promises.now
        ]
        levels = self.promises.levels_of(ready)
        best_effort = [0] * max(len(levels), 1)
        busy = {host for before in self.before if before is not None for host in before.hosts}
        opened: set[str] = set()
        for j, do in enumerate(now):
            before, job = self.before[j], self.jobs[j]
            opened |= self.come(j, do) - busy
            if before is not None:
                stays = Counter(before.hosts) & Counter(() if do is None else do.hosts)
                each = self.promises.group(j, before.option)["gpu"]
                disruption += each * (len(before.hosts) - sum(stays.values()))
            if do is not None and promised[j]:
                early += self.promises.milli(j, do.option)
            elif do is not None:
                work = 1000 * self.promises.horizon * self.promises.length
                if "deadline" in job:
                    work = 1000 * job["deadline"]["work_s"]
                share = MILLION * self.promises.gain(j, do.option, len(set(do.hosts))) // work
                amount = job.get("weight", 1) * min(MILLION, share)
                best_effort = list(
                    map(add, best_effort, self.promises.by_level(levels, job, amount))
                )
        return {
            "disruption": disruption,
            **_named("best_effort", levels, best_effort),
            "early": early,
            "opened": len(opened),
        }


def _named(term: str, levels: list[int], values: list[int]) -> dict[str, int]:
    names = [f"{term}_{k}" for k in range(1, len(levels) + 1)] or [term]
    return dict(zip(names, values, strict=True))


def _kind(do: Do) -> tuple[int, int] | None:
    return None if do is None else (do.option, len(set(do.hosts)))
