"""Preemption as Slurm is told to do it: by QOS, or by the PriorityTier of partitions.

Jobs that may be preempted count in a cap without limits, by which others name whom they may
preempt: `preempt/qos/low`, `preempt/tier/1`.
"""

from __future__ import annotations

from collections.abc import Mapping

from placewright.instances.converters.bookkeeping import Bookkeeping
from placewright.instances.converters.slurm.accounting import Qos
from placewright.instances.converters.slurm.records import SlurmJob
from placewright.instances.converters.slurm.scheduler import BY_QOS, BY_TIER, Scheduler
from placewright.instances.converters.slurm.text import is_name
from placewright.instances.documents.caps import Cap
from placewright.instances.documents.job import MAX_CAPS, Job
from placewright.instances.documents.source_keys import SLURM_PREEMPT

SUSPENDED = "preemption by suspending, which frees no GPUs"
SUSPENDS = "whom it may suspend (PreemptMode SUSPEND): that frees cores, and no GPUs"
WITHIN = "whom it may preempt within its QOS (PreemptMode WITHIN)"
BESIDE = frozenset({"WITHIN", "GANG", "PRIORITY"})
"""What modes of a QOS may have beside how its jobs stop."""

MAX_GRACE_S = 60
"""Seconds for which a step waits between telling a job to end, and ending it."""


class Preemption:
    """Who may preempt whom among the jobs of a dump."""

    def __init__(self, scheduler: Scheduler, now: int, book: Bookkeeping) -> None:
        self._scheduler, self._now, self._book = scheduler, now, book
        self._tiers = sorted({one.tier or 0 for one in scheduler.partitions.values()} | {1})
        self._of_qos = scheduler.limits.of_qos
        self._victims = {name for one in self._of_qos.values() for name in one.preempts}
        self._caps: set[str] = set()
        self._suspended: set[str] = set()

    def rank(self, job: SlurmJob) -> int:
        """Return the precedence of a job: how long a chain of others it may preempt."""
        if self._scheduler.preemption == BY_TIER:
            return sum(tier < self._scheduler.tier(job) for tier in self._tiers)
        by_qos = self._scheduler.preemption == BY_QOS
        return self._scheduler.limits.ranks.get(job.qos, 0) if by_qos else 0

    def how(self, job: SlurmJob) -> str:
        """Return how a running job is preempted, `requeue` or `cancel,30` (seconds of grace).

        "" if nobody may.
        """
        scheduler, qos = self._scheduler, self._of_qos.get(job.qos, Qos())
        mode, grace, exempt = scheduler.mode, qos.grace_s, scheduler.exempt_s
        if scheduler.preemption == BY_QOS:
            victim, mode = job.qos in self._victims, (qos.mode - BESIDE) or mode
            exempt = exempt if qos.exempt_s is None else qos.exempt_s
        elif scheduler.preemption == BY_TIER:
            own = [scheduler.partitions[n] for n in job.partition if n in scheduler.partitions]
            victim = scheduler.tier(job) < self._tiers[-1]
            said = {word.upper() for one in own for word in one.preempt_mode}
            mode = frozenset(said - {"CLUSTER_GLOBAL", "DISABLED"}) or mode
            grace = max((one.grace_s or 0 for one in own), default=0)
        else:
            return ""
        if not victim or not is_name(self._cap(job)) or "OFF" in mode:
            return ""
        if self._now - (job.start_time or 0) < exempt:
            return ""
        if "SUSPEND" in mode:
            self._book.cannot_say(SUSPENDED, job.name)
            self._suspended.add(self._cap(job))
            return ""
        if grace > MAX_GRACE_S:
            self._book.cannot_say(f"preemption with a grace of over {MAX_GRACE_S} s", job.name)
            return ""
        words = {"REQUEUE": "requeue" if job.requeue else "cancel", "CANCEL": "cancel"}
        word = next((text for key, text in words.items() if key in mode), "")
        if not word and mode - {"", "GANG", "NONE"}:
            self._book.cannot_say("preemption in a mode that is not known", job.name)
        return f"{word},{grace}" if word and grace else word

    def running(self, made: Job, job: SlurmJob, how: str) -> Job:
        """Return a running job that may be preempted, or not."""
        if not how:
            return made.model_copy(update={"preempts": ()})
        cap = self._cap(job)
        self._caps.add(cap)
        return made.model_copy(
            update={
                "preempts": (),
                "caps": (cap, *made.caps)[:MAX_CAPS],
                "annotations": {**made.annotations, SLURM_PREEMPT: how},
            }
        )

    def pending(self, made: Job, job: SlurmJob) -> Job:
        """Return a pending job with those whom it may preempt, of the running ones made before."""
        by_tier = self._scheduler.preemption == BY_TIER
        below = [tier for tier in self._tiers if tier < self._scheduler.tier(job)]
        names = [f"preempt/tier/{tier}" for tier in below]
        if not by_tier:
            names = [f"preempt/qos/{name}" for name in self._of_qos.get(job.qos, Qos()).preempts]
        if self._suspended.intersection(names):
            self._book.cannot_say(SUSPENDS, job.name)
        mode = self._of_qos.get(job.qos, Qos()).mode or self._scheduler.mode
        if "WITHIN" in mode and self._scheduler.preemption == BY_QOS:
            self._book.cannot_say(WITHIN, job.name)
        known = tuple(name for name in names if name in self._caps)
        return made.model_copy(update={"preempts": known[:MAX_CAPS]})

    def _cap(self, job: SlurmJob) -> str:
        by_tier = self._scheduler.preemption == BY_TIER
        return f"preempt/tier/{self._scheduler.tier(job)}" if by_tier else f"preempt/qos/{job.qos}"

    def documents(self) -> Mapping[str, Cap]:
        """Return the caps by which jobs name whom they may preempt."""
        return {name: Cap() for name in sorted(self._caps)}
