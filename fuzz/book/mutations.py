"""Plans with a change somewhere: most of them break a rule."""

from __future__ import annotations

from random import Random

from fuzz.book.choices import IDLE, KEEP, MIGRATE, PREEMPT, RESIZE, START, STOPPED, Choice, Choices
from fuzz.book.facts import Facts, Job, Place
from fuzz.book.room import every_place


def mutated(facts: Facts, choices: Choices, rng: Random) -> Choices:
    """Return a plan with the choice for one job, or the place of one of its tasks, changed."""
    job = rng.choice(facts.jobs)
    changed = list(choices)
    changed[job.number] = _other(facts, job, choices[job.number], rng)
    return tuple(changed)


def _other(facts: Facts, job: Job, choice: Choice, rng: Random) -> Choice:
    if choice.anew and rng.random() < 0.7:
        moved = _moved(facts, job, choice, rng)
        if moved is not None:
            return moved
    if job.running is None:
        if choice.kind == START and rng.random() < 0.3:
            return IDLE
        return _anywhere(facts, job, START, rng.randrange(len(job.options)), rng) or IDLE
    sizes = RESIZE if job.running.sizes or rng.random() < 0.1 else MIGRATE
    kind = rng.choice((KEEP, MIGRATE, PREEMPT, MIGRATE, sizes))
    if kind in (MIGRATE, RESIZE):
        number = job.running.option
        if kind == RESIZE:
            number = rng.randrange(len(job.options))
        placed = _anywhere(facts, job, kind, number, rng)
        if placed is not None:
            return placed
    if kind == PREEMPT:
        return STOPPED
    return Choice(KEEP, job.running.option, job.running.places)


def _moved(facts: Facts, job: Job, choice: Choice, rng: Random) -> Choice | None:
    """Put one task somewhere else, lawful or not."""
    places = list(choice.places)
    number = rng.randrange(len(places))
    group, index = places[number][:2]
    ways = list(every_place(facts, job.options[choice.option].groups[group], group, index))
    if not ways:
        return None
    places[number] = rng.choice(ways)
    return choice._replace(places=tuple(places))


def _anywhere(facts: Facts, job: Job, kind: str, number: int, rng: Random) -> Choice | None:
    places: list[Place] = []
    for group, index in job.options[number].tasks():
        ways = list(every_place(facts, job.options[number].groups[group], group, index))
        if not ways:
            return None
        places.append(rng.choice(ways))
    return Choice(kind, number, tuple(places))
