"""Tiny rounds with a job that waits, and whether it starts in a world by the rule book of the fuzz.

The rule book enumerates all places of the job beside what runs. It shares no code with the verifier
or the formulations.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from random import Random

from fuzz.book.choices import WAIT, Enumeration
from fuzz.book.facts import Facts
from fuzz.book.judgement import Judgement
from fuzz.play import read
from fuzz.policies.gang import POLICY
from fuzz.policy import TooManyPlansError
from fuzz.small_units import in_small_units
from placewright.explain.facts.fact import World
from placewright.instances.documents.plan import Plan
from placewright.instances.documents.round import Round
from placewright.rounds import solve_round

MAX_PLACES = 2_000
"""Places of the job that are looked at in one world."""


def waiting(seeds: Iterable[int]) -> Iterator[tuple[Round, Plan, str]]:
    """Yield rounds with a plan each, and each job that waits in it."""
    for seed in seeds:
        try:
            round_ = read(POLICY.draw(Random(seed)))
        except TooManyPlansError:
            continue
        plan = solve_round(round_, isolation="none")
        for decision in plan.decisions:
            if decision.decision == "wait" and decision.job not in round_.invalid:
                yield round_, plan, decision.job


def starts(world: World) -> bool:
    """Whether some plan starts the job of a world where all that runs is pinned.

    Raises
    ------
    TooManyPlansError
        There are too many places to enumerate.
    """
    document = world.round.model_dump(mode="json", exclude_defaults=True)
    for job in document["jobs"]:
        if "running" in job:
            job["running"]["pinned"] = True
    vacate = document.get("policy", {}).get("vacate", ())
    document["policy"] = {"terms": ["value"], "priority": "preemption", "vacate": list(vacate)}
    facts = Facts(in_small_units(document))
    judgement = Judgement(facts)
    enumeration = Enumeration(facts)
    (index,) = (i for i, job in enumerate(facts.jobs) if job.name == world.job)
    for number, choices in enumerate(enumeration):
        if number >= MAX_PLACES:
            raise TooManyPlansError
        if choices[index].kind != WAIT and not judgement.between(choices, room=enumeration.room):
            return True
    return False
