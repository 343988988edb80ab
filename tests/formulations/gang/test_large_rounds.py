"""Rounds of many tenants, tasks or labels: time does not grow with their square."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples import by_day
from placewright.formulations.gang.models.aggregate.solve import aggregate_models
from placewright.formulations.gang.models.host.model import build_host_model
from placewright.formulations.gang.placement.gang_tree import place_group
from placewright.formulations.gang.placement.greedy import fill_by_policy
from placewright.formulations.gang.placement.placement import Placement
from placewright.formulations.gang.problem.compile import compile_round
from placewright.instances.documents.round import Round

Raw = dict[str, Any]

LONG = 120.0
"""Seconds that nothing here takes by far, unless time grows with the square of the round."""


def rows_by_name(model: Any, name: str) -> int:
    """How many rows the blocks of a name have."""
    return sum(block.size for block in model.row_blocks if block.name == name)


@pytest.mark.nightly
@pytest.mark.parametrize("terms", by_day([["share", "value"], ["value"]]))
def test_a_tenant_per_job_is_no_square(terms: list[str]) -> None:
    number = 10_000
    tenants = [{"name": f"t{i}", "quota": {"gpu": 1}} for i in range(number)]
    jobs = [
        {"name": f"j{i}", "tenant": f"t{i}", "options": [{"groups": [{"gpu": 1}]}]}
        for i in range(number)
    ]
    hosts = [{"name": "h[0-9]", "gpus": 8, "gpu_model": "A"}]
    round_ = {"cluster": {"hosts": hosts}, "tenants": tenants, "jobs": jobs}
    problem = compile_round(Round.model_validate({**round_, "policy": {"terms": terms}}))
    began = time.process_time()
    placement = Placement(problem)
    fill_by_policy(placement)
    counts, _ = next(aggregate_models(problem, placement))
    cleared = Placement(problem, cleared=True)
    exact = build_host_model(problem, cleared, np.arange(10), problem.num_pending)
    assert time.process_time() - began < LONG
    assert sum(1 for _ in placement.started()) == 80
    for model in (counts.model, exact.model):
        assert rows_by_name(model, "quota") == number
    assert rows_by_name(counts.model, "share") == (number if "share" in terms else 0)


@pytest.mark.parametrize(
    ("terms", "required", "counted"),
    [(["value"], None, False), (["value", "spread"], None, True), (["value"], "rack", True)],
)
def test_gangs_are_counted_by_domain_where_it_matters(
    terms: list[str], required: str | None, counted: bool
) -> None:
    racks = range(50)
    cluster = {
        "levels": ["rack"],
        "domains": [{"name": f"r{r}", "level": "rack"} for r in racks],
        "hosts": [
            {"name": f"r{r}-[0-3]", "parent": f"r{r}", "gpus": 8, "gpu_model": "A"} for r in racks
        ],
        "pools": [{"resource": "power_w", "level": "rack", "capacity": 3}],
    }
    group = {"gpu": 8, "count": 2, "required": required, "resources": {"power_w": 1}}
    jobs = [{"name": f"j{i}", "options": [{"groups": [group]}]} for i in range(90)]
    round_ = {"cluster": cluster, "jobs": jobs, "policy": {"terms": terms}}
    problem = compile_round(Round.model_validate(round_))
    counts, _ = next(aggregate_models(problem, Placement(problem)))
    assert (len(counts.gangs.kind) >= len(racks)) is counted
    assert bool(rows_by_name(counts.model, "pool")) is counted


def test_a_gang_of_many_hosts_is_no_square() -> None:
    group = {"gpu": 8, "count": 50_000}
    hosts = [{"name": "h[00000-59999]", "gpus": 10, "gpu_model": "A"}]
    job = {"name": "j", "options": [{"groups": [group]}]}
    problem = compile_round(Round.model_validate({"cluster": {"hosts": hosts}, "jobs": [job]}))
    began = time.process_time()
    placement = Placement(problem)
    fill_by_policy(placement)
    assert time.process_time() - began < LONG
    assert sum(put.count for _, start in placement.started() for put in start.tasks) == 50_000


@given(
    st.lists(st.lists(st.integers(0, 4), min_size=1, max_size=4), min_size=1, max_size=4),
    st.integers(1, 12),
)
def test_a_group_goes_to_as_few_domains_as_best_fit_finds(
    racks: list[list[int]], count: int
) -> None:
    hosts = [
        {"name": f"r{r}h{h}", "parent": f"r{r}", "gpus": gpus, "gpu_model": "A" if gpus else None}
        for r, rack in enumerate(racks)
        for h, gpus in enumerate(rack)
    ]
    cluster = {
        "levels": ["rack"],
        "domains": [{"name": f"r{r}", "level": "rack"} for r in range(len(racks))],
        "hosts": hosts,
    }
    job = {"name": "j", "options": [{"groups": [{"gpu": 1, "count": count}]}]}
    problem = compile_round(Round.model_validate({"cluster": cluster, "jobs": [job]}))
    group = problem.classes[0].choices[0].groups[0]
    puts = place_group(Placement(problem), group, 0, np.ones(len(hosts), dtype=bool))
    if sum(map(sum, racks)) < count:
        assert puts is None
        return
    assert puts is not None
    # One after the other: the smallest that holds the rest, or else the largest.
    expected: list[int] = []
    left, open_ = count, [sum(rack) for rack in racks]
    while left:
        enough = [size for size in open_ if size >= left]
        size = min(enough) if enough else max(open_)
        open_.remove(size)
        expected.append(min(left, size))
        left -= expected[-1]
    rack_of = problem.cluster.domain[0]
    held = np.bincount([rack_of[put.host] for put in puts], weights=[put.count for put in puts])
    assert sorted(held[held > 0].astype(int).tolist()) == sorted(expected)
