"""Rounds that begin with a plan of a similar round."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from fuzz.play import read
from fuzz.policies import deadline, gang, geo, interleaving, replicas
from fuzz.policy import TooManyPlansError
from placewright.instances.documents.plan import DecisionKind
from placewright.instances.documents.round import Round
from placewright.instances.edits.apply import apply_edits
from placewright.instances.errors import InvalidInputError
from placewright.instances.io.files import parse_edits, parse_round
from placewright.instances.verify import verify
from placewright.rounds import solve_round

HOSTS = {"name": "h[0-2]", "gpus": 2, "gpu_model": "A"}


def round_of(*jobs: dict[str, Any]) -> Round:
    head = {"apiVersion": "placewright/v1alpha2", "kind": "Round"}
    return parse_round({**head, "cluster": {"hosts": [HOSTS]}, "jobs": jobs})


def job(name: str, gpu: int = 2, **fields: Any) -> dict[str, Any]:
    return {"name": name, "options": [{"groups": [{"gpu": gpu}]}], **fields}


def edited(round_: Round, *edits: dict[str, Any]) -> Round:
    return apply_edits(round_, parse_edits({"edits": list(edits)}))


@pytest.mark.nightly(after=1)
@pytest.mark.parametrize("policy", [gang, interleaving, deadline, geo, replicas])
def test_a_plan_of_the_same_round_is_kept_and_what_follows_is_no_worse(policy: Any) -> None:
    """With no time at all, so that the plan itself has to be understood."""
    played = kept = seed = 0
    while played < 12:
        seed += 1
        try:
            round_ = read(policy.POLICY.draw(Random(seed)))
        except TooManyPlansError:
            continue
        played += 1
        best = solve_round(round_, isolation="none", time_limit=5.0)
        again = solve_round(round_, isolation="none", time_limit=0.0, start=best)
        assert verify(round_, again).ok
        assert [t.value for t in again.certificate.terms] == [
            t.value for t in best.certificate.terms
        ]
        kept += again.decisions == best.decisions
    assert kept == played


def test_who_came_to_a_host_that_fails_is_left_out_and_comes_elsewhere_if_there_is_room() -> None:
    round_ = round_of(job("x"), job("y"))
    plan = solve_round(round_, isolation="none")
    where = {d.job: d.tasks[0].host for d in plan.decisions}
    failed = edited(round_, {"fail": [where["x"]]})
    found = solve_round(failed, isolation="none", time_limit=0.0, start=plan)
    by_name = {d.job: d for d in found.decisions}
    assert by_name["y"].tasks == next(d.tasks for d in plan.decisions if d.job == "y")
    assert by_name["x"].decision is DecisionKind.START
    assert by_name["x"].tasks[0].host not in where.values()


def test_a_victim_stays_once_nobody_comes_for_it() -> None:
    running = {"tasks": [{"host": "h0", "gpus": [0, 1]}]}
    others = [
        job(f"k{n}", priority=9, running={"tasks": [{"host": f"h{n}", "gpus": [0, 1]}]})
        for n in (1, 2)
    ]
    round_ = round_of(job("old", running=running), *others, job("new", priority=1, weight=3))
    plan = solve_round(round_, isolation="none")
    assert plan.decisions[0].decision is DecisionKind.PREEMPT
    gone = edited(round_, {"remove": ["new"]})
    found = solve_round(gone, isolation="none", time_limit=0.0, start=plan)
    assert found.decisions[0].decision is DecisionKind.KEEP
    assert not found.certificate.degraded


def test_a_plan_that_does_not_suit_the_round_at_all_is_no_fault() -> None:
    plan = solve_round(round_of(job("x")), isolation="none")
    other = round_of(job("x", gpu=1), job("z"))
    found = solve_round(other, isolation="none", start=plan)
    assert verify(other, found).ok
    assert not found.certificate.degraded
    assert found.certificate.terms[0].value == 3000


def test_what_is_no_plan_is_refused() -> None:
    start: Any = "plan.json"
    with pytest.raises(InvalidInputError, match=r"start: 'str': expected a Plan"):
        solve_round(round_of(job("x")), isolation="none", start=start)
