"""The term `stranded` on plans whose fragmentation a person can work out."""

from __future__ import annotations

from typing import Any

import pytest

from placewright.instances import parse_round
from placewright.instances.checks.round import check_round
from placewright.instances.documents.plan import Plan
from placewright.instances.documents.round import Round
from placewright.instances.errors import InvalidInputError
from placewright.instances.presets import presets
from placewright.instances.verify import verify
from placewright.rounds import solve_round

Raw = dict[str, Any]
HOST: Raw = {"name": "h", "gpus": 2, "gpu_model": "A", "cpu": 0.008, "memory": "10Mi"}


def round_of(hosts: list[Raw], mix: list[Raw] | None, *jobs: Raw, **more: Any) -> Round:
    policy = {"terms": ["value", "stranded"], "mix": mix, **more.pop("policy", {})}
    round_ = Round.model_validate(
        {"cluster": {"hosts": hosts}, "jobs": jobs, "policy": policy, **more}
    )
    check_round(round_)
    return round_


def runs(name: str, group: Raw, host: str, *gpus: int) -> Raw:
    tasks = [{"host": host, "gpus": gpus}]
    return {
        "name": name,
        "options": [{"groups": [group]}],
        "running": {"tasks": tasks, "pinned": True},
    }


def stranded(round_: Round) -> int:
    """What is stranded if everything stays as it is."""
    decisions = [
        {"job": job.name, "decision": "keep", "option": 0, "tasks": job.running.tasks}
        if job.running
        else {"job": job.name, "decision": "wait"}
        for job in round_.jobs
    ]
    found = verify(round_, Plan.model_validate({"decisions": decisions}))
    assert found.violations == ()
    return found.terms["stranded"]


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ({"gpu": 1}, 400),  # the GPU with 400 left is too small
        ({"gpu": 0.4}, 0),
        ({"gpu": 0.401}, 400),
        ({"gpu": 2}, 1400),  # no room: all that is free
        ({"gpu": 1, "cpu": 0.005}, 1400),
        ({"gpu": 1, "cpu": 0.004, "memory": "9Mi"}, 400),
        ({"gpu": 1, "memory": "10Mi"}, 1400),
        ({"gpu": 0, "cpu": 0.001}, 1400),  # a task without a GPU uses none
        ({"gpu": 0.4, "gpu_models": ["B"]}, 1400),
        ({"gpu": 0.4, "weight": 7}, 0),
        ({"gpu": 2, "weight": 7}, 9800),
    ],
)
def test_what_a_kind_cannot_use_is_stranded(kind: Raw, expected: int) -> None:
    busy = runs("a", {"gpu": 0.6, "cpu": 0.004, "memory": "1Mi"}, "h", 1)
    other = {"name": "b", "gpus": 1, "gpu_model": "B", "healthy": False}
    assert stranded(round_of([HOST, other], [kind], busy)) == expected


def test_kinds_add_up_by_their_weights() -> None:
    busy = runs("a", {"gpu": 0.6}, "h", 1)
    mix = [{"gpu": 1, "weight": 3}, {"gpu": 2, "weight": 2}]
    assert stranded(round_of([HOST], mix, busy)) == 3 * 400 + 2 * 1400


def test_without_a_mix_the_tasks_of_all_jobs_count() -> None:
    """Of what runs the option that it runs, of what waits the first one; each task counts."""
    busy = runs("a", {"gpu": 0.6}, "h", 1)
    waits = {
        "name": "b",
        "options": [{"groups": [{"gpu": 1, "count": 3}]}, {"groups": [{"gpu": 2}]}],
    }
    assert stranded(round_of([HOST], None, busy, waits)) == 1 * 400 + 3 * 400


def test_hosts_and_gpus_where_nothing_arrives_do_not_count() -> None:
    hosts = [HOST, *({**HOST, "name": name} for name in ("r", "v", "g"))]
    reservations = [{"host": "r"}, {"host": "g", "gpus": [0]}]
    round_ = round_of(
        [*hosts, {**HOST, "name": "f", "healthy": False}],
        [{"gpu": 4}],
        reservations=reservations,
        policy={"terms": ["remaining", "value", "stranded"], "vacate": ["v"]},
    )
    assert stranded(round_) == 2000 + 1000


def test_a_certificate_with_another_value_is_refused() -> None:
    round_ = round_of([HOST], [{"gpu": 2}], runs("a", {"gpu": 0.6}, "h", 1))
    plan = solve_round(round_, isolation="none")
    assert verify(round_, plan).ok
    assert plan.certificate is not None
    value, last = plan.certificate.terms
    for change in (-1, 1):
        wrong = last.model_copy(update={"value": last.value + change})
        certificate = plan.certificate.model_copy(update={"terms": (value, wrong)})
        found = verify(round_, plan.model_copy(update={"certificate": certificate}))
        assert "certificate_value" in {violation.rule for violation in found.violations}


@pytest.mark.parametrize(
    ("policy", "path"),
    [
        ({"terms": ["value"], "mix": [{"gpu": 1}]}, "policy.mix"),
        ({"mix": [{"gpu": 0.001}, {"gpu": 1, "gpu_models": ["A", "X"]}]}, "gpu_models[1]: 'X'"),
        ({"mix": []}, "policy.mix"),
        ({"mix": [{"gpu": 1.5}]}, "policy.mix[0].gpu"),
        ({"mix": [{"gpu": 1, "weight": 0}]}, "policy.mix[0].weight"),
    ],
)
def test_a_mix_that_makes_no_sense_is_refused(policy: Raw, path: str) -> None:
    raw = {
        "apiVersion": "placewright/v1alpha2",
        "kind": "Round",
        "cluster": {"hosts": [HOST]},
        "policy": {"terms": ["value", "stranded"], **policy},
    }
    with pytest.raises(InvalidInputError, match="mix") as refused:
        parse_round(raw)
    assert path in str(refused.value)


def test_a_preset_leaves_the_mix_out() -> None:
    round_ = round_of([HOST], [{"gpu": 1}], runs("a", {"gpu": 0.6}, "h", 1))
    drained = presets.drain(round_, ["h"])
    check_round(drained)
    assert drained.policy.mix is None
