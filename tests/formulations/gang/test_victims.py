"""Victim selection for few pending jobs: plans, bounds, and hitting sets of hosts to return."""

from __future__ import annotations

import random
import time
from itertools import combinations
from typing import Any

import pytest
from gang_parameters import set_parameters
from hypothesis import HealthCheck, assume, given, settings

from examples import tried
from placewright.formulations.gang.models.host.solve import select_victims
from placewright.formulations.gang.problem.compile import compile_round
from placewright.formulations.plan_messages import Candidate
from placewright.formulations.session import Session
from placewright.instances import return_hosts
from placewright.instances.documents.plan import Certificate
from placewright.instances.documents.round import Round
from placewright.instances.verify import verify
from placewright.rounds import solve_round
from placewright.solver import Arrays, InProcess, Outcome
from tests.formulations.gang import oracle, tiny
from tests.formulations.gang import oracle_running as moves

STABLE: dict[str, Any] = {
    "suppress_health_check": list(HealthCheck),
}


def solved(round_: Round, backend: str) -> Certificate:
    plan = solve_round(round_, backend=backend, gap=0.0, isolation="none")
    checked = verify(round_, plan)
    assert checked.ok, checked.violations
    assert plan.certificate is not None
    assert plan.certificate.degraded == ()
    return plan.certificate


@pytest.mark.parametrize("preset", [None, "minimal_victims"])
@pytest.mark.parametrize(
    ("backend", "examples"), [("highs", 25), ("cp-sat", 8), ("cbc", 6), ("scip", 6)]
)
def test_no_plan_beats_a_bound_on_who_must_stop(
    monkeypatch: pytest.MonkeyPatch, backend: str, examples: int, preset: str | None
) -> None:
    set_parameters(monkeypatch, "run", max_exact_variables=-1)
    set_parameters(monkeypatch, "neighbourhood", max_failures=2)

    @settings(max_examples=tried(examples), **STABLE)
    @given(tiny.running_rounds(preset=preset))
    def check(drawn: Round) -> None:
        terms = ("value", "disruption", *(t for t in drawn.policy.terms if t == "spread"))
        policy = drawn.policy.model_copy(update={"terms": terms, "vacate": (), "freeing": None})
        round_ = drawn.model_copy(update={"policy": policy})
        try:
            plans = moves.attainable_with_moves(round_)
        except oracle.TooManyPlansError:
            assume(False)
        certificate = solved(round_, backend)
        oracle.check_bounds(plans, certificate)

    check()


def loaned(seed: int, hosts: int) -> Round:
    """Full hosts of two GPUs, held by jobs on one to three of them whose moves cost too much."""
    rng = random.Random(seed)
    slots = [(h, g) for h in range(hosts) for g in range(2)]
    rng.shuffle(slots)
    jobs = []
    while slots:
        places = [slots.pop() for _ in range(min(len(slots), rng.choice([1, 1, 2, 3])))]
        tasks = [{"index": i, "host": f"h{h}", "gpus": [g]} for i, (h, g) in enumerate(places)]
        cost = rng.choice([0, *(1000 * k for k in range(1, 60))])
        jobs.append(
            {
                "name": f"job-{len(jobs)}",
                "options": [{"groups": [{"count": len(places), "gpu": 1}]}],
                "running": {"tasks": tasks, "preempt_cost": cost, "migrate_cost": 10**6},
            }
        )
    entries = [{"name": f"h[0-{hosts - 1}]", "gpus": 2, "gpu_model": "T4"}]
    return Round.model_validate({"cluster": {"hosts": entries}, "jobs": jobs})


def cheapest(round_: Round, hosts: int, count: int) -> int:
    """The least cost of stopping all jobs on `count` of the hosts."""
    jobs = [
        (
            {int(task.host[1:]) for task in job.running.tasks},
            (job.running.preempt_cost or 0) + job.options[0].milli_gpu,
        )
        for job in round_.jobs
        if job.running is not None
    ]
    return min(
        sum(cost for where, cost in jobs if where & {*chosen})
        for chosen in combinations(range(hosts), count)
    )


@pytest.mark.nightly(after=7)
@pytest.mark.parametrize("seed", range(12))
def test_hosts_to_return_are_a_cheapest_hitting_set_without_the_whole_exact_model(
    monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    set_parameters(monkeypatch, "run", max_exact_variables=-1)
    hosts, count = 14, 2 + seed % 4
    round_ = loaned(seed, hosts)
    certificate = solved(return_hosts(round_, [f"h[0-{hosts - 1}]"], count), "highs")
    value, disruption = certificate.terms
    assert (value.value, disruption.value) == (1, cheapest(round_, hosts, count))
    assert disruption.bound == disruption.value


def test_rounds_of_many_pending_jobs_or_other_terms_are_left_to_the_counts() -> None:
    round_ = loaned(0, 4)
    made = return_hosts(round_, ["h[0-3]"], 1)
    session: Any = None  # nothing is asked of it
    many = made.jobs[-1:] * 40
    named = tuple(job.model_copy(update={"name": f"r{i}"}) for i, job in enumerate(many))
    many_pending = made.model_copy(update={"jobs": (*round_.jobs, *named)})
    assert list(select_victims(compile_round(many_pending), session)) == []
    policy = made.policy.model_copy(update={"terms": ("disruption", "value")})
    other = made.model_copy(update={"policy": policy})
    assert list(select_victims(compile_round(other), session)) == []


def test_a_plan_that_only_its_first_term_was_searched_for_is_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    problem = compile_round(return_hosts(loaned(0, 6), ["h[0-5]"], 2))
    session = Session(InProcess().solve, deadline=time.monotonic() + 60.0)
    searches: list[Arrays] = []

    def once(self: Session, arrays: Arrays, **_: Any) -> Outcome | None:
        searches.append(arrays)
        return optimise(self, arrays) if len(searches) == 1 else None

    optimise = Session.optimise
    monkeypatch.setattr(Session, "optimise", once)
    steps = list(select_victims(problem, session))
    assert len(searches) == 2
    assert any(isinstance(step, Candidate) and step.preempted for step in steps)
