"""Rounds of some hundred GPUs with tied options, pending and running: valid, round by round."""

from __future__ import annotations

import random

import pytest
from gang_parameters import set_parameters

from examples import examples
from fuzz.small_units import as_document, in_small_units
from placewright.instances.checks.round import check_round
from placewright.instances.documents.job import Job
from placewright.instances.documents.plan import Plan
from placewright.instances.documents.round import Round
from placewright.instances.generators.gang import generate_round
from placewright.instances.verify import verify
from placewright.rounds import Changes, Engine, solve_round


def tied(job: Job, rng: random.Random) -> Job:
    """The job with slices, failure domains, a collective, a leader or a label, where they fit."""
    raw = in_small_units(job.model_dump())
    for option in raw["options"]:
        for group in option["groups"]:
            if group["count"] % 2 == 0 and rng.random() < 0.5:
                group["slices"] = {"size": 2, "required": rng.choice(["rack", "host"])}
            if group["count"] > 1 and rng.random() < 0.3:
                level, most = rng.choice([("rack", 4), ("host", 1), ("host", 2)])
                group["apart"] = {"level": level, "most": most}
            if group["gpu"] >= 1000:
                pattern = rng.choice(["ring", "tree"])
                group["communication"] = {"pattern": pattern, "data_mib": 1000}
        if job.running is None and rng.random() < 0.3:
            leader = {"name": "leader", "gpu": 0, "cpu": 1000}
            option |= {"groups": [*option["groups"], leader], "required": "block"}
    if rng.random() < 0.1:
        raw["anti_affinity"] = {"label": rng.choice("abcd"), "level": "host"}
    return Job.model_validate(as_document(raw))


def with_ties(round_: Round, terms: tuple[str, ...], seed: int) -> Round:
    rng = random.Random(seed)
    jobs = tuple(tied(job, rng) if rng.random() < 0.6 else job for job in round_.jobs)
    policy = round_.policy.model_copy(update={"terms": terms})
    changed = round_.model_copy(update={"jobs": jobs, "policy": policy})
    check_round(changed)
    return changed


def check(round_: Round, plan: Plan) -> None:
    found = verify(round_, plan)
    assert found.ok, found.violations[:3]
    assert plan.certificate is not None
    assert plan.certificate.degraded == ()


@pytest.mark.nightly(after=1)
@pytest.mark.parametrize(
    ("mix", "terms"),
    [
        ("hard", ("value", "disruption", "spread", "opened")),
        ("hard", ("value", "bottleneck", "spread")),
        ("tight", ("value", "disruption", "bottleneck")),
        ("easy", ("value", "bottleneck", "opened")),
    ],
)
@pytest.mark.parametrize("seed", [1, 2])
def test_plans_of_rounds_with_tied_options_are_valid(
    monkeypatch: pytest.MonkeyPatch, mix: str, terms: tuple[str, ...], seed: int
) -> None:
    set_parameters(monkeypatch, "run", max_exact_variables=-1)
    number = examples(day=256, nightly=1024)
    round_ = with_ties(generate_round(number, number // 8, mix=mix, seed=seed), terms, seed)
    plan = solve_round(round_, time_limit=examples(day=0.7, nightly=1.5), isolation="none")
    check(round_, plan)
    assert any(d.decision == "start" for d in plan.decisions)


@pytest.mark.nightly
def test_an_engine_goes_on_with_jobs_that_are_tied(monkeypatch: pytest.MonkeyPatch) -> None:
    set_parameters(monkeypatch, "run", max_exact_variables=-1)
    terms = ("value", "disruption", "spread", "opened")
    first = with_ties(generate_round(256, 120, mix="tight", seed=3), terms, 3)
    rng = random.Random(0)
    with Engine(first, isolation="none", time_limit=1.0) as engine:
        for number in range(4):
            changes = None
            if number:
                jobs = engine.state.jobs
                more = rng.sample(first.jobs, 6)
                changes = Changes(
                    removed=[job.name for job in rng.sample(jobs, 6)],
                    added=[
                        tied(job.model_copy(update={"running": None}), rng).model_copy(
                            update={"name": f"new-{number}-{i}"}
                        )
                        for i, job in enumerate(more)
                    ],
                )
            plan = engine.round(changes)
            check(engine.round_solved, plan)
            check_round(engine.state)
