"""The loss of starting a job that waits, beside all plans of tiny rounds."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from examples import examples
from fuzz.play import read
from fuzz.policies.gang import POLICY
from fuzz.policy import TooManyPlansError
from placewright.explain.loss import Loss, can_be_asked, level_above, loss_of_starting
from placewright.instances.documents.plan import DecisionKind, Plan
from placewright.instances.documents.round import Round
from placewright.instances.errors import InvalidInputError
from placewright.instances.policies import sense_of
from placewright.instances.verify import verify
from placewright.rounds import solve_round

Values = dict[str, int]


def best_that_starts(raw: dict[str, Any], job: str) -> Values | None:
    """The term values of the best of all plans that start a job, by the fuzzer's rule book."""
    jobs = [
        {**one, "options": [{**o, "progress": int(one["name"] == job)} for o in one["options"]]}
        for one in raw["jobs"]
    ]
    policy = {**raw["policy"], "terms": ["progress", *raw["policy"]["terms"]]}
    plans = POLICY.plans({**raw, "jobs": jobs, "policy": policy}, Random(0))
    starting = [dict(p.terms) for p in plans if not p.broken and p.terms["progress"]]
    for plan in starting:
        del plan["progress"]
    return max(starting, key=signed, default=None)


def signed(values: Values) -> list[int]:
    return [v if sense_of(t) == "max" else -v for t, v in values.items()]


def asked(seeds: range) -> Iterator[tuple[dict[str, Any], Round, Plan, str]]:
    """Yield rounds, raw and read, with a plan and a job that waits in it."""
    for seed in seeds:
        try:
            raw = POLICY.draw(Random(seed))
        except TooManyPlansError:
            continue
        round_ = read(raw)
        if not can_be_asked(round_):
            continue
        # Every other plan is the greedy one, which may be improved.
        limit = None if seed % 2 else 0.0
        plan = solve_round(round_, gap=0.0, time_limit=limit, isolation="none")
        for decision in plan.decisions:
            if decision.decision is DecisionKind.WAIT and decision.job not in round_.invalid:
                yield raw, round_, plan, decision.job


def check(values: Values, best: Values | None, loss: Loss) -> None:
    """Assert that a loss is true of a plan with these values, and the best that starts the job."""
    if best is None:
        assert loss.startable is False
        return
    assert loss.startable is True
    assert loss.at_most is not None
    losses = [(t, b - a) for t, a, b in zip(values, signed(best), signed(values), strict=True)]
    differing = [(t, lost) for t, lost in losses if lost]
    if not differing:
        assert loss.at_least == 0
        return
    term, lost = differing[0]
    if lost < 0:
        assert loss.at_least == 0  # the plan is not the best
    elif loss.term == term:
        assert loss.at_least <= lost <= loss.at_most
    else:
        assert loss.at_least == 0
        assert list(values).index(term) > list(values).index(loss.term or "")


def test_the_interval_holds_the_true_loss_and_is_a_point_beside_proven_plans() -> None:
    points = never = 0
    for raw, round_, plan, job in asked(range(examples(day=10, nightly=60))):
        try:
            best = best_that_starts(raw, job)
        except TooManyPlansError:
            continue
        loss = loss_of_starting(round_, plan, job, isolation="none")
        assert plan.certificate is not None
        values = {term.name: term.value for term in plan.certificate.terms}
        check(values, best, loss)
        never += loss.startable is False
        if loss.plan is not None:
            assert verify(round_, loss.plan).ok
            by_name = {d.job: d for d in loss.plan.decisions}
            assert by_name[job].decision is DecisionKind.START
        if best is not None and plan.certificate.status == "optimal":
            assert loss.at_least == loss.at_most
            points += 1
    assert points >= examples(day=1, nightly=5)
    assert never >= examples(day=1, nightly=5)


def round_of(*jobs: dict[str, Any], **policy: Any) -> Round:
    return Round.model_validate(
        {
            "apiVersion": "placewright/v1alpha2",
            "kind": "Round",
            "cluster": {
                "apiVersion": "placewright/v1alpha2",
                "kind": "Cluster",
                "hosts": [{"name": "h0", "gpus": 4, "gpu_model": "A"}],
            },
            "jobs": jobs,
            "policy": policy,
        }
    )


def job(name: str, gpu: int, **fields: Any) -> dict[str, Any]:
    return {"name": name, "options": [{"groups": [{"gpu": gpu}]}], **fields}


def loss_in(round_: Round, name: str) -> Loss:
    plan = solve_round(round_, gap=0.0, isolation="none")
    return loss_of_starting(round_, plan, name, isolation="none")


def test_a_twin_is_a_tie_that_names_the_exchange() -> None:
    round_ = round_of(job("a", 4), job("b", 4))
    plan = solve_round(round_, isolation="none")
    (waits,) = [d.job for d in plan.decisions if d.decision is DecisionKind.WAIT]
    loss = loss_of_starting(round_, plan, waits, isolation="none")
    assert loss.is_tie
    (exchange,) = loss.instead
    assert {exchange.job, waits} == {"a", "b"}
    assert (exchange.before, exchange.after) == (DecisionKind.START, DecisionKind.WAIT)


def test_a_lower_class_costs_the_value_of_the_higher_one() -> None:
    loss = loss_in(round_of(job("high", 3, priority=1), job("low", 2)), "low")
    assert (loss.term, loss.at_least, loss.at_most) == ("value_1", 3000, 3000)
    assert loss.proof is not None


def test_no_plan_starts_a_job_that_may_not_preempt_who_runs() -> None:
    """The level above the terms is no precedence: who runs with equal priority stays."""
    runs = {"tasks": [{"host": "h0", "gpus": [0, 1, 2]}]}
    loss = loss_in(round_of(job("runs", 3, running=runs), job("asks", 2)), "asks")
    assert loss.startable is False
    assert loss.proof is not None


@pytest.mark.parametrize(
    ("round_", "name", "path"),
    [
        (round_of(job("a", 5), terms=["value", "progress"]), "a", ("policy",)),
        (round_of(job("a", 5)), "b", ("job",)),
    ],
)
def test_what_cannot_be_asked_is_an_error(round_: Round, name: str, path: tuple[str]) -> None:
    with pytest.raises(InvalidInputError) as error:
        level_above(round_, name)
    assert error.value.path == path
