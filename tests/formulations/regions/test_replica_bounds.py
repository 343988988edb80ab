"""Bounds of the policy `replicas` that are known by hand."""

from __future__ import annotations

import time
from itertools import permutations
from typing import Any

import pytest

from placewright.formulations.plan_messages import Bound
from placewright.formulations.replicas.bounds.prove import (
    prove_bounds,
    relaxation_replicas,
    with_dataset_bounds,
)
from placewright.formulations.replicas.models import relaxation
from placewright.formulations.replicas.models.relaxation import build_relaxation, solve_relaxation
from placewright.formulations.replicas.problem.compile import (
    aggregate_problem,
    compile_replicas,
    restrict_to_values,
)
from placewright.formulations.replicas.problem.problem import DATA_SUM, Problem
from placewright.formulations.session import Session
from placewright.instances.documents.round import Round
from placewright.solver import InProcess

TERMS = ("overload", "remote_reads", "copies", "imbalance", "hottest")


def fresh() -> Session:
    return Session(InProcess().solve, deadline=time.monotonic() + 60.0)


def copies_bounds(problem: Problem, held: dict[str, int]) -> list[Bound]:
    return [bound for bound in prove_bounds(problem, fresh(), held) if bound.term == "copies"]


def test_a_dataset_whose_readers_exceed_every_region_costs_two_copies() -> None:
    # Five jobs of two GPUs read what lies where there are none, and no region has more than six.
    regions = ("a", "b", "c")
    group = {"count": 1, "gpu": 2}
    job = {"options": [{"groups": [group]}], "reads": [{"dataset": "d", "gib": 10}]}
    round_ = Round.model_validate(
        {
            "name": "two-copies",
            "now": 0,
            "cluster": {
                "levels": ["region"],
                "domains": [{"name": r, "level": "region"} for r in regions],
                "hosts": [
                    {"name": f"{r}{h}", "parent": r, "gpus": 2, "gpu_model": "A"}
                    for r in ("b", "c")
                    for h in range(3)
                ],
            },
            "jobs": [{"name": f"j{j}", **job} for j in range(5)],
            "geo": {
                "regions": [{"name": r} for r in regions],
                "links": [
                    {"source": s, "target": t, "bandwidth": 10**6, "budget": 100}
                    for s, t in permutations(regions, 2)
                ],
                "datasets": [{"name": "d", "size": 10, "replicas": ["a"]}],
            },
            "policy": {"formulation": "replicas"},
        }
    )
    held = {"overload": 0}
    aggregate = restrict_to_values(aggregate_problem(compile_replicas(round_).wan), held)
    alone = solve_relaxation(build_relaxation(aggregate).arrays(DATA_SUM, held), fresh())
    assert alone is not None
    assert alone.bound < 20
    aggregate = with_dataset_bounds(aggregate, held, fresh(), 1)
    assert aggregate.least.tolist() == [20]
    full = solve_relaxation(build_relaxation(aggregate).arrays(DATA_SUM, held), fresh())
    assert full is not None
    assert full.bound == 20


def two_regions(*, west: int = 2, remote: bool = True, **changes: Any) -> Round:
    """Four jobs of one GPU each read 10 GiB in the east, which has two GPUs."""
    hosts = [{"name": "e", "parent": "east", "gpus": 2, "gpu_model": "A"}]
    if west:
        hosts.append({"name": "w", "parent": "west", "gpus": west, "gpu_model": "A"})
    read = {"dataset": "d", "gib": 10, "remote": remote}
    geo: dict[str, Any] = {
        "datasets": [{"name": "d", "size": 10, "replicas": ["east"]}],
        "links": [{"source": "east", "target": "west", "bandwidth": 1000, "budget": 10}],
    }
    return Round.model_validate(
        {
            "cluster": {
                "levels": ["region"],
                "domains": [{"name": r, "level": "region"} for r in ("east", "west")],
                "hosts": hosts,
            },
            "jobs": [
                {"name": f"j{j}", "options": [{"groups": [{"gpu": 1}]}], "reads": [read]}
                for j in range(4)
            ],
            "geo": geo | changes,
            "policy": {"formulation": "replicas"},
        }
    )


