"""Rules at the edge of what they allow, on rounds of two hosts."""

from __future__ import annotations

from typing import Any

import pytest

from placewright.instances.documents.plan import Plan
from placewright.instances.documents.round import Round
from placewright.instances.io.files import parse_round
from placewright.instances.verify import verify

Raw = dict[str, Any]


def started(job: str, option: int, *tasks: Raw) -> Raw:
    return {"job": job, "decision": "start", "option": option, "tasks": list(tasks)}


def small(*jobs: Raw, quota: dict[str, int] | None = None) -> Round:
    """Two hosts of two GPUs and 8 cores; every job belongs to one tenant."""
    return Round.model_validate(
        {
            "cluster": {"hosts": [{"name": "h[0-1]", "gpus": 2, "gpu_model": "T4", "cpu": 8}]},
            "tenants": [{"name": "red", "quota": quota or {}}],
            "jobs": [{"tenant": "red", **job} for job in jobs],
        }
    )


def rules_of(round_: Round, *decisions: Raw) -> list[str]:
    found = verify(round_, Plan.model_validate({"decisions": decisions}))
    return [violation.rule for violation in found.violations]


@pytest.mark.parametrize(("share", "rules"), [(700, []), (701, ["gpu_capacity"])])
def test_shares_fill_a_gpu_to_the_last_thousandth(share: int, rules: list[str]) -> None:
    round_ = small(
        {"name": "a", "options": [{"groups": [{"gpu": 0.3}]}]},
        {"name": "b", "options": [{"groups": [{"gpu": f"{share}m"}]}]},
    )
    place = {"host": "h1", "gpus": [1]}
    assert rules_of(round_, started("a", 0, place), started("b", 0, place)) == rules


@pytest.mark.parametrize(("limit", "rules"), [(6000, []), (5999, ["quota"])])
def test_a_quota_counts_every_task_of_a_group(limit: int, rules: list[str]) -> None:
    group = {"gpu": 0.5, "cpu": 3, "count": 2}
    round_ = small({"name": "a", "options": [{"groups": [group]}]}, quota={"cpu": f"{limit}m"})
    places = [{"index": index, "host": "h0", "gpus": [index]} for index in range(2)]
    assert rules_of(round_, started("a", 0, *places)) == rules


@pytest.mark.parametrize(("gpu", "rules"), [(0, []), (1, ["quota"])])
def test_beyond_its_quota_a_tenant_may_start_what_asks_nothing_of_it(
    gpu: int, rules: list[str]
) -> None:
    held = {"host": "h0", "gpus": [0]}
    running = {
        "name": "old",
        "options": [{"groups": [{"gpu": 1}]}],
        "running": {"tasks": [held]},
    }
    round_ = small(
        running, {"name": "new", "options": [{"groups": [{"gpu": f"{gpu}m"}]}]}, quota={"gpu": 0.5}
    )
    keep = {"job": "old", "decision": "keep", "option": 0, "tasks": [held]}
    new = started("new", 0, {"host": "h0", "gpus": [1] if gpu else []})
    assert rules_of(round_, keep, new) == rules


def test_a_kept_task_may_list_its_gpus_in_another_order() -> None:
    options = [{"groups": [{"gpu": 2}]}]
    held = {"host": "h0", "gpus": [0, 1]}
    round_ = small({"name": "a", "options": options, "running": {"tasks": [held]}})
    keep = {"job": "a", "decision": "keep", "option": 0, "tasks": [{**held, "gpus": [1, 0]}]}
    assert rules_of(round_, keep) == []


@pytest.mark.parametrize(("hosts", "rules"), [("00", []), ("01", ["required_level"])])
def test_required_level_host_means_one_host(hosts: str, rules: list[str]) -> None:
    group = {"gpu": 1, "count": 2, "required": "host"}
    places = [{"index": i, "host": f"h{host}", "gpus": [i]} for i, host in enumerate(hosts)]
    round_ = small({"name": "a", "options": [{"groups": [group]}]})
    assert rules_of(round_, started("a", 0, *places)) == rules


@pytest.mark.parametrize(("host", "rules"), [("plain", []), ("changed", ["gpus", "host_capacity"])])
def test_the_catalogue_fills_what_a_host_leaves_out(host: str, rules: list[str]) -> None:
    changed = {"name": "changed", "model": "dgx-a100", "gpus": 2, "cpu": 0.001}
    round_ = Round.model_validate(
        {
            "cluster": {"hosts": [{"name": "plain", "model": "dgx-a100"}, changed]},
            "jobs": [{"name": "a", "options": [{"groups": [{"gpu": 8, "cpu": 1}]}]}],
        }
    )
    place = {"host": host, "gpus": list(range(8))}
    assert rules_of(round_, started("a", 0, place)) == rules


def broken_by(decision: Raw, hosts: list[Raw], job: Raw, **more: Any) -> set[str]:
    head = {"apiVersion": "placewright/v1alpha2", "kind": "Round"}
    round_ = parse_round({**head, "cluster": {"hosts": hosts}, "jobs": [job], **more})
    plan = Plan.model_validate({"decisions": [{"job": job["name"], **decision}]})
    return {violation.rule for violation in verify(round_, plan).violations}


def test_a_host_has_nothing_of_what_it_does_not_name():
    asks = {"name": "j", "options": [{"groups": [{"gpu": 1, "resources": {"nic": 1}}]}]}
    start = {"decision": "start", "option": 0, "tasks": [{"host": "h", "gpus": [0]}]}
    assert broken_by(start, [{"name": "h", "gpus": 1, "gpu_model": "A"}], asks) == {"host_capacity"}


@pytest.mark.parametrize("healthy", [True, False])
def test_a_gang_on_a_failed_host_is_in_no_disruption_budget(healthy):
    hosts = [{"name": f"h{i}", "gpus": 1, "gpu_model": "A"} for i in range(2)]
    hosts[0]["healthy"] = healthy
    tasks = [{"index": i, "host": f"h{i}", "gpus": [0]} for i in range(2)]
    gang = {"options": [{"groups": [{"gpu": 1, "count": 2}]}], "running": {"tasks": tasks}}
    limits = {"policy": {"limits": {"disruption": {"preempted_jobs": 0}}}}
    broken = broken_by({"decision": "preempt"}, hosts, {"name": "g", **gang}, **limits)
    assert ("disruption_budget" in broken) is healthy
