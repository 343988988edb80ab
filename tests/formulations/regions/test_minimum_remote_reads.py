"""Remote reads that no plan can save, beside all plans of tiny rounds and by hand."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np

from examples import examples
from placewright.formulations.replicas.heuristics.greedy import greedy_solution
from placewright.formulations.replicas.models.mip import NeighbourhoodMip, whole_problem
from placewright.formulations.replicas.models.relaxation import build_relaxation, solve_relaxation
from placewright.formulations.replicas.problem.compile import (
    aggregate_problem,
    compile_replicas,
    forced_replicas,
    homes_of_least_remote_reads,
    least_remote_reads,
    restrict_to_values,
)
from placewright.formulations.session import Session
from placewright.instances.documents.round import Round
from placewright.solver import InProcess
from tests.formulations.regions import geo_tiny, replicas_oracle

ROUNDS = examples(day=16, nightly=60)


def fresh() -> Session:
    return Session(InProcess().solve, deadline=time.monotonic() + 60.0)


def test_no_plan_reads_less_and_those_that_read_as_little_are_all_within() -> None:
    reached = smaller = 0
    for seed in range(3000, 3000 + ROUNDS):
        round_ = geo_tiny.replicas(seed)
        aggregate = aggregate_problem(compile_replicas(round_).wan)
        vectors = sorted(replicas_oracle.vectors(round_))
        least = least_remote_reads(aggregate)
        assert least <= min(reads for _, reads, *_ in vectors), seed
        least_reads = [plan for plan in vectors if plan[1] == least]
        if not least_reads:
            continue
        reached += 1
        part = restrict_to_values(aggregate, {"remote_reads": least})
        smaller += bool(
            (part.homes != aggregate.homes).any() or (part.local_only != aggregate.local_only).any()
        )
        overload, remote_reads, copies = least_reads[0][:3]
        held = {"overload": overload, "remote_reads": remote_reads}
        found = solve_relaxation(build_relaxation(part).arrays("copies", held), fresh())
        assert found is not None
        assert found.bound <= copies, seed
    assert reached > ROUNDS // 2
    assert smaller > ROUNDS // 4


def test_more_reads_than_the_least_leave_all_homes() -> None:
    aggregate = aggregate_problem(compile_replicas(geo_tiny.replicas(0)).wan)
    bare: dict[str, int] = {}
    for held in (bare, {"overload": 0}, {"remote_reads": least_remote_reads(aggregate) + 1}):
        part = restrict_to_values(aggregate, held)
        assert part.homes is aggregate.homes
        assert part.overload == held.get("overload", aggregate.overload)


def separate_regions(budget: int) -> Round:
    """Return a round of a job that reads data of both regions, and one that reads the west's."""
    regions = ("east", "west")
    links = [(source, target) for source in regions for target in regions if source != target]
    reads = {"both": {"e": 7, "w": 4}, "one": {"w": 3}}
    return Round.model_validate(
        {
            "cluster": {
                "levels": ["region"],
                "domains": [{"name": region, "level": "region"} for region in regions],
                "hosts": [
                    {"name": region[0], "parent": region, "gpus": 2, "gpu_model": "A"}
                    for region in regions
                ],
            },
            "jobs": [
                {
                    "name": job,
                    "options": [{"groups": [{"gpu": 1}]}],
                    "reads": [{"dataset": name, "gib": gib} for name, gib in data.items()],
                }
                for job, data in reads.items()
            ],
            "geo": {
                "datasets": [
                    {"name": region[0], "size": 10, "replicas": [region]} for region in regions
                ],
                "links": [
                    {"source": source, "target": target, "bandwidth": 1000, "budget": budget}
                    for source, target in links
                ],
            },
            "policy": {"formulation": "replicas"},
        }
    )


def test_who_reads_data_that_cannot_meet_runs_beside_the_larger_part() -> None:
    problem = compile_replicas(separate_regions(budget=9))
    homes, least = homes_of_least_remote_reads(problem)
    aggregate = aggregate_problem(problem.wan)
    assert least == least_remote_reads(aggregate) == 4
    assert homes[problem.job_class].tolist() == [[True, False], [False, True]]
    part = restrict_to_values(aggregate, {"remote_reads": 4})
    assert part.homes[aggregate.job_class].any(axis=2).tolist() == homes[problem.job_class].tolist()


def test_data_that_can_meet_is_not_read_from_afar() -> None:
    problem = compile_replicas(separate_regions(budget=10))
    homes, least = homes_of_least_remote_reads(problem)
    assert least == least_remote_reads(aggregate_problem(problem.wan)) == 0
    assert homes.all()


def test_without_an_only_way_more_is_read_from_afar() -> None:
    ways = others = 0
    for seed in range(3000, 3000 + ROUNDS):
        problem = compile_replicas(geo_tiny.replicas(seed))
        _, least = homes_of_least_remote_reads(problem)
        found = forced_replicas(problem)
        for group, region in np.argwhere(problem.may_hold):
            without = problem.may_hold.copy()
            without[group, region] = False
            _, more = homes_of_least_remote_reads(replace(problem, may_hold=without))
            if found[group, region]:
                ways += 1
                assert more > least, seed
            else:
                others += 1
                assert more == least, seed
    assert min(ways, others) > ROUNDS // 2


def test_a_part_without_needless_reads_has_no_columns_for_them() -> None:
    problem = compile_replicas(separate_regions(budget=9))
    columns = {}
    for least_reads in (False, True):
        part = replace(whole_problem(problem), least_reads=least_reads)
        columns[least_reads] = NeighbourhoodMip(
            problem, part, greedy_solution(problem), ()
        ).model.columns
    # Three reads in two regions may be remote, but three only where the replica cannot be.
    assert columns[False] - columns[True] == 3
