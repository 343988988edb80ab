"""Elastic earliest deadline first: promises, kept by the fewest GPUs that make each deadline.

A job that comes is admitted if, in the order of deadlines, all jobs with a promise and it have the
GPUs to end in time; each takes the fewest that do, from a profile of what is free from now on. GPUs
that are left now go where they add most to speeds. Jobs that are not admitted, or have no deadline,
run on what nobody with a promise uses.

A job keeps its size while it still makes its deadline with that (without it, restarts break
promises), and growth has to save more than its restart takes. What starts or changes is planned for
a slot before the deadline, since decisions come up to a slot late.

Source: Gu et al., "ElasticFlow: an elastic serverless training platform for distributed deep
learning", ASPLOS 2023, section 4: minimum satisfactory shares by progressive filling, and leftover
GPUs by marginal return; the hysteresis is ours.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from placewright.array_types import Floats, Ints
from placewright.instances.traces.trace import NEVER, SECOND
from placewright.rounds.policies.base import Chooser, Columns, ElasticPolicy, Offer
from placewright.rounds.policies.elastic import Ladder

SLOT_US = 60 * SECOND
"""By so much a decision may come late."""

DEPTH = 1024
"""Times at which the profile of free GPUs changes; of later ones the fewest GPUs count."""


class Profile:
    """GPUs that are free from now on: `free[i]` from `times[i]` until the next time, in order."""

    def __init__(self, now: float, free: int) -> None:
        self._times, self._free = np.empty(DEPTH + 2), np.empty(DEPTH + 2, dtype=np.int64)
        self._times[0], self._free[0], self._count = now, free, 1

    @property
    def times(self) -> Floats:
        """Times at which it changes."""
        return self._times[: self._count]

    @property
    def free(self) -> Ints:
        """GPUs that are free from each of these times on."""
        return self._free[: self._count]

    def take(self, until: float, sizes: Ints) -> None:
        """Take GPUs of each interval until a time; the last interval is cut there."""
        last, count = len(sizes), self._count
        if last == count or self._times[last] > until:
            for rows in (self._times, self._free):
                rows[last + 1 : count + 1] = rows[last:count]
            self._times[last], self._free[last] = until, self._free[last - 1]
            self._count += 1
        self._free[:last] -= sizes
        if self._count > DEPTH:
            self._free[DEPTH - 1] = self._free[DEPTH - 1 : self._count].min()
            self._count = DEPTH


@dataclass(slots=True, eq=False)
class Demand:
    """What a job needs, times in µs.

    `places`, `gpus`, `speeds`, `starts`: its useful options, ascending: numbers in the ladder,
    GPUs, speeds, and the overhead of a start. `at`: with which of these it runs, -1: none. `due`:
    what is left of the overhead of its last start.
    """

    places: Ints
    gpus: Ints
    speeds: Floats
    starts: Floats
    at: int
    due: float
    left: float
    deadline: float

    def can_end(self, now: int) -> bool:
        """Whether it ends in time on its fastest option."""
        return bool(self.speeds[-1] * (self.deadline - now - self.starts[0]) >= self.left)

    def least_plan(self, profile: Profile, *, keep: bool) -> tuple[float, int, Ints] | None:
        """Return when it ends, its option now and its GPUs until then, with the fewest that do.

        With `keep`, who runs goes on with its option if that does. None if it ends late.
        """
        tries = [-1] if keep and self.at >= 0 else []
        for most in (*tries, *range(len(self.gpus))):
            slack = 0 if self.at >= 0 else SLOT_US
            found = self._plan(profile, most, self.deadline - slack)
            if found is not None:
                ends, gpus = found
                return ends, int(self.gpus.searchsorted(gpus[0])) if gpus[0] else -1, gpus
        return None

    def _plan(self, profile: Profile, most: int, deadline: float) -> tuple[float, Ints] | None:
        """Return when it ends with at most that option, and its GPUs in each interval until then.

        In each interval it has the largest option that is free; with `most` -1 only its own. None
        if it does not end by the deadline.
        """
        count = int(profile.times.searchsorted(deadline))
        if not count:
            return None
        begin, free = profile.times[:count], profile.free[:count]
        end = np.append(profile.times[1:count], deadline)
        if most < 0:
            option = np.where(free >= self.gpus[self.at], self.at, -1)
        else:
            option = self.gpus[: most + 1].searchsorted(free, side="right") - 1
        runs = (option >= 0).nonzero()[0]
        if not len(runs):
            return None
        first = int(runs[0])
        wait = self.due if option[first] == self.at else float(self.starts[option[first]])
        time = np.maximum(end - np.maximum(begin, begin[first] + wait), 0.0)
        speed = np.where(option >= 0, self.speeds[option], 0.0)
        done = np.cumsum(time * speed)
        last = int(done.searchsorted(self.left * (1 - 1e-12)))
        if last == count:
            return None
        after = self.left - (done[last - 1] if last else 0.0)
        ends = float(max(begin[last], begin[first] + wait) + after / speed[last])
        return ends, np.where(option >= 0, self.gpus[option], 0)[: last + 1]


class ElasticFlow(Chooser):
    """Keeps who was admitted, and who came so far."""

    def __init__(self) -> None:
        self._promised: set[int] = set()
        self._came = -1

    def state(self) -> Any:
        """Return who has a promise, and the last job that came."""
        return [sorted(self._promised), self._came]

    def restore(self, state: Any) -> None:
        """Take a state over."""
        promised, self._came = state
        self._promised = set(promised)

    def end(self, job: Columns) -> None:
        """Forget a job that has ended."""
        self._promised.discard(int(job.numbers[0]))

    def choose(self, jobs: Columns, offer: Offer) -> Ints:
        """Admit who comes, plan all who have a promise, and give away what is left."""
        numbers, ladder = jobs.numbers, Ladder(jobs, offer)
        demands = self._demands(jobs, offer, ladder)
        now, free = int(jobs.now_us[0]), int(offer.open_gpus.sum())
        due = jobs.deadline_us.tolist()
        promised = (row for row, job in enumerate(numbers.tolist()) if job in self._promised)
        by_deadline = sorted(promised, key=due.__getitem__)
        planned, late = self._best(now, free, list(map(demands, by_deadline)))
        for row, job in enumerate(numbers.tolist()):
            if job <= self._came:
                continue
            demand = demands(row)
            if demand.deadline == NEVER or not demand.can_end(now):
                continue
            tried = sorted([*by_deadline, row], key=due.__getitem__)
            found, later = self._best(now, free, list(map(demands, tried)), demand)
            if later <= late:
                self._promised.add(job)
                by_deadline, planned, late = tried, found, later
        self._came = max(self._came, int(numbers.max()))
        sizes = dict(zip(by_deadline, planned, strict=True))
        return self._given(jobs, ladder, demands, sizes)

    def _demands(self, jobs: Columns, offer: Offer, ladder: Ladder) -> Callable[[int], Demand]:
        """Return what tells what a job needs, by its row."""
        at, starts = ladder.place_of(jobs.option), offer.start_us[:, ladder.order]
        left, due, deadline = jobs.remaining_us, jobs.overhead_due_us, jobs.deadline_us

        @cache
        def demand(row: int) -> Demand:
            useful = (ladder.speeds[row, :-1] > 0).nonzero()[0]
            has = at[row] >= 0 and bool((useful == at[row]).any())
            return Demand(
                places=useful,
                gpus=ladder.gpus[useful],
                speeds=ladder.speeds[row, useful],
                starts=starts[row, useful].astype(np.float64),
                at=int(useful.searchsorted(at[row])) if has else -1,
                due=float(due[row]),
                left=float(left[row]),
                deadline=float(deadline[row]),
            )

        return demand

    def _best(
        self, now: int, free: int, demands: list[Demand], new: Demand | None = None
    ) -> tuple[list[int], int]:
        """Return each job's option now and how many end late, with sizes kept if none does then."""
        kept = _plan_all(now, free, demands, new, keep=True)
        if kept[1] == 0:
            return kept
        other = _plan_all(now, free, demands, new, keep=False)
        return other if other[1] < kept[1] else kept

    def _given(
        self,
        jobs: Columns,
        ladder: Ladder,
        demands: Callable[[int], Demand],
        sizes: dict[int, int],
    ) -> Ints:
        """Return options: those planned, grown by what is left, and the rest for the others."""
        promised = np.zeros(len(jobs), dtype=np.bool_)
        promised[list(sizes)] = True
        for row, option in sizes.items():
            if option >= 0:
                ladder.take(row, int(demands(row).places[option]))
        least = ladder.speeds[ladder.rows, ladder.after[:, -1]]
        ladder.climb(
            lambda rows, more, now, then: int(((then - now) / least[rows] / more).argmax()),
            promised,
        )
        for row in sizes:
            demand, grown = demands(row), int(ladder.at[row])
            if demand.at < 0 or grown <= demand.places[demand.at]:
                continue
            option = int(demand.places.searchsorted(grown))
            then = demand.starts[option] + demand.left / demand.speeds[option]
            if then >= demand.due + demand.left / demand.speeds[demand.at] - SLOT_US:
                ladder.take(row, int(demand.places[demand.at]))
        others = (~promised).nonzero()[0]
        asked = ladder.least(np.ones(len(jobs)))
        for row in others[np.argsort(jobs.option[others] < 0, kind="stable")].tolist():
            if not ladder.free:
                break
            demand = demands(row)
            wanted = int(asked[row]) if demand.at < 0 else int(demand.places[demand.at])
            for option in demand.places[demand.places <= wanted][::-1].tolist():
                if ladder.take(row, option):
                    break
        return ladder.options()


def _plan_all(
    now: int, free: int, demands: list[Demand], new: Demand | None, *, keep: bool
) -> tuple[list[int], int]:
    """Plan jobs in an order; return each one's option now, and how many do not end in time.

    A new one that does not counts as many. Who runs late has for a slot what it had, or what is
    free.
    """
    profile, sizes, late = Profile(float(now), free), list[int](), 0
    for demand in demands:
        found = demand.least_plan(profile, keep=keep)
        if found is not None:
            ends, option, gpus = found
        elif demand is new:
            return [], NEVER
        else:
            late += 1
            room = int(profile.free[0])
            fits = int(demand.gpus.searchsorted(room, side="right")) - 1
            option = demand.at if 0 <= demand.at <= fits else fits
            gpus = np.array([demand.gpus[option] if option >= 0 else 0])
            ends = min(now + SLOT_US, profile.times[1]) if len(profile.times) > 1 else now + SLOT_US
        profile.take(ends, gpus)
        sizes.append(option)
    return sizes, late


ELASTICFLOW = ElasticPolicy(
    "elasticflow",
    ElasticFlow,
    frozenset({"now_us", "remaining_us", "overhead_due_us", "deadline_us"}),
    one_model=True,
)
