"""Cells that tenants own must be there, and what runs must be inside those that are bound."""

from __future__ import annotations

from typing import Any

import pytest

from placewright.instances import InvalidInputError
from placewright.instances.checks.round import check_round
from placewright.instances.derived.cell_trees import chains_of
from placewright.instances.documents.round import Round

Raw = dict[str, Any]
HOST = {"gpus": 4, "gpu_model": "A"}
RACKS = [
    {**HOST, "name": "a[0-1]", "parent": "r0"},
    {**HOST, "name": "b[0-1]", "parent": "r1"},
    {**HOST, "name": "c[0-2]", "parent": "r2", "gpu_model": "B"},
    {"name": "d0", "parent": "r0", "gpus": 0},
    {**HOST, "name": "e0", "parent": "r3", "gpu_model": "B"},
]


def round_of(*cells: Raw, bindings: Any = (), jobs: Any = (), hosts: Any = RACKS) -> Round:
    """One tenant with these cells, `team`, and another that owns nothing."""
    return Round.model_validate(
        {
            "cluster": {
                "levels": ["rack"],
                "domains": [{"name": f"r{r}", "level": "rack"} for r in range(4)],
                "hosts": hosts,
            },
            "tenants": [{"name": "team", "cells": cells}, {"name": "other"}],
            "bindings": bindings,
            "jobs": [{"name": f"j{i}", **job} for i, job in enumerate(jobs)],
        }
    )


def on(host: str, tenant: str | None = "team", **more: Any) -> Raw:
    running = {"tasks": [{"host": host, "gpus": [0]}]}
    options = [{"groups": [{"gpu": 1}]}]
    return {"tenant": tenant, "options": options, "running": running, **more}


A_RACK = {"level": "rack", "gpu_model": "A"}
A_HOST = {"level": "host", "gpu_model": "A"}
BOUND = {"tenant": "team", "cell": 0, "domain": "r0"}
LABEL = {"anti_affinity": {"label": "db", "level": "host"}}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            round_of({**A_RACK, "level": "row"}),
            "tenants[0].cells[0].level: 'row': unknown level; expected one of the cluster",
        ),
        (
            round_of({**A_RACK, "gpu_model": "C"}),
            "tenants[0].cells[0].gpu_model: 'C': unknown GPU model with GPUs; expected one of",
        ),
        (
            round_of({"level": "rack"}),
            "tenants[0].cells[0].gpu_model: missing; expected one of A, B",
        ),
        (
            round_of({**A_RACK, "within": "r9"}),
            "tenants[0].cells[0].within: 'r9': unknown domain; expected one of the cluster",
        ),
        (
            round_of({**A_RACK, "within": "a0"}),
            "tenants[0].cells[0].within: 'a0': lies inside a cell; expected a domain of level rack",
        ),
        (
            round_of({**A_RACK, "within": "r2"}),
            "tenants[0].cells[0]: no cells; expected hosts of the GPU model",
        ),
        (
            round_of({"level": "rack", "gpu_model": "B"}),
            "tenants[0].cells[0]: r2 has 3 of level host and r3 has 1; expected cells that are",
        ),
        (
            round_of(A_HOST, hosts=[*RACKS, {**HOST, "name": "f", "parent": "r3", "gpus": 2}]),
            "tenants[0].cells[0]: a0 has 4 of level GPU and f has 2; expected cells that are alike",
        ),
        (
            round_of({**A_RACK, "count": 2}, A_HOST),
            "tenants[0].cells[1].count: 1: with the cells of the tenants before, more than",
        ),
        (
            round_of(A_RACK, bindings=[{**BOUND, "tenant": "nobody"}]),
            "bindings[0].tenant: 'nobody': unknown tenant; expected",
        ),
        (
            round_of(A_RACK, bindings=[{**BOUND, "cell": 1}]),
            "bindings[0].cell: 1: expected an index of the tenant's cells, of which there are 1",
        ),
        (
            round_of(A_RACK, bindings=[{**BOUND, "domain": "r2"}]),
            "bindings[0].domain: 'r2': expected a domain of level rack in the chain of tenants[0]",
        ),
        (
            round_of(
                A_RACK, bindings=[BOUND, {**BOUND, "domain": "r1"}], jobs=[on("a0"), on("b0")]
            ),
            "bindings[1]: is one cell more than the tenant owns; expected at most 1",
        ),
        (
            round_of(
                A_RACK,
                A_HOST,
                bindings=[BOUND, {**BOUND, "cell": 1, "domain": "a0"}],
                jobs=[on("a0")],
            ),
            "bindings[1].domain: 'a0': host a0 is in two cells that are bound; expected one",
        ),
        (
            round_of(A_RACK, bindings=[BOUND], jobs=[on("b0")]),
            "jobs[0].running.tasks[0].host: 'b0': host b0 is in no cell that is bound to tenant",
        ),
        (
            round_of(
                A_RACK,
                bindings=[BOUND],
                jobs=[on("a0", **LABEL), on("b0", "other", **LABEL)],
            ),
            "jobs[0].anti_affinity.label: 'db': is the label of jobs outside the tenant's",
        ),
    ],
)
def test_cells_that_make_no_sense_are_refused_by_their_path(given, message):
    with pytest.raises(InvalidInputError) as error:
        check_round(given)
    assert str(error.value).startswith(message)


@pytest.mark.parametrize(
    "given",
    [
        round_of({**A_RACK, "count": 2}),
        round_of(A_RACK, {**A_HOST, "count": 2}),
        round_of(A_RACK, bindings=[BOUND], jobs=[on("a1"), on("b0", opportunistic=True)]),
        # Nothing runs there any more: a binding that is over does no harm.
        round_of(A_RACK, bindings=[BOUND, BOUND]),
        round_of({"level": "rack", "gpu_model": "B", "within": "r2"}),
        round_of({"level": "host", "gpu_model": "B", "count": 4}),
    ],
)
def test_cells_that_make_sense_are_accepted(given):
    check_round(given)


def test_a_domain_that_cells_are_within_is_no_part_of_the_chain_around_it():
    round_ = round_of(A_HOST, {**A_HOST, "within": "r0"}, {**A_RACK, "within": "r0"})
    chains = chains_of(round_.cluster, round_.tenants)
    assert chains[0, 0].names == (("b0", "b1"),)
    assert chains[0, 1] is chains[0, 2]
    assert chains[0, 1].names == (("a0", "a1"), ("r0",))
    assert chains[0, 1].shape.children == (2,)
