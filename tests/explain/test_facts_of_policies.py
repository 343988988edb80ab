"""Explanations under the other policies: bundled rounds, and random ones that are proven."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from random import Random

import pytest

from examples import examples
from fuzz.play import read
from fuzz.policy import TooManyPlansError
from placewright.explain.explain_job import explain_job
from placewright.explain.explanation import Verdict
from placewright.explain.facts.fact import FACTS
from placewright.instances.io.files import load_round
from placewright.rounds import solve_round

LIBRARY = Path(__file__).parents[2] / "instances" / "library"
JOBS = {
    ("kube-knots", "speech"): (
        "others_instead",
        "1 GPU per task",
        "job search starts (1 GPU, of the same priority)",
        "job vision starts (1 GPU, of the same priority)",
        "job backup starts (1 GPU, of the same priority)",
        "job encoding starts (1 GPU, of the same priority)",
    ),
    ("chronus-lost-host", "new"): (
        "not_now",
        "2 GPUs per task",
        "due 2h00 from now",
        "h[1-2] is away for good",
        "job train is promised its time (4 GPUs, of the same priority)",
        "job tune is promised its time (4 GPUs, of the same priority)",
    ),
    ("deadline-rising", "job"): (
        "not_until_hosts_are_back",
        "1 GPU per task",
        "1h00 of work",
        "due 1h20 from now",
        "h0 is away until 40m from now",
    ),
    ("hived", "second"): (
        "not_now",
        "1 GPU per task",
        "guaranteed jobs of tenant vc1 run in its cells: 1 host",
        "job train runs (4 GPUs, of the same priority, tenant vc1)",
    ),
}


@pytest.mark.parametrize(("name", "job"), JOBS)
def test_bundled_rounds(name: str, job: str) -> None:
    round_ = load_round(str(LIBRARY / f"{name}.yaml"))
    plan = solve_round(round_, isolation="none")
    found = explain_job(round_, plan, job, isolation="none")
    assert (str(found.verdict), *(fact.text for fact in found.conflict)) == JOBS[name, job]
    assert found.proof is not None
    assert found.proof.minimal
    assert found.proof.blocked is not None


@pytest.mark.nightly(after=1)
@pytest.mark.parametrize("policy", ["cells", "interleaving", "deadline", "geo", "stages"])
def test_conflicts_of_random_rounds_are_proven(policy: str) -> None:
    draw = import_module(f"fuzz.policies.{policy}").POLICY.draw
    proven = undecided = not_minimal = 0
    for seed in range(examples(day=5, nightly=15)):
        try:
            round_ = read(draw(Random(seed)))
        except TooManyPlansError:
            continue
        plan = solve_round(round_, isolation="none")
        started = FACTS[round_.policy.formulation].started(plan)
        for decision in plan.decisions:
            job = decision.job
            if decision.decision != "wait" or job in round_.invalid or job in started:
                continue
            found = explain_job(round_, plan, job, isolation="none")
            undecided += found.verdict is Verdict.UNDECIDED
            if found.proof is not None:
                assert found.proof.blocked is not None
                not_minimal += not found.proof.minimal
                proven += 1
    assert proven > examples(day=1, nightly=5)
    # Bounds of jobs without GPUs are loose there: some questions stay open, none is answered wrong.
    assert undecided + not_minimal <= (proven if policy == "deadline" else 1)


def test_a_guaranteed_job_may_start_in_a_cell_where_others_run_on() -> None:
    hosts = [{"name": f"h{i}", "parent": "r", "gpus": 1, "gpu_model": "A"} for i in range(3)]
    running = {"option": 0, "tasks": [{"host": "h0", "gpus": [0], "group": 0, "index": 0}]}
    levels = {"levels": ["rack"], "domains": [{"name": "r", "level": "rack"}]}
    round_ = read(
        {
            "cluster": {**levels, "hosts": hosts},
            "tenants": [{"name": "t", "cells": [{"level": "rack"}]}],
            "jobs": [
                {"name": "other", "options": [{"groups": [{"gpu": 1000}]}], "running": running},
                {"name": "mine", "tenant": "t", "options": [{"groups": [{"gpu": 3000}]}]},
            ],
            "policy": {"terms": ["value"]},
        }
    )
    found = explain_job(round_, None, "mine", corrections=3, isolation="none")
    assert [fact.text for fact in found.conflict] == ["3 GPUs per task"]
    assert found.corrections is not None
    assert [one.text for one in found.corrections.now] == ["ask 1 instead of 3 GPUs per task"]
