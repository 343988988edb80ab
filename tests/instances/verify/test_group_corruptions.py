"""Plans with groups: a valid one has the terms worked out by hand, each corruption breaks its rule.

h0  GPUs 0, 1: first + second, both start; GPU 2: third, kept, and fourth, which joins it
    GPU 3: two shares
h1  GPUs 0, 1: old + older, which ran together and stay, though they would not be grouped now
    GPU 2: the other tasks of third and fourth; GPU 3 is left by mover
h2  GPU 0: mover, which migrates, and new
"""

from __future__ import annotations

import copy
import re
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corrupting import (
    Corruption,
    Edit,
    Raw,
    assert_broken,
    both,
    broken_alone,
    rules_in,
    set_in,
    verified,
)
from examples import examples
from placewright.instances.documents.plan import Plan
from placewright.instances.io.files import parse_round
from placewright.instances.io.yaml_json import parse_yaml
from placewright.instances.verify import Verification, verify
from placewright.instances.verify.rules.interleaving import RULES_OF_GROUPS, RULES_OF_TURNS


def job(name: str, stages: list[int], *, count: int = 1, gpus: int = 2, **fields: Any) -> Raw:
    """A job of whole GPUs; `asks` go to its task group, `profile` beside the stages."""
    group = {"count": count, "gpu": gpus, **fields.pop("asks", {})}
    profile = {"stages": stages, **fields.pop("profile", {})}
    return {"name": name, "options": [{"groups": [group]}], "profile": profile, **fields}


def share(name: str, gpu: int) -> Raw:
    return {"name": name, "options": [{"groups": [{"gpu": f"{gpu}m", "cpu": 4}]}]}


def running(*places: tuple[str, list[int]]) -> Raw:
    return {"tasks": [{"index": i, "host": h, "gpus": g} for i, (h, g) in enumerate(places)]}


TWICE = [10, 0, 10, 0]
HALVES = [10, 10, 0, 0]
ROUND: Raw = {
    "apiVersion": "placewright/v1alpha2",
    "kind": "Round",
    "cluster": {
        "hosts": [
            {
                "name": "h[0-2]",
                "gpus": 4,
                "gpu_model": "V100",
                "gpu_memory": "40Gi",
                "cpu": 21,
                "memory": "40Gi",
                "resources": {"nic": 2},
            }
        ]
    },
    "jobs": [
        job(
            "first",
            TWICE,
            asks={"cpu": 9, "memory": "10Gi", "gpu_memory": "16Gi", "resources": {"nic": 1}},
            profile={"slowdown": 1500},
            weight=3,
        ),
        job(
            "second",
            TWICE,
            asks={"cpu": 7, "memory": "20Gi", "gpu_memory": "20Gi", "resources": {"nic": 1}},
        ),
        job(
            "third",
            HALVES,
            count=2,
            gpus=1,
            asks={"cpu": 4},
            profile={"iteration": 35},
            running=running(("h0", [2]), ("h1", [2])),
        ),
        job("fourth", HALVES, count=2, gpus=1, asks={"cpu": 1}, profile={"slowdown": 2000}),
        job("old", HALVES, profile={"slowdown": 1000}, running=running(("h1", [0, 1]))),
        job("older", HALVES, profile={"slowdown": 1000}, running=running(("h1", [0, 1]))),
        share("half", 500),
        share("rest", 400),
        job("mover", TWICE, gpus=1, running=running(("h1", [3]))),
        job("new", TWICE, gpus=1, profile={"iteration": 15}),
        job("waiting", TWICE, count=2, gpus=1),
        {"name": "plain", "options": [{"groups": [{"gpu": 2}]}]},
        job("apart", TWICE, gpus=1, anti_affinity={"label": "x", "level": "host"}),
    ],
    "sharing": {
        "contention": [1_300_000, 1_500_000, 1_500_000],
        "conflicts": [["old", "older"], ["first", "mover"]],
        "most": 2,
    },
    "policy": {
        "formulation": "interleaving",
        "terms": ["throughput", "weighted_throughput", "efficiency", "disruption", "opened"],
    },
}


