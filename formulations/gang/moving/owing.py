"""What a job that comes would hold beyond its tenant's quota, and who stops to give that back.

A stopped job needs one of higher precedence that comes to where it ran. So those of the tenant stop
first who ran where others have come anyway; then others of any tenant move in their places.
"""

from __future__ import annotations

from collections.abc import Iterator

from placewright.formulations.gang.jobs import ANY, Choice, Start
from placewright.formulations.gang.moving.shifting import Shifts
from placewright.formulations.gang.problem import Problem


class Owing:
    """What is owed yet of each resource; `held` are amounts held beyond the quota."""

    def __init__(self, problem: Problem, tenant: int, held: dict[int, int]) -> None:
        self.problem, self.tenant = problem, tenant
        self._held = dict(held)

    def __bool__(self) -> bool:
        """Whether anything is owed."""
        return any(amount > 0 for amount in self._held.values())

    def give_back(self, start: Start) -> None:
        """Take off what a job held that has stopped, if it is the tenant's."""
        job_class = self.problem.classes[start.job_class]
        choice: Choice = job_class.choices[start.choice]
        for resource in self._held if job_class.tenant == self.tenant else ():
            self._held[resource] -= self.problem.demand_of(choice, resource)

    def collect(self, shifts: Shifts) -> Iterator[Start]:
        """Stop jobs of the tenant wherever they are as long as something is owed; yield them."""
        # For whoever moves more than one may stop, but not all that they leave is of use.
        for stops in (_at_once, _relieved, _at_once):
            for start in stops(shifts, self.tenant) if self else ():
                self.give_back(start)
                yield start
                if not self:
                    return


def _at_once(shifts: Shifts, tenant: int) -> Iterator[Start]:
    """Stop pending jobs of a tenant, and such as ran where others of higher precedence have come.

    Those of least worth per GPU come first.
    """
    found = []
    for number, held in shifts.jobs():
        start = shifts.get(number)
        mine = shifts.problem.classes[start.job_class].tenant == tenant
        if mine and (start.job == ANY or _gave_way(shifts, start.job)):
            found.append((shifts.worth(start) / held, number))
    for _, number in sorted(found):
        yield shifts.take_off(number)


def _gave_way(shifts: Shifts, job: int) -> bool:
    """Whether all that came to where a job ran, and something did, is of higher precedence."""
    running = shifts.problem.running[job]
    came = shifts.placement.arrivals[[host for _, _, host, _ in running.places]]
    return bool(came.any() and not came[:, : running.level + 1].any())


def _relieved(shifts: Shifts, tenant: int) -> Iterator[Start]:
    """Stop running jobs of a tenant, each as another one moves to where it ran.

    Of the other one's place on its host anybody may make use. Those of least worth per GPU stop
    first, for the largest that there is room for.
    """
    placement, running = shifts.placement, shifts.problem.running
    mine: list[tuple[float, int]] = []
    others: list[tuple[int, int, int]] = []
    for number, held in shifts.jobs():
        start = shifts.get(number)
        if start.job == ANY:
            continue
        if shifts.problem.classes[start.job_class].tenant == tenant:
            mine.append((shifts.worth(start) / held, number))
        elif running[start.job].level and placement.in_place(start.job):
            others.append((-held, running[start.job].level, number))
    others.sort()
    for _, number in sorted(mine):
        job = shifts.get(number).job
        for k, (_, rank, other) in enumerate(others):
            if rank > running[job].level and _may_relieve(shifts, number, other):
                others.pop(k)
                stopped = shifts.take_off(number)
                shifts.put(shifts.take_off(other), running[job].places[0][2])
                yield stopped
                break


def _may_relieve(shifts: Shifts, number: int, other: int) -> bool:
    """Whether a job may come to where another one ran, if that stops."""
    placement, stops, comes = shifts.placement, shifts.get(number), shifts.get(other)
    running, shape = shifts.problem.running[stops.job], shifts.shape_of(comes)
    host = running.places[0][2]
    room = int(placement.whole[host])
    if stops.puts[0].host == host:
        room += shifts.size(shifts.shape_of(stops))
    return bool(
        room >= shifts.size(shape)
        and shifts.may_come(shape)[host]
        and not placement.arrivals[host, : running.level + 1].any()
    )
