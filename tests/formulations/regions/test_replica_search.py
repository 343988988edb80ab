"""Policy `replicas` on rounds too large for the exact model, and what its search is made of."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from formulation_parameters import set_parameters
from replica_terms import term_values

from placewright.formulations.replicas import parameters, run
from placewright.formulations.replicas.heuristics.greedy import drop_idle_replicas, greedy_solution
from placewright.formulations.replicas.models.mip import is_small
from placewright.formulations.replicas.problem.compile import compile_replicas
from placewright.formulations.replicas.problem.problem import Solution
from placewright.instances.documents.plan import Plan, Reason
from placewright.instances.documents.round import Round
from placewright.instances.generators.geo import generate
from placewright.instances.verify import verify
from placewright.rounds import solve_round


@pytest.fixture(scope="module")
def drawn() -> Round:
    return generate(regions=4, datasets=24, jobs=120, gpus=800, seed=3)


@pytest.fixture
def brief(monkeypatch: pytest.MonkeyPatch, machine_code: None) -> None:
    """Search little, and prove nothing."""
    set_parameters(monkeypatch, parameters, max_sweeps=12, max_neighbourhoods=4)
    monkeypatch.setattr(run, "prove_bounds", lambda *_: iter(()))


def terms(plan: Plan) -> tuple[int, ...]:
    assert plan.certificate is not None
    assert plan.certificate.degraded == ()
    return tuple(term.value for term in plan.certificate.terms)


def section(plan: Plan, kind: str) -> dict[str, Any]:
    return next((s for s in plan.sections if s["kind"] == kind), {})


def test_the_search_improves_the_greedy_plan(drawn: Round, brief: None) -> None:
    assert not is_small(compile_replicas(drawn))
    first = solve_round(drawn, time_limit=0, isolation="none")
    plan = solve_round(drawn, time_limit=30, isolation="none", deterministic=True)
    assert verify(drawn, plan).ok
    assert terms(plan) < terms(first)
    assert {d.reason for d in plan.decisions} == {Reason.NOT_ASKED}


def test_a_plan_without_time_has_the_bounds_that_need_no_solver(drawn: Round) -> None:
    plan = solve_round(drawn, time_limit=0)
    assert plan.certificate is not None
    terms = plan.certificate.terms
    assert all(term.certified is not None and term.certified <= term.value for term in terms)


def test_a_lost_region_has_no_homes_and_the_plan_is_valid(drawn: Round, brief: None) -> None:
    region = drawn.geo.datasets[0].replicas[0]
    inside = {region}
    for domain in drawn.cluster.domains:
        if domain.parent in inside:
            inside.add(domain.name)
    hosts = tuple(
        host.model_copy(update={"healthy": host.parent not in inside})
        for host in drawn.cluster.hosts
    )
    links = tuple(k for k in drawn.geo.links if region not in (k.source, k.target))
    lost = drawn.model_copy(
        update={
            "cluster": drawn.cluster.model_copy(update={"hosts": hosts}),
            "geo": drawn.geo.model_copy(update={"links": links}),
        }
    )
    plan = solve_round(lost, time_limit=30, isolation="none", deterministic=True)
    assert verify(lost, plan).ok
    replicas = section(plan, "replicas")
    assert all(home["region"] != region for home in replicas["homes"])
    assert all(create["region"] != region for create in replicas["creates"])
    place_homeless_jobs = {home["job"] for home in replicas["homes"]}
    nowhere = {d.job for d in plan.decisions if d.reason is Reason.NO_REGION}
    assert nowhere
    assert nowhere | place_homeless_jobs == {job.name for job in lost.jobs}
    assert not nowhere & place_homeless_jobs


def test_datasets_with_the_same_readers_are_one_class(drawn: Round) -> None:
    datasets = drawn.geo.datasets
    twins = tuple(d.model_copy(update={"name": f"{d.name}-twin"}) for d in datasets)
    jobs = tuple(
        job.model_copy(
            update={
                "reads": job.reads
                + tuple(r.model_copy(update={"dataset": f"{r.dataset}-twin"}) for r in job.reads)
            }
        )
        for job in drawn.jobs
    )
    doubled = drawn.model_copy(
        update={"jobs": jobs, "geo": drawn.geo.model_copy(update={"datasets": datasets + twins})}
    )
    problem, before = compile_replicas(doubled), compile_replicas(drawn)
    assert problem.dataset_classes == before.dataset_classes
    assert problem.job_classes == before.job_classes
    assert (problem.size == 2 * before.size).all()
    assert (problem.dataset_class[: len(datasets)] == problem.dataset_class[len(datasets) :]).all()


def test_the_objective_of_a_solution_is_that_of_its_layout(drawn: Round) -> None:
    problem = compile_replicas(drawn)
    for solution in (greedy_solution(problem), greedy_solution(problem, copying=False)):
        exact = term_values(problem.wan, solution.layout(problem))
        assert solution.objective(problem) == (
            exact["overload"],
            exact["remote_reads"],
            exact["copies"],
        )
        after = term_values(problem.wan, drop_idle_replicas(problem, solution).layout(problem))
        assert after["imbalance"] <= exact["imbalance"]
        assert after | {"imbalance": 0} == exact | {"imbalance": 0}


def test_a_copy_that_nobody_needs_is_not_made(drawn: Round) -> None:
    problem = compile_replicas(drawn)
    solution = greedy_solution(problem, copying=False)
    everywhere = Solution(solution.jobs, np.ones_like(solution.replicas))
    trimmed = everywhere.without_idle_copies(problem)
    assert ((trimmed.replicas & ~problem.current) <= solution.local_reads(problem)).all()
    assert (trimmed.replicas >= problem.current).all() or (problem.storage < 2**50).any()


def test_without_any_gpu_or_any_replica_nobody_has_a_home(drawn: Round, brief: None) -> None:
    hosts = tuple(host.model_copy(update={"healthy": False}) for host in drawn.cluster.hosts)
    datasets = tuple(d.model_copy(update={"replicas": ()}) for d in drawn.geo.datasets)
    for change in (
        {"cluster": drawn.cluster.model_copy(update={"hosts": hosts})},
        {"geo": drawn.geo.model_copy(update={"datasets": datasets})},
    ):
        round_ = drawn.model_copy(update=change)
        plan = solve_round(round_, time_limit=20, isolation="none", deterministic=True)
        assert verify(round_, plan).ok
        assert terms(plan)[0] == 3 * sum(job.options[0].milli_gpu for job in drawn.jobs)
        assert {d.reason for d in plan.decisions} == {Reason.NO_REGION}


def test_jobs_that_ask_for_no_gpu_have_homes(drawn: Round, brief: None) -> None:
    jobs = []
    for number, job in enumerate(drawn.jobs):
        groups = tuple(
            group.model_copy(update={"gpu": 0, "cpu": 1} if number % 2 else {})
            for group in job.options[0].groups
        )
        option = job.options[0].model_copy(update={"groups": groups})
        jobs.append(job.model_copy(update={"options": (option,)}))
    round_ = drawn.model_copy(update={"jobs": tuple(jobs)})
    plan = solve_round(round_, time_limit=0, isolation="none")
    assert verify(round_, plan).ok
    assert len(section(plan, "replicas")["homes"]) == len(jobs)
