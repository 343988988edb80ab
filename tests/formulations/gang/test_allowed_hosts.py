"""Tasks that name the hosts where they may be are there, and nowhere else."""

from __future__ import annotations

from typing import Any

import pytest
from gang_parameters import set_parameters

from placewright.instances.checks.round import check_round
from placewright.instances.documents.round import Round
from placewright.instances.verify import verify
from placewright.rounds import solve_round

Raw = dict[str, Any]
HOST = {"gpus": 4, "gpu_model": "A", "cpu": 0.016, "memory": "64Mi"}


def job(name: str, gpu: int, hosts: list[str] | None, **group: Any) -> Raw:
    return {"name": name, "options": [{"groups": [{"gpu": f"{gpu}m", "hosts": hosts, **group}]}]}


def round_of(jobs: list[Raw], **rest: Any) -> Round:
    hosts = [{**HOST, "name": "own-[0-1]"}, {**HOST, "name": "loan-[0-1]"}]
    round_ = Round.model_validate({"cluster": {"hosts": hosts}, "jobs": jobs, **rest})
    check_round(round_)
    return round_


def started(round_: Round) -> dict[str, set[str]]:
    plan = solve_round(round_, gap=0.0, isolation="none")
    assert verify(round_, plan).ok
    assert plan.certificate is not None
    assert plan.certificate.degraded == ()
    return {d.job: {t.host for t in d.tasks} for d in plan.decisions if d.tasks}


@pytest.mark.parametrize("cells", [6_000, -1])
@pytest.mark.parametrize("kinds", [64, 0])
def test_each_task_is_on_a_host_that_its_group_lists(
    monkeypatch: pytest.MonkeyPatch, cells: int, kinds: int
) -> None:
    set_parameters(monkeypatch, "run", max_exact_variables=cells)
    set_parameters(monkeypatch, "problem", max_host_kinds=kinds)
    set_parameters(monkeypatch, "neighbourhood", max_failures=2)
    jobs = [job(f"own-{i}", 2000, ["own-[0-1]"]) for i in range(5)]
    jobs += [job(f"loan-{i}", 2000, ["loan-0", "loan-1"]) for i in range(2)]
    jobs += [job("gang", 1000, ["own-1", "loan-1"], count=2), job("any", 1000, None)]
    places = started(round_of(jobs))
    for name, hosts in places.items():
        kind = name.split("-")[0]
        assert all(host.startswith(kind) for host in hosts) or kind in ("gang", "any")
    assert sum(name.startswith("own") for name in places) == 4
    assert {"loan-0", "loan-1", "gang", "any"} <= set(places)
    assert places["gang"] <= {"own-1", "loan-1"}


def test_a_job_whose_hosts_are_too_small_never_fits() -> None:
    plan = solve_round(round_of([job("wide", 4000, ["own-0"], count=2)]), isolation="none")
    assert plan.decisions[0].reason == "never_fits"


def test_a_running_job_may_stay_where_its_group_no_longer_allows_it() -> None:
    running = {"tasks": [{"host": "loan-0", "gpus": [0, 1]}]}
    stays = {**job("stays", 2000, ["own-0"]), "running": running}
    assert started(round_of([stays])) == {"stays": {"loan-0"}}
    leaves = round_of([stays], policy={"terms": ["remaining", "disruption"], "vacate": ["loan-0"]})
    assert started(leaves) == {"stays": {"own-0"}}
