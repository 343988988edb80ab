"""Ruin and recreate: by the gradient of fragmentation, or by an exact model of a few hosts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from placewright.array_types import Ints
from placewright.formulations.gang import parameters
from placewright.formulations.gang.heuristics.search import close_enough
from placewright.formulations.gang.models.host.model import build_host_model
from placewright.formulations.gang.models.host.preemption import close_hosts_of_victims
from placewright.formulations.gang.models.host.rows import (
    add_disruption_budget,
    add_gpus,
    add_pools,
)
from placewright.formulations.gang.models.host.solve import start_jobs
from placewright.formulations.gang.models.host.terms import add_value
from placewright.formulations.gang.placement.assignment import assign
from placewright.formulations.gang.placement.disruption_budget import complete, repair_disruptions
from placewright.formulations.gang.placement.greedy import fill_greedily, upgrade_options
from placewright.formulations.gang.placement.placement import Placement
from placewright.formulations.gang.problem.jobs import (
    ANY_JOB,
    Choice,
    JobClass,
    JobPlacement,
    TaskPlacement,
)
from placewright.formulations.gang.problem.limits import VALUE
from placewright.formulations.gang.problem.problem import Problem
from placewright.formulations.gang.problem.terms import STRANDED, TaskMix
from placewright.formulations.plan_messages import HOLD_SLACK, Candidate
from placewright.formulations.session import Session
from placewright.topology.units import WHOLE_GPU

# Increase of fragmentation: by how much `stranded` grows per task shape and host.
#
# GPUs of a host are anonymous slots: its free GPUs when the table is made. A task changes one host,
# so one column is recomputed after each; hosts in equal states share a cached column.


NO_FIT = 1 << 60
"""Increase where a task of the shape does not fit."""


class TaskSlots(NamedTuple):
    """Where a task is: its host, and its slots there."""

    host: int
    slots: tuple[int, ...]


class _Column(NamedTuple):
    """Of one host: increase and sorted position of the GPU per shape, and `stranded` as it is."""

    least: Ints
    position: Ints
    now: int


class FragmentationIncreases:
    """What is free on the hosts, and the least increase of `stranded` per shape and host.

    Parameters
    ----------
    placement
        What is taken already.
    shapes : int64 (wanted,)
        Distinct shapes of the tasks that are to be placed.

    Attributes
    ----------
    least : int64 (wanted, hosts)
        Least increase, `NO_FIT` where it does not fit.
    now : int64 (hosts,)
        What is stranded, 0 on hosts where nothing may arrive.
    """

    def __init__(self, placement: Placement, mix: TaskMix, shapes: Ints) -> None:
        problem = placement.problem
        self._mix, self._gpu = mix, problem.shape_gpu[shapes]
        self._demand = problem.shape_demand[shapes]
        self._demands, demand_of = np.unique(self._demand, axis=0, return_inverse=True)
        self._demand_of = demand_of.ravel()
        self._share = np.flatnonzero((self._gpu > 0) & (self._gpu < WHOLE_GPU))
        self._fractions, self._fraction_of = np.unique(self._gpu[self._share], return_inverse=True)
        self._whole = np.setdiff1d(np.arange(len(shapes)), self._share)
        self._counts, self._count_of = np.unique(
            self._gpu[self._whole] // WHOLE_GPU, return_inverse=True
        )
        self._may = problem.shape_hosts[shapes] & (
            placement.least_rank <= problem.shape_rank[shapes][:, None]
        )
        self._model = problem.cluster.gpu_model.astype(np.int64)
        self.free, self.gpus = placement.free.copy(), placement.arrivable_milli_gpu()
        self.least = np.full(self._may.shape, NO_FIT, dtype=np.int64)
        self._slot = np.zeros(self._may.shape, dtype=np.int64)
        self.now = np.zeros(self._may.shape[1], dtype=np.int64)
        self._columns: dict[tuple[int, bytes, bytes], _Column] = {}
        for host in np.flatnonzero(problem.open).tolist():
            self._refresh(host)

    def best(self, shape: int) -> TaskSlots | None:
        """Return where a task strands least; None if it fits nowhere."""
        host = int(self.least[shape].argmin())
        if self.least[shape, host] == NO_FIT:
            return None
        if shape in self._share:
            return TaskSlots(host, (int(self._slot[shape, host]),))
        free = np.flatnonzero(self.gpus[host] == WHOLE_GPU)
        return TaskSlots(host, tuple(free[: int(self._gpu[shape]) // WHOLE_GPU].tolist()))

    def put(self, shape: int, slots: TaskSlots) -> None:
        """Take what a task needs."""
        self._take(shape, slots, 1)

    def lift(self, shape: int, slots: TaskSlots) -> None:
        """Remove a task from its slots."""
        self._take(shape, slots, -1)

    def _take(self, shape: int, slots: TaskSlots, times: int) -> None:
        milli = min(int(self._gpu[shape]), WHOLE_GPU)
        for slot in slots.slots:
            self.gpus[slots.host, slot] -= times * milli
        self.free[slots.host] -= times * self._demand[shape]
        self._refresh(slots.host)

    def _refresh(self, host: int) -> None:
        order = np.argsort(self.gpus[host], kind="stable")
        free, gpus, model = self.free[host], self.gpus[host][order], int(self._model[host])
        key = (model, free.tobytes(), gpus.tobytes())
        column = self._columns.get(key)
        if column is None:
            if len(self._columns) >= parameters.PARAMETERS.neighbourhood.max_cached_columns:
                self._columns.clear()
            column = self._columns[key] = self._column(free, gpus, model)
        self.least[:, host] = np.where(self._may[:, host], column.least, NO_FIT)
        self._slot[:, host] = order[column.position]
        self.now[host] = column.now

    def _column(self, free: Ints, gpus: Ints, model: int) -> _Column:
        """Compute the column of a host; `gpus` ascend."""
        mix, sizes = self._mix, self._mix.sizes
        large = gpus >= sizes[:, None]
        counts, sums = large.sum(axis=1), large @ gpus
        # What is of no use to a kind now never will be.
        live = mix.allowed[model] & (counts[mix.size_of] >= mix.gpus)
        for r, left in enumerate(free.tolist()):
            live &= mix.demand[:, r] <= left
        kinds = np.flatnonzero(live)
        size_of, weight = mix.size_of[kinds], mix.weight[kinds]
        worth = int(sums[size_of] @ weight)
        counted, cut, changed_counts, changed_sums = self._patterns(gpus)
        each = (sums + changed_sums)[:, size_of]
        each[(counts + changed_counts)[:, size_of] < mix.gpus[kinds]] = 0
        after_free = free - self._demands
        fits = np.ones((len(after_free), len(kinds)), dtype=np.bool_)
        for r in range(len(free)):
            fits &= after_free[:, r, None] >= mix.demand[kinds, r]
        # Whole numbers far below 2 ** 53.
        after = np.full((len(after_free), len(each) + 1), -1.0)
        after[:, :-1] = (fits * weight.astype(np.float64)) @ each.T.astype(np.float64)
        after[(after_free < 0).any(axis=1)] = -1.0
        most, position = np.zeros(len(self._gpu)), np.zeros(len(self._gpu), dtype=np.int64)
        most[self._whole] = after[self._demand_of[self._whole], counted[self._count_of]]
        if len(self._share):
            choices = after[self._demand_of[self._share][:, None], cut[self._fraction_of]]
            position[self._share] = choices.argmax(axis=1)
            most[self._share] = choices.max(axis=1)
        least = worth - most.astype(np.int64) - mix.total * self._gpu
        least[most < 0] = NO_FIT
        return _Column(least, position, mix.total * int(gpus.sum()) - worth)

    def _patterns(self, gpus: Ints) -> tuple[Ints, Ints, Ints, Ints]:
        """Return which pattern the GPUs are left in by which task, and what patterns change.

        Returns
        -------
        counted : int64 (counts,)
            The pattern that each count of whole GPUs leaves; -1 for none.
        cut : int64 (fractions, GPUs)
            The pattern in which a GPU gives a fraction, at the first of equal GPUs; -1 for none.
        counts, sums : int64 (patterns, sizes)
            How many GPUs more have at least that size free, and how much more these have in all.
        """
        sizes = self._mix.sizes
        whole = int((gpus == WHOLE_GPU).sum())
        taken = self._counts[self._counts <= whole]
        first = np.ones(len(gpus), dtype=np.bool_)
        first[1:] = gpus[1:] > gpus[:-1]
        fraction, gpu = np.nonzero((gpus >= self._fractions[:, None]) & first)
        before = gpus[gpu][:, None]
        after = before - self._fractions[fraction][:, None]
        was, is_ = before >= sizes, after >= sizes
        lost = np.repeat(-taken[:, None], len(sizes), axis=1)
        counted = np.full(len(self._counts), -1, dtype=np.int64)
        counted[: len(taken)] = np.arange(len(taken))
        cut = np.full((len(self._fractions), len(gpus)), -1, dtype=np.int64)
        cut[fraction, gpu] = len(taken) + np.arange(len(gpu))
        return (
            counted,
            cut,
            np.concatenate([lost, is_.astype(np.int64) - was]),
            np.concatenate([lost * WHOLE_GPU, is_ * after - was * before]),
        )


# Fragmentation gradient descent (Weng et al., ATC 2023, 4.3), then ruin and recreate.
#
# The first pass inserts task by task, in the order of the round, where `stranded` grows least
# (FGD). Then a few random tasks at a time are removed and inserted in another order (Schrimpf et
# al. 2000); that is kept if the terms are no worse. Only one-task jobs take part; others are
# where the greedy has them.


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
        and not _is_particular(problem, choice.groups[0].shape)
        for choice in job_class.choices
    )


def _is_particular(problem: Problem, shape: int) -> bool:
    """Whether it matters to a task which of the GPUs that are free it has."""
    sharing, links = problem.part_demands, problem.link_demands
    if links is not None and links.required[shape]:
        return True
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
                placement.note_arrivals(shape, host, 1)
            else:
                placement.put(shape, host)
            placement.start(task.job_class, task.choice, [TaskPlacement(0, host, 1, gpus)])
        fill_greedily(placement)


# Large neighbourhood search (Shaw 1998): destroy a few hosts, repair by an exact model.
#
# Hosts are drawn at random, weighted by what a waiting job could gain there, all of one GPU model.
# Their one-task jobs are removed, and the host-indexed model (`models/host/`) decides who gets the
# hosts; a repair is kept if it is worth more.


Densities: TypeAlias = Mapping[tuple[int, int], tuple[float, int]]
"""Value per milli-GPU, and milli-GPU, of each class and choice of one task."""


def large_neighbourhood_search(
    problem: Problem, session: Session, placement: Placement
) -> Iterator[Candidate]:
    """Improve a placement's value until a limit or the gap is reached; yield improvements."""
    if problem.weighted_terms[0] != VALUE:
        return
    tuning = parameters.PARAMETERS.neighbourhood
    rng = np.random.default_rng(session.seed)
    densities = _densities(problem)
    failures, reported = 0, placement.value
    most = min(tuning.max_repair_seconds, tuning.repair_share * session.remaining())
    # Time for one more repair, and for the bounds of the later terms.
    while failures < tuning.max_failures and not session.expired(2 * most):
        hosts = _draw_hosts(problem, placement, densities, rng)
        if not len(hosts):
            break
        gained = _destroy_and_repair(problem, session, placement, hosts, most)
        failures = 0 if gained else failures + 1
        if close_enough(problem, session, placement):
            break
        if placement.value >= reported * (1 + tuning.reported_gain_rel):
            reported = placement.value
            repair_disruptions(placement)
            yield assign(placement, "repair")
    if placement.value > reported:
        upgrade_options(placement)
        repair_disruptions(placement)
        complete(placement)
        yield assign(placement, "repair")


