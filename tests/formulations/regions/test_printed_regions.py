"""What the command line says of regions adds up to the terms that the verifier computes."""

from __future__ import annotations

import numpy as np
import pytest
from rich.console import Console

from placewright.cli.views.geo.chart import print_regions
from placewright.cli.views.geo.tables import print_data_of_round
from placewright.cli.views.tables import print_plan
from placewright.instances.documents.plan import Plan
from placewright.instances.documents.round import Round
from placewright.instances.verify import verify
from placewright.report.facts.regions import ChangeKind, RegionPlan, heat, region_plan_of
from placewright.rounds import solve_round
from tests.formulations.regions import geo_tiny

COSTS = ("value", "remote_reads", "egress_cost", "gpu_cost", "disruption")


def solved(round_: Round) -> tuple[Plan, RegionPlan]:
    """Solve a round, and print all that there is to print of it."""
    plan = solve_round(round_, time_limit=1.0)
    facts, before = region_plan_of(round_, plan), region_plan_of(round_, None)
    assert facts is not None
    assert before is not None
    for width in (35, 100):
        console = Console(width=width, highlight=False, markup=False)
        with console.capture() as capture:
            print_plan(console, round_, plan)
            print_regions(console, facts)
            print_regions(console, before)
            print_data_of_round(console, before)
        assert "GPUs by region" in capture.get()
    return plan, facts


@pytest.mark.nightly(after=4)
@pytest.mark.parametrize("seed", range(8))
def test_what_jobs_read_and_cost_by_region_is_what_all_of_them_do(seed):
    round_ = geo_tiny.geo(seed, terms=COSTS)
    plan, facts = solved(round_)
    terms = verify(round_, plan).terms
    assert facts.remote.sum() == terms["remote_reads"]
    assert sum(use.egress for use in facts.links.values()) == terms["egress_cost"]
    # Rounded down by region here.
    assert 0 <= terms["gpu_cost"] - facts.cost.sum() < len(facts.regions.names)


@pytest.mark.nightly(after=4)
@pytest.mark.parametrize("seed", range(8))
def test_what_is_copied_and_asked_by_region_is_what_all_of_them_do(seed):
    round_ = geo_tiny.replicas(seed)
    plan, facts = solved(round_)
    terms = verify(round_, plan).terms
    homeless = [
        job for job, place in zip(round_.jobs, facts.places, strict=True) if place.model is None
    ]
    read = sum(entry.gib for job in homeless for entry in job.reads)
    assert facts.remote.sum() + read == terms["remote_reads"]
    copies = (change for change in facts.changes if change.kind is not ChangeKind.DROPPED)
    assert sum(change.gib for change in copies) == terms["copies"]
    assert np.ceil(1000 * heat(facts.after, facts.regions.gpus)).max() == terms["hottest"]
