"""Strict priority: the priority classes by which `weighted_throughput` is written out.

A class holds the jobs of one precedence, and counts the throughput of those that are placed after
the round; a pinned job counts in none, as its throughput is given.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from placewright.formulations.common.priority_classes import (
    Precedence,
    PriorityClass,
    class_terms,
    classes_by_precedence,
    lexicographic_weights,
    precedence_of,
)
from placewright.instances.derived.speed import speed
from placewright.instances.documents.job import Job
from placewright.instances.documents.round import Round

TERM = "weighted_throughput"


def priority_classes(round_: Round) -> tuple[PriorityClass, ...]:
    """Return the classes of a round, highest first; () where the term stays one."""
    if TERM not in round_.policy.by_class:
        return ()
    jobs = round_.jobs
    return classes_by_precedence(enumerate(jobs), _worth, lambda j, _: precedence_of(jobs[j]))


def jobs_of_class(round_: Round, one: PriorityClass) -> list[Job]:
    """Return the jobs that count in a class."""
    return [
        job
        for job in round_.jobs
        if precedence_of(job) in one.precedences and not (job.running and job.running.pinned)
    ]


@dataclass(frozen=True, slots=True)
class Priorities:
    """The priority classes of the objective; none where it is one term.

    Attributes
    ----------
    terms : tuple of str
        What the objective stands for, highest class first.
    weights : tuple of int
        With which a sum over these terms is nearly lexicographic.
    """

    classes: tuple[PriorityClass, ...]
    terms: tuple[str, ...]
    weights: tuple[int, ...]
    _numbers: Mapping[Precedence, int]

    @classmethod
    def of(cls, round_: Round, objective: str) -> Priorities:
        """Return the priority classes of a round with this objective."""
        classes = priority_classes(round_) if objective == TERM else ()
        if not classes:
            return cls((), (objective,), (1,), {})
        numbers = {level: k for k, one in enumerate(classes) for level in one.precedences}
        densities: defaultdict[int, list[float]] = defaultdict(list)
        for job in round_.jobs:
            k = numbers.get(precedence_of(job))
            for o, option in enumerate(job.options):
                if k is not None and option.milli_gpu and _worth(job, o):
                    densities[k].append(_worth(job, o) / option.milli_gpu)
        weights = lexicographic_weights(classes, densities)
        return cls(classes, class_terms(objective, len(classes)), weights, numbers)

    def number_of(self, job: Job) -> int:
        """Return the class of a job; 0 of one that is in none."""
        return self._numbers.get(precedence_of(job), 0)

    def counts(self, job: Job) -> bool:
        """Whether a job counts in its class: no pinned one does, where there are classes."""
        return not self.classes or job.running is None or not job.running.pinned


def _worth(job: Job, option: int) -> int:
    """Return what a job on its own adds with an option."""
    return job.weight * speed(job, option)
