"""Preemption feasibility: every stopped job is a lawful victim, or back; so with pools."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from placewright.array_types import Ints
from placewright.formulations.gang.placement.placement import Placement
from placewright.formulations.gang.problem.jobs import (
    ANY_JOB,
    NO_LABEL,
    JobPlacement,
    TaskPlacement,
)
from placewright.formulations.gang.problem.problem import Problem
from placewright.formulations.gang.problem.shapes import Pool

# What placed jobs take of pools, and the repair of placements that take too much.


def use_of_pool(problem: Problem, pool: Pool, start: JobPlacement) -> dict[int, int]:
    """Return what a placed job takes of each domain of a pool where it takes something."""
    choice = problem.classes[start.job_class].choices[start.choice]
    return pool.taken(choice, ((put.group, put.host, put.count) for put in start.tasks))


def taken_of_pool(problem: Problem, pool: Pool, start: JobPlacement) -> Ints:
    """Return what a placed job takes of each domain of a pool, int64 (domains,)."""
    taken = np.zeros(len(pool.limit), dtype=np.int64)
    for d, amount in use_of_pool(problem, pool, start).items():
        taken[d] = amount
    return taken


def more_of_pool(problem: Problem, pool: Pool, start: JobPlacement) -> set[int]:
    """Return the domains of a pool of which a job takes more than before the round."""
    taken = use_of_pool(problem, pool, start)
    before: dict[int, int] = {}
    if start.job != ANY_JOB:
        before = use_of_pool(problem, pool, problem.running_placement_of[start.job])
    return {d for d, amount in taken.items() if amount > before.get(d, 0)}


def stop_beyond_pools(placement: Placement) -> None:
    """Stop what starts or migrates, the last first, where too much is taken of a pool.

    What has migrated stops only where no start is in the way.
    """
    problem, pools = placement.problem, placement.pools
    if not any((left < 0).any() for left in pools.left):
        return
    changed = sorted(placement.changed(), key=lambda s: (s[1].job == ANY_JOB, s[0]))
    for number, start in reversed(changed):
        if any(
            left[d] < 0
            for pool, left in zip(pools.pools, pools.left, strict=True)
            for d in use_of_pool(problem, pool, start)
        ):
            placement.stop(number)


# Preemption feasibility: every stopped running job is a lawful victim, or is back in place.
#
# Lawful (docs/plans.md#who-may-be-preempted), by counts of whole GPUs:
#
# (i)   it does not fit in place beside all others;
# (ii)  it does with all stopped jobs of its level and above back in place, without what has started
#       of a higher rank, and with jobs of a higher rank that have moved to these hosts moved back,
#       and those that have moved to the hosts of these, and so on.
#
# Where rules say who may preempt whom, (ii) is asked once more for each stopped job, with those
# that may preempt it in place of those of a higher rank, and of the stopped ones those that no
# others may.
#
# What (ii) finds in the way has no higher rank, or no leave, and is stopped. Each step stops an
# arrival or brings a job back, so the steps end.


def repair_preemptions(placement: Placement) -> None:
    """Make preemptions lawful: bring back jobs that need not stop, stop who profits unlawfully.

    What exceeds a quota or a pool, or finds no GPUs that are joined as it asks, is stopped before.
    """
    _stop_unjoined(placement)
    _stop_beyond_quota(placement)
    stop_beyond_pools(placement)
    while any(placement.stopped) and (
        _restart_needless_victims(placement) or _stop_unlawful_arrivals(placement)
    ):
        pass


def _stop_unjoined(placement: Placement) -> None:
    """Stop arrivals, the last one first, where GPUs of a host are not joined as all of them ask."""
    links = placement.link_state
    for host in [] if links is None else links.crowded_hosts():
        mine = [
            number
            for number, start in placement.changed()
            if any(put.host == host and not put.gpus for put in start.tasks)
        ]
        while links is not None and host in links.crowded_hosts():
            placement.stop(mine.pop())


def running_host_groups(problem: Problem, job: int) -> set[tuple[int, int]]:
    """Return the (host, group) pairs of a running job's tasks; none for a pending job."""
    running = problem.running.get(job)
    return set() if running is None else {(host, group) for group, _, host, _ in running.places}


