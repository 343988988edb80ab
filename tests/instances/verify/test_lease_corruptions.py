"""Plans of leases: a valid one has the terms worked out by hand, each corruption breaks its rule.

Leases of 1000 seconds from 10000 on. V100: h0, h1 (away in leases 6 and 7) and w0 (away in leases
0 and 1); A100: a0. Four GPUs each.

kept    runs on h0, GPUs 0 and 1, and keeps its promise: leases 0 to 2
starts  on a0 in lease 0, with its faster option; victim, which ran there, stops for it
later   waits for leases 3, 5 and 6: eight GPUs of any model, slower as they are on two hosts
worse   ran on w0 and must leave; its promise is broken for a later one, lease 8
lost    its promise is broken, and it asks for no other
refused, denied: no eight V100 in time; leases 2, 4 and 5 are offered to the former
rest    runs on h0, GPU 2, without a deadline; works starts on h1; pin holds GPU 3 of h0 for four
        leases; early is not ready
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
from placewright.instances.verify.rules.deadline.leases import RULES_OF_LEASES
from placewright.instances.verify.rules.deadline.promises import (
    RULES_OF_PROMISES,
    RULES_OF_REFUSALS,
)


def option(gpus: int, *, count: int = 1, model: str | None = "V100") -> Raw:
    group = {"count": count, "gpu": gpus}
    return {"groups": [group if model is None else {**group, "gpu_models": [model]}]}


def due(*times: tuple[int, int]) -> list[Raw]:
    return [{"at": at, "value": value} for at, value in times]


def job(name: str, work: int | None = None, **fields: Any) -> Raw:
    """A job of two V100, with `running` as (host, GPUs); other fields are those of a deadline."""
    made: Raw = {"name": name, "options": fields.pop("options", [option(2)])}
    for field in ("weight", "priority", "tenant"):
        if field in fields:
            made[field] = fields.pop(field)
    if "running" in fields:
        host, gpus = fields.pop("running")
        made["running"] = {"tasks": [{"host": host, "gpus": gpus}]}
    if fields.pop("pinned", False):
        made["running"]["pinned"] = True
    return made if work is None else {**made, "deadline": {"work_s": work, **fields}}


ROUND: Raw = {
    "apiVersion": "placewright/v1alpha2",
    "kind": "Round",
    "now": 10_000,
    "cluster": {
        "hosts": [
            {"name": "h[0-1]", "gpus": 4, "gpu_model": "V100"},
            {"name": "w0", "gpus": 4, "gpu_model": "V100"},
            {"name": "a0", "gpus": 4, "gpu_model": "A100"},
        ]
    },
    "tenants": [{"name": "t", "quota": {"gpu": 8}}],
    "jobs": [
        job(
            "kept",
            2500,
            options=[option(2), option(1)],
            due=due((13_000, 10)),
            promise={"at": 13_000, "value": 10},
            running=("h0", [0, 1]),
        ),
        job(
            "starts",
            1500,
            options=[option(2), option(4, model="A100")],
            due=due((11_000, 8), (15_000, 5)),
            paces=[{}, {"speed": 2500, "overhead_s": 100}],
        ),
        job(
            "later",
            1700,
            options=[option(4, count=2, model=None)],
            due=due((20_000, 6)),
            paces=[{"spanning": [[2, 800]]}],
            tenant="t",
        ),
        job(
            "worse",
            1000,
            due=due((19_000, 2)),
            promise={"at": 12_000, "value": 9},
            running=("w0", [0, 1]),
        ),
        job("lost", 1000, promise={"at": 11_000, "value": 7}),
        job("refused", 3000, options=[option(4, count=2)], due=due((12_000, 20))),
        job("denied", 3000, options=[option(4, count=2)], due=due((9000, 4))),
        job("rest", options=[option(1)], running=("h0", [2]), weight=3),
        job("works", 4000, options=[option(4)]),
        job("victim", options=[option(4, model="A100")], running=("a0", [0, 1, 2, 3]), priority=5),
        job("pin", 3500, options=[option(1)], running=("h0", [3]), pinned=True),
        job("early", 100, options=[option(0, model=None)], ready=10_001),
    ],
    "leases": {
        "length_s": 1000,
        "horizon": 10,
        "outages": [
            {"host": "h1", "start": 16_999, "end": 17_001},
            {"host": "w0", "end": 12_000},
        ],
    },
    "policy": {"formulation": "deadline"},
}


def placed(name: str, kind: str, host: str, gpus: list[int], option: int = 0) -> Raw:
    tasks = [{"host": host, "gpus": gpus}]
    return {"job": name, "decision": kind, "option": option, "tasks": tasks}


def promised(name: str, at: int, value: int, finish: int, *spans: list[int], o: int = 0) -> Raw:
    promise = {"at": at, "value": value}
    return {"job": name, "option": o, "promise": promise, "finish": finish, "leases": [*spans]}


KEPT, STARTS, LATER, WORSE, LOST, REFUSED, DENIED, REST, WORKS, VICTIM, PIN, EARLY = range(12)
PLAN: Raw = {
    "decisions": [
        placed("kept", "keep", "h0", [0, 1]),
        placed("starts", "start", "a0", [0, 1, 2, 3], 1),
        {"job": "later", "decision": "wait", "reason": "promised_later"},
        {"job": "worse", "decision": "preempt"},
        {"job": "lost", "decision": "wait"},
        {"job": "refused", "decision": "wait", "reason": "refused"},
        {"job": "denied", "decision": "wait"},
        placed("rest", "keep", "h0", [2]),
        placed("works", "start", "h1", [0, 1, 2, 3]),
        {"job": "victim", "decision": "preempt", "displaced_by": "starts"},
        placed("pin", "keep", "h0", [3]),
        {"job": "early", "decision": "wait"},
    ],
    "sections": [
        {
            "kind": "leases",
            "length": 1000,
            "jobs": [
                promised("kept", 13_000, 10, 12_500, [0, 3]),
                promised("starts", 11_000, 8, 10_700, [0, 1], o=1),
                promised("later", 20_000, 6, 16_125, [3, 4], [5, 7]),
                promised("worse", 19_000, 2, 19_000, [8, 9]),
            ],
            "broken": [
                {"job": "worse", "promise": {"at": 12_000, "value": 9}},
                {"job": "lost", "promise": {"at": 11_000, "value": 7}},
            ],
            "refused": [
                {
                    "job": "refused",
                    "offer": {"option": 0, "at": 16_000, "leases": [[2, 3], [4, 6]]},
                },
                {"job": "denied"},
            ],
        },
        {"kind": "moves", "steps": ["worse", "victim"], "needs_spare": []},
    ],
}
TERMS = {
    "broken": 9 - 2 + 7,
    "admitted": 10 + 8 + 6 + 2,
    "disruption": 2000 + 4000,
    "best_effort_1": 0,  # of the victim's priority
    "best_effort_2": 3 * 1_000_000 // 10 + 1_000_000 // 4 + 1_000_000 * 10 // 35,
    "early": 2000 + 4000,
    "spread": 0,
    "opened": 1,
}

check = partial(verified, ROUND, PLAN)


def add(name: str, entry: Any) -> Edit:
    return lambda raw: raw["sections"][0][name].append(entry)


def set_promise(number: int, *entry: Any, **fields: Any) -> Edit:
    name = PLAN["sections"][0]["jobs"][number]["job"]
    return set_in("sections", 0, "jobs", number, to=promised(name, *entry, **fields))


def set_offer(at: int, *spans: list[int], option: int = 0) -> Edit:
    offer = {"option": option, "at": at, "leases": [*spans]}
    return set_in("sections", 0, "refused", 0, "offer", to=offer)


S = "sections[0]"
CORRUPTIONS: dict[str, Corruption] = {
    "leases of another length": (
        set_in("sections", 0, "length", to=999),
        {"leases"},
        f"{S}.length",
    ),
    "the section twice": (
        lambda raw: raw["sections"].append(copy.deepcopy(raw["sections"][0])),
        {"leases"},
        "sections[2]",
    ),
    "no section": (
        drop("sections", 0),
        {"leases", "lease_reason", "displaced_by", "preemption"},
        "sections",
    ),
    "a field too much": (
        set_in("sections", 0, "good", to=1),
        {"section", "lease_reason", "displaced_by", "preemption"},
        f"{S}.good",
    ),
    "a finish that is no number": (
        set_in("sections", 0, "jobs", 1, "finish", to="soon"),
        {"section", "lease_reason", "displaced_by", "preemption"},
        f"{S}.jobs[1].finish",
    ),
    "no leases": (
        set_in("sections", 0, "jobs", 1, "leases", to=[]),
        {"section", "lease_reason", "displaced_by", "preemption"},
        f"{S}.jobs[1].leases",
    ),
    "an interval of true": (
        set_in("sections", 0, "jobs", 1, "leases", 0, to=[False, True]),
        {"section", "lease_reason", "displaced_by", "preemption"},
        f"{S}.jobs[1].leases[0][0]",
    ),
    "an unknown job": (
        add("jobs", promised("ghost", 19_000, 2, 19_000, [8, 9])),
        {"promised_job"},
        f"{S}.jobs[4].job",
    ),
    "a job without a deadline": (
        add("jobs", promised("rest", 19_000, 2, 19_000, [8, 9])),
        {"promised_job"},
        f"{S}.jobs[4].job",
    ),
    "a job promised twice": (
        add("jobs", promised("worse", 19_000, 2, 18_000, [7, 8])),
        {"promised_job"},
        f"{S}.jobs[4].job",
    ),
    "an option that the job has not": (
        set_in("sections", 0, "jobs", 2, "option", to=1),
        {"promised_job", "lease_reason", "refusals"},
        f"{S}.jobs[2].job",
    ),
    "a value that the due time has not": (
        set_in("sections", 0, "jobs", 0, "promise", "value", to=11),
        {"promise"},
        f"{S}.jobs[0].promise",
    ),
    "a time that is not due": (
        set_in("sections", 0, "jobs", 1, "promise", "at", to=11_001),
        {"promise"},
        f"{S}.jobs[1].promise",
    ),
    "intervals that touch": (
        set_promise(2, 20_000, 6, 15_125, [3, 5], [5, 6]),
        {"lease_times"},
        f"{S}.jobs[2].leases[1]",
    ),
    "intervals out of order": (
        set_promise(2, 20_000, 6, 16_125, [5, 7], [3, 4]),
        {"lease_times"},
        f"{S}.jobs[2].leases[1]",
    ),
    "an empty interval": (
        set_promise(2, 20_000, 6, 16_125, [2, 2], [3, 4], [5, 7]),
        {"lease_times"},
        f"{S}.jobs[2].leases[0]",
    ),
    "an interval backwards": (
        set_promise(2, 20_000, 6, 16_125, [3, 4], [7, 5]),
        {"lease_times"},
        f"{S}.jobs[2].leases[1]",
    ),
    "a lease beyond the horizon": (
        set_promise(2, 20_000, 6, 20_125, [8, 11]),
        {"lease_times"},
        f"{S}.jobs[2].leases[0]",
    ),
    "another option than runs, at once": (
        set_promise(0, 13_000, 10, 12_500, [0, 3], o=1),
        {"lease_times", "current_lease"},
        f"{S}.jobs[0].leases[0]",
    ),
    "the current lease of a job that waits": (
        set_promise(2, 20_000, 6, 14_125, [0, 1], [3, 5]),
        {"current_lease"},
        f"{S}.jobs[2].leases",
    ),
    "a later lease of a job that runs": (
        set_promise(1, 15_000, 5, 11_700, [1, 2], o=1),
        {"current_lease"},
        f"{S}.jobs[1].leases",
    ),
    "another option than is placed": (
        set_promise(1, 15_000, 5, 11_500, [0, 2]),
        {"current_lease"},
        f"{S}.jobs[1].option",
    ),
    "a job that starts before it is ready": (
        decide(EARLY, placed("early", "start", "h0", [])),
        {"ready"},
        "decisions[11]",
    ),
    "too few leases": (
        set_promise(2, 20_000, 6, 15_125, [3, 4], [5, 6]),
        {"lease_work"},
        f"{S}.jobs[2].leases",
    ),
    "a lease too many": (
        set_promise(2, 20_000, 6, 17_000, [3, 4], [5, 7], [8, 9]),
        {"lease_work"},
        f"{S}.jobs[2].leases",
    ),
    "a finish too early": (
        set_in("sections", 0, "jobs", 2, "finish", to=16_124),
        {"lease_work"},
        f"{S}.jobs[2].finish",
    ),
    "a finish too late": (
        set_in("sections", 0, "jobs", 2, "finish", to=16_126),
        {"lease_work"},
        f"{S}.jobs[2].finish",
    ),
    "done after the time promised": (
        set_promise(0, 13_000, 10, 13_500, [0, 2], [3, 4]),
        {"lease_work"},
        f"{S}.jobs[0].finish",
    ),
    "a broken promise that is not named": (
        drop("sections", 0, "broken", 1),
        {"kept_promises"},
        f"{S}.broken",
    ),
    "a promise kept and called broken": (
        add("broken", {"job": "kept", "promise": {"at": 13_000, "value": 10}}),
        {"kept_promises"},
        f"{S}.broken[2]",
    ),
    "a broken promise named twice": (
        add("broken", {"job": "lost", "promise": {"at": 11_000, "value": 7}}),
        {"kept_promises"},
        f"{S}.broken[2]",
    ),
    "another promise than was made": (
        set_in("sections", 0, "broken", 1, "promise", "value", to=6),
        {"kept_promises"},
        f"{S}.broken[1]",
    ),
    "later without a promise": (
        set_in("decisions", LOST, "reason", to="promised_later"),
        {"lease_reason"},
        "decisions[4].reason",
    ),
    "refused without asking": (
        set_in("decisions", EARLY, "reason", to="refused"),
        {"lease_reason"},
        "decisions[11].reason",
    ),
    "a job on a host that is away": (
        decide(WORKS, placed("works", "start", "w0", [0, 1, 2, 3])),
        {"away"},
        "decisions[8].tasks[0].host",
    ),
    "a running job that does not leave": (
        both(
            decide(WORSE, placed("worse", "keep", "w0", [0, 1])),
            set_promise(3, 12_000, 9, 11_000, [0, 1]),
            drop("sections", 0, "broken", 0),
            set_in("sections", 1, "steps", to=["victim"]),
        ),
        {"away"},
        "decisions[3].tasks[0].host",
    ),
    "a refused job that is not named": (
        drop("sections", 0, "refused", 1),
        {"refusals"},
        f"{S}.refused",
    ),
    "a promised job called refused": (
        add("refused", {"job": "kept"}),
        {"refusals"},
        f"{S}.refused[2].job",
    ),
    "a job that asks for nothing called refused": (
        add("refused", {"job": "lost"}),
        {"refusals"},
        f"{S}.refused[2].job",
    ),
    "a refused job named twice": (
        add("refused", {"job": "denied"}),
        {"refusals"},
        f"{S}.refused[2].job",
    ),
    "an offer of an option that the job has not": (
        set_offer(16_000, [2, 3], [4, 6], option=1),
        {"offer"},
        f"{S}.refused[0].offer.option",
    ),
    "an offer that is done earlier": (
        set_offer(15_999, [2, 3], [4, 6]),
        {"offer"},
        f"{S}.refused[0].offer.at",
    ),
    "an offer out of order": (
        set_offer(16_000, [4, 6], [2, 3]),
        {"offer"},
        f"{S}.refused[0].offer.leases[1]",
    ),
    "an offer of too few leases": (
        set_offer(16_000, [4, 6]),
        {"offer"},
        f"{S}.refused[0].offer.leases",
    ),
    "an offer of a lease in which all GPUs are short": (
        set_offer(15_000, [2, 5]),
        {"offer"},
        f"{S}.refused[0].offer.leases",
    ),
    "an offer of a lease in which a host is away": (
        set_offer(17_000, [2, 3], [4, 5], [6, 7]),
        {"offer"},
        f"{S}.refused[0].offer.leases",
    ),
    "an offer of the current lease, which has no room": (
        set_offer(15_000, [0, 1], [2, 3], [4, 5]),
        {"offer"},
        f"{S}.refused[0].offer.leases",
    ),
    "a job stopped for one without a promise": (
        both(drop("sections", 0, "jobs", STARTS), add("refused", {"job": "starts"})),
        {"displaced_by", "preemption"},
        "decisions[9]",
    ),
    "a job stopped for nobody": (
        drop("decisions", VICTIM, "displaced_by"),
        {"displaced_by"},
        "decisions[9].displaced_by",
    ),
}


def test_the_plan_is_valid_and_has_these_terms() -> None:
    assert check(nothing) == Verification((), TERMS)


@pytest.mark.parametrize("name", CORRUPTIONS)
def test_a_corrupted_plan_of_leases_is_rejected_by_its_rules(name: str) -> None:
    edit, rules, where = CORRUPTIONS[name]
    assert_broken(check(edit), rules, where)


def test_every_rule_of_leases_is_broken_alone_by_some_corruption() -> None:
    alone = broken_alone(CORRUPTIONS.values())
    alone |= {next(iter(rules)) for _, rules in ROUNDS.values() if len(rules) == 1}
    assert alone >= {rule.id for rule in (*RULES_OF_LEASES, *RULES_OF_PROMISES, *RULES_OF_REFUSALS)}


def outage(host: str, start: int | None, end: int | None) -> Edit:
    entry = {"host": host, "start": start, "end": end}
    return lambda raw: raw["leases"]["outages"].append(entry)


def of_job(index: int, *path: str | int, to: Any) -> Edit:
    return set_in("jobs", index, *path, to=to)


ALL_MODELS = of_job(LATER, "options", 0, "groups", 0, "gpu_models", to=["V100", "A100"])
ROUNDS: dict[str, tuple[Edit, set[str]]] = {
    "both models by name": (ALL_MODELS, set()),
    "one model, too small": (
        of_job(LATER, "options", 0, "groups", 0, "gpu_models", to=["A100"]),
        {"lease_capacity"},
    ),
    "a quota too small by one": (
        set_in("tenants", 0, "quota", "gpu", to=7.999),
        {"lease_capacity"},
    ),
    "too few GPUs in lease 3": (
        both(outage("h[0-1]", 13_000, 13_001), outage("a0", 13_999, 14_000)),
        {"lease_capacity"},
    ),
    "just enough GPUs in lease 3": (outage("h[0-1]", 13_000, 14_000), set()),
    "too few GPUs in lease 2": (outage("h[0-1]", 12_999, 13_000), {"offer"}),
    "an outage before now": (outage("h[0-1]", 9000, 10_000), set()),
    "an outage that has begun": (outage("h1", None, 10_001), {"away"}),
    "an outage for good": (outage("a0", 19_000, None), set()),
    "a host that failed": (
        lambda raw: raw["cluster"]["hosts"][1].update(healthy=False),
        {"offer"},
    ),
    "a pinned job for five leases": (of_job(PIN, "deadline", "work_s", to=5000), set()),
    "a pinned job for six leases": (of_job(PIN, "deadline", "work_s", to=5001), {"offer"}),
    "a pinned job for ever": (lambda raw: raw["jobs"][PIN].pop("deadline"), {"offer"}),
    "a reservation, which is of now": (
        set_in("reservations", to=[{"host": "w0"}]),
        set(),
    ),
    "a job that is ready in lease 3": (of_job(LATER, "deadline", "ready", to=13_000), set()),
    "a job that is ready in lease 4": (
        of_job(LATER, "deadline", "ready", to=13_001),
        {"lease_times"},
    ),
    "less work": (of_job(LATER, "deadline", "work_s", to=1600), {"lease_work"}),
    "a slower pair of hosts": (
        of_job(LATER, "deadline", "paces", 0, "spanning", to=[[2, 799]]),
        {"lease_work"},
    ),
    "nobody need leave": (
        lambda raw: raw["leases"]["outages"].pop(),
        {"displaced_by", "preemption"},
    ),
}


@pytest.mark.parametrize("name", ROUNDS)
def test_the_plan_is_valid_in_some_rounds_only(name: str) -> None:
    of_round, rules = ROUNDS[name]
    found = check(nothing, of_round)
    assert rules_in(found) == rules


def test_a_pinned_job_runs_on_where_it_is() -> None:
    """Two tasks on two hosts, which slow it by half: six leases, in which nobody else has them."""
    pinned = {
        "tasks": [{"index": i, "host": f"h{i}", "gpus": [i]} for i in range(2)],
        "pinned": True,
    }
    two = {
        "cluster": {"hosts": [{"name": "h[0-1]", "gpus": 2, "gpu_model": "V100"}]},
        "jobs": [
            job(
                "pin",
                3000,
                options=[option(1, count=2)],
                due=due((20_000, 1)),
                paces=[{"spanning": [[2, 500]]}],
            )
            | {"running": pinned},
            job("other", 3000, options=[option(2)], due=due((16_000, 1))),
            job("third", 1000, options=[option(2)], due=due((16_000, 1))),
        ],
        "tenants": [],
        "leases": {"length_s": 1000, "horizon": 10},
    }

    def rules(*spans: list[int], finish: int = 16_000) -> set[str]:
        tasks = pinned["tasks"]
        plan = {
            "decisions": [
                {"job": "pin", "decision": "keep", "option": 0, "tasks": tasks},
                placed("other", "start", "h0", [0, 1]),
                {"job": "third", "decision": "wait"},
            ],
            "sections": [
                {
                    "kind": "leases",
                    "length": 1000,
                    "jobs": [promised("pin", 20_000, 1, finish, *spans)],
                    "broken": [],
                    "refused": [
                        {"job": "other"},
                        {"job": "third", "offer": {"option": 0, "at": 12_000, "leases": [[1, 2]]}},
                    ],
                }
            ],
        }
        found = verify(parse_round(copy.deepcopy(ROUND | two)), Plan.model_validate(plan))
        return rules_in(found) - {"gpu_capacity"}

    assert rules([0, 6]) == set()
    assert rules([0, 5]) == {"lease_work"}
    assert rules([0, 3], [4, 7], finish=17_000) == {"lease_times"}


def test_best_effort_counts_no_more_than_all_the_work() -> None:
    work = of_job(WORKS, "deadline", "work_s", to=500)
    assert check(nothing, work).terms["best_effort_2"] == TERMS["best_effort_2"] + 750_000


def test_best_effort_goes_on_at_the_pace_of_where_it_is() -> None:
    paces = [{"speed": 3000, "overhead_s": 40}]
    share = 1_000_000 * 3000 * 960 // (1000 * 4000)
    found = check(nothing, of_job(WORKS, "deadline", "paces", to=paces))
    assert found.terms["best_effort_2"] == TERMS["best_effort_2"] - 250_000 + share


@pytest.mark.parametrize(("healthy", "rules"), [(True, set()), (False, {"offer"})])
def test_nobody_is_offered_the_places_of_those_who_may_only_stay(
    healthy: bool, rules: set[str]
) -> None:
    """Four GPUs of h1 are left by promises; on h0 nothing may arrive if it is unhealthy."""

    def failing(raw: Raw) -> None:
        raw["cluster"]["hosts"].insert(0, {**raw["cluster"]["hosts"][0], "name": "h0"})
        raw["cluster"]["hosts"][0]["healthy"] = healthy
        raw["cluster"]["hosts"][1]["name"] = "h1"
        raw["jobs"][DENIED]["options"] = [option(2)]
        raw["jobs"][DENIED]["deadline"]["work_s"] = 1000

    offer = {"option": 0, "at": 11_000, "leases": [[0, 1]]}
    offered = set_in("sections", 0, "refused", to=[{"job": "refused"}])
    both_refused = both(offered, add("refused", {"job": "denied", "offer": offer}))
    found = check(both_refused, failing)
    assert rules_in(found) == rules


@pytest.mark.parametrize("end", [None, 9999])
def test_a_job_displaces_where_it_has_a_task_already(end: int | None) -> None:
    """It needs one more place there, whether or not it must leave its other host."""
    tasks = [{"index": i, "host": f"h{i}", "gpus": [0]} for i in range(2)]
    raw = {
        **ROUND,
        "cluster": {"hosts": [{"name": "h[0-1]", "gpus": 2, "gpu_model": "V100"}]},
        "tenants": [],
        "jobs": [
            job("leaves", 500, options=[option(1, count=2)], due=due((11_000, 1)))
            | {"running": {"tasks": tasks}},
            job("stops", options=[option(1)], running=("h0", [1])),
        ],
        "leases": {"length_s": 1000, "outages": [{"host": "h1", "end": end}]},
    }
    moved = [tasks[0], {"index": 1, "host": "h0", "gpus": [1]}]
    entry = promised("leaves", 11_000, 1, 10_500, [0, 1])
    plan = {
        "decisions": [
            {"job": "leaves", "decision": "migrate", "option": 0, "tasks": moved},
            {"job": "stops", "decision": "preempt", "displaced_by": "leaves"},
        ],
        "sections": [
            {"kind": "leases", "length": 1000, "jobs": [entry], "broken": [], "refused": []},
            {"kind": "moves", "steps": ["stops", "leaves"], "needs_spare": []},
        ],
    }
    found = verify(parse_round(copy.deepcopy(raw)), Plan.model_validate(plan))
    assert found.ok, found.violations


lease = st.integers(-1, 12)
number = lease | st.integers(8000, 20_000)
junk = st.sampled_from([None, True, "x", 1.5, 10**13, 10**30, [], {}])
interval = st.lists(lease, min_size=2, max_size=2)
due_time = st.fixed_dictionaries({"at": number, "value": number}) | junk
name = st.sampled_from([*(one["job"] for one in PLAN["decisions"]), "ghost"])
some_leases = st.lists(interval | junk, max_size=4) | st.lists(interval, min_size=1, max_size=3)
FIELDS: Raw = {
    "jobs": {"option": number, "promise": due_time, "finish": number, "leases": some_leases},
    "broken": {"promise": due_time},
    "refused": {
        "offer": st.fixed_dictionaries({"option": lease, "at": number, "leases": some_leases})
    },
}


@given(data=st.data())
def test_no_section_of_leases_makes_the_verifier_stumble(data: st.DataObject) -> None:
    """Some entries of the valid plan name another job, or have another value in one field."""
    raw = copy.deepcopy(PLAN)
    section = raw["sections"][0]
    for kind, fields in FIELDS.items():
        for entry in section[kind]:
            if data.draw(st.booleans()):
                continue
            field = data.draw(st.sampled_from(["job", *fields]))
            entry[field] = data.draw(name if field == "job" else fields[field])
    for field in data.draw(st.sets(st.sampled_from(sorted(section)), max_size=1)):
        section[field] = data.draw(junk)
    found = verify(parse_round(copy.deepcopy(ROUND)), Plan.model_validate(raw))
    assert list(found.terms) == list(TERMS)
    assert all("; expected " in violation.message for violation in found.violations)


def test_another_scheduler_may_leave_out_offers_and_reasons() -> None:
    bare = both(
        drop("decisions", LATER, "reason"),
        drop("decisions", REFUSED, "reason"),
        drop("sections", 0, "refused", 0, "offer"),
    )
    assert check(bare) == Verification((), TERMS)
