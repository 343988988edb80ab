"""Inner rounds: gang rounds inside another decision, and how the outer round counts their plans."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from placewright.formulations.plan_messages import Candidate
from placewright.formulations.session import Session
from placewright.instances.documents.round import Round


@dataclass(frozen=True, kw_only=True, eq=False)
class InnerRound:
    """A gang round inside another decision, by the indices of the outer round.

    Attributes
    ----------
    jobs : tuple of int
        Index in the outer round of each job.
    options : tuple of tuple of int, or None
        Index in the outer round of each option of each job; None if they are the same.
    hosts : tuple of int, or None
        Index in the outer round of each host; None if they are the same.
    """

    jobs: tuple[int, ...]
    options: tuple[tuple[int, ...], ...] | None = None
    hosts: tuple[int, ...] | None = None

    def lift(self, plan: Candidate) -> Candidate:
        """Return the starts, preemptions and MIG slots of a plan as the outer round counts them."""
        jobs, options, hosts = self.jobs, self.options, self.hosts
        starts = plan.starts
        if hosts is not None:
            starts = {
                j: (option, tuple((g, i, hosts[h], gpus) for g, i, h, gpus in places))
                for j, (option, places) in starts.items()
            }
        return Candidate(
            {
                jobs[j]: (option if options is None else options[j][option], places)
                for j, (option, places) in starts.items()
            },
            plan.source,
            {jobs[j]: jobs[by] if by >= 0 else by for j, by in plan.preempted.items()},
            slots={jobs[j]: slots for j, slots in plan.slots.items()},
        )


def inner_plans(round_: Round, session: Session, problem: Any = None) -> Iterator[Candidate]:
    """Yield the plans of a gang round that the session decides, without its bounds."""
    for step in session.inner_rounds(round_, session, problem):
        if isinstance(step, Candidate):
            yield step
