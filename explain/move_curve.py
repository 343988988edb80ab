"""What moves buy: the plan cut into stages of moves, and what each of them leads to."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from heapq import heapify, heappop, heappush
from itertools import accumulate
from math import inf
from typing import Any, TypeAlias

from placewright.collection import no_collection
from placewright.formulations.gang import run as gang
from placewright.formulations.gang.problem.limits import Account, accounts_of, limits_of
from placewright.formulations.plan_messages import Candidate
from placewright.instances.documents.caps import Measure
from placewright.instances.documents.option import Option
from placewright.instances.documents.plan import DecisionKind, Plan, Task, TermResult
from placewright.instances.documents.policy import DisruptionLimits, PolicyLimits
from placewright.instances.documents.round import Round
from placewright.instances.policies import GANG, sense_of
from placewright.instances.verify import terms_of, verify
from placewright.rounds import solve_round
from placewright.rounds.certificate import better
from placewright.rounds.deciders.base import DECIDERS, Resources
from placewright.rounds.decisions import DefaultDecisions, decisions_of
from placewright.rounds.displacement.victims import lawful
from placewright.rounds.sections.moves import Asked, Slot, free_amounts, sums
from placewright.rounds.settings import Isolation, Settings
from placewright.rounds.state.changes import apply_plan

# The moves of a plan cut into stages: moves that one start waits for, and then that start.
#
# A *slot* is what can run out: a resource of a host, a GPU, a quota or cap. Once all moves and
# starts of a plan are carried out, no slot is overcommitted. So a set of them that is *closed*
# fits, too: whoever takes of a slot that has too little left brings along jobs that leave it.
# Starts come first that bring most for each move that they wait for.


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


# The plans that a plan with moves leads to, stage by stage: each is written anew and verified.


MOVED = (DecisionKind.MIGRATE, DecisionKind.PREEMPT)


@dataclass(frozen=True, slots=True)
class MovePoint:
    """A plan of the round that the placement leads to.

    Parameters
    ----------
    moves
        Jobs that it migrates or preempts.
    stops
        Jobs that it preempts, which are among the moves.
    starts
        Jobs that it starts.
    milli_gpu
        Milli-GPU of the jobs that it starts, less those of the jobs that it preempts.
    terms
        Its terms, as `verify` computes them.
    plan
        The plan, without a certificate.
    """

    moves: int
    stops: int
    starts: int
    milli_gpu: int
    terms: Mapping[str, int]
    plan: Plan


class Prefixes:
    """The plans that the stages of a plan lead to, one after the other; see `stages_of`.

    Attributes
    ----------
    stages
        Moves, and the starts that have room after them.
    last_stages
        Numbers of the stages after which the next one moves jobs, or nothing comes.
    moved
        Jobs moved after each stage.
    """

    def __init__(
        self, round_: Round, solved: Plan, most: int | None = None, seconds: float = inf
    ) -> None:
        self.round, self._solved = round_, solved
        self._deadline = time.monotonic() + seconds
        self.stages = stages_of(round_, solved, most)
        self.moved = list(accumulate(len(stage.moves) for stage in self.stages))
        self.last_stages = [
            i
            for i in range(len(self.stages))
            if i + 1 == len(self.stages) or self.stages[i + 1].moves
        ]
        self._default = DefaultDecisions()(round_)
        settings = Settings.of(round_)
        self._decider = DECIDERS[round_.policy.formulation].decider(
            round_, Resources(settings, gang.run)
        )
        self._host = {name: h for h, name in enumerate(self._decider.hosts)}
        self._points: dict[int, MovePoint | None] = {}
        # By the identity of points, which live as long as this does.
        self._made: list[MovePoint] = []
        self._unverified: dict[int, Candidate] = {}
        self._owed: dict[int, float] = {}  # seconds that their verification may take
        self._least_check = 0.0
        self._checked: dict[int, MovePoint | None] = {}

    @cached_property
    def placement(self) -> MovePoint:
        """The placement as it is: nobody moves and nobody starts."""
        point, began = self._of(()), time.monotonic()
        if point is None or (checked := self.checked(point)) is None:
            raise ValueError("the placement breaks a rule; expected a valid one")
        self._least_check = time.monotonic() - began
        return checked

    @cached_property
    def whole(self) -> MovePoint:
        """The plan itself."""
        plan = self._solved.model_copy(update={"certificate": None, "round": None})
        return _point(self.round, plan, terms_of(self.round, plan))

    @property
    def expired(self) -> bool:
        """Whether no time is left for more than to verify all points."""
        return time.monotonic() + sum(self._owed.values()) >= self._deadline

    def point(self, stage: int) -> MovePoint | None:
        """Return the plan after a stage, not yet `checked`; None if it would be unlawful."""
        if stage not in self._points:
            jobs = [j for s in self.stages[: stage + 1] for j in (*s.moves, *s.starts)]
            self._points[stage] = self._of(jobs)
        return self._points[stage]

    def best(self) -> MovePoint:
        """Return the plan after the last stage that leads to a valid one."""
        points = (self.point(stage) for stage in reversed(self.last_stages))
        checked = (self.checked(point) for point in points if point is not None)
        return next((point for point in checked if point is not None), self.placement)

    def rising(self, points: Sequence[MovePoint | None]) -> list[MovePoint]:
        """Return those points, by moves, that are better than all before; each is `checked`."""
        left = list(points)
        while True:
            found = _rising(left)
            checked = [self.checked(point) for point in found]
            valid = [point for point in checked if point is not None]
            if len(valid) == len(found):
                self._owed.clear()
                return valid
            wrong = {id(old) for old, new in zip(found, checked, strict=True) if new is None}
            left = [point for point in left if id(point) not in wrong]

    def checked(self, point: MovePoint) -> MovePoint | None:
        """Return a point with a plan that is verified and names displacers; None if it is wrong."""
        candidate = self._unverified.pop(id(point), None)
        self._owed.pop(id(point), None)
        if candidate is not None:
            plan = self._plan(candidate, named=True)
            ok = verify(self.round, plan).ok
            self._checked[id(point)] = replace(point, plan=plan) if ok else None
        return self._checked.get(id(point), point)

    def _of(self, jobs: Sequence[int]) -> MovePoint | None:
        began, hosts, decisions = time.monotonic(), self._decider.hosts, self._solved.decisions
        starts = {
            j: (d.option, tuple((t.group, t.index, self._host[t.host], t.gpus) for t in d.tasks))
            for j in jobs
            if (d := decisions[j]).option is not None
        }
        slots = {j: tuple(t.slot for t in decisions[j].tasks) for j in starts}
        candidate = lawful(
            self.round,
            hosts,
            Candidate(
                {
                    j: (option, places)
                    for j, (option, places) in starts.items()
                    if option is not None
                },
                "stages",
                preempted={j: -1 for j in jobs if j not in starts},
                slots={j: slot for j, slot in slots.items() if any(s is not None for s in slot)},
            ),
        )
        if candidate is None:
            return None
        plan = self._plan(candidate, named=False)
        point = _point(self.round, plan, terms_of(self.round, plan))
        self._unverified[id(point)] = candidate
        # Who displaces whom is asked by name, and once more by the verifier.
        self._owed[id(point)] = self._least_check + 2 * (time.monotonic() - began)
        self._made.append(point)
        return point

    def _plan(self, candidate: Candidate, *, named: bool) -> Plan:
        hosts = self._decider.hosts
        made = decisions_of(self.round, hosts, self._default, candidate, named=named)
        sections = tuple(s for s in self._decider.sections(candidate, made) if s is not None)
        return Plan.model_construct(decisions=made, sections=sections)


def _point(round_: Round, plan: Plan, terms: Mapping[str, int]) -> MovePoint:
    milli = 0
    kinds = [decision.decision for decision in plan.decisions]
    for job, decision in zip(round_.jobs, plan.decisions, strict=True):
        if decision.decision is DecisionKind.START and decision.option is not None:
            milli += job.options[decision.option].milli_gpu
        elif decision.decision is DecisionKind.PREEMPT and job.running is not None:
            milli -= job.options[job.running.option].milli_gpu
    moves, starts = sum(k in MOVED for k in kinds), kinds.count(DecisionKind.START)
    stops = kinds.count(DecisionKind.PREEMPT)
    return MovePoint(moves, stops, starts, milli, dict(terms), plan)


# What moves buy: the round that a placement leads to, solved, and its plan cut after each move.
#
# Running jobs are where the placement has them, and may move; those that wait may start. Each point
# of the curve is a plan of that round which `verify` accepts, better than all points before it.


SHARES = (0.5, 0.8, 0.95)
"""Shares of the gain of all moves of which the curve tells how many moves they take."""

MOST_POINTS = 64
"""Points that are verified, beside those of the shares and of a number of moves asked for."""

LEAST_SECONDS = 2.0
"""Seconds for points, whatever the time limit."""

DISRUPTION = "disruption"


@dataclass(frozen=True, slots=True)
class MoveCurve:
    """What moves buy.

    Parameters
    ----------
    round
        The round that the placement leads to; points are plans of it.
    points
        At first the placement as it is, then plans with more and more moves, each better than the
        one before in the first term that differs.
    stages
        The moves of the last point in the order in which they pay, with the starts that then have
        room, as indices of jobs. Points lie along them, but for those of `with_point`.
    results
        The terms of the best plan found, with bounds that hold whoever moves or stops.
    term
        The first term in which the last point differs from the placement; None: moves buy nothing.
    """

    round: Round
    points: tuple[MovePoint, ...]
    stages: tuple[Stage, ...]
    results: tuple[TermResult, ...]
    term: str | None = None

    @property
    def result(self) -> TermResult | None:
        """The result of `term`: no plan that is as good in earlier terms beats its bound."""
        return next((result for result in self.results if result.name == self.term), None)

    @property
    def bound(self) -> float | None:
        """The bound of `term`; None if there is none."""
        return None if self.result is None else self.result.bound

    def gain(self, point: MovePoint) -> int:
        """Return what a point gains in `term` over the placement."""
        if self.term is None:
            return 0
        gain = point.terms[self.term] - self.points[0].terms[self.term]
        return gain if sense_of(self.term) == "max" else -gain

    @property
    def distance(self) -> float | None:
        """How far the placement is from the bound in `term`."""
        if self.term is None or self.bound is None:
            return None
        return abs(self.bound - self.points[0].terms[self.term])

    def with_point(self, point: MovePoint) -> MoveCurve:
        """Return the curve with a plan found otherwise, if its last point is better than that."""
        last = self.points[-1]
        if self.term is None or not better(last.terms, point.terms, tuple(last.terms)):
            return self
        return replace(self, points=tuple(_rising([*self.points, point])))

    def first_with(self, share: float) -> MovePoint:
        """Return the point of fewest moves that has a share of the gain of all moves."""
        whole = self.gain(self.points[-1])
        return next(p for p in self.points if self.gain(p) >= share * whole)


@dataclass(frozen=True, slots=True)
class WithinMoves:
    """The best plan found that moves no more than a number of jobs.

    Parameters
    ----------
    allowed
        Jobs that may migrate or be preempted, together.
    point
        The plan, of the round that the placement leads to.
    terms
        The terms that are bounded for all plans with so many moves: the first one, and later ones
        as long as the plan is the one that was solved for.
    """

    allowed: int
    point: MovePoint
    terms: tuple[TermResult, ...]


def has_moves(round_: Round) -> bool:
    """Whether the plans of a round can be cut into stages.

    Those of policy `gang` can, without cells and backfilling, by which jobs have to start at once.
    """
    return (
        round_.policy.spec is GANG
        and round_.policy.backfill is None
        and not any(tenant.cells for tenant in round_.tenants)
    )


class Moves:
    """The moves that improve a valid placement of a round of policy `gang`.

    Parameters
    ----------
    round_, plan
        A round and a plan that `verify` accepts for it.
    time_limit, backend, isolation
        As for `solve_round`, of each search; so long points of the curve are looked for, too.
    """

    def __init__(
        self,
        round_: Round,
        plan: Plan,
        *,
        time_limit: float | None = None,
        backend: str = "auto",
        isolation: Isolation = "auto",
    ) -> None:
        valid = round_.valid_part()
        # What moves buy is asked: all jobs keep their size.
        policy = valid.policy.model_copy(update={"keep_sizes": True})
        valid = valid.model_copy(update={"policy": policy})
        self.round = _with_disruption(
            apply_plan(valid, plan.without_jobs(round_.invalid), restart_s={})
        )
        self._time_limit, self._backend, self._isolation = time_limit, backend, isolation

    @cached_property
    def curve(self) -> MoveCurve:
        """The curve, of the best plan found without a limit on moves."""
        with no_collection():
            return self._curve(self._unlimited)

    def _curve(self, solved: Plan) -> MoveCurve:
        settings = Settings.of(self.round, time_limit=self._time_limit)
        seconds = inf if settings.deterministic else max(settings.seconds, LEAST_SECONDS)
        prefixes = Prefixes(self.round, solved, seconds=seconds)
        results = () if solved.certificate is None else solved.certificate.terms
        some: list[MovePoint | None] = [prefixes.placement]
        for stage in _coarse_first(sorted(_spread(prefixes.last_stages, MOST_POINTS))):
            if prefixes.expired:
                break
            some.append(prefixes.point(stage))
        points = prefixes.rising([*some, prefixes.whole])
        term = next((t for t, v in points[-1].terms.items() if v != points[0].terms[t]), None)
        if term is None:
            return MoveCurve(self.round, tuple(points), (), results)
        curve = MoveCurve(self.round, tuple(points), prefixes.stages, results, term)
        for share in SHARES:
            points = prefixes.rising([*points, *_refine(prefixes, curve, share)])
        return replace(curve, points=tuple(points))

    def within(self, allowed: int) -> WithinMoves:
        """Return the best plan found that migrates and preempts at most so many jobs together.

        That is the best of the plan found under a budget of so many moves, cut where it has more,
        and of what is known of the curve.
        """
        solved = self._solve(_within(self.round, allowed))
        cut = Prefixes(self.round, solved, allowed)
        found = [cut.whole] if cut.whole.moves <= allowed else [cut.best()]
        if "curve" in self.__dict__:
            found += [point for point in self.curve.points if point.moves <= allowed]
            found.append(Prefixes(self.round, self._unlimited, allowed).best())
        best = found[0]
        for other in found[1:]:
            best = other if better(other.terms, best.terms, tuple(best.terms)) else best
        results = () if solved.certificate is None else solved.certificate.terms
        kept = results if best.terms == cut.whole.terms else results[:1]
        return WithinMoves(allowed, best, kept)

    @cached_property
    def _unlimited(self) -> Plan:
        return self._solve(self.round)

    def _solve(self, round_: Round) -> Plan:
        return solve_round(
            round_,
            time_limit=self._time_limit,
            backend=self._backend,
            isolation=self._isolation,
        )


def _rising(points: Sequence[MovePoint | None]) -> list[MovePoint]:
    """Return those points, by moves, that are better than all with as many moves or fewer."""
    found: list[MovePoint] = []
    for point in sorted((p for p in points if p is not None), key=lambda p: p.moves):
        if not found:
            found.append(point)
        elif better(point.terms, found[-1].terms, tuple(point.terms)):
            if found[-1].moves == point.moves and len(found) > 1:
                found.pop()
            found.append(point)
    return found


def _refine(prefixes: Prefixes, curve: MoveCurve, share: float) -> Iterator[MovePoint]:
    """Yield points with fewer moves that have a share of the curve's gain, by bisection."""
    goal = share * curve.gain(curve.points[-1])
    first = curve.first_with(share)
    low = max((p.moves for p in curve.points if curve.gain(p) < goal), default=-1)
    between = [i for i in prefixes.last_stages if low < prefixes.moved[i] < first.moves]
    while between and not prefixes.expired:
        middle = between[len(between) // 2]
        point = prefixes.point(middle)
        if point is not None:
            yield point
        if point is not None and curve.gain(point) >= goal:
            between = between[: len(between) // 2]
        else:
            between = between[len(between) // 2 + 1 :]


def _spread(stages: Sequence[int], most: int) -> set[int]:
    """Return all stages, or so many at even distances, the first and the last among them."""
    if len(stages) <= most:
        return set(stages)
    return {stages[k * (len(stages) - 1) // (most - 1)] for k in range(most)}


def _coarse_first(stages: Sequence[int]) -> list[int]:
    """Return stages in an order in which the first ones are spread: that of reversed bits."""
    bits = len(stages).bit_length()
    places = sorted(range(len(stages)), key=lambda k: f"{k:0{bits}b}"[::-1])
    return [stages[k] for k in places]


def _with_disruption(round_: Round) -> Round:
    """Return a round in which no job moves for nothing: `disruption` is a term, the last if new."""
    terms = round_.policy.terms
    if DISRUPTION in terms:
        return round_
    policy = round_.policy.model_copy(update={"terms": (*terms, DISRUPTION)})
    return round_.model_copy(update={"policy": policy})


def _within(round_: Round, allowed: int) -> Round:
    """Return a round with a disruption budget of so many migrated and so many preempted jobs."""
    limits = round_.policy.limits or PolicyLimits()
    budget = limits.disruption or DisruptionLimits()

    def least(known: int | None) -> int:
        return allowed if known is None else min(known, allowed)

    budget = budget.model_copy(
        update={
            "migrated_jobs": least(budget.migrated_jobs),
            "preempted_jobs": least(budget.preempted_jobs),
        }
    )
    limits = limits.model_copy(update={"disruption": budget})
    policy = round_.policy.model_copy(update={"limits": limits})
    return round_.model_copy(update={"policy": policy})