def levels_of_displaced(placement: Placement) -> dict[int, int]:
    """Return up to which rank nothing may have the place of each job that is stopped or moved.

    Of a stopped job that is its level, of a moved one the highest level of stopped jobs with which
    it goes back; one that never does is left out.
    """
    stopped, running = _stopped(placement), placement.problem.running
    changed = list(placement.changed())
    levels: dict[int, int] = {}
    for level in sorted({running[job].level for job in stopped}):
        back = [job for job in stopped if running[job].level >= level]
        above = [(n, start) for n, start in changed if _rank(placement.problem, start) > level]
        levels |= dict.fromkeys(_Counterfactual(placement, level, back, above).back, level)
    return levels


def _hosts(problem: Problem, jobs: Iterable[int]) -> set[int]:
    """Return the hosts of some running jobs."""
    return {host for job in jobs for _, _, host, _ in problem.running[job].places}


def _stopped(placement: Placement) -> list[int]:
    """Return the stopped jobs, those of highest level first."""
    running = placement.problem.running
    return sorted(
        (job for off in placement.stopped for job in off),
        key=lambda job: (-running[job].level, job),
    )


def _restart_needless_victims(placement: Placement) -> bool:
    """Restart stopped jobs that fit in place beside all others; return whether there were any."""
    found = False
    for job in _stopped(placement):
        start = placement.problem.running_placement_of[job]
        job_class = placement.problem.classes[start.job_class]
        if (
            placement.fits_in_place(job)
            and not placement.quota_excess(job_class.accounts, job_class.choices[0])
            and not _meets_label(placement, job)
        ):
            placement.restart(start)
            found = True
    return found


def _stop_unlawful_arrivals(placement: Placement) -> bool:
    """Stop what has no higher rank than a victim and has its place; whether there was any."""
    stopped = _stopped(placement)
    running = placement.problem.running
    changed = dict(placement.changed())
    cases: list[tuple[int, int, list[int], set[int]]] = []
    for level in sorted({running[job].level for job in stopped}):
        back = [job for job in stopped if running[job].level >= level]
        higher = {n for n, start in changed.items() if _rank(placement.problem, start) > level}
        cases.append((level, ANY_JOB, back, higher))
    if placement.problem.over.sets is not None:
        over = {job: _over(placement, changed, job) for job in stopped}
        for job in stopped:
            level = running[job].level
            back = [o for o in stopped if running[o].level >= level and over[o] <= over[job]]
            cases.append((level, job, back, over[job]))
    for level, owner, back, higher in cases:
        below = [(n, start) for n, start in changed.items() if n not in higher]
        above = [(n, start) for n, start in changed.items() if n in higher]
        counterfactual = _Counterfactual(placement, level, back, above, owner)
        unlawful = (
            counterfactual.on_hosts(below)
            or counterfactual.labelled(below)
            or counterfactual.beyond_quota(below)
            or counterfactual.beyond_pools(below)
        )
        if unlawful:
            for number in sorted(unlawful):
                placement.stop(number)
            return True
    return False


def _over(placement: Placement, changed: Mapping[int, JobPlacement], job: int) -> set[int]:
    """Return the numbers of the jobs that have come and may preempt a stopped one."""
    victim, over = placement.problem.running[job], placement.problem.over
    return {
        number
        for number, start in changed.items()
        if over(_shape(placement.problem, start), victim)
    }


