"""Policy `gang` with too many plans to enumerate: the plans of several solves, against each other.

No plan of one of them may beat a bound of another, or a plan that is called optimal. The rule book
judges all of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from functools import partial
from random import Random

from fuzz.book.choices import Choices
from fuzz.book.facts import Facts
from fuzz.book.features import features
from fuzz.book.gangs import fault
from fuzz.book.judgement import Judgement
from fuzz.book.mutations import mutated
from fuzz.book.reading import choices_of
from fuzz.book.reason_details import untrue
from fuzz.book.terms import Terms
from fuzz.book.writing import written
from fuzz.drawing import chance
from fuzz.drawing_pools import draw_pools
from fuzz.play import BACKENDS, read
from fuzz.policies import priorities
from fuzz.policies.gang import counting
from fuzz.policy import Judged, Policy, Raw, Setting
from fuzz.watching import watched

SIZE = priorities.Size(
    hosts=(4, 5, 6, 8),
    jobs=(6, 8, 10, 12),
    running=(1, 2, 3, 5),
    quotas=(3000, 4000, 6000, 8000),
)
TIMES = 4
"""Pools of racks and of all hosts have up to so many times as much as those of tiny rounds."""
MUTATED = 20
"""So many plans have a change somewhere."""
SECONDS = 2.0
SECTIONS = {"now", "cluster", "host_sets", "tenants", "caps", "reservations", "jobs", "policy"}


def draw(rng: Random) -> Raw:
    """Four to eight hosts, six to twelve jobs, now and then with pools."""
    round_ = priorities.draw(rng, SIZE)
    if chance(rng, 0.25):
        draw_pools(rng, round_, TIMES)
    return round_


def plans(round_: Raw, rng: Random) -> Iterator[Judged]:
    """Yield the plans of several solves, and some with a change somewhere."""
    facts = Facts(round_)
    judgement = Judgement(facts)
    terms = Terms(judgement)
    seed = rng.randrange(1 << 30)
    found = list(_rivals(round_, facts, rng))
    found += [mutated(facts, rng.choice(found), rng) for _ in range(MUTATED)]
    for choices in dict.fromkeys(found):
        broken = judgement.broken(choices)
        document = partial(written, terms, choices, seed)
        yield Judged(document, {} if broken else terms(choices), broken)


def _rivals(round_: Raw, facts: Facts, rng: Random) -> Iterator[Choices]:
    """Yield the greedy plan, and all that were the best ones on the way of three solves."""
    # An engine's round has all sections, which a document may only have if its policy reads them.
    checked = read({name: part for name, part in round_.items() if name in SECTIONS})
    for seconds, under in ((0.0, nullcontext), (SECONDS, nullcontext), (SECONDS, counting)):
        backend, seed = rng.choice(BACKENDS), rng.randrange(100)
        with under():
            solve, _ = watched(
                checked, time_limit=seconds, backend=backend, seed=seed, isolation="none"
            )
        for plan in solve.passed:
            yield choices_of(facts, plan.model_dump(mode="json", exclude_none=True))


def judge(round_: Raw, plan: Raw) -> Judged:
    """Judge a plan of the solver."""
    facts = Facts(round_)
    judgement = Judgement(facts)
    choices = choices_of(facts, plan)
    broken = judgement.broken(choices)
    return Judged(partial(dict, plan), {} if broken else Terms(judgement)(choices), broken)


POLICY = Policy(
    "crowds",
    draw,
    plans,
    (
        Setting("exact", 1, seconds=SECONDS),
        Setting("counting", 1, counting, seconds=SECONDS),
    ),
    judge=judge,
    untrue=untrue,
    fault=fault,
    features=features,
)
