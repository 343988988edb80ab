"""The verifier and the brute force agree on which groups are allowed, and on their value."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from random import Random

from examples import examples
from placewright.instances.verify import verify
from tests.formulations.interleaving import oracle, tiny

RULES = {"quota", "as_needed", "in_turn", "slowdown", "conflicts", "group_members"}
OTHERS = {"anti_affinity", "required_level"}  # of places, which brute force leaves to the verifier


def test_the_verifier_refuses_groupings_of_pending_jobs_that_break_a_rule_and_no_other() -> None:
    class Everything(oracle.Enumeration):  # type: ignore[misc,name-defined]
        def allowed(self, partition: object) -> bool:
            return True

        def may_form(self, members: object) -> bool:
            return True

    seen: Counter[str] = Counter()
    for seed in range(examples(day=40, nightly=120)):
        round_ = tiny.random_round(seed, running=False)
        strict, every = oracle.Enumeration(round_), Everything(round_)
        partitions = every.partitions()
        for partition in Random(seed).sample(partitions, min(len(partitions), 40)):
            for places in islice(every.places(partition), 2):
                checked = verify(round_, every.written(partition, places))
                broken = {violation.rule for violation in checked.violations}
                assert broken <= RULES | OTHERS
                good = all(strict.may_form(unit.members) for unit in partition) and strict.allowed(
                    partition
                )
                assert bool(broken & RULES) is not good, (seed, broken)
                total = sum(every.value(unit) for unit in partition)
                assert broken or checked.terms[round_.policy.terms[0]] == total
                seen.update(broken or {"valid"})
    assert set(seen) >= RULES | {"valid"}
    assert seen["valid"] > examples(day=100, nightly=500)
