"""All plans of a round of gangs, judged: what the policies `gang` and cells are played with."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from random import Random

from fuzz.book.choices import Choices, Enumeration
from fuzz.book.facts import Facts
from fuzz.book.judgement import Judgement
from fuzz.book.mutations import mutated
from fuzz.book.terms import Terms
from fuzz.book.writing import written
from fuzz.policy import Judged, Raw, TooManyPlansError

MAX_PLANS = 4_000
SPOILT = 8
"""So many invalid plans are kept of those that the enumeration meets, and so many mutated ones."""


class MissedPlanError(Exception):
    """A valid plan was found that the enumeration should have had."""


def plans(round_: Raw, rng: Random) -> Iterator[Judged]:
    """Yield every plan of a round, then some that break a rule, and some valid ones once more.

    Raises
    ------
    TooManyPlansError
        There are more than `MAX_PLANS`.
    """
    facts = Facts(round_)
    judgement = Judgement(facts)
    terms = Terms(judgement)
    seed = rng.randrange(1 << 30)
    valid: list[Choices] = []
    spoilt: list[tuple[Choices, str]] = []
    met = 0
    for choices in Enumeration(facts):
        broken = judgement.between(choices)
        if not broken:
            valid.append(choices)
            if len(valid) > MAX_PLANS:
                raise TooManyPlansError
            continue
        met += 1
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
