"""The moves of a plan cut into stages: moves that one start waits for, and then that start.

A *slot* is what can run out: a resource of a host, a GPU, a quota or cap. Once all moves and starts
of a plan are carried out, no slot is overcommitted. So a set of them that is *closed* fits, too:
whoever takes of a slot that has too little left brings along jobs that leave it. Starts come first
that bring most for each move that they wait for.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from math import inf
from typing import Any, TypeAlias

from placewright.formulations.gang.problem.limits import Account, accounts_of, limits_of
from placewright.instances.documents.caps import Measure
from placewright.instances.documents.option import Option
from placewright.instances.documents.plan import DecisionKind, Plan, Task
from placewright.instances.documents.round import Round
from placewright.rounds.sections.move_components import sums
from placewright.rounds.sections.move_order import Asked, Slot, free_amounts

Rank: TypeAlias = tuple[int, int, float, int]
"""What comes first among starts, the least: 0 without a move, priority, worth a move, number."""

CHANGES = (DecisionKind.PREEMPT, DecisionKind.MIGRATE, DecisionKind.START)


@dataclass(frozen=True, slots=True)
class Stage:
    """What a plan does next, by the jobs' indices: moves (preemptions are some), then starts."""

    moves: tuple[int, ...]
    starts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Change:
    """What a job that starts, moves or stops takes and gives of each slot, by number."""

    kind: DecisionKind
    takes: Mapping[int, int]
    gives: Mapping[int, int]


def stages_of(round_: Round, plan: Plan, most: int | None = None) -> tuple[Stage, ...]:
    """Cut a valid plan into stages; the first has the starts that wait for no move.

    Moves that no start waits for come last, each a stage of its own. With `most`, stages that would
    make it more moves are passed over, and so are moves that no start waits for.
    """
    return tuple(_Stages(round_, plan).in_order(inf if most is None else most))


class _Stages:
    def __init__(self, round_: Round, plan: Plan) -> None:
        self._jobs = round_.jobs
        self._strict = round_.policy.priority == "strict"
        self._changes, self._free = _changes(round_, plan)
        self._worth = {j: _worth(round_, plan, j) for j in self._changes}
        self._order = _section_order(round_, plan)
        self._givers: defaultdict[int, list[int]] = defaultdict(list)
        for j in self._order:
            for slot in self._changes[j].gives:
                self._givers[slot].append(j)
        self._left = set(self._changes)

    def in_order(self, most: float) -> Iterator[Stage]:
        """Yield stages until everything is carried out, or no stage has few enough moves."""
        waiting = {j for j in self._left if self._changes[j].kind is DecisionKind.START}
        closures = {j: self._closure(j) for j in waiting}
        lookers: defaultdict[int, set[int]] = defaultdict(set)
        for j, closure in closures.items():
            for slot in self._looked_at(closure):
                lookers[slot].add(j)
        heap = [self._rank(j, closures[j]) for j in waiting]
        heapify(heap)
        ready: list[int] = []  # starts that wait for no more moves since the last stage
        while heap:
            rank = heappop(heap)
            j = rank[-1]
            if j not in waiting or rank != self._rank(j, closures[j]):
                continue
            closure = closures[j]
            moves = [k for k in closure if self._changes[k].kind is not DecisionKind.START]
            if len(moves) > most:
                continue  # it comes up again once it waits for fewer
            most -= len(moves)
            if moves and ready:
                yield Stage((), tuple(ready))
                ready = []
            waiting.discard(j)
            self._carry_out(closure)
            if moves:
                yield Stage(tuple(moves), (j,))
            else:
                ready.append(j)
            stale = {
                k
                for slot in {s for i in closure for s in self._slots(i)}
                for k in lookers[slot]
                if k in waiting
            }
            for k in stale:
                closures[k] = self._closure(k)
                for slot in self._looked_at(closures[k]):
                    lookers[slot].add(k)
                heappush(heap, self._rank(k, closures[k]))
        if ready:
            yield Stage((), tuple(ready))
        for j in self._order if most == inf else ():
            if j in self._left:
                closure = self._closure(j)
                self._carry_out(closure)
                yield Stage(tuple(closure), ())

    def _rank(self, start: int, closure: Sequence[int]) -> Rank:
        """Return where a start stands: what it brings less what stops for it, for each move."""
        moves = sum(self._changes[j].kind is not DecisionKind.START for j in closure)
        brings = sum(self._worth[j] for j in closure)
        priority = -self._jobs[start].priority if self._strict else 0
        return min(moves, 1), priority, -brings / max(moves, 1), start

    def _closure(self, first: int) -> list[int]:
        """Return a change and the moves that have to be carried out with it, these first."""
        chosen = [first]
        members = {first}
        free: dict[int, int] = {}
        self._apply(first, free)
        at = 0
        while at < len(chosen):
            for slot in self._changes[chosen[at]].takes:
                while free.get(slot, self._free[slot]) < 0:
                    giver = self._giver(slot, free, members)
                    if giver is None:
                        break
                    chosen.append(giver)
                    members.add(giver)
                    self._apply(giver, free)
            at += 1
        return chosen[::-1]

    def _giver(self, slot: int, free: Mapping[int, int], members: set[int]) -> int | None:
        """Choose who leaves a slot: rather one that moves than one that stops, and finds room.

        None if nobody is left who leaves it.
        """
        lacking = -free[slot]

        def price(j: int) -> tuple[bool, int, bool]:
            change = self._changes[j]
            short = sum(1 for s, n in change.takes.items() if free.get(s, self._free[s]) < n)
            return change.kind is DecisionKind.PREEMPT, short, change.gives[slot] < lacking

        able = [j for j in self._givers[slot] if j in self._left and j not in members]
        return min(able, key=price, default=None)

    def _apply(self, j: int, free: dict[int, int]) -> None:
        change = self._changes[j]
        for slot, amount in change.takes.items():
            free[slot] = free.get(slot, self._free[slot]) - amount
        for slot, amount in change.gives.items():
            free[slot] = free.get(slot, self._free[slot]) + amount

    def _carry_out(self, closure: Iterable[int]) -> None:
        for j in closure:
            self._left.discard(j)
            change = self._changes[j]
            for slot, amount in change.takes.items():
                self._free[slot] -= amount
            for slot, amount in change.gives.items():
                self._free[slot] += amount

    def _slots(self, j: int) -> Iterator[int]:
        yield from self._changes[j].takes
        yield from self._changes[j].gives

    def _looked_at(self, closure: Iterable[int]) -> set[int]:
        return {slot for j in closure for slot in self._changes[j].takes}


