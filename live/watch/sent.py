"""Jobs that were sent to their hosts, and that the scheduler has not started yet."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from placewright.instances.checks.round import check_round
from placewright.instances.documents.job import Job, Running
from placewright.instances.documents.plan import Decision, Plan
from placewright.instances.documents.round import Round
from placewright.instances.errors import InvalidInputError

PATIENCE_S = 30.0
"""How long a job that was sent counts as running; afterwards it is decided anew."""


@dataclass
class Sent:
    """Lets jobs that were sent count as running where they were sent, for a while.

    Otherwise a plan that is made before the scheduler has acted would send them elsewhere.
    """

    clock: Callable[[], float] = time.monotonic
    _sent: dict[str, tuple[Decision, float]] = field(default_factory=dict)

    def note(self, plan: Plan, started: Collection[str]) -> None:
        """Note jobs that were just sent where a plan says."""
        now = self.clock()
        for decision in plan.decisions:
            if decision.job in started and decision.tasks:
                self._sent[decision.job] = decision, now

    def applied_to(self, round_: Round) -> Round:
        """Return a round in which jobs run that were sent, if there is room for them all."""
        now = self.clock()
        waiting = {job.name for job in round_.jobs if job.running is None and not job.held}
        self._sent = {
            name: (decision, since)
            for name, (decision, since) in self._sent.items()
            if name in waiting and now - since < PATIENCE_S
        }
        if not self._sent:
            return round_
        jobs = tuple(self._running(job, round_.now) for job in round_.jobs)
        made = round_.model_copy(update={"jobs": jobs})
        try:
            check_round(made)
        except InvalidInputError:  # something else runs there, or the job has changed
            self._sent.clear()
            return round_
        return made

    def _running(self, job: Job, now: int) -> Job:
        if job.name not in self._sent:
            return job
        decision, _ = self._sent[job.name]
        running = Running(
            option=decision.option or 0, tasks=decision.tasks, pinned=True, started=now
        )
        return job.model_copy(update={"running": running})
