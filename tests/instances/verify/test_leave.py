"""Who may preempt whom: a job has nothing of a victim that it may not preempt."""

from __future__ import annotations

from typing import Any

import pytest

from placewright import solve_round
from placewright.instances.documents.plan import Plan, Reason
from placewright.instances.documents.round import Round
from placewright.instances.verify import verify


def job(name: str, gpus: int, priority: int = 0, **fields: Any) -> Any:
    return {"name": name, "priority": priority, "options": [{"groups": [{"gpu": gpus}]}], **fields}


def runs(name: str, host: str, gpus: list[int], *caps: str) -> Any:
    running = {"tasks": [{"host": host, "gpus": gpus}]}
    return job(name, len(gpus), running=running, caps=list(caps))


ROUND = {
    "cluster": {"hosts": [{"name": "h[0-1]", "gpus": 8, "gpu_model": "A100"}]},
    "caps": {"x": {"gpus": 100}, "y": {"gpus": 100}},
    "jobs": [
        runs("v", "h0", [0, 1, 2, 3], "x"),
        runs("w", "h0", [4, 5, 6, 7], "x"),
        runs("u", "h1", [0, 1, 2, 3, 4, 5, 6, 7], "y"),
        job("of-x", 4, 2, preempts=["x"]),
        job("of-y", 4, 2, preempts=["y"]),
        job("polite", 4, 2, preempts=[]),
    ],
    "policy": {"terms": ["value"]},
}


@pytest.mark.parametrize(
    ("starts", "broken"),
    [({"of-x": "v"}, set()), ({"of-y": "v"}, {"displaced_by", "preemption"}),
     ({"polite": "v"}, {"displaced_by", "preemption"}),
     ({"of-x": "v", "of-y": "w"}, {"displaced_by", "preemption"})],
)  # fmt: skip
def test_a_victim_gives_way_to_those_alone_that_may_preempt_it(starts, broken):
    round_ = Round.model_validate(ROUND)
    where = {"v": [0, 1, 2, 3], "w": [4, 5, 6, 7]}
    by = {victim: one for one, victim in starts.items()}
    decisions = []
    for one in ROUND["jobs"]:
        name = one["name"]
        if name in by:
            decision = {"decision": "preempt", "displaced_by": by[name]}
        elif name in starts:
            task = {"host": "h0", "gpus": where[starts[name]]}
            decision = {"decision": "start", "option": 0, "tasks": [task]}
        elif "running" in one:
            decision = {"decision": "keep", "option": 0, "tasks": one["running"]["tasks"]}
        else:
            decision = {"decision": "wait"}
        decisions.append({"job": name, **decision})
    moves = [{"job": victim, "kind": "preempt"} for victim in by]
    plan = Plan.model_validate(
        {"decisions": decisions, "sections": [{"kind": "moves", "moves": moves}]}
    )
    found = {one.rule for one in verify(round_, plan).violations} - {"moves", "section"}
    assert found == broken


@pytest.mark.parametrize("may", [["y"], []])
def test_what_a_victim_gives_back_is_room_for_those_alone_that_may_preempt_it(may):
    """Six GPUs of v's eight go to the first; a job for the other two waits, and says why."""
    round_ = Round.model_validate(
        {
            "cluster": {"hosts": [{"name": "h0", "gpus": 8, "gpu_model": "A100"}]},
            "caps": ROUND["caps"],
            "jobs": [
                runs("v", "h0", list(range(8)), "x"),
                job("first", 6, 2, preempts=["x"]),
                job("other", 2, 1, preempts=may),
            ],
            "policy": {"terms": ["value"]},
        }
    )
    plan = solve_round(round_, isolation="none")
    said = {d.job: d for d in plan.decisions}
    assert (said["first"].decision, said["other"].reason) == ("start", "capacity")
    assert verify(round_, plan).ok
    wrong = said["other"].model_copy(update={"reason": Reason.NOT_CHOSEN, "detail": None})
    decisions = [wrong if d.job == "other" else d for d in plan.decisions]
    assert not verify(round_, plan.model_copy(update={"decisions": tuple(decisions)})).ok


def test_quota_that_a_victim_gives_back_is_for_those_alone_that_may_preempt_it():
    hosts = [{"name": "h[0-1]", "gpus": 8, "gpu_model": "A100"}]
    round_ = Round.model_validate(
        {
            "cluster": {"hosts": hosts},
            "caps": {"x": {"gpus": 8}},
            "jobs": [
                runs("v", "h0", list(range(8)), "x"),
                job("first", 6, 2, caps=["x"]),
                job("polite", 2, 1, preempts=[], caps=["x"], weight=0),
            ],
            "policy": {"terms": ["value"]},
        }
    )
    plan = solve_round(round_, isolation="none")
    said = {d.job: d for d in plan.decisions}
    assert (said["first"].decision, said["polite"].reason) == ("start", "quota")
    detail = said["polite"].detail
    assert (detail.job, detail.used, detail.limit) == ("v", 8000, 8000)
    assert verify(round_, plan).ok
