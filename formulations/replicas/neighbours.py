"""Large-neighbourhood search: parts of a draft decided anew by an exact model, over and over.

A part is either what happens in a few regions (workloads and groups go only where they are or into
one of these), or some groups that have readers in common, with all who read them. Parts that cost
much are drawn more often, and a part grows where models are solved with time to spare.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from placewright.formulations.replicas.draft import Draft
from placewright.formulations.replicas.model import Part, PartModel
from placewright.formulations.replicas.problem import Problem
from placewright.formulations.session import HOLD_SLACK, Session
from placewright.formulations.wan.compile import Bools, Ints

SECONDS = 8.0
"""Most time for one part."""

FIRST, LEAST, MOST = 60, 12, 4000
"""Workloads of a part: at first, and never fewer or more."""

WORTH = {"overload": 10.0, "remote_reads": 16.0, "copies": 1.0}
"""What terms count within a part. A draft is kept only if it is better term by term."""

IDLE = 40
"""Parts without success after which the search gives up, if nothing grows any more."""


class Neighbours:
    """A search from a draft; `draft` is the best so far."""

    def __init__(self, problem: Problem, session: Session, draft: Draft) -> None:
        self.problem, self.session, self.draft = problem, session, draft
        self._may_hold = problem.may_hold.copy()
        self._random = np.random.default_rng(session.seed)
        self._size = {kind: float(FIRST) for kind in ("regions", "groups")}
        self._readers = _rows(problem.read_group, problem.read_workload, problem.groups)
        self._reads = _rows(problem.read_workload, problem.read_group, problem.workloads)

    def learn(self, draft: Draft, refused: Bools) -> None:
        """Go on from a draft that can be carried, without copies that were refused."""
        self.draft = draft
        self._may_hold &= ~refused

    def steps(self) -> Iterator[bool]:
        """Yield after each part whether the draft became better, until nothing helps any more."""
        idle = 0
        while idle < IDLE:
            alone = self._random.random() < 0.5 or not self.problem.groups
            kind = "regions" if alone else "groups"
            part = self._regions() if kind == "regions" else self._groups()
            better, solved = self._solve(part)
            self._size[kind] = float(
                np.clip(self._size[kind] * (1.15 if solved else 0.7), LEAST, MOST)
            )
            idle = 0 if better or solved else idle + 1
            yield better

    def _solve(self, part: Part) -> tuple[bool, bool]:
        """Return whether a part became better, and whether its model was solved to the end."""
        problem, before = self.problem, self.draft.rank(self.problem)
        held = PartModel(problem, part, self.draft, ())
        model = held.model
        for name, worth in WORTH.items():
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
        model.hold("overload", before[0], HOLD_SLACK)
        outcome = self.session.optimise(
            model.arrays("all"), most=SECONDS, gap=1e-3, start=held.point(self.draft)
        )
        if outcome is None or outcome.values is None:
            return False, False
        found = held.draft(outcome.values).trimmed(problem)
        solved = outcome.status == "optimal"
        if found.rank(problem) < before:
            self.draft = found
            return True, solved
        return False, solved

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
