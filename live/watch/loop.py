"""The loop of a watch: read, decide, act, record."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import NamedTemporaryFile
from traceback import extract_tb, format_exception
from typing import Protocol, Self

from placewright.instances.checks.round import check_round
from placewright.instances.converters import LiveConversion
from placewright.instances.converters.support.live import GivenPolicy
from placewright.instances.derived.doubts import told_lines
from placewright.instances.documents.cluster import ClusterDocument
from placewright.instances.documents.job import Running
from placewright.instances.documents.plan import Decision, Plan
from placewright.instances.documents.round import Round
from placewright.instances.errors import InvalidInputError, printable
from placewright.instances.exporters.needs import obeying
from placewright.instances.io.files import json_text
from placewright.rounds import Changes, Engine, InternalError

ROUND, PLAN, COMMANDS, HEARTBEAT = "round.json", "plan.json", "commands.sh", "heartbeat"
FAILURE, METRICS = "failure.txt", "metrics.prom"


class Record:
    """A folder in which each file is whole at any moment: it takes the place of the one before.

    A plan names the digest of its round, so that a reader who comes between two files notices.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)

    def write(self, round_: Round, plan: Plan, commands: str) -> None:
        """Write a round, its plan, and the commands that carry it out."""
        self._replace(ROUND, json_text(round_))
        self._replace(PLAN, json_text(plan))
        self._replace(COMMANDS, commands)

    def beat(self, now: float) -> None:
        """Say that a state was read and decided `now`, in seconds since 1970."""
        self._replace(HEARTBEAT, f"{int(now)}\n")

    def fail(self, report: str) -> None:
        """Write what went wrong last."""
        self._replace(FAILURE, report)

    def count(self, metrics: Mapping[str, int]) -> None:
        """Write metrics of this watch as text that Prometheus' node exporter collects."""
        kinds = {name: "counter" if name.endswith("_total") else "gauge" for name in metrics}
        lines = [
            f"# TYPE placewright_watch_{name} {kinds[name]}\nplacewright_watch_{name} {value}\n"
            for name, value in metrics.items()
        ]
        self._replace(METRICS, "".join(lines))

    def _replace(self, name: str, text: str) -> None:
        with NamedTemporaryFile("w", dir=self.folder, prefix=f".{name}.", delete=False) as made:
            made.write(text)
            made.flush()
            os.fsync(made.fileno())
        Path(made.name).chmod(0o644)
        Path(made.name).replace(self.folder / name)


class SourceError(Exception):
    """A scheduler that is down, slow, or says what cannot be: nothing is decided then."""


@dataclass(frozen=True, slots=True)
class Reading:
    """A round as the scheduler said it, and when it began to, in seconds of a monotonic clock."""

    made: LiveConversion
    taken: float

    @property
    def round(self) -> Round:
        """The state as a round."""
        return self.made.round


class Source(Protocol):
    """Where states come from."""

    def read(self) -> Reading:
        """Return the state now.

        Raises SourceError if there is none, or none that could be true.
        """
        ...

    def wait(self, seconds: float) -> None:
        """Return after so many seconds, or earlier if something has changed."""
        ...


@dataclass(frozen=True, slots=True)
class WithPolicy:
    """A source whose rounds have a policy in place of the scheduler's own."""

    source: Source
    policy: GivenPolicy

    def read(self) -> Reading:
        """Return the state now.

        Raises SourceError if there is none, or none that could be true.
        """
        reading = self.source.read()
        return Reading(self.policy.of(reading.made), reading.taken)

    def wait(self, seconds: float) -> None:
        """Return after so many seconds, or earlier if something has changed."""
        self.source.wait(seconds)


@dataclass(frozen=True, slots=True)
class Acted:
    """What came of a plan: jobs that were sent to their hosts, and what was not done, and why."""

    sent: frozenset[str] = frozenset()
    undone: tuple[str, ...] = ()


class Actor(Protocol):
    """What a plan means for its scheduler."""

    def commands(self, round_: Round, plan: Plan) -> tuple[str, Sequence[str]]:
        """Return what an operator would run to carry the plan out, and what it leaves out."""
        ...

    def act(self, round_: Round, plan: Plan, until: float) -> Acted:
        """Carry the plan out, or tell of it, as far as asked.

        `until`, on the monotonic clock, the state is young enough; what is left then is not done.
        """
        ...


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


