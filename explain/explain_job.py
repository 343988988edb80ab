"""`explain_job`: the search for the conflict of a waiting job, its proof and corrections."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Unpack

from placewright.collection import no_collection
from placewright.explain.conflict import (
    Answer,
    ConflictProof,
    Oracle,
    SolvingOracle,
    fall_apart,
    preferred_conflict,
    prove,
)
from placewright.explain.corrections.change import COSTS, Cost
from placewright.explain.explanation import Explanation, Verdict
from placewright.explain.facts.fact import Fact, Situation, Stratum, World, facts_of
from placewright.explain.gang import ArrayOracle
from placewright.explain.job_corrections import JobCorrections
from placewright.explain.loss import MAX_SECONDS, Loss, can_be_asked, loss_at_most, loss_of_starting
from placewright.explain.reservations import Reservations
from placewright.explain.scheduler import deadlock, evictions, would_preempt
from placewright.explain.search import SearchOptions
from placewright.explain.situations import Situations
from placewright.explain.stages import waits_of
from placewright.instances.checks.round import checked
from placewright.instances.derived.source_words import check_in_round, left_out_called, whys
from placewright.instances.documents.caveats import hard_caveats
from placewright.instances.documents.job import Job
from placewright.instances.documents.plan import Named, Plan, name_of
from placewright.instances.documents.round import Round
from placewright.instances.documents.source_keys import LEAVES, WAITING_PART
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
    job: str | Named,
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
        A job that waits, or its name, in the round or in its source; of several it is the first.
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
        If the job is unknown, left out of the round, runs, makes no sense, or the plan starts it;
        or an argument is out of its range.
    ValueError
        If the plan breaks a rule.
    """
    round_ = checked(round_)
    job = waiting_job(round_, plan, name_of(job))
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


def waiting_job(round_: Round, plan: Plan | None, name: str) -> str:
    """Return the first job of a name that waits; its name may be one of the round's source.

    Raises
    ------
    InvalidInputError
        If it is unknown, left out of the round, runs, makes no sense, or the plan starts it.
    """
    started = facts_of(round_).started(plan) if plan is not None else ()
    jobs = check_in_round(round_, name, ("job",))
    # Where some pods of a gang run, those that wait are a job of their own.
    jobs += [job for job in round_.jobs if job.name == f"{name}{WAITING_PART}"]
    problems = [_not_waiting(round_, started, job) for job in jobs]
    if problems[0] and all(problems):
        left = left_out_called(round_, name)
        other = f"{left[0].name} is not in the round: {whys(left)}; " if left else ""
        raise InvalidInputError(f"{other}{problems[0]}", path=("job",), value=jobs[0].name)
    return jobs[problems.index("")].name


def _not_waiting(round_: Round, started: Collection[str], job: Job) -> str:
    """Say why a job does not wait, "" if it does."""
    if job.running is not None:
        why = job.annotations.get(LEAVES)
        return f"runs{f' until Kueue stops it: {why}' if why else ''}; expected a job that waits"
    if job.name in round_.invalid:
        return f"makes no sense: {round_.invalid[job.name]}; expected a valid job"
    if job.name in started:
        return (
            "is started, promised its time or given a home by the plan; expected a job that waits"
        )
    return ""


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
            turn = self._situations.in_turn(self._job)
            found = replace(found, in_turn=turn)
            if not turn:
                verdict, held_by = self._reservations.verdict(self._fits)
                found = replace(found, verdict=verdict, held_by=held_by)
        if found.verdict is Verdict.COULD_START:
            found = replace(found, of_hosts=self._doubts_of_hosts())
        if not self._in_full:
            return found
        places = self._policy.places(self._base, self._job)
        cost = self._cost(found.verdict)
        wait = None if self._plan is None else waits_of(self._round, self._plan).get(self._job)
        scheduler = self._scheduler(found)
        return replace(found, places=places, cost=cost, scheduler=scheduler, wait=wait)

    def _doubts_of_hosts(self) -> tuple[str, ...]:
        """Return what is not obeyed of hosts, unless the job starts without all of these, too."""
        hosts = self._base.cluster.hosts
        told = [hard_caveats(one.annotations) for one in hosts]
        if not any(told):
            return ()
        others = tuple(
            one.model_copy(update={"healthy": False}) if caveats else one
            for one, caveats in zip(hosts, told, strict=True)
        )
        cluster = self._base.cluster.model_copy(update={"hosts": others})
        self._questions += 1
        world = World(self._base.model_copy(update={"cluster": cluster}), self._job)
        if self._oracle.start(world).starts:
            return ()
        return tuple(dict.fromkeys(one.text for caveats in told for one in caveats))

    @property
    def _reservations(self) -> Reservations:
        return Reservations(self._situations.reserving, self._job)

    def _scheduler(self, found: Explanation) -> tuple[str, ...]:
        """Return what the cluster's own scheduler makes of a job that running ones keep waiting."""
        if last_stratum(found.conflict) is not Stratum.HELD:
            return ()
        asks = (evictions, would_preempt, deadlock)
        return tuple(filter(None, (ask(self._round, self._job, self._solving) for ask in asks)))

    def _fits(self, most: int) -> bool | None:
        """Whether the job starts after the plan beside its first reservations."""
        if self._solving.left() <= 0:
            return None
        reserved = self._reservations
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
