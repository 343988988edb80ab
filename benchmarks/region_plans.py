"""The plan of a rule that says which region runs which job."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from benchmarks.region_deciding import Deciding, Holding, prepared
from benchmarks.region_hosts import need_of
from benchmarks.region_rules import Rule
from placewright import Plan, Round
from placewright.formulations.common.wan.arrays import NONE, compile_wan
from placewright.instances.documents.plan import Decision, Task
from placewright.instances.documents.plan_data import Reader, ReadsSection, RemoteRead

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
    names = deciding.hosts.cluster.hosts
    decisions, readers = [], []
    for j, job in enumerate(deciding.jobs):
        mine = deciding.started.get(j, deciding.running.get(j))
        if j in deciding.started:
            holding = deciding.started[j]
            decision = {
                "decision": "start",
                "option": holding.option,
                "tasks": _tasks(holding, names),
            }
        elif j in deciding.preempted:
            by = deciding.jobs[deciding.preempted[j]].name
            decision = {"decision": "preempt", "displaced_by": by}
        elif job.running is not None:
            tasks = job.running.tasks
            decision = {"decision": "keep", "option": job.running.option, "tasks": tasks}
        else:
            decision = {"decision": "wait"}
        decisions.append(Decision.model_validate({"job": job.name, **decision}))
        if mine is not None and deciding.remote[j, mine.region]:
            readers.append((j, mine.region))
    sections: list[dict[str, object]] = []
    if deciding.preempted:
        steps = [deciding.jobs[j].name for j in deciding.preempted]
        sections.append({"kind": "moves", "steps": steps, "needs_spare": []})
    reads = ReadsSection(readers=tuple(_readers(deciding, readers)))
    sections.append(reads.model_dump(mode="json"))
    return Plan(decisions=tuple(decisions), sections=tuple(sections))


def _tasks(holding: Holding, names: Sequence[str]) -> list[Task]:
    counted: dict[int, int] = {}
    tasks = []
    for group, host, gpus in holding.placed:
        index = counted[group] = counted.get(group, NONE) + 1
        tasks.append(Task(group=group, index=index, host=names[host], gpus=gpus))
    return tasks


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
