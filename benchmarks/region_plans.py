"""The plan of a rule that says which region runs which job."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from benchmarks.region_deciding import Deciding, Holding, prepared
from benchmarks.region_hosts import need_of
from benchmarks.region_rules import Rule
from placewright import Plan, Round
from placewright.formulations.common.wan.arrays import NONE, compile_wan
from placewright.formulations.plan_messages import Candidate, Place
from placewright.instances.documents.plan_data import Reader, ReadsSection, RemoteRead
from placewright.rounds.decisions import DefaultDecisions, decisions_of
from placewright.rounds.displacement.victims import lawful

__all__ = ["plan_of"]


def plan_of(rule: Rule, round_: Round) -> Plan:
    """Return the plan of a rule, without a certificate."""
    deciding = prepared(compile_wan(round_))
    jobs, levels = deciding.jobs, deciding.hosts.cluster.levels
    pending = [j for j, job in enumerate(jobs) if job.running is None]
    for j in sorted(pending, key=lambda j: -jobs[j].priority):
        for option in range(len(jobs[j].options)):
            if rule(deciding, j, option, need_of(jobs[j], option, levels)):
                break
    return _document(deciding)


def _document(deciding: Deciding) -> Plan:
    names = tuple(deciding.hosts.cluster.hosts)
    starts = {
        j: (holding.option, tuple(_places(holding))) for j, holding in deciding.started.items()
    }
    round_ = deciding.wan.round
    candidate = Candidate(starts, "rule", deciding.preempted)
    # A rule may stop more jobs than it needs in the end.
    candidate = lawful(round_, names, candidate) or candidate
    decisions = decisions_of(round_, names, DefaultDecisions()(round_), candidate)
    regions = {j: holding.region for j, holding in (deciding.running | deciding.started).items()}
    for j in deciding.preempted.keys() - candidate.preempted.keys():
        regions[j] = deciding.region_before(j)
    readers = [(j, region) for j, region in sorted(regions.items()) if deciding.remote[j, region]]
    sections: list[dict[str, object]] = []
    if candidate.preempted:
        steps = [deciding.jobs[j].name for j in candidate.preempted]
        sections.append({"kind": "moves", "steps": steps, "needs_spare": []})
    reads = ReadsSection(readers=tuple(_readers(deciding, readers)))
    sections.append(reads.model_dump(mode="json"))
    return Plan(decisions=decisions, sections=tuple(sections))


def _places(holding: Holding) -> Iterator[Place]:
    counted: dict[int, int] = {}
    for group, host, gpus in holding.placed:
        index = counted[group] = counted.get(group, NONE) + 1
        yield group, index, host, tuple(gpus)


def _readers(deciding: Deciding, jobs: Iterable[tuple[int, int]]) -> Iterator[Reader]:
    """Yield what jobs read from elsewhere, from where that is cheapest."""
    wan = deciding.wan
    first = np.searchsorted(wan.read_job, np.arange(len(wan.demand) + 1))
    for j, region in jobs:
        reads = []
        for read in range(first[j], first[j + 1]):
            dataset = int(wan.read_dataset[read])
            if deciding.holds[dataset, region] or not wan.read_remote[read]:
                continue
            able = np.flatnonzero(deciding.holds[dataset] & wan.links_of(dataset)[:, region])
            if len(able):
                source = able[np.argmin(wan.egress[able, region])]
                names = wan.datasets[dataset], wan.regions[source]
                reads.append(RemoteRead(dataset=names[0], source=names[1]))
        if reads:
            yield Reader(job=wan.round.jobs[j].name, reads=tuple(reads))
