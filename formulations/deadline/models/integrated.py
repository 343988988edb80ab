"""One integer program of promises, leases and places, for small rounds."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from placewright.array_types import Floats, Ints
from placewright.formulations.common.priority_classes import class_terms, write_out_terms
from placewright.formulations.deadline import parameters
from placewright.formulations.deadline.problem.compile import Admission, largest_host_gpus, tasks_of
from placewright.formulations.deadline.problem.leases import (
    FIRST_PRIORITY,
    MAX_OTHER_PRIORITY,
    PLACES,
    best_effort_value,
    gang_round,
    jobs_on_away_hosts,
)
from placewright.formulations.deadline.problem.problem import (
    ADMITTED,
    BEST_EFFORT,
    BROKEN,
    NONE,
    Schedule,
    number_of,
    priority_classes,
)
from placewright.formulations.gang.models.host.model import (
    HostModel,
    build_host_model,
    num_task_variables,
)
from placewright.formulations.gang.models.host.preemption import add_preemption
from placewright.formulations.gang.models.host.rows import add_budget_rows, add_gpus
from placewright.formulations.gang.models.host.solve import start_jobs
from placewright.formulations.gang.models.host.terms import add_terms
from placewright.formulations.gang.placement.assignment import assign_gpus, preemptor_of
from placewright.formulations.gang.placement.placement import Placement
from placewright.formulations.gang.problem.compile import compile_round
from placewright.formulations.gang.problem.jobs import ANY_JOB
from placewright.formulations.gang.problem.limits import DisruptionBudget, remaining_quotas
from placewright.formulations.gang.problem.problem import Problem
from placewright.formulations.plan_messages import HOLD_SLACK, Bound, Candidate, proven_whole
from placewright.formulations.session import Session
from placewright.instances.derived.leases import min_hosts, relative_speed, work_per_lease
from placewright.instances.documents.deadline import Pace
from placewright.instances.documents.job import Job
from placewright.instances.policies import sense_of, term_of

# The current lease as gangs of which a model may choose who has a promise.
#
# Each job that may run now is a gang without a promise and, if it could have one that it runs for
# now, a second gang with it, whose arrivals precede all others. A running job is where it is in
# both. At most one of the two runs.


@dataclass(frozen=True, slots=True)
class Gang:
    """A job of the whole round by its index, its options there, and whether it has a promise."""

    job: int
    options: tuple[int, ...]
    promised: bool


@dataclass(frozen=True, slots=True, eq=False)
class Gangs:
    """The gangs of a round, compiled."""

    problem: Problem
    # In the order of the jobs of the problem's round. All are of a class of their own.
    each: tuple[Gang, ...]
    # Jobs of the whole round that run where they cannot stay: here they wait.
    evicted: frozenset[int]


def compile_gangs(admission: Admission, terms: tuple[str, ...]) -> Gangs:
    """Return the gangs of the current lease, compiled for these terms."""
    round_ = admission.round
    builder = _GangBuilder(admission)
    for j, job in enumerate(round_.jobs):
        builder.add(j, job)
    inner = gang_round(round_, tuple(builder.jobs), terms)
    problem = compile_round(inner)
    # There are two of some running jobs, but they hold only once what they hold, and stop once.
    quota = remaining_quotas(round_, problem.cluster)
    problem = replace(problem, quota=quota, budget=None)
    return Gangs(problem, tuple(builder.gangs), builder.evicted)


class _GangBuilder:
    def __init__(self, admission: Admission) -> None:
        self._round = admission.round
        self.evicted = jobs_on_away_hosts(self._round)
        now = np.flatnonzero(admission.problem.first == 0)
        self._current = {
            (admission.jobs[number], option)
            for number, option in zip(
                admission.problem.job[now].tolist(), admission.option[now].tolist(), strict=True
            )
        }
        self.jobs: list[Job] = []
        self.gangs: list[Gang] = []

    def add(self, j: int, job: Job) -> None:
        """Add the gangs of a job, if it may run now."""
        deadline, running = job.deadline, job.running
        if running is not None and running.pinned:
            self._add(j, job, tuple(range(len(job.options))), promised=False)
            return
        ready = None if deadline is None else deadline.ready
        if self._round.leases.first_usable(ready, self._round.now):
            return
        options = tuple(range(len(job.options))) if running is None else (running.option,)
        self._add(j, job, options, promised=False)
        able = tuple(o for o in options if (j, o) in self._current)
        if able:
            self._add(j, job, able, promised=True)

    def _add(self, j: int, job: Job, options: tuple[int, ...], *, promised: bool) -> None:
        running = None if j in self.evicted else job.running
        if running is not None and not running.pinned:
            running = running.model_copy(update={"option": 0})
        # A value of its own keeps each gang in a class of its own.
        own = {"value": len(self.jobs) + 1, "progress": 0}
        update: dict[str, Any] = {
            "options": tuple(job.options[o].model_copy(update=own) for o in options),
            "running": running,
            "priority": FIRST_PRIORITY if promised else min(job.priority, MAX_OTHER_PRIORITY),
            "opportunistic": job.opportunistic and not promised,
            "deadline": None,
        }
        self.jobs.append(job.model_copy(update=update))
        self.gangs.append(Gang(j, options, promised))


# Modes: how promises can be kept, with the current lease or without it.
#
# A mode (as in multi-mode project scheduling) is an alternative with its part in the current lease:
# to run there on a number of hosts within a range in which it is equally fast, or not to run. It
# fixes how many leases are needed after the current one, and until when.


NOT_NOW = 0
"""Hosts of a mode that does not run now."""


@dataclass(frozen=True, slots=True, eq=False)
class Modes:
    """The modes of an admission, as arrays (modes,)."""

    alternative: Ints  # The alternative of the admission
    # fewest, most: Hosts in the current lease, `NOT_NOW` for none.
    fewest: Ints
    most: Ints
    # need, end: Leases needed after the current one, and the one after the last that can be used;
    # the first is `first`.
    need: Ints
    first: Ints
    end: Ints


def modes_of(admission: Admission, hosts: int) -> Modes:
    """Return all modes of an admission on a cluster with this number of hosts."""
    rows = [
        row
        for alternative in range(admission.problem.alternatives)
        for row in _of(admission, alternative, hosts)
    ]
    table = np.array(rows, dtype=np.int64).reshape(-1, 6)
    return Modes(*table.T)


def _of(admission: Admission, alternative: int, hosts: int) -> Iterator[tuple[int, ...]]:
    problem = admission.problem
    job = admission.round.jobs[admission.jobs[problem.job[alternative]]]
    option = int(admission.option[alternative])
    first = int(problem.first[alternative])
    end = int(problem.end[alternative])
    need = int(problem.need[alternative])
    pinned = job.running is not None and job.running.pinned
    if first == 0:
        pace = Pace() if job.deadline is None else job.deadline.pace(option)
        own = int(admission.hosts[alternative])
        ranges = (
            [(own, own)]
            if pinned
            else equal_speed_ranges(pace, min(hosts, tasks_of(job.options[option])))
        )
        for fewest, most in ranges:
            later, begin, until, feasible_alone = admission.after_current_lease(alternative, fewest)
            if feasible_alone and until - begin >= later:
                yield alternative, fewest, most, later, begin, until
    later_on = max(1, first)
    if not pinned and not admission.fast[alternative] and end - later_on >= need:
        yield alternative, NOT_NOW, NOT_NOW, need, later_on, end


def equal_speed_ranges(pace: Pace, most: int) -> list[tuple[int, int]]:
    """Return the ranges of numbers of hosts, up to `most`, on which a job is equally fast."""
    ranges: list[tuple[int, int]] = []
    ends = [1, *(number for number, _ in pace.spanning if number < most), most]
    for before, last in zip([0, *ends], ends, strict=False):
        if before >= last:
            continue
        if ranges and relative_speed(pace, ranges[-1][1]) == relative_speed(pace, last):
            ranges[-1] = ranges[-1][0], last
        else:
            ranges.append((before + 1, last))
    return ranges


# The rows that tie promises and their leases to the current lease, placed on hosts.
#
#     S[q] in {0,1}      mode q is promised      sum over the modes of a job <= 1
#     X[q,t] in {0,1}    it runs in lease t > 0                 sum_t X[q,t] = need(q) S[q]
#                                                               sum_q demand X[q,t] <= capacity(t)
#     y[g]               gang g runs now (gang/models/host/model.py)
#     u[g,h] in {0,1}    it has a task on host h
#
#     promised gangs     y[g] = sum of S[q] over the modes that run now with its option
#                        fewest(q) S[q] <= sum_h u[g,h] <= most(q) S[q], summed over these q
#     other gangs        sum of y[g] of the job + sum of its S[q] <= 1
#     who stops          gang/models/host/preemption.py; a job runs if one of its gangs does
#     disruption budget  gang/models/host/rows.py; likewise
#
# Every plan is a point of the model, with the values of its terms `broken` and `admitted`, and
# every point a plan; but for jobs that are on a host which is away, and jobs kept apart by
# labels.


class IntegratedModel:
    """The integrated model of a round: promises, leases and places.

    `exact` and `slots`: its current lease. `modes`: how promises can be kept.
    """

    def __init__(self, admission: Admission, gangs: Gangs) -> None:
        self.admission, self.gangs = admission, gangs
        problem = gangs.problem
        cleared = Placement(problem, cleared=True)
        everywhere = np.arange(problem.cluster.num_hosts)
        self.exact: HostModel = build_host_model(
            problem, cleared, everywhere, problem.num_pending, list(problem.running), separate=True
        )
        self.slots = add_gpus(self.exact)
        add_terms(self.exact)
        self.model = self.exact.model
        self.modes: Modes = modes_of(admission, len(everywhere))
        # The gang of each entry, and the entries of each job of the round.
        self._gang = [
            problem.classes[entry.job_class].jobs[0] if entry.job == ANY_JOB else entry.job
            for entry in self.exact.entries
        ]
        self._entries: defaultdict[int, list[int]] = defaultdict(list)
        for e, gang in enumerate(self._gang):
            self._entries[gangs.each[gang].job].append(e)
        self._add_promises()
        self._tie_current_lease()
        add_preemption(self.exact, self._running_jobs())
        self._add_budget()
        self._add_terms()

    def _option(self, entry: int) -> int:
        """Return the option in the whole round of an entry."""
        options = self.gangs.each[self._gang[entry]].options
        return options[self.exact.choice(self.exact.entries[entry]).index]

    def _running_jobs(self) -> list[list[int]]:
        """Return the entries of each running job, one or two."""
        mine = [
            [e for e in entries if self.exact.entries[e].job != ANY_JOB]
            for entries in self._entries.values()
        ]
        return [entries for entries in mine if entries]

    def _add_budget(self) -> None:
        """Append the rows of the disruption budget: a job stops if none of its gangs runs."""
        budget = DisruptionBudget.of(self.admission.round)
        if budget is not None:
            running = [e for entries in self._running_jobs() for e in entries]
            jobs = [(e, self.gangs.each[self._gang[e]].job) for e in running]
            add_budget_rows(self.exact, budget, jobs)

    def _add_promises(self) -> None:
        """Add a column per mode, at most one of a job, and the leases of each."""
        model, modes, problem = self.model, self.modes, self.admission.problem
        self._chosen = model.variables("promised", len(modes.alternative), upper=1)
        one = model.rows("one promise", problem.jobs, upper=1)
        model.add(one[problem.job[modes.alternative]], self._chosen, 1.0)
        leases = np.arange(problem.horizon)
        can = (modes.first[:, None] <= leases) & (leases < modes.end[:, None])
        can &= (modes.need > 0)[:, None]
        self._mode, self._lease = np.nonzero(can)
        self._runs = model.variables("runs", len(self._mode), upper=1)
        done = model.rows("done", len(modes.alternative), lower=0, upper=0)
        model.add(done[self._mode], self._runs, 1.0)
        model.add(done, self._chosen, -modes.need)
        inside = model.rows("inside", len(self._mode), upper=0)
        model.add(inside, self._runs, 1.0)
        model.add(inside, self._chosen[self._mode], -1.0)
        for row, asked in enumerate(problem.demand[modes.alternative].T):
            unit = max(1, int(np.gcd.reduce(asked)))
            rows = model.rows(f"later {row}", problem.horizon, upper=problem.capacity[row] // unit)
            model.add(rows[self._lease], self._runs, asked[self._mode] // unit)

    def _tie_current_lease(self) -> None:
        """Tie the promised gangs of the current lease to their modes."""
        model, exact, admission, modes = self.model, self.exact, self.admission, self.modes
        number = {j: p for p, j in enumerate(admission.jobs)}
        for j, entries in self._entries.items():
            mine = np.zeros(0, dtype=np.int64)
            if j in number:
                mine = np.flatnonzero(admission.problem.job[modes.alternative] == number[j])
            rest = [e for e in entries if not self.gangs.each[self._gang[e]].promised]
            if len(mine):
                row = model.rows("no promise", 1, upper=1)
                model.add(row[[0] * len(rest)], exact.y[rest], 1.0)
                model.add(row[[0] * len(mine)], self._chosen[mine], 1.0)
            for e in entries:
                if not self.gangs.each[self._gang[e]].promised:
                    continue
                now = mine[
                    (admission.option[modes.alternative[mine]] == self._option(e))
                    & (modes.fewest[mine] != NOT_NOW)
                ]
                row = model.rows("promised now", 1, lower=0, upper=0)
                model.add(row, exact.y[[e]], 1.0)
                model.add(row[[0] * len(now)], self._chosen[now], -1.0)
                tasks = tasks_of(admission.round.jobs[j].options[self._option(e)])
                everywhere = modes.most[now] >= min(tasks, len(exact.hosts))
                if not (everywhere & (modes.fewest[now] == 1)).all():
                    self._bound_hosts(e, now)

    def _bound_hosts(self, entry: int, now: Ints) -> None:
        """Bound an entry's number of hosts by its mode."""
        model, exact, modes = self.model, self.exact, self.modes
        mine = [t for t, task_set in enumerate(exact.task_sets) if task_set.users[0][0] == entry]
        comes = np.flatnonzero(np.isin(exact.x_set, mine))
        stays = np.flatnonzero(exact.stays.entry == entry)
        host = np.append(exact.x_host[comes], exact.stays.host[stays])
        column = np.append(exact.x[comes], exact.stays.s[stays])
        capacity = np.append(
            exact.capacity[exact.x_set[comes], exact.x_host[comes]],
            np.ones(len(stays), dtype=np.int64),
        )
        hosts, at = np.unique(host, return_inverse=True)
        used = model.variables("hosts", len(hosts), upper=1)
        rows = model.rows("on host", len(column), upper=0)
        model.add(rows, column, 1.0)
        model.add(rows, used[at], -capacity)
        rows = model.rows("off host", len(hosts), upper=0)
        model.add(rows, used, 1.0)
        model.add(rows[at], column, -1.0)
        for bound, sign in ((modes.most, 1.0), (modes.fewest, -1.0)):
            row = model.rows("number of hosts", 1, upper=0)
            model.add(row[[0] * len(used)], used, sign)
            model.add(row[[0] * len(now)], self._chosen[now], -sign * bound[now])

    def _add_terms(self) -> None:
        """Append the terms of promises, and those of running jobs."""
        model, exact, problem = self.model, self.exact, self.admission.problem
        alternatives = self.modes.alternative
        kept = (problem.loss[problem.job] - problem.lost)[alternatives]
        lost = float(problem.loss.sum())
        model.term(BROKEN, self._chosen, -kept, sense="min", constant=lost)
        value, classes = problem.value[alternatives], problem.classes
        number = np.zeros(problem.jobs, dtype=np.int64) if classes is None else classes.number
        names = (ADMITTED,) if classes is None else class_terms(ADMITTED, len(classes.weights))
        for k, name in enumerate(names):
            of = number[problem.job[alternatives]] == k
            model.term(name, self._chosen, np.where(of, value, 0), sense="max")
        constant = 0
        for entries in self._entries.values():
            for e in (e for e in entries if exact.entries[e].job != ANY_JOB):
                running = self.gangs.problem.running[exact.entries[e].job]
                stays = np.flatnonzero(exact.stays.entry == e)
                milli = self.gangs.problem.shape_gpu[exact.stay_shape[stays]]
                model.term("disruption", exact.stays.s[stays], -milli, sense="min")
                saved = running.migrate_cost - running.preempt_cost
                model.term("disruption", exact.y[[e]], [saved], sense="min")
                model.term("disruption", exact.kept[[e]], [-running.migrate_cost], sense="min")
                if not self.gangs.each[self._gang[e]].promised:
                    constant += running.preempt_cost + int(milli.sum())
        none = exact.y[:0]
        model.term("disruption", none, np.zeros(0), sense="min", constant=float(constant))
        value_of = self._term_values()
        for term, values in value_of.items():
            model.term(term, exact.y, values, sense="max")

    def _term_values(self) -> Mapping[str, Ints]:
        """Return what each entry contributes to the terms of the current lease.

        A job without a promise counts there as on the fewest hosts.
        """
        round_, largest = self.admission.round, largest_host_gpus(self.admission.round)
        classes = priority_classes(round_, BEST_EFFORT)
        names = class_terms(BEST_EFFORT, len(classes)) or (BEST_EFFORT,)
        value_of = {term: np.zeros(len(self._gang), dtype=np.int64) for term in (*names, "early")}
        for e, gang in enumerate(self._gang):
            gang_, o = self.gangs.each[gang], self._option(e)
            job = round_.jobs[gang_.job]
            if gang_.promised:
                value_of["early"][e] = job.options[o].milli_gpu
                continue
            pace = Pace() if job.deadline is None else job.deadline.pace(o)
            hosts = min_hosts(job.options[o], largest)
            value_of[names[number_of(classes, job)]][e] = best_effort_value(
                round_, job, work_per_lease(pace, round_.leases.length_s, hosts)
            )
        return value_of

    def schedule(self, values: Floats) -> Schedule:
        """Return the promises of a point, with their leases, the current one included."""
        problem = self.admission.problem
        alternative = np.full(problem.jobs, NONE, dtype=np.int64)
        runs = np.zeros((problem.jobs, problem.horizon), dtype=np.bool_)
        for q in np.flatnonzero(values[self._chosen] > 0.5).tolist():
            job = int(problem.job[self.modes.alternative[q]])
            alternative[job] = self.modes.alternative[q]
            mine = self._mode == q
            runs[job, self._lease[mine & (values[self._runs] > 0.5)]] = True
            runs[job, 0] = self.modes.fewest[q] != NOT_NOW
        return Schedule(alternative, runs)