def best(round_: Round, held: dict[str, int]) -> dict[str, float]:
    """Return the tightest bound of each term."""
    found = dict.fromkeys(TERMS, 0.0)
    for bound in prove_bounds(compile_replicas(round_), fresh(), held):
        assert all(held[name] == value for name, value in bound.holds)
        found[bound.term] = max(found[bound.term], bound.value)
    return found


PLAN = {"overload": 0, "remote_reads": 0, "copies": 20, "imbalance": 99, "hottest": 9999}


def test_a_copy_is_needed_where_half_of_the_jobs_must_move() -> None:
    found = best(two_regions(), PLAN)
    assert found == {
        "overload": 0,
        "remote_reads": 0,
        "copies": 10,
        "imbalance": 0,
        "hottest": 1000,
    }


@pytest.mark.parametrize(
    "changes",
    [
        {"regions": [{"name": "west", "storage": 9}]},
        {"links": [{"source": "east", "target": "west", "bandwidth": 1000, "budget": 9}]},
    ],
    ids=["storage", "budget"],
)
def test_without_capacity_for_a_copy_two_jobs_read_remotely(changes: dict[str, Any]) -> None:
    found = best(two_regions(**changes), PLAN | {"remote_reads": 40})
    assert found["remote_reads"] == 20
    # At 40 GiB of remote reads, all copies can be saved.
    assert found["copies"] == 0


@pytest.mark.parametrize("west", [0, 2], ids=["no supply", "no link"])
def test_where_data_cannot_move_its_readers_crowd(west: int) -> None:
    found = best(two_regions(west=west, links=[]), PLAN | {"overload": 9999})
    assert found["overload"] == 2000 + 1600
    assert found["hottest"] == 2000


def test_a_term_is_bounded_only_among_plans_as_good_before_it() -> None:
    # Whoever may be overloaded leaves all where it is.
    assert best(two_regions(), PLAN | {"overload": 3600})["copies"] == 0
    # One job may stay above 100 % at an overload of 1000; then one copy is still needed.
    assert best(two_regions(), PLAN | {"overload": 1000})["copies"] == 10


