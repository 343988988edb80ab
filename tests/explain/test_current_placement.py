"""What runs now, as a plan for a round in which it is decided anew."""

from __future__ import annotations

from typing import Any

import pytest

from placewright.explain.audit import audit
from placewright.explain.current_placement import current_placement
from placewright.instances.documents.plan import DecisionKind
from placewright.instances.documents.round import Round
from placewright.instances.io.files import parse_round
from placewright.instances.verify import verify


def round_of(*jobs: dict[str, Any], hosts: list[dict[str, Any]] | None = None) -> Round:
    return parse_round(
        {
            "apiVersion": "placewright/v1alpha2",
            "kind": "Round",
            "cluster": {"hosts": hosts or [{"name": "h[0-1]", "gpus": 2, "gpu_model": "X"}]},
            "jobs": list(jobs),
        }
    )


def job(name: str, gpus: int, place: str | None = None, **running: Any) -> dict[str, Any]:
    made: dict[str, Any] = {"name": name, "options": [{"groups": [{"gpu": gpus}]}]}
    if place is not None:
        tasks = [{"host": place, "gpus": list(range(gpus))}]
        made["running"] = {"option": 0, "tasks": tasks, **running}
    return made


def test_what_runs_is_started_where_it_is_and_what_is_pinned_stays() -> None:
    round_ = round_of(job("a", 1, "h0"), job("b", 1, "h1", pinned=True), job("c", 2))
    decided, plan = current_placement(round_)
    assert [d.decision for d in plan.decisions] == [
        DecisionKind.START,
        DecisionKind.KEEP,
        DecisionKind.WAIT,
    ]
    assert [j.running is None for j in decided.jobs] == [True, False, True]
    assert verify(decided, plan).ok


def test_what_runs_on_a_host_that_takes_nothing_stays_there() -> None:
    hosts = [
        {"name": "h0", "gpus": 2, "gpu_model": "X", "healthy": False},
        {"name": "h1", "gpus": 2, "gpu_model": "X"},
    ]
    decided, plan = current_placement(round_of(job("a", 1, "h0"), job("b", 1, "h1"), hosts=hosts))
    assert [j.running is None for j in decided.jobs] == [False, True]
    assert decided.jobs[0].running is not None
    assert decided.jobs[0].running.pinned
    assert verify(decided, plan).ok


LICENCE = {"resource": "lic", "capacity": 1, "per": "job"}


@pytest.mark.parametrize(
    ("more", "of_cluster", "field"),
    [
        ({"tenants": [{"name": "t", "quota": {"gpu": 1}}]}, {}, {"tenant": "t"}),
        ({"caps": {"c": {"jobs": 1}}}, {}, {"caps": ["c"]}),
        ({}, {"pools": [LICENCE]}, {"uses": {"lic": 1}}),
    ],
)
def test_who_holds_some_of_what_is_exceeded_stays_where_it_is(
    more: dict[str, Any], of_cluster: dict[str, Any], field: dict[str, Any]
) -> None:
    jobs = [job("a", 1, "h0"), job("b", 1, "h1"), job("c", 1, "h2")]
    for one in jobs[:2]:
        (one["options"][0] if "uses" in field else one).update(field)
    round_ = Round.model_validate(
        {
            "cluster": {"hosts": [{"name": "h[0-2]", "gpus": 2, "gpu_model": "X"}], **of_cluster},
            "jobs": jobs,
            **more,
        }
    )
    decided, plan = current_placement(round_)
    assert [one.running is not None for one in decided.jobs] == [True, True, False]
    assert verify(decided, plan).ok


def test_the_bound_is_that_of_all_placements_of_what_runs_and_waits() -> None:
    decided, plan = current_placement(round_of(job("a", 1, "h0"), job("b", 1, "h1"), job("c", 2)))
    found = audit(decided, plan)
    assert (found.terms[0].value, found.terms[0].bound) == (2000, 4000)
    assert found.curve is not None
    assert found.curve.points[-1].moves == 1
