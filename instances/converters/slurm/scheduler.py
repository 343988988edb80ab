"""How a Slurm cluster schedules: the queue's order, its reservations, who preempts whom."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from placewright.instances.converters.bookkeeping import Bookkeeping
from placewright.instances.converters.slurm.limits import Limits, Qos
from placewright.instances.converters.slurm.records import Part, SlurmJob
from placewright.instances.converters.slurm.requests import Partition
from placewright.instances.converters.slurm.texts import seconds, table
from placewright.instances.converters.support.live import is_name
from placewright.instances.derived import slurm_marks
from placewright.instances.documents.base import MAX_COUNT
from placewright.instances.documents.caps import Cap
from placewright.instances.documents.job import MAX_CAPS, Job
from placewright.instances.documents.policy import Backfill
from placewright.instances.documents.quantities import small_number
from placewright.instances.documents.source_keys import SLURM_PREEMPT
from placewright.instances.errors import InvalidInputError, printable

DEPTH = 500
"""Slurm's own default of `bf_max_job_test`."""

MOST_RESERVED = 100_000
"""Hosts times reservations of a round, so that these take seconds."""

BY_QOS, BY_TIER = "preempt/qos", "preempt/partition_prio"
MAX_WORD = 100
FACTORS = ("Age", "FairShare", "JobSize", "Partition", "QOS")
_LINE = re.compile(r"(\S+)\s*=\s*(.*?)\s*")
_DEPTH = re.compile(r"\bbf_max_job_test=([^,]*)")
_SHARE = re.compile(r"[01]\.[0-9]{1,12}|")
_FIRST = 2**62
_UNREAD: Mapping[str, re.Pattern[str]] = {
    "SchedulerParameters": re.compile(
        r"\b(bf_max_job_(?:user|part|assoc|user_part)|bf_(?:min_prio|min_age|job_part_count)_reserve"
        r"|assoc_limit_stop|bf_one_resv_per_job|extra_constraints)\b"
    ),
    "SelectTypeParameters": re.compile(
        r"(?i)\b(CR_Socket(?:_Memory)?|CR_ONE_TASK_PER_CORE"
        r"|ENFORCE_BINDING_GRES|ONE_TASK_PER_SHARING_GRES)\b"
    ),
    "PreemptParameters": re.compile(r"\b(min_exempt_priority|strict_order|youngest_first)\b"),
    "PreemptMode": re.compile(r"\b(PRIORITY)\b"),
}
"""Words of the configuration that change who starts, or who stops, and that rounds do not have."""

ENFORCES = frozenset({"limits", "safe", "all"})
"""Words of AccountingStorageEnforce by which limits of accounts and QOS hold."""

BUILTIN = "that nobody starts out of turn (SchedulerType), as rounds backfill"

ALL_MEMORY = "all memory of a node (--mem=0), as no job that runs is said to have memory"


class Numbers(NamedTuple):
    """What the multifactor priority of jobs is made of: weights by factor, and the oldest age."""

    weights: Mapping[str, int]
    oldest_s: int


