"""A plan as commands for Slurm: what each job is told, in which steps."""

from __future__ import annotations

import re
import shlex
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from placewright.instances.checks.round import checked
from placewright.instances.derived.doubts import why_waits
from placewright.instances.derived.slurm_marks import (
    HELD,
    MOVES,
    NODE_LIST,
    NODE_NAME,
    NUM_NODES,
    PLACED,
    PREEMPTED,
    RELEASED,
    RESERVATION,
    STARTS,
    STOPPED,
    WAITS,
    asked_text,
    is_placed,
)
from placewright.instances.documents.caveats import hard_caveats
from placewright.instances.documents.job import Job
from placewright.instances.documents.option import Option
from placewright.instances.documents.plan import Decision, DecisionKind, Plan, Reason, Task
from placewright.instances.documents.round import Round
from placewright.instances.documents.source_keys import (
    SLURM_ASKED,
    SLURM_COMPONENTS,
    SLURM_JOB,
    SLURM_OURS,
    SLURM_PREEMPT,
    SLURM_USER,
)
from placewright.instances.errors import printable
from placewright.instances.exporters.kubernetes import GUARDS, guards
from placewright.instances.exporters.needs import VAIN, Needs, stopping

JOB = re.compile(r"[0-9]{1,12}(?:_[0-9]{1,9})?")
USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._@-]*")
CannotSay = Callable[[str, str], None]
GRACE = re.compile(r"[0-9]{1,3}")
HOLD, FIELDS = "Hold", (NUM_NODES, NODE_LIST, "ReservationName")
_ASKED = re.compile(
    rf"(?:{NUM_NODES}=[0-9]{{1,9}}-[0-9]{{1,9}})? ?(?:{NODE_LIST}=[A-Za-z0-9_.,\[\]-]{{1,200}})?"
)


class SlurmPlace(NamedTuple):
    """A decision that changes a job, or lets it wait.

    `job`: its number, `17` or `17_4`. `user`: its user, "" if that is not known. `before`, `after`:
    hosts, sorted. `heterogeneous`: whether it has components, whose hosts Slurm chooses as it
    starts them together: it takes none for the first, which would then take those of the others,
    and nothing would start. `ours`: fields that an earlier plan had set. `asked`: what its user
    asks for in fields that a plan sets: `NumNodes=2-4 ReqNodeList=h1`. `released`: whether it was
    Placewright's hold from which an earlier plan released it. `preempted`: how it is preempted,
    `requeue` or `cancel`. `grace_s`: seconds that it has to end by itself before that.
    `gives_hosts`: whether it shrinks by whole hosts, and holds as much as before on the others.
    """

    job: str
    user: str
    decision: Decision
    before: tuple[str, ...]
    after: tuple[str, ...]
    heterogeneous: bool
    ours: tuple[str, ...]
    asked: str
    released: bool
    preempted: str = "requeue"
    grace_s: int = 0
    gives_hosts: bool = False

    @property
    def by_user(self) -> dict[str, str]:
        """What its user asks for, by field."""
        return dict(one.split("=", 1) for one in self.asked.split())

    @property
    def undone(self) -> list[str]:
        """Arguments that give the fields which an earlier plan had set what the user asks for."""
        return [f"{name}={self.by_user.get(name, '')}" for name in self.ours]


def places_of(round_: Round, plan: Plan, cannot_say: CannotSay) -> dict[str, SlurmPlace]:
    """Return what a plan decides about jobs that it does not keep, by their name in the round.

    Those that have no number, or a host with a name that Slurm cannot have, are left out, which
    `cannot_say` is told. A user with such a name is not known.
    """
    jobs = {job.name: job for job in checked(round_).jobs}
    found = {}
    for decision in plan.decisions:
        if decision.decision is not DecisionKind.KEEP:
            place = _place(jobs[decision.job], decision, cannot_say)
            if place is not None:
                found[decision.job] = place
    return found