def placed(name: str, kind: str, *places: tuple[str, list[int]]) -> Raw:
    return {"job": name, "decision": kind, "option": 0, **running(*places)}


def group(period: int, **offsets: int) -> Raw:
    return {"members": [{"job": n, "offset": o} for n, o in offsets.items()], "period": period}


PLAN: Raw = {
    "decisions": [
        placed("first", "start", ("h0", [0, 1])),
        placed("second", "start", ("h0", [1, 0])),
        placed("third", "keep", ("h0", [2]), ("h1", [2])),
        placed("fourth", "start", ("h0", [2]), ("h1", [2])),
        placed("old", "keep", ("h1", [0, 1])),
        placed("older", "keep", ("h1", [0, 1])),
        placed("half", "start", ("h0", [3])),
        placed("rest", "start", ("h0", [3])),
        placed("mover", "migrate", ("h2", [0])),
        placed("new", "start", ("h2", [0])),
        {"job": "waiting", "decision": "wait"},
        {"job": "plain", "decision": "wait"},
        {"job": "apart", "decision": "wait"},
    ],
    "sections": [
        {
            "kind": "groups",
            "groups": [
                group(26, first=0, second=2),
                group(39, third=0, fourth=1),
                group(39, old=0, older=1),
                group(26, mover=3, new=1),
            ],
        },
        {"kind": "moves", "steps": [], "needs_spare": ["mover"]},
    ],
}
FIRST, SECOND, THIRD, FOURTH, OLD, OLDER, HALF, REST, MOVER, NEW, WAITING, PLAIN, APART = range(13)
RATES = [
    *[1_000_000 * 20 // 26] * 2,
    *(1_000_000 * 35 // 39, 1_000_000 * 20 // 39),
    *[1_000_000 * 20 // 39] * 2,
    *[1_000_000] * 2,
    *(1_000_000 * 20 // 26, 1_000_000 * 15 // 26),
]
TERMS = {
    "throughput": sum(RATES),
    "weighted_throughput": sum(RATES) + 2 * RATES[0],
    "efficiency": 2 * (1_000_000 * 40 // (4 * 26)) + 2 * (1_000_000 * 40 // (4 * 39)),
    "disruption": 1000,
    "opened": 1,
}

check = partial(verified, ROUND, PLAN)


def set_group(index: int, entry: Any) -> Edit:
    return set_in("sections", 0, "groups", index, to=entry)


def set_place(index: int, *places: tuple[str, list[int]]) -> Edit:
    return set_in("decisions", index, "tasks", to=running(*places)["tasks"])


def wait(index: int) -> Edit:
    return set_in("decisions", index, to={"job": ROUND["jobs"][index]["name"], "decision": "wait"})


def start(index: int, *places: tuple[str, list[int]]) -> Edit:
    name = ROUND["jobs"][index]["name"]
    return set_in("decisions", index, to=placed(name, "start", *places))


def add_group(entry: Any) -> Edit:
    return lambda raw: raw["sections"][0]["groups"].append(entry)


def drop_group(index: int) -> Edit:
    return lambda raw: raw["sections"][0]["groups"].pop(index)


GROUPS = "sections[0].groups"
UNGROUPED = {"gpu_capacity", "host_capacity", "conflicts"}
CORRUPTIONS: dict[str, Corruption] = {
    "no list of groups": (
        set_in("sections", 0, "groups", to={}),
        {"section", *UNGROUPED},
        GROUPS,
    ),
    "no group listed": (
        set_in("sections", 0, "groups", to=[]),
        {"section", *UNGROUPED},
        GROUPS,
    ),
    "a group that is no mapping": (add_group(3), {"section"}, f"{GROUPS}[4]"),
    "a field too much": (set_in("sections", 0, "good", to=1), {"section"}, "sections[0].good"),
    "a field of a group too much": (
        set_group(0, {**group(26, first=0, second=2), "gamma": 1}),
        {"section"},
        f"{GROUPS}[0].gamma",
    ),
    "a period that is no number": (
        set_in("sections", 0, "groups", 0, "period", to="26"),
        {"section"},
        f"{GROUPS}[0].period",
    ),
    "a period left out": (
        lambda raw: raw["sections"][0]["groups"][0].pop("period"),
        {"section"},
        f"{GROUPS}[0].period",
    ),
    "one member": (add_group(group(20, waiting=0)), {"section", "groups"}, f"{GROUPS}[4].members"),
    "members that are none": (
        add_group({"members": 2, "period": 3}),
        {"section"},
        f"{GROUPS}[4].members",
    ),
    "a true offset": (
        set_group(2, {"members": [{"job": "old", "offset": 0}, {"job": "older", "offset": True}]}),
        {"section", "gpu_capacity", "conflicts"},
        f"{GROUPS}[2].members[1]",
    ),
    "the section twice": (
        lambda raw: raw["sections"].append(copy.deepcopy(raw["sections"][0])),
        {"groups"},
        "sections[2]",
    ),
    "a job that waits": (
        add_group(group(26, waiting=0, ghost=2)),
        {"groups"},
        f"{GROUPS}[4].members[0].job",
    ),
    "a job in two groups": (
        add_group(group(26, first=0, second=2)),
        {"groups"},
        f"{GROUPS}[4].members[1].job",
    ),
    "a group left out": (drop_group(3), {"gpu_capacity"}, "decisions[9].tasks[0].gpus"),
    "three where two are allowed": (
        both(
            set_group(3, group(60, mover=0, new=2, apart=1)),
            start(APART, ("h2", [0])),
        ),
        {"group_members", "in_turn"},
        f"{GROUPS}[3].members",
    ),
    "a job without a profile": (
        both(
            drop_group(0),
            add_group(group(26, first=0, plain=2)),
            wait(SECOND),
            start(PLAIN, ("h0", [0, 1])),
        ),
        {"group_members", "gpu_capacity"},
        f"{GROUPS}[3].members[1].job",
    ),
    "a job that keeps out of others' domains": (
        both(wait(NEW), start(APART, ("h2", [0])), set_group(3, group(26, mover=1, apart=3))),
        {"group_members"},
        f"{GROUPS}[3].members[1].job",
    ),
    "jobs that ask for other places": (
        both(
            wait(NEW),
            start(WAITING, ("h2", [0]), ("h2", [1])),
            set_group(3, group(26, mover=1, waiting=3)),
        ),
        {"group_members", "group_places"},
        f"{GROUPS}[3].members[1].job",
    ),
    "shares": (
        add_group(group(26, half=0, rest=1)),
        {"group_members"},
        f"{GROUPS}[4].members[0].job",
    ),
    "members on other GPUs": (
        set_place(NEW, ("h2", [1])),
        {"group_places"},
        "decisions[9].tasks",
    ),
    "members on one GPU of two": (
        set_place(SECOND, ("h0", [0, 2])),
        {"group_places", "gpu_capacity", "host_capacity"},
        "decisions[1].tasks",
    ),
    "tasks of members crossed": (
        set_place(FOURTH, ("h1", [2]), ("h0", [2])),
        {"group_places", "gpu_capacity", "host_capacity"},
        "decisions[3].tasks",
    ),
    "the same offset twice": (
        set_group(0, group(26, first=2, second=2)),
        {"offsets"},
        f"{GROUPS}[0].members",
    ),
    "an offset that is no slot": (
        set_group(0, group(26, first=0, second=4)),
        {"offsets"},
        f"{GROUPS}[0].members",
    ),
    "a negative offset": (
        set_group(0, group(26, first=0, second=-2)),
        {"offsets"},
        f"{GROUPS}[0].members",
    ),
    "a period without contention": (
        set_group(1, group(30, third=0, fourth=1)),
        {"period"},
        f"{GROUPS}[1].period",
    ),
    "a period of other offsets": (
        set_group(0, group(26, first=0, second=1)),
        {"period", "in_turn", "slowdown"},
        f"{GROUPS}[0].period",
    ),
    "a period too long of a group that stays": (
        set_group(2, group(40, old=0, older=1)),
        {"period"},
        f"{GROUPS}[2].period",
    ),
    "longer than one after the other": (
        set_group(3, group(52, mover=0, new=1)),
        {"in_turn"},
        f"{GROUPS}[3].period",
    ),
    "slower than the cap": (
        set_group(1, group(52, third=0, fourth=2)),
        {"slowdown"},
        f"{GROUPS}[1].period",
    ),
    "a step of a migrated job": (
        set_in("sections", 1, to={"kind": "moves", "steps": ["mover"], "needs_spare": []}),
        {"moves"},
        "sections[1].steps[0]",
    ),
}


def test_the_plan_is_valid_and_has_these_terms() -> None:
    assert check(lambda _: None) == Verification((), TERMS)


@pytest.mark.parametrize("name", CORRUPTIONS)
def test_a_corrupted_group_is_rejected_by_its_rules(name: str) -> None:
    edit, rules, where = CORRUPTIONS[name]
    assert_broken(check(edit), rules, where)


def test_every_rule_of_groups_is_broken_alone_by_some_corruption() -> None:
    alone = broken_alone(CORRUPTIONS.values())
    rules = {rule.id for rule in (*RULES_OF_GROUPS, *RULES_OF_TURNS)} - {
        "as_needed",
        "pinned_group",
    }
    assert rules <= alone


def test_nobody_joins_or_leaves_a_pinned_job() -> None:
    def pin(job: int) -> Edit:
        return set_in("jobs", job, "running", "pinned", to=True)

    def nothing(_: Raw) -> None:
        return None

    joined = check(nothing, pin(THIRD)).violations
    assert [(one.rule, one.where) for one in joined] == [("pinned_group", "decisions[2]")]
    assert check(nothing, pin(OLD)).ok
    gone = {
        "job": "older",
        "decision": "migrate",
        "option": 0,
        "tasks": running(("h2", [1, 2]))["tasks"],
    }
    left = check(
        both(
            set_in("decisions", OLDER, to=gone),
            drop_group(2),
            set_in("sections", 1, "needs_spare", to=["mover", "older"]),
        ),
        pin(OLD),
    )
    rules = {(one.rule, one.where) for one in left.violations}
    assert rules == {("pinned_group", "decisions[4]")}


@pytest.mark.parametrize(
    ("asked", "most", "rules"),
    [
        # Two tasks of CPU on h0 besides: shares (8) and third with fourth (4 at most).
        ("cpu", 9, set()),
        ("cpu", 9.001, {"host_capacity"}),
        # Beside 10 GiB and 16 GiB of first.
        ("memory", "30Gi", set()),
        ("memory", "30721Mi", {"host_capacity"}),
        ("gpu_memory", "24Gi", set()),
        ("gpu_memory", "24577Mi", {"gpu_memory"}),
        ("resources", {"nic": 2}, {"host_capacity"}),
    ],
)
def test_a_group_takes_the_most_cpu_and_the_sum_of_all_else(
    asked: str, most: Any, rules: set[str]
) -> None:
    found = check(lambda _: None, set_in("jobs", SECOND, "options", 0, "groups", 0, asked, to=most))
    assert rules_in(found) == rules


@pytest.mark.parametrize(("percentile", "ok"), [(50, True), (51, False)])
def test_in_a_group_a_series_of_memory_counts_at_its_percentile(percentile: int, ok: bool) -> None:
    def measured(raw: Raw) -> None:
        raw["sharing"]["percentile"] = percentile
        raw["jobs"][SECOND]["profile"]["memory"] = ["25Gi", "24Gi"]
        raw["jobs"][SECOND]["options"][0]["groups"][0]["gpu_memory"] = "39Gi"

    found = check(lambda _: None, measured)
    assert [v.rule for v in found.violations] == ([] if ok else ["gpu_memory"] * 2)


@pytest.mark.parametrize("kind", ["wait", "start"])
def test_a_group_that_ran_counts_as_new_if_anybody_leaves_or_joins(kind: str) -> None:
    def three(raw: Raw) -> None:
        raw["sharing"]["most"] = 3
        third = copy.deepcopy(raw["jobs"][OLDER])
        del third["running"]
        raw["jobs"].append({**third, "name": "oldest"})
        if kind == "wait":
            raw["jobs"][-1]["running"] = raw["jobs"][OLDER]["running"]

    def joined(raw: Raw) -> None:
        if kind == "wait":  # it ran, and migrates elsewhere
            raw["decisions"].append(placed("oldest", "migrate", ("h2", [2, 3])))
            raw["sections"][1]["needs_spare"].append("oldest")
        else:
            raw["decisions"].append(placed("oldest", "start", ("h1", [0, 1])))
            raw["sections"][0]["groups"][2] = group(60, old=0, older=1, oldest=2)

    found = {violation.rule for violation in check(joined, three).violations}
    assert found == {"slowdown", "conflicts"}


def test_members_that_conflict_are_rejected_but_in_a_group_that_stays() -> None:
    conflicts = [["old", "older"], ["first", "second"]]
    found = check(lambda _: None, set_in("sharing", "conflicts", to=conflicts))
    assert rules_in(found) == {"conflicts"}


def lean(gpus: int, jobs: int, *, running_together: bool = False) -> Raw:
    """A host and pending jobs of two GPUs each."""
    raw = copy.deepcopy(ROUND)
    raw["cluster"]["hosts"] = [{"name": "h0", "gpus": gpus, "gpu_model": "V100"}]
    raw["jobs"] = [job(f"j{i}", TWICE) for i in range(jobs)]
    raw["sharing"] = {"as_needed": True}
    if running_together:
        for one in raw["jobs"][:2]:
            one["running"] = running(("h0", [0, 1]))
    return raw


@pytest.mark.parametrize(
    ("gpus", "jobs", "paired", "running_together", "ok"),
    [
        (8, 4, 1, False, False),  # nothing is missing
        (8, 4, 1, True, True),  # but it saved as much before
        (8, 4, 2, True, False),
        (7, 4, 1, False, True),  # one GPU is missing, two can be saved
        (7, 4, 2, False, False),
        (5, 4, 2, False, True),  # three are missing, four can be saved
    ],
)
def test_groups_are_formed_only_as_far_as_gpus_lack(
    gpus: int, jobs: int, paired: int, running_together: bool, ok: bool
) -> None:
    decisions = []
    for i in range(jobs):
        kind = "keep" if running_together and i < 2 else "start"
        gpu = 2 * (i // 2 if i < 2 * paired else i - paired)
        decision = placed(f"j{i}", kind, ("h0", [gpu, gpu + 1]))
        decisions.append(decision if gpu + 1 < gpus else {"job": f"j{i}", "decision": "wait"})
    entries = [group(20, **{f"j{2 * k}": 0, f"j{2 * k + 1}": 2}) for k in range(paired)]
    plan = {"decisions": decisions, "sections": [{"kind": "groups", "groups": entries}]}
    found = verify(parse_round(lean(gpus, jobs, running_together=running_together)), Plan(**plan))
    assert [violation.rule for violation in found.violations] == ([] if ok else ["as_needed"])


def test_shares_that_run_beside_each_other_saved_nothing() -> None:
    raw = lean(8, 0)
    shares = [{**share(f"s{i}", 500), "profile": {"stages": TWICE}} for i in range(4)]
    for i, one in enumerate(shares):
        del one["options"][0]["groups"][0]["cpu"]
        one["running"] = running(("h0", [6 + i // 2]))
    raw["jobs"] = [*(job(f"j{i}", TWICE, gpus=1) for i in range(2)), *shares]
    decisions = [placed(f"j{i}", "start", ("h0", [0])) for i in range(2)]
    decisions += [placed(f"s{i}", "keep", ("h0", [6 + i // 2])) for i in range(4)]
    entries = [{"kind": "groups", "groups": [group(20, j0=0, j1=2)]}]
    found = verify(parse_round(raw), Plan(decisions=decisions, sections=entries))
    assert [violation.rule for violation in found.violations] == ["as_needed"]


def test_reserved_and_unhealthy_gpus_are_missing() -> None:
    raw = lean(8, 4)
    plan = {
        "decisions": [placed(f"j{i}", "start", ("h0", [0, 1])) for i in range(2)]
        + [placed(f"j{i}", "start", ("h0", [2 * i, 2 * i + 1])) for i in (1, 2)],
        "sections": [{"kind": "groups", "groups": [group(20, j0=0, j1=2)]}],
    }
    plan["decisions"][2]["job"], plan["decisions"][3]["job"] = "j2", "j3"
    assert not verify(parse_round(raw), Plan(**plan)).ok
    reserved = {
        **raw,
        "reservations": [{"host": "h0", "gpus": [6, 7]}, {"host": "h0", "gpus": [7]}],
    }
    assert verify(parse_round(reserved), Plan(**plan)).ok
    sick = {"name": "h1", "gpus": 8, "gpu_model": "V100", "healthy": False}
    more = {**reserved, "cluster": {"hosts": [*raw["cluster"]["hosts"], sick]}}
    assert verify(parse_round(more), Plan(**plan)).ok
    well = {**sick, "healthy": True}
    more = {**reserved, "cluster": {"hosts": [*raw["cluster"]["hosts"], well]}}
    assert not verify(parse_round(more), Plan(**plan)).ok


def test_another_policy_has_no_groups() -> None:
    raw = lean(8, 2)
    del raw["sharing"], raw["policy"]
    for one in raw["jobs"]:
        del one["profile"]
    plan = {
        "decisions": [placed(f"j{i}", "start", ("h0", [0, 1])) for i in range(2)],
        "sections": [{"kind": "groups", "groups": [group(20, j0=0, j1=2)]}],
    }
    found = verify(parse_round(raw), Plan(**plan))
    assert rules_in(found) == {"section", "gpu_capacity"}


member_noise = st.fixed_dictionaries(
    {
        "job": st.sampled_from([*(one["name"] for one in ROUND["jobs"]), "ghost", 3, None]),
        "offset": st.integers(-1, 5) | st.none() | st.booleans(),
    }
)
group_noise = st.fixed_dictionaries(
    {"members": st.lists(member_noise | st.none(), max_size=5) | st.none()},
    optional={"period": st.integers(-1, 60) | st.none(), "other": st.none()},
)
place_noise = st.fixed_dictionaries(
    {
        "index": st.integers(0, 2),
        "host": st.sampled_from(["h0", "h1", "h2", "nowhere"]),
        "gpus": st.lists(st.integers(0, 4), max_size=3),
    }
)
decision_noise = st.fixed_dictionaries(
    {
        "job": st.sampled_from([one["name"] for one in ROUND["jobs"]]),
        "decision": st.sampled_from(["start", "keep", "migrate", "preempt", "wait"]),
        "option": st.none() | st.integers(0, 1),
        "tasks": st.lists(place_noise, max_size=3),
    }
)


@settings(max_examples=examples(day=50, nightly=200))
@given(
    listed=st.lists(group_noise | st.none(), max_size=4) | st.none(),
    noise=st.lists(decision_noise, max_size=8),
)
def test_no_section_of_groups_makes_the_verifier_stumble(listed: Any, noise: list[Raw]) -> None:
    section = {"kind": "groups", "groups": listed}
    round_ = parse_round(ROUND)
    for decisions in (noise, PLAN["decisions"], [*PLAN["decisions"], *noise]):
        plan = Plan.model_validate({"decisions": decisions, "sections": [section]})
        assert list(verify(round_, plan).terms) == list(TERMS)


def test_the_example_of_the_page_is_a_round_and_its_plan_is_valid() -> None:
    page = Path(__file__).parents[3] / "docs" / "formulations" / "interleaving.md"
    examples = [
        parse_yaml(text) for text in re.findall(r"```yaml\n(.*?)```", page.read_text(), re.DOTALL)
    ]
    (raw,) = (one for one in examples if "jobs" in one)
    (with_sections,) = (one for one in examples if "sections" in one)
    (profile,) = (one["profile"] for one in examples if "profile" in one)
    names = [one["name"] for one in raw["jobs"]]
    plan = {"decisions": [placed(n, "start", ("h0", [0, 1])) for n in names], **with_sections}
    assert verify(parse_round(raw), Plan.model_validate(plan)).ok
    raw["jobs"][0]["profile"] = profile
    raw["jobs"][0]["options"][0]["groups"][0]["memory"] = "128000Mi"
    assert len(parse_round(raw).jobs[0].options) == 2
