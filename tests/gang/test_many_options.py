"""Jobs with many options: sums alone are exact, cores are searched, and nothing better exists."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from placewright.formulations.gang import coring, run
from placewright.formulations.gang.compile import compile_round
from placewright.formulations.gang.plain import plain
from placewright.instances.plan import Certificate
from placewright.instances.references import check_round
from placewright.instances.round import Round
from placewright.instances.verify import verify
from placewright.rounds import solve_round

STABLE = {
    "derandomize": True,
    "database": None,
    "deadline": None,
    "suppress_health_check": [HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
}
Raw = dict[str, Any]


def menu(sizes: list[tuple[str, int, int]], values: list[int]) -> list[Raw]:
    """Options of (GPU model, tasks, GPUs of a task) with a value each."""
    return [
        {
            "name": f"{model}-{count}x{gpus}",
            "value": value,
            "groups": [{"count": count, "gpu": 1000 * gpus, "gpu_models": [model]}],
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


def certificate_of(oracle: ModuleType, round_: Round, **more: Any) -> tuple[Certificate, Any]:
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
    oracle: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    backend: str,
    examples: int,
    cells: int,
    columns: int,
) -> None:
    monkeypatch.setattr(run, "MAX_EXACT_CELLS", cells)
    monkeypatch.setattr(coring, "MOST_COLUMNS", columns)

    @settings(max_examples=examples, **STABLE)
    @given(menus())
    def check(round_: Round) -> None:
        assert plain(compile_round(round_))
        certificate, plans = certificate_of(oracle, round_, backend=backend)
        assert (certificate.terms[0].value,) == oracle.optimum(round_, plans)
        assert certificate.status == "optimal"

    check()


@pytest.mark.parametrize(("cells", "columns"), [(6000, 2000), (6000, 3), (-1, 3)])
def test_later_terms_are_bounded_with_the_options_left_out(
    oracle: ModuleType, monkeypatch: pytest.MonkeyPatch, cells: int, columns: int
) -> None:
    monkeypatch.setattr(run, "MAX_EXACT_CELLS", cells)
    monkeypatch.setattr(coring, "MOST_COLUMNS", columns)

    @settings(max_examples=80, **STABLE)
    @given(menus(("value", "spread", "opened")))
    def check(round_: Round) -> None:
        certificate, plans = certificate_of(oracle, round_)
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


def change(**fields: Any) -> Callable[[Raw], None]:
    return lambda raw: raw["jobs"][0]["options"][0]["groups"][0].update(fields)


@pytest.mark.parametrize(
    ("spoil", "still"),
    [
        (change(), True),
        (change(gpu=4000), True),
        (change(cpu=2), True),
        (change(cpu=3), False),
        (change(gpu=3000), False),
        (change(gpu=500), False),
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
    assert plain(compile_round(Round.model_validate(raw))) is still