def _place(job: Job, decision: Decision, cannot_say: CannotSay) -> SlurmPlace | None:
    number = job.annotations.get(SLURM_JOB, job.name)
    if not JOB.fullmatch(number):
        cannot_say("jobs without a number such as 17 or 17_4, which convert slurm gives", job.name)
        return None
    before = () if job.running is None else _hosts(job.running.tasks)
    after = _hosts(decision.tasks)
    if not all(NODE_NAME.fullmatch(name) for name in (*before, *after)):
        cannot_say("jobs on hosts with names that Slurm cannot have", number)
        return None
    user = job.annotations.get(SLURM_USER, "")
    if user and not USER.fullmatch(user):
        cannot_say("users with names that no reservation can have: as if not known", number)
        user = ""
    named = job.annotations.get(SLURM_OURS, "").split(",")
    asked = job.annotations.get(SLURM_ASKED, "")
    if not _ASKED.fullmatch(asked):
        cannot_say("jobs of which what the user asks for could not be given back", number)
        return None
    how, _, grace = job.annotations.get(SLURM_PREEMPT, "").partition(",")
    heterogeneous = "," in job.annotations.get(SLURM_COMPONENTS, "")
    return SlurmPlace(
        job=number,
        user=user,
        decision=decision,
        before=before,
        after=after,
        heterogeneous=heterogeneous,
        asked=asked,
        ours=tuple(name for name in FIELDS if name in named and not heterogeneous),
        released=HOLD in named,
        preempted="cancel" if how == "cancel" else "requeue",
        grace_s=int(grace) if GRACE.fullmatch(grace) else 0,
        gives_hosts=decision.decision is DecisionKind.RESIZE and _gives_hosts(job, decision),
    )


def _gives_hosts(job: Job, decision: Decision) -> bool:
    """Whether a job that resizes leaves some of its hosts, and holds the same on all others."""
    running = job.running
    if running is None or decision.option is None:
        return False
    before, after = (
        _held(job.options[option], tasks)
        for option, tasks in ((running.option, running.tasks), (decision.option, decision.tasks))
    )
    return before != after and after.items() <= before.items()


def _held(option: Option, tasks: Iterable[Task]) -> dict[str, Counter[tuple[object, ...]]]:
    """Return what tasks of an option hold on each host: what they ask, and GPUs."""
    found: defaultdict[str, Counter[tuple[object, ...]]] = defaultdict(Counter)
    for task in tasks:
        group = option.groups[task.group]
        found[task.host][group.gpu, group.cpu, group.memory, tuple(sorted(task.gpus))] += 1
    return found


def _hosts(tasks: Iterable[Task]) -> tuple[str, ...]:
    return tuple(sorted({task.host for task in tasks}))


# A plan for Slurm as steps: commands as argument lists, each step with the state it is for.
#
# Steps can be written as text of a shell (`slurm`), or be run one by one without any shell.

MAX_COMMENT = 500
"""Characters of an AdminComment."""

RESERVED_MINUTES = 10
"""How long hosts are kept at most, should nobody end their reservation."""

START, MIGRATE, PREEMPT = DecisionKind.START, DecisionKind.MIGRATE, DecisionKind.PREEMPT
RESIZE = DecisionKind.RESIZE


class State(StrEnum):
    """What must be so for a step to be taken; where it says so, the step waits for it a while.

    `pending`: the job waits, and nobody but Placewright holds it. `running`: it runs on exactly the
    hosts of the step. `stopped`: Placewright stopped and holds it, for which the step waits.
    `started`: it runs, for which the step waits, and is taken then whether it does or not.
    `unreserved`: there is no reservation of the step's name. `reserved`: there is one.
    """

    PENDING = "pending"
    RUNNING = "running"
    STOPPED = "stopped"
    STARTED = "started"
    UNRESERVED = "unreserved"
    RESERVED = "reserved"


class Command(NamedTuple):
    """A command as an argument list, for any job, or only for one that is held as the step begins.

    `held` False: only for one that is not.
    """

    words: tuple[str, ...]
    held: bool | None = None


class Step(NamedTuple):
    """Commands about a job, given only in some state; `does` says what for.

    `job` is its number, or the name of a reservation. `hosts` are those on which a running job has
    to be. It is taken only if no step was skipped, and no command failed, of any job that it
    `needs`, and of at least one of its `users`, if it has some.
    """

    job: str
    does: str
    state: State
    commands: tuple[Command, ...]
    hosts: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    users: tuple[str, ...] = ()

    def unmet(self, undone: Collection[str]) -> str:
        """Return a job that this step needs and that is undone, "" if there is none."""
        if self.users and all(job in undone for job in self.users):
            return self.users[0]
        return next((job for job in self.needs if job in undone), "")


