"""Baselines of CPU and memory tuning: by hand, verified, and nobody below its share."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from placewright import Plan, Round, verify
from placewright.instances.checks.round import check_round
from placewright.instances.derived.speed import speed

ROOT = Path(__file__).parents[2]
UNIT = 1_000_000
HUNGRY = {"cores": [1, 3, 6], "memory": ["1000Mi"], "speeds": [[400_000], [UNIT], [1_800_000]]}
MODEST = {"cores": [1, 3, 6], "memory": ["1000Mi"], "speeds": [[UNIT], [UNIT], [UNIT]]}


@pytest.fixture(scope="module")
def bench() -> Iterator[SimpleNamespace]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT)
        patch.chdir(ROOT)
        modules = "tuning", "tuning_rounds"
        yield SimpleNamespace(
            **{name: importlib.import_module(f"benchmarks.{name}") for name in modules}
        )


def round_of(*jobs: tuple[int, dict[str, list[int]]], hosts: int = 1, gpus: int = 4) -> Round:
    """Jobs that ask (GPUs, sensitivity), each a task, on hosts of 3 cores per GPU."""
    made = Round.model_validate(
        {
            "cluster": {
                "hosts": [
                    {
                        "name": f"h{i}",
                        "gpus": gpus,
                        "gpu_model": "V100",
                        "cpu": f"{3000 * gpus}m",
                        "memory": f"{1000 * gpus}Mi",
                    }
                    for i in range(hosts)
                ]
            },
            "jobs": [
                {
                    "name": f"j{i}",
                    "options": [
                        {"groups": [{"gpu": n, "cpu": f"{3000 * n}m", "memory": f"{1000 * n}Mi"}]}
                    ],
                    "profile": {"stages": [1000], "sensitivity": matrix},
                }
                for i, (n, matrix) in enumerate(jobs)
            ],
            "sharing": {"resources": ["iteration"], "most": 1},
            "policy": {"formulation": "interleaving", "terms": ["throughput"]},
        }
    )
    check_round(made)
    return made


def speeds(round_: Round, plan: Plan) -> list[int]:
    checked = verify(round_, plan)
    assert checked.ok, checked.violations
    return [
        0 if decision.option is None else speed(job, decision.option)
        for job, decision in zip(round_.jobs, plan.decisions, strict=True)
    ]


def test_whoever_is_fastest_with_less_leaves_the_rest_to_others(bench: SimpleNamespace) -> None:
    round_ = round_of((1, HUNGRY), (1, MODEST), (1, MODEST), (1, MODEST))
    assert speeds(round_, bench.tuning.tuned(round_)) == [1_800_000, UNIT, UNIT, UNIT]
    assert speeds(round_, bench.tuning.proportional(round_)) == [UNIT] * 4


def test_those_with_more_than_their_share_give_back_what_others_lack(
    bench: SimpleNamespace,
) -> None:
    # The first three wish 6 of 12 cores each: two of them fit, and both give way to those after.
    round_ = round_of((1, HUNGRY), (1, HUNGRY), (1, HUNGRY), (1, HUNGRY))
    assert speeds(round_, bench.tuning.tuned(round_)) == [UNIT] * 4
    round_ = round_of((1, HUNGRY), (1, HUNGRY), (1, MODEST), (1, MODEST))
    assert sorted(speeds(round_, bench.tuning.tuned(round_))) == [UNIT, UNIT, UNIT, 1_800_000]


def test_a_job_of_a_whole_host_is_not_split(bench: SimpleNamespace) -> None:
    round_ = round_of((1, MODEST), (4, MODEST), (2, HUNGRY), hosts=2)
    for method in (bench.tuning.tuned, bench.tuning.proportional):
        plan = method(round_)
        assert min(speeds(round_, plan)) >= UNIT
        assert [len(decision.tasks) for decision in plan.decisions] == [1, 1, 1]


def test_nobody_waits_and_nobody_is_below_its_share(bench: SimpleNamespace) -> None:
    case = bench.tuning_rounds.Tuning(8, (20, 70, 10), (1, 2, 4, 8, 16), 1)
    if not case.file.is_file():
        pytest.skip("the published matrices are not here")
    round_ = case.make()
    for method in (bench.tuning.tuned, bench.tuning.proportional):
        assert min(speeds(round_, method(round_))) >= UNIT


def test_names_tell_cases_apart(bench: SimpleNamespace) -> None:
    chosen = bench.tuning_rounds.cases(quick=False)
    assert len({(case.name, case.seed) for case in chosen}) == len(chosen) == 40
    assert chosen[0].name == "synergy-16-20.70.10"
    assert chosen[-1].name == "synergy-64-20.70.10-gpus-1.2.4.8.16"
