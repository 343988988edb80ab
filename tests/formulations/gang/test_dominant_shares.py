"""Tiny rounds with guarantees and shares: the optimum of all plans, and bounds that hold.

The oracle reads entitlement and shares off the documents by their definition, and enumerates.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from gang_parameters import set_parameters
from hypothesis import HealthCheck, assume, given, settings

from examples import tried
from placewright.formulations.gang.heuristics.displace import displace_greedily
from placewright.formulations.gang.heuristics.search import scalarise_entitled
from placewright.formulations.gang.models.tenant_share_rows import add_share_terms
from placewright.formulations.gang.placement.assignment import assign
from placewright.formulations.gang.placement.placement import Placement
from placewright.formulations.gang.placement.preemption import repair_preemptions
from placewright.formulations.gang.problem.compile import compile_round
from placewright.instances.documents.plan import Certificate, Plan
from placewright.instances.documents.round import Round
from placewright.instances.verify import verify
from placewright.rounds import solve_round
from placewright.solver import InProcess, Limits, Model
from tests.formulations.gang import oracle, tiny_fair
from tests.formulations.gang import oracle_running as moves

STABLE: dict[str, Any] = {
    "suppress_health_check": [HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
}


def plans_of(round_: Round) -> set[tuple[int, ...]]:
    try:
        plans: set[tuple[int, ...]] = moves.attainable_with_moves(round_)
    except oracle.TooManyPlansError:
        assume(False)
    return plans


def solved(round_: Round, backend: str) -> tuple[Plan, Certificate]:
    """The plan, verified and made without a fault on the way, and its certificate."""
    plan = solve_round(round_, backend=backend, gap=0.0, isolation="none")
    checked = verify(round_, plan)
    assert checked.ok, checked.violations
    assert plan.certificate is not None
    assert plan.certificate.degraded == ()
    return plan, plan.certificate


def senses_of(certificate: Certificate) -> list[int]:
    return [oracle.SENSE[term.name] for term in certificate.terms]


@pytest.mark.nightly(after=1)
@pytest.mark.parametrize("kind", ["fair_rounds", "full_rounds"])
@pytest.mark.parametrize(
    ("backend", "examples"), [("highs", 45), ("cp-sat", 15), ("cbc", 8), ("scip", 8)]
)
def test_the_exact_model_proves_the_fairest_of_all_plans(
    backend: str, examples: int, kind: str
) -> None:
    @settings(max_examples=tried(examples), **STABLE)
    @given(getattr(tiny_fair, kind)())
    def check(round_: Round) -> None:
        plans = plans_of(round_)
        _, certificate = solved(round_, backend)
        senses = senses_of(certificate)
        best = max([s * v for s, v in zip(senses, plan, strict=True)] for plan in plans)
        assert [s * t.value for s, t in zip(senses, certificate.terms, strict=True)] == best
        assert certificate.status == "optimal"

    check()


@pytest.mark.nightly(after=1)
@pytest.mark.parametrize(
    ("backend", "examples", "table", "kind"),
    [
        ("highs", 25, 60_000, {"whole": True}),
        ("highs", 25, 60_000, {}),
        ("highs", 40, 60_000, None),
        ("cbc", 8, 0, {"whole": True}),
    ],
)
def test_no_fair_plan_beats_a_bound_of_the_count_model(
    monkeypatch: pytest.MonkeyPatch,
    backend: str,
    examples: int,
    table: int,
    kind: dict[str, bool] | None,
) -> None:
    set_parameters(monkeypatch, "models", max_host_table_entries=table)
    set_parameters(monkeypatch, "models", max_shape_class_pairs=8000 if table else 0)
    set_parameters(monkeypatch, "run", max_exact_variables=-1)
    set_parameters(monkeypatch, "neighbourhood", max_failures=2)

    @settings(max_examples=tried(examples), **STABLE)
    @given(tiny_fair.full_rounds() if kind is None else tiny_fair.fair_rounds(**kind))
    def check(round_: Round) -> None:
        plans = plans_of(round_)
        _, certificate = solved(round_, backend)
        oracle.check_bounds(plans, certificate)

    check()


@pytest.mark.nightly
def test_entitled_jobs_displace_and_are_never_displaced_by_borrowed_ones() -> None:
    """In exact plans of small rounds, and in plans by displacement with scalarised values."""
    displaced_for_entitled = 0

    @settings(max_examples=60, **STABLE)
    @given(tiny_fair.full_rounds())
    def check(round_: Round) -> None:
        nonlocal displaced_for_entitled
        problem = compile_round(round_)
        every_plan = moves.Enumeration(round_)
        index = {job.name: i for i, job in enumerate(round_.jobs)}
        plan, _ = solved(round_, "highs")
        pairs = [(index[d.job], index[by]) for d in plan.decisions for by in d.displaced_by]
        chosen = {index[d.job]: d.option for d in plan.decisions if d.option is not None}
        displaced = Placement(scalarise_entitled(problem))
        displace_greedily(displaced)
        repair_preemptions(displaced)
        loose = assign(displaced, "displacement")
        chosen_then = {job: option for job, (option, _) in loose.starts.items()}
        for stops, comes, options in [
            *((a, b, chosen) for a, b in pairs),
            *((a, b, chosen_then) for a, b in loose.preempted.items() if b >= 0),
        ]:
            victim, winner = round_.jobs[stops], round_.jobs[comes]
            mine = every_plan.precedence(victim, victim.running.option if victim.running else 0)
            theirs = every_plan.precedence(winner, options[comes])
            assert theirs > mine
            displaced_for_entitled += winner.priority <= victim.priority

    check()
    assert displaced_for_entitled >= 15, displaced_for_entitled


def fairest(without: str, term: str, *, relax: bool = False) -> float:
    """The best value of a term, or its relaxation's, without one block of rows.

    Tasks of a want 4 of 12 cores or 4 of 12 of the memory, those of b 3 cores; one of each may run.
    """

    def task(tenant: str, cpu: int, memory: int) -> list[dict[str, Any]]:
        group = {"gpu": 0, "cpu": f"{cpu}m", "memory": f"{memory}Mi"}
        job = {"tenant": tenant, "options": [{"groups": [group]}]}
        return [{**job, "name": f"{tenant}{cpu}{memory}-{i}"} for i in range(4)]

    round_ = Round.model_validate(
        {
            "cluster": {"hosts": [{"name": "h", "gpus": 0, "cpu": 0.012, "memory": "12Mi"}]},
            "tenants": [{"name": "a"}, {"name": "b"}],
            "jobs": [*task("a", 4, 0), *task("a", 0, 4), *task("b", 3, 0)],
            "policy": {"terms": ["share"]},
        }
    )
    problem = compile_round(round_)
    model = Model()
    y = model.variables("y", 3, upper=1)
    numbers = np.arange(3)
    add_share_terms(model, problem, y, numbers, np.zeros(3, dtype=np.int64), problem.shares)
    arrays = model.arrays(term, relax=relax)
    lifted = np.array([block == without for block in arrays.block_names])[arrays.row_block]
    arrays = replace(
        arrays,
        row_lower=np.where(lifted, -np.inf, arrays.row_lower),
        row_upper=np.where(lifted, np.inf, arrays.row_upper),
    )
    outcome = InProcess().solve("highs", arrays, Limits(seconds=10.0, gap=0.0))
    assert outcome.objective is not None
    return outcome.objective


def test_the_rows_of_shares_say_what_they_are() -> None:
    assert (fairest("", "share"), fairest("", "share_2")) == (25_000, 33_333 + 25_000)


@pytest.mark.parametrize("block", ["share", "one dominant", "ordered"])
def test_the_rows_of_shares_need_the_block(block: str) -> None:
    values = [(fairest("", term), fairest(block, term)) for term in ("share", "share_2")]
    assert all(before <= after for before, after in values)
    assert any(before < after for before, after in values)


def test_the_relaxation_of_shares_needs_the_rows_that_add_up() -> None:
    with_them, without = (fairest(block, "share_2", relax=True) for block in ("", "sum"))
    assert with_them < without
