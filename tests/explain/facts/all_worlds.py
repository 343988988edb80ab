"""Explanations beside the enumeration of all worlds of tiny rounds, by the rule book of the fuzz.

The rule book enumerates all plans of a world in which all that runs is pinned. It shares no code
with the verifier or the formulations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, combinations
from random import Random

from fuzz.play import read
from fuzz.policy import Judged, Policy, Raw, TooManyPlansError
from fuzz.small_units import in_small_units
from placewright.explain.conflict import preferred_conflict
from placewright.explain.explain_job import VERDICTS, explain_job, last_stratum
from placewright.explain.explanation import Explanation, Verdict
from placewright.explain.facts.fact import Fact, World, named
from placewright.explain.facts.policies import FACTS
from placewright.instances.documents.plan import Plan
from placewright.instances.documents.round import Round
from placewright.rounds import solve_round

MAX_FACTS = 7
"""Facts of which all subsets are looked at; of more only those that a search asks for."""

Starts = Callable[[World], bool]
"""Whether some plan starts the job of a world while nobody else moves or stops."""


def waiting(policy: Policy, seeds: Iterable[int]) -> Iterator[tuple[Round, Plan, str]]:
    """Yield tiny rounds with a plan each, and each job that waits in it."""
    for seed in seeds:
        try:
            round_ = read(policy.draw(Random(seed)))
        except TooManyPlansError:
            continue
        plan = solve_round(round_, time_limit=1.0, isolation="none")
        for decision in plan.decisions:
            starts = FACTS[round_.policy.formulation].starts
            waits = decision.decision == "wait" and not starts(plan, decision.job)
            if waits and decision.job not in round_.invalid:
                yield round_, plan, decision.job


def checked(policy: Policy, seeds: Iterable[int], starts: Starts) -> Iterator[Explanation]:
    """Yield the explanations of jobs that wait in tiny rounds, compared with all their worlds."""
    for round_, plan, job in waiting(policy, seeds):
        try:
            yield check(round_, plan, job, starts)
        except TooManyPlansError:
            continue


def raw(world: World) -> Raw:
    """Return the round of a world in small units."""
    written: Raw = in_small_units(world.round.model_dump(mode="json", exclude_defaults=True))
    return written


def pinned(written: Raw) -> Raw:
    """Pin all that runs in a raw round."""
    for job in written["jobs"]:
        if "running" in job:
            job["running"]["pinned"] = True
    return written


def starts_in(plans: Iterable[Judged], job: str) -> bool:
    """Whether a valid plan starts a job."""
    return any(
        one["job"] == job and one["decision"] == "start"
        for judged in plans
        if not judged.broken
        for one in judged.document()["decisions"]
    )


def check(round_: Round, plan: Plan | None, job: str, starts: Starts) -> Explanation:
    """Explain why a job waits, and compare with all worlds; return the explanation."""
    found = explain_job(round_, plan, job, isolation="none")
    policy = FACTS[round_.policy.formulation]
    if plan is not None:
        round_ = policy.given(round_, plan, job)
    alone = policy.base(round_, job, None)
    if plan is not None and not starts(World(alone, job)):
        plan = None
    base = alone if plan is None else policy.base(round_, job, plan)
    assert found.world.base == base
    if starts(World(base, job)):
        assert found.verdict is Verdict.COULD_START
        return found
    if found.verdict is Verdict.UNDECIDED:
        return found
    if _is_monotone(round_, job):
        facts = policy.facts(base, job, None if plan is None else round_)
        conflict = _Worlds(base, job, facts, starts).preferred()
        assert found.verdict is VERDICTS[last_stratum(conflict)]
        assert _sentences(found.conflict) == _sentences(conflict)
    assert found.proof is not None
    assert found.proof.blocked is not None
    assert found.proof.minimal
    assert not starts(found.world)
    for witness in found.proof.witnesses:
        assert starts(witness.world)
    return found


def _is_monotone(round_: Round, name: str) -> bool:
    """Whether fewer facts surely never block more.

    With `as_needed` fewer jobs may mean fewer groups, and a job with a percentile of its memory may
    have room in a group only.
    """
    profile = named(name, round_).profile
    return not round_.sharing.as_needed and (profile is None or not profile.memory)


def _sentences(conflict: Sequence[Fact]) -> list[str]:
    """Return what facts say that do not fall apart."""
    return [fact.text for fact in conflict if not fact.names]


class _Worlds:
    """All worlds of some facts."""

    def __init__(self, base: Round, job: str, facts: Sequence[Fact], starts: Starts) -> None:
        self._base, self._job, self._facts, self._starts = base, job, facts, starts
        self._known: dict[frozenset[int], bool] = {}

    def blocked(self, kept: Iterable[int]) -> bool:
        kept = frozenset(kept)
        if kept not in self._known:
            numbers = reversed(range(len(self._facts)))
            removed = tuple(self._facts[i] for i in numbers if i not in kept)
            self._known[kept] = not self._starts(World(self._base, self._job, removed))
        return self._known[kept]

    def preferred(self) -> list[Fact]:
        """Return the preferred conflict: of all subsets, where they are few."""
        every = range(len(self._facts))
        if len(self._facts) > MAX_FACTS:
            number = {id(fact): i for i, fact in enumerate(self._facts)}
            return preferred_conflict(
                self._facts, lambda kept: self.blocked(number[id(fact)] for fact in kept)
            )
        subsets = [*chain.from_iterable(combinations(every, n) for n in range(len(every) + 1))]
        blocking = [set(kept) for kept in subsets if self.blocked(kept)]
        for kept in blocking:
            for other in every:
                assert self.blocked({*kept, other}), "more facts block, too"
        for fact in reversed(every):
            without = [kept for kept in blocking if fact not in kept]
            blocking = without or blocking
        (conflict,) = blocking
        return [self._facts[i] for i in sorted(conflict)]