@dataclass(slots=True)
class Steps:
    """The steps of a plan in order, and what Slurm cannot be told, with the jobs it is about."""

    steps: list[Step] = field(default_factory=list)
    unsaid: dict[str, list[str]] = field(default_factory=dict)

    def cannot_say(self, what: str, job: str) -> None:
        """Note what Slurm cannot be told about a job."""
        self.unsaid.setdefault(what, []).append(job)


def slurm_steps(round_: Round, plan: Plan) -> Steps:
    """Return the steps that carry a valid plan out, in the order of its moves.

    First it is seen whether jobs that others need are as they were. Hosts that moves free for other
    jobs are reserved. Then jobs are preempted, those stop that cannot move directly, the others
    move, these restart, jobs start, and the reservation ends. Last those that wait are told why.
    What Slurm cannot be told is counted and left out, with what depends on it.
    """
    made = Steps()
    places = places_of(round_, plan, made.cannot_say)
    can = {name for name, place in places.items() if _can_be_told(place, made)}
    sent = [one.job for one in plan.decisions if one.decision is START or one.decision.moves]
    stops = [name for name in stopping(plan) if name not in places or _leaves(places[name])]
    needs = Needs(round_, plan, stops=stops, starts=sent)
    said = needs.consistent(can)
    for name in sorted(can - said):
        made.cannot_say(VAIN, places[name].job)
    places = {name: place for name, place in places.items() if name in said}
    jobs = _Jobs(places, needs, _kept(places, needs, made), round_.now)
    made.steps += jobs.steps([name for name in stops if name in places], plan)
    of = {job.name: job for job in round_.jobs}
    for name, place in places.items():
        if place.decision.decision is DecisionKind.WAIT:
            why = why_waits(round_, of[name], place.decision)
            if place.decision.reason is None and hard_caveats(of[name].annotations):
                step = _wait(place._replace(released=False), why)
                made.steps.append(_leave(place, step.commands[1]))
                made.steps.append(step._replace(commands=step.commands[1:]))
            else:
                made.steps.append(_wait(place, why))
    return made


def _leaves(place: SlurmPlace) -> bool:
    return place.decision.decision is PREEMPT or place.before != place.after


def _kept(places: Mapping[str, SlurmPlace], needs: Needs, made: Steps) -> list[str]:
    """Return the jobs for which hosts are reserved that others leave."""
    freed = {host for name in needs.users if name in places for host in places[name].before}
    found = [
        n
        for n, p in places.items()
        if n in needs.of and freed.intersection(p.after) and p.decision.decision is not RESIZE
    ]
    for name in found:
        if not places[name].user:
            what = "hosts that moves free are not kept for jobs of unknown users"
            made.cannot_say(what, places[name].job)
    return [name for name in found if places[name].user]


def _can_be_told(place: SlurmPlace, made: Steps) -> bool:
    """Whether there are steps about a job; notes what they cannot say."""
    decision = place.decision
    if decision.decision is DecisionKind.WAIT:
        if "_" in place.job:  # a comment would split its task from the array
            made.cannot_say("why tasks of an array wait", place.job)
        return "_" not in place.job and decision.reason is not Reason.HELD
    if decision.decision is RESIZE and (not place.gives_hosts or place.heterogeneous):
        made.cannot_say("running jobs that change their size, but for whole hosts", place.job)
        return False
    if decision.decision is MIGRATE and place.before == place.after:
        made.cannot_say("moves between GPUs of the same hosts", place.job)
        return False
    if decision.decision in (START, MIGRATE):
        if place.heterogeneous:
            made.cannot_say("where heterogeneous jobs start", place.job)
        if any(task.gpus for task in decision.tasks):
            made.cannot_say("which GPUs of a host", place.job)
        if 1 < len(place.after) < len(decision.tasks):
            made.cannot_say("how many tasks a host has", place.job)
    return True