def _worth(round_: Round, plan: Plan, j: int) -> int:
    """Return the value that a change brings; less than 0 where a job stops."""
    job, decision = round_.jobs[j], plan.decisions[j]
    if decision.decision is DecisionKind.START and decision.option is not None:
        return job.value_of(decision.option)
    if decision.decision is DecisionKind.PREEMPT and job.running is not None:
        return -job.value_of(job.running.option)
    return 0


def _section_order(round_: Round, plan: Plan) -> list[int]:
    """Return the jobs that move or stop, in the order of the section `moves`."""
    number = {job.name: j for j, job in enumerate(round_.jobs)}
    section: Mapping[str, Any] = next((s for s in plan.sections if s["kind"] == "moves"), {})
    return [number[name] for name in (*section.get("steps", ()), *section.get("needs_spare", ()))]


def _changes(round_: Round, plan: Plan) -> tuple[dict[int, _Change], list[int]]:
    """Return what each changed job takes and gives, and what is free of each slot now."""
    asked, numbers = Asked(round_), dict[Slot, int]()
    held: dict[int, tuple[dict[int, int], dict[int, int]]] = {}
    for j, (job, decision) in enumerate(zip(round_.jobs, plan.decisions, strict=True)):
        if decision.decision not in CHANGES:
            continue
        before, after = dict[int, int](), dict[int, int]()
        if job.running is not None:
            option = job.options[job.running.option]
            before = _held(asked, option, job.running.tasks, numbers)
        if decision.option is not None:
            after = _held(asked, job.options[decision.option], decision.tasks, numbers)
        held[j] = before, after
    running = (
        (job.options[job.running.option], job.running.tasks)
        for job in round_.jobs
        if job.running is not None
    )
    free = free_amounts(asked, round_, running, numbers)
    _add_quotas(round_, plan, held, free)
    changes = {
        j: _Change(
            plan.decisions[j].decision,
            takes={s: n - before.get(s, 0) for s, n in after.items() if n > before.get(s, 0)},
            gives={s: n - after.get(s, 0) for s, n in before.items() if n > after.get(s, 0)},
        )
        for j, (before, after) in held.items()
    }
    return changes, free


def _held(
    asked: Asked, option: Option, tasks: Sequence[Task], numbers: dict[Slot, int]
) -> dict[int, int]:
    return sums((numbers.setdefault(slot, len(numbers)), n) for slot, n in asked(option, tasks))


def _add_quotas(
    round_: Round,
    plan: Plan,
    held: Mapping[int, tuple[dict[int, int], dict[int, int]]],
    free: list[int],
) -> None:
    """Add a slot for each quota and cap: so much may be held, or what was held if that is more."""
    numbers: dict[tuple[Account, Measure], int] = {}
    for account, limits in limits_of(round_).items():
        for measure, amount in limits.items():
            numbers[account, measure] = len(free)
            free.append(amount)
    if not numbers:
        return

    def of_job(j: int, option: int) -> Iterator[tuple[int, int]]:
        mine = accounts_of(round_.jobs[j])
        for (account, measure), slot in numbers.items() if mine else ():
            if account in mine and (amount := measure.asked_by(round_.jobs[j].options[option])):
                yield slot, amount

    for j, job in enumerate(round_.jobs):
        if job.running is not None:
            for slot, amount in of_job(j, job.running.option):
                free[slot] -= amount
    for slot in numbers.values():
        free[slot] = max(free[slot], 0)
    for j, (before, after) in held.items():
        running, option = round_.jobs[j].running, plan.decisions[j].option
        if running is not None:
            before.update(of_job(j, running.option))
        if option is not None:
            after.update(of_job(j, option))
