"""The bundled rounds of regions have the answers that their comments state."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

import pytest

from placewright import instances, solve_round
from placewright.instances.documents.plan import DecisionKind, Plan, Reason
from placewright.instances.documents.plan_data import FlowSection, ReadsSection, ReplicaSection
from placewright.instances.documents.round import Round
from placewright.instances.io.files import load_round
from placewright.instances.verify import verify
from tests.formulations.regions import geo_oracle, replicas_oracle

Section = TypeVar("Section", FlowSection, ReadsSection, ReplicaSection)
LIBRARY = Path(instances.__file__).parent / "library"
REPLICAS = {"overload": 0, "remote_reads": 0, "copies": 10, "imbalance": 1, "hottest": 1000}
ACME = {"overload": 0, "remote_reads": 0, "copies": 54}
ROBUS = {"overload": 0, "remote_reads": 1, "copies": 10}
REGIONS = {
    "value": 24_000,
    "remote_reads": 100,
    "egress_cost": 1_000_000,
    "gpu_cost": 52_000_000,
}

BY_CLASS = {"value_1": 4000, "value_2": 8000, "value_3": 0, "remote_reads": 100}


def load(name: str) -> Round:
    return load_round(LIBRARY / f"{name}.yaml")


def section_of(plan: Plan, kind: type[Section]) -> Section:
    found = [one for one in plan.sections if one["kind"] == kind.model_fields["kind"].default]
    assert len(found) == 1
    return kind.model_validate(found[0])


@pytest.fixture(scope="module")
def moved() -> Plan:
    return solve_round(load("mast-replicas"), deterministic=True)


@pytest.fixture(scope="module")
def placed() -> Plan:
    return solve_round(load("mast-regions"), deterministic=True)


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("mast-replicas", REPLICAS),
        ("acme-models", ACME),
        ("robus", ROBUS),
        ("mast-regions", REGIONS),
        ("strict-priority-regions", BY_CLASS),
    ],
)
def test_the_file_states_its_answer(name: str, answer: dict[str, int]) -> None:
    stated = ", ".join(f"{term} {value}" for term, value in answer.items())
    assert f"# Answer: {stated}" in (LIBRARY / f"{name}.yaml").read_text().splitlines()


@pytest.mark.parametrize(
    ("name", "answer"), [("mast-replicas", REPLICAS), ("acme-models", ACME), ("robus", ROBUS)]
)
def test_no_layout_of_data_beats_the_stated_answer(name: str, answer: dict[str, int]) -> None:
    best = min(replicas_oracle.vectors(load(name)))
    assert best[: len(answer)] == tuple(answer.values())


@pytest.mark.parametrize(("name", "answer"), [("acme-models", ACME), ("robus", ROBUS)])
def test_models_and_views_are_where_the_comments_tell(name: str, answer: dict[str, int]) -> None:
    plan = solve_round(load(name), deterministic=True)
    checked = verify(load(name), plan)
    assert checked.ok
    assert checked.terms == answer
    placed = section_of(plan, ReplicaSection)
    copied = {(one.dataset, one.region) for one in placed.creates}
    homes = {one.job: one.region for one in placed.homes}
    if name == "robus":
        assert copied == {("A", "cache")}
    else:
        assert homes["trial-0"] == homes["trial-2"] != homes["trial-1"] == homes["trial-3"]
        assert copied == {("model-7b", homes["trial-0"]), ("model-20b", homes["trial-1"])}


def test_no_choice_of_regions_beats_the_stated_answer() -> None:
    found = geo_oracle.vectors(load("mast-regions"))
    value, *costs = REGIONS.values()
    assert min((-v, *rest) for v, *rest in found) == (-value, *costs)


def test_the_highest_class_chooses_its_region_first() -> None:
    round_ = load("strict-priority-regions")
    plan = solve_round(round_, deterministic=True)
    checked = verify(round_, plan)
    assert checked.ok, checked.violations
    assert dict(checked.terms) == BY_CLASS
    assert plan.certificate.status == "optimal"
    hosts = {d.job: {task.host for task in d.tasks} for d in plan.decisions if d.tasks}
    assert hosts == {"urgent": {"e0"}, "train": {"w0"}}
    *values, reads = BY_CLASS.values()
    found = {(*vector[:3], -vector[3]) for vector in geo_oracle.vectors(round_)}
    assert max(found) == (*values, -reads)


def test_the_data_is_moved_as_stated(moved: Plan) -> None:
    checked = verify(load("mast-replicas"), moved)
    assert checked.ok, checked.violations
    assert dict(checked.terms) == REPLICAS
    assert moved.certificate.status == "optimal"
    section = section_of(moved, ReplicaSection)
    assert [(one.dataset, one.region) for one in section.creates] == [("web", "west")]
    assert not section.drops
    homes = {home.job: home.region for home in section.homes}
    assert homes == {"clinic": "east", "eval": "east", "train": "west"}


def test_the_copy_is_split_over_two_paths_since_no_link_has_the_budget(moved: Plan) -> None:
    section = section_of(moved, FlowSection)
    gib = {"-".join(flow.path): 0 for flow in section.flows}
    for flow in section.flows:
        gib["-".join(flow.path)] += flow.gib
    assert gib.keys() == {"east-west", "east-north-west"}
    assert sum(gib.values()) == 10
    assert gib["east-west"] in (5, 6)


def test_jobs_are_placed_as_stated(placed: Plan) -> None:
    checked = verify(load("mast-regions"), placed)
    assert checked.ok, checked.violations
    assert dict(checked.terms) == REGIONS
    assert placed.certificate.terms[0].gap == 0
    started = {d.job: d.tasks[0].host for d in placed.decisions if d.decision is DecisionKind.START}
    assert {job: host[0] for job, host in started.items()} == {
        "clinic": "e",
        "train": "w",
        "tune": "e",
        "eval": "w",
    }
    section = section_of(placed, ReadsSection)
    assert [(r.job, [(s.dataset, s.source) for s in r.reads]) for r in section.readers] == [
        ("train", [("web", "north")])
    ]


def test_the_job_whose_data_is_on_the_way_waits_for_it(placed: Plan) -> None:
    reasons = {d.job: d.reason for d in placed.decisions if d.decision is DecisionKind.WAIT}
    assert reasons == {"nightly": Reason.DATA}
    section = section_of(placed, ReadsSection)
    assert [(one.job, one.region, one.ready) for one in section.waiting] == [
        ("nightly", "west", 3600)
    ]