@dataclass(frozen=True, slots=True)
class _Jobs:
    """Steps about the jobs of a plan that stop, move and start; hosts are reserved for `kept`."""

    places: Mapping[str, SlurmPlace]
    needs: Needs
    kept: Sequence[str]
    now: int

    @property
    def reservation(self) -> str:
        """The name of the reservation, "" if there is none."""
        return f"{RESERVATION}{self.now}" if self.kept else ""

    def steps(self, stops: Sequence[str], plan: Plan) -> Iterator[Step]:
        starts = [name for name, p in self.places.items() if p.decision.decision is START]
        yield from (_check(self._stop(name)) for name in stops if self.needs.users[name])
        yield from (_check(self._start(name)) for name in starts if self.needs.of[name])
        if self.kept:
            yield self._reserve()
        yield from self._moves(stops, plan)
        yield from map(self._start, starts)
        if self.kept:
            yield from self._end()

    def _moves(self, stops: Sequence[str], plan: Plan) -> Iterator[Step]:
        """Preempt and shrink; stop what has no place yet; move; and start these again."""
        section = next((s for s in plan.sections if s["kind"] == "moves"), {})
        gone = (PREEMPT, RESIZE)
        stopped = [name for name in stops if self.places[name].decision.decision in gone]
        spare = [n for n in section.get("needs_spare", ()) if n in stops and n not in stopped]
        yield from map(self._stop, stopped)
        yield from (self._stop(name, stopped) for name in spare)
        stopped += spare
        for name in (name for name in stops if name not in stopped):
            yield self._stop(name, stopped)
            yield self._restart(name)
            stopped.append(name)
        yield from map(self._restart, spare)

    def _stop(self, name: str, before: Collection[str] = ()) -> Step:
        """Stop a job, if those have stopped `before` that it needs."""
        place, users = self.places[name], self.needs.users[name]
        needed = [other for other in self.needs.of.get(name, ()) if other in before]
        kept = not {name, *users}.isdisjoint(self.kept)
        how = {PREEMPT: _preempt, RESIZE: _shrink}.get(place.decision.decision, _stop)
        return how(place)._replace(
            needs=self._marks(name, *needed) + (self.reservation,) * kept,
            users=self._marks(*users),
        )

    def _restart(self, name: str) -> Step:
        place, needed = self.places[name], self.needs.of[name]
        step = _restart(place, self.reservation if name in self.kept else "")
        return step._replace(needs=self._marks(name, *needed))

    def _start(self, name: str) -> Step:
        reservation = self.reservation if name in self.kept else ""
        needs = self._marks(name, *self.needs.of[name]) + (reservation,) * bool(reservation)
        return _start(self.places[name], reservation)._replace(needs=needs)

    def _marks(self, *names: str) -> tuple[str, ...]:
        """Return the numbers of jobs, by which steps are noted that are not done."""
        return tuple(self.places[name].job for name in names if name in self.places)

    def _reserve(self) -> Step:
        """Keep hosts for some jobs; others run on there, and these may use hosts beyond, later."""
        kept = [self.places[name] for name in self.kept]
        hosts = sorted({host for place in kept for host in place.after})
        users = sorted({place.user for place in kept})
        jobs = self._marks(*self.kept)
        return Step(
            job=self.reservation,
            does=f"keep {','.join(hosts)} for {', '.join(jobs)}",
            state=State.UNRESERVED,
            commands=(
                Command(
                    (
                        *("scontrol", "create", "reservation"),
                        *(f"reservationname={self.reservation}", "starttime=now"),
                        *(f"duration={RESERVED_MINUTES}", "flags=flex,ignore_jobs"),
                        *(f"users={','.join(users)}", f"nodes={','.join(hosts)}"),
                    )
                ),
            ),
            users=jobs,
        )

    def _end(self) -> Iterator[Step]:
        for job in self._marks(*self.kept):
            yield Step(
                job=job,
                does=f"{job} needs no reservation once it runs",
                state=State.STARTED,
                commands=(Command(("scontrol", "update", f"jobid={job}", "ReservationName=")),),
                needs=(job,),
            )
        yield Step(
            job=self.reservation,
            does="keep no hosts any longer",
            state=State.RESERVED,
            commands=(Command(("scontrol", "delete", f"reservationname={self.reservation}")),),
            needs=(self.reservation,),
        )


def _check(step: Step) -> Step:
    """Return the step that only sees whether another one could be taken."""
    needs = tuple(name for name in step.needs if not name.startswith(RESERVATION))
    return step._replace(does=f"try: {step.does}", commands=(), needs=needs, users=())


def _preempt(place: SlurmPlace) -> Step:
    by = ", ".join(place.decision.displaced_by)
    mark, requeue = (STOPPED, "requeuehold") if place.released else (PREEMPTED, "requeue")
    grace = (("scancel", "--signal=TERM", place.job), ("sleep", str(place.grace_s)))
    ends = (
        ("scancel", place.job) if place.preempted == "cancel" else ("scontrol", requeue, place.job)
    )
    return Step(
        job=place.job,
        does=f"preempt {place.job}" + (f" for {by}" if by else ""),
        state=State.RUNNING,
        commands=(
            Command(_update(place, comment=mark + (f" for {by}" if by else ""))),
            *(Command(words) for words in (*(grace if place.grace_s else ()), ends)),
            # Else it could run on the hosts alone that it leaves.
            *([Command(_update(place, *undone))] if (undone := _undone(place)) else []),
        ),
        hosts=place.before,
    )


