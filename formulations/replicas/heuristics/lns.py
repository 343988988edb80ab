"""Large-neighbourhood search: parts of a draft decided anew by an exact model, over and over.

A part is one of four kinds. `regions` is what happens in a few of them: workloads and groups go
only where they are or into one of these. `groups` are some that have readers in common, with all
who read them. The other two free all homes, but only some groups: large ones more often than small
ones (`sizes`), or those of which most GiB are elsewhere in an optimum of the relaxation, which may
then be where the draft or that optimum has them (`relaxed`). As other replicas stay, homes are few,
and jobs make room for each other all over the world. Parts that cost much are drawn more often, and
a part grows where models are solved with time to spare.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from placewright.formulations.common.wan.arrays import Bools, Ints
from placewright.formulations.replicas.bounds.minimum_remote_reads import frugal_homes
from placewright.formulations.replicas.models.mip import Part, PartModel, everything
from placewright.formulations.replicas.problem.overload_curve import least_of_all, unit_of
from placewright.formulations.replicas.problem.problem import Problem
from placewright.formulations.replicas.solution import Draft
from placewright.formulations.session import HOLD_SLACK, SHARPNESS, Session
from placewright.solver.arrays import Floats

SECONDS = 8.0
"""Most time for one part."""

GAP = 1e-3
"""Relative gap of what is copied at which a part counts as solved."""

FIRST = {"regions": 60, "groups": 60, "sizes": 30, "relaxed": 30}
"""Workloads, in the last two kinds groups, of a part at first."""

OFTEN = {"regions": 1, "groups": 1, "sizes": 2, "relaxed": 3}
"""How often parts of a kind are drawn beside others."""

LEAST, MOST = 12, 4000
"""Of these never fewer or more."""

SOME = 0.02
"""So much of a replica in the relaxation is a place where it may be."""

WORTH = {"overload": 10.0, "remote_reads": 16.0, "copies": 1.0}
"""What terms count within a part. A draft is kept only if it is better term by term."""

IDLE = 40
"""Parts without success after which the search gives up, if nothing grows any more."""


class Neighbours:
    """A search from a draft; `draft` is the best so far.

    Parameters
    ----------
    relaxed
        (groups, regions): replicas in an optimum of the relaxation; None if it is not known.
    """

    def __init__(
        self, problem: Problem, session: Session, draft: Draft, relaxed: Floats | None
    ) -> None:
        self.problem, self.session, self.draft = problem, session, draft
        self._may_hold = problem.may_hold.copy()
        self._frugally, self._unavoidable = frugal_homes(problem)
        unit, asked = unit_of(problem.demand), problem.count * problem.demand
        self._least, self._fewest = least_of_all(problem.supply, unit, asked, problem.homeless)
        self._random = np.random.default_rng(session.seed)
        self._relaxed = relaxed
        self._size = {
            kind: float(size)
            for kind, size in FIRST.items()
            if relaxed is not None or kind != "relaxed"
        }
        self._readers = _rows(problem.read_group, problem.read_workload, problem.groups)
        self._reads = _rows(problem.read_workload, problem.read_group, problem.workloads)

    def learn(self, draft: Draft, refused: Bools) -> None:
        """Go on from a draft that can be carried, without copies that were refused."""
        self.draft = draft
        self._may_hold &= ~refused

    def steps(self, reserve: float) -> Iterator[bool]:
        """Yield after each part whether the draft became better, until nothing helps any more.

        A part ends when so many seconds are left.
        """
        idle = 0
        while idle < IDLE:
            often = np.array([OFTEN[kind] for kind in self._size])
            kind = str(self._random.choice(list(self._size), p=often / often.sum()))
            part = self._part(kind if self.problem.groups else "regions")
            seconds = max(0.0, self.session.remaining() - reserve)
            better, solved = self._solve(part, min(SECONDS, seconds))
            self._size[kind] = float(
                np.clip(self._size[kind] * (1.15 if solved else 0.7), LEAST, MOST)
            )
            idle = 0 if better or solved else idle + 1
            yield better

    def cross(self, replicas: Bools, seconds: float) -> bool:
        """Decide anew all in which other replicas differ; return whether the draft became better.

        These are (groups, regions). Groups may be where one of the two has them, or where they are
        today: so few places that a model of all differences is soon solved.
        """
        if not self.problem.groups:
            return False
        return self._solve_whole(self._everywhere(replicas.astype(np.float64), np.inf), seconds)

    def choose(self, replicas: Bools, seconds: float) -> Draft | None:
        """Decide all anew, with replicas among these (groups, regions) only; None if time is over.

        Without those of the draft, which are no use where both are far apart. Where no remote reads
        are to be saved, overload has a price, as whole jobs may not fit where shares of them do: so
        what is found need not be better than the draft, but is near to plans that are.
        """
        part, over = self._within(replicas), self.draft.rank(self.problem)[0]
        priced = part.frugal or not over
        return self._decide(part, seconds, None if priced else over)[0]

    def fit(self, seconds: float) -> bool:
        """Decide all homes anew beside the replicas of the draft; return whether it became better.

        Few homes are left then, so jobs soon fit.
        """
        return self._solve_whole(self._within(self.draft.replicas), seconds)

    def _within(self, replicas: Bools) -> Part:
        """Return the part of all that these replicas (groups, regions) leave open.

        No more is read from afar than must be, if all jobs find homes so.
        """
        problem = self.problem
        homes = problem.may & self._beside(replicas, frugal=True)[:, :, None]
        frugal = bool((homes.any(axis=(1, 2)) | problem.homeless).all())
        homes = homes if frugal else problem.may
        return replace(everything(problem), homes=homes, holds=replicas, frugal=frugal)

    def _solve_whole(self, part: Part, seconds: float) -> bool:
        """Return whether a part in which all homes are free became better.

        Where the draft overloads more than the least, it is first tried whether that is enough,
        with half of the time: jobs soon fit, or are soon known not to.
        """
        until = self.session.remaining() - seconds
        over = self.draft.rank(self.problem)[0] > self._fewest
        if over and self._solve(part, seconds / 2, self._fewest)[0]:
            return True
        return self._solve(part, self.session.remaining() - until)[0]

    def _solve(self, part: Part, seconds: float, most: int | None = None) -> tuple[bool, bool]:
        """Return whether a part became better, and whether its model was solved to the end.

        It overloads `most` milli-GPU, None for as much as the draft.
        """
        before = self.draft.rank(self.problem)
        found, solved = self._decide(part, seconds, before[0] if most is None else most)
        if found is None or found.rank(self.problem) >= before:
            return False, solved
        self.draft = found
        return True, solved

    def _decide(self, part: Part, seconds: float, most: int | None) -> tuple[Draft | None, bool]:
        """Return a part decided anew, and whether its model was solved to the end.

        It overloads `most` milli-GPU, None for any number at a price. The draft is where it begins,
        if that is among what the part leaves open.
        """
        problem, draft, before = self.problem, self.draft, self.draft.rank(self.problem)
        if seconds <= 0:
            return None, False
        evenly = most is not None and most <= self._fewest
        held = PartModel(problem, part, draft, (), self._least if evenly else None)
        model = held.model
        paid = 0.0
        for (name, worth), value in zip(WORTH.items(), before, strict=True):
            if evenly and name == "overload":
                continue
            paid += worth * value
            arrays = model.arrays(name)
            used = np.flatnonzero(arrays.cost)
            model.term(
                "all",
                used,
                worth * arrays.cost[used],
                sense="min",
                constant=worth * arrays.constant,
            )
        if not before[0]:
            model.hold("remote_reads", before[1], HOLD_SLACK)
        if most is not None:
            model.hold("overload", most, HOLD_SLACK)
        # The gap is one of copies: other terms, often as they are, would make it wide.
        gap = GAP * max(SHARPNESS, before[2] / paid if paid else 1.0)
        closed = part.groups[:, None] & ~part.holds
        begins = most is not None and before[0] <= most and not (draft.replicas & closed).any()
        point = held.point(draft) if begins else None
        outcome = self.session.optimise(model.arrays("all"), most=seconds, gap=gap, start=point)
        if outcome is None or outcome.values is None:
            return None, False
        return held.draft(outcome.values).trimmed(problem), outcome.status == "optimal"

    @property
    def _frugal(self) -> bool:
        """Whether no job of the draft reads more from afar than it must."""
        return self.draft.rank(self.problem)[1] <= self._unavoidable

    def _part(self, kind: str) -> Part:
        if kind == "regions":
            return self._regions()
        if kind == "groups":
            return self._groups()
        return self._everywhere(self._relaxed if kind == "relaxed" else None, self._size[kind])

    def _everywhere(self, relaxed: Floats | None, number: float) -> Part:
        """Return so many groups with the homes of all jobs; in reach of a relaxation, if any."""
        problem, draft = self.problem, self.draft
        if relaxed is None:
            weight, holds = problem.size**0.5, self._may_hold | draft.replicas
        else:
            weight = problem.size * np.abs(draft.replicas - relaxed).sum(axis=1)
            holds = (self._may_hold & (relaxed > SOME)) | draft.replicas | problem.now
        weight = weight + 1e-3 * weight.mean() + 1e-9
        groups = np.zeros(problem.groups, dtype=np.bool_)
        groups[
            self._random.choice(
                problem.groups,
                int(min(problem.groups, number)),
                replace=False,
                p=weight / weight.sum(),
            )
        ] = True
        # Homes beside data that is there or may come, and those of today.
        found = np.where(groups[:, None], holds, draft.replicas)
        beside = self._beside(found, frugal=self._frugal)
        return Part(
            workloads=np.ones(problem.workloads, dtype=np.bool_),
            groups=groups,
            homes=problem.may & (beside[:, :, None] | (draft.jobs > 0)),
            holds=holds,
            frugal=self._frugal,
        )

    def _beside(self, replicas: Bools, *, frugal: bool) -> Bools:
        """Return where workloads have all their data (workloads, regions) with these replicas.

        All that can be there, if `frugal`: if none may read more from afar than it must.
        """
        problem, beside = self.problem, np.ones_like(self._frugally)
        if frugal:
            beside, replicas = self._frugally.copy(), replicas | ~problem.may_hold
        np.logical_and.at(beside, problem.read_workload, replicas[problem.read_group])
        return beside

    def _regions(self) -> Part:
        """Return a few regions, drawn by what is copied there, and all that is in them."""
        problem, draft = self.problem, self.draft
        new = (draft.replicas & ~problem.now).T.astype(np.int64) @ problem.size
        over = np.maximum(0, draft.demand(problem) - problem.supply).sum(axis=1)
        weight = new + 0.1 * new.mean() + 1.0 + WORTH["overload"] * over
        inside = np.zeros(problem.regions, dtype=np.bool_)
        number = draft.jobs.sum(axis=2) > 0
        for r in self._random.choice(
            problem.regions, problem.regions, replace=False, p=weight / weight.sum()
        ):
            inside[r] = True
            held = ~(number & ~inside).any(axis=1)
            if inside.sum() >= 2 and held.sum() > self._size["regions"]:
                break
        free = number[:, inside].any(axis=1) & ~(number & ~inside).any(axis=1)
        groups = np.ones(problem.groups, dtype=np.bool_)
        return Part(
            workloads=free,
            groups=groups,
            homes=problem.may & (inside[:, None] | (draft.jobs > 0)),
            holds=(self._may_hold & inside) | draft.replicas,
        )

    def _groups(self) -> Part:
        """Return groups connected by readers, from one that is copied, with all who read them."""
        problem, draft = self.problem, self.draft
        cost = ((draft.replicas & ~problem.now) * problem.size[:, None]).sum(axis=1) ** 0.5
        cost += 0.1 * cost.mean() + 1.0
        groups = np.zeros(problem.groups, dtype=np.bool_)
        free = np.zeros(problem.workloads, dtype=np.bool_)
        order = self._random.choice(
            problem.groups, problem.groups, replace=False, p=cost / cost.sum()
        )
        waiting: list[int] = []
        for start in order.tolist():
            waiting.append(start)
            while waiting and free.sum() < self._size["groups"]:
                p = waiting.pop(int(self._random.integers(len(waiting))))
                if groups[p]:
                    continue
                groups[p] = True
                for w in self._readers[p].tolist():
                    if not free[w]:
                        free[w] = True
                        waiting += self._reads[w].tolist()
            if free.sum() >= self._size["groups"]:
                break
        return Part(
            workloads=free,
            groups=groups,
            homes=problem.may,
            holds=(self._may_hold | draft.replicas),
        )


def _rows(keys: Ints, values: Ints, count: int) -> list[Ints]:
    """Return the values of each key."""
    order = np.argsort(keys, kind="stable")
    return np.split(values[order], np.searchsorted(keys[order], np.arange(1, count)))
