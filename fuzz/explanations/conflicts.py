"""Conflict, verdict and proof of an explanation beside all worlds of its facts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, combinations

from fuzz.explanations.questions import STARTS, Starts
from fuzz.explanations.samples import Sample, waiting
from fuzz.policy import Policy, TooManyPlansError
from placewright.explain.conflict import preferred_conflict, question_of
from placewright.explain.explain_job import VERDICTS, last_stratum
from placewright.explain.explanation import Explanation, Verdict
from placewright.explain.facts.fact import Fact, Stratum, World, named, says_yes
from placewright.explain.situations import Situations
from placewright.instances.checks.round import trusted
from placewright.instances.documents.plan import Plan
from placewright.instances.documents.round import Round
from placewright.instances.verify import verify

MAX_FACTS = 7
"""Facts of which all subsets are looked at; of more only those that a search asks for."""


def compared(policy: Policy, seeds: Iterable[int]) -> Iterator[tuple[Explanation, list[str]]]:
    """Yield the explanations of jobs that wait in tiny rounds, and what is wrong with each."""
    for sample in waiting(policy, seeds):
        starts = STARTS[sample.round.policy.formulation]
        found = sample.explained()
        try:
            yield found, [*faults(sample, found, starts)]
        except TooManyPlansError:
            continue


def faults(sample: Sample, found: Explanation, starts: Starts) -> Iterator[str]:
    """Yield what is wrong with an explanation, in words.

    Raises
    ------
    TooManyPlansError
        A world has too many plans.
    """
    round_, plan, job = sample
    round_ = round_.valid_part()
    situations = Situations(round_, _valid(sample)).of_job(job)
    policy, situation = situations.policy, situations.now
    base = policy.base(situation.round, job)
    if plan is not None and starts(World(base, job)):
        situation = situations.after
        base = policy.base(situation.round, job)
    if found.world.base != base:
        yield "the base is not that of the round alone while the job cannot start there"
        return
    could = starts(World(base, job))
    if could is not (found.verdict in (Verdict.COULD_START, Verdict.HELD_FOR_RESERVATION)):
        if found.verdict is not Verdict.UNDECIDED:
            yield f"the verdict is {found.verdict}, but the job {'starts' if could else 'does not'}"
        return
    if could or found.verdict is Verdict.UNDECIDED:
        return
    facts = policy.facts(situation, base, job)
    if is_monotone(round_, job):
        yield from _of_verdict(found, _Worlds(base, job, facts, starts))
    yield from _of_proof(found, starts)


def may_last_less(sample: Sample, found: Explanation, starts: Starts) -> bool:
    """Whether a conflict of more lasting facts than that of an explanation exists.

    It may where facts are not monotone.

    Raises
    ------
    TooManyPlansError
        A world has too many plans.
    """
    if is_monotone(sample.round, sample.job) or found.proof is None:
        return False
    base, job = found.world.base, found.job
    situations = Situations(sample.round.valid_part(), _valid(sample)).of_job(job)
    policy, situation = situations.policy, situations.now
    if policy.base(situation.round, job) != base:
        situation = situations.after
    worlds = _Worlds(base, job, policy.facts(situation, base, job), starts)
    return VERDICTS[worlds.least_stratum()] is not found.verdict


def _valid(sample: Sample) -> Plan | None:
    return None if sample.plan is None else sample.plan.without_jobs(sample.round.invalid)


def undecided(found: Explanation) -> str:
    """Return what an explanation leaves open, "" if it is decided and proven."""
    if found.verdict is Verdict.UNDECIDED:
        return "no verdict"
    if found.proof is None:
        return ""
    if found.proof.blocked is None:
        return "no bound of the conflict"
    return "" if found.proof.minimal else "a fact without a witness"


def is_monotone(round_: Round, name: str) -> bool:
    """Whether fewer facts surely never block more.

    With `as_needed` fewer jobs may mean fewer groups, and a job with a percentile of its memory may
    have room in a group only.
    """
    profile = named(name, round_).profile
    return not round_.sharing.as_needed and (profile is None or not profile.memory)


def _of_verdict(found: Explanation, worlds: _Worlds) -> Iterator[str]:
    least = worlds.least_stratum()
    if found.verdict is not VERDICTS[least]:
        yield f"the verdict is {found.verdict}, the least stratum that blocks {least.title}"
    try:
        conflict = worlds.preferred()
    except NotMonotoneError as error:
        yield str(error)
        return
    if VERDICTS[last_stratum(conflict)] is not VERDICTS[least]:
        yield "the rule book's preferred conflict is not of the least stratum that blocks"
    if sentences(found.conflict) != sentences(conflict):
        yield f"the conflict is {sentences(found.conflict)}, preferred {sentences(conflict)}"


def _of_proof(found: Explanation, starts: Starts) -> Iterator[str]:
    if starts(found.world):
        yield "the job starts in the world of its conflict"
    if found.proof is None:
        yield "there is no proof"
        return
    for witness in found.proof.witnesses:
        world = witness.world
        if not starts(world):
            yield "a fact is not needed: without it the job does not start either"
        if witness.plan is not None:
            bare = witness.plan.model_copy(update={"round": None, "certificate": None})
            question = question_of(world)
            if not verify(trusted(question), bare).ok or not says_yes(question, bare, world.job):
                yield "the plan of a witness is not valid, or does not start the job"


def sentences(conflict: Sequence[Fact]) -> list[str]:
    """Return what facts say that do not fall apart."""
    return [fact.text for fact in conflict if not fact.names]


class NotMonotoneError(Exception):
    """With one fact more a job starts that does not with fewer."""


class _Worlds:
    """All worlds of some facts."""

    def __init__(self, base: Round, job: str, facts: Sequence[Fact], starts: Starts) -> None:
        self.facts = facts
        self._base, self._job, self._starts = base, job, starts
        self._known: dict[frozenset[int], bool] = {}

    def blocked(self, kept: Iterable[int]) -> bool:
        """Whether the job does not start where these facts hold, by index."""
        kept = frozenset(kept)
        if kept not in self._known:
            numbers = reversed(range(len(self.facts)))
            removed = tuple(self.facts[i] for i in numbers if i not in kept)
            self._known[kept] = not self._starts(World(self._base, self._job, removed))
        return self._known[kept]

    def least_stratum(self) -> Stratum:
        """Return the least stratum that blocks, with all before it."""
        numbered = [*enumerate(self.facts)]
        return next(
            stratum
            for stratum in Stratum
            if self.blocked(i for i, fact in numbered if fact.stratum <= stratum)
        )

    def preferred(self) -> list[Fact]:
        """Return the preferred conflict: of all subsets, where they are few."""
        every = range(len(self.facts))
        if len(self.facts) > MAX_FACTS:
            number = {id(fact): i for i, fact in enumerate(self.facts)}
            return preferred_conflict(
                self.facts, lambda kept: self.blocked(number[id(fact)] for fact in kept)
            )
        subsets = [*chain.from_iterable(combinations(every, n) for n in range(len(every) + 1))]
        blocking = [set(kept) for kept in subsets if self.blocked(kept)]
        for kept in blocking:
            for other in every:
                if not self.blocked({*kept, other}):
                    texts = [self.facts[i].text for i in sorted(kept)]
                    raise NotMonotoneError(f"{texts} block, with {self.facts[other].text} not")
        for fact in reversed(every):
            without = [kept for kept in blocking if fact not in kept]
            blocking = without or blocking
        (conflict,) = blocking
        return [self.facts[i] for i in sorted(conflict)]