class Follower:
    """Decides one state of a cluster after the other; a context manager, as `Engine` is.

    `time_limit`: of each round, in seconds.
    """

    def __init__(self, *, time_limit: float) -> None:
        self._time_limit = time_limit
        self._engine: Engine | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the solver process."""
        if self._engine is not None:
            self._engine.close()
            self._engine = None

    def decide(self, coming: Round) -> tuple[Round, Plan]:
        """Return the round that was decided, which says what `coming` does, and its plan.

        What changes cannot say (other hosts, tenants, policy) begins a new engine.
        """
        engine = self._engine
        changes = None if engine is None else changes_between(engine.state, coming)
        if engine is not None and changes is not None:
            try:
                plan = engine.round(changes)
            except InvalidInputError:  # two states that are right need not be in one order of steps
                pass
            else:
                solved = engine.round_solved
                if _says(solved, coming):
                    return solved, plan
        self.close()
        self._engine = engine = Engine(coming, time_limit=self._time_limit)
        plan = engine.round()
        return engine.round_solved, plan


def changes_between(before: Round, after: Round) -> Changes | None:
    """Return what leads from one round to another; None if changes cannot say it.

    Jobs, health of hosts, reservations, maintenance and the time may differ, nothing else.
    """
    if after.now < before.now or _frame(before) != _frame(after):
        return None
    old = {job.name: job for job in before.jobs}
    new = {job.name: job for job in after.jobs}
    healthy = {host.name: host.healthy for host in before.cluster.hosts}
    return Changes(
        removed=[name for name in old if name not in new],
        updated=[job for name, job in new.items() if name in old and old[name] != job],
        added=[job for name, job in new.items() if name not in old],
        order=list(new) if after.policy.as_listed else (),
        health={
            host.name: host.healthy
            for host in after.cluster.hosts
            if healthy[host.name] != host.healthy
        },
        reservations=after.reservations,
        maintenance=after.maintenance,
        now=after.now,
    )


def _frame(round_: Round) -> Round:
    """Return a round without what changes can say."""
    return round_.model_copy(
        update={
            "now": 0,
            "jobs": (),
            "reservations": (),
            "maintenance": (),
            "annotations": {},
            "cluster": _healthy(round_.cluster),
        }
    )


def _healthy(cluster: ClusterDocument) -> ClusterDocument:
    hosts = tuple(host.model_copy(update={"healthy": True}) for host in cluster.hosts)
    return cluster.model_copy(update={"hosts": hosts})


def _says(solved: Round, coming: Round) -> bool:
    """Whether two rounds have the same jobs, hosts and rules, in whatever order."""
    return (
        {job.name: job for job in solved.jobs} == {job.name: job for job in coming.jobs}
        and solved.cluster.hosts == coming.cluster.hosts
        and solved.reservations == coming.reservations
        and solved.maintenance == coming.maintenance
    )


DECIDED_AGAIN = 10
"""A round is decided after so many looks though nothing changed: time itself lets jobs start."""

MOST_FAILURES = 20
"""Looks in a row that may fail before a watch gives up: some 85 minutes at 30 s between looks."""

MOST_PATIENCE_S = 300.0
"""The longest pause after failures; it doubles from one to the next."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """When a watch looks, and what it refuses to act on.

    `every_s`: seconds from one look to the next; after one that took long half of them.
    `max_age_s`: a plan is not carried out if its state was read longer ago than this. `rounds`: how
    many rounds are decided before the watch ends; None: until it is stopped. `despite`: rules of
    jobs that are told and not obeyed, and yet are no reason to leave these alone.
    """

    every_s: float
    max_age_s: float
    rounds: int | None = None
    despite: frozenset[str] = frozenset()


class GivenUpError(Exception):
    """So many looks in a row failed that the watch ends."""


def watch(
    source: Source,
    follower: Follower,
    actor: Actor,
    record: Record,
    pace: Pace,
    tell: Callable[[str], None],
) -> None:
    """Follow a cluster. Nothing is kept between two looks that the cluster does not know itself.

    Whatever a look raises is told, recorded and counted, and it is looked again.

    `source`, `follower`, `actor`, `record`: where states come from, who decides, who acts, and
    where plans are written. `tell`: is called with a line for each round, and for each thing that
    went wrong or is left out. Raises GivenUpError if `MOST_FAILURES` looks in a row failed.
    """
    looks = _Looks(source, follower, actor, record, pace, tell)
    failures = 0
    while True:
        began = time.monotonic()
        try:
            looks.look()
            failures = 0
        except Exception as error:  # noqa: BLE001
            failures += 1
            looks.failed(error, failures)
        looks.count(failures)
        if failures >= MOST_FAILURES:
            raise GivenUpError(f"{failures} looks in a row failed; the last one: {looks.problem}")
        if pace.rounds is not None and looks.decided >= pace.rounds:
            return
        rest = max(pace.every_s / 2, pace.every_s - (time.monotonic() - began))
        again = min(pace.every_s * 2 ** min(failures, 10), MOST_PATIENCE_S)
        source.wait(again if failures else rest)


@dataclass(slots=True)
class _Looks:
    """One look after the other, and what is known from those before."""

    source: Source
    follower: Follower
    actor: Actor
    record: Record
    pace: Pace
    tell: Callable[[str], None]
    last: Round | None = None
    sent: Sent = field(default_factory=Sent)
    told: frozenset[str] = frozenset()
    problem: str = ""
    idle: int = 0
    looks: int = 0
    decided: int = 0
    failures: int = 0

    def look(self) -> None:
        """Read a state, and decide it and act if something changed."""
        self.looks += 1
        reading = self.source.read()
        round_ = self.sent.applied_to(reading.round)
        self.idle += 1
        if self.idle >= DECIDED_AGAIN or _differ(self.last, round_):
            solved, plan = self.follower.decide(round_)
            obeys = obeying(solved, plan, self.pace.despite)
            commands, unsaid = self.actor.commands(solved, obeys.plan)
            self.record.write(solved, plan, commands)
            told = told_lines(solved)
            lines = [*reading.made.book.lines(), *told, *obeys.lines, *unsaid]
            for line in (line for line in lines if line not in self.told):
                self.tell(line)
            self.told = frozenset(lines)
            self.tell(f"{reading.made.summary}: {_counts(plan)}")
            done = _carry_out(
                reading, solved, obeys.plan, self.actor, self.sent, self.pace, self.tell
            )
            self.last, self.idle = (round_, 0) if done else (None, 0)
            self.decided += 1
        self.record.beat(time.time())

    def failed(self, error: Exception, in_a_row: int) -> None:
        """Tell and record what a look raised, and begin anew unless the scheduler was away."""
        self.failures += 1
        self.problem = _said(error)
        self.tell(f"nothing was decided: {self.problem}")
        at = time.strftime("%Y-%m-%d %H:%M:%S")
        trace = "".join(format_exception(error))
        self._note(lambda: self.record.fail(f"{at}: failure {in_a_row} in a row\n{trace}"))
        if not isinstance(error, SourceError):
            self.last, self.sent = None, Sent()
            self._note(self.follower.close)

    def count(self, failures: int) -> None:
        """Write the metrics of all looks."""
        metrics = {
            "looks_total": self.looks,
            "rounds_total": self.decided,
            "failures_total": self.failures,
            "failures_in_a_row": failures,
        }
        self._note(lambda: self.record.count(metrics))

    def _note(self, does: Callable[[], None]) -> None:
        """Do what must not take the watch with it, such as writing to a disk that is full."""
        try:
            does()
        except Exception as error:  # noqa: BLE001
            self.tell(f"after a look: {_said(error)}")


def _said(error: Exception) -> str:
    """Return what went wrong in a line, with its place in the code where nobody foresaw it."""
    if isinstance(error, SourceError | InternalError | InvalidInputError | OSError):
        return printable(str(error))
    frame = extract_tb(error.__traceback__)[-1]
    place = f"{Path(frame.filename).name}:{frame.lineno}"
    return printable(f"internal error: {type(error).__name__}: {error} ({place}); please report it")


def _carry_out(
    reading: Reading,
    round_: Round,
    plan: Plan,
    actor: Actor,
    sent: Sent,
    pace: Pace,
    tell: Callable[[str], None],
) -> bool:
    """Act on a plan; return whether all of it was done, as far as asked."""
    age = time.monotonic() - reading.taken
    if age > pace.max_age_s:
        tell(f"not carried out: read {age:.0f} s ago; at most {pace.max_age_s:.0f} s are allowed")
        return False
    acted = actor.act(round_, plan, reading.taken + pace.max_age_s)
    sent.note(plan, acted.sent)
    for line in acted.undone:
        tell(line)
    return not acted.undone


def _counts(plan: Plan) -> str:
    counts = Counter(decision.decision.value for decision in plan.decisions)
    return ", ".join(f"{number} {kind}" for kind, number in sorted(counts.items())) or "no jobs"


def _differ(before: Round | None, after: Round) -> bool:
    """Whether anything but the time, and what was left out, is different."""
    if before is None:
        return True
    same = {"now": before.now, "annotations": before.annotations}
    return after.model_copy(update=same) != before
