"""Decider of policy `stages`: jobs that wait for others, and who begins now."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from placewright.formulations.plan_messages import Bound, Candidate, Timed
from placewright.formulations.session import Session
from placewright.formulations.stages.heuristics.placing import complete
from placewright.formulations.stages.problem import Problem, compile_stages
from placewright.formulations.stages.run import run
from placewright.instances.derived.arrays import build_cluster
from placewright.instances.derived.ranges import expand
from placewright.instances.derived.waiting import end_of
from placewright.instances.documents.plan import Decision, Detail, Reason
from placewright.instances.documents.round import Round
from placewright.rounds.deciders.base import PolicyDecider
from placewright.rounds.decisions import Why
from placewright.rounds.sections.sections import collective_section
from placewright.topology import Cluster


class StagesDecider:
    """Decides a round of jobs that wait for others."""

    def __init__(self, round_: Round) -> None:
        self._round = round_
        self.hosts = tuple(host for entry in round_.cluster.hosts for host in expand(entry.name))
        self.terms: tuple[str, ...] = round_.policy.terms

    def steps(self, session: Session) -> Iterator[Candidate | Bound]:
        """Yield what the formulation yields."""
        return run(self._problem, session)

    @cached_property
    def _problem(self) -> Problem:
        return compile_stages(self._round)

    @cached_property
    def _cluster(self) -> Cluster:
        return build_cluster(self._round.cluster)

    def reasons(self, candidate: Candidate) -> Mapping[int, Why]:
        """Return when each job begins that does not begin now."""
        return {
            timed.job: Why(Reason.LATER, Detail(at=timed.waves[0][0]))
            for timed in self._schedule(candidate)
            if timed.job not in candidate.starts
        }

    def _schedule(self, candidate: Candidate) -> tuple[Timed, ...]:
        """Return the schedule of a candidate; of one from another round what it leaves."""
        return candidate.schedule or complete(self._problem, candidate)

    def sections(
        self,
        candidate: Candidate,
        decisions: Sequence[Decision],  # noqa: ARG002
    ) -> Iterator[dict[str, Any] | None]:
        """Yield the schedule, and collectives."""
        now, timed = self._round.now, {one.job: one for one in self._schedule(candidate)}
        entries = []
        for j, job in enumerate(self._round.jobs):
            if job.running is None:
                option, waves = timed[j].option, timed[j].waves
            else:
                option, started = job.running.option, job.running.started
                waves = ((now if started is None else started, end_of(job, now), 1),)
            gang = job.running is not None or (job.stage is not None and job.stage.gang)
            tasks = sum(group.count for group in job.options[option].groups)
            entry = {"job": job.name, "option": option, "start": waves[0][0], "end": waves[-1][1]}
            entry["tasks"] = tasks if gang else most_at_once(waves)
            entry["waves"] = [] if gang else [[begin, tasks] for begin, _, tasks in waves]
            entries.append(entry)
        yield {"kind": "schedule", "jobs": entries}
        yield collective_section(self._round, self._cluster, candidate)


def most_at_once(waves: Sequence[tuple[int, int, int]]) -> int:
    """Return the most tasks of waves that run at one time."""
    return max(sum(tasks for begin, end, tasks in waves if begin <= at < end) for at, _, _ in waves)


POLICY = PolicyDecider(lambda round_, _: StagesDecider(round_))
