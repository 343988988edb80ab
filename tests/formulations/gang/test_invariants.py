"""Invariance: names, order and spare capacity change no proven term."""

from __future__ import annotations

import random
from typing import Any

import pytest
from gang_parameters import set_parameters
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from examples import examples
from placewright.instances.checks.round import check_round
from placewright.instances.documents.round import Round
from placewright.rounds import solve_round
from tests.formulations.gang import tiny

STABLE = settings(
    max_examples=examples(day=12, nightly=60),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)


def values(round_: Round) -> list[int]:
    plan = solve_round(round_, gap=0.0, isolation="none")
    assert plan.certificate is not None
    assert plan.certificate.status == "optimal"
    return [term.value for term in plan.certificate.terms]


def renamed_and_shuffled(round_: Round, seed: int) -> Round:
    """Names turned round, and every list whose order means nothing in another order."""
    rng = random.Random(seed)
    raw = round_.model_dump()
    cluster = raw["cluster"]
    new = {name: f"x-{name[::-1]}" for name in ("A", "B")}
    for entry in [*cluster["hosts"], *cluster["domains"], *raw["jobs"], *raw["tenants"]]:
        new[entry["name"]] = f"x-{entry['name'][::-1]}"

    def rename(value: Any, key: str = "") -> Any:
        if isinstance(value, dict):
            return {k: rename(v, k) for k, v in value.items()}
        if isinstance(value, (list, tuple)):
            return [rename(v, key) for v in value]
        named = {"name", "parent", "host", "tenant", "gpu_model", "gpu_models"}
        return new.get(value, value) if key in named else value

    raw = rename(raw)
    for entries in (raw["cluster"]["hosts"], raw["cluster"]["domains"], raw["jobs"]):
        rng.shuffle(entries)
    for job in raw["jobs"]:
        if job["running"] is None:
            rng.shuffle(job["options"])
            for option in job["options"]:
                rng.shuffle(option["groups"])
    moved = Round.model_validate(raw)
    check_round(moved)
    return moved


def test_names_and_order_change_no_term() -> None:
    @STABLE
    @given(tiny.rounds(), st.integers(0, 99))
    def check(round_: Round, seed: int) -> None:
        assert values(renamed_and_shuffled(round_, seed)) == values(round_)

    check()


def test_another_host_never_lowers_the_proven_value() -> None:
    @STABLE
    @given(tiny.rounds(terms=("value",)), st.data())
    def check(round_: Round, data: st.DataObject) -> None:
        host = data.draw(st.sampled_from(round_.cluster.hosts))
        added = host.model_copy(update={"name": "added", "healthy": True})
        cluster = round_.cluster.model_copy(update={"hosts": (*round_.cluster.hosts, added)})
        assert values(round_.model_copy(update={"cluster": cluster})) >= values(round_)

    check()


@pytest.mark.nightly
def test_names_and_order_change_no_bound_of_the_count_model(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    set_parameters(monkeypatch, "run", max_exact_variables=-1)
    set_parameters(monkeypatch, "neighbourhood", max_failures=0)

    def first_bound(round_: Round) -> float | None:
        plan = solve_round(round_, gap=0.0, isolation="none")
        assert plan.certificate is not None
        return plan.certificate.terms[0].bound

    @STABLE
    @given(tiny.rounds(terms=("value",)), st.integers(0, 99))
    def check(round_: Round, seed: int) -> None:
        assert first_bound(renamed_and_shuffled(round_, seed)) == first_bound(round_)

    check()
