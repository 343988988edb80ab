"""Repacking: every job once, on GPUs that hold it, and never on more than before."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest
from gang_parameters import set_parameters
from hypothesis import given
from hypothesis import strategies as st

from examples import by_day
from placewright.formulations.gang.heuristics.repacking import (
    Home,
    ShareTypes,
    recut_shares,
    repack_tasks,
)
from placewright.formulations.gang.heuristics.vector_packing import (
    NOWHERE,
    HostAssignment,
    Units,
    drop_excess,
    drop_waiting,
    reduce_excess,
)
from placewright.formulations.gang.models.aggregate.solve import (
    aggregate_models,
    bound_by_relaxation,
    collect_bounds,
)
from placewright.formulations.gang.placement.placement import Placement
from placewright.formulations.gang.problem.compile import compile_round
from placewright.formulations.gang.problem.problem import Problem
from placewright.formulations.session import Session
from placewright.instances.checks.round import check_round
from placewright.instances.documents.round import Round
from placewright.instances.generators.gang import generate_round
from placewright.instances.presets.presets import defragment
from placewright.rounds import solve_round
from placewright.solver import InProcess

Raw = dict[str, Any]
WHOLE = 1000
MILLI = (200, 300, 400, 500, 700, 800)


def session() -> Session:
    """A session that solves in this process."""
    return Session(InProcess().solve, deadline=time.monotonic() + 60.0)


def shared_round(seed: int, *, hosts: int = 5, fixed: bool = False, pending: int = 0) -> Round:
    """Hosts of one or two GPU models that are in use here and there; most tasks want a share.

    With `fixed` there are pinned jobs, gangs, reserved GPUs and a failed host as well. Of `pending`
    jobs one in four is a gang; without any the round is one to defragment.
    """
    rng = np.random.default_rng(seed)
    entries: list[Raw] = [
        {"name": f"h{i}", "gpus": int(rng.choice([2, 4])), "gpu_model": "AAB"[i % 3], "cpu": 0.012}
        for i in range(hosts)
    ]
    jobs: list[Raw] = []
    for entry in entries:
        cpu = 12
        for gpu in range(entry["gpus"]):
            left = WHOLE
            while rng.random() < 0.6:
                size = int(rng.choice([*MILLI, WHOLE]))
                cores = int(rng.integers(0, 4))
                if size > left or cores > cpu:
                    break
                left, cpu = left - size, cpu - cores
                group: Raw = {"gpu": f"{size}m", "cpu": f"{cores}m"}
                if rng.random() < 0.2:
                    group["gpu_models"] = [entry["gpu_model"]]
                task = {"host": entry["name"], "gpus": [gpu]}
                pinned = fixed and bool(rng.random() < 0.1)
                job = {"options": [{"groups": [group]}], "running": {"tasks": [task]}}
                job["running"] |= {"pinned": pinned, "migrate_cost": int(rng.integers(0, 3)) * 500}
                jobs.append({"name": f"job-{len(jobs)}", **job})
    if fixed:
        entries[0]["healthy"] = bool(rng.random() < 0.5)
        for entry in entries[:2]:
            entry["gpus"] += 1
        tasks = [
            {"index": i, "host": e["name"], "gpus": [e["gpus"] - 1]}
            for i, e in enumerate(entries[:2])
        ]
        gang = {"options": [{"groups": [{"gpu": 0.5, "count": 2}]}], "running": {"tasks": tasks}}
        jobs.append({"name": "gang", **gang})
    out = [{"host": f"h{hosts - 1}", "gpus": [0]}] if fixed and rng.random() < 0.5 else []
    for i in range(pending):
        group = {
            "gpu": f"{int(rng.choice([*MILLI, WHOLE, 2 * WHOLE]))}m",
            "cpu": f"{int(rng.integers(0, 4))}m",
        }
        group["count"] = int(rng.choice([1, 1, 1, 2]))
        weight, tenant = int(rng.integers(1, 3)), "t" if fixed and rng.random() < 0.5 else None
        options = [{"groups": [group]}]
        jobs.append({"name": f"new-{i}", "options": options, "weight": weight, "tenant": tenant})
    round_ = Round.model_validate(
        {
            "cluster": {"hosts": entries},
            "jobs": jobs,
            "reservations": out,
            "tenants": [{"name": "t", "quota": {"gpu": f"{2 * WHOLE}m"}}],
        }
    )
    check_round(round_)
    return round_ if pending else defragment(round_, "host", 20)


def shares_of(round_: Round) -> tuple[Problem, ShareTypes, dict[Home, list[int]]]:
    """The problem of a round, and the running shares of GPUs in it by where they are."""
    problem = compile_round(round_)
    gpus: dict[Home, list[int]] = {}
    shape_of = {}
    for job, running in problem.running.items():
        ((_, _, host, at),) = running.places
        group = problem.classes[running.job_class].choices[0].groups[0]
        if group.milli_gpu < WHOLE:
            gpus.setdefault((host, at), []).append(job)
            shape_of[job] = group.shape
    return problem, ShareTypes(problem, shape_of or {0: 0}), gpus


@pytest.mark.nightly(after=10)
@pytest.mark.parametrize("seed", range(40))
def test_bins_hold_every_share_once_and_need_no_more_gpus(seed: int) -> None:
    problem, shares, gpus = shares_of(shared_round(seed))
    jobs = sorted(job for on_gpu in gpus.values() for job in on_gpu)
    waiting = jobs[: len(jobs) // 3]
    known = {home: [j for j in on_gpu if j not in waiting] for home, on_gpu in gpus.items()}
    known = {home: on_gpu for home, on_gpu in known.items() if on_gpu}
    if not known:
        return
    bins = recut_shares(session(), shares, known, waiting, gpu_worth=20 * WHOLE) or []
    assert sorted(job for b in bins for job in b.jobs) == jobs
    assert len(bins) <= len(gpus)
    for b in bins:
        shapes = [
            problem.classes[problem.running[j].job_class].choices[0].groups[0].shape for j in b.jobs
        ]
        assert problem.shape_gpu[shapes].sum() <= WHOLE
        assert problem.shape_hosts[shapes].all(axis=0).any()
        assert all(job in known[b.home] for job in b.jobs[: b.stay]) if b.home else b.stay == 0


def test_a_share_moves_only_if_a_gpu_less_is_worth_that() -> None:
    task = {"options": [{"groups": [{"gpu": 0.4}]}]}
    jobs = [
        {"name": f"job-{i}", **task, "running": {"tasks": [{"host": "h", "gpus": [gpu]}]}}
        for i, gpu in enumerate([0, 0, 1, 2])
    ]
    _, shares, gpus = shares_of(
        Round.model_validate(
            {"cluster": {"hosts": [{"name": "h", "gpus": 3, "gpu_model": "A"}]}, "jobs": jobs}
        )
    )

    def bins(worth: int, enough: int = 0) -> list[tuple[int, int]]:
        found = recut_shares(session(), shares, gpus, [], gpu_worth=worth, available=enough) or []
        return sorted((len(b.jobs), b.stay) for b in found)

    assert bins(WHOLE) == [(2, 1), (2, 2)]
    assert bins(399) == bins(WHOLE, enough=3) == [(1, 1), (1, 1), (2, 2)]


@st.composite
def assignments(draw: st.DrawFn) -> tuple[Units, Any, Any, Any]:
    """Up to eight units on up to four hosts; some have homes, where others may have come."""
    hosts = draw(st.integers(2, 4))
    gpus = [draw(st.integers(1, 3)) for _ in range(hosts)]
    rows = []
    for _ in range(draw(st.integers(1, 8))):
        home = draw(st.integers(NOWHERE, hosts - 1))
        size = draw(st.sampled_from([1, 1, 1, 2]))
        kind = 0 if home != NOWHERE else draw(st.integers(0, 1))
        rows.append((size, draw(st.integers(0, 4)), home, draw(st.integers(0, 3)), kind))
    table = np.array(rows, dtype=np.int64)
    allowed = np.array([[True] * hosts, [draw(st.booleans()) for _ in range(hosts)]])
    has_running = np.array([draw(st.sampled_from([True, True, False])) for _ in rows])
    running_demand = np.where(
        has_running, np.array([draw(st.integers(0, d)) for _, d, _, _, _ in rows]), 0
    )
    value = np.where(has_running & (running_demand == table[:, 1]), 0, 1 + table[:, 3])
    units = Units(
        gpus=table[:, 0],
        demand=table[:, 1:2],
        home=np.where(has_running, table[:, 2], NOWHERE),
        move_cost=table[:, 3],
        value=value,
        running_demand=running_demand[:, None],
        has_running=has_running,
        allowed=allowed,
        host_set=table[:, 4],
    )
    capacity = np.array([[draw(st.integers(2, 8))] for _ in range(hosts)], dtype=np.int64)
    closed = np.array([draw(st.sampled_from([False, False, True])) for _ in range(hosts)])
    return units, capacity, np.array(gpus, dtype=np.int64), closed


def check_assignment(assignment: HostAssignment, capacity: Any, gpus: Any, closed: Any) -> bool:
    """Whether no host has an excess; check that GPUs and allowed hosts hold in any case."""
    units, host = assignment.units, assignment.host
    assigned = host != NOWHERE
    taken = np.bincount(host[assigned], weights=units.gpus[assigned], minlength=len(gpus))
    assert (taken <= gpus).all()
    assert units.allowed[units.host_set[assigned], host[assigned]].all()
    assert not closed[host[assigned]].any()
    demand = np.where(assignment.dropped[:, None], units.running_demand, units.demand)
    used = np.zeros_like(capacity)
    np.add.at(used, host[assigned], demand[assigned])
    return bool(assigned[units.has_running].all() and (used <= capacity).all())


@given(assignments())
def test_assignments_keep_to_gpus_and_those_without_excess_to_all_resources(
    drawn: tuple[Units, Any, Any, Any],
) -> None:
    units, capacity, gpus, closed = drawn
    assignment = HostAssignment(units, capacity, gpus, closed)
    without_excess = reduce_excess(assignment, session())
    assert without_excess == check_assignment(assignment, capacity, gpus, closed)
    while not without_excess and drop_waiting(assignment):
        without_excess = reduce_excess(assignment, session())
        assert without_excess == check_assignment(assignment, capacity, gpus, closed)
    assert not assignment.dropped[units.value == 0].any()


@given(assignments())
def test_hosts_that_dropped_jobs_have_no_excess(drawn: tuple[Units, Any, Any, Any]) -> None:
    units, capacity, gpus, closed = drawn
    assignment = HostAssignment(units, capacity, gpus, closed)
    drop_excess(assignment)
    check_assignment(assignment, capacity, gpus, closed)
    demand = np.where(assignment.dropped[:, None], units.running_demand, units.demand)
    used = np.zeros_like(capacity)
    assigned = assignment.host != NOWHERE
    np.add.at(used, assignment.host[assigned], demand[assigned])
    assert (used <= capacity).all()
    assert not assignment.dropped[units.value == 0].any()


def looking(monkeypatch: pytest.MonkeyPatch, looks: int) -> None:
    """Let time be up for good when a search has looked at the clock so often."""
    left = iter(range(looks))
    monkeypatch.setattr(Session, "expired", lambda *_: next(left, None) is None)


@pytest.mark.nightly(after=1)
@pytest.mark.parametrize("pending", [0, 8])
@pytest.mark.parametrize("fixed", [False, True])
@pytest.mark.parametrize("seed", by_day(range(2)))
def test_whenever_time_is_up_the_plan_is_valid_and_no_worse_than_the_greedy_one(
    monkeypatch: pytest.MonkeyPatch, seed: int, *, fixed: bool, pending: int
) -> None:
    round_ = shared_round(seed, fixed=fixed, pending=pending)
    greedy = solve_round(round_, isolation="none", time_limit=0.0).certificate
    set_parameters(monkeypatch, "run", max_exact_variables=0)
    for looks in (*range(0, 12, 2), 15, 20, 40):
        looking(monkeypatch, looks)
        found = solve_round(round_, isolation="none", time_limit=60.0).certificate
        assert found.degraded == ()
        assert found.terms[0].value >= greedy.terms[0].value


def test_when_time_is_up_those_start_that_exchanges_have_made_fit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # In each of four pairs of hosts what waits has a GPU on the first and cores on neither, until
    # the heavy job there changes places with a light one. A share keeps host patterns away.
    hosts = [
        {"name": f"h{i}", "gpus": 3 - i % 2, "gpu_model": f"M{i // 2}", "cpu": 0.012}
        for i in range(8)
    ]
    hosts.append({"name": "other", "gpus": 1, "gpu_model": "S"})
    jobs: list[Raw] = [running_job("share", {"gpu": 0.5}, "other", 0)]
    for pair in range(4):
        kind = {"gpu": f"{WHOLE}m", "gpu_models": [f"M{pair}"]}
        first, second = f"h{2 * pair}", f"h{2 * pair + 1}"
        jobs += [
            running_job(f"heavy-{pair}", {**kind, "cpu": 0.009}, first, 0),
            running_job(f"light-{pair}", {**kind, "cpu": 0.001}, first, 1),
            running_job(f"left-{pair}", {**kind, "cpu": 0.001}, second, 0),
            running_job(f"right-{pair}", {**kind, "cpu": 0.001}, second, 1),
            {"name": f"new-{pair}", "options": [{"groups": [{**kind, "cpu": 0.008}]}]},
        ]
    problem = compile_round(Round.model_validate({"cluster": {"hosts": hosts}, "jobs": jobs}))
    model = next(aggregate_models(problem, Placement(problem)))
    _, relaxed = collect_bounds(bound_by_relaxation(session(), *model, "value"))
    values = []
    for looks in range(20):
        looking(monkeypatch, looks)
        packed = repack_tasks(session(), model, relaxed, Placement(problem))
        values.append(0 if packed is None else packed.value // WHOLE)
    assert values == sorted(values)
    assert set(values) == {0, 1, 2, 3, 4}


def running_job(name: str, group: Raw, host: str, gpu: int) -> Raw:
    """A job of one task that runs on one GPU."""
    tasks = [{"host": host, "gpus": [gpu]}]
    return {"name": name, "options": [{"groups": [group]}], "running": {"tasks": tasks}}


@pytest.mark.nightly(after=1)
@pytest.mark.parametrize("pending", [0, 8])
@pytest.mark.parametrize("fixed", [False, True])
@pytest.mark.parametrize("seed", by_day(range(12), 3))
def test_a_plan_that_packs_anew_verifies_and_beats_no_optimum(
    monkeypatch: pytest.MonkeyPatch, seed: int, *, fixed: bool, pending: int
) -> None:
    round_ = shared_round(seed, fixed=fixed, pending=pending)
    best = solve_round(round_, isolation="none", time_limit=20.0).certificate.terms[0]
    set_parameters(monkeypatch, "run", max_exact_variables=0)
    plan = solve_round(round_, isolation="none", time_limit=20.0)
    assert plan.certificate.degraded == ()
    found = plan.certificate.terms[0]
    assert found.value <= best.value <= (found.bound or 0)


def test_what_moves_cost_is_in_the_bound_of_what_is_freed(monkeypatch: pytest.MonkeyPatch) -> None:
    set_parameters(monkeypatch, "run", max_exact_variables=0)
    task = {"options": [{"groups": [{"gpu": f"{WHOLE}m"}]}]}
    jobs = [
        {
            "name": f"job-{i}",
            **task,
            "running": {"tasks": [{"host": f"h{i}", "gpus": [0]}], "migrate_cost": cost},
        }
        for i, cost in enumerate([7000, 3000, 9000])
    ]
    hosts = [{"name": f"h{i}", "gpus": 2, "gpu_model": "A"} for i in range(3)]
    round_ = Round.model_validate({"cluster": {"hosts": hosts}, "jobs": jobs})
    (freed, _) = solve_round(defragment(round_, "host", 20), isolation="none").certificate.terms
    # Two tasks need one host of the three; half of another one is all that else could be free.
    assert freed.value == 2 * 20 * WHOLE - 3000 - WHOLE
    assert freed.bound == freed.value + (2 * 20 * WHOLE - 7000 - WHOLE) / 2


@pytest.mark.parametrize("gpus", by_day([64, 256]))
def test_domains_are_freed_where_jobs_hold_mig_slices_or_gpu_memory(gpus: int) -> None:
    round_ = defragment(generate_round(gpus, 0, mix="shared", seed=1), "rack", 3600)
    plan = solve_round(round_, time_limit=100.0, deterministic=True, isolation="none")
    assert plan.certificate is not None
    (freed, *_) = plan.certificate.terms
    assert freed.name == "freed"
    assert freed.value > 0
