"""A first candidate of gangs completed: waiting jobs start greedily where it leaves room."""

from __future__ import annotations

from dataclasses import replace

from placewright.formulations.gang.placement.assignment import assign
from placewright.formulations.gang.placement.greedy import fill_by_policy
from placewright.formulations.gang.placement.placement import Placement
from placewright.formulations.gang.problem.compile import compile_round
from placewright.formulations.plan_messages import Candidate
from placewright.instances.derived.ranges import expand
from placewright.instances.documents.job import Running
from placewright.instances.documents.plan import Task
from placewright.instances.documents.round import Round


def completed_gangs(round_: Round, candidate: Candidate) -> Candidate:
    """Return a candidate of a round of gangs with further starts; nothing that it has changes.

    They are those of the round in which all that the candidate runs is pinned.
    """
    hosts = [name for entry in round_.cluster.hosts for name in expand(entry.name)]
    jobs, outer = [], []
    for j, job in enumerate(round_.jobs):
        if j in candidate.preempted:
            continue
        running = job.running
        if j in candidate.starts:
            option, places = candidate.starts[j]
            slots = candidate.slots.get(j) or (None,) * len(places)
            tasks = tuple(
                Task.model_construct(group=g, index=i, host=hosts[h], gpus=gpus, slot=slot)
                for (g, i, h, gpus), slot in zip(places, slots, strict=True)
            )
            running = Running.model_construct(option=option, tasks=tasks, pinned=True)
        elif running is not None:
            running = running.model_copy(update={"pinned": True})
        jobs.append(job.model_copy(update={"running": running}))
        outer.append(j)
    placement = Placement(compile_round(round_.model_copy(update={"jobs": tuple(jobs)})))
    fill_by_policy(placement)
    found = assign(placement, candidate.source)
    return replace(
        candidate,
        starts={**candidate.starts, **{outer[j]: start for j, start in found.starts.items()}},
        slots={**candidate.slots, **{outer[j]: slots for j, slots in found.slots.items()}},
    )
