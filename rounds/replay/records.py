"""Jobs on their way from boundary to boundary: what is left of each, and where it runs.

Time passes in whole seconds. A job that runs does its work at the pace of its option on the hosts
that it has; the overhead of its pace passes first each time it goes on after a stop or a move, and
not in every lease, as promises count on.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log2

from placewright.instances.derived.lease_arithmetic import relative_speed
from placewright.instances.documents.deadline import (
    UNIT,
    Deadline,
    Due,
)
from placewright.instances.documents.job import Job, Running

CLASSES, STEPS = 1000, 8
"""Classes among jobs of equal priority, and how many of them for each factor of two in work."""


@dataclass(frozen=True, slots=True)
class Served:
    """What became of a job.

    Parameters
    ----------
    came, finish
        Seconds on the round's clock; `finish` is None for a job that left undone.
    value, most
        What its finish was worth by its deadlines, and what its best deadline is worth.
    stops, moves
        How often it was preempted, and how often it migrated.
    broken
        Whether it ended after the last promise that it was given, or without one that it once had.
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
    """A job on its way: the work and overhead that are left, and where it runs."""

    job: Job
    asked: Deadline
    came: int
    left: int
    level: int
    overhead: int = 0
    running: Running | None = None
    since: int = 0
    known: bool = False
    written_as: tuple[int, bool] | None = None
    asks: bool = True
    ran: bool = False
    finish: int | None = None
    stops: int = 0
    moves: int = 0
    had_promise: bool = False
    promise: Due | None = None

    @property
    def changed(self) -> bool:
        """Whether a round does not yet say how it is; `ran`: it did when the last one ended."""
        return self.running is not None or self.ran or self.written_as != (self.priority, self.asks)

    @property
    def backfill_key(self) -> tuple[bool, int, str]:
        """Return how it stands among those that wait for idle GPUs: promises can wait."""
        gpus = min(option.milli_gpu for option in self.job.options)
        return self.promise is not None, self.left * gpus, self.job.name

    @property
    def priority(self) -> int:
        """Return its own priority, and among equals one that rises as less work is left.

        A promise is kept whoever comes before it, so that it has the least, as has who will get
        one.
        """
        if self.promise is not None or (self.asked.due and self.asks and not self.known):
            return self.level
        gpus = min(option.milli_gpu for option in self.job.options)
        return self.level + CLASSES - round(STEPS * log2(max(1, self.left * gpus)))

    @property
    def least_gpu_time(self) -> float:
        """Milli-GPU-seconds that its work takes, at least."""
        options = enumerate(self.job.options)
        each = (option.milli_gpu * UNIT / self.asked.pace(o).speed for o, option in options)
        return self.asked.work_s * min(each)

    @property
    def value_per_gpu_time(self) -> float:
        """What its first deadline is worth per milli-GPU-second."""
        return self.asked.due[0].value / self.least_gpu_time if self.asked.due else 0.0

    @property
    def rate(self) -> int:
        """Millionths of a second of work that are done in a second."""
        option = 0 if self.running is None else self.running.option
        hosts = 1 if self.running is None else len({task.host for task in self.running.tasks})
        pace = self.asked.pace(option)
        return pace.speed * relative_speed(pace, hosts)

    def end(self, now: int) -> int:
        """Return when it is done if it runs on as it does, or on its own host from now on."""
        return now + self.overhead - (-UNIT * self.left // self.rate)

    def work(self, seconds: int) -> None:
        """Let it run for a number of seconds, fewer than it needs."""
        overhead = min(self.overhead, seconds)
        self.overhead -= overhead
        self.left -= self.rate * (seconds - overhead) // UNIT

    def hopeless(self, now: int) -> bool:
        """Whether none of its deadlines can be met any more."""
        due = self.asked.due
        if not due:
            return False
        fastest = max(self.asked.pace(o).speed for o in range(len(self.job.options)))
        return now + self.overhead - (-self.left // fastest) > due[-1].at

    def stop(self) -> None:
        """Take it off its GPUs."""
        self.stops += 1
        self.restart()
        self.running = None

    def restart(self) -> None:
        """Charge what going on somewhere else costs."""
        option = 0 if self.running is None else self.running.option
        self.overhead = self.asked.pace(option).overhead_s

    def written(self, now: int) -> Job:
        """Return the job as a round has it."""
        left = -(-self.left // UNIT)
        due = self.asked.due if self.asks else ()
        deadline = self.asked.model_copy(
            update={"work_s": left, "ready": None, "promise": self.promise, "due": due}
        )
        running = self.running
        if running is not None:
            cost = self.asked.pace(running.option).overhead_s
            running = running.model_copy(update={"checkpoint": now, "restart_s": cost})
        self.written_as = self.priority, self.asks
        update = {"deadline": deadline, "running": running, "priority": self.priority}
        return self.job.model_copy(update=update)

    def served(self) -> Served:
        """Return what became of it."""
        due, finish = self.asked.due, self.finish
        met = (one.value for one in due if finish is not None and finish <= one.at)
        late = self.promise is None or finish is None or finish > self.promise.at
        return Served(
            job=self.job.name,
            came=self.came,
            finish=finish,
            value=max(met, default=0),
            most=due[0].value if due else 0,
            stops=self.stops,
            moves=self.moves,
            broken=self.had_promise and late,
        )
