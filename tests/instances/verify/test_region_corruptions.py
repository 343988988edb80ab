"""Plans of jobs in regions: a valid one with its terms by hand, each corruption breaks its rule.

A has eight V100, B eight, C four A100, and the host of D is broken. Now is 1000.

near    starts in A, where x is; far in B, for which victim stops: it reads x from A, y is there
kept    runs in B without w, which may not be remote, and lost, which nobody has; x is read from A
moves   migrates in A
waits   waits for z, which comes to B at 2000; asks for w, which the plan copies to C by 1100
lone    waits, as nobody has lost; plain waits, as others were worth more
"""

from __future__ import annotations

import copy
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corrupting import (
    Corruption,
    Edit,
    Raw,
    assert_broken,
    both,
    broken_alone,
    decide,
    drop,
    nothing,
    rules_in,
    set_in,
    verified,
)
from placewright.instances.documents.plan import Plan
from placewright.instances.io.files import parse_round
from placewright.instances.verify import Verification, verify
from placewright.instances.verify.rules.geo.jobs import RULES_OF_READS, RULES_OF_REGIONS_OF_JOBS
from placewright.instances.verify.rules.geo.sections import RULES_OF_SECTIONS_OF_REGIONS


def job(name: str, gpus: int, *reads: tuple[str, int, bool], count: int = 1, **more: Any) -> Raw:
    wanted = [{"dataset": d, "gib": gib, "remote": remote} for d, gib, remote in reads]
    options = [{"groups": [{"gpu": gpus, "count": count}]}]
    return {"name": name, "options": options, "reads": wanted, **more}


def at(*places: tuple[str, list[int]]) -> list[Raw]:
    return [{"index": i, "host": host, "gpus": gpus} for i, (host, gpus) in enumerate(places)]


def link(source: str, target: str, bandwidth: int, **fields: int) -> Raw:
    return {"source": source, "target": target, "bandwidth": bandwidth, **fields}


CLUSTER: Raw = {
    "levels": ["zone", "region"],
    "domains": [
        {"name": "world", "level": "zone"},
        *({"name": region, "level": "region", "parent": "world"} for region in "ABCD"),
    ],
    "hosts": [
        {"name": "a[0-1]", "parent": "A", "gpus": 4, "gpu_model": "V100"},
        {"name": "b[0-1]", "parent": "B", "gpus": 4, "gpu_model": "V100"},
        {"name": "c0", "parent": "C", "gpus": 4, "gpu_model": "A100"},
        {"name": "d0", "parent": "D", "gpus": 4, "gpu_model": "V100", "healthy": False},
    ],
}
NEAR, FAR, KEPT, MOVES, WAITS, ASKS, LONE, VICTIM, PLAIN = range(9)
ROUND: Raw = {
    "apiVersion": "placewright/v1alpha2",
    "kind": "Round",
    "now": 1000,
    "cluster": CLUSTER,
    "tenants": [{"name": "t"}],
    "jobs": [
        job("near", 1, ("x", 9, False), count=2, regions=["A", "D"]),
        job("far", 2, ("x", 5, True), ("y", 4, True), tenant="t", priority=1, weight=5),
        job(
            "kept",
            1,
            ("w", 8, False),
            ("lost", 3, True),
            ("x", 2, True),
            tenant="t",
            running={"tasks": at(("b1", [0]))},
        ),
        job("moves", 1, running={"tasks": at(("a1", [0])), "migrate_cost": 7}),
        job("waits", 1, ("z", 6, False), ("x", 1, True), regions=["B", "D"]),
        job("asks", 4, ("w", 6, False), regions=["C"]),
        job("lone", 1, ("lost", 11, True)),
        job("victim", 4, running={"tasks": at(("b0", [0, 1, 2, 3])), "preempt_cost": 9}),
        job("plain", 1, tenant="t", regions=["A", "B"]),
    ],
    "geo": {
        "window_s": 3600,
        "regions": [
            {"name": "A", "prices": {"V100": 2001}},
            {"name": "B", "prices": {"V100": 1000, "A100": 5}, "quotas": {"t": 3}},
        ],
        "links": [
            link("A", "B", 10_000, egress=7),
            link("A", "C", 8000, budget=100),
            link("C", "B", 1000, egress=3),
            link("B", "C", 0),
        ],
        "datasets": [
            {"name": "w", "size": 40, "replicas": ["A"]},
            {"name": "x", "size": 20, "replicas": ["A"]},
            {"name": "y", "size": 50, "replicas": ["B"], "regions": ["A", "B"]},
            {"name": "z", "size": 30, "replicas": ["C"]},
            {"name": "lost", "size": 10},
        ],
        "copying": [
            {"dataset": "x", "region": "C", "ready": 1000},
            {"dataset": "z", "region": "B", "ready": 2000},
        ],
    },
    "policy": {
        "formulation": "geo",
        "terms": ["value", "remote_reads", "egress_cost", "gpu_cost", "disruption", "opened"],
    },
}