def test_a_region_that_the_least_overload_fills_gets_the_data_of_its_jobs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Ten GPUs in the east, twice ten in the west; 33 jobs, of which 24 have their data there."""
    round_ = two_regions(west=10, remote=False).model_dump(mode="json", exclude_unset=True)
    (east, west), job = round_["cluster"]["hosts"], round_["jobs"][0]
    round_["cluster"]["hosts"] = [east | {"gpus": 10}, west, west | {"name": "v", "gpu_model": "B"}]
    round_["jobs"] = [
        {**job, "name": f"j{j}"} if j < 24 else {**job, "name": f"j{j}", "reads": []}
        for j in range(33)
    ]
    for job in round_["jobs"][24:]:
        job["regions"] = ["east"]
    round_["geo"]["datasets"][0]["replicas"] = ["west"]
    round_["geo"]["links"] = [{"source": "west", "target": "east", "bandwidth": 1000}]
    crowded = Round.model_validate(round_)
    # Where one unit more is overloaded, 24 may be in the west.
    assert best(crowded, PLAN | {"overload": 4000})["copies"] == 0
    assert best(crowded, PLAN | {"overload": 3000})["copies"] == 10
    monkeypatch.setattr(relaxation, "_add_least_demand", lambda *_: None)
    assert best(crowded, PLAN | {"overload": 3000})["copies"] == 0


def test_local_reads_need_an_integer_replica() -> None:
    problem = compile_replicas(two_regions(remote=False, west=4))
    steps = copies_bounds(problem, PLAN)
    assert steps[1].value < 10
    assert steps[-1].value == 10
    assert all(step.certified for step in steps)


def test_half_a_replica_is_enough_for_half_of_what_its_region_has() -> None:
    # Four jobs read it where two have room: a half of it is enough for one, and two must move.
    step = copies_bounds(compile_replicas(two_regions(remote=False)), PLAN)[1]
    assert (step.value, step.certified) == (10, True)


def test_half_a_replica_is_no_more_for_those_who_could_read_remotely() -> None:
    # Half a copy would do for the two of four jobs that must move, if it did for half of them.
    held = {"overload": 0}
    aggregate = restrict_to_values(aggregate_problem(compile_replicas(two_regions()).wan), held)
    root = solve_relaxation(build_relaxation(aggregate).arrays(DATA_SUM, held), fresh())
    assert root is not None
    assert root.bound == 10


@pytest.mark.parametrize(("storage", "budget", "homes"), [(19, 20, 1), (20, 19, 1), (20, 20, 2)])
def test_no_home_where_the_data_of_a_job_does_not_fit(
    storage: int, budget: int, homes: int
) -> None:
    round_ = two_regions(remote=False).model_dump(mode="json", exclude_unset=True)
    second = {**round_["geo"]["datasets"][0], "name": "second"}
    round_["geo"]["datasets"].append(second)
    for job in round_["jobs"]:
        job["reads"].append({**job["reads"][0], "dataset": "second"})
    round_["geo"]["regions"] = [{"name": "west", "storage": storage}]
    round_["geo"]["links"][0]["budget"] = budget
    aggregate = aggregate_problem(compile_replicas(Round.model_validate(round_)).wan)
    assert aggregate.homes.any(axis=2).sum() == homes


def test_data_that_cannot_leave_where_it_is_comes_nowhere_not_even_by_halves() -> None:
    # Links into the west could take it, those out of the east could not.
    ends = (("east", "west", 5), ("east", "north", 4), ("north", "west", 5))
    links = [{"source": a, "target": b, "bandwidth": 1000, "budget": gib} for a, b, gib in ends]
    round_ = two_regions(links=links).model_dump(mode="json", exclude_unset=True)
    round_["cluster"]["domains"].append({"name": "north", "level": "region"})
    found = best(Round.model_validate(round_), PLAN | {"remote_reads": 20, "copies": 0})
    assert found["remote_reads"] == 20


def test_the_least_remote_reads_are_known_without_an_lp() -> None:
    links = [{"source": "east", "target": "west", "bandwidth": 1000, "budget": 9}]
    round_ = two_regions(links=links).model_dump(mode="json", exclude_unset=True)
    del round_["cluster"]["hosts"][0]
    problem = compile_replicas(Round.model_validate(round_))
    session = fresh()
    session.deadline = 0.0
    known = {bound.term: bound.value for bound in prove_bounds(problem, session, PLAN)}
    assert known["remote_reads"] == 40


def test_a_relaxation_has_fractional_replicas() -> None:
    held = {"overload": 0, "remote_reads": 0}
    found = relaxation_replicas(compile_replicas(two_regions()), fresh(), held, 1.0)
    assert found is not None
    assert found[0, 0] == pytest.approx(1.0, abs=1e-3)


@pytest.mark.parametrize(("picky", "overload"), [(2, 0), (3, 1000 + 600), (4, 2000 + 1600)])
def test_fractions_fit_onto_the_models_that_they_can_use(picky: int, overload: int) -> None:
    round_ = two_regions(west=0, links=[]).model_dump(mode="json", exclude_unset=True)
    round_["cluster"]["hosts"].append({"name": "f", "parent": "east", "gpus": 2, "gpu_model": "B"})
    for job in round_["jobs"][:picky]:
        job["options"][0]["groups"][0]["gpu_models"] = ["A"]
    found = best(Round.model_validate(round_), PLAN | {"overload": overload})
    assert found["overload"] == overload
