"""Pools as facts: what they have, that they bind, and the least by which one is raised."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from racks_with_pools import POWER, round_of

from placewright.explain.explain_job import explain_job
from placewright.explain.explanation import Verdict

Raw = dict[str, Any]


def job(name: str, power: int, count: int = 1, on: Sequence[str] = (), **option: Any) -> Raw:
    group = {"count": count, "gpu": 8, "resources": {"power_w": power}}
    entry: Raw = {"name": name, "options": [{"groups": [group], **option}]}
    if on:
        tasks = [{"host": h, "index": i, "gpus": list(range(8))} for i, h in enumerate(on)]
        entry["running"] = {"tasks": tasks}
    return entry


def test_a_job_that_no_pool_has_enough_for_can_never_run_within_them() -> None:
    found = explain_job(round_of(job("new", 13_000)), None, "new", isolation="none")
    assert found.verdict is Verdict.NEVER_WITHIN_RULES
    assert [fact.text for fact in found.conflict] == [
        "13,000 of power_w per task",
        "each rack has 12,000 of power_w (r1 9,000) for all jobs together",
    ]
    assert found.proof is not None
    assert found.proof.minimal


def test_who_holds_a_pool_is_in_the_way_though_hosts_are_free() -> None:
    running = [job("one", 5000, 2, ("a0", "a1")), job("other", 4000, 2, ("b0", "b1"))]
    found = explain_job(round_of(*running, job("new", 3000)), None, "new", isolation="none")
    assert found.verdict is Verdict.NOT_NOW
    assert [(fact.stratum.title, fact.kind) for fact in found.conflict] == [
        ("asks", "resource"),
        ("rules", "pool"),
        ("held", "jobs"),
        ("held", "jobs"),
    ]


def test_what_a_job_uses_is_a_fact_of_its_own() -> None:
    trees = {"resource": "trees", "capacity": 1, "per": "job"}
    found = explain_job(
        round_of(job("new", 0, uses={"trees": 2}), pools=[POWER, trees]),
        None,
        "new",
        isolation="none",
    )
    assert [fact.text for fact in found.conflict] == [
        "2 of trees wherever it has tasks",
        "the cluster has 1 of trees for all jobs with tasks there",
    ]


def test_the_least_by_which_a_pool_is_raised_is_told() -> None:
    running = [job("one", 5000, 2, ("a0", "a1")), job("other", 4000, 2, ("b0", "b1"))]
    everywhere = {"resource": "power_w", "capacity": 19_500}
    round_ = round_of(*running, job("new", 3000), pools=[POWER, everywhere])
    found = explain_job(round_, None, "new", corrections=9, isolation="none")
    assert found.corrections is not None
    raised = "raise power_w of the cluster from 19,500 to 21,000"
    told = {one.text for one in found.corrections.now if [str(w) for w in one.who] == ["admin"]}
    assert told == {
        f"raise power_w of rack r0 from 12,000 to 13,000, and {raised}",
        f"raise power_w of rack r1 from 9,000 to 11,000, and {raised}",
    }


def test_a_gang_that_may_be_in_several_domains_needs_more_of_each() -> None:
    trees = {"resource": "trees", "level": "rack", "capacity": 1, "per": "job"}
    power = {"resource": "power_w", "capacity": 10**6}
    gang = job("new", 0, 5, uses={"trees": 3})
    found = explain_job(
        round_of(gang, pools=[power, trees]), None, "new", corrections=5, isolation="none"
    )
    assert found.corrections is not None
    assert "raise trees of each rack by 2" in [one.text for one in found.corrections.now]


def test_places_are_counted_within_what_pools_have() -> None:
    everywhere = {"resource": "power_w", "capacity": 13_000}
    gang = job("new", 4000, 6)
    for pools, now, empty in (([POWER], 3, 5), ([POWER, everywhere], 1, 3), ([everywhere], 1, 3)):
        round_ = round_of(job("runs", 4000, 2, ("a0", "a1")), gang, pools=pools)
        (group,) = explain_job(round_, None, "new", isolation="none").places
        (place,) = group.places
        assert (place.now, place.empty) == (now, empty)


def test_hosts_where_a_pool_has_too_little_for_a_task_say_so() -> None:
    (group,) = explain_job(round_of(job("new", 13_000)), None, "new", isolation="none").places
    assert [lack for _, _, lack in group.unfit] == [{"resource": "pool"}]