def placed(name: str, kind: str, *places: tuple[str, list[int]]) -> Raw:
    return {"job": name, "decision": kind, "option": 0, "tasks": at(*places)}


def wait(name: str, reason: str) -> Raw:
    return {"job": name, "decision": "wait", "reason": reason}


def reader(name: str, *reads: tuple[str, str]) -> Raw:
    return {"job": name, "reads": [{"dataset": d, "source": source} for d, source in reads]}


PLAN: Raw = {
    "decisions": [
        placed("near", "start", ("a0", [0]), ("a0", [1])),
        placed("far", "start", ("b0", [0, 1])),
        placed("kept", "keep", ("b1", [0])),
        placed("moves", "migrate", ("a0", [2])),
        wait("waits", "data"),
        wait("asks", "data"),
        wait("lone", "no_region"),
        {"job": "victim", "decision": "preempt", "displaced_by": "far"},
        wait("plain", "not_chosen"),
    ],
    "sections": [
        {
            "kind": "reads",
            "readers": [reader("far", ("x", "A")), reader("kept", ("x", "C"))],
            "waiting": [
                {"job": "waits", "region": "B", "ready": 2000},
                {"job": "asks", "region": "C", "ready": 1100},
            ],
        },
        {"kind": "replicas", "creates": [{"dataset": "w", "region": "C", "ready": 1100}]},
        {
            "kind": "flows",
            "flows": [{"dataset": "w", "path": ["A", "C"], "gib": 40, "start": 1000, "end": 1100}],
        },
        {"kind": "moves", "steps": ["victim", "moves"], "needs_spare": []},
    ],
}
TERMS = {
    "value_1": 10_000,
    "value_2": 2000 - 4000,
    "remote_reads": 5 + (8 + 3 + 2),
    "egress_cost": 5 * 7 + 2 * 3,
    "gpu_cost": 3 * 2001 + 3 * 1000,
    "disruption": 7 + 1000 + 9 + 4000,
    "opened": 1,
}

check = partial(verified, ROUND, PLAN)


def waiting(number: int, **fields: Any) -> Edit:
    return lambda raw: raw["sections"][0]["waiting"][number].update(fields)


def reads(number: int, *given: tuple[str, str]) -> Edit:
    return set_in("sections", 0, "readers", number, "reads", to=reader("any", *given)["reads"])


def also(kind: str, entry: Raw) -> Edit:
    return lambda raw: raw["sections"][0][kind].append(entry)


