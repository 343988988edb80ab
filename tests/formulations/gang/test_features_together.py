"""Rounds that combine all features: plans stay valid, bounds stay bounds."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import pytest
from gang_parameters import set_parameters
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from examples import tried
from fuzz.small_units import as_document, in_small_units
from placewright.array_types import Floats
from placewright.formulations.gang.models.aggregate import solve
from placewright.instances.documents.plan import Plan, TermResult
from placewright.instances.documents.round import Round
from placewright.instances.errors import InvalidInputError
from placewright.instances.io.files import parse_round
from placewright.instances.verify import verify
from placewright.rounds import solve_round
from placewright.solver import Arrays, multipliers
from tests.formulations.gang import tiny

TERMS = ("progress", "entitled", "share", "stranded", "bottleneck", "disruption", "spread")
SLICED = "A100-SXM4-80GB"
PROFILES = ("1g.10gb", "1g.10gb", "1g.20gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb")
Raw = dict[str, Any]


def _chance(one_in: int) -> st.SearchStrategy[bool]:
    return st.integers(0, one_in - 1).map(lambda n: n == one_in - 1)


@st.composite
def rich_rounds(draw: st.DrawFn, tiny: ModuleType) -> Round:
    """A tiny round to which options, groups, jobs and tenants say more."""
    drawn = draw(tiny.rounds(jobs=4) | tiny.running_rounds())
    raw = in_small_units(drawn.model_dump(mode="json", exclude_defaults=True))
    levels = [*raw["cluster"].get("levels", ()), "host"]
    hosts = [host["name"] for host in raw["cluster"]["hosts"]]
    for host in raw["cluster"]["hosts"]:
        host["gpu_memory"] = draw(st.sampled_from([8, 16]))
        if host["gpu_model"] == "B":
            host.update(gpu_model=SLICED, gpu_memory=80 * 1024)
    tenants = ["tenant", "other"]
    raw["tenants"] = raw.get("tenants", []) or [{"name": "tenant"}]
    raw["tenants"] += [{"name": "other", "weight": draw(st.integers(1, 3))}]
    for tenant in raw["tenants"] if draw(st.booleans()) else ():
        tenant["guarantee"] = {"gpu": draw(st.integers(0, 4)) * 1000}
    for job in raw["jobs"]:
        job["tenant"] = draw(st.sampled_from([*tenants, None]))
        job["opportunistic"] = draw(_chance(5))
        if draw(_chance(4)):
            level = draw(st.sampled_from(levels))
            job["anti_affinity"] = {"label": "l", "level": level}
        for option in job["options"]:
            option["progress"] = draw(st.integers(0, 3))
            if draw(_chance(4)):
                option["required"] = draw(st.sampled_from(levels))
            for group in option["groups"]:
                if "gpu_models" in group:
                    group["gpu_models"] = [m.replace("B", SLICED) for m in group["gpu_models"]]
                _say_more(draw, group, levels, hosts)
                if "running" not in job and draw(_chance(4)):
                    group["mig"] = draw(st.sampled_from(PROFILES))
                    del group["gpu"]
    first = draw(st.sampled_from(["value", "value", "entitled", "share", "progress"]))
    more = draw(st.lists(st.sampled_from(TERMS), unique=True, max_size=4))
    policy = raw.setdefault("policy", {})
    old = [t for t in policy.get("terms", ()) if t not in more][:2]
    policy["terms"] = list(dict.fromkeys([first, *more, *old]))
    if draw(_chance(3)):
        policy["mix"] = [{"gpu": draw(st.sampled_from([300, 1000, 2000])), "weight": 2}]
        policy["mix"] += [{"gpu": 500, "cpu": 2, "weight": 1}]
    try:
        return parse_round(as_document(raw))
    except InvalidInputError:
        assume(False)
        raise


def _say_more(draw: st.DrawFn, group: Raw, levels: list[str], hosts: list[str]) -> None:
    count = group.get("count", 1)
    if draw(_chance(4)):
        level = draw(st.sampled_from(levels))
        group["slices"] = {"size": max(count // 2, 1), "required": level}
    if draw(_chance(4)):
        group["apart"] = {"level": draw(st.sampled_from(levels)), "most": draw(st.integers(1, 2))}
    if draw(_chance(5)):
        group["hosts"] = draw(st.lists(st.sampled_from(hosts), min_size=1, unique=True))
    if draw(_chance(3)):
        group["gpu_memory"] = draw(st.integers(1, 12))
    if draw(_chance(3)):
        pattern = draw(st.sampled_from(["ring", "tree"]))
        group["communication"] = {"pattern": pattern, "data_mib": draw(st.integers(1, 100))}


def _first_term(plan: Plan) -> TermResult:
    assert plan.certificate is not None
    return plan.certificate.terms[0]


def _solved(round_: Round) -> Plan:
    plan = solve_round(round_, isolation="none", gap=0.0, time_limit=30.0)
    assert plan.certificate is not None
    assert not plan.certificate.degraded
    assert verify(round_, plan).ok
    return plan


@settings(max_examples=tried(80), suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_bounds_of_counts_hold_for_exact_plans(
    data: st.DataObject, monkeypatch: pytest.MonkeyPatch
) -> None:
    round_ = data.draw(rich_rounds(tiny))
    best = _first_term(_solved(round_))
    with monkeypatch.context() as patch:
        set_parameters(patch, "run", max_exact_variables=-1)
        bounded = _first_term(_solved(round_))
    sign = 1 if best.sense == "max" else -1
    assert bounded.bound is not None
    assert sign * best.value <= sign * bounded.bound
    if best.gap == 0:
        assert sign * bounded.value <= sign * best.value


@pytest.mark.nightly
@settings(max_examples=tried(80), suppress_health_check=list(HealthCheck))
@given(data=st.data(), seed=st.integers(0, 2**32 - 1))
def test_certified_bounds_hold_whatever_the_duals(
    data: st.DataObject, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    round_ = data.draw(rich_rounds(tiny))
    best = _first_term(_solved(round_))
    rng = np.random.default_rng(seed)

    def spoiled(arrays: Arrays, duals: Floats) -> Any:
        noise = 10.0 ** rng.uniform(-6, 3) * rng.normal(size=len(duals))
        kinds = (duals * (1 + noise), rng.permutation(duals), np.where(noise > 0, duals, 0), noise)
        return multipliers(arrays, kinds[rng.integers(len(kinds))])

    with monkeypatch.context() as patch:
        set_parameters(patch, "run", max_exact_variables=-1)
        patch.setattr(solve, "multipliers", spoiled)
        bounded = _first_term(_solved(round_))
    sign = 1 if best.sense == "max" else -1
    assert bounded.certified is not None
    assert sign * best.value <= sign * bounded.certified
