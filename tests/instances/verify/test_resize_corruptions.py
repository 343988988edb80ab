"""A plan in which a job shrinks so that another starts: each corruption breaks its own rule."""

from __future__ import annotations

import pytest

from corrupting import Corruption, Raw, assert_broken, decide, drop, nothing, set_in, verified


def task(index: int, *gpus: int) -> Raw:
    return {"index": index, "host": "h0", "gpus": list(gpus)}


ROUND: Raw = {
    "cluster": {"hosts": [{"name": "h0", "gpus": 4, "gpu_model": "A100"}]},
    "now": 100,
    "tenants": [{"name": "t", "quota": {"gpu": 3}}],
    "policy": {
        "terms": ["value", "progress", "disruption"],
        "limits": {"disruption": {"resized_jobs": 1}},
    },
    "jobs": [
        {
            "name": "a",
            "tenant": "t",
            "options": [{"groups": [{"count": n, "gpu": 1}], "progress": n} for n in (3, 1, 4)],
            "running": {"tasks": [task(i, i) for i in range(3)], "resize_factor": 500},
        },
        {
            "name": "fixed",
            "options": [{"groups": [{"gpu": 1}]}, {"groups": [{"gpu": 0}]}],
            "running": {"pin": "size", "tasks": [task(0, 3)]},
        },
        {"name": "b", "options": [{"groups": [{"gpu": 2}]}]},
    ],
}
PLAN: Raw = {
    "decisions": [
        {"job": "a", "decision": "resize", "option": 1, "tasks": [task(0, 0)]},
        {"job": "fixed", "decision": "keep", "option": 0, "tasks": [task(0, 3)]},
        {"job": "b", "decision": "start", "option": 0, "tasks": [task(0, 1, 2)]},
    ],
    "sections": [{"kind": "moves", "steps": ["a"], "needs_spare": []}],
}
WAITS: Raw = {"job": "b", "decision": "wait"}
CORRUPTIONS: dict[str, Corruption] = {
    "it has the option that it ran": (
        lambda raw: raw["decisions"].__setitem__(
            slice(None),
            [
                {
                    "job": "a",
                    "decision": "resize",
                    "option": 0,
                    "tasks": [task(i, i) for i in range(3)],
                },
                raw["decisions"][1],
                WAITS,
            ],
        ),
        {"resized"},
        "decisions[0].option",
    ),
    "one whose size is pinned": (
        decide(1, {"job": "fixed", "decision": "resize", "option": 1, "tasks": [task(0)]}),
        {"legal_decision", "moves", "disruption_budget"},
        "decisions[1].decision",
    ),
    "a resize called a migration": (
        set_in("decisions", 0, "decision", to="migrate"),
        {"migrated"},
        "decisions[0].option",
    ),
    "a resize without its tasks": (
        set_in("decisions", 0, "tasks", to=[]),
        {"gang"},
        "decisions[0].tasks",
    ),
    "a resize that the order of moves does not name": (
        drop("sections", 0),
        {"moves"},
        "sections",
    ),
}


def test_the_plan_is_valid_before_it_is_corrupted() -> None:
    found = verified(ROUND, PLAN, nothing)
    assert found.violations == ()
    # It loses 3 and has half of 1, rounded down; it keeps a GPU, and takes none.
    assert dict(found.terms) == {"value": 0, "progress": -3, "disruption": 0}


@pytest.mark.parametrize("name", CORRUPTIONS)
def test_a_corrupted_plan_is_rejected(name: str) -> None:
    edit, rules, where = CORRUPTIONS[name]
    assert_broken(verified(ROUND, PLAN, edit), rules, where)


def test_one_pinned_to_its_place_comes_to_no_host_while_it_leaves_another() -> None:
    hosts = [{"name": f"h{i}", "gpus": 2, "gpu_model": "A100"} for i in range(3)]
    options = [{"groups": [{"count": n, "gpu": 1}], "progress": n} for n in (2, 3, 1)]
    tasks = [{"index": i, "host": f"h{i}", "gpus": [0]} for i in range(2)]
    job = {"name": "a", "options": options, "running": {"tasks": tasks, "pin": "place"}}
    round_ = {"cluster": {"hosts": hosts}, "now": 0, "policy": {"terms": ["value"]}, "jobs": [job]}

    def plan(kind: str, option: int | None, *at: tuple[int, int]) -> Raw:
        placed = [{"index": i, "host": f"h{h}", "gpus": [g]} for i, (h, g) in enumerate(at)]
        moves = {"kind": "moves", "steps": ["a"], "needs_spare": []}
        found = {"job": "a", "decision": kind, "tasks": placed}
        return {
            "decisions": [found if option is None else {**found, "option": option}],
            "sections": [moves],
        }

    for fine in (plan("resize", 1, (0, 0), (1, 1), (2, 0)), plan("resize", 2, (1, 0))):
        assert verified(round_, fine, nothing).violations == ()
    for option, at in ((1, [(0, 0), (0, 1), (2, 0)]), (2, [(2, 0)])):
        assert_broken(
            verified(round_, plan("resize", option, *at), nothing),
            {"resized"},
            "decisions[0].tasks",
        )
    moved = verified(round_, plan("migrate", 0, (0, 0), (2, 0)), nothing)
    assert_broken(moved, {"legal_decision"}, "decisions[0].decision")
    stopped = verified(round_, plan("preempt", None), nothing)
    assert "legal_decision" in {one.rule for one in stopped.violations}


def test_one_that_grows_counts_in_its_quota_and_the_budget() -> None:
    grown = [task(i, i) for i in range(4)]
    plan = {
        "decisions": [
            {"job": "a", "decision": "resize", "option": 2, "tasks": grown},
            WAITS,
        ],
        "sections": PLAN["sections"],
    }

    def without_fixed(raw: Raw) -> None:
        raw["jobs"].pop(1)

    def tight(raw: Raw) -> None:
        without_fixed(raw)
        raw["policy"]["limits"]["disruption"]["resized_jobs"] = 0
        raw["tenants"][0]["quota"]["gpu"] = 4

    assert_broken(verified(ROUND, plan, nothing, without_fixed), {"quota"}, "decisions[0]")
    assert_broken(verified(ROUND, plan, nothing, tight), {"disruption_budget"}, "decisions[0]")
