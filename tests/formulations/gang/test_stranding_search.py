"""Plans that strand few GPUs: increases against brute force, and what the search keeps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gang_parameters import set_parameters
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from examples import examples
from placewright.formulations.gang.heuristics.ruin_and_recreate import (
    NO_FIT,
    FragmentationIncreases,
)
from placewright.formulations.gang.placement.placement import Placement
from placewright.formulations.gang.problem.compile import compile_round
from placewright.formulations.gang.problem.terms import TaskMix
from placewright.instances.documents.job import Job
from placewright.instances.documents.round import Round
from placewright.instances.verify import verify
from placewright.rounds import Changes, Engine, solve_round
from tests.formulations.gang import oracle, tiny

STABLE: dict[str, Any] = {
    "suppress_health_check": list(HealthCheck),
}


def with_term(round_: Round) -> Round:
    policy = round_.policy.model_copy(update={"terms": ("value", "stranded")})
    return round_.model_copy(update={"policy": policy})


def afterwards(
    left: tuple[int, ...], gpus: list[int], gpu: int, wants: tuple[int, ...]
) -> list[tuple[tuple[int, ...], list[int]]]:
    """All that a task may leave of a host."""
    rest = tuple(a - b for a, b in zip(left, wants, strict=True))
    if min(rest) < 0:
        return []
    if 0 < gpu < 1000:
        return [
            (rest, [*gpus[:i], free - gpu, *gpus[i + 1 :]])
            for i, free in enumerate(gpus)
            if free >= gpu
        ]
    if gpus.count(1000) < gpu // 1000:
        return []
    taken = list(gpus)
    for _ in range(gpu // 1000):
        taken[taken.index(1000)] = 0
    return [(rest, taken)]


def test_increases_are_those_of_brute_force_however_often_tasks_come_and_go() -> None:
    @settings(max_examples=examples(day=15, nightly=60), **STABLE)
    @given(tiny.rounds(terms=("value",), jobs=4), st.data())
    def check(round_: Round, data: st.DataObject) -> None:
        round_ = with_term(round_)
        problem = compile_round(round_)
        kinds = oracle.kinds_of(round_)
        names = [r for r in oracle.resources_of(round_)[1:] if r in problem.cluster.resources]
        order = [problem.cluster.resources.index(name) for name in names]
        if len(names) < len(oracle.resources_of(round_)) - 1:
            return
        shapes = np.arange(len(problem.shape_gpu))
        increases = FragmentationIncreases(Placement(problem), TaskMix.of(problem), shapes)
        models = [*problem.cluster.gpu_models, ""]
        placed = []
        for _ in range(6):
            for h in range(problem.cluster.num_hosts):
                model = models[problem.cluster.gpu_model[h]]
                left = tuple(increases.free[h, order].tolist())
                gpus = increases.gpus[h].tolist()
                before = oracle.stranded_on(kinds, model, left, gpus)
                assert increases.now[h] == before * bool(problem.open[h])
                for s in shapes.tolist():
                    wants = tuple(problem.shape_demand[s, order].tolist())
                    least = min(
                        (
                            oracle.stranded_on(kinds, model, rest, after) - before
                            for rest, after in afterwards(
                                left, gpus, int(problem.shape_gpu[s]), wants
                            )
                            if problem.shape_hosts[s, h]
                        ),
                        default=NO_FIT,
                    )
                    assert increases.least[s, h] == least
            shape = data.draw(st.sampled_from(shapes.tolist()))
            slots = increases.best(shape)
            if slots is not None and data.draw(st.integers(0, 3)):
                increases.put(shape, slots)
                placed.append((shape, slots))
            elif placed:
                increases.lift(*placed.pop(data.draw(st.integers(0, len(placed) - 1))))

    check()


def test_free_gpus_are_those_that_are_not_promised() -> None:
    @settings(max_examples=examples(day=15, nightly=40), **STABLE)
    @given(tiny.rounds(terms=("value",)))
    def check(round_: Round) -> None:
        placement = Placement(compile_round(round_))
        gpus = placement.arrivable_milli_gpu()
        assert (np.sort(gpus, axis=1) == np.sort(placement.gpu_free, axis=1)).all()

    check()


def arriving(seed: int, pods: int = 60) -> Round:
    """Pods of a few kinds for hosts that lack CPU for some of them; some are gangs."""
    rng = np.random.Generator(np.random.PCG64(seed))
    kinds = [(300, 3), (500, 4), (1000, 12), (2000, 10), (700, 2), (0, 6)]
    jobs = []
    for i in range(pods):
        gpu, cpu = kinds[int(rng.integers(len(kinds)))]
        count = 2 if i % 20 == 7 else 1
        group = {"gpu": f"{gpu}m", "cpu": f"{cpu}m", "count": count}
        option: dict[str, Any] = {"groups": [group]}
        if not gpu:
            option["value"] = 1
        jobs.append({"name": f"pod-{i}", "options": [option], "tenant": "t" if i % 3 else None})
    hosts = [
        {"name": "a[0-9]", "gpus": 4, "gpu_model": "A", "cpu": 0.032},
        {"name": "b[0-9]", "gpus": 2, "gpu_model": "B", "cpu": 0.024},
    ]
    return Round.model_validate(
        {
            "cluster": {"hosts": hosts},
            "jobs": jobs,
            "tenants": [{"name": "t", "quota": {"gpu": 20}}],
            "policy": {"terms": ["value", "stranded"]},
        }
    )


def test_the_search_strands_less_than_the_greedy_plan_and_keeps_quotas(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    set_parameters(monkeypatch, "run", max_exact_variables=-1)
    for seed in range(3):
        round_ = arriving(seed)
        greedy = solve_round(round_, time_limit=0.0, isolation="none")
        plan = solve_round(round_, gap=1.0, isolation="none", time_limit=20.0)
        found = verify(round_, plan)
        assert found.ok
        assert plan.certificate is not None
        assert plan.certificate.degraded == ()
        before = verify(round_, greedy).terms
        assert found.terms["value"] >= before["value"]
        assert found.terms["stranded"] < before["stranded"]


def test_the_same_seed_gives_the_same_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    set_parameters(monkeypatch, "run", max_exact_variables=-1)
    round_ = arriving(3)
    one, other = (
        solve_round(round_, gap=1.0, isolation="none", time_limit=60.0, deterministic=True)
        for _ in range(2)
    )
    assert one.decisions == other.decisions


def test_an_engine_strands_as_little_as_a_round_from_scratch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whole GPUs only: rounds in which an engine otherwise adapts its last plan."""
    set_parameters(monkeypatch, "run", max_exact_variables=-1)

    def pods(begin: int) -> list[Job]:
        asked = [(1000, 12), (2000, 10), (1000, 4)]
        return [
            Job.model_validate(
                {
                    "name": f"pod-{i}",
                    "options": [{"groups": [{"gpu": f"{gpu}m", "cpu": f"{cpu}m"}]}],
                }
            )
            for i, (gpu, cpu) in enumerate(asked * 4, begin)
        ]

    first = arriving(0).model_copy(update={"jobs": tuple(pods(0)), "tenants": ()})
    with Engine(first, gap=1.0, time_limit=20.0, isolation="none") as engine:
        engine.round()
        plan = engine.round(Changes(added=pods(100)))
        found = verify(engine.round_solved, plan)
        alone = solve_round(engine.round_solved, gap=1.0, isolation="none", time_limit=20.0)
        assert found.ok
        assert found.terms == verify(engine.round_solved, alone).terms
