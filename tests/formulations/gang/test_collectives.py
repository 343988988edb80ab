"""The term `bottleneck`: its optimum by brute force, and bounds that no plan beats."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pytest
from gang_parameters import set_parameters
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from examples import tried
from placewright.instances.checks.round import check_round
from placewright.instances.derived.arrays import build_cluster
from placewright.instances.documents.plan import Certificate, Plan
from placewright.instances.documents.round import Round
from placewright.instances.verify import verify
from placewright.rounds import solve_round
from placewright.topology import Cluster
from placewright.topology.collectives import bottleneck, time_us
from tests.formulations.gang import tiny_arrangement

Raw = dict[str, Any]
SWITCHED = ("dgx-a100", "dgx-h100", "gb200-nvl72-tray", None)
STABLE = {
    "suppress_health_check": [HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
}


@st.composite
def rounds(draw: st.DrawFn, *, patterns: tuple[str, ...], models: tuple[str | None, ...]) -> Round:
    """One or two jobs of up to four tasks on up to four hosts; every link has its own speed."""
    racks = draw(st.integers(1, 3))
    speed = st.integers(1, 9).map(lambda n: n * 100_000)
    cluster: Raw = {
        "levels": ["block", "rack"],
        "domains": [
            {"name": "b0", "level": "block"},
            {"name": "b1", "level": "block"},
            *({"name": f"r{i}", "level": "rack", "parent": f"b{i % 2}"} for i in range(racks)),
        ],
        "hosts": [
            {
                "name": f"h{i}",
                "parent": f"r{draw(st.integers(0, racks - 1))}",
                "gpus": draw(st.sampled_from([2, 4, 1])),
                "gpu_model": "G",
                "model": draw(st.sampled_from(models)),
            }
            for i in range(draw(st.integers(1, 4)))
        ],
        "links": {
            level: {"bandwidth_mbps": draw(speed), "latency_us": 1.0}
            for level in draw(st.sets(st.sampled_from(["block", "rack", "host"]), min_size=1))
        },
    }
    number = draw(st.sampled_from([1, 2, 1]))
    jobs = []
    for i in range(number):
        group = {
            "gpu": f"{draw(st.sampled_from([1000, 1000, 2000]))}m",
            "count": draw(st.integers(1, 4 if number == 1 else 2)),
            "communication": {
                "pattern": draw(st.sampled_from(patterns)),
                "data_mib": draw(st.integers(1, 3000)),
            },
        }
        jobs.append({"name": f"j{i}", "options": [{"groups": [group]}]})
    terms = draw(st.sampled_from([["value", "bottleneck"], ["bottleneck", "value"]]))
    terms = [*terms, *draw(st.sampled_from([["spread"], [], ["opened"]]))]
    round_ = Round.model_validate({"cluster": cluster, "jobs": jobs, "policy": {"terms": terms}})
    check_round(round_)
    return round_


def plans_of(round_: Round) -> Iterator[tuple[int, int]]:
    """Value and bottleneck of every plan."""
    cluster = build_cluster(round_.cluster)
    free = tuple(cluster.gpu_count.tolist())
    ways = [list(_ways(cluster, job)) for job in round_.jobs]
    for chosen in product(*ways):
        taken = [sum(way[0][h] for way in chosen) for h in range(len(free))]
        if all(t <= f for t, f in zip(taken, free, strict=True)):
            yield sum(way[1] for way in chosen), sum(way[2] for way in chosen)


def _ways(cluster: Cluster, job: Any) -> Iterator[tuple[tuple[int, ...], int, int]]:
    """What a job takes of each host, its value and its time: the best order for what it takes."""
    group = job.options[0].groups[0]
    each, asked = group.gpu // 1000, group.communication
    best: dict[tuple[int, ...], int] = {}
    for hosts in product(range(cluster.num_hosts), repeat=group.count):
        taken = Counter(hosts)
        key = tuple(each * taken[h] for h in range(cluster.num_hosts))
        if any(n > cluster.gpu_count[h] for h, n in enumerate(key)):
            continue
        time = _time(cluster, hosts, each, asked.pattern, asked.data_mib)
        best[key] = min(time, best.get(key, time))
    yield (0,) * cluster.num_hosts, 0, 0
    for key, time in best.items():
        yield key, job.value_of(0), time


@cache
def _time(cluster: Cluster, hosts: tuple[int, ...], each: int, pattern: Any, data: int) -> int:
    used: Counter[int] = Counter()
    ranks = []
    for h in hosts:
        ranks += [(h, used[h] + g) for g in range(each)]
        used[h] += each
    table = np.array(ranks, dtype=np.int64)
    return time_us(pattern, len(ranks), data, bottleneck(cluster, *table.T, pattern))


def certificate_of(plan: Plan) -> Certificate:
    assert plan.certificate is not None
    assert plan.certificate.degraded == ()
    return plan.certificate


def key_of(round_: Round, value: int, time: int) -> tuple[int, int]:
    return (value, -time) if round_.policy.terms[0] == "value" else (-time, value)


def check_bounds(round_: Round, plan: Plan) -> None:
    """No plan as good in the first term beats a bound of the first two."""
    terms = certificate_of(plan).terms[:2]
    signs = [1 if term.sense == "max" else -1 for term in terms]
    plans = [key_of(round_, *found) for found in plans_of(round_)]
    first = max(found[0] for found in plans)
    second = max(found[1] for found in plans if found[0] >= signs[0] * terms[0].value)
    for term, sign, best in zip(terms, signs, (first, second), strict=True):
        for bound in (term.certified, term.claimed):
            assert bound is None or sign * bound >= best, (term, best)


@pytest.mark.parametrize(
    ("backend", "examples"), [("highs", 60), ("cp-sat", 20), ("cbc", 15), ("scip", 15)]
)
def test_the_exact_model_proves_the_least_time_of_rings(backend: str, examples: int) -> None:
    @settings(max_examples=tried(examples), **STABLE)
    @given(rounds(patterns=("ring",), models=SWITCHED))
    def check(round_: Round) -> None:
        plan = solve_round(round_, backend=backend, gap=0.0, isolation="none")
        assert verify(round_, plan).ok
        terms = certificate_of(plan).terms[:2]
        best = max(key_of(round_, *found) for found in plans_of(round_))
        assert tuple(t.value * (1 if t.sense == "max" else -1) for t in terms) == best
        assert certificate_of(plan).status == "optimal"

    check()


@pytest.mark.parametrize("cells", [6_000, -1])
def test_no_plan_beats_a_bound_of_trees_and_meshes(
    monkeypatch: pytest.MonkeyPatch, cells: int
) -> None:
    set_parameters(monkeypatch, "run", max_exact_variables=cells)

    @settings(max_examples=tried(60), **STABLE)
    @given(
        rounds(
            patterns=("ring", "tree"),
            models=(*SWITCHED, "hgx-v100-8", "a100-pcie-8-bridged", "mi250x-8"),
        )
    )
    def check(round_: Round) -> None:
        plan = solve_round(round_, gap=0.0, isolation="none")
        assert verify(round_, plan).ok
        check_bounds(round_, plan)

    check()


@pytest.mark.parametrize("cells", [6_000, -1])
@pytest.mark.parametrize("moving", [False, True])
def test_collectives_of_tied_and_running_jobs_make_valid_plans(
    monkeypatch: pytest.MonkeyPatch, cells: int, moving: bool
) -> None:
    set_parameters(monkeypatch, "run", max_exact_variables=cells)

    @settings(max_examples=tried(25), **STABLE)
    @given(tiny_arrangement.rounds(moving=moving), st.sampled_from(["ring", "tree"]))
    def check(round_: Round, pattern: str) -> None:
        raw = round_.model_dump()
        for job in raw["jobs"]:
            for option in job["options"]:
                for group in option["groups"]:
                    group["communication"] = {"pattern": pattern, "data_mib": 100}
        speeds = {"block": 100_000, "rack": 200_000, "host": 400_000}
        raw["cluster"]["links"] = {
            level: {"bandwidth_mbps": mbps, "latency_us": 1.0} for level, mbps in speeds.items()
        }
        raw["policy"]["terms"] = [*raw["policy"]["terms"], "bottleneck"]
        timed = Round.model_validate(raw)
        plan = solve_round(timed, gap=0.0, isolation="none")
        assert verify(timed, plan).ok
        assert certificate_of(plan).terms[-1].name == "bottleneck"

    check()
