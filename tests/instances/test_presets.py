"""The presets: which policy they give a round, and what they change in it."""

from __future__ import annotations

from typing import Any

import pytest

from placewright.instances import parse_round
from placewright.instances.checks.round import check_round
from placewright.instances.derived.arrays import build_cluster
from placewright.instances.documents.policy import Freeing
from placewright.instances.documents.round import Round
from placewright.instances.errors import InvalidInputError
from placewright.instances.generators.gang import generate_round
from placewright.instances.io.files import parse_cluster
from placewright.instances.presets import presets


def running(name: str, host: str, **more: Any) -> dict[str, Any]:
    groups = [{"gpu": 2}]
    return {
        "name": name,
        "weight": 3,
        "options": [{"groups": groups, "value": 50}, {"groups": groups}],
        "running": {"tasks": [{"host": host, "gpus": [0, 1]}], "restart_s": 30},
        **more,
    }


def pending(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "options": [{"groups": [{"count": 2, "gpu": 8}]}], **more}


ROUND = parse_round(
    {
        "apiVersion": "placewright/v1alpha2",
        "kind": "Round",
        "now": 1000,
        "cluster": {
            "levels": ["rack"],
            "domains": [{"name": "r0", "level": "rack"}],
            "hosts": [
                {"name": "h[08-12]", "parent": "r0", "gpus": 8, "gpu_model": "H100"},
                {"name": "x", "parent": "r0", "gpus": 4, "gpu_model": "H100"},
                {
                    "name": "y[1-3]",
                    "parent": "r0",
                    "gpus": 4,
                    "gpu_model": "H100",
                    "healthy": False,
                },
            ],
        },
        "tenants": [{"name": "t", "quota": {"gpu": 32}}],
        "jobs": [
            running("low", "h08", tenant="t"),
            pending("gang", priority=5, weight=2),
            running("pinned", "h10", priority=1),
            pending("other"),
            pending("worthless", weight=0),
        ],
        "reservations": [{"host": "x", "gpus": [3]}],
        "policy": {
            "terms": ["remaining", "freed", "value"],
            "vacate": ["x"],
            "freeing": {"gpu_worth_s": 7},
            "spread_weights": {"rack": 9},
        },
        "limits": {"time_s": 5},
    }
)


def unhealthy(round_: Round) -> list[tuple[str, bool]]:
    return [(entry.name, entry.healthy) for entry in round_.cluster.hosts]


def names(round_: Round) -> list[str]:
    return [job.name for job in round_.jobs]


def applied() -> list[Round]:
    return [
        presets.drain(ROUND, ["h09", "h[11-12]"]),
        presets.hot_swap(ROUND, ["h09", "h[11-12]"]),
        presets.defragment(ROUND, "rack", 600),
        presets.minimal_victims(ROUND, "gang"),
    ]


def test_a_drain_vacates_the_hosts_before_anything_else() -> None:
    drained = presets.drain(ROUND, ["h09", "h[11-12]"])
    assert drained.policy.vacate == ("h09", "h[11-12]")
    assert drained.policy.terms == ("remaining", "disruption", "value", "spread", "opened")
    assert drained.policy.freeing is None
    assert drained.model_copy(update={"policy": ROUND.policy}) == ROUND


def test_a_hot_swap_is_a_drain_of_hosts_marked_unhealthy() -> None:
    swapped = presets.hot_swap(ROUND, ["x"])
    assert unhealthy(swapped) == [("h[08-12]", True), ("x", False), ("y[1-3]", False)]
    assert swapped.policy == presets.drain(ROUND, ["x"]).policy
    assert swapped.jobs == ROUND.jobs


@pytest.mark.parametrize(
    ("failed", "parts"),
    [
        (["h08"], [("h08", False), ("h[09-12]", True)]),
        (["h09"], [("h08", True), ("h09", False), ("h[10-12]", True)]),
        (["h[09-11]"], [("h08", True), ("h[09-11]", False), ("h12", True)]),
        (["h12", "h11"], [("h[08-10]", True), ("h[11-12]", False)]),
        (["h[08-12]"], [("h[08-12]", False)]),
        (["h[08-09]", "h[09-10]"], [("h[08-10]", False), ("h[11-12]", True)]),
        (
            ["h11", "h09"],
            [("h08", True), ("h09", False), ("h10", True), ("h11", False), ("h12", True)],
        ),
    ],
)
def test_a_range_is_split_around_failed_hosts(
    failed: list[str], parts: list[tuple[str, bool]]
) -> None:
    swapped = presets.hot_swap(ROUND, failed)
    assert unhealthy(swapped) == [*parts, ("x", True), ("y[1-3]", False)]
    assert build_cluster(swapped.cluster).hosts == build_cluster(ROUND.cluster).hosts


