"""Why a job waits, computed against the final plan; docs/plans.md has the definitions."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple, TypeAlias

from placewright.formulations.gang import parameters
from placewright.formulations.gang.placement.feasibility import fits
from placewright.formulations.gang.problem.jobs import Choice, Group
from placewright.formulations.gang.problem.problem import Problem
from placewright.formulations.plan_messages import Candidate
from placewright.instances.documents.plan import Detail, Reason
from placewright.rounds.decisions import Why
from placewright.rounds.sections.fixed_states import FixedStates, Precedence, StateKey
from placewright.rounds.sections.quota_use import QuotaUse
from placewright.rounds.sections.shortage import shortage

TESTS = (
    Reason.NEVER_FITS,
    Reason.QUOTA,
    Reason.CAPACITY,
    Reason.DISPLACED_BY_PRIORITY,
    Reason.NOT_CHOSEN,
)
"""The reasons of an option in the order of their tests; the last has none."""


_Asked: TypeAlias = tuple[StateKey, tuple[Group, ...], int, int]
"""A state; groups, joint level and label of an option."""


class Verdict(NamedTuple):
    """The reason of one option, and its facts."""

    reason: Reason
    facts: Mapping[str, Any]


def reasons_of(
    problem: Problem,
    candidate: Candidate,
    foremost: Collection[int] = (),
    states: FixedStates | None = None,
    *,
    startable: bool = False,
) -> dict[int, Why]:
    """Return why each pending job waits that the candidate does not start.

    Parameters
    ----------
    foremost
        Jobs that come before all others.
    states
        The hosts in the states that reasons speak of, if jobs do not hold GPUs of their own.
    startable
        Say of jobs that are not chosen whether they fit even beside all started jobs: where nothing
        but hosts and quotas decides who may start.
    """
    waiting: dict[tuple[int, bool, int], list[int]] = {}  # by class, whether foremost, priority
    for c, job_class in enumerate(problem.classes):
        for job in () if job_class.running else job_class.jobs:
            if job not in candidate.starts:
                key = c, job in foremost, problem.round.jobs[job].priority
                waiting.setdefault(key, []).append(job)
    if not waiting:
        return {}
    states = states or FixedStates(problem, candidate, foremost)
    tests = _Tests(problem, candidate, states, startable=startable)
    options = [
        (Precedence(is_foremost, choice.entitled, priority), jobs[0], choice)
        for (c, is_foremost, priority), jobs in waiting.items()
        for choice in problem.classes[c].choices
    ]
    verdicts: dict[int, list[tuple[Choice, Verdict]]] = {}
    for precedence, job, choice in sorted(options, key=lambda entry: entry[0], reverse=True):
        verdicts.setdefault(job, []).append((choice, tests.of(job, choice, precedence)))
    reasons: dict[int, Why] = {}
    for jobs in waiting.values():
        reasons |= dict.fromkeys(jobs, best_verdict(verdicts[jobs[0]]))
    return reasons


def best_verdict(verdicts: list[tuple[Choice, Verdict]]) -> Why:
    """Return the reason of the option that comes furthest, then asks the fewest GPUs."""

    def far(found: tuple[Choice, Verdict]) -> tuple[int, int, int]:
        choice, verdict = found
        return TESTS.index(verdict.reason), -sum(g.milli_gpu for g in choice.groups), -choice.index

    choice, (reason, facts) = max(verdicts, key=far)
    if len(verdicts) > 1:
        facts = {"option": choice.index, **facts}
    return Why(reason, Detail.model_construct(**facts) if facts else None)


class _Tests:
    """The tests of options against one plan."""

    def __init__(
        self, problem: Problem, candidate: Candidate, states: FixedStates, *, startable: bool
    ) -> None:
        self._startable, self._states = startable, states
        self._jobs = problem.round.jobs
        self._quota = QuotaUse(problem.round, candidate, states.precedence, states.exempt)
        self._steps = parameters.PARAMETERS.placement.max_reason_steps
        self._known: dict[_Asked, bool | None] = {}
        self._shortages: dict[_Asked, dict[str, Any]] = {}

    def of(self, job: int, choice: Choice, precedence: Precedence) -> Verdict:
        """Return the first test that an option fails; one that is not decided counts as passed."""
        doubt: dict[str, Any] = {}
        for reason in TESTS[:-1]:
            if reason is Reason.QUOTA:
                lack = self._quota.excess(self._jobs[job], choice.index, precedence) or None
            else:
                state = self._states.key(reason, precedence)
                fitting = self._fits(state, choice)
                doubt = {"unproven": True} if fitting is None else doubt
                lack = None if fitting is not False else self._shortage(state, choice)
            if lack is not None:
                return Verdict(reason, {**lack, **doubt})
        if self._startable and not doubt:
            state = self._states.key(Reason.NOT_CHOSEN, precedence)
            doubt = {"startable": True} if self._fits(state, choice) else {}
        return Verdict(Reason.NOT_CHOSEN, doubt)

    def _fits(self, state: StateKey, choice: Choice) -> bool | None:
        key = state, choice.groups, choice.joint_level, choice.label
        if key not in self._known:
            most = min(parameters.PARAMETERS.placement.max_feasibility_steps, self._steps)
            self._known[key] = fits(self._states.placement(state), choice, most)
            if self._known[key] is None:
                self._steps -= most
        return self._known[key]

    def _shortage(self, state: StateKey, choice: Choice) -> dict[str, Any]:
        key = state, choice.groups, choice.joint_level, choice.label
        if key not in self._shortages:
            self._shortages[key] = shortage(self._states.placement(state), choice)
        return self._shortages[key]
