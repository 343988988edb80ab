"""Strict priority: the priority classes of a round, by which a term is written out.

A **priority class** holds the jobs of one precedence. Where the jobs that compete in a term,
pending ones and running ones that may stop or move, have several precedences, the term is written
out: `value_1` counts the jobs of the highest precedence, `value_2` those of the next. So a job that
starts nowhere adds a class of its own at most, and the others are decided as without it.

No more than `MAX_CLASSES`: while there are more, the two neighbours of least weight are merged (the
weight of a class is what its jobs are worth; of equal pairs the lowest).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import add
from typing import NamedTuple

from placewright.formulations.plan_messages import SHARPNESS
from placewright.formulations.session import Session
from placewright.instances.documents.job import Job

MAX_CLASSES = 8

MAX_RATIO = 64
"""By how much a GPU of a class outweighs one of the next class in a weighted sum, at most."""

MAX_WEIGHTED_SUM = 1 << 50
"""Above this a weighted sum is no longer exact in floating point."""


class Precedence(NamedTuple):
    """What orders jobs: the tenant's cells are for them, they are entitled, their priority."""

    cells: bool
    entitled: bool
    priority: int


@dataclass(frozen=True, slots=True)
class PriorityClass:
    """A priority class; it has several precedences where neighbours were merged."""

    precedences: tuple[Precedence, ...]  # Highest first
    # pending, running: Value of the best options of its pending jobs, and of its running jobs that
    # may stop.
    pending: int
    running: int

    @property
    def asked(self) -> int:
        """The value that gaps are relative to: of its pending jobs, else of its running ones."""
        return self.pending or self.running


def precedence_of(job: Job) -> Precedence:
    """Return the precedence of a job where no tenant has cells or a guarantee."""
    return Precedence(cells=False, entitled=not job.opportunistic, priority=job.priority)


def classes_by_precedence(
    jobs: Iterable[tuple[int, Job]],
    worth: Callable[[Job, int], int],
    precedence: Callable[[int, int], Precedence],
    *,
    pinned: bool = False,
    offered: Callable[[Job], Iterable[int]] | None = None,
) -> tuple[PriorityClass, ...]:
    """Return the classes of some jobs, highest first; () where the term stays one.

    `jobs`: the jobs that count in the term, with their indices in the round. `worth`: what a job
    with an option is worth. `precedence`: the precedence of a job, by index, with an option.
    `pinned`: whether pinned jobs count, too. `offered`: the options that a job may have; by default
    a running job has its own alone.
    """
    pending, running = Counter[Precedence](), Counter[Precedence]()
    for j, job in jobs:
        if job.running is not None and job.running.pinned and not pinned:
            continue
        best: dict[Precedence, int] = {}
        for o in job.offered(resizes=False) if offered is None else offered(job):
            level = precedence(j, o)
            best[level] = max(best.get(level, 0), worth(job, o))
        counts = pending if job.running is None else running
        for level, value in best.items():
            counts[level] += value
    levels = sorted({*pending, *running}, reverse=True)
    if len(levels) < 2:
        return ()
    return _merged([PriorityClass((level,), pending[level], running[level]) for level in levels])


def _merged(classes: list[PriorityClass]) -> tuple[PriorityClass, ...]:
    """Merge neighbours of least weight until there are no more than `MAX_CLASSES`."""
    weight = [one.pending + one.running for one in classes]
    while len(classes) > MAX_CLASSES:
        both = list(map(add, weight, weight[1:]))
        at = len(both) - 1 - both[::-1].index(min(both))
        weight[at : at + 2] = [both[at]]
        first, second = classes[at : at + 2]
        classes[at : at + 2] = [
            PriorityClass(
                first.precedences + second.precedences,
                first.pending + second.pending,
                first.running + second.running,
            )
        ]
    return tuple(classes)


def class_terms(term: str, classes: int = MAX_CLASSES) -> tuple[str, ...]:
    """Return what a term stands for where it is decided class by class, highest first."""
    return tuple(f"{term}_{k}" for k in range(1, classes + 1))


def classes_by_term(term: str, classes: Sequence[PriorityClass]) -> dict[str, PriorityClass]:
    """Return the classes by the terms that a term stands for."""
    return dict(zip(class_terms(term), classes, strict=False))


def write_out_terms(terms: Sequence[str], classes: Mapping[str, int]) -> tuple[str, ...]:
    """Replace each term by one per priority class; those without classes stay."""
    return tuple(
        name for term in terms for name in (class_terms(term, classes.get(term, 0)) or (term,))
    )


def lexicographic_weights(
    classes: Sequence[PriorityClass], densities: Mapping[int, Sequence[float]]
) -> tuple[int, ...]:
    """Return weights with which a sum over classes is nearly lexicographic.

    A class outweighs all lower ones together if `MAX_RATIO` and `MAX_WEIGHTED_SUM` allow that; else
    the ratio of neighbouring weights is as large as they allow.
    `densities`: for each class the values per GPU of its jobs; one that is missing counts as 1.
    """
    total = [one.pending + one.running for one in classes]
    most = (MAX_WEIGHTED_SUM / max(sum(total), 1)) ** (1 / (len(classes) - 1))
    weights = [1]
    for k in reversed(range(len(classes) - 1)):
        above, below = densities.get(k, [1.0]), densities.get(k + 1, [1.0])
        enough = sum(w * t for w, t in zip(weights, total[k + 1 :], strict=True)) + 1
        ratio = min(MAX_RATIO * max(max(below) / min(above), 1.0), most)
        weights.insert(0, max(min(enough, int(weights[0] * ratio)), weights[0]))
    return tuple(weights)


def classes_close_enough(
    session: Session,
    values: Mapping[str, int],
    classes: Mapping[str, PriorityClass],
    gap: float | None = None,
) -> bool:
    """Whether the value of each priority class is proven within a gap, of what it asks.

    Bounds of lower classes hold for plans no worse in the higher ones than the best; of a plan that
    is worse there, a higher class is not proven.
    """
    bounds = session.best_known.bounds
    gap = max(session.gap, SHARPNESS) if gap is None else gap
    return all(
        term in bounds and bounds[term] - values[term] <= gap * one.asked
        for term, one in classes.items()
    )