@dataclass(frozen=True, slots=True)
class Scheduler:
    """The order of the queue, its reservations, and who may preempt whom.

    `depth`: how many jobs that wait get a reservation. `preemption`: `preempt/qos`,
    `preempt/partition_prio`, or another word: nobody may. `mode`: how jobs are preempted where
    neither QOS nor partition says it. `exempt_s`: how long a job runs before it may be preempted.
    `basic`: jobs are in the order of their submission (priority/basic). `numbers`: None: of no
    effect, or the dump does not say. `unread`: what of the configuration changes which pending jobs
    start, and is not in the round. `whole_nodes`, `memory`: whether all jobs have their nodes alone
    (select/linear), and whether memory is allocated, None: the dump does not say. `enforces`:
    whether limits of accounts and QOS hold.
    """

    partitions: Mapping[str, Partition]
    limits: Limits
    depth: int = DEPTH
    preemption: str = ""
    mode: frozenset[str] = frozenset({"REQUEUE"})
    exempt_s: int = 0
    basic: bool = False
    numbers: Numbers | None = None
    unread: tuple[str, ...] = ()
    whole_nodes: bool = False
    memory: bool | None = None
    shares: Mapping[tuple[str, str], float] = field(default_factory=dict)
    enforces: bool = True

    def backfill(self, hosts: int) -> Backfill:
        """Return the reservations of the round's policy; the queue is as the round lists jobs."""
        most = max(1, min(self.depth, MAX_COUNT, MOST_RESERVED // max(hosts, 1)))
        return Backfill(depth=most, order="listed")

    def as_allocated(self, jobs: Sequence[SlurmJob], book: Bookkeeping) -> tuple[SlurmJob, ...]:
        """Return jobs with what Slurm allocates to them: nodes alone, and no memory where it is so.

        Slurm's JSON says of the first of several partitions alone, and in some dialects of none,
        that it gives its jobs their nodes alone.
        """
        found: list[SlurmJob] = []
        held = {bool(one.memory) for job in jobs for one in job.job_resources}
        for job in jobs:
            own = [self.partitions[name] for name in job.partition if name in self.partitions]
            alone = {one.alone for one in own}
            update: dict[str, object] = {}
            if self.whole_nodes or alone == {True}:
                update["shared"] = ("none",)
            elif len(alone) > 1:
                book.cannot_say("that only some of its partitions give nodes alone", job.name)
            if self.memory is False:
                update |= job.without_memory()
            elif not job.names_memory and (self.memory or job.memory_per_node == 0):
                if self.memory or held != {False}:
                    update["all_memory"] = True
                else:
                    book.cannot_say(ALL_MEMORY, job.name)
            found.append(job.model_copy(update=update) if update else job)
        return tuple(found)

    def tier(self, job: SlurmJob) -> int:
        """Return the PriorityTier of a job: the highest of its partitions."""
        return max(
            (self.partitions[name].tier or 0 for name in job.partition if name in self.partitions),
            default=1,
        )

    def ordered(self, queue: Sequence[Sequence[SlurmJob]], now: int) -> list[Sequence[SlurmJob]]:
        """Return jobs that wait, each with its components, in the order in which Slurm takes them.

        By reservation, PriorityTier, priority, submission and number; who may preempt another by
        its QOS comes before it.
        """
        estimated = any(self.is_hidden(one[0]) for one in queue)
        priority = {id(one): self._priority(one[0], now, estimated=estimated) for one in queue}
        jobs = sorted(
            queue,
            key=lambda one: (
                not one[0].reservation,
                -self.tier(one[0]),
                -priority[id(one)],
                one[0].submit_time or 0,
                one[0].job_id,
            ),
        )
        if self.preemption != BY_QOS:
            return jobs
        placed: list[Sequence[SlurmJob]] = []
        first: dict[str, int] = {}  # by QOS, the place of its first job
        for one in jobs:
            may = self.limits.of_qos.get(one[0].qos, Qos()).preempts
            at = min((first[qos] for qos in may if qos in first), default=len(placed))
            first = {qos: place + (place >= at) for qos, place in first.items()}
            placed.insert(at, one)
            first[one[0].qos] = min(at, first.get(one[0].qos, at))
        return placed

    def is_hidden(self, job: SlurmJob) -> bool:
        """Whether a hold of Placewright's hides the priority of a job, which Slurm sets to 0."""
        return not job.priority and job.admin_comment.startswith(slurm_marks.HELD)

    def _priority(self, job: SlurmJob, now: int, *, estimated: bool) -> int:
        """Return Slurm's priority of a job: its number, or where a hold hides it, what makes it."""
        if estimated and self.numbers is None:
            given = 0 if self.basic else self.limits.of_qos.get(job.qos, Qos()).priority
            return given * _FIRST - (job.submit_time or 0)
        if not self.is_hidden(job) or self.numbers is None:
            return job.priority or 0
        weights, oldest = self.numbers
        waited = now - max(job.submit_time or now, min(job.eligible_time or 0, now))
        most = max((one.priority for one in self.limits.of_qos.values()), default=0)
        factors = [one.job_factor or 0 for one in self.partitions.values()]
        own = [self.partitions[n].job_factor or 0 for n in job.partition if n in self.partitions]
        share = self.shares.get((job.account or "", job.user_name), 0.0)
        parts = {
            "Age": min(waited / oldest, 1.0) if oldest else 0.0,
            "FairShare": share,
            "QOS": self.limits.of_qos.get(job.qos, Qos()).priority / most if most else 0.0,
            "Partition": max(own, default=0) / max(max(factors, default=0), 1),
        }
        return int(sum(weights.get(name, 0) * part for name, part in parts.items()))

    def described(self, hosts: int) -> str:
        """Return a line about the queue of the round, which is Slurm's."""
        tiers = len({one.tier for one in self.partitions.values()}) > 1
        depth = self.backfill(hosts).depth
        cut = f", not {self.depth:,} (bf_max_job_test), as nodes times jobs are {MOST_RESERVED:,}"
        fewer = cut if depth != self.depth else ""
        modes = "/".join(sorted(self.mode))
        known = self.preemption in (BY_QOS, BY_TIER)
        return "; ".join(
            (
                f"policy: queue by {'PriorityTier, then ' if tiers else ''}Slurm's priority",
                f"backfill with reservations for {depth:,} jobs" + fewer,
                f"{self.preemption}, {modes}" if known else "nobody is preempted",
            )
        )


def read_scheduler(
    config: Part | None,
    shares: Part | None,
    partitions: Mapping[str, Partition],
    limits: Limits,
    book: Bookkeeping,
) -> Scheduler:
    """Return how a cluster schedules, by what Slurm does by itself where the dump does not say.

    Without its configuration QOS that may preempt others do so by requeueing them.
    """
    found = _shares(shares, book)
    if config is None or config.text is None:
        some = any(one.preempts for one in limits.of_qos.values())
        return Scheduler(partitions, limits, preemption=BY_QOS if some else "", shares=found)
    said, lines = {}, {}
    for at, line in enumerate(map(_LINE.fullmatch, config.text.splitlines()), 1):
        if line is not None:
            said[line[1]], lines[line[1]] = line[2], at

    def number(name: str, how: Callable[[str], int | None]) -> int:
        try:
            return how(said.get(name, "")) or 0
        except ValueError as error:
            book.refuse(_refused(config.file, lines[name], name, said[name], str(error)))
            return 0

    unread = [BUILTIN] if said.get("SchedulerType") not in ("sched/backfill", None) else []
    for name, pattern in _UNREAD.items():
        words = dict.fromkeys(pattern.findall(said.get(name, "")))
        unread += [f"{', '.join(words)} of {name}"] if words else []
    by = said.get("PreemptType", "")
    if by not in (BY_QOS, BY_TIER, "preempt/none", "(null)", ""):
        unread.append(f"who may preempt whom (PreemptType {printable(by)[:MAX_WORD]})")
    weights = {n: number(f"PriorityWeight{n}", _whole) for n in FACTORS}
    basic = said.get("PriorityType") == "priority/basic"
    if not basic and (weights["JobSize"] or "=" in said.get("PriorityWeightTRES", "")):
        book.cannot_say("JobSize and TRES in the priority of jobs that Placewright holds")
    if not basic and weights["FairShare"] and not found:
        book.cannot_say(
            "fair shares in the priority of jobs that Placewright holds, as the dump does not have "
            "what `sshare -a -P` prints"
        )
    return Scheduler(
        partitions,
        limits,
        depth=number("SchedulerParameters", _depth) or DEPTH,
        preemption=by,
        mode=frozenset(word.strip() for word in said.get("PreemptMode", "").upper().split(",")),
        exempt_s=number("PreemptExemptTime", seconds),
        basic=basic,
        unread=tuple(unread),
        whole_nodes=said.get("SelectType") == "select/linear",
        memory="MEMORY" in said["SelectTypeParameters"].upper()
        if "SelectTypeParameters" in said
        else None,
        numbers=None if basic else Numbers(weights, number("PriorityMaxAge", seconds)),
        shares=found,
        enforces=bool(
            ENFORCES.intersection(said.get("AccountingStorageEnforce", "limits").lower().split(","))
        ),
    )


def _whole(text: str) -> int | None:
    if text and small_number(text) is None:
        raise ValueError("expected a whole number")
    return small_number(text)


def _depth(text: str) -> int | None:
    named = _DEPTH.search(text)
    return None if named is None else max(1, _whole(named[1].strip()) or 0)


def _refused(file: str, line: int, name: str, value: str, expected: str) -> InvalidInputError:
    refused = InvalidInputError(expected, file=file, path=(name,), value=value)
    refused.line = line
    return refused


def _shares(part: Part | None, book: Bookkeeping) -> dict[tuple[str, str], float]:
    """Return the fair-share factor by account and user; accounts as such may have none."""
    found = {}
    for line, row in table(part.text) if part is not None and part.text else ():
        share, *key = (row.get(one, "").strip() for one in ("FairShare", "Account", "User"))
        if _SHARE.fullmatch(share) is None:
            expected = "expected a factor from 0 to 1, such as 0.500000"
            book.refuse(_refused(part.file if part else "", line, "FairShare", share, expected))
            book.leave("shares", "cannot be read: FairShare", "/".join(key))
        elif share:
            found[key[0], key[1]] = float(share)
    return found


# Preemption as Slurm is told to do it: by QOS, or by the PriorityTier of partitions.
#
# Jobs that may be preempted count in a cap without limits, by which others name whom they may
# preempt: `preempt/qos/low`, `preempt/tier/1`.

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