def _undone(place: SlurmPlace) -> list[str]:
    """Return what of an earlier plan a preempted job has to lose, lest it wait for its hosts."""
    there = () if place.preempted == "cancel" else place.undone
    return [one for one in there if not one.startswith("ReservationName")]


def _stop(place: SlurmPlace) -> Step:
    return Step(
        job=place.job,
        does=f"stop {place.job}, which moves",
        state=State.RUNNING,
        commands=(
            Command(_update(place, comment=MOVES + ",".join(place.after))),
            Command(("scontrol", "requeuehold", place.job)),
        ),
        hosts=place.before,
    )


def _shrink(place: SlurmPlace) -> Step:
    """Let a running job give hosts back; Slurm refuses if its batch host were among them."""
    hosts = ",".join(place.after)
    return Step(
        job=place.job,
        does=f"shrink {place.job} to {hosts}",
        state=State.RUNNING,
        commands=(Command(_update(place, f"NodeList={hosts}")),),
        hosts=place.before,
    )


def _restart(place: SlurmPlace, reservation: str) -> Step:
    return Step(
        job=place.job,
        does=f"start {place.job} again on {','.join(place.after)}",
        state=State.STOPPED,
        commands=_commands_of_start(place, reservation, "StartTime=now"),
    )


def _start(place: SlurmPlace, reservation: str) -> Step:
    return Step(
        job=place.job,
        does=f"start {place.job} on {','.join(place.after)}",
        state=State.PENDING,
        commands=_commands_of_start(place, reservation),
    )


def _commands_of_start(place: SlurmPlace, reservation: str, *more: str) -> tuple[Command, ...]:
    """Return what starts a job; it keeps the mark of being held until it is released."""
    names = ",".join(place.after)
    fields = [*([] if place.heterogeneous else [f"{NODE_LIST}={names}"]), *more]
    least, _, most = place.by_user.get(NUM_NODES, "").partition("-")
    if (
        most and not place.heterogeneous and int(most) > len(place.after)
    ):  # else Slurm adds hosts, as many as the user allows
        fields.insert(0, f"{NUM_NODES}={least}-{len(place.after)}")
    if reservation or "ReservationName" in place.ours:
        fields.append(f"ReservationName={reservation}")
    placed = RELEASED if place.released else PLACED
    return (
        Command(_update(place, *fields, comment=STARTS + names), held=True),
        Command(_update(place, *fields, comment=placed + names), held=False),
        Command(("scontrol", "release", place.job), held=True),
        Command(_update(place, comment=RELEASED + names), held=True),
    )


def _wait(place: SlurmPlace, said: str) -> Step:
    why = f": {said}" if said else ""
    # Of an earlier plan, which came to nothing.
    fields = place.undone
    mark = HELD + ", waits" if place.released else WAITS
    again = [Command(("scontrol", "uhold", place.job), held=False)] if place.released else []
    return Step(
        job=place.job,
        does=f"say why {place.job} waits",
        state=State.PENDING,
        commands=(
            Command(_update(place, *fields, comment=f"{HELD}, waits{why}"), held=True),
            Command(_update(place, *fields, comment=f"{mark}{why}"), held=False),
            *again,
        ),
    )


def _leave(place: SlurmPlace, comment: Command) -> Step:
    """Leave a job to Slurm that has rules which a plan does not obey: else it would never start."""
    release = Command(("scontrol", "release", place.job), held=True)
    return Step(
        job=place.job,
        does=f"leave {place.job} to Slurm",
        state=State.PENDING,
        commands=(release, comment._replace(held=True)),
    )


def _update(place: SlurmPlace, *fields: str, comment: str | None = None) -> tuple[str, ...]:
    words = ("scontrol", "update", f"jobid={place.job}", *fields)
    if comment is None:
        return words
    kept = asked_text(place.asked) if is_placed(comment) else ""
    return (*words, f"AdminComment={printable(comment)[: MAX_COMMENT - len(kept)]}{kept}")


# A plan for Slurm as a script for a POSIX shell: each step guarded by what Slurm says then.

PATIENCE_S = 120
"""How long the script waits for a job that was told to stop."""

