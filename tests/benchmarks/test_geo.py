"""The benchmark `geo`: its rules by hand and beside brute force, what it reports."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from replica_terms import term_values

from placewright.formulations.replicas.problem.compile import compile_replicas
from placewright.instances.documents.round import Round
from placewright.instances.verify import verify

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def bench() -> Iterator[SimpleNamespace]:
    names = (
        "geo",
        "geo_answers",
        "geo_chain",
        "region_plans",
        "region_rules",
        "replica_plans",
        "replica_rules",
    )
    oracles = "geo_tiny", "geo_oracle", "replicas_oracle"
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT)
        patch.syspath_prepend(ROOT / "tests/formulations/regions")
        patch.chdir(ROOT)
        for name in oracles:
            patch.delitem(sys.modules, name, raising=False)
        modules = {name: importlib.import_module(name) for name in oracles}
        for name in (*names, "baselines", "measure"):
            modules[name] = importlib.import_module(f"benchmarks.{name}")
        yield SimpleNamespace(**modules)


def round_of(policy: str, jobs: list[dict[str, Any]], **geo: Any) -> Round:
    """Region `a` of 8 GPUs, `b` of 16 and `c` of 4, all hosts of 4; data lies in `a`."""
    hosts = {"a": 2, "b": 4, "c": 1}
    every = [(s, t) for s in hosts for t in hosts if s != t]
    prices = {"a": 3, "b": 2, "c": 1}
    return Round.model_validate(
        {
            "cluster": {
                "levels": ["region"],
                "domains": [{"name": r, "level": "region"} for r in hosts],
                "hosts": [
                    {"name": f"{r}[0-{n - 1}]", "parent": r, "gpus": 4, "gpu_model": "X"}
                    for r, n in hosts.items()
                ],
            },
            "jobs": jobs,
            "geo": {
                "regions": [{"name": r, "prices": {"X": p}} for r, p in prices.items()],
                "links": [{"source": s, "target": t, "bandwidth": 10_000} for s, t in every],
                "datasets": [{"name": "d", "size": 100, "replicas": ["a"]}],
                **geo,
            },
            "policy": {"formulation": policy},
        }
    )


def job(name: str, gpus: int, *, count: int = 1, **fields: Any) -> dict[str, Any]:
    """A job of several tasks, all of which read `d`."""
    return {
        "name": name,
        "options": [{"groups": [{"count": count, "gpu": gpus}]}],
        "reads": [{"dataset": "d", "gib": 100}],
        **fields,
    }


def regions(bench: SimpleNamespace, rule: str, round_: Round) -> dict[str, str]:
    """The region of each job that runs under a rule, whose plan is verified."""
    plan = bench.region_plans.plan_of(bench.region_rules.RULES[rule], round_)
    assert verify(round_, plan).violations == ()
    return {d.job: d.tasks[0].host[0] for d in plan.decisions if d.tasks}


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("data's region", {"0": "a", "1": "a"}),
        ("least loaded", {"0": "a", "1": "b", "2": "c", "3": "b"}),
        ("cheapest", {"0": "c", "1": "b", "2": "b", "3": "b"}),
        ("scan", {"0": "a", "1": "a", "2": "b", "3": "c"}),
    ],
)
def test_each_rule_chooses_regions_as_it_says(
    bench: SimpleNamespace, rule: str, expected: dict[str, str]
) -> None:
    jobs = [job(str(n), 4) for n in range(4)]
    assert regions(bench, rule, round_of("geo", jobs)) == expected


def test_jobs_come_by_priority_and_gangs_where_all_tasks_fit(bench: SimpleNamespace) -> None:
    jobs = [job("late", 4, count=2), job("first", 4, count=2, priority=1), job("huge", 4, count=5)]
    assert regions(bench, "data's region", round_of("geo", jobs)) == {"first": "a"}
    found = regions(bench, "scan", round_of("geo", jobs))
    assert found == {"first": "a", "late": "b"}


def test_the_scan_preempts_where_that_gains_value_and_leaves_others_alone(
    bench: SimpleNamespace,
) -> None:
    def running(name: str, host: str, **fields: Any) -> dict[str, Any]:
        tasks = [{"host": host, "gpus": [0, 1, 2, 3]}]
        return job(name, 4, regions=["a"], running={"tasks": tasks}, **fields)

    here: dict[str, Any] = {"regions": ["a"], "priority": 1}
    low = [running("x", "a0", weight=3), running("y", "a1", weight=2)]
    plan = regions(bench, "scan", round_of("geo", [*low, job("new", 4, weight=4, **here)]))
    assert plan == {"x": "a", "new": "a"}
    # Worth no more than what it would stop, or of the same priority: it waits.
    others: list[dict[str, Any]] = [{"weight": 2, **here}, {"weight": 9, "regions": ["a"]}]
    for fields in others:
        plan = regions(bench, "scan", round_of("geo", [*low, job("new", 4, **fields)]))
        assert plan == {"x": "a", "y": "a"}


def test_plans_of_rules_are_among_all_plans(bench: SimpleNamespace) -> None:
    for seed in range(40):
        round_ = bench.geo_tiny.geo(seed)
        every = {vector[:2] for vector in bench.geo_oracle.vectors(round_)}
        for rule in bench.region_rules.RULES.values():
            verification = verify(round_, bench.region_plans.plan_of(rule, round_))
            assert verification.violations == ()
            assert (verification.terms["value"], verification.terms["remote_reads"]) in every


def test_layouts_of_rules_are_among_all_layouts(bench: SimpleNamespace) -> None:
    for seed in range(40):
        round_ = bench.geo_tiny.replicas(seed)
        problem = compile_replicas(round_)
        every = bench.replicas_oracle.vectors(round_)
        for rule in bench.replica_rules.RULES.values():
            assert tuple(term_values(problem.wan, rule(problem)).values()) in every
            verification = verify(round_, bench.replica_plans.plan_of(rule, round_))
            assert verification.violations == ()
            assert tuple(verification.terms.values()) in every


def test_climbing_copies_data_to_idle_gpus_and_staying_does_not(bench: SimpleNamespace) -> None:
    round_ = round_of("replicas", [job(str(n), 4) for n in range(4)])
    problem = compile_replicas(round_)
    expected = {
        name: term_values(problem.wan, rule(problem))
        for name, rule in bench.replica_rules.RULES.items()
    }
    assert expected["stay"]["remote_reads"] == 0
    assert expected["stay"]["hottest"] == 2000
    assert expected["leave"]["overload"] == 0
    assert expected["leave"]["remote_reads"] == 200
    assert expected["climb"] == {
        "overload": 0,
        "remote_reads": 0,
        "copies": 100,
        "imbalance": 0,
        "hottest": 1000,
    }


def test_jobs_find_data_where_the_plan_before_has_sent_it(bench: SimpleNamespace) -> None:
    reads = [{"dataset": "d", "gib": 100, "remote": False}]
    round_ = round_of("replicas", [job(str(n), 4, reads=reads) for n in range(4)])
    both = bench.geo_chain.both_paths(60, 60, round_)
    assert (both.term, both.value, both.status) == ("value", 16_000, "optimal")
    # One copy, to `b`: three of the jobs run there, one in `a`.
    expected = {"hottest before": 2000, "hottest": 750, "hottest >=": 750}
    expected |= {"copied GiB": 100, "copied >=": 100}
    started = {
        "remote GiB": 0,
        "GPUs %": 100 * 16 / 28,
        "wait": 0,
        "for data": 0,
        "for data %": 0,
    }
    assert both.figures.items() >= {**expected, **started}.items()

    stays = bench.geo_chain.as_it_lies(60, round_)
    assert stays.value == 8000
    expected = {"hottest before": 2000, "hottest": 2000, "copied GiB": 0, "for data %": 50}
    assert stays.figures.items() >= expected.items()


def test_data_that_is_copied_is_there_when_the_window_ends(bench: SimpleNamespace) -> None:
    round_ = round_of("replicas", [job(str(n), 4) for n in range(4)])
    plan = bench.replica_plans.plan_of(bench.replica_rules.climb, round_)
    following = bench.geo_chain.after(round_, plan)
    assert set(following.geo.datasets[0].replicas) == {"a", "b"}
    assert following.now == round_.now + round_.geo.window_s
    assert following.policy.formulation == "geo"


def answer(bench: SimpleNamespace, value: int, remote: int, **figures: float) -> Any:
    expected = {"remote GiB": remote, **figures}
    found = bench.baselines.Answer("feasible", "value", value, figures=expected)
    return lambda: [bench.measure.Measured(found, 1.0, 2.0, 3.0)]


def test_a_rule_that_is_better_or_beats_a_bound_is_an_error(bench: SimpleNamespace) -> None:
    methods = {
        "placewright": answer(bench, 100, 50, **{"remote >=": 40.0}),
        "less value": answer(bench, 99, 0),
        "as good": answer(bench, 100, 50),
        "less read": answer(bench, 100, 45),
        "below the bound": answer(bench, 100, 39),
        "more value": answer(bench, 101, 90),
    }
    rows = list(bench.geo_answers.answers("case", 0, methods))
    assert [row.note for row in rows if row.status == "error"] == [
        "less read is better by its rule alone",
        "below the bound is better by its rule alone",
        "below the bound beats the bound of remote_reads",
        "more value is better by its rule alone",
    ]


def test_all_sizes_and_mixes_are_cases_of_both_paths(bench: SimpleNamespace) -> None:
    every = bench.geo.cases(quick=False)
    assert {(case.name, case.seed) for case in every if case.jobs} == {
        (f"{path}-{mix}-{regions}-{jobs}", seed)
        for path, sizes in (
            ("fast", ((10, 1000), (10, 10_000), (20, 20_000), (30, 50_000), (30, 100_000))),
            ("slow", ((10, 1000), (20, 10_000), (30, 50_000))),
            ("chain", ((10, 1000), (20, 10_000))),
        )
        for regions, jobs in sizes
        for mix in ("spare", "scarce")
        for seed in range(3)
    }
    assert {case.name for case in every if not case.jobs} == {
        f"{path}-{mix}-clusters" for path in ("fast", "slow") for mix in ("spare", "scarce")
    }
    assert {case.name for case in bench.geo.cases(quick=True)} == {
        "fast-spare-10-1000",
        "slow-spare-10-1000",
    }


def test_without_the_traces_their_cases_are_skipped(
    bench: SimpleNamespace, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(bench.geo, "CLUSTERS", tmp_path / "none")
    case = next(case for case in bench.geo.cases(quick=False) if not case.jobs)
    (row,) = bench.geo.run([case], quick=True)
    assert (row.status, row.method) == ("skipped", "placewright")
    assert "none not found" in row.note


@pytest.mark.skipif(
    not (ROOT.parent / "shared/data/traces/elasticflow/raw").is_dir(), reason="needs the traces"
)
def test_real_clusters_and_others_like_them_are_ten_regions(bench: SimpleNamespace) -> None:
    cases = [case for case in bench.geo.cases(quick=False) if not case.jobs]
    first = next(case for case in cases if case.name == "slow-spare-clusters" and case.seed == 0)
    round_ = first.make()
    assert len(round_.geo.regions) == 10
    assert round_.policy.formulation == "replicas"
    problem = compile_replicas(round_)
    before = term_values(problem.wan, bench.replica_rules.stay(problem))
    assert before["hottest"] == pytest.approx(2630, rel=0.03)
    assert np.array_equal(problem.current, problem.current & problem.may_hold)
