"""From choices to the document of a plan."""

from __future__ import annotations

from collections import Counter
from random import Random

from fuzz.book.choices import MIGRATE, PREEMPT, RESIZE, WAIT, Choices
from fuzz.book.collectives import collectives
from fuzz.book.facts import Facts, Job, Place
from fuzz.book.pools import Pools, Taken
from fuzz.book.preemption import Promised
from fuzz.book.room import Room
from fuzz.book.terms import Terms
from fuzz.book.turns import Teams
from fuzz.policy import Raw


def written(
    terms: Terms,
    choices: Choices,
    seed: int,
    promised: Promised = frozenset(),
    *,
    parting: bool = False,
    teams: Teams = (),
) -> Raw:
    """Write a plan, with the sections of gangs; the seed draws what is left open.

    `promised` are the jobs that are promised the current lease; `parting`: all who migrate stop
    first, as the policy `interleaving` wants it.
    """
    facts, judgement = terms.facts, terms.judgement
    decisions: list[Raw] = []
    for job, choice in zip(facts.jobs, choices, strict=True):
        entry: Raw = {"job": job.name, "decision": choice.kind}
        if choice.runs:
            tasks = [_task(facts.hosts[place[2]].name, place) for place in choice.places]
            entry |= {"option": choice.option, "tasks": tasks}
        if choice.kind == PREEMPT:
            by = judgement.displacers(choices, job, promised, teams)
            others = [other for other in facts.jobs if choices[other.number].anew][:1]
            if not judgement.flees(job) and (by or others):
                entry["displaced_by"] = [other.name for other in by or others]
        decisions.append(entry)
    decisions = _with_invalid(facts, decisions)
    sections = [
        section
        for section in (
            _moves(terms, choices, Random(seed), parting=parting),
            _communication(terms, choices),
        )
        if section is not None
    ]
    if "share" in terms.names:
        tenants = [share._asdict() for share in terms.shares(choices)]
        sections.append({"kind": "shares", "tenants": tenants})
    return {"decisions": decisions, "sections": sections}


def _with_invalid(facts: Facts, decisions: list[Raw]) -> list[Raw]:
    """Return the decisions with those of invalid jobs between them."""
    others = iter(decisions)
    return [
        {"job": name, "decision": WAIT, "reason": "invalid"}
        if name in facts.invalid
        else next(others)
        for name in facts.every_job
    ]


def _task(host: str, place: Place) -> Raw:
    group, index, _, gpus, slot = place
    task: Raw = {"group": group, "index": index, "host": host, "gpus": list(gpus)}
    return task if slot is None else {**task, "slot": slot}


def _communication(terms: Terms, choices: Choices) -> Raw | None:
    anew = [pair for pair in zip(terms.facts.jobs, choices, strict=True) if pair[1].anew]
    anew.sort(key=lambda pair: pair[1].kind not in (MIGRATE, RESIZE))
    found = [c for job, choice in anew for c in collectives(terms.facts, job, choice)]
    if not found:
        return None
    return {"kind": "communication", "groups": [one._asdict() for one in found]}


def _moves(terms: Terms, choices: Choices, rng: Random, *, parting: bool) -> Raw | None:
    """Write an order of the moves: all who migrate stop first, or only those who have to."""
    facts = terms.facts
    stop = [job.name for job in facts.jobs if choices[job.number].kind == PREEMPT]
    move = [job for job in facts.jobs if choices[job.number].kind in (MIGRATE, RESIZE)]
    if not stop and not move:
        return None
    rng.shuffle(move)
    if parting or rng.random() < 0.5:
        return {"kind": "moves", "steps": stop, "needs_spare": [job.name for job in move]}
    room, pools = Room(facts), terms.judgement.pools
    held: Taken = Counter()
    for job in facts.jobs:
        if job.running is not None and choices[job.number].kind != PREEMPT:
            _take(room, job, job.running.places)
            held.update(pools.home(job))
    steps, spare, waiting = list(stop), [], list(move)
    while waiting:
        ready = next(
            (
                job
                for job in waiting
                if _stays_within(pools, held, job, choices) and _goes(room, job, choices)
            ),
            None,
        )
        if ready is None:
            away = waiting.pop(0)
            assert away.running is not None
            _take(room, away, away.running.places, -1)
            held.subtract(pools.home(away))
            spare.append(away.name)
        else:
            waiting.remove(ready)
            held.subtract(pools.home(ready))
            held.update(pools.taken_by(ready, choices[ready.number]))
            steps.append(ready.name)
    return {"kind": "moves", "steps": steps, "needs_spare": spare}


def _stays_within(pools: Pools, held: Taken, job: Job, choices: Choices) -> bool:
    """Whether pools have enough for a job in its new place, with what it holds itself."""
    more = pools.taken_by(job, choices[job.number]) - pools.home(job)
    after = {where: held[where] + amount for where, amount in more.items()}
    return not pools.over(after, after)


def _goes(room: Room, job: Job, choices: Choices) -> bool:
    """Move a job if its new place is free beside what it holds itself."""
    assert job.running is not None
    groups = job.options[choices[job.number].option].groups
    _take(room, job, job.running.places, -1)
    taken: list[Place] = []
    for place in choices[job.number].places:
        if not room.holds(groups[place[0]], place):
            for one in taken:
                room.take(groups[one[0]], one, -1)
            _take(room, job, job.running.places)
            return False
        room.take(groups[place[0]], place)
        taken.append(place)
    return True


def _take(room: Room, job: Job, places: tuple[Place, ...], sign: int = 1) -> None:
    assert job.running is not None
    groups = job.options[job.running.option].groups
    for place in places:
        room.take(groups[place[0]], place, sign)
