"""What a page is about: a round and its plans, with what several tables look up."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from placewright.instances.derived.arrays import build_cluster
from placewright.instances.documents.job import Job
from placewright.instances.documents.plan import Plan
from placewright.instances.documents.round import Round
from placewright.report.table import JobCell
from placewright.rounds.decisions import DefaultDecisions
from placewright.topology import Cluster


class Subject:
    """A round with one plan, or two to compare.

    Parameters
    ----------
    round
        A round without invalid jobs, or with them.
    plans
        Valid plans of it.
    """

    def __init__(self, round: Round, plans: Sequence[Plan]) -> None:  # noqa: A002
        self.round, self.plans = round, tuple(plans)
        self.names = ("after",) if len(self.plans) == 1 else ("A", "B")

    @cached_property
    def cluster(self) -> Cluster:
        """The cluster as arrays."""
        return build_cluster(self.round.cluster)

    @cached_property
    def jobs(self) -> dict[str, Job]:
        """Jobs by name."""
        return {job.name: job for job in self.round.jobs}

    @cached_property
    def kept(self) -> Plan:
        """The plan in which nothing happens."""
        return Plan.model_construct(decisions=DefaultDecisions()(self.round))

    @cached_property
    def decided(self) -> tuple[Round, tuple[Plan, ...]]:
        """The round and its plans without jobs that make no sense."""
        return self.round.valid_part(), tuple(
            plan.without_jobs(self.round.invalid) for plan in self.plans
        )

    def cell(self, job: str) -> JobCell:
        """Return the cell of a job."""
        return JobCell(job, self._number[job])

    @cached_property
    def _number(self) -> dict[str, int]:
        return {job.name: number for number, job in enumerate(self.round.jobs)}
