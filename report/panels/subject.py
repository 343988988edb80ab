"""What a page is about: a round and its plans, with what several tables look up."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from placewright.array_types import Ints
from placewright.explain.comparison import Comparison, compare
from placewright.explain.places import free_and_total
from placewright.instances.derived.arrays import build_cluster
from placewright.instances.documents.job import Job
from placewright.instances.documents.plan import Plan
from placewright.instances.documents.round import Round
from placewright.report.facts.jobs import Holders, conditions_of, holders_of
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
    def holders(self) -> Holders:
        """Who holds each GPU before, and after each plan."""
        return holders_of(self.round, self.cluster, self.plans)

    @cached_property
    def conditions(self) -> tuple[Ints, Ints]:
        """A `Condition` of each host (hosts,) and of each GPU (gpus,)."""
        return conditions_of(self.round, self.cluster)

    @cached_property
    def free(self) -> list[tuple[dict[str, int], dict[str, int]]]:
        """Free domains and all domains with GPUs by level, before and after each plan."""
        return [free_and_total(self.round, plan) for plan in (self.kept, *self.plans)]

    @cached_property
    def comparison(self) -> Comparison | None:
        """What the second plan does differently, if there is one."""
        if len(self.plans) == 1:
            return None
        first, second = self.plans
        return compare(self.round, first, self.round, second)

    @cached_property
    def decided(self) -> Subject:
        """The same without jobs that make no sense; jobs keep their numbers."""
        if not self.round.invalid:
            return self
        plans = [plan.without_jobs(self.round.invalid) for plan in self.plans]
        made = Subject(self.round.valid_part(), plans)
        made.number = self.number
        return made

    @cached_property
    def number(self) -> dict[str, int]:
        """Numbers of jobs by name, in the order of the round."""
        return {job.name: number for number, job in enumerate(self.round.jobs)}

    def cell(self, job: str) -> JobCell:
        """Return the cell of a job."""
        return JobCell(job, self.number[job])