# The best plan of a small round, and that it is: promises, leases and places decided at once.
#
# Admission counts the GPUs of the current lease, and places are then found for what it has
# chosen. In a small round one model decides which choice can be placed.


def solve_integrated(
    admission: Admission, session: Session
) -> Iterator[tuple[Candidate, Schedule] | Bound]:
    """Yield the optimum of one term after another, and claimed bounds.

    An optimum is a plan of the current lease, whose promises are yet to be written down, and the
    schedule that keeps them. Nothing is yielded where the round is too large.
    """
    tuning = parameters.PARAMETERS
    terms = admission.round.policy.terms
    gangs = compile_gangs(admission, ("value", *(t for t in terms if t in PLACES[1:])))
    leases = admission.problem.alternatives * admission.problem.horizon
    if (
        gangs.problem.labels
        or num_task_variables(gangs.problem) + 2 * leases > tuning.max_integrated_columns
    ):
        return
    integrated = IntegratedModel(admission, gangs)
    held: list[tuple[str, int]] = []
    start: Floats | None = None
    classes = {
        term: len(priority_classes(admission.round, term)) for term in (ADMITTED, BEST_EFFORT)
    }
    for term in write_out_terms(terms, classes):
        if term == BROKEN and not admission.problem.loss.any():
            continue
        arrays = integrated.model.arrays(term)
        outcome = session.optimise(arrays, share=tuning.integrated_term_share, gap=0.0, start=start)
        if outcome is None:
            return
        bound = outcome.bound
        if bound is not None and term_of(term) in (BROKEN, ADMITTED) and not gangs.evicted:
            yield Bound(term, proven_whole(bound, sense_of(term)), tuple(held))
        if outcome.values is None or outcome.objective is None:
            return
        start = outcome.values
        held.append((term, round(outcome.objective)))
        integrated.model.hold(term, held[-1][1], HOLD_SLACK)
        if term != BROKEN:
            yield _plan(integrated, gangs, start), integrated.schedule(start)


def _plan(integrated: IntegratedModel, gangs: Gangs, values: Floats) -> Candidate:
    """Return the plan of the current lease at a point, without promises."""
    problem = gangs.problem
    placement = Placement(problem, cleared=True)
    start_jobs(integrated.exact, integrated.slots, values, placement)
    found = assign_gpus(placement)
    runs = {gangs.each[g].job for g in found.starts}
    runs |= {gangs.each[g].job for g in problem.running if placement.is_running(g)}
    starts = {
        gangs.each[g].job: (gangs.each[g].options[option], places)
        for g, (option, places) in found.starts.items()
    }
    slots = {gangs.each[g].job: slot for g, slot in found.slots.items()}
    preempted = {}
    for g in problem.running:
        if gangs.each[g].job not in runs:
            by = preemptor_of(problem, g, found.arrivals)
            preempted[gangs.each[g].job] = gangs.each[by].job if by >= 0 else NONE
    preempted |= {j: NONE for j in gangs.evicted if j not in starts}
    return Candidate(starts, "integrated", preempted, slots=slots)
