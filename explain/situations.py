"""The two situations in which a waiting job is explained: as it is, and after a plan."""

from __future__ import annotations

from functools import cached_property

from placewright.explain.facts.fact import Situation, facts_of
from placewright.formulations.gang.problem.compile import compile_round
from placewright.instances.documents.plan import Plan
from placewright.instances.documents.round import Round
from placewright.instances.verify import verify
from placewright.rounds.backfill.queue import in_turn, reservation_section, reserve


class Situations:
    """A round and a plan without jobs that make no sense, and what all waiting jobs meet there.

    Attributes
    ----------
    round, plan
        The valid parts of both; no plan if there is none.
    now
        The round as it is.
    """

    def __init__(self, round_: Round, plan: Plan | None) -> None:
        self.round, self.plan = round_, plan
        self.policy = facts_of(round_)
        self.now = Situation(round_)

    @classmethod
    def checked(cls, round_: Round, plan: Plan | None) -> Situations:
        """Return those of a round that `check_round` accepts and any plan.

        Raises
        ------
        InvalidInputError
            If jobs of the round's policy have no facts.
        ValueError
            If the plan breaks a rule.
        """
        if plan is None:
            return cls(round_.valid_part(), None)
        if not (checked := verify(round_, plan)).ok:
            raise ValueError(f"the plan breaks a rule: {checked.violations[0]}")
        valid = round_.valid_part()
        return cls(valid, plan.completed(valid.names))

    @cached_property
    def after(self) -> Situation:
        """The round that the plan leads to; of a round alone as it is."""
        if self.plan is None:
            return self.now
        return Situation(self.policy.after(self.round, self.plan), self.round)

    @cached_property
    def reserving(self) -> Plan | None:
        """The plan whose reservations count: of a round alone those that any plan begins with."""
        policy = self.round.policy
        if self.plan is not None or policy.backfill is None or not policy.spec.places_jobs:
            return self.plan
        problem = compile_round(self.round)
        section = reservation_section(self.round, problem.cluster.hosts, reserve(problem))
        return Plan(decisions=(), sections=(section,))

    def in_turn(self, job: str) -> bool | None:
        """Whether a job starts in its turn by these; None: there are none."""
        plan = self.reserving
        return None if plan is None else job in in_turn(plan.sections)

    def of_job(self, job: str) -> Situations:
        """Return those in which one job is asked for: others keep no promise that a plan breaks."""
        if self.plan is None:
            return self
        given = self.policy.given(self.round, self.plan, job)
        return self if given is self.round else Situations(given, self.plan)
