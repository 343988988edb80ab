"""Labels at levels that hold several regions, where regions decide side by side."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from formulation_parameters import set_parameters

from examples import by_day
from placewright import solve_round
from placewright.formulations.geo import parameters
from placewright.instances.documents.plan import DecisionKind
from placewright.instances.documents.round import Round
from placewright.instances.generators.geo import generate
from placewright.instances.io.files import parse_round
from placewright.instances.verify import verify

REGIONS = {"east": "here", "west": "here", "south": "there"}
WEIGHTS = [3, 9, 5, 7]


@pytest.fixture(autouse=True)
def _region_by_region(monkeypatch: pytest.MonkeyPatch) -> None:
    set_parameters(monkeypatch, parameters, max_monolithic_size=0, max_refined_size=0)


def fates(round_: Round) -> dict[str, set[str]]:
    """Return the regions of all jobs that start or move."""
    plan = solve_round(round_, time_limit=20.0, isolation="none")
    assert plan.certificate is not None
    assert plan.certificate.degraded == ()
    assert verify(round_, plan).ok
    return {
        d.job: {task.host.split("-")[0] for task in d.tasks}
        for d in plan.decisions
        if d.decision in (DecisionKind.START, DecisionKind.MIGRATE)
    }


def round_of(jobs: list[dict[str, Any]]) -> Round:
    """Three regions of one host of four GPUs each, two of them on one continent."""
    regions = [{"name": r, "level": "region", "parent": c} for r, c in REGIONS.items()]
    return parse_round(
        {
            "apiVersion": "placewright/v1alpha2",
            "kind": "Round",
            "cluster": {
                "levels": ["continent", "region"],
                "domains": [
                    *({"name": c, "level": "continent"} for c in ("here", "there")),
                    *regions,
                ],
                "hosts": [
                    {"name": f"{r}-0", "parent": r, "gpus": 4, "gpu_model": "A"} for r in REGIONS
                ],
            },
            "jobs": jobs,
            "policy": {"formulation": "geo"},
        }
    )


def job(name: str, **fields: Any) -> dict[str, Any]:
    return {
        "name": name,
        "options": [{"groups": [{"gpu": 1}]}],
        "anti_affinity": {"label": "one", "level": "continent"},
        **fields,
    }


def test_a_continent_gets_one_job_of_a_label_that_worth_most() -> None:
    jobs = [job(f"j{weight}", weight=weight) for weight in WEIGHTS]
    found = fates(round_of([*jobs, job("free", anti_affinity=None)]))
    assert sorted(found) == ["free", "j7", "j9"]
    assert ("south" in found["j9"]) != ("south" in found["j7"])


def test_where_a_job_of_the_label_runs_no_other_comes_to_its_continent() -> None:
    running = {"option": 0, "tasks": [{"group": 0, "index": 0, "host": "west-0", "gpus": [0]}]}
    jobs = [job("old", running=running), *(job(f"j{w}", weight=w) for w in WEIGHTS)]
    assert fates(round_of(jobs)) == {"j9": {"south"}}


@pytest.mark.parametrize("labels", [4, 30])
@pytest.mark.parametrize("seed", by_day(range(4)))
def test_plans_hold_where_labels_clash_already(seed: int, labels: int) -> None:
    round_ = generate(regions=6, datasets=20, jobs=120, gpus=360, policy="geo", seed=seed)
    drawn = round_.model_dump(mode="json", exclude_none=True, exclude_defaults=True)
    cluster, rng = drawn["cluster"], np.random.default_rng(seed)
    regions = [d for d in cluster["domains"] if d["level"] == cluster["levels"][0]]
    for i, region in enumerate(regions):
        region["parent"] = f"c{i % 2}"
    continents = [{"name": f"c{i}", "level": "continent"} for i in range(2)]
    cluster["domains"] = [*continents, *cluster["domains"]]
    cluster["levels"] = ["continent", *cluster["levels"]]
    for entry in drawn["jobs"]:
        if rng.random() < 0.4:
            label = f"l{rng.integers(labels)}"
            entry["anti_affinity"] = {"label": label, "level": "continent"}
    assert fates(parse_round(drawn))
