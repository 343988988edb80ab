"""The current lease of a schedule: placed on hosts, and the promises that this keeps."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import heapify, heappop, heappush
from typing import TypeAlias

import numpy as np

from placewright.array_types import Ints
from placewright.formulations.common.phases import inner_plans
from placewright.formulations.deadline import parameters
from placewright.formulations.deadline.heuristics.list_scheduling import EjectionChains, Offers
from placewright.formulations.deadline.heuristics.right_shift import right_shift
from placewright.formulations.deadline.problem.compile import Admission
from placewright.formulations.deadline.problem.leases import (
    MAX_OTHER_PRIORITY,
    CurrentLease,
    ScheduleState,
    build_current_lease,
)
from placewright.formulations.deadline.problem.problem import NONE, Problem, Schedule, intervals
from placewright.formulations.gang.placement.assignment import assign
from placewright.formulations.gang.placement.disruption_budget import repair_disruptions
from placewright.formulations.gang.placement.greedy import fill_by_policy, place_choice
from placewright.formulations.gang.placement.placement import Placement
from placewright.formulations.gang.problem.compile import compile_round
from placewright.formulations.gang.problem.jobs import (
    ANY_JOB,
    NO_LEVEL,
    Choice,
    JobPlacement,
    TaskPlacement,
)
from placewright.formulations.gang.problem.problem import Problem as GangProblem
from placewright.formulations.plan_messages import Candidate, Place, Promise
from placewright.formulations.session import Session
from placewright.topology.units import WHOLE_GPU

# Displacement greedy: jobs that must run are placed by decreasing size and displace smaller ones.
#
# A gang without free hosts takes those of smaller jobs: first of jobs that may wait, then of others
# that must run, which are queued again. Only smaller jobs are displaced, so it ends; and where all
# sizes are powers of two and divide the hosts' sizes, all that must run are placed if they fit by
# count.


def displacement_greedy(problem: GangProblem) -> Placement:
    """Return a placement of the gangs of the current lease that preempts few jobs."""
    greedy = _DisplacementGreedy(problem)
    greedy.place_all()
    fill_by_policy(greedy.placement)
    return greedy.placement


_PlaceFinder: TypeAlias = Callable[[Choice], Sequence[TaskPlacement] | None]


class _DisplacementGreedy:
    def __init__(self, problem: GangProblem) -> None:
        self._problem = problem
        self.placement = Placement(problem)
        self._gpus: Counter[int] = Counter()
        self._gpus_on_host: defaultdict[int, Counter[int]] = defaultdict(Counter)
        self._preemptible_gpus = np.zeros(problem.cluster.num_hosts, dtype=np.int64)
        for job, running in problem.running.items():
            for group, _, host, _ in running.places:
                gpus = int(problem.shape_gpu[self._choice(job).groups[group].shape]) // WHOLE_GPU
                self._gpus[job] += gpus
                self._gpus_on_host[host][job] += gpus
            self._update_preemptible(job, 1)
        self._queue: list[tuple[int, int, int]] = []
        self._displaced_waiting: list[int] = []

    def place_all(self) -> None:
        """Place the pending jobs that must run, then the displaced ones that may wait."""
        problem = self._problem
        self._queue = [
            (-max(group.milli_gpu for group in job_class.choices[0].groups), c, ANY_JOB)
            for c, job_class in enumerate(problem.classes)
            if not job_class.running
            for job in job_class.jobs
            if self._must(job)  # those of a class that start are those of highest priority
        ]
        heapify(self._queue)
        while self._queue:
            _, c, job = heappop(self._queue)
            self._place(c, job, self._find_or_displace)
        for job in sorted(self._displaced_waiting, key=lambda job: -self._gpus[job]):
            self._place(problem.running[job].job_class, job, self._find_free)

    def _place(self, c: int, job: int, find: _PlaceFinder) -> None:
        problem, choices = self._problem, self._problem.classes[c].choices
        left = self.placement.quota_left()
        for o in sorted(range(len(choices)), key=lambda o: -choices[o].value):
            within = problem.within_quota(left, problem.classes[c].accounts, choices[o])
            puts = find(choices[o]) if within else None
            if puts is not None:
                self.placement.start(c, o, puts, job)
                return

    def _find_free(self, choice: Choice) -> Sequence[TaskPlacement] | None:
        return place_choice(self.placement, choice)

    def _find_or_displace(self, choice: Choice) -> Sequence[TaskPlacement] | None:
        puts = self._find_free(choice)
        if puts is None and len(choice.groups) == 1:
            puts = self._displace(choice)
        return puts

    def _displace(self, choice: Choice) -> Sequence[TaskPlacement] | None:
        """Return hosts for a choice after displacing smaller jobs; None if there are none."""
        group = choice.groups[0]
        gpu = int(self._problem.shape_gpu[group.shape])
        host_level = len(self._problem.cluster.levels) - 1
        together = (
            group.count == 1 or choice.joint_level == host_level or group.required == host_level
        )
        levels = {choice.joint_level, group.required} - {NO_LEVEL, host_level}
        if gpu < WHOLE_GPU or gpu % WHOLE_GPU or group.is_arranged or (levels and not together):
            return None
        each = group.count if together else 1
        hosts: Counter[int] = Counter()
        left: list[JobPlacement] = []
        for _ in range(group.count // each):
            host = self._evict_from_host(group.shape, each, left)
            if host is None:
                for at, count in hosts.items():
                    self.placement.lift(group.shape, TaskPlacement(0, at, count, ()))
                self._restore(left)
                return None
            self.placement.put(group.shape, host, each)
            hosts[host] += each
        for start in left:
            self._requeue(start)
        return [TaskPlacement(0, host, count, ()) for host, count in hosts.items()]

    def _evict_from_host(self, shape: int, count: int, left: list[JobPlacement]) -> int | None:
        """Return a host that fits the tasks once smaller jobs, added to `left`, are stopped."""
        tuning = parameters.PARAMETERS
        problem, placement = self._problem, self.placement
        rank = int(problem.shape_rank[shape])
        asked = count * int(problem.shape_gpu[shape]) // WHOLE_GPU
        hosts_open = np.flatnonzero(problem.shape_hosts[shape] & (placement.least_rank <= rank))
        most = placement.whole[hosts_open] + self._preemptible_gpus[hosts_open]
        hosts_open = hosts_open[np.argsort(-most, kind="stable")[: tuning.max_displacement_hosts]]
        found = []
        for host in hosts_open.tolist():
            victims = self._victims(host, asked - int(placement.whole[host]), rank)
            if victims is not None:
                cost = sum(
                    self._gpus[j] * (tuning.must_run_victim_factor if self._must(j) else 1)
                    for j in victims
                )
                found.append((cost, host, victims))
        for _, host, victims in sorted(found, key=lambda one: one[:2]):
            starts = self._stop(victims)
            if placement.fits(shape)[host] >= count:
                left += starts
                return host
            self._restore(starts)
        return None

    def _stop(self, jobs: Sequence[int]) -> list[JobPlacement]:
        """Stop jobs, and return their placements."""
        starts = []
        for job in jobs:
            number = self.placement.start_of(job)
            start = self.placement.get(number)
            if start is not None:
                starts.append(start)
                self.placement.stop(number)
                self._update_preemptible(job, -1)
        return starts

    def _restore(self, starts: Sequence[JobPlacement]) -> None:
        """Place stopped jobs where they were."""
        for start in reversed(starts):
            self.placement.restart(start)
            self._update_preemptible(start.job, 1)

    def _victims(self, host: int, shortage: int, rank: int) -> list[int] | None:
        """Return jobs of lower rank on a host that hold the missing GPUs; None if they do not."""
        on_host = self._gpus_on_host[host]
        candidates = [
            job
            for job, gpus in on_host.items()
            if gpus and self.placement.in_place(job) and self._problem.running[job].level < rank
        ]
        candidates.sort(key=lambda job: (self._must(job), -on_host[job]))
        chosen: list[int] = []
        for job in candidates:
            if shortage <= sum(on_host[one] for one in chosen):
                break
            chosen.append(job)
        surplus = sum(on_host[one] for one in chosen) - shortage
        for job in reversed(chosen.copy()):  # the last may have made an earlier one needless
            if on_host[job] <= surplus:
                chosen.remove(job)
                surplus -= on_host[job]
        return chosen if surplus >= 0 else None

    def _update_preemptible(self, job: int, times: int) -> None:
        """Update the GPUs of each host that are held by jobs that may wait."""
        if not self._must(job):
            for group, _, host, _ in self._problem.running[job].places:
                shape = self._choice(job).groups[group].shape
                self._preemptible_gpus[host] += times * (
                    int(self._problem.shape_gpu[shape]) // WHOLE_GPU
                )

    def _requeue(self, start: JobPlacement) -> None:
        if self._must(start.job):
            milli = WHOLE_GPU * self._gpus[start.job]
            heappush(self._queue, (-milli, start.job_class, start.job))
        else:
            self._displaced_waiting.append(start.job)

    def _must(self, job: int) -> bool:
        return self._problem.round.jobs[job].priority > MAX_OTHER_PRIORITY

    def _choice(self, job: int) -> Choice:
        return self._problem.classes[self._problem.running[job].job_class].choices[0]


# Repair: from a schedule and the placed current lease to promises that the plan keeps.
#
# A job that was to run now and was not placed, or is slower than assumed, takes a later lease, by
# ejection chains; if there is none, it gets a later due time, or no promise. A job that runs now
# although it need not gives a later lease back. Finally all jobs are shifted left, to the earliest
# leases with capacity.


def with_promises(
    admission: Admission, plan: Candidate, schedule: Schedule, offers: Offers
) -> tuple[Candidate, Schedule]:
    """Return a plan of the current lease with promises and offers, and the schedule that it keeps.

    `schedule` is what the plan was made for; it is repaired for the places that the plan has.
    """
    places = current_places(admission, plan.starts, plan.preempted)
    kept = repair_promises(admission, schedule, places)
    promises = promises_of(admission, kept, places)
    return replace(plan, promises=promises, offers=offers.for_refused(kept)), kept


@dataclass(frozen=True, slots=True)
class CurrentPlace:
    """Where a job is in the current lease: its option, and on how many hosts."""

    option: int
    hosts: int


def current_places(
    admission: Admission,
    starts: Mapping[int, tuple[int, tuple[Place, ...]]],
    preempted: Mapping[int, int],
) -> dict[int, CurrentPlace]:
    """Return the option and number of hosts of each job that runs after a plan, by its index."""
    current: dict[int, CurrentPlace] = {}
    for number, j in enumerate(admission.jobs):
        running = admission.round.jobs[j].running
        if j in starts:
            option, places = starts[j]
            current[number] = CurrentPlace(option, len({host for _, _, host, _ in places}))
        elif running is not None and j not in preempted:
            current[number] = CurrentPlace(
                running.option, len({task.host for task in running.tasks})
            )
    return current


def repair_promises(
    admission: Admission, schedule: Schedule, current: Mapping[int, CurrentPlace]
) -> Schedule:
    """Return the schedule repaired for the current lease as placed.

    Jobs whose promise cannot be kept that way have a later one, or none. In the result a job may
    run in fewer or more leases than its alternative needs, since its place now is faster or slower.
    """
    problem = _residual_problem(admission, current)
    state = ScheduleState(problem)
    missing = []
    for job in np.flatnonzero(schedule.alternative != NONE).tolist():
        alternative = int(schedule.alternative[job])
        has = np.flatnonzero(schedule.runs[job])
        inside = has[(problem.first[alternative] <= has) & (has < problem.end[alternative])]
        if len(inside) >= problem.need[alternative]:
            state.add(alternative, inside[: problem.need[alternative]])
        else:
            missing.append(alternative)
    _insert_missing(state, np.array(missing, dtype=np.int64))
    state = _left_shift(state, current)
    for job in current:
        state.runs[job, 0] = state.alternative[job] != NONE
    return state.schedule()


def _residual_problem(admission: Admission, current: Mapping[int, CurrentPlace]) -> Problem:
    """Return the problem of the leases after the current one; some alternatives need too many."""
    problem = admission.problem
    need, first, end = problem.need.copy(), np.maximum(1, problem.first), problem.end.copy()
    need[admission.fast] = problem.horizon
    holds = np.isin(problem.job, list(current))
    for alternative in np.flatnonzero(holds).tolist():
        place = current[int(problem.job[alternative])]
        feasible = place.option == admission.option[alternative]
        if feasible:
            need[alternative], first[alternative], end[alternative], feasible = (
                admission.after_current_lease(alternative, place.hosts)
            )
        if not feasible:
            need[alternative] = problem.horizon
    return replace(problem, need=need, first=first, end=np.maximum(first, end))


def _insert_missing(state: ScheduleState, alternatives: Ints) -> None:
    """Insert jobs that miss leases, by their alternative or the best other one that fits.

    Existing promises come first, then the largest value.
    """
    problem = state.problem
    chains = EjectionChains(state)
    for before in alternatives[
        np.lexsort((-problem.counted[alternatives], -problem.loss[problem.job[alternatives]]))
    ]:
        others = np.flatnonzero(problem.job == problem.job[before])
        others = others[np.lexsort((-problem.counted[others], problem.lost[others]))]
        for alternative in (int(before), *others.tolist()):
            if problem.need[alternative] == 0:
                state.add(alternative, np.zeros(0, dtype=np.int64))
                break
            if chains.insert(alternative):
                break


def _left_shift(state: ScheduleState, current: Mapping[int, CurrentPlace]) -> ScheduleState:
    """Shift all jobs to their earliest leases, by due time; of ties those that run now first."""
    problem = state.problem
    alternatives = state.alternative[state.alternative != NONE]
    runs_now = np.isin(problem.job[alternatives], list(current))
    alternatives = alternatives[np.lexsort((~runs_now, problem.end[alternatives]))].tolist()
    anew = ScheduleState(problem)
    for alternative in alternatives:
        leases = anew.free_leases(alternative)[: problem.need[alternative]]
        if len(leases) < problem.need[alternative]:
            break
        anew.add(alternative, leases)
    else:
        return anew
    for alternative in alternatives:  # too tight for that: each on its own, beside all others
        state.remove(int(problem.job[alternative]))
        state.add(alternative, state.free_leases(alternative)[: problem.need[alternative]])
    return state


def promises_of(
    admission: Admission, schedule: Schedule, current: Mapping[int, CurrentPlace]
) -> tuple[Promise, ...]:
    """Return the promises of a repaired schedule, in the order of the round."""
    promises = []
    for number in np.flatnonzero(schedule.alternative != NONE):
        alternative = int(schedule.alternative[number])
        leases = np.flatnonzero(schedule.runs[number])
        place = current.get(int(number))
        hosts = None if place is None else place.hosts
        due = admission.due[alternative]
        promises.append(
            Promise(
                job=admission.jobs[number],
                option=int(admission.option[alternative]),
                at=due.at,
                value=due.value,
                finish=admission.finish(alternative, leases, hosts),
                leases=intervals(leases),
            )
        )
    return tuple(promises)


def place_current_lease(
    admission: Admission, schedule: Schedule, session: Session
) -> Iterator[Candidate]:
    """Yield plans that keep a schedule's promises, as far as the current lease can be placed."""
    problem, offers = admission.problem, Offers(admission)
    must = schedule
    if problem.alternatives:
        must = right_shift(
            problem, schedule, _costs_of_running_now(admission), admission.round.leases.headroom
        )
    current = build_current_lease(admission, must, must.runs[:, 0])
    for found in _gang_plans(current, session):
        plan, kept = with_promises(admission, current.lift(found), must, offers)
        if not _displaces_in_vain(admission, kept, plan):
            yield plan


