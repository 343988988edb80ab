"""Rounds at which sums over a host, a class or a cluster say yes and the hosts say no."""

from __future__ import annotations

from typing import Any

import pytest
from gang_parameters import set_parameters

from placewright.instances.checks.round import check_round
from placewright.instances.documents.plan import TermResult
from placewright.instances.documents.round import Round
from placewright.instances.verify import verify
from placewright.rounds import solve_round

Raw = dict[str, Any]


@pytest.fixture(params=["exact", "counts"])
def model(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "counts":
        set_parameters(monkeypatch, "run", max_exact_variables=-1)
    return str(request.param)


def host(name: str, gpus: int, parent: str = "a", **more: Any) -> Raw:
    return {"name": name, "gpus": gpus, "gpu_model": "A", "parent": parent, **more}


def value(hosts: list[Raw], asked: list[Raw]) -> TermResult:
    """Solve a round of hosts in racks and jobs of one group; the first term of the plan."""
    racks = [{"name": rack, "level": "rack"} for rack in sorted({h["parent"] for h in hosts})]
    jobs = [{"name": f"job-{i}", "options": [{"groups": [group]}]} for i, group in enumerate(asked)]
    cluster = {"levels": ["rack"], "domains": racks, "hosts": hosts}
    round_ = Round.model_validate({"cluster": cluster, "jobs": jobs})
    check_round(round_)
    plan = solve_round(round_, gap=0.0, isolation="none")
    assert verify(round_, plan).ok
    assert plan.certificate is not None
    return plan.certificate.terms[0]


def test_three_shares_of_600_do_not_fit_two_gpus(model: str) -> None:
    term = value([host("h0", 2)], [{"gpu": 0.6}] * 3)
    assert (term.value, term.bound) == (1200, 1200)


def test_the_rest_of_two_gpus_does_not_fit_a_third_share(model: str) -> None:
    term = value([host("h0", 2)], [{"gpu": 0.7}, {"gpu": 0.7}, {"gpu": 0.5}])
    assert term.value == 1400
    assert term.bound is not None
    assert 1400 <= term.bound < 1900


def test_gpus_of_several_hosts_do_not_fit_one_task(model: str) -> None:
    term = value([host(f"h{i}", 3) for i in range(4)], [{"gpu": 2}] * 6)
    assert (term.value, term.bound) == (8000, 8000)


def test_a_task_of_8_and_one_of_4_for_the_same_host_are_not_both_placed(model: str) -> None:
    """Twelve GPUs are free and twelve asked; one host has eight, and only its model is allowed."""
    hosts = [host("h0", 8), host("h1", 4, "b", gpu_model="B")]
    term = value(hosts, [{"gpu": 8}, {"gpu": 4, "gpu_models": ["A"]}])
    assert (term.value, term.bound) == (8000, 8000)


def test_a_task_and_a_gang_for_the_same_rack_are_not_both_placed(model: str) -> None:
    """The gang of five needs the rack whose only host the task of eight needs."""
    hosts = [host("h0", 8), host("h1", 4, "b"), host("h2", 4, "c")]
    term = value(hosts, [{"gpu": 8}, {"gpu": 1, "count": 5, "required": "rack"}])
    assert term.value == 8000
    assert term.bound is not None
    assert term.bound >= 8000


def test_gangs_that_share_a_rack_are_counted_with_those_inside_it(model: str) -> None:
    hosts = [host("h0", 4), host("h1", 4), host("h2", 4, "b"), host("h3", 4, "c")]
    asked = [{"gpu": f"{gpu}m", "count": 2, "required": "rack"} for gpu in (4000, 3000)]
    term = value(hosts, asked)
    assert (term.value, term.bound) == (8000, 8000)


def test_gangs_of_other_resources_fit_beside_each_other(model: str) -> None:
    """Each host takes one task that wants its NIC and one that wants most of its cores."""
    hosts = [host(f"h{i}", 4, cpu=8, resources={"nic": 1}) for i in range(3)]
    asked = [
        {"gpu": 1, "count": 2, "required": "rack", **wants}
        for wants in ({"resources": {"nic": 1}}, {"cpu": 0.005})
    ]
    term = value(hosts, asked)
    assert (term.value, term.bound) == (4000, 4000)


@pytest.mark.parametrize(
    "backend",
    [
        "highs",
        "cp-sat",
        "cbc",
    ],
)
def test_a_backend_does_not_presolve_the_optimum_away(backend: str) -> None:
    """All jobs start and every pair of tasks finds a host to share: no task is apart."""
    menu = [
        {"groups": [{"gpu": 0.7, "count": 2}], "value": 700},
        {"groups": [{"gpu": 0.3}]},
    ]
    pair = [{"groups": [{"gpu": 0.3, "count": 2, "gpu_models": ["A"]}]}]
    jobs = [{"name": f"job-{i}", "options": o} for i, o in enumerate([menu, menu, pair, menu])]
    hosts = [{"name": "h[0-3]", "gpus": 4, "gpu_model": "A", "cpu": 0.008, "memory": "16Mi"}]
    policy = {"terms": ["value", "proximity"]}
    round_ = Round.model_validate({"cluster": {"hosts": hosts}, "jobs": jobs, "policy": policy})
    plan = solve_round(round_, backend=backend, isolation="none")
    assert plan.certificate is not None
    assert [term.value for term in plan.certificate.terms] == [2700, 0]
    assert plan.certificate.status == "optimal"
