"""All plans of a round of gangs, judged: what the policies `gang` and cells are played with."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from random import Random

from fuzz.book.choices import PREEMPT, WAIT, Choices, Enumeration
from fuzz.book.facts import Facts
from fuzz.book.judgement import Judgement
from fuzz.book.mutations import mutated
from fuzz.book.reading import choices_of, decisions_of
from fuzz.book.terms import Terms
from fuzz.book.writing import written
from fuzz.policy import Judged, Raw, TooManyPlansError

MAX_PLANS = 4_000
MOST_BROKEN = 4
"""Of each valid plan that is looked at so many others are judged, at most."""
SPOILT = 8
"""So many invalid plans are kept of those that the enumeration meets, and so many mutated ones."""


class MissedPlanError(Exception):
    """A valid plan was found that the enumeration should have had."""


def plans(round_: Raw, rng: Random, most: int = MAX_PLANS) -> Iterator[Judged]:
    """Yield every plan of a round, then some that break a rule, and some valid ones once more.

    Raises
    ------
    TooManyPlansError
        There are more than `most`.
    """
    facts = Facts(round_)
    judgement = Judgement(facts)
    terms = Terms(judgement)
    seed = rng.randrange(1 << 30)
    valid: list[Choices] = []
    spoilt: list[tuple[Choices, str]] = []
    met = 0
    enumeration = Enumeration(facts)
    for choices in enumeration:
        broken = judgement.between(choices, room=enumeration.room)
        if not broken:
            valid.append(choices)
            if len(valid) > most:
                raise TooManyPlansError
            continue
        met += 1
        if met > MOST_BROKEN * most:
            raise TooManyPlansError
        if len(spoilt) < SPOILT:
            spoilt.append((choices, broken))
        elif rng.randrange(met) < SPOILT:
            spoilt[rng.randrange(SPOILT)] = choices, broken
    values = set()
    for choices in valid:
        mine = terms(choices)
        values.add(tuple(mine.values()))
        yield Judged(partial(written, terms, choices, seed), mine)
    for _ in range(SPOILT if valid else 0):
        choices = mutated(facts, rng.choice(valid), rng)
        broken = judgement.broken(choices)
        if broken:
            spoilt.append((choices, broken))
        elif tuple(terms(choices).values()) not in values:
            raise MissedPlanError(f"the enumeration misses {choices}")
    for choices, broken in dict.fromkeys(spoilt):
        yield Judged(partial(written, terms, choices, seed), {}, broken)
    if facts.invalid and valid:
        yield from _blaming(facts, written(terms, valid[0], seed))


def _blaming(facts: Facts, plan: Raw) -> Iterator[Judged]:
    """Yield plans in which a valid job waits as invalid, or an invalid one for something else."""
    for number, decision in enumerate(plan["decisions"]):
        if decision["decision"] == WAIT:
            reason = "capacity" if decision["job"] in facts.invalid else "invalid"
            decisions = list(plan["decisions"])
            decisions[number] = {**decision, "reason": reason}
            yield Judged(partial(dict, plan, decisions=decisions), {}, "invalid_job")


def fault(round_: Raw, plan: Raw) -> str:
    """Say which rule a plan breaks, or what its certificate says wrongly of the round; "" if none.

    The values of the certificate must be those of the plan, and its classes those of the round.
    """
    facts = Facts(round_)
    judgement = Judgement(facts)
    choices = choices_of(facts, plan)
    if broken := judgement.broken(choices):
        return f"it breaks {broken}"
    for job, decision in zip(facts.jobs, decisions_of(facts, plan), strict=True):
        named = decision.get("displaced_by", ())
        if decision["decision"] != PREEMPT or plan.get("unnamed"):
            continue
        if not judgement.displaces(choices, job, named):
            return f"{list(named)} are no minimal set that displaces {job.name}"
    certificate = plan.get("certificate")
    if certificate is None:
        return ""
    terms = Terms(judgement)
    values = {result["name"]: result["value"] for result in certificate["terms"]}
    if values != (true := terms(choices)):
        return f"its terms are {true}, the certificate says {values}"
    told = [result["precedences"] for result in certificate["terms"] if result.get("precedences")]
    classes = [
        [{"cells": c, "entitled": e, "priority": p} for _, c, e, p in one] for one in terms.classes
    ]
    if "value" in terms.names and told != classes:
        return f"the priority classes are {classes}, the certificate says {told}"
    return ""
