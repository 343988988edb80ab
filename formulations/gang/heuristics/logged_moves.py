"""Moves of jobs in a placement, with a log to roll them back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial

from placewright.array_types import Bools
from placewright.formulations.gang.heuristics.movable_jobs import MovableJobs
from placewright.formulations.gang.placement.placement import Placement
from placewright.formulations.gang.problem.jobs import ANY_JOB, JobPlacement, TaskPlacement
from placewright.topology.units import WHOLE_GPU


class LoggedMoves:
    """Moves of jobs in a placement, with a log to roll them back.

    Methods take the number that `Placement.start` gave a job. Rolling back a removal restarts the
    job under a new number: `current_number` returns it. `movable` is the table of jobs that may
    move.
    """

    def __init__(self, placement: Placement) -> None:
        self.placement, self.problem = placement, placement.problem
        self.movable = MovableJobs(self.problem, placement.started())
        self._undo_log: list[Callable[[], object]] = []
        self._renumbered: dict[int, int] = {}

    @property
    def num_moves(self) -> int:
        """Moves since the last commit."""
        return len(self._undo_log)

    def gpus_of(self, shape: int) -> int:
        """Return the whole GPUs of a task."""
        return int(self.problem.shape_gpu[shape]) // WHOLE_GPU

    def shape_of(self, start: JobPlacement) -> int:
        """Return the shape of a job's first group."""
        return self.problem.classes[start.job_class].choices[start.choice].groups[0].shape

    def value_of(self, start: JobPlacement) -> int:
        """Return the value of a job."""
        return self.problem.classes[start.job_class].choices[start.choice].value

    def eligible_hosts(self, shape: int) -> Bools:
        """Return the hosts (hosts,) where a task may arrive if it fits."""
        rank = self.problem.shape_rank[shape]
        found: Bools = self.problem.shape_hosts[shape] & (self.placement.least_rank <= rank)
        return found

    def fits(self, shape: int, host: int, count: int) -> bool:
        """Whether `count` tasks of a shape fit a host as it is."""
        problem, placement = self.problem, self.placement
        enough = placement.whole[host] * WHOLE_GPU >= count * problem.shape_gpu[shape]
        enough &= (placement.free[host] >= count * problem.shape_demand[shape]).all()
        return bool(enough) and placement.pools.fits_host(shape, host, count)

    def insert(self, start: JobPlacement, host: int) -> None:
        """Insert a removed job on a host that it fits."""
        puts = [TaskPlacement(0, host, 1, self.placement.put(self.shape_of(start), host))]
        self._start(start.job_class, start.choice, puts, start.job)

    def start(self, c: int, o: int, hosts: Iterable[tuple[int, int]]) -> None:
        """Start a waiting job of one group on (host, number of tasks) pairs."""
        shape = self.problem.classes[c].choices[o].groups[0].shape
        puts = [
            TaskPlacement(0, host, count, self.placement.put(shape, host, count))
            for host, count in hosts
        ]
        self._start(c, o, puts, ANY_JOB)

    def remove(self, number: int) -> JobPlacement:
        """Remove a job from the placement and return it."""
        start = self._stop(number)
        self._undo_log.append(partial(self._undo_removal, number, start))
        return start

    def commit(self) -> None:
        """Commit all moves: clear the log."""
        self._undo_log = []

    def rollback(self, before: int = 0) -> None:
        """Undo moves, the last one first, until the log has `before` moves."""
        while len(self._undo_log) > before:
            self._undo_log.pop()()

    def current_number(self, number: int) -> int:
        """Return the current number of a job by any of its numbers."""
        while number in self._renumbered:
            number = self._renumbered[number]
        return number

    def get(self, number: int) -> JobPlacement:
        """Return a job by its number; KeyError if it has stopped."""
        start = self.placement.get(number)
        if start is None:
            raise KeyError(number)
        return start

    def _start(self, c: int, o: int, puts: Sequence[TaskPlacement], job: int) -> None:
        number = self.placement.start(c, o, puts, job)
        self.movable.add(number, JobPlacement(c, o, puts, job))
        self._undo_log.append(partial(self._undo_start, number))

    def _undo_start(self, number: int) -> None:
        self._stop(self.current_number(number))

    def _undo_removal(self, number: int, start: JobPlacement) -> None:
        self._renumbered[number] = self.placement.restart(start)
        self.movable.add(self._renumbered[number], start)

    def _stop(self, number: int) -> JobPlacement:
        start = self.get(number)
        self.placement.stop(number)
        self.movable.remove(number, start.tasks[0].host)
        return start
