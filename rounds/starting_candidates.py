"""A plan of a similar round as the first candidates of a round, as far as it suits it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from placewright.formulations.plan_messages import Candidate, DataPlan, Flow, Group, Promise
from placewright.instances.derived.arrays import build_cluster
from placewright.instances.derived.ranges import expand
from placewright.instances.documents.plan import DecisionKind, Plan
from placewright.instances.documents.round import Round
from placewright.instances.errors import InvalidInputError
from placewright.rounds.deciders.base import DECIDERS

SOURCE = "start"
_ARRIVALS = (DecisionKind.START, DecisionKind.MIGRATE)


def starting_candidates(
    round_: Round, plan: Plan, hosts: Sequence[str]
) -> tuple[Candidate, Candidate]:
    """Return what a plan decides for the jobs of a round that it knows; then completed.

    Jobs that the plan does not know wait, or stay where they run, and so does who would come to a
    host that is no longer there, or where nothing may arrive. Whether the rest is a plan of the
    round is for the verifier to say.

    Parameters
    ----------
    round_
        The round to decide.
    plan
        A plan of a round that has jobs and hosts in common with this one.
    hosts
        Names of the hosts of the round, as places in candidates count them.

    Raises
    ------
    InvalidInputError
        If `plan` is no Plan.
    """
    if not isinstance(plan, Plan):
        raise InvalidInputError("expected a Plan", path=("start",), value=type(plan).__name__)
    index = {name: at for at, name in enumerate(hosts)}
    numbers = {job.name: j for j, job in enumerate(round_.jobs)}
    closed = _closed(round_)
    starts, slots = {}, {}
    stopped: dict[int, tuple[int, ...]] = {}
    for decision in plan.decisions:
        j = numbers.get(decision.job)
        if j is None:
            continue
        job = round_.jobs[j]
        if decision.decision is DecisionKind.PREEMPT and job.running is not None:
            stopped[j] = tuple(numbers[name] for name in decision.displaced_by if name in numbers)
        elif decision.decision in _ARRIVALS and decision.option is not None:
            moves = decision.decision is DecisionKind.MIGRATE
            suits = moves == (job.running is not None) and decision.option < len(job.options)
            if not suits or any(t.host not in index or t.host in closed for t in decision.tasks):
                continue
            places = tuple((t.group, t.index, index[t.host], t.gpus) for t in decision.tasks)
            starts[j] = (decision.option, places)
            if any(task.slot is not None for task in decision.tasks):
                slots[j] = tuple(task.slot for task in decision.tasks)
    # Whoever was stopped for jobs none of which arrives stays.
    preempted = {
        j: by[0] if by else -1
        for j, by in stopped.items()
        if not by or any(other in starts for other in by)
    }
    sections = {section["kind"]: section for section in plan.sections}
    promises, offers = _promises(sections.get("leases"), numbers)
    has_data = "geo" in round_.policy.spec.sections
    first = Candidate(
        starts,
        SOURCE,
        preempted,
        slots=slots,
        groups=_groups(sections.get("groups"), numbers),
        promises=promises,
        offers=offers,
        data=_data(round_, sections, numbers) if has_data else None,
    )
    return first, DECIDERS[round_.policy.formulation].completed(round_, first)


def _closed(round_: Round) -> set[str]:
    """Return the hosts on which nothing may arrive."""
    away = [entry.name for entry in round_.cluster.hosts if not entry.healthy]
    away += [one.host for one in round_.reservations if one.gpus is None]
    return {host for name in (*away, *round_.policy.vacate) for host in expand(name)}


def _groups(section: Mapping[str, Any] | None, numbers: Mapping[str, int]) -> tuple[Group, ...]:
    """Return the groups of jobs that share GPUs of which the round has all members."""
    found: list[Group] = []
    for group in () if section is None else section["groups"]:
        members = [numbers.get(member["job"]) for member in group["members"]]
        known = tuple(j for j in members if j is not None)
        if len(known) == len(members):
            offsets = tuple(member["offset"] for member in group["members"])
            found.append(Group(known, offsets, group["period"]))
    return tuple(found)


def _promises(
    section: Mapping[str, Any] | None, numbers: Mapping[str, int]
) -> tuple[tuple[Promise, ...], tuple[Promise, ...]]:
    """Return the promises and offers to jobs that the round has."""
    if section is None:
        return (), ()

    def promise(entry: Mapping[str, Any], option: int, at: int, value: int, finish: int) -> Promise:
        leases = tuple((first, end) for first, end in entry["leases"])
        return Promise(numbers[job], option, at, value, finish, leases)

    promises: list[Promise] = []
    offers: list[Promise] = []
    for entry in section["jobs"]:
        job = entry["job"]
        if job in numbers:
            due = entry["promise"]
            promises.append(
                promise(entry, entry["option"], due["at"], due["value"], entry["finish"])
            )
    for entry in section["refused"]:
        job, offer = entry["job"], entry.get("offer")
        if job in numbers and offer is not None:
            offers.append(promise(offer, offer["option"], offer["at"], 0, offer["at"]))
    return tuple(promises), tuple(offers)


def _data(
    round_: Round, sections: Mapping[str, Mapping[str, Any]], numbers: Mapping[str, int]
) -> DataPlan:
    """Return what the sections of a plan say of data that the round has."""
    cluster = build_cluster(round_.cluster)
    regions = _numbers(cluster.names[cluster.levels.index(round_.geo.level)])
    models, datasets = _numbers(cluster.gpu_models), _numbers(d.name for d in round_.geo.datasets)
    reads, replicas = sections.get("reads", {}), sections.get("replicas", {})

    def changes(kind: str, time: str) -> tuple[tuple[int, int, int], ...]:
        return tuple(
            (datasets[one["dataset"]], regions[one["region"]], one[time])
            for one in replicas.get(kind, ())
            if one["dataset"] in datasets and one["region"] in regions
        )

    return DataPlan(
        homes={
            numbers[home["job"]]: (regions[home["region"]], models[home["gpu_model"]])
            for home in replicas.get("homes", ())
            if home["job"] in numbers and home["region"] in regions and home["gpu_model"] in models
        },
        creates=changes("creates", "ready"),
        drops=changes("drops", "at"),
        flows=tuple(
            Flow(
                datasets[flow["dataset"]],
                tuple(regions[region] for region in flow["path"]),
                flow["gib"],
                flow["start"],
                flow["end"],
            )
            for flow in sections.get("flows", {}).get("flows", ())
            if flow["dataset"] in datasets and all(region in regions for region in flow["path"])
        ),
        waits={
            numbers[one["job"]]: (regions[one["region"]], one["ready"])
            for one in reads.get("waiting", ())
            if one["job"] in numbers and one["region"] in regions
        },
    )


def _numbers(names: Any) -> dict[str, int]:
    return {name: at for at, name in enumerate(names)}
