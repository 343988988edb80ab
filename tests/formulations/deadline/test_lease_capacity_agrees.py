"""What the formulation says leases have, and jobs need, is what the verifier counts on its own."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fuzz.small_units import as_document
from placewright.formulations.deadline.problem.compile import (
    Admission,
    CapacityRows,
    compile_admission,
)
from placewright.instances.documents.plan import Plan
from placewright.instances.documents.round import Round
from placewright.instances.errors import InvalidInputError
from placewright.instances.io.files import parse_round
from placewright.instances.verify.reading import Reading, read
from placewright.instances.verify.rules.deadline.leases import (
    LeaseCapacity,
    LeaseProgress,
    first_usable,
    interval_minima,
    spans,
)

Raw = dict[str, Any]
MODELS = ("A100", "H100", "V100")
NOW, LENGTH, HORIZON = 1000, 100, 8

times = st.integers(NOW - 150, NOW + 1000)
allowed = st.none() | st.lists(st.sampled_from(MODELS), min_size=1, max_size=3, unique=True)


@st.composite
def rounds(draw: st.DrawFn) -> Round:
    """Rounds of three hosts or more, with all that changes what leases have."""
    hosts: list[Raw] = [
        {"name": f"h{i}", "gpus": 4, "gpu_model": MODELS[i % 3], "healthy": draw(st.booleans())}
        for i in range(draw(st.integers(3, 5)))
    ]
    free = {host["name"]: [0, 1, 2, 3] for host in hosts}
    jobs = [_job(draw, i, free) for i in range(draw(st.integers(1, 6)))]
    outages = [_outage(draw, hosts) for _ in range(draw(st.integers(0, 3)))]
    reservations = [
        {
            "host": draw(st.sampled_from(hosts))["name"],
            "gpus": draw(st.none() | st.lists(st.integers(0, 3), min_size=1, unique=True)),
        }
        for _ in range(draw(st.integers(0, 2)))
    ]
    raw = {
        "apiVersion": "placewright/v1alpha2",
        "kind": "Round",
        "now": NOW,
        "cluster": {"hosts": hosts},
        "tenants": [{"name": "t", "quota": {"gpu": draw(st.integers(0, 9000))}}],
        "jobs": jobs,
        "reservations": reservations,
        "leases": {"length_s": LENGTH, "horizon": HORIZON, "outages": outages},
        "policy": {"formulation": "deadline"},
    }
    try:
        return parse_round(as_document(raw))
    except InvalidInputError as error:
        assert "is away in the current lease" in str(error)
        return parse_round(as_document({**raw, "leases": {"length_s": LENGTH, "horizon": HORIZON}}))


def _outage(draw: st.DrawFn, hosts: list[Raw]) -> Raw:
    start, end = draw(st.none() | times), draw(st.none() | times)
    if start is not None and end is not None and end <= start:
        start, end = end, start + 1
    return {"host": draw(st.sampled_from(hosts))["name"], "start": start, "end": end}


def _job(draw: st.DrawFn, number: int, free: dict[str, list[int]]) -> Raw:
    options: list[Raw] = []
    for _ in range(draw(st.integers(1, 2))):
        groups = [
            {"gpu": 1000 * draw(st.integers(0, 2)), "count": draw(st.integers(1, 3))}
            for _ in range(draw(st.integers(1, 2)))
        ]
        for group in groups:
            if (models := draw(allowed)) is not None:
                group["gpu_models"] = models
        options.append({"groups": groups})
    job: Raw = {"name": f"j{number}", "options": options}
    if draw(st.booleans()):
        job["tenant"] = "t"
    tasks = _tasks(draw, options[0]["groups"], free) if draw(st.booleans()) else []
    if tasks:
        job["running"] = {"tasks": tasks, "pinned": draw(st.booleans())}
        for group in options[0]["groups"]:
            group.pop("gpu_models", None)
    if draw(st.booleans()):
        job["deadline"] = {"work_s": draw(st.integers(1, 600)), "paces": []}
        for _ in options:
            pace = {"speed": draw(st.integers(500, 2000)), "overhead_s": draw(st.integers(0, 20))}
            pace["spanning"] = draw(st.sampled_from([[], [[2, 900]], [[2, 950], [3, 1100]]]))
            job["deadline"]["paces"].append(pace)
        if draw(st.booleans()):
            job["deadline"]["due"] = [{"at": draw(times), "value": 5}]
        if not tasks and draw(st.booleans()):
            job["deadline"]["ready"] = draw(times)
    return job


def _tasks(draw: st.DrawFn, groups: list[Raw], free: dict[str, list[int]]) -> list[Raw]:
    """Take free GPUs for all tasks of an option; none if a task finds too few on its host."""
    tasks: list[Raw] = []
    for g, group in enumerate(groups):
        for index in range(group["count"]):
            host = draw(st.sampled_from(sorted(free)))
            gpus = [free[host].pop() for _ in range(min(group["gpu"] // 1000, len(free[host])))]
            if 1000 * len(gpus) < group["gpu"]:
                return []
            tasks.append({"group": g, "index": index, "host": host, "gpus": gpus})
    return tasks


def reading_of(round_: Round) -> Reading:
    """Read a plan that decides nothing."""
    return read(round_, Plan(decisions=()))


@given(round_=rounds())
def test_leases_have_as_much_for_the_formulation_as_for_the_verifier(round_: Round) -> None:
    asking = [job for job in round_.jobs if job.deadline is not None]
    rows = CapacityRows(round_, asking)
    pairs = [(job, option) for job in asking for option in range(len(job.options))]
    capacity = LeaseCapacity(reading_of(round_), pairs)
    demand = np.array([rows.demand(*pair) for pair in pairs]).reshape(len(pairs), rows.count)
    ours = [(*have, *asks) for have, asks in zip(rows.capacity(), demand.T, strict=True)]
    theirs = [
        (*have, *asks) for have, asks in zip(capacity.free, capacity.demand(pairs).T, strict=True)
    ]
    assert sorted(ours) == sorted(theirs)


@given(round_=rounds())
def test_alternatives_are_done_when_the_verifier_says(round_: Round) -> None:
    made = compile_admission(round_)
    admission = replace(made, steady=~made.fast).steady_only()
    pacing, problem = LeaseProgress(reading_of(round_)), admission.problem
    for alternative in range(problem.alternatives):
        job = round_.jobs[admission.jobs[problem.job[alternative]]]
        first, option = int(problem.first[alternative]), int(admission.option[alternative])
        assert first == first_usable(reading_of(round_), job, option)
        for begin in (first, int(problem.end[alternative] - problem.need[alternative])):
            leases = [(begin, begin + int(problem.need[alternative]))]
            done = admission.finish(alternative, np.arange(*leases[0]), None)
            assert pacing.finish(job, option, leases, placed=False) == done
            assert done <= admission.due[alternative].at
        later = [(begin + 1, begin + 1 + int(problem.need[alternative]))]
        late = pacing.finish(job, option, later, placed=False)
        assert (
            problem.end[alternative] == HORIZON
            or pinned(admission, alternative)
            or late > admission.due[alternative].at
        )


def pinned(admission: Admission, alternative: int) -> bool:
    """Whether an alternative is of a pinned job."""
    running = admission.round.jobs[admission.jobs[admission.problem.job[alternative]]].running
    return running is not None and running.pinned


@given(
    table=st.lists(st.lists(st.integers(0, 9), min_size=7, max_size=7), min_size=1, max_size=3),
    pairs=st.lists(st.tuples(st.integers(0, 6), st.integers(1, 7)), min_size=1, max_size=5),
)
def test_the_least_of_an_interval_is_its_minimum(
    table: list[list[int]], pairs: list[tuple[int, int]]
) -> None:
    intervals = [(first, min(7, first + length)) for first, length in pairs]
    found = interval_minima(np.array(table), spans([(one,) for one in intervals]))
    assert found.tolist() == [[min(row[a:b]) for row in table] for a, b in intervals]