S = "sections[0]"
CORRUPTIONS: dict[str, Corruption] = {
    "no section": (
        drop("sections", 0),
        {"data_sections", "local_data", "data_reason"},
        "sections",
    ),
    "the section twice": (
        lambda raw: raw["sections"].append({"kind": "reads"}),
        {"data_sections"},
        "sections[4]",
    ),
    "a replica dropped": (
        set_in("sections", 1, "drops", to=[{"dataset": "z", "region": "C", "at": 2500}]),
        {"data_sections"},
        "sections[1].drops",
    ),
    "homes": (
        set_in("sections", 1, "homes", to=[{"job": "plain", "region": "A", "gpu_model": "V100"}]),
        {"data_sections"},
        "sections[1].homes",
    ),
    "a reader of nothing": (
        set_in("sections", 0, "readers", 0, "reads", to=[]),
        {"section", "local_data", "data_reason"},
        f"{S}.readers[0].reads",
    ),
    "an unknown reader": (
        also("readers", reader("ghost", ("x", "A"))),
        {"known_data"},
        f"{S}.readers[2].job",
    ),
    "an unknown dataset": (
        reads(0, ("x", "A"), ("ghost", "A")),
        {"known_data"},
        f"{S}.readers[0].reads[1].dataset",
    ),
    "an unknown source": (
        reads(0, ("x", "world")),
        {"known_data"},
        f"{S}.readers[0].reads[0].source",
    ),
    "waiting for nowhere": (
        waiting(0, region="E"),
        {"known_data"},
        f"{S}.waiting[0].region",
    ),
    "a gang in two regions": (
        decide(NEAR, placed("near", "start", ("a0", [0]), ("b1", [1]))),
        {"one_region"},
        "decisions[0].tasks",
    ),
    "a migration to another region": (
        decide(MOVES, placed("moves", "migrate", ("b1", [1]))),
        {"one_region"},
        "decisions[3].tasks",
    ),
    "a job where it may not be": (
        decide(PLAIN, placed("plain", "start", ("c0", [0]))),
        {"residency"},
        "decisions[8].tasks",
    ),
    "a quota of a region exceeded": (
        decide(PLAIN, placed("plain", "start", ("b1", [1]))),
        {"region_quota"},
        "decisions[8]",
    ),
    "data that is not said to come": (
        decide(PLAIN, wait("plain", "data")),
        {"data_reason"},
        "decisions[8].reason",
    ),
    "not asked": (
        decide(PLAIN, wait("plain", "not_asked")),
        {"reason"},
        "decisions[8].reason",
    ),
    "no region, but there is one": (
        decide(PLAIN, wait("plain", "no_region")),
        {"data_reason"},
        "decisions[8].reason",
    ),
    "a reader named twice": (
        also("readers", reader("far", ("x", "A"))),
        {"readers"},
        f"{S}.readers[2].job",
    ),
    "a reader that waits": (
        also("readers", reader("lone", ("x", "A"))),
        {"readers"},
        f"{S}.readers[2].job",
    ),
    "a dataset read twice": (
        reads(0, ("x", "A"), ("x", "C")),
        {"readers"},
        f"{S}.readers[0].reads[1].dataset",
    ),
    "a dataset that the job does not read": (
        reads(0, ("x", "A"), ("w", "A")),
        {"remote_read"},
        f"{S}.readers[0].reads[1]",
    ),
    "a dataset that is there": (
        reads(0, ("x", "A"), ("y", "A")),
        {"remote_read"},
        f"{S}.readers[0].reads[1]",
    ),
    "a read that may not be remote": (
        reads(1, ("x", "C"), ("w", "A")),
        {"remote_read"},
        f"{S}.readers[1].reads[1]",
    ),
    "a source that has it not": (
        reads(0, ("x", "D")),
        {"remote_read"},
        f"{S}.readers[0].reads[0]",
    ),
    "a source that nobody can be": (
        reads(1, ("x", "C"), ("lost", "A")),
        {"remote_read"},
        f"{S}.readers[1].reads[1]",
    ),
    "a remote read that is not listed": (
        drop("sections", 0, "readers", 0),
        {"local_data"},
        "decisions[1]",
    ),
    "a remote read of a running job that is not listed": (
        drop("sections", 0, "readers", 1),
        {"local_data"},
        "decisions[2]",
    ),
    "a job that starts before its data is there": (
        both(
            decide(ASKS, placed("asks", "start", ("c0", [0, 1, 2, 3]))),
            drop("sections", 0, "waiting", 1),
        ),
        {"local_data"},
        "decisions[5]",
    ),
    "a job that waits for data and runs": (
        decide(NEAR, wait("near", "data")),
        {"data_reason"},
        "decisions[0].reason",
    ),
    "a job named that waits for something else": (
        also("waiting", {"job": "plain", "region": "A", "ready": 2000}),
        {"waits_for_data"},
        f"{S}.waiting[2]",
    ),
    "a job that waits twice": (
        also("waiting", {"job": "waits", "region": "B", "ready": 2000}),
        {"waits_for_data"},
        f"{S}.waiting[2]",
    ),
    "data too early": (waiting(0, ready=1999), {"waits_for_data"}, f"{S}.waiting[0]"),
    "data too late": (waiting(1, ready=1101), {"waits_for_data"}, f"{S}.waiting[1]"),
    "waiting where data never comes": (
        waiting(0, region="D"),
        {"waits_for_data"},
        f"{S}.waiting[0]",
    ),
    "waiting where the job may not be": (
        waiting(1, region="A"),
        {"waits_for_data"},
        f"{S}.waiting[1]",
    ),
    "waiting for data that is there": (
        both(
            decide(NEAR, wait("near", "data")),
            also("waiting", {"job": "near", "region": "A", "ready": 1000}),
        ),
        {"waits_for_data"},
        f"{S}.waiting[2]",
    ),
    "waiting for data that nobody has": (
        both(
            decide(LONE, wait("lone", "data")),
            also("waiting", {"job": "lone", "region": "A", "ready": 1100}),
        ),
        {"waits_for_data"},
        f"{S}.waiting[2]",
    ),
}


