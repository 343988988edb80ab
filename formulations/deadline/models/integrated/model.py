r"""The rows that tie promises and their leases to the current lease, placed on hosts.

    S[q] in {0,1}      mode q is promised (`modes.py`)      sum over the modes of a job <= 1
    X[q,t] in {0,1}    it runs in lease t > 0                 sum_t X[q,t] = need(q) S[q]
                                                              sum_q demand X[q,t] <= capacity(t)
    y[g]               gang g runs now (gang/models/host/model.py)
    u[g,h] in {0,1}    it has a task on host h

    promised gangs     y[g] = sum of S[q] over the modes that run now with its option
                       fewest(q) S[q] <= sum_h u[g,h] <= most(q) S[q], summed over these q
    other gangs        sum of y[g] of the job + sum of its S[q] <= 1
    who stops          gang/models/host/preemption.py; a job runs if one of its gangs does
    disruption budget  gang/models/host/disruption_budget.py; likewise

Every plan is a point of the model, with the values of its terms `broken` and `admitted`, and every
point a plan; but for jobs that are on a host which is away, and jobs kept apart by labels.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

import numpy as np

from placewright.array_types import Floats, Ints
from placewright.formulations.common.priority_classes import class_terms
from placewright.formulations.deadline.models.integrated.gangs import Gangs
from placewright.formulations.deadline.models.integrated.modes import NOT_NOW, Modes, modes_of
from placewright.formulations.deadline.problem.alternatives import tasks_of
from placewright.formulations.deadline.problem.capacity_rows import largest_host_gpus
from placewright.formulations.deadline.problem.compile import Admission
from placewright.formulations.deadline.problem.current_lease import best_effort_value
from placewright.formulations.deadline.problem.priorities import (
    BEST_EFFORT,
    number_of,
    priority_classes,
)
from placewright.formulations.deadline.problem.problem import ADMITTED, BROKEN, NONE, Schedule
from placewright.formulations.gang.models.host.disruption_budget import add_budget_rows
from placewright.formulations.gang.models.host.gpus import add_gpus
from placewright.formulations.gang.models.host.model import HostModel, build_host_model
from placewright.formulations.gang.models.host.preemption import add_preemption
from placewright.formulations.gang.models.host.terms import add_terms
from placewright.formulations.gang.placement.placement import Placement
from placewright.formulations.gang.problem.disruption_budget import DisruptionBudget
from placewright.formulations.gang.problem.jobs import ANY_JOB
from placewright.instances.derived.lease_arithmetic import min_hosts, work_per_lease
from placewright.instances.documents.deadline import Pace


class IntegratedModel:
    """The integrated model of a round: promises, leases and places.

    Attributes
    ----------
    exact, slots
        Its current lease.
    modes
        How promises can be kept.
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
