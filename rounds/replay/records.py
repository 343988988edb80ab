"""Lease by lease: what is known of each job beside its progress, and what became of it.

Progress is the loop's. A running job works at the pace of its option on its hosts. Overhead is
charged after each preemption and migration only, whereas promises budget it in every lease.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log2

from placewright.instances.derived.leases import relative_speed
from placewright.instances.documents.deadline import (
    UNIT,
    Deadline,
    Due,
)
from placewright.instances.documents.job import Job, Running
from placewright.instances.traces.trace import SECOND

CLASSES, STEPS = 1000, 8
"""Priority levels among jobs of equal priority, and levels per factor of two in GPU time."""


@dataclass(frozen=True, slots=True)
class Served:
    """What became of a job.

    Parameters
    ----------
    came, finish
        Arrival and completion, in seconds on the round's clock, the latter rounded up; None for a
        job that left undone.
    value, most
        The value of the deadline that it met, 0 if none, and that of its best deadline.
    stops, moves
        How often it was preempted, and how often it migrated.
    broken
        Whether it had a promise and did not end in time for its last one, or lost it.
    """

    job: str
    came: int
    finish: int | None
    value: int
    most: int
    stops: int
    moves: int
    broken: bool


@dataclass(slots=True)
class Record:
    """A job in the loop.

    Work that is left is in thousandths of a second at speed 1000.

    Attributes
    ----------
    job, asked
        The job as it arrived, and its deadline.
    came
        Arrival, in seconds on the round's clock.
    level
        Priority of jobs that have or get a promise.
    running
        Where it runs.
    known, written_as
        Whether the engine has it, and with which priority and whether as asking.
    asks, promise, had_promise
        Whether it asks for a promise, which it has, and whether it ever had one.
    ran
        Whether it ran after the last round.
    """

    job: Job
    asked: Deadline
    came: int
    level: int
    running: Running | None = None
    known: bool = False
    written_as: tuple[int, bool] | None = None
    asks: bool = True
    ran: bool = False
    had_promise: bool = False
    promise: Due | None = None

    def changed(self, left: int) -> bool:
        """Whether the engine's round is out of date for this job."""
        written_as = self.priority(left), self.asks
        return self.running is not None or self.ran or self.written_as != written_as

    def backfill_key(self, left: int) -> tuple[bool, int, str]:
        """Sort key for backfilling: without a promise first, then the least remaining GPU time."""
        gpus = min(option.milli_gpu for option in self.job.options)
        return self.promise is not None, left * gpus, self.job.name

    def priority(self, left: int) -> int:
        """Return the job's priority, refined among equals: the less GPU time left, the higher.

        Jobs with a promise, or about to get one, are at the lowest level: the policy keeps promises
        whatever their priority.
        """
        if self.promise is not None or (self.asked.due and self.asks and not self.known):
            return self.level
        gpus = min(option.milli_gpu for option in self.job.options)
        return self.level + CLASSES - round(STEPS * log2(max(1, left * gpus)))

    @property
    def least_gpu_time(self) -> float:
        """Milli-GPU-seconds of its work with the most efficient option."""
        options = enumerate(self.job.options)
        each = (option.milli_gpu * UNIT / self.asked.pace(o).speed for o, option in options)
        return self.asked.work_s * min(each)

    @property
    def value_per_gpu_time(self) -> float:
        """Value density: the value of its first deadline per milli-GPU-second."""
        return self.asked.due[0].value / self.least_gpu_time if self.asked.due else 0.0

    @property
    def rate(self) -> int:
        """Speed where it runs, in millionths."""
        option = 0 if self.running is None else self.running.option
        hosts = 1 if self.running is None else len({task.host for task in self.running.tasks})
        pace = self.asked.pace(option)
        return pace.speed * relative_speed(pace, hosts)

    @property
    def fastest(self) -> int:
        """Speed with the fastest option, in thousandths."""
        return max(self.asked.pace(o).speed for o in range(len(self.job.options)))

    @property
    def overhead_us(self) -> int:
        """Overhead of a restart from where it runs."""
        option = 0 if self.running is None else self.running.option
        return SECOND * self.asked.pace(option).overhead_s

    def written(self, now: int, left: int) -> Job:
        """Return the job as a document for the round at `now`, and note what was written."""
        due = self.asked.due if self.asks else ()
        deadline = self.asked.model_copy(
            update={
                "work_s": -(-left // UNIT),
                "ready": None,
                "promise": self.promise,
                "due": due,
            }
        )
        running = self.running
        if running is not None:
            cost = self.asked.pace(running.option).overhead_s
            running = running.model_copy(update={"checkpoint": now, "restart_s": cost})
        priority = self.priority(left)
        self.written_as = priority, self.asks
        update = {"deadline": deadline, "running": running, "priority": priority}
        return self.job.model_copy(update=update)

    def served(self, finish: int | None, stops: int, moves: int) -> Served:
        """Return the result for this job."""
        due = self.asked.due
        met = (one.value for one in due if finish is not None and finish <= one.at)
        late = self.promise is None or finish is None or finish > self.promise.at
        return Served(
            job=self.job.name,
            came=self.came,
            finish=finish,
            value=max(met, default=0),
            most=due[0].value if due else 0,
            stops=stops,
            moves=moves,
            broken=self.had_promise and late,
        )
