"""The term `contention` on plans whose loads a person can add up, and what its input must have."""

from __future__ import annotations

from typing import Any

import pytest

from placewright.instances.checks.round import check_round
from placewright.instances.documents.arrangement import Communication
from placewright.instances.documents.plan import Plan
from placewright.instances.documents.round import Round
from placewright.instances.errors import InvalidInputError
from placewright.instances.verify import verify

Raw = dict[str, Any]


def job(name: str, rate: int, *hosts: str, runs: bool = False) -> tuple[Raw, Raw]:
    """A job with a task of one GPU on each host, and its decision in the plan."""
    group = {"gpu": 1, "count": len(hosts), "communication": {"rate_mbps": rate}}
    tasks = [
        {"group": 0, "index": i, "host": host.split(":")[0], "gpus": [int(host.split(":")[1])]}
        for i, host in enumerate(hosts)
    ]
    asked: Raw = {"name": name, "options": [{"groups": [group]}]}
    if runs:
        asked["running"] = {"option": 0, "tasks": tasks}
    decision = {
        "job": name,
        "decision": "keep" if runs else "start",
        "option": 0,
        "tasks": tasks,
    }
    return asked, decision


def contention(*jobs: tuple[Raw, Raw], **cluster: Any) -> int:
    """The term in a plan that keeps and starts jobs on two blocks of two racks."""
    document: Raw = {
        "levels": ["block", "rack"],
        "domains": [
            {"name": "b0", "level": "block"},
            {"name": "b1", "level": "block"},
            *({"name": f"r{i}", "level": "rack", "parent": f"b{i // 2}"} for i in range(4)),
        ],
        "hosts": [
            {"name": f"h{i}", "parent": f"r{i // 2}", "gpus": 8, "gpu_model": "G"} for i in range(8)
        ],
        "links": {"rack": {"bandwidth_mbps": 100, "latency_us": 1.0}},
        **cluster,
    }
    round_ = Round.model_validate(
        {
            "cluster": document,
            "jobs": [asked for asked, _ in jobs],
            "policy": {"terms": ["value", "contention"]},
        }
    )
    check_round(round_)
    plan = Plan.model_validate({"decisions": [decision for _, decision in jobs]})
    return verify(round_, plan).terms["contention"]


def test_a_link_carries_the_rates_of_all_groups_that_cross_it() -> None:
    """r0 carries 70 + 60, r1 70 and r2 60: only r0 has more than 100."""
    assert contention(job("a", 70, "h0:0", "h2:0"), job("b", 60, "h1:0", "h4:0")) == 30


def test_a_group_within_a_domain_does_not_cross_its_link() -> None:
    assert contention(job("a", 900, "h0:0", "h1:0", "h0:1")) == 0
    assert contention(job("a", 900, "h0:0")) == 0


def test_what_kept_jobs_exceed_alone_does_not_count() -> None:
    """Both racks have 150 of the kept job: 50 too much; the other one adds 20 to each."""
    kept = job("k", 150, "h0:0", "h2:0", runs=True)
    assert contention(kept) == 0
    assert contention(kept, job("a", 20, "h1:0", "h3:0")) == 40


def test_links_of_all_levels_count() -> None:
    links = {
        level: {"bandwidth_mbps": mbps, "latency_us": 1.0}
        for level, mbps in (("block", 30), ("rack", 40), ("host", 45))
    }
    far = job("a", 50, "h0:0", "h4:0")
    assert contention(far, links=links) == 2 * (20 + 10 + 5)
    wan = [{"between": ["b0", "b1"], "bandwidth_mbps": 1, "latency_us": 1.0}]
    assert contention(far, links=links, wan=wan) == 2 * (10 + 5)


def test_hosts_with_nics_have_no_link_of_their_own() -> None:
    hosts = [
        {
            "name": f"h{i}",
            "parent": f"r{i // 2}",
            "model": "dgx-a100" if i else None,
            **({} if i else {"gpus": 8, "gpu_model": "G"}),
        }
        for i in range(8)
    ]
    links = {"host": {"bandwidth_mbps": 45, "latency_us": 1.0}}
    assert contention(job("a", 50, "h0:0", "h4:0"), hosts=hosts, links=links) == 5


def test_the_term_needs_links_and_a_communication_something_to_say() -> None:
    with pytest.raises(InvalidInputError, match="missing; expected links"):
        contention(job("a", 50, "h0:0"), links={})
    with pytest.raises(ValueError, match="expected data_mib, rate_mbps or both"):
        Communication()
