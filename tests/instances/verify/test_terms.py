"""Term values worked out by hand, and their invariance under renaming and reordering."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import examples
from placewright.instances.documents.plan import Plan
from placewright.instances.documents.round import Round
from placewright.instances.verify import verify

ALL_TERMS = ["value", "spread", "proximity", "opened", "leftover"]

CLUSTER = {
    "levels": ["block", "rack"],
    "domains": [
        {"name": "b0", "level": "block"},
        {"name": "b1", "level": "block"},
        {"name": "k0", "level": "rack", "parent": "b0"},
        {"name": "k1", "level": "rack", "parent": "b0"},
        {"name": "k2", "level": "rack", "parent": "b1"},
    ],
    "hosts": [
        {"name": "k0-h[0-1]", "parent": "k0", "gpus": 4, "gpu_model": "A100"},
        {"name": "k1-h[0-1]", "parent": "k1", "gpus": 4, "gpu_model": "A100"},
        {"name": "k2-h[0-1]", "parent": "k2", "gpus": 4, "gpu_model": "A100"},
    ],
}


def round_of(*jobs: dict[str, Any], **policy: Any) -> Round:
    return Round.model_validate(
        {"cluster": CLUSTER, "jobs": jobs, "policy": {"terms": ALL_TERMS, **policy}}
    )


def job(name: str, *groups: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"name": name, "options": [{"groups": groups}], **fields}


def start(name: str, *places: tuple[int, str, list[int]]) -> dict[str, Any]:
    """A started job: per task its group, host and GPUs; indices count up within a group."""
    counts: dict[int, int] = {}
    tasks = []
    for group, host, gpus in places:
        counts[group] = counts.get(group, -1) + 1
        tasks.append({"group": group, "index": counts[group], "host": host, "gpus": gpus})
    return {"job": name, "decision": "start", "option": 0, "tasks": tasks}


def terms_of(round_: Round, *decisions: dict[str, Any]) -> dict[str, int]:
    found = verify(round_, Plan.model_validate({"decisions": decisions}))
    assert found.violations == ()
    return found.terms


def pairs(*hosts: str) -> tuple[Round, dict[str, Any]]:
    """A round with one job of a whole GPU per host named, and its start there."""
    used: dict[str, int] = {}
    places = []
    for host in hosts:
        places.append((0, host, [used.setdefault(host, 0)]))
        used[host] += 1
    return round_of(job("a", {"gpu": 1, "count": len(hosts)})), start("a", *places)


def test_terms_follow_the_policys_order() -> None:
    round_ = round_of(terms=["opened", "value"])
    assert list(terms_of(round_)) == ["opened", "value"]


def test_an_empty_round_has_all_terms_zero() -> None:
    assert terms_of(round_of()) == dict.fromkeys(ALL_TERMS, 0)


def test_value_is_milli_gpu_times_weight_or_the_options_own() -> None:
    round_ = round_of(
        job("a", {"gpu": 0.5, "count": 2}, {"gpu": 2}, weight=3),
        {"name": "b", "weight": 9, "options": [{"value": 7, "groups": [{"gpu": 1}]}]},
        job("c", {"gpu": 1}, weight=100),
    )
    terms = terms_of(
        round_,
        start("a", (0, "k0-h0", [0]), (0, "k0-h0", [0]), (1, "k0-h0", [1, 2])),
        start("b", (0, "k0-h1", [3])),
        {"job": "c", "decision": "wait", "reason": "not_chosen"},
    )
    assert terms["value"] == 3 * 3000 + 7


def test_kept_jobs_count_in_no_free_term() -> None:
    places = start("a", (0, "k0-h0", [0, 1]), (0, "k2-h0", [0, 1]))["tasks"]
    round_ = round_of(job("a", {"gpu": 2, "count": 2}, running={"tasks": places}, weight=5))
    terms = terms_of(round_, {"job": "a", "decision": "keep", "option": 0, "tasks": places})
    assert terms == dict.fromkeys(ALL_TERMS, 0)


@pytest.mark.parametrize(
    ("hosts", "spread"),
    [
        (("k0-h0", "k0-h0", "k0-h1"), 0),
        (("k0-h0", "k1-h0", "k1-h0"), 3000 * 1),
        (("k0-h0", "k1-h0", "k2-h0"), 3000 * (1 * 2 + 4 * 1)),
        (("k0-h0", "k2-h0", "k2-h1"), 3000 * (1 * 1 + 4 * 1)),
    ],
)
def test_spread_weighs_domains_beyond_the_first(hosts: tuple[str, ...], spread: int) -> None:
    round_, decision = pairs(*hosts)
    assert terms_of(round_, decision)["spread"] == spread


@pytest.mark.parametrize(
    ("preferred", "weights", "spread"),
    [
        (None, None, 2000 * (1 + 4)),
        (["rack"], None, 2000),
        (["host"], None, 0),
        ([], None, 0),
        (["rack", "block"], {"block": 10}, 2000 * 10),
        (None, {"host": 3}, 2000 * 3),
        (None, {}, 0),
    ],
)
def test_spread_counts_preferred_levels_that_have_a_weight(
    preferred: list[str] | None, weights: dict[str, int] | None, spread: int
) -> None:
    group = {"gpu": 1, "count": 2, "preferred": preferred}
    round_ = round_of(job("a", group), spread_weights=weights)
    assert terms_of(round_, start("a", (0, "k0-h0", [0]), (0, "k2-h0", [0])))["spread"] == spread


def test_spread_looks_at_each_group_alone() -> None:
    round_ = round_of(job("a", {"gpu": 1, "count": 2}, {"gpu": 2}))
    decision = start("a", (0, "k0-h0", [0]), (0, "k0-h0", [1]), (1, "k2-h0", [0, 1]))
    assert terms_of(round_, decision)["spread"] == 0


@pytest.mark.parametrize(
    ("hosts", "proximity"),
    [
        (("k0-h0",), 0),
        (("k0-h0", "k0-h0"), 0),
        (("k0-h0", "k0-h1"), 1),
        (("k0-h0", "k1-h0"), 2),
        (("k0-h0", "k2-h0"), 3),
        (("k0-h0", "k0-h0", "k0-h1", "k1-h1", "k2-h0"), 0 + 1 + 2 + 3 + 1 + 2 + 3 + 2 + 3 + 3),
    ],
)
def test_proximity_sums_heights_over_pairs(hosts: tuple[str, ...], proximity: int) -> None:
    round_, decision = pairs(*hosts)
    assert terms_of(round_, decision)["proximity"] == proximity


def test_proximity_takes_all_groups_of_a_job_together_and_jobs_apart() -> None:
    round_ = round_of(job("a", {"gpu": 1}, {"gpu": 0, "name": "leader"}), job("b", {"gpu": 1}))
    terms = terms_of(
        round_,
        start("a", (0, "k0-h0", [0]), (1, "k1-h0", [])),
        start("b", (0, "k2-h0", [0])),
    )
    assert terms["proximity"] == 2


def test_proximity_without_levels_is_one_for_each_pair_of_hosts() -> None:
    round_ = Round.model_validate(
        {
            "cluster": {"hosts": [{"name": "h[0-2]", "gpus": 1, "gpu_model": "T4"}]},
            "jobs": [job("a", {"gpu": 1, "count": 3})],
            "policy": {"terms": ["proximity"]},
        }
    )
    decision = start("a", (0, "h0", [0]), (0, "h1", [0]), (0, "h2", [0]))
    assert terms_of(round_, decision) == {"proximity": 3}


def test_opened_and_leftover_look_at_hosts_that_receive_a_started_task() -> None:
    running = {"tasks": [{"host": "k0-h0", "gpus": [0]}]}
    elsewhere = {"tasks": [{"host": "k1-h0", "gpus": [0, 1]}]}
    round_ = round_of(
        job("kept", {"gpu": 0.25}, running=running),
        job("far", {"gpu": 2}, running=elsewhere),
        job("a", {"gpu": 1, "count": 2}),
        job("b", {"gpu": 0.5}),
    )
    terms = terms_of(
        round_,
        {"job": "kept", "decision": "keep", "option": 0, **running},
        {"job": "far", "decision": "keep", "option": 0, **elsewhere},
        start("a", (0, "k0-h0", [1]), (0, "k0-h1", [0])),
        start("b", (0, "k0-h1", [3])),
    )
    assert terms["opened"] == 1
    assert terms["leftover"] == (4000 - 250 - 1000) + (4000 - 1000 - 500)


def test_a_task_without_gpus_opens_its_host_and_leaves_all_of_it() -> None:
    round_ = round_of(job("a", {"gpu": 0}))
    terms = terms_of(round_, start("a", (0, "k0-h0", [])))
    assert (terms["opened"], terms["leftover"]) == (1, 4000)


@settings(max_examples=examples(day=15, nightly=60))
@given(
    sizes=st.lists(st.integers(1, 4), min_size=1, max_size=5),
    seed=st.integers(0, 2**16),
)
def test_renaming_and_reordering_change_no_term(sizes: list[int], seed: int) -> None:
    draw = random.Random(seed)
    hosts = [f"k{k}-h{h}" for k in range(3) for h in range(2)]
    free = [(host, gpu) for host in hosts for gpu in range(4)]
    draw.shuffle(free)
    jobs, decisions = [], []
    for number, size in enumerate(sizes):
        places = [free.pop() for _ in range(size)]
        name = f"j{number}"
        tasks = start(name, *((0, host, [gpu]) for host, gpu in places))["tasks"]
        fields: dict[str, Any] = {"weight": draw.randint(1, 3)}
        if draw.random() < 0.3:
            fields["running"] = {"tasks": tasks}
        jobs.append(job(name, {"gpu": 1, "count": size}, **fields))
        kind = "keep" if "running" in fields else draw.choice(["start", "start", "wait"])
        placed = {"option": 0, "tasks": tasks} if kind != "wait" else {}
        decisions.append({"job": name, "decision": kind, **placed})
    before = terms_of(round_of(*jobs), *decisions)

    names = {f"j{n}": f"job-{draw.random()}" for n in range(len(sizes))}
    names |= {name: f"n-{draw.random()}" for name in [*hosts, "k0", "k1", "k2", "b0", "b1"]}
    cluster = {
        "levels": CLUSTER["levels"],
        "domains": [
            {"name": names["b0"], "level": "block"},
            {"name": names["b1"], "level": "block"},
            {"name": names["k0"], "level": "rack", "parent": names["b0"]},
            {"name": names["k1"], "level": "rack", "parent": names["b0"]},
            {"name": names["k2"], "level": "rack", "parent": names["b1"]},
        ],
        "hosts": [
            {"name": names[h], "parent": names[h[:2]], "gpus": 4, "gpu_model": "A100"}
            for h in hosts
        ],
    }

    def renamed(tasks: list[dict[str, Any]]) -> list[dict[str, Any]]:
        moved = [{**task, "host": names[task["host"]]} for task in tasks]
        return draw.sample(moved, len(moved))

    for entry in jobs:
        entry["name"] = names[entry["name"]]
        if "running" in entry:
            entry["running"] = {"tasks": renamed(entry["running"]["tasks"])}
    for decision in decisions:
        decision["job"] = names[decision["job"]]
        decision["tasks"] = renamed(decision.get("tasks", []))
    for entries in (jobs, decisions, cluster["domains"], cluster["hosts"]):
        draw.shuffle(entries)
    other = Round.model_validate({"cluster": cluster, "jobs": jobs, "policy": {"terms": ALL_TERMS}})
    assert terms_of(other, *decisions) == before
