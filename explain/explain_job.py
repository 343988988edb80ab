"""`explain_job`: the search for the conflict of a waiting job, its proof and corrections."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Unpack

from placewright.collection import no_collection
from placewright.explain.conflict import fall_apart, preferred_conflict
from placewright.explain.corrections.costs import COSTS, Cost
from placewright.explain.explanation import Explanation, Verdict
from placewright.explain.facts.fact import Fact, Stratum, World
from placewright.explain.facts.policies import FACTS
from placewright.explain.facts.situation import Situation
from placewright.explain.gang.oracle import ArrayOracle
from placewright.explain.job_corrections import JobCorrections
from placewright.explain.loss import Loss, can_be_asked, loss_of_starting
from placewright.explain.loss_at_most import MAX_SECONDS, loss_at_most
from placewright.explain.oracle import Answer, Oracle, SolvingOracle
from placewright.explain.proof import ConflictProof, prove
from placewright.explain.reservations import Reservations
from placewright.explain.search import SearchOptions
from placewright.explain.situations import Situations
from placewright.instances.checks.invalid_jobs import checked
from placewright.instances.derived.names import check_known
from placewright.instances.documents.plan import Plan
from placewright.instances.documents.round import Round
from placewright.instances.errors import InvalidInputError

VERDICTS = {
    Stratum.ASKS: Verdict.NEVER,
    Stratum.RULES: Verdict.NEVER_WITHIN_RULES,
    Stratum.AWAY: Verdict.NOT_UNTIL_HOSTS_ARE_BACK,
    Stratum.HELD: Verdict.NOT_NOW,
    Stratum.TAKEN: Verdict.OTHERS_INSTEAD,
}

_COSTS = {Verdict.NOT_NOW, Verdict.OTHERS_INSTEAD, Verdict.COULD_START}
"""Verdicts of jobs that some plan may start."""


def explain_job(
    round_: Round,
    plan: Plan | None,
    job: str,
    *,
    corrections: int = 0,
    costs: Mapping[str, Cost] = COSTS,
    **search: Unpack[SearchOptions],
) -> Explanation:
    """Explain why a job waits: in a round as it is, or beside what a plan starts.

    Parameters
    ----------
    round_
        The round in which it waits.
    plan
        A plan of the round that `verify` accepts, whoever made it; None: the round as it is.
    job
        Name of a job that waits.
    corrections
        How many corrections are looked for, of each list.
    costs
        By kind of change; kinds that are left out are not proposed.
    search
        `time_limit`, `backend`, `seed`, `deterministic` and `isolation` as of `solve_round`, for
        each question; the time is that of all questions and proofs together.

    Raises
    ------
    InvalidInputError
        If the job is unknown, runs, makes no sense, or the plan starts it; or an argument is out of
        its range.
    ValueError
        If the plan breaks a rule.
    """
    round_ = checked(round_)
    check_waits(round_, plan, job)
    situations = Situations.checked(round_, plan)
    with SolvingOracle.opened(round_, **search) as solving:
        oracle = ArrayOracle(solving)
        found = explained(situations, job, oracle, solving, in_full=True)
        if not corrections:
            return found
        changes = JobCorrections(situations, found, oracle, solving, costs)
        return replace(found, corrections=changes.found(corrections))


def explained(
    situations: Situations,
    job: str,
    oracle: Oracle,
    solving: SolvingOracle,
    *,
    in_full: bool,
) -> Explanation:
    """Explain one job that waits in both situations.

    `in_full` with proof, places and cost, and with groups of running jobs that fall apart. `oracle`
    answers the questions of the search, `solving` proves what it finds.
    """
    search = _Search(situations.of_job(job), job, oracle, solving, in_full=in_full)
    with no_collection():
        return search.explanation()


def check_waits(round_: Round, plan: Plan | None, job: str) -> None:
    """Refuse a job that does not wait.

    Raises
    ------
    InvalidInputError
        If it is unknown, runs, makes no sense, or the plan starts it.
    """
    jobs = {one.name: one for one in round_.jobs}
    check_known(job, jobs, "job", ("job",))
    if jobs[job].running is not None:
        raise InvalidInputError("runs; expected a job that waits", path=("job",), value=job)
    if job in round_.invalid:
        problem = f"makes no sense: {round_.invalid[job]}; expected a valid job"
        raise InvalidInputError(problem, path=("job",), value=job)
    if plan is not None and job in FACTS[round_.policy.formulation].started(plan):
        raise InvalidInputError(
            "is started, promised its time or given a home by the plan; expected a job that waits",
            path=("job",),
            value=job,
        )


def last_stratum(conflict: Sequence[Fact]) -> Stratum:
    """Return the stratum that decides the verdict; where nothing at all would help, the first."""
    return max((fact.stratum for fact in conflict), default=Stratum.ASKS)


class _Search:
    """The search for one explanation."""

    def __init__(
        self,
        situations: Situations,
        job: str,
        oracle: Oracle,
        solving: SolvingOracle,
        *,
        in_full: bool,
    ) -> None:
        self._situations, self._job, self._policy = situations, job, situations.policy
        self._round, self._plan = situations.round, situations.plan
        self._oracle, self._solving = oracle, solving
        self._questions, self._in_full = 0, in_full

    def explanation(self) -> Explanation:
        """Return what keeps the job from starting now, else beside the plan."""
        found = self._of(self._situations.now)
        if found.verdict is Verdict.COULD_START and self._plan is not None:
            found = self._of(self._situations.after)
            if found.verdict is Verdict.COULD_START:
                verdict, held_by = Reservations(self._plan, self._job).verdict(self._fits)
                found = replace(found, verdict=verdict, held_by=held_by)
        if not self._in_full:
            return found
        places = self._policy.places(self._base, self._job)
        return replace(found, places=places, cost=self._cost(found.verdict))

    def _fits(self, most: int) -> bool | None:
        """Whether the job starts after the plan beside its first reservations."""
        if self._solving.left() <= 0:
            return None
        reserved = Reservations(self._plan, self._job)
        beside = reserved.beside(reserved.kept(self._situations.after.round), most)
        self._questions += 1
        return self._oracle.start(World(beside, self._job)).starts

    def _of(self, situation: Situation) -> Explanation:
        self._base = self._policy.base(situation.round, self._job)
        facts = self._policy.facts(situation, self._base, self._job)
        answer = self._ask(facts, facts)
        if answer.starts and answer.plan is None and situation is self._situations.after:
            # What is told has a plan in hand; without the plan it only leads on to that beside it.
            answer = self._solving.start(self._world(facts, facts))
        if answer.starts is not False:
            verdict = Verdict.COULD_START if answer.starts else Verdict.UNDECIDED
            return self._explanation(verdict, facts, facts, plan=answer.plan)
        conflict = preferred_conflict(facts, lambda kept: self._blocked(facts, kept))
        verdict = VERDICTS[last_stratum(conflict)]
        if not self._in_full:
            return self._explanation(verdict, facts, conflict, blocked=True)
        universe, conflict = fall_apart(facts, conflict, self._blocked)
        proof = prove(conflict, lambda kept: self._world(universe, kept), self._solving)
        return self._explanation(verdict, universe, conflict, blocked=True, proof=proof)

    def _explanation(
        self,
        verdict: Verdict,
        universe: Sequence[Fact],
        holds: Sequence[Fact],
        *,
        blocked: bool = False,
        proof: ConflictProof | None = None,
        plan: Plan | None = None,
    ) -> Explanation:
        return Explanation(
            job=self._job,
            verdict=verdict,
            conflict=tuple(holds) if blocked else (),
            universe=tuple(universe),
            world=self._world(universe, holds),
            proof=proof,
            plan=plan,
            places=(),
            cost=None,
            corrections=None,
            questions=self._questions,
        )

    def _cost(self, verdict: Verdict) -> Loss | None:
        """Return what starting the job costs the plan, where that is a question."""
        plan, solving = self._plan, self._solving
        if plan is None or plan.certificate is None or verdict not in _COSTS or solving.left() <= 0:
            return None
        if not self._round.policy.spec.places_jobs:
            return None
        if can_be_asked(self._round):
            return loss_of_starting(self._round, plan, self._job, **solving.search)
        # What says little leaves time for the corrections.
        search = solving.search | {"time_limit": min(solving.left() / 2, MAX_SECONDS)}
        return loss_at_most(self._round, plan, self._job, **search)

    def _world(self, universe: Sequence[Fact], kept: Sequence[Fact]) -> World:
        holding = set(map(id, kept))
        removed = tuple(fact for fact in reversed(universe) if id(fact) not in holding)
        return World(self._base, self._job, removed)

    def _ask(self, universe: Sequence[Fact], kept: Sequence[Fact]) -> Answer:
        self._questions += 1
        return self._oracle.start(self._world(universe, kept))

    def _blocked(self, universe: Sequence[Fact], kept: Sequence[Fact]) -> bool | None:
        starts = self._ask(universe, kept).starts
        return None if starts is None else not starts
