"""Jobs that were sent to their hosts, and that the scheduler has not started yet."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from placewright.instances.checks.round import check_round
from placewright.instances.documents.job import Running
from placewright.instances.documents.plan import Decision, Plan
from placewright.instances.documents.round import Round
from placewright.instances.errors import InvalidInputError

PATIENCE_S = 30.0
"""How long a job that was sent counts as running; afterwards it is decided anew."""


@dataclass
class Sent:
    """Lets jobs that were sent count as running where they were sent, for a while.

    Otherwise a plan that is made before the scheduler has acted would send them elsewhere. Those
    whose host is drained meanwhile will not start there, and are decided anew.
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
        """Return a round in which jobs run that were sent, as far as there is room for them."""
        now = self.clock()
        waiting = {job.name for job in round_.jobs if job.running is None and not job.held}
        healthy = {host.name for host in round_.cluster.hosts if host.healthy}
        self._sent = {
            name: (decision, since)
            for name, (decision, since) in self._sent.items()
            if name in waiting
            and now - since < PATIENCE_S
            and all(task.host in healthy for task in decision.tasks)
        }
        made = _running(round_, {name: decision for name, (decision, _) in self._sent.items()})
        if made is not None:
            return made
        fits: dict[str, Decision] = {}
        made = round_
        for name, (decision, _) in tuple(self._sent.items()):
            more = _running(round_, {**fits, name: decision})
            if more is None:  # something else runs there, or the job has changed
                del self._sent[name]
            else:
                fits[name], made = decision, more
        return made


def _running(round_: Round, sent: Mapping[str, Decision]) -> Round | None:
    """Return a round in which these jobs run as decided; None if they cannot."""
    if not sent:
        return round_
    jobs = [
        job.model_copy(
            update={
                "running": Running(
                    option=sent[job.name].option or 0,
                    tasks=sent[job.name].tasks,
                    pinned=True,
                    started=round_.now,
                )
            }
        )
        if job.name in sent
        else job
        for job in round_.jobs
    ]
    made = round_.model_copy(update={"jobs": tuple(jobs)})
    try:
        check_round(made)
    except InvalidInputError:
        return None
    return made
