"""Jobs with many options: sums alone are exact, cores are searched, and nothing better exists."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest
from gang_parameters import set_parameters
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from examples import tried
from placewright.formulations.gang.models.aggregate import solve
from placewright.formulations.gang.models.aggregate.host_classes import only_powers_of_two
from placewright.formulations.gang.models.aggregate.solve import (
    aggregate_models,
    option_reduced_costs,
)
from placewright.formulations.gang.models.aggregate.variables import AggregateModel
from placewright.formulations.gang.placement.placement import Placement
from placewright.formulations.gang.problem.compile import compile_round
from placewright.formulations.session import Session
from placewright.instances.checks.round import check_round
from placewright.instances.documents.plan import Certificate
from placewright.instances.documents.round import Round
from placewright.instances.verify import verify
from placewright.rounds import solve_round
from placewright.solver import InProcess, certified_bound, multipliers
from tests.formulations.gang import oracle

STABLE = {
    "suppress_health_check": [HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
}
Raw = dict[str, Any]


def menu(sizes: list[tuple[str, int, int]], values: list[int]) -> list[Raw]:
    """Options of (GPU model, tasks, GPUs of a task) with a value each."""
    return [
        {
            "name": f"{model}-{count}x{gpus}",
            "value": value,
            "groups": [{"count": count, "gpu": gpus, "gpu_models": [model]}],
        }
        for (model, count, gpus), value in zip(sizes, values, strict=True)
    ]


@st.composite
def menus(draw: st.DrawFn, terms: tuple[str, ...] = ("value",)) -> Round:
    """Hosts of two GPU models in racks; jobs that want powers of two in a host, or whole hosts."""
    hosts = [
        {
            "name": f"{model}{i}",
            "gpus": gpus,
            "gpu_model": model,
            "parent": draw(st.sampled_from(["r0", "r1"])),
        }
        for model, gpus in (("A", draw(st.sampled_from([4, 2, 3]))), ("B", 2))
        for i in range(draw(st.integers(1, 2)))
    ]
    shapes = [("A", 1, 1), ("A", 1, 2), ("A", 1, 4), ("A", 2, 4), ("A", 2, 2)]
    shapes += [("B", 1, 1), ("B", 1, 2), ("B", 2, 2)]
    jobs = []
    for i in range(draw(st.integers(1, 4))):
        offered = draw(st.lists(st.sampled_from(shapes), min_size=1, max_size=6, unique=True))
        values = [draw(st.integers(0, 40)) * 7 for _ in offered]
        jobs.append({"name": f"job-{i}", "options": menu(offered, values)})
    round_ = Round.model_validate(
        {
            "cluster": {
                "levels": ["rack"],
                "domains": [{"name": f"r{i}", "level": "rack"} for i in range(2)],
                "hosts": hosts,
            },
            "jobs": jobs,
            "policy": {"terms": terms},
        }
    )
    check_round(round_)
    return round_


def certificate_of(round_: Round, **more: Any) -> tuple[Certificate, Any]:
    try:
        plans = oracle.attainable(round_)
    except oracle.TooManyPlansError:
        assume(False)
    plan = solve_round(round_, gap=0.0, isolation="none", **more)
    assert verify(round_, plan).ok
    certificate = plan.certificate
    assert certificate is not None
    assert certificate.degraded == ()
    return certificate, plans


def few_at_a_time(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    """Sift and core tiny models as large ones are, if `columns` is small."""
    set_parameters(monkeypatch, "models", max_core_columns=columns)
    if columns < 100:
        set_parameters(monkeypatch, "models", min_sifting_columns=0)
        set_parameters(monkeypatch, "models", num_sample_columns=5)
        set_parameters(monkeypatch, "models", num_options_per_class=1)


@pytest.mark.nightly(after=2)
@pytest.mark.parametrize(
    ("backend", "examples", "cells", "columns"),
    [
        ("highs", 120, 6000, 2000),
        ("highs", 120, -1, 3),
        ("highs", 80, 6000, 6),
        ("cp-sat", 60, 6000, 4),
        ("cbc", 40, 6000, 4),
    ],
)
def test_the_best_options_are_found_and_proven_whatever_the_core(
    monkeypatch: pytest.MonkeyPatch, backend: str, examples: int, cells: int, columns: int
) -> None:
    set_parameters(monkeypatch, "run", max_exact_variables=cells)
    few_at_a_time(monkeypatch, columns)

    @settings(max_examples=tried(examples), **STABLE)
    @given(menus())
    def check(round_: Round) -> None:
        assert only_powers_of_two(compile_round(round_))
        certificate, plans = certificate_of(round_, backend=backend)
        assert (certificate.terms[0].value,) == oracle.optimum(round_, plans)
        assert certificate.status == "optimal"

    check()


@pytest.mark.nightly(after=1)
@pytest.mark.parametrize(("cells", "columns"), [(6000, 2000), (6000, 3), (-1, 3)])
def test_later_terms_are_bounded_with_the_options_left_out(
    monkeypatch: pytest.MonkeyPatch, cells: int, columns: int
) -> None:
    set_parameters(monkeypatch, "run", max_exact_variables=cells)
    few_at_a_time(monkeypatch, columns)

    @settings(max_examples=tried(80), **STABLE)
    @given(menus(("value", "spread", "opened")))
    def check(round_: Round) -> None:
        certificate, plans = certificate_of(round_)
        values = tuple(term.value for term in certificate.terms)
        assert values in plans
        if cells > 0:
            assert values == oracle.optimum(round_, plans)
            assert certificate.status == "optimal"
        for index, term in enumerate(certificate.terms):
            best = oracle.best_given(round_, plans, values, index)
            assert term.bound is not None
            assert oracle.SENSE[term.name] * (term.bound - best) >= 0

    check()


def relaxed_model(jobs: int, seed: int) -> tuple[Session, AggregateModel]:
    """Jobs that may have 1 to 8 GPUs, or whole hosts, of two models; a concave worth of each."""
    rng = np.random.default_rng(seed)
    sizes = [(m, 1, n) for m in "AB" for n in (1, 2, 4, 8)] + [
        (m, n, 8) for m in "AB" for n in (2, 3)
    ]
    asked = []
    for i in range(jobs):
        speed = {"A": rng.integers(5, 20), "B": rng.integers(5, 40)}
        power = rng.random()
        values = [int(100 * speed[m] * (count * gpus) ** power) for m, count, gpus in sizes]
        asked.append({"name": f"job-{i}", "options": menu(sizes, values)})
    hosts = [{"name": f"{m}[0-{jobs // 4}]", "gpus": 8, "gpu_model": m} for m in "AB"]
    round_ = Round.model_validate(
        {"cluster": {"hosts": hosts}, "jobs": asked, "policy": {"terms": ["value"]}}
    )
    problem = compile_round(round_)
    counts, _ = next(aggregate_models(problem, Placement(problem)))
    return Session(InProcess().solve, time.monotonic() + 60.0), counts


@pytest.mark.parametrize("seed", range(6))
def test_a_sifted_relaxation_has_the_optimum_and_the_prices_of_the_whole(
    monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    session, counts = relaxed_model(12 + 6 * seed, seed)
    arrays = counts.model.arrays("value", relax=True)
    whole = session.optimise(arrays)
    few_at_a_time(monkeypatch, 10)
    set_parameters(monkeypatch, "models", num_sample_columns=40)
    set_parameters(monkeypatch, "models", num_options_per_class=3)
    solved = []
    optimise = Session.optimise

    def watched(self: Session, part: Any, **more: Any) -> Any:
        solved.append(part.columns)
        return optimise(self, part, **more)

    monkeypatch.setattr(Session, "optimise", watched)
    row = counts.option_row[counts.y_class]
    sifted = solve.solve_by_sifting(session, arrays, counts.y, row, share=1.0)
    assert whole is not None
    assert sifted is not None
    assert sifted.row_duals is not None
    assert sifted.objective == pytest.approx(whole.objective)
    assert arrays.feasible(sifted.values)
    bound = certified_bound(arrays, multipliers(arrays, sifted.row_duals))
    assert float(bound or 0) == pytest.approx(whole.objective)
    assert max(solved) < arrays.columns


@pytest.mark.parametrize("seed", range(6))
def test_every_choice_off_its_place_loses_at_least_its_reduced_cost(
    monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Three jobs; all their choices, each with the best that hosts may then still hold."""
    session, counts = relaxed_model(3, seed)
    few_at_a_time(monkeypatch, 3)
    row = counts.option_row[counts.y_class]
    arrays = counts.model.arrays("value")
    relaxed = session.optimise(counts.model.arrays("value", relax=True))
    doubt = option_reduced_costs(arrays, relaxed, counts.y, row)
    assert doubt is not None
    assert (doubt.loss >= 0).all()
    offers = counts.problem.options
    for chosen in product(*(range(-1, len(k.choices)) for k in counts.problem.classes)):
        y = np.zeros(arrays.columns)
        for c, o in enumerate(chosen):
            if o >= 0:
                y[counts.y[offers.class_start[c] + o]] = 1.0
        off = np.abs(y - doubt.point)[counts.y] >= 0.5
        value = float(arrays.cost @ y)
        if off.any() and fits(counts, chosen):
            assert doubt.shortfall(value) >= doubt.loss[counts.y[off]].max() - 1e-6