def test_the_plan_is_valid_before_it_is_corrupted() -> None:
    assert check(nothing) == Verification((), TERMS)


@pytest.mark.parametrize("name", CORRUPTIONS)
def test_a_corrupted_plan_is_rejected(name: str) -> None:
    edit, rules, where = CORRUPTIONS[name]
    assert_broken(check(edit), rules, where)


@pytest.mark.parametrize(
    ("of_round", "rules", "message"),
    [
        (
            set_in("geo", "links", 2, "bandwidth", to=0),
            {"remote_read"},
            (
                "job 'kept' in region 'B' reads dataset 'x' from 'C', from where no link leads; "
                "expected a direct link that carries data"
            ),
        ),
        (
            set_in("geo", "copying", 0, "ready", to=1001),
            {"remote_read"},
            (
                "job 'kept' in region 'B' reads dataset 'x' from 'C', which does not hold it now; "
                "expected a region with a complete replica"
            ),
        ),
        (
            set_in("geo", "datasets", 1, "regions", to=["A", "C"]),
            {"residency", "remote_read", "waits_for_data"},
            (
                "job 'far' or data that it reads may not be in region 'B'; "
                "expected a region of all of them"
            ),
        ),
        (
            set_in("jobs", ASKS, "options", to=[{"groups": [{"gpu": 4, "count": 2}]}]),
            {"waits_for_data"},
            ("job 'asks' asks more GPUs than region 'C' has; expected a region that could run it"),
        ),
        (
            set_in("geo", "regions", 1, "quotas", "t", to=2),
            {"region_quota"},
            (
                "jobs of tenant 't' hold 3 GPUs in region 'B' together; expected at most "
                "2 GPUs (quota 2 GPUs, held before the round 1 GPU)"
            ),
        ),
        (
            set_in("geo", "datasets", 4, "replicas", to=["A"]),
            {"local_data", "data_reason"},
            "reason 'no_region' of job 'lone', which could run in region 'A'; expected another",
        ),
    ],
)
def test_the_plan_does_not_fit_another_round(of_round: Edit, rules: set[str], message: str) -> None:
    found = check(nothing, of_round)
    assert rules_in(found) == rules
    assert message in [violation.message for violation in found.violations]


def test_a_tenant_beyond_its_quota_in_a_region_may_hold_what_it_held() -> None:
    quota = set_in("geo", "regions", 1, "quotas", "t", to=0)
    calm = both(
        decide(FAR, wait("far", "quota")),
        decide(VICTIM, placed("victim", "keep", ("b0", [0, 1, 2, 3]))),
        drop("sections", 0, "readers", 0),
        set_in("sections", 3, "steps", to=["moves"]),
    )
    assert check(calm, quota).ok


def test_a_job_that_more_gpus_than_any_region_has_keep_from_running_has_no_region() -> None:
    """Nine GPUs are in A and B together, but not in one of them."""
    wide = set_in("jobs", PLAIN, "options", to=[{"groups": [{"gpu": 1, "count": 9}]}])
    assert check(decide(PLAIN, wait("plain", "no_region")), wide).ok