class _Counterfactual:
    """A placement in which nobody above a level has come, and victims from there on are back.

    `back` are the stopped jobs of the level and above, and as an attribute those that have moved
    back, too; `above` the jobs of a higher rank that start or move, by number; `owner` the stopped
    job whose quotas are asked, or any of the level.
    """

    def __init__(
        self,
        placement: Placement,
        level: int,
        back: Sequence[int],
        above: Sequence[tuple[int, JobPlacement]],
        owner: int = ANY_JOB,
    ) -> None:
        self._placement, self._level, self._above = placement, level, above
        self._owner = owner
        self.back = list(back)
        self._hosts = _hosts(placement.problem, back)
        self._returned: set[int] = set()
        self._pools = [set[int]() for _ in placement.problem.pools]
        self._note_pools(back)
        movers = [(n, start) for n, start in above if start.job != ANY_JOB]
        while found := [
            (n, start)
            for n, start in movers
            if n not in self._returned
            and (self._comes(start) or self._shares_label(start) or self._fills_pool(start))
        ]:
            for number, start in found:
                self._returned.add(number)
                self.back.append(start.job)
                self._hosts |= _hosts(placement.problem, [start.job])
                self._note_pools([start.job])

    def _note_pools(self, jobs: Iterable[int]) -> None:
        """Record the domains of pools from which jobs that are back take something."""
        problem = self._placement.problem
        for pool, mine in zip(problem.pools, self._pools, strict=True):
            for job in jobs:
                mine.update(use_of_pool(problem, pool, problem.running_placement_of[job]))

    def on_hosts(self, below: Sequence[tuple[int, JobPlacement]]) -> set[int]:
        """Return what arrives, not above the level, on a host that holds too much."""
        hosts = sorted(self._hosts)
        if self._owner == ANY_JOB and (self._placement.least_arrived[hosts] > self._level).all():
            # What is there stood together before the round.
            return set()
        full = self._overfull_host()
        return {
            number
            for number, start in below
            if any(put.host == full and not put.stays for put in start.tasks)
        }

    def labelled(self, below: Sequence[tuple[int, JobPlacement]]) -> set[int]:
        """Return what has come, not above the level, where a label of `back` keeps it out."""
        if not self._placement.problem.labels:
            return set()
        return {number for number, start in below if self._shares_label(start)}

    def beyond_quota(self, below: Sequence[tuple[int, JobPlacement]]) -> set[int]:
        """Return jobs that start or resize, the last first, beyond a quota or cap of a victim."""
        problem = self._placement.problem
        if not problem.quota_keys:
            return set()
        classes, running = problem.classes, problem.running
        left = self._placement.quota_left()
        for number, start in self._above:
            charged = classes[start.job_class]
            back = number in self._returned and start.choice > 0
            if start.job == ANY_JOB or back:
                problem.charge_quota(left, charged.accounts, charged.choices[start.choice], -1)
            if back:
                problem.charge_quota(left, charged.accounts, charged.choices[0])
        victims = [job for job in self.back if not self._placement.is_running(job)]
        for job in victims:
            charged = classes[running[job].job_class]
            problem.charge_quota(left, charged.accounts, charged.choices[0])
        unlawful: set[int] = set()
        for accounts in {
            classes[running[job].job_class].accounts
            for job in victims
            if (running[job].level == self._level if self._owner == ANY_JOB else job == self._owner)
        }:
            for number, start in reversed(below):
                over = [
                    key
                    for key in problem.quota_keys.get(accounts, ())
                    if left[key] < 0 and key[0] not in problem.totals_of_pools
                ]
                if not over:
                    break
                started = classes[start.job_class]
                choice = started.choices[start.choice]
                if (
                    (start.job == ANY_JOB or start.choice)
                    and number not in unlawful
                    and problem.takes_of(over, started.accounts, choice)
                ):
                    problem.charge_quota(left, started.accounts, choice, -1)
                    unlawful.add(number)
        return unlawful

    def beyond_pools(self, below: Sequence[tuple[int, JobPlacement]]) -> set[int]:
        """Return what has come, not above the level, to a pool that then holds too much.

        Pools are those from which a job that is back took something; the last one that came goes.
        """
        placement, problem = self._placement, self._placement.problem
        if not problem.pools:
            return set()
        home = problem.running_placement_of
        for pool, mine, now in zip(problem.pools, self._pools, placement.pools.left, strict=True):
            left = now.copy()
            for number, start in self._above:
                if start.job == ANY_JOB or number in self._returned:
                    left += taken_of_pool(problem, pool, start)
            for job in self.back:
                left -= taken_of_pool(problem, pool, home[job])
            over = mine.intersection(np.flatnonzero(left < 0).tolist())
            for number, start in reversed(below) if over else ():
                if not over.isdisjoint(more_of_pool(problem, pool, start)):
                    return {number}
        return set()

    def _fills_pool(self, start: JobPlacement) -> bool:
        """Whether a job takes more than before of a pool of which one that is back has taken."""
        problem = self._placement.problem
        return any(
            mine and not mine.isdisjoint(more_of_pool(problem, pool, start))
            for pool, mine in zip(problem.pools, self._pools, strict=True)
        )

    def _comes(self, start: JobPlacement) -> bool:
        return not self._hosts.isdisjoint(_comes_to(self._placement.problem, start))

    def _shares_label(self, start: JobPlacement) -> bool:
        """Whether a job has come to a domain that its label shares with one that is back."""
        problem = self._placement.problem
        label = problem.classes[start.job_class].choices[start.choice].label
        if label == NO_LABEL:
            return False
        home = problem.labels[label].running_domains
        domain = problem.cluster.domain[problem.labels[label].level]
        taken = {d for job in self.back if job != start.job for d in home.get(job, ())}
        return any(int(domain[put.host]) in taken for put in start.tasks if not put.stays)

    def _overfull_host(self) -> int:
        """Return a host where not all that is back fits; -1 without one."""
        placement, problem = self._placement, self._placement.problem
        lifted: list[tuple[int, TaskPlacement]] = []
        for number, start in self._above:
            if start.job != ANY_JOB and number not in self._returned:
                continue
            for shape, put in _tasks(problem, start):
                if put.host in self._hosts and not put.stays:
                    placement.lift(shape, put)
                    lifted.append((shape, put))
        staying = Counter(
            (start.job, put)
            for number, start in self._above
            if number in self._returned
            for put in start.tasks
            if put.stays
        )
        put_back: list[tuple[int, TaskPlacement]] = []
        full = -1
        for job in self.back:
            for shape, put in _tasks(problem, problem.running_placement_of[job]):
                if staying[job, put]:
                    staying[job, put] -= 1
                elif full < 0 and placement.fits_gpus(shape, put):
                    placement.keep(shape, put)
                    put_back.append((shape, put))
                elif full < 0:
                    full = put.host
        for shape, put in put_back:
            placement.lift(shape, put)
        for shape, put in reversed(lifted):
            if put.gpus:
                placement.keep(shape, put)
            else:
                placement.put(shape, put.host, put.count)
        return full