def test_numbers_without_zeros_stay_without_them() -> None:
    hosts = [{"name": "h[8-101]", "gpus": 8, "gpu_model": "H100"}]
    round_ = Round(cluster=parse_cluster({"hosts": hosts}))
    swapped = presets.hot_swap(round_, ["h[9-99]"])
    assert unhealthy(swapped) == [("h8", True), ("h[9-99]", False), ("h[100-101]", True)]
    assert build_cluster(swapped.cluster).hosts == build_cluster(round_.cluster).hosts


def test_a_host_that_was_unhealthy_before_stays_as_it_is_written() -> None:
    assert presets.hot_swap(ROUND, ["y2"]).cluster == ROUND.cluster


def test_defragmenting_leaves_pending_jobs_out_and_pays_for_whole_domains() -> None:
    made = presets.defragment(ROUND, "rack", 600)
    assert names(made) == ["low", "pinned"]
    assert made.policy.terms == ("freed", "spread")
    assert made.policy.freeing == Freeing(level="rack", gpu_worth_s=600)
    assert not made.policy.vacate
    assert presets.defragment(ROUND, "host", 1).policy.freeing == Freeing(gpu_worth_s=1)


def test_minimal_victims_keeps_one_pending_job_and_counts_its_value_alone() -> None:
    made = presets.minimal_victims(ROUND, "gang")
    assert names(made) == ["low", "gang", "pinned"]
    assert made.policy.terms == ("value", "disruption", "spread")
    assert not made.policy.vacate
    assert made.policy.freeing is None
    low, gang, _ = made.jobs
    assert gang == ROUND.jobs[1]
    assert [low.value_of(option) for option in range(2)] == [0, 0]
    assert (low.priority, low.running, low.tenant) == (0, ROUND.jobs[0].running, "t")
    assert low.options[0].groups == ROUND.jobs[0].options[0].groups


def test_every_preset_keeps_what_is_not_its_business_and_makes_a_valid_round() -> None:
    for made in applied():
        check_round(made)
        assert parse_round(made.model_dump()) == made
        assert made.policy.spread_weights == {"rack": 9}
        assert (made.now, made.limits, made.tenants) == (1000, ROUND.limits, ROUND.tenants)
        assert made.reservations == ROUND.reservations


def test_presets_leave_the_given_round_alone_and_may_be_applied_one_after_the_other() -> None:
    before = ROUND.model_dump()
    swapped = presets.hot_swap(ROUND, ["h09"])
    check_round(presets.minimal_victims(presets.hot_swap(swapped, ["h[08-10]"]), "gang"))
    assert ROUND.model_dump() == before


def test_presets_apply_to_generated_rounds() -> None:
    round_ = generate_round(1024, 20, mix="tight", seed=1)
    waiting = next(job.name for job in round_.jobs if job.running is None)
    for made in (
        presets.drain(round_, ["b0-r0-h[0-3]"]),
        presets.hot_swap(round_, ["b0-r0-h[0-3]", "b0-r1-h7"]),
        presets.defragment(round_, "rack", 60),
        presets.minimal_victims(round_, waiting),
    ):
        check_round(made)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: presets.drain(ROUND, []), "hosts: []: expected at least one host"),
        (lambda: presets.drain(ROUND, "h08"), "hosts: 'h08': expected a list of hosts"),
        (lambda: presets.hot_swap(ROUND, "h08"), "hosts: 'h08': expected a list of hosts"),
        (lambda: presets.return_hosts(ROUND, "h08", 1), "hosts: 'h08': expected a list of hosts"),
        (lambda: presets.drain(ROUND, ["h08", "z"]), "hosts[1]: 'z': unknown host z; expected"),
        (lambda: presets.drain(ROUND, ["h8"]), "hosts[0]: 'h8': unknown host h8; expected hosts"),
        (lambda: presets.hot_swap(ROUND, []), "hosts: []: expected at least one host"),
        (lambda: presets.hot_swap(ROUND, ["h[10-13]"]), "hosts[0]: 'h[10-13]': unknown host h13;"),
        (lambda: presets.hot_swap(ROUND, ["h[12-10]"]), "hosts[0]: 'h[12-10]': range runs backw"),
        (lambda: presets.hot_swap(ROUND, ["h[0-99]"]), "hosts[0]: 'h[0-99]': stands for 100 hosts"),
        (
            lambda: presets.defragment(ROUND, "row", 1),
            "level: 'row': unknown level; expected host or rack",
        ),
        (lambda: presets.defragment(ROUND, "rack", 0), "gpu_worth_s: 0: expected at least 1"),
        (
            lambda: presets.defragment(ROUND, "rack", 10**7),
            "gpu_worth_s: 10000000: expected at most 1000000",
        ),
        (lambda: presets.minimal_victims(ROUND, "nobody"), "job: 'nobody': unknown job; expected"),
        (lambda: presets.minimal_victims(ROUND, "low"), "job: 'low': runs already; expected a"),
        (
            lambda: presets.minimal_victims(ROUND, "worthless"),
            "job: 'worthless': is worth nothing in any option; expected a job of some value",
        ),
    ],
)
def test_a_wrong_argument_of_a_preset_is_refused(make: Any, message: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        make()
    assert str(caught.value).startswith(message)
