"""A plan for Slurm as steps: commands as argument lists, each step with the state it is for.

Steps can be written as text of a shell (`slurm`), or be run one by one without any shell.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from placewright.instances.derived.reason_text import reason_text
from placewright.instances.derived.slurm_marks import (
    HELD,
    MOVES,
    PLACED,
    PREEMPTED,
    RELEASED,
    RESERVATION,
    STARTS,
    STOPPED,
    WAITS,
)
from placewright.instances.documents.plan import Decision, DecisionKind, Plan, Reason
from placewright.instances.documents.round import Round
from placewright.instances.errors import printable
from placewright.instances.exporters.slurm_jobs import SlurmPlace, places_of

MAX_COMMENT = 500
"""Characters of an AdminComment."""

RESERVED_MINUTES = 10
"""How long hosts are kept at most, should nobody end their reservation."""

START, MIGRATE, PREEMPT = DecisionKind.START, DecisionKind.MIGRATE, DecisionKind.PREEMPT


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
    to be.
    """

    job: str
    does: str
    state: State
    commands: tuple[Command, ...]
    hosts: tuple[str, ...] = ()


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

    Hosts that moves free for other jobs are reserved. Then jobs are preempted, those stop that
    cannot move directly, the others move, these restart, jobs start, and the reservation ends. Last
    those that wait are told why.

    Raises
    ------
    InvalidInputError
        A job is not named by its number, as `convert slurm` does, or a host or user has a name that
        Slurm cannot have.
    """
    made = Steps()
    places = {
        name: place for name, place in places_of(round_, plan).items() if _can_be_told(place, made)
    }
    sent = [place for place in places.values() if place.decision.decision in (START, MIGRATE)]
    freed = {
        host
        for p in places.values()
        if p.decision.decision in (PREEMPT, MIGRATE)
        for host in p.before
    }
    kept = [place for place in sent if freed.intersection(place.after)]
    reservation = f"{RESERVATION}{round_.now}" if all(p.user for p in kept) and kept else ""
    if reservation:
        made.steps.append(_reserve(reservation, kept))
    elif kept:
        made.unsaid["hosts that moves free are kept for nobody, as users are not known"] = [
            place.job for place in kept
        ]
    names = {place.job for place in kept} if reservation else set()
    made.steps += _moves(places, plan, dict.fromkeys(names, reservation))
    for place in sent:
        if place.decision.decision is START:
            made.steps.append(_start(place, reservation if place.job in names else ""))
    if reservation:
        made.steps += _end(reservation, kept)
    for place in places.values():
        if place.decision.decision is DecisionKind.WAIT:
            made.steps.append(_wait(place))
    return made


def _can_be_told(place: SlurmPlace, made: Steps) -> bool:
    """Whether there are steps about a job; notes what they cannot say."""
    decision = place.decision
    if decision.decision is DecisionKind.WAIT:
        if "_" in place.job:  # a comment would split its task from the array
            made.cannot_say("why tasks of an array wait", place.job)
        return "_" not in place.job and decision.reason is not Reason.HELD
    if decision.decision is MIGRATE and place.before == place.after:
        made.cannot_say("moves between GPUs of the same hosts", place.job)
        return False
    if decision.decision in (START, MIGRATE):
        if place.several:
            made.cannot_say("where heterogeneous jobs start", place.job)
            return False
        if any(task.gpus for task in decision.tasks):
            made.cannot_say("which GPUs of a host", place.job)
        if 1 < len(place.after) < len(decision.tasks):
            made.cannot_say("how many tasks a host has", place.job)
    return True


def _reserve(name: str, kept: Sequence[SlurmPlace]) -> Step:
    """Keep hosts for some jobs; others run on there, and these may use hosts beyond, and later."""
    hosts = sorted({host for place in kept for host in place.after})
    users = sorted({place.user for place in kept})
    return Step(
        job=name,
        does=f"keep {','.join(hosts)} for {', '.join(place.job for place in kept)}",
        state=State.UNRESERVED,
        commands=(
            Command(
                (
                    *("scontrol", "create", "reservation", f"reservationname={name}"),
                    *("starttime=now", f"duration={RESERVED_MINUTES}", "flags=flex,ignore_jobs"),
                    *(f"users={','.join(users)}", f"nodes={','.join(hosts)}"),
                )
            ),
        ),
    )


def _end(name: str, kept: Sequence[SlurmPlace]) -> Iterator[Step]:
    for place in kept:
        yield Step(
            job=place.job,
            does=f"{place.job} needs no reservation once it runs",
            state=State.STARTED,
            commands=(Command(("scontrol", "update", f"jobid={place.job}", "ReservationName=")),),
        )
    yield Step(
        job=name,
        does="keep no hosts any longer",
        state=State.RESERVED,
        commands=(Command(("scontrol", "delete", f"reservationname={name}")),),
    )


def _moves(
    places: Mapping[str, SlurmPlace], plan: Plan, reserved: Mapping[str, str]
) -> Iterator[Step]:
    section = next((s for s in plan.sections if s["kind"] == "moves"), None)
    if section is None:
        return
    order = [places[name] for name in section["steps"] if name in places]
    spare = [places[name] for name in section["needs_spare"] if name in places]
    for place in order:
        if place.decision.decision is PREEMPT:
            yield _preempt(place)
    for place in spare:
        yield _stop(place)
    for place in order:
        if place.decision.decision is MIGRATE:
            yield _stop(place)
            yield _restart(place, reserved)
    for place in spare:
        yield _restart(place, reserved)


def _preempt(place: SlurmPlace) -> Step:
    by = ", ".join(place.decision.displaced_by)
    mark, requeue = (STOPPED, "requeuehold") if place.released else (PREEMPTED, "requeue")
    return Step(
        job=place.job,
        does=f"preempt {place.job}" + (f" for {by}" if by else ""),
        state=State.RUNNING,
        commands=(
            Command(_update(place, comment=mark + (f" for {by}" if by else ""))),
            Command(("scontrol", requeue, place.job)),
            # Else it could run on the hosts alone that it leaves.
            *([Command(_update(place, "ReqNodeList="))] if "ReqNodeList" in place.ours else []),
        ),
        hosts=place.before,
    )


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


def _restart(place: SlurmPlace, reserved: Mapping[str, str]) -> Step:
    return Step(
        job=place.job,
        does=f"start {place.job} again on {','.join(place.after)}",
        state=State.STOPPED,
        commands=_commands_of_start(place, reserved.get(place.job, ""), "StartTime=now"),
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
    number, names = len(place.after), ",".join(place.after)
    fields = [f"NumNodes={number}-{number}", f"ReqNodeList={names}", *more]
    if reservation or "ReservationName" in place.ours:
        fields.append(f"ReservationName={reservation}")
    placed = RELEASED if place.released else PLACED
    return (
        Command(_update(place, *fields, comment=STARTS + names), held=True),
        Command(_update(place, *fields, comment=placed + names), held=False),
        Command(("scontrol", "release", place.job), held=True),
        Command(_update(place, comment=RELEASED + names), held=True),
    )


def _wait(place: SlurmPlace) -> Step:
    why = _why(place.decision)
    # Of an earlier plan, which came to nothing.
    fields = [f"{name}=" for name in place.ours]
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


def _why(decision: Decision) -> str:
    if decision.reason is None:
        return ""
    return f": {reason_text(decision.reason, decision.detail)}"


def _update(place: SlurmPlace, *fields: str, comment: str | None = None) -> tuple[str, ...]:
    words = ("scontrol", "update", f"jobid={place.job}", *fields)
    if comment is None:
        return words
    return (*words, f"AdminComment={printable(comment)[:MAX_COMMENT]}")
