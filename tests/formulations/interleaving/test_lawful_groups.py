"""The verifier and the brute force agree on which groups are lawful, and what they are worth."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from random import Random
from types import ModuleType

from placewright.instances.verify import verify

RULES = {"quota", "as_needed", "in_turn", "slowdown", "conflicts", "group_members"}
OTHERS = {"anti_affinity", "required_level"}  # of places, which brute force leaves to the verifier


def test_the_verifier_refuses_groupings_of_pending_jobs_that_break_a_rule_and_no_other(
    oracle: ModuleType, tiny: ModuleType
) -> None:
    class Everything(oracle.Enumeration):  # type: ignore[misc,name-defined]
        def allowed(self, way: object) -> bool:
            return True

        def may_form(self, members: object) -> bool:
            return True

    seen: Counter[str] = Counter()
    for seed in range(120):
        round_ = tiny.random_round(seed, running=False)
        strict, every = oracle.Enumeration(round_), Everything(round_)
        ways = every.ways()
        for way in Random(seed).sample(ways, min(len(ways), 40)):
            for places in islice(every.places(way), 2):
                checked = verify(round_, every.written(way, places))
                broken = {violation.rule for violation in checked.violations}
                assert broken <= RULES | OTHERS
                good = all(strict.may_form(unit.members) for unit in way) and strict.allowed(way)
                assert bool(broken & RULES) is not good, (seed, broken)
                total = sum(every.value(unit) for unit in way)
                assert broken or checked.terms[round_.policy.terms[0]] == total
                seen.update(broken or {"valid"})
    assert set(seen) >= RULES | {"valid"}
    assert seen["valid"] > 500