def _displaces_in_vain(admission: Admission, kept: Schedule, plan: Candidate) -> bool:
    """Whether a job was preempted for one whose promise could not be kept where it came."""
    jobs = admission.round.jobs
    promised = {j for number, j in enumerate(admission.jobs) if kept.alternative[number] != NONE}
    return any(
        above != NONE and above not in promised and jobs[above].priority <= jobs[victim].priority
        for victim, above in plan.preempted.items()
    )


def _gang_plans(current: CurrentLease, session: Session) -> Iterator[Candidate]:
    """Yield plans of the gangs: the displacement greedy's at once, then better ones."""
    gangs = compile_round(current.round)
    placement = displacement_greedy(gangs)
    repair_disruptions(placement)
    yield assign(placement, "displacement")
    yield from inner_plans(current.round, session, gangs)


def _costs_of_running_now(admission: Admission) -> Ints:
    """Return the cost of running each job now, in milli-GPU: doubled where it would have to start.

    Whoever runs already is not better off for that: its later leases are free for others only if it
    runs now as well, and whether it does is for the terms of the policy to say.
    """
    costs = []
    for j in admission.jobs:
        job = admission.round.jobs[j]
        running = job.running
        option = job.options[0 if running is None else running.option]
        costs.append(option.milli_gpu * (2 if running is None else 1))
    return np.array(costs, dtype=np.int64)