def _draw_hosts(
    problem: Problem, placement: Placement, densities: Densities, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Draw hosts of one GPU model by what a waiting job of the highest density could win there."""
    gain = _potential_gain(problem, placement, densities)
    if not gain.any():
        return np.zeros(0, dtype=np.int64)
    first = rng.choice(len(gain), p=gain / gain.sum())
    model = problem.cluster.gpu_model
    same = (model == model[first]) & problem.shape_hosts.any(axis=0)
    same[first] = False
    others = np.flatnonzero(same)
    if not len(others):
        return np.array([first])
    # Hosts with nothing to win come in, too: a job may have to move there.
    weight = gain[others] + gain.mean()
    tuning = parameters.PARAMETERS.neighbourhood
    most = tuning.max_hosts if problem.part_demands is None else tuning.max_hosts_with_parts
    size = min(most - 1, len(others))
    drawn = rng.choice(others, size=size, replace=False, p=weight / weight.sum())
    return np.sort(np.append(drawn, first))


def _densities(problem: Problem) -> Densities:
    return {
        (c, o): (choice.value / max(choice.groups[0].milli_gpu, 1), choice.groups[0].milli_gpu)
        for c, job_class in enumerate(problem.classes)
        for o, choice in enumerate(job_class.choices)
        if choice.is_single_task
    }


def _potential_gain(
    problem: Problem, placement: Placement, densities: Densities
) -> NDArray[np.float64]:
    """Per host: free GPUs, and GPUs of less dense one-task jobs, times the density they lack."""
    waiting = [each for (c, _), (each, _) in densities.items() if placement.waiting[c]]
    densest = max(waiting, default=0.0)
    gain = placement.free_milli_gpu * densest
    for _, start in placement.started():
        known = densities.get((start.job_class, start.choice))
        if known is not None and known[0] < densest:
            gain[start.tasks[0].host] += (densest - known[0]) * known[1]
    return np.where(problem.shape_hosts.any(axis=0), gain, 0.0)


def _destroy_and_repair(
    problem: Problem,
    session: Session,
    placement: Placement,
    hosts: NDArray[np.int64],
    seconds: float,
) -> bool:
    """Refill the hosts if that raises the value; returns whether it did."""
    freed: list[JobPlacement] = []
    inside = set(hosts.tolist())
    for number, start in list(placement.started()):
        choice = problem.classes[start.job_class].choices[start.choice]
        if (
            start.tasks[0].host in inside
            and choice.is_single_task
            and _at_home(problem, start, inside)
        ):
            freed.append(start)
            placement.stop(number)
    # The model knows no GPUs that gangs were promised: where some are, who runs stays as it is.
    promised = {host for host in inside if placement.has_unnamed_gpus(host)}
    for start in [s for s in freed if s.job != ANY_JOB and _homes(problem, s.job) & promised]:
        freed.remove(start)
        placement.restart(start)
    jobs = [
        job
        for stopped in placement.stopped
        for job in stopped
        if _running_option(problem, job).is_single_task  # the model has no rows of levels
        and _homes(problem, job) <= inside - promised
        and placement.fits_in_place(job)
    ]
    before = sum(problem.classes[s.job_class].choices[s.choice].value for s in freed)
    before -= sum(_running_option(problem, j).value for j in jobs)
    with placement.without_rank_limits(jobs):
        numbers = _waiting_singles(problem, placement, hosts)
        exact = build_host_model(problem, placement, hosts, numbers, jobs)
        add_pools(exact)
        slots = add_gpus(exact)
        close_hosts_of_victims(exact)
        add_disruption_budget(exact)
        add_value(exact)
    exact.model.hold(VALUE, before + 1, HOLD_SLACK)
    tuning = parameters.PARAMETERS.neighbourhood
    outcome = session.optimise(exact.model.arrays(VALUE), most=seconds, gap=tuning.repair_gap_rel)
    if outcome is not None and outcome.values is not None:
        start_jobs(exact, slots, outcome.values, placement)
        return True
    for start in freed:
        placement.restart(start)
    return False


def _running_option(problem: Problem, job: int) -> Choice:
    return problem.classes[problem.running[job].job_class].choices[0]


def _at_home(problem: Problem, start: JobPlacement, hosts: set[int]) -> bool:
    """Whether a job, if it runs, runs on these hosts only."""
    return start.job == ANY_JOB or _homes(problem, start.job) <= hosts


def _homes(problem: Problem, job: int) -> set[int]:
    """Return the hosts on which a running job runs."""
    return {host for _, _, host, _ in problem.running[job].places}


def _waiting_singles(
    problem: Problem, placement: Placement, hosts: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Count the waiting one-task jobs per class, no more than the hosts could hold."""
    numbers = np.zeros(len(problem.classes), dtype=np.int64)
    capacity = [int(placement.fits(s)[hosts].sum()) for s in range(len(problem.shape_gpu))]
    for c, job_class in enumerate(problem.classes):
        if job_class.running:
            continue
        if placement.waiting[c] and all(choice.is_single_task for choice in job_class.choices):
            fit = max(capacity[choice.groups[0].shape] for choice in job_class.choices)
            numbers[c] = min(placement.waiting[c], fit)
    return numbers