@pytest.mark.parametrize("formulation", ["gang", "deadline", "interleaving"])
@pytest.mark.parametrize("reason", ["data", "no_region", "not_asked"])
def test_reasons_of_data_are_for_policies_of_data(formulation: str, reason: str) -> None:
    raw = {
        "cluster": CLUSTER,
        "jobs": [{"name": "j", "options": [{"groups": [{"gpu": 1}]}]}],
        "policy": {"formulation": formulation},
    }
    plan = Plan.model_validate({"decisions": [wait("j", reason)]})
    rules = {one.rule for one in verify(parse_round(raw), plan).violations}
    assert rules == {"reason"} | ({"leases"} if formulation == "deadline" else set())


@pytest.mark.parametrize("kind", ["reads", "replicas", "flows"])
def test_sections_of_data_are_for_policies_of_data(kind: str) -> None:
    raw = {"cluster": CLUSTER, "jobs": []}
    plan = Plan.model_validate({"decisions": [], "sections": [{"kind": kind, "flows": []}]})
    (found, *_) = verify(parse_round(raw), plan).violations
    assert found.rule == "section"
    assert found.message == f"section {kind!r} is not for policy 'gang'; expected none"


def test_a_replica_that_is_near_is_read_without_a_line() -> None:
    """x has come to B, so that nobody there reads it from elsewhere."""
    there = set_in("geo", "datasets", 1, "replicas", to=["A", "B"])
    found = check(set_in("sections", 0, "readers", to=[]), there)
    assert found.ok
    assert found.terms["remote_reads"] == 8 + 3
    assert found.terms["egress_cost"] == 0


def test_gpu_cost_is_rounded_down_once_for_all_tasks() -> None:
    """Half GPUs cost half a micro-dollar each: near's two make a whole one with those of moves."""
    cheap = both(
        set_in("jobs", NEAR, "options", to=[{"groups": [{"gpu": 0.5, "count": 2}]}]),
        set_in("geo", "regions", 0, "prices", "V100", to=1),
        set_in("geo", "regions", 1, "prices", "V100", to=0),
    )
    assert check(nothing, cheap).terms["gpu_cost"] == (2 * 500 + 1000) // 1000


def test_every_rule_of_regions_and_reads_is_broken_alone() -> None:
    alone = broken_alone(CORRUPTIONS.values())
    rules = (*RULES_OF_SECTIONS_OF_REGIONS, *RULES_OF_REGIONS_OF_JOBS, *RULES_OF_READS)
    assert alone - {"reason"} == {rule.id for rule in rules}


NAMES = st.sampled_from([*"ABCDE", *"wxyz", "lost", "near", "far", "kept", "waits", "plain", "no"])
READS = st.lists(st.tuples(NAMES, NAMES), min_size=1, max_size=3)


@given(data=st.data())
def test_no_section_of_reads_makes_the_verifier_stumble(data: st.DataObject) -> None:
    """Some names in the valid plan are others, jobs are elsewhere, or entries say anything."""
    raw = copy.deepcopy(PLAN)
    section = raw["sections"][0]
    for entry in section["readers"]:
        if data.draw(st.booleans()):
            entry["job"] = data.draw(NAMES)
        if data.draw(st.booleans()):
            entry["reads"] = reader("any", *data.draw(READS))["reads"]
    for entry in section["waiting"]:
        field = data.draw(st.sampled_from(["job", "region", "ready"]))
        entry[field] = data.draw(st.integers(0, 3000) if field == "ready" else NAMES)
    for index in data.draw(st.sets(st.integers(0, 8), max_size=3)):
        kind = data.draw(st.sampled_from(["start", "keep", "migrate", "preempt", "wait"]))
        host = data.draw(st.sampled_from(["a0", "b1", "c0", "d0", "nowhere"]))
        raw["decisions"][index] = placed(PLAN["decisions"][index]["job"], kind, (host, [3]))
        if data.draw(st.booleans()):
            raw["decisions"][index]["tasks"] = []
    found = verify(parse_round(copy.deepcopy(ROUND)), Plan.model_validate(raw))
    assert list(found.terms) == list(TERMS)
    assert all("; expected " in violation.message for violation in found.violations)