def _tasks(problem: Problem, start: JobPlacement) -> Iterator[tuple[int, TaskPlacement]]:
    """Yield shape and place of the tasks of a placed job."""
    groups = problem.classes[start.job_class].choices[start.choice].groups
    for put in start.tasks:
        yield groups[put.group].shape, put


def _comes_to(problem: Problem, start: JobPlacement) -> set[int]:
    """Return the hosts at which a job arrives; one that resizes where it takes more than before."""
    if start.job == ANY_JOB or not start.choice:
        return {put.host for put in start.tasks if not put.stays}
    more: defaultdict[int, Ints] = defaultdict(lambda: np.zeros(1, dtype=np.int64))
    for placed, sign in ((start, 1), (problem.running_placement_of[start.job], -1)):
        for shape, put in _tasks(problem, placed):
            asked = np.append(problem.shape_gpu[shape], problem.shape_demand[shape])
            more[put.host] = more[put.host] + sign * put.count * asked
    return {host for host, amounts in more.items() if (amounts > 0).any()}


def _meets_label(placement: Placement, job: int) -> bool:
    """Whether a job of the label of a stopped one has come to its domains."""
    start = placement.problem.running_placement_of[job]
    label = placement.problem.classes[start.job_class].choices[0].label
    if label == NO_LABEL:
        return False
    domains = sorted(placement.problem.labels[label].running_domains.get(job, ()))
    return bool(placement.labelled_arrivals(label)[domains].any())


def _shape(problem: Problem, start: JobPlacement) -> int:
    """Return a shape of a placed job; all of one job have the same rank and leave."""
    return problem.classes[start.job_class].choices[start.choice].groups[0].shape


def _rank(problem: Problem, start: JobPlacement) -> int:
    return int(problem.shape_rank[_shape(problem, start)])


def _stop_beyond_quota(placement: Placement) -> None:
    """Stop what starts or resizes, the last first, beyond a quota or cap in which it counts."""
    over = [key for key, amount in placement.quota_left().items() if amount < 0]
    problem = placement.problem
    for number, start in reversed(list(placement.changed()) if over else []):
        job_class = problem.classes[start.job_class]
        choice = job_class.choices[start.choice]
        takes = problem.takes_of(over, job_class.accounts, choice)
        if takes and (start.job == ANY_JOB or start.choice):
            placement.stop(number)
            left = placement.quota_left()
            over = [key for key in over if left[key] < 0]