_HEAD = f"""\
#!/bin/sh
# Made by placewright export slurm: safe to run twice. A step is skipped if its job is no longer
# in the state that the plan was made for, or if something that it needs was not done.
status=0 undone=' ' why='is not as it was'

# pending JOB: it waits, and no user or administrator holds it; sets `held` to yes or no
pending() {{
    held=no
    case $(squeue -h -j "$1" -o '%T|%r' </dev/null 2>/dev/null | sort -u) in
        'PENDING|JobHeldAdmin') return 1 ;;
        'PENDING|'*[Hh][eo]ld*) held=yes ;;
        'PENDING|'*) return 0 ;;
        *) return 1 ;;
    esac
    mark=$(squeue -h -j "$1" -O admin_comment:{len(HELD)} </dev/null 2>/dev/null | sort -u)
    [ "$mark" = {shlex.quote(HELD)} ]
}}

# running JOB HOST...: it runs on these hosts and no others
running() {{
    job=$1
    shift
    found=$(squeue -h -j "$job" -t RUNNING -o %N </dev/null 2>/dev/null | paste -sd , -)
    [ -n "$found" ] || return 1
    found=$(scontrol show hostnames "$found" </dev/null | LC_ALL=C sort -u | tr '\\n' ' ')
    [ "$found" = "$* " ]
}}

# unreserved NAME, reserved NAME: whether there is such a reservation
unreserved() {{ ! reserved "$1"; }}
reserved() {{ scontrol show reservation "$1" </dev/null >/dev/null 2>&1; }}

# started JOB: it runs, or has not started for long
started() {{
    left={PATIENCE_S}
    while :; do
        case $(squeue -h -j "$1" -o %T </dev/null 2>/dev/null | sort -u) in
            PENDING) [ "$left" -gt 0 ] || return 0 ;;
            '') return 1 ;;
            *) return 0 ;;
        esac
        left=$((left - 1))
        sleep 1
    done
}}

# stopped JOB: placewright holds it, and its processes have ended
stopped() {{
    left={PATIENCE_S}
    while :; do
        if pending "$1"; then
            [ "$held" = yes ]
            return
        fi
        left=$((left - 1))
        [ "$left" -gt 0 ] || return 1
        sleep 1
    done
}}

skipped() {{
    case $undone in *" $1 "*) ;; *) echo "placewright: $1 $why: skipped" >&2 ;; esac
    undone="$undone$1 " why='is not as it was'
}}
failed() {{
    echo "placewright: $1: a command failed" >&2
    undone="$undone$1 " status=1
}}
{GUARDS}"""


class Script(NamedTuple):
    """A script, how many steps it has, and a line for each thing that Slurm cannot be told."""

    text: str
    steps: int
    unsaid: tuple[str, ...]


def slurm_script(round_: Round, plan: Plan) -> Script:
    """Return the commands that carry a valid plan out on Slurm, as `slurm_steps` has them."""
    made = slurm_steps(round_, plan)
    parts = [_HEAD, *(_block(step) for step in made.steps), "exit $status\n"]
    unsaid = tuple(
        f"{what}: {len(jobs):,} {'job' if len(jobs) == 1 else 'jobs'}"
        for what, jobs in sorted(made.unsaid.items())
    )
    return Script("\n".join(parts), len(made.steps), unsaid)


def _block(step: Step) -> str:
    hosts = step.hosts if step.state is State.RUNNING else ()
    guard = guards(step.users, step.needs) + shlex.join((step.state.value, step.job, *hosts))
    if_held, if_not = (
        [f"{shlex.join(one.words)} </dev/null" for one in step.commands if one.held in (None, held)]
        for held in (True, False)
    )
    if if_held == if_not:
        lines = [f"    {_all(if_held, 8)} ||"]
    else:
        lines = [
            '    if [ "$held" = yes ]; then',
            f"        {_all(if_held, 12)}",
            "    else",
            f"        {_all(if_not, 12)}",
            "    fi ||",
        ]
    job = shlex.quote(step.job)
    return "\n".join(
        (
            f"# {printable(step.does)}",
            f"if {guard}; then",
            *lines,
            f"        failed {job}",
            "else",
            f"    skipped {job}",
            "fi\n",
        )
    )


def _all(commands: list[str], indent: int) -> str:
    """Return commands of which each is given only if those before it succeed."""
    return f" &&\n{' ' * indent}".join(commands) or "true"