def fits(counts: AggregateModel, chosen: tuple[int, ...]) -> bool:
    """Whether each GPU model has as many GPUs; sizes divide a host's."""
    left = {"A": 8, "B": 8}
    for c, o in enumerate(chosen):
        if o >= 0:
            job = counts.problem.round.jobs[counts.problem.classes[c].jobs[0]]
            group = job.options[o].groups[0]
            left[(group.gpu_models or "?")[0]] -= group.milli_gpu // 1000
    return min(left.values()) >= 0


def change(**fields: Any) -> Callable[[Raw], None]:
    return lambda raw: raw["jobs"][0]["options"][0]["groups"][0].update(fields)


@pytest.mark.parametrize(
    ("spoil", "still"),
    [
        (change(), True),
        (change(gpu=4), True),
        (change(cpu=2), True),
        (change(cpu=3), False),
        (change(gpu=3), False),
        (change(gpu=0.5), False),
        (change(gpu=0), False),
    ],
)
def test_a_round_is_plain_if_only_powers_of_two_of_gpus_run_out(
    spoil: Callable[[Raw], None], still: bool
) -> None:
    raw: Raw = {
        "cluster": {"hosts": [{"name": "h", "gpus": 4, "gpu_model": "A", "cpu": 8}]},
        "jobs": [{"name": "job", "options": menu([("A", 1, 1), ("A", 1, 2)], [1, 2])}],
    }
    spoil(raw)
    assert only_powers_of_two(compile_round(Round.model_validate(raw))) is still
