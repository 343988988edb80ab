"""Fragmentation gradient descent (Weng et al., ATC 2023, 4.3), then ruin and recreate.

The first pass inserts task by task, in the order of the round, where `stranded` grows least (FGD).
Then a few random tasks at a time are removed and inserted in another order (Schrimpf et al. 2000);
that is kept if the terms are no worse. Only one-task jobs take part; others are where the greedy
has them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from placewright.formulations.gang import parameters
from placewright.formulations.gang.heuristics.fragmentation_increase import (
    FragmentationIncreases,
    TaskSlots,
)
from placewright.formulations.gang.heuristics.stopping import close_enough
from placewright.formulations.gang.placement.assignment import assign
from placewright.formulations.gang.placement.disruption_budget import repair_disruptions
from placewright.formulations.gang.placement.greedy import fill_greedily
from placewright.formulations.gang.placement.placement import Placement
from placewright.formulations.gang.problem.jobs import JobClass, TaskPlacement
from placewright.formulations.gang.problem.problem import Problem
from placewright.formulations.gang.problem.task_mix import STRANDED, TaskMix
from placewright.formulations.gang.problem.terms import VALUE
from placewright.formulations.plan_messages import Candidate
from placewright.formulations.session import Session


@dataclass(slots=True)
class _Task:
    """A job of one task that waits, or is somewhere with one of its choices."""

    job_class: int
    choice: int = 0
    slots: TaskSlots | None = None


def search_fragmentation(problem: Problem, session: Session) -> Iterator[Candidate]:
    """Yield one plan, if any job takes part."""
    if not any(_is_movable(problem, job_class) for job_class in problem.classes):
        return
    placement = Placement(problem)
    fill_greedily(placement)
    for number, start in list(placement.changed()):
        if _is_movable(problem, problem.classes[start.job_class]):
            placement.stop(number)
    search = _Search(placement)
    search.construct()
    search.improve(session)
    search.apply()
    alone = len(problem.terms) == 2 and problem.terms[0] == VALUE
    last = alone and close_enough(problem, session, placement)
    repair_disruptions(placement)
    yield assign(placement, "stranding least", final=last)


def _is_movable(problem: Problem, job_class: JobClass) -> bool:
    """Whether jobs of a class wait, and are single tasks that share GPUs by milli-GPU alone."""
    return not job_class.running and all(
        choice.is_single_task
        and not choice.pooled
        and not _uses_mig_or_memory(problem, choice.groups[0].shape)
        for choice in job_class.choices
    )


def _uses_mig_or_memory(problem: Problem, shape: int) -> bool:
    sharing = problem.part_demands
    return sharing is not None and bool(sharing.is_slice[shape] or sharing.memory[shape])


class _Search:
    """The tasks that take part, on what `placement` leaves free."""

    def __init__(self, placement: Placement) -> None:
        self._placement, self._problem = placement, placement.problem
        problem = self._problem
        classes = problem.classes
        numbered = sorted(
            (job, c)
            for c, job_class in enumerate(classes)
            if _is_movable(problem, job_class)
            for job in job_class.jobs
        )
        self._tasks = [_Task(c) for _, c in numbered]
        mine = {c for _, c in numbered}
        self._choices = {
            c: sorted(range(len(classes[c].choices)), key=lambda o: -classes[c].choices[o].value)
            for c in mine
        }
        shapes = sorted({choice.groups[0].shape for c in mine for choice in classes[c].choices})
        self._at = {shape: i for i, shape in enumerate(shapes)}
        self._increases = FragmentationIncreases(
            placement, TaskMix.of(problem), np.array(shapes, dtype=np.int64)
        )
        self._quota = placement.quota_left()
        self._value = 0
        self._ranks = [term for term in problem.weighted_terms if term in (VALUE, STRANDED)]

    def construct(self) -> None:
        """Put the tasks down in the order of the round."""
        for task in self._tasks:
            self._insert(task)

    def improve(self, session: Session) -> None:
        """Take up and put down tasks while there is time."""
        if len(self._tasks) < 2:
            return
        rng = np.random.default_rng(session.seed)
        tuning = parameters.PARAMETERS.neighbourhood
        reserve = (1 - tuning.ruin_share) * session.remaining()
        best = self._score()
        for _ in range(min(tuning.num_ruins_per_task * len(self._tasks), tuning.max_ruins)):
            if session.expired(reserve):
                break
            number = int(rng.integers(1, min(tuning.max_ruined_tasks, len(self._tasks)) + 1))
            taken = [self._tasks[i] for i in rng.choice(len(self._tasks), number, replace=False)]
            before = [(task, task.choice, task.slots) for task in taken]
            for task in taken:
                self._remove(task)
            for i in rng.permutation(number):
                self._insert(taken[i])
            score = self._score()
            if score >= best:
                best = score
                continue
            for task in taken:
                self._remove(task)
            for task, choice, slots in before:
                if slots is not None:
                    self._occupy(task, choice, slots)

    def _score(self) -> tuple[int, ...]:
        """Return what counts, most important first; more is better."""
        scores = {VALUE: self._value, STRANDED: -int(self._increases.now.sum())}
        return tuple(scores[term] for term in self._ranks)

    def _insert(self, task: _Task) -> None:
        """Start a waiting task where it strands least, with the choice of most value that fits."""
        problem = self._problem
        job_class = problem.classes[task.job_class]
        for o in self._choices[task.job_class]:
            choice = job_class.choices[o]
            shape = self._at[choice.groups[0].shape]
            slots = self._increases.best(shape)
            if slots is None or not problem.within_quota(self._quota, job_class.accounts, choice):
                continue
            if self._ranks[0] == STRANDED and self._increases.least[shape, slots.host] > 0:
                continue
            self._occupy(task, o, slots)
            return

    def _occupy(self, task: _Task, choice: int, slots: TaskSlots) -> None:
        task.choice, task.slots = choice, slots
        self._increases.put(self._at[self._shape(task)], slots)
        self._count(task, 1)

    def _remove(self, task: _Task) -> None:
        if task.slots is not None:
            self._increases.lift(self._at[self._shape(task)], task.slots)
            self._count(task, -1)
            task.slots = None

    def _shape(self, task: _Task) -> int:
        """Return the shape of a task."""
        return self._problem.classes[task.job_class].choices[task.choice].groups[0].shape

    def _count(self, task: _Task, times: int) -> None:
        job_class = self._problem.classes[task.job_class]
        choice = job_class.choices[task.choice]
        self._value += times * choice.value
        self._problem.charge_quota(self._quota, job_class.accounts, choice, times)

    def apply(self) -> None:
        """Start the tasks where they are, and run the greedy for the others."""
        placement, problem = self._placement, self._problem
        order = np.argsort(placement.partial_free, axis=1)
        partial = np.take_along_axis(placement.partial_free, order, axis=1)
        named = {(h, j): int(order[h, j]) for h, j in np.argwhere(partial > 0).tolist()}
        for task in self._tasks:
            if task.slots is None:
                continue
            shape, (host, slots) = self._shape(task), task.slots
            gpus: tuple[int, ...] = ()
            if problem.is_share[shape]:
                slot = (host, slots[0])
                if slot not in named:
                    named[slot] = placement.free_gpu_ids(host)[0]
                gpus = (named[slot],)
                placement.hold(shape, host, gpus)
                placement.arrivals[host, problem.shape_rank[shape]] += 1
            else:
                placement.put(shape, host)
            placement.start(task.job_class, task.choice, [TaskPlacement(0, host, 1, gpus)])
        fill_greedily(placement)
