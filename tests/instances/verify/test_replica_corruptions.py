"""Plans of replicas: a valid one has the terms worked out by hand, each corruption breaks its rule.

Regions A and B have eight V100 each (two of A are reserved), C four A100, and the host of D is
broken. From 1000 on, for an hour:

w   40 GiB, goes from A to B at once, 15 GiB of it by way of C; from 1200 on B has it, A drops it,
    and it goes on to D
y   50 GiB, goes from B to A from 1200 on, when z and w are deleted there: A holds more than it may
z   in A and C, and will be in B at 2000; A drops it
x   in A, and since 900 in C
idle    in A, and will be in C at 3000; nobody reads it
lost    nobody has it
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
    drop,
    nothing,
    rules_in,
    set_in,
    verified,
)
from placewright.instances.documents.plan import Plan
from placewright.instances.io.files import parse_round
from placewright.instances.verify import Verification, verify
from placewright.instances.verify.rules.geo.copies import RULES_OF_COPIES, RULES_OF_FLOWS
from placewright.instances.verify.rules.geo.jobs import (
    RULES_OF_HOMES,
    RULES_OF_READS,
    RULES_OF_REGIONS_OF_JOBS,
)
from placewright.instances.verify.rules.geo.sections import RULES_OF_SECTIONS_OF_REGIONS


def link(source: str, target: str, bandwidth: int, **fields: int) -> Raw:
    return {"source": source, "target": target, "bandwidth": bandwidth, **fields}


def job(name: str, *reads: tuple[str, int], remote: bool = True, **fields: Any) -> Raw:
    """A job of one V100, or of the `options` given."""
    wanted = [{"dataset": d, "gib": gib, "remote": remote} for d, gib in reads]
    options = [{"groups": [{"gpu": 1, "gpu_models": ["V100"]}]}]
    return {"name": name, "options": options, "reads": wanted, **fields}


def of(gpus: int, count: int = 1, **fields: Any) -> list[Raw]:
    return [{"groups": [{"gpu": gpus, "count": count, **fields}]}]


def dataset(name: str, size: int, *replicas: str, **fields: Any) -> Raw:
    return {"name": name, "size": size, "replicas": list(replicas), **fields}


CLUSTER: Raw = {
    "levels": ["region", "rack"],
    "domains": [
        *({"name": region, "level": "region"} for region in "ABCD"),
        *({"name": f"r{region}", "level": "rack", "parent": region} for region in "ABCD"),
    ],
    "hosts": [
        {"name": "a[0-1]", "parent": "rA", "gpus": 4, "gpu_model": "V100"},
        {"name": "b[0-1]", "parent": "rB", "gpus": 4, "gpu_model": "V100"},
        {"name": "c0", "parent": "rC", "gpus": 4, "gpu_model": "A100"},
        {"name": "d0", "parent": "rD", "gpus": 4, "gpu_model": "V100", "healthy": False},
    ],
}
ROUND: Raw = {
    "apiVersion": "placewright/v1alpha2",
    "kind": "Round",
    "now": 1000,
    "cluster": CLUSTER,
    "reservations": [{"host": "a1", "gpus": [0, 1]}, {"host": "a1", "gpus": [1]}],
    "jobs": [
        job(
            "runs",
            ("x", 5),
            options=of(2, count=2),
            regions=["A", "B"],
            running={
                "tasks": [
                    {"host": "a0", "gpus": [0, 1]},
                    {"index": 1, "host": "a0", "gpus": [2, 3]},
                ]
            },
        ),
        job("strict", ("w", 7), remote=False, options=of(4, count=2, gpu_models=["V100"])),
        job("any", ("z", 9), options=of(4)),
        job("two", ("y", 4), options=of(2, gpu_models=["V100"])),
        job("without", ("lost", 11)),
        job("remote", ("x", 6)),
        job("torn", ("y", 2), regions=["C"]),
        job("broken", regions=["D"]),
    ],
    "geo": {
        "window_s": 3600,
        "regions": [
            {"name": "A", "storage": 80},
            {"name": "B", "storage": 120},
            {"name": "D", "storage": 40},
        ],
        "links": [
            link("A", "B", 10_000),
            link("B", "A", 1000),
            link("A", "C", 8000, budget=100),
            link("C", "B", 10_000),
            link("B", "C", 0),
            link("B", "D", 500),
        ],
        "datasets": [
            dataset("w", 40, "A"),
            dataset("x", 20, "A"),
            dataset("y", 50, "B", regions=["A", "B"]),
            dataset("z", 30, "A", "C"),
            dataset("idle", 1, "A"),
            dataset("lost", 10),
        ],
        "copying": [
            {"dataset": "x", "region": "C", "ready": 900},
            {"dataset": "z", "region": "B", "ready": 2000},
            {"dataset": "idle", "region": "C", "ready": 3000},
        ],
    },
    "policy": {"formulation": "replicas"},
}


def flow(name: str, path: str, gib: int, start: int, end: int) -> Raw:
    return {"dataset": name, "path": list(path), "gib": gib, "start": start, "end": end}


def home(name: str, region: str, model: str = "V100") -> Raw:
    return {"job": name, "region": region, "gpu_model": model}


def wait(name: str, reason: str = "not_asked") -> Raw:
    return {"job": name, "decision": "wait", "reason": reason}


RUNS, STRICT, ANY, TWO, WITHOUT, REMOTE, TORN, BROKEN = range(8)
PLAN: Raw = {
    "decisions": [
        {
            "job": "runs",
            "decision": "keep",
            "option": 0,
            "tasks": ROUND["jobs"][0]["running"]["tasks"],
        },
        wait("strict"),
        wait("any"),
        wait("two"),
        wait("without", "no_region"),
        wait("remote"),
        wait("torn", "no_region"),
        wait("broken", "no_region"),
    ],
    "sections": [
        {
            "kind": "replicas",
            "creates": [
                {"dataset": "w", "region": "B", "ready": 1200},
                {"dataset": "w", "region": "D", "ready": 2000},
                {"dataset": "y", "region": "A", "ready": 2200},
            ],
            "drops": [
                {"dataset": "z", "region": "A", "at": 1200},
                {"dataset": "w", "region": "A", "at": 1200},
            ],
            "homes": [
                home("runs", "A"),
                home("strict", "B"),
                home("any", "C", "A100"),
                home("two", "B"),
                home("remote", "B"),
            ],
        },
        {
            "kind": "flows",
            "flows": [
                flow("w", "AB", 25, 1000, 1100),
                flow("w", "ACB", 15, 1000, 1200),
                flow("w", "BD", 40, 1200, 2000),
                flow("y", "BA", 50, 1200, 2200),
            ],
        },
    ],
}
TERMS = {
    "overload": (11_000 - 8000) + (11_000 - 9600) + 3 * 3000,
    "remote_reads": 6 + 11 + 2,
    "copies": 40 + 40 + 50,
    # In A, B and D lie 71, 120 and 40 GiB of 231; in proportion to storage 77, 115 and 38.
    "imbalance": 0 + 5 + 2,
    "hottest": 1375,
}

check = partial(verified, ROUND, PLAN)


def add(name: str, **entry: Any) -> Edit:
    return lambda raw: raw["sections"][0][name].append(entry)


def flow_in(number: int, **fields: Any) -> Edit:
    return lambda raw: raw["sections"][1]["flows"][number].update(fields)


def moved(number: int, region: str, model: str = "V100") -> Edit:
    return lambda raw: raw["sections"][0]["homes"][number].update(region=region, gpu_model=model)


R, F = "sections[0]", "sections[1].flows"
CORRUPTIONS: dict[str, Corruption] = {
    "the section twice": (
        lambda raw: raw["sections"].append({"kind": "flows", "flows": []}),
        {"data_sections"},
        "sections[2]",
    ),
    "no flows in the section": (
        drop("sections", 1, "flows"),
        {"section", "copy"},
        f"{F}",
    ),
    "a field too much": (
        set_in("sections", 1, "speed", to=3),
        {"section", "copy"},
        "sections[1].speed",
    ),
    "a time that is no number": (
        flow_in(1, end="soon"),
        {"section", "copy"},
        f"{F}[1].end",
    ),
    "a path of one region": (
        flow_in(1, path=["A"]),
        {"section", "copy"},
        f"{F}[1].path",
    ),
    "a section of the other policy": (
        lambda raw: raw["sections"].append({"kind": "reads"}),
        {"section"},
        "sections[2]",
    ),
    "an unknown dataset": (
        add("creates", dataset="ghost", region="B", ready=1200),
        {"known_data"},
        f"{R}.creates[3].dataset",
    ),
    "an unknown region": (
        add("drops", dataset="x", region="E", at=1200),
        {"known_data"},
        f"{R}.drops[2].region",
    ),
    "an unknown job": (
        lambda raw: raw["sections"][0]["homes"].append(home("ghost", "A")),
        {"known_data"},
        f"{R}.homes[5].job",
    ),
    "an unknown GPU model": (
        moved(REMOTE - 1, "B", "H100"),
        {"known_data"},
        f"{R}.homes[4].gpu_model",
    ),
    "a flow by way of nowhere": (
        flow_in(1, path=["A", "E", "B"]),
        {"known_data"},
        f"{F}[1].path[1]",
    ),
    "a job that starts": (
        both(
            set_in("decisions", REMOTE, to={"job": "remote", "decision": "start", "option": 0}),
            set_in("decisions", REMOTE, "tasks", to=[{"host": "b0", "gpus": [0]}]),
        ),
        {"data_only"},
        "decisions[5].decision",
    ),
    "another reason to wait": (
        set_in("decisions", REMOTE, "reason", to="capacity"),
        {"reason"},
        "decisions[5].reason",
    ),
    "no region for a job with a home": (
        set_in("decisions", REMOTE, "reason", to="no_region"),
        {"data_reason"},
        "decisions[5].reason",
    ),
    "not asked, but there is no region": (
        set_in("decisions", TORN, "reason", to="not_asked"),
        {"data_reason"},
        "decisions[6].reason",
    ),
    "waiting for data": (
        set_in("decisions", REMOTE, "reason", to="data"),
        {"reason"},
        "decisions[5].reason",
    ),
    "a home where the job may not be": (
        moved(RUNS, "C", "A100"),
        {"home"},
        f"{R}.homes[0].region",
    ),
    "a home where its data may not be": (
        both(moved(TWO, "C", "A100")),
        {"home", "home_data"},
        f"{R}.homes[3].region",
    ),
    "a home on another GPU model": (
        moved(REMOTE - 1, "C", "A100"),
        {"home"},
        f"{R}.homes[4].gpu_model",
    ),
    "a home on GPUs that the region has not": (
        moved(ANY, "C", "V100"),
        {"home"},
        f"{R}.homes[2].gpu_model",
    ),
    "a home on hosts that are broken": (
        lambda raw: raw["sections"][0]["homes"].append(home("broken", "D")),
        {"home"},
        f"{R}.homes[5].gpu_model",
    ),
    "a home that the data leaves": (
        moved(STRICT, "A"),
        {"home_data"},
        f"{R}.homes[1].region",
    ),
    "a home of data that nobody has": (
        lambda raw: raw["sections"][0]["homes"].append(home("without", "A")),
        {"home_data"},
        f"{R}.homes[5].region",
    ),
    "no home for who could run": (
        drop("sections", 0, "homes", TWO),
        {"homes"},
        f"{R}.homes",
    ),
    "two homes": (
        lambda raw: raw["sections"][0]["homes"].append(home("two", "A")),
        {"homes"},
        f"{R}.homes[5].job",
    ),
    "a new replica twice": (
        add("creates", dataset="w", region="B", ready=1200),
        {"create"},
        f"{R}.creates[3].region",
    ),
    "a new replica where one is": (
        add("creates", dataset="x", region="A", ready=1200),
        {"create", "copy"},
        f"{R}.creates[3].region",
    ),
    "a new replica where one comes": (
        add("creates", dataset="z", region="B", ready=1200),
        {"create", "copy"},
        f"{R}.creates[3].region",
    ),
    "a new replica where none may be": (
        add("creates", dataset="y", region="C", ready=1200),
        {"create", "copy"},
        f"{R}.creates[3].region",
    ),
    "a copy too small": (flow_in(0, gib=24), {"copy"}, f"{R}.creates[0]"),
    "a copy too large": (flow_in(0, gib=26), {"copy"}, f"{R}.creates[0]"),
    "ready before its last flow ends": (
        set_in("sections", 0, "creates", 2, "ready", to=2199),
        {"copy"},
        f"{R}.creates[2].ready",
    ),
    "ready later": (
        set_in("sections", 0, "creates", 2, "ready", to=2201),
        {"copy"},
        f"{R}.creates[2].ready",
    ),
    "a flow for nothing": (
        drop("sections", 0, "creates", 1),
        {"copy"},
        f"{F}[2].path",
    ),
    "a replica dropped that is not there": (
        add("drops", dataset="x", region="B", at=1200),
        {"drop"},
        f"{R}.drops[2]",
    ),
    "a replica dropped that is under way": (
        add("drops", dataset="z", region="B", at=2500),
        {"drop"},
        f"{R}.drops[2]",
    ),
    "a replica dropped twice": (
        add("drops", dataset="z", region="A", at=1300),
        {"drop"},
        f"{R}.drops[2]",
    ),
    "a replica dropped before now": (
        set_in("sections", 0, "drops", 0, "at", to=999),
        {"drop"},
        f"{R}.drops[0].at",
    ),
    "a replica dropped after the window": (
        add("drops", dataset="x", region="C", at=4601),
        {"drop"},
        f"{R}.drops[2].at",
    ),
    "the last replica dropped before the copy is there": (
        add("drops", dataset="idle", region="A", at=2999),
        {"last_replica"},
        f"{R}.drops",
    ),
    "a copy that comes before its storage is free": (
        flow_in(3, start=1199),
        {"flow_times", "storage"},
        R,
    ),
    "a copy that comes into a region that is full": (
        set_in("sections", 0, "drops", 0, "at", to=4000),
        {"storage"},
        R,
    ),
    "a flow over no link": (flow_in(1, path=list("ADB")), {"flow_path"}, f"{F}[1].path"),
    "a flow that comes back": (flow_in(1, path=list("ABAB")), {"flow_path"}, f"{F}[1].path"),
    "a flow through where data may not be": (
        flow_in(3, path=list("BCA")),
        {"flow_path"},
        f"{F}[3].path",
    ),
    "a flow before now": (
        flow_in(0, start=999),
        {"flow_times", "flow_source"},
        f"{F}[0]",
    ),
    "a flow after the window": (
        both(flow_in(3, end=4601), set_in("sections", 0, "creates", 2, "ready", to=4601)),
        {"flow_times"},
        f"{F}[3]",
    ),
    "a flow of no time": (flow_in(3, start=2200), {"flow_times"}, f"{F}[3]"),
    "flows out of order": (
        lambda raw: raw["sections"][1]["flows"].reverse(),
        {"flow_times"},
        f"{F}[2].start",
    ),
    "a flow from a copy that is not complete": (
        flow_in(2, start=1199),
        {"flow_source"},
        f"{F}[2].path[0]",
    ),
    "a flow from a replica that is deleted": (
        set_in("sections", 0, "drops", 1, "at", to=1199),
        {"flow_source", "last_replica"},
        f"{F}[1].path[0]",
    ),
    "a flow from where no replica is": (
        flow_in(1, path=list("CB")),
        {"flow_source"},
        f"{F}[1].path[0]",
    ),
    "a flow faster than its link": (flow_in(0, end=1021), {"link_rate"}, f"{F}[0]"),
}


def test_the_plan_is_valid_before_it_is_corrupted() -> None:
    assert check(nothing) == Verification((), TERMS)


@pytest.mark.parametrize("name", CORRUPTIONS)
def test_a_corrupted_plan_is_rejected(name: str) -> None:
    edit, rules, where = CORRUPTIONS[name]
    assert_broken(check(edit), rules, where)


def geo(*path: str | int, to: Any) -> Edit:
    return set_in("geo", *path, to=to)


@pytest.mark.parametrize(
    ("of_round", "rules", "message"),
    [
        (
            geo("links", 2, "budget", to=14),
            {"link_budget"},
            "flows from region 'A' to 'C' take 15 GiB together; expected at most 14",
        ),
        (
            geo("links", 0, "bandwidth", to=2146),
            {"link_rate"},
            "flows from region 'A' to 'B' take 2147 Mbit/s at 1000; expected at most 2146",
        ),
        (
            geo("links", 3, "bandwidth", to=0),
            {"flow_path"},
            "flow of dataset 'w' has no link from 'C' to 'B'; expected links that carry data",
        ),
        (
            geo("datasets", 0, "regions", to=["A", "B", "D"]),
            {"flow_path"},
            "flow of dataset 'w' passes region 'C'; expected only regions where the data may be",
        ),
        (
            geo("regions", 1, "storage", to=119),
            {"storage"},
            "region 'B' holds 120 GiB at 1000; expected at most 119 (storage 119, held before 80)",
        ),
        (
            geo("regions", 2, "storage", to=0),
            {"storage"},
            "region 'D' holds 40 GiB at 1200; expected at most 0 (storage 0, held before 0)",
        ),
        (
            geo("window_s", to=1199),
            {"flow_times"},
            (
                "flow of dataset 'y' lasts from 1200 to 2200; "
                "expected a second or more from 1000 to 2199"
            ),
        ),
        (
            geo("copying", 0, "ready", to=1001),
            set(),
            "",
        ),
        (
            set_in("jobs", REMOTE, "reads", 0, "remote", to=False),
            {"home_data"},
            "job 'remote' cannot read dataset 'x' in region 'B'; expected a replica there",
        ),
        (
            set_in("jobs", TWO, "regions", to=["A", "C"]),
            {"home"},
            (
                "job 'two' or data that it reads may not be in region 'B'; "
                "expected a region of all of them"
            ),
        ),
        (
            set_in("jobs", BROKEN, "regions", to=["D", "B"]),
            {"homes", "data_reason"},
            "job 'broken' has no home; expected one, such as region 'B'",
        ),
        (
            geo("datasets", 5, "replicas", to=["C"]),
            {"homes", "data_reason"},
            "job 'without' has no home; expected one, such as region 'B'",
        ),
    ],
)
def test_the_plan_does_not_fit_another_round(of_round: Edit, rules: set[str], message: str) -> None:
    found = check(nothing, of_round)
    assert rules_in(found) == rules
    assert not rules or message in [violation.message for violation in found.violations]


def test_a_link_carries_a_whole_number_of_mbits_and_no_more() -> None:
    assert check(nothing, geo("links", 0, "bandwidth", to=2147)).ok


def test_rates_of_flows_over_one_link_add_up() -> None:
    """Halves of w together: each takes 1718 Mbit/s, one after the other they may take all."""
    halves = [flow("w", "AB", 20, 1000, 1100), flow("w", "AB", 20, 1000, 1100)]
    narrow = geo("links", 0, "bandwidth", to=1720)
    twice = check(lambda raw: raw["sections"][1]["flows"].__setitem__(slice(0, 2), halves), narrow)
    # The copy is there at 1100, too.
    assert rules_in(twice) == {"copy", "link_rate"}
    halves[1] = flow("w", "AB", 20, 1100, 1200)
    turns = check(lambda raw: raw["sections"][1]["flows"].__setitem__(slice(0, 2), halves), narrow)
    assert turns.ok


def test_the_last_replica_may_go_when_the_copy_is_there() -> None:
    assert check(add("drops", dataset="idle", region="A", at=3000)).ok


def test_a_dataset_that_leaves_all_its_regions_is_reported_once() -> None:
    gone = both(
        add("drops", dataset="x", region="A", at=2000),
        add("drops", dataset="x", region="C", at=1500),
    )
    found = [one for one in check(gone).violations if one.rule == "last_replica"]
    assert [one.message for one in found] == [
        "no region has dataset 'x' at 2000; expected a complete replica at every moment"
    ]


def test_a_copy_under_way_is_a_source_once_it_is_complete() -> None:
    """z reaches B at 2000, and goes on to D, which then has the storage for it."""
    more = both(
        add("creates", dataset="z", region="D", ready=3000),
        lambda raw: raw["sections"][1]["flows"].append(flow("z", "BD", 30, 2000, 3000)),
    )
    more_storage = both(geo("regions", 2, "storage", to=70), geo("links", 5, "bandwidth", to=1000))
    assert check(more, more_storage).ok
    found = check(both(more, flow_in(4, start=1999)), more_storage)
    assert rules_in(found) == {"flow_source"}


def test_a_region_without_gpus_counts_as_if_it_had_one() -> None:
    """A home there breaks a rule; its terms are reported all the same."""
    found = check(lambda raw: raw["sections"][0]["homes"].append(home("broken", "D")))
    assert found.terms["hottest"] == 1375
    wide = set_in("jobs", BROKEN, "options", to=of(4, gpu_models=["V100"]))
    found = check(lambda raw: raw["sections"][0]["homes"].append(home("broken", "D")), wide)
    assert found.terms["hottest"] == 4000
    assert found.terms["overload"] == 3000 + 1400 + 8000 + 3 * 2000


def test_without_storage_limits_nothing_is_out_of_balance() -> None:
    assert check(nothing, geo("regions", to=[])).terms["imbalance"] == 0
    empty = [{"name": "A", "storage": 0}, {"name": "D", "storage": 0}]
    assert check(nothing, geo("regions", to=empty)).terms["imbalance"] == 71 + 40


def test_every_rule_of_replicas_and_flows_is_broken_alone() -> None:
    alone = broken_alone(CORRUPTIONS.values())
    ours = {rule.id for rule in (*RULES_OF_HOMES, *RULES_OF_COPIES, *RULES_OF_FLOWS)}
    assert ours - alone == {"link_budget"}  # broken alone by a round of less budget, above
    regions = (*RULES_OF_SECTIONS_OF_REGIONS, *RULES_OF_REGIONS_OF_JOBS, *RULES_OF_READS)
    others = {rule.id for rule in regions}
    assert alone - ours - others == {"section", "reason"}


NAMES = st.sampled_from([*"ABCDE", *"wxyz", "idle", "lost", "runs", "torn", "V100", "A100", "no"])
TIMES = st.integers(0, 5000)
JUNK = st.sampled_from([None, True, "soon", -1, 1.5, [], [1000], {"at": 5}])


@given(data=st.data())
def test_no_section_of_data_makes_the_verifier_stumble(data: st.DataObject) -> None:
    """Entries of the valid plan have another name or time in one field, or anything at all."""
    raw = copy.deepcopy(PLAN)
    for section, kind in ((0, "creates"), (0, "drops"), (0, "homes"), (1, "flows")):
        for entry in raw["sections"][section][kind]:
            if data.draw(st.booleans()):
                continue
            field = data.draw(st.sampled_from(sorted(entry)))
            if isinstance(entry[field], int):
                entry[field] = data.draw(TIMES)
            elif isinstance(entry[field], str):
                entry[field] = data.draw(NAMES)
            else:
                entry[field] = data.draw(st.lists(NAMES, min_size=2, max_size=4))
    for section in data.draw(st.sets(st.sampled_from([0, 1]), max_size=1)):
        field = data.draw(st.sampled_from(sorted(raw["sections"][section])))
        raw["sections"][section][field] = data.draw(JUNK)
    found = verify(parse_round(copy.deepcopy(ROUND)), Plan.model_validate(raw))
    assert list(found.terms) == list(TERMS)
    assert all("; expected " in violation.message for violation in found.violations)


def test_another_scheduler_may_leave_out_reasons() -> None:
    silent = both(*(drop("decisions", index, "reason") for index in range(1, 8)))
    assert check(silent) == Verification((), TERMS)
