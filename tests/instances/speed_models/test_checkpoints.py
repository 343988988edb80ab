"""The menu of checkpoints: published figures, brute force over intervals and bits, its round."""

from __future__ import annotations

import random
from fractions import Fraction
from itertools import product
from math import lcm, sqrt
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from placewright import Plan, Round, load_round, solve_round, verify
from placewright.instances import verify as verification
from placewright.instances.documents.option import Option, TaskGroup
from placewright.instances.documents.plan import DecisionKind
from placewright.instances.errors import InvalidInputError
from placewright.instances.speed_models import checkpoints

LIBRARY = Path(verification.__file__).parents[1] / "library"
NAME = "checkpoints"
BACKENDS = ("highs", "cp-sat", "cbc", "scip")
SMALL, LARGE = (100, 9), (400, 1)
"""State in Gbit, and work per second; both write to a store of 5 Gbit/s."""

WORST = 10_000


class Sample(NamedTuple):
    """Random jobs (state in Gbit, work per second) that share a store and one host's memory."""

    jobs: tuple[tuple[int, int], ...]
    intervals: tuple[int, ...]
    bits: dict[int, int]
    store_gbps: int
    memory: int
    window: int
    """Seconds of the pool; in a multiple of four times all intervals, options write whole Mbit."""


def drawn(seed: int) -> Sample:
    rng = random.Random(seed)
    jobs = tuple((rng.randint(1, 500), rng.randint(1, 20)) for _ in range(rng.randint(1, 4)))
    intervals = rng.sample([10, 20, 30, 40, 60, 90, 120, 180, 240, 360, 400], rng.randint(2, 5))
    few = rng.sample([2, 3, 4, 8], rng.randint(0, 2))
    bits = {32: 0} | {b: rng.randint(1, 300) for b in few}
    need = sum(checkpoints.snapshot_mib(state, 1) for state, _ in jobs)
    store, memory = rng.randint(1, 12), rng.choice([need, need // 2])
    return Sample(jobs, tuple(intervals), bits, store, memory, 4 * lcm(*intervals))


def round_of(sample: Sample) -> Round:
    jobs: list[dict[str, Any]] = []
    for number, (state, work) in enumerate(sample.jobs):
        menu = checkpoints.options(
            state,
            work,
            sample.intervals,
            sample.bits,
            worst_s=WORST,
            store="store_mbit",
            window_s=sample.window,
            scale=1,
        )
        options = [option.model_dump(mode="json") for option in menu]
        jobs.append({"name": f"j{number}", "options": options})
    host = {"name": "h", "gpus": 4, "gpu_model": "x", "memory": f"{sample.memory}Mi"}
    store = sample.store_gbps * 1000 * sample.window
    pool = {"resource": "store_mbit", "capacity": store, "per": "job"}
    cluster = {"hosts": [host], "pools": [pool]}
    return Round.model_validate({"cluster": cluster, "jobs": jobs, "policy": {"terms": ["value"]}})


def least_lost(sample: Sample) -> Fraction:
    """Work lost by the best of all choices, waiting included, without the menu."""
    each = [(0, None), *product(sample.intervals, sample.bits)]
    best = Fraction(sum(work for _, work in sample.jobs) * WORST, 2)
    for chosen in product(each, repeat=len(sample.jobs)):
        lost, load, memory = Fraction(0), Fraction(0), 0
        for (interval, bits), (state, work) in zip(chosen, sample.jobs, strict=True):
            lost += Fraction(work * (interval if bits else WORST), 2)
            if bits:
                lost += sample.bits[bits]
                load += Fraction(state * bits, 32 * interval)
                memory += checkpoints.snapshot_mib(state, 1)
        if load <= sample.store_gbps and memory <= sample.memory:
            best = min(best, lost)
    return best


def fluid_bound(sample: Sample) -> float:
    return sum(sqrt(work * state) for state, work in sample.jobs) ** 2 / (2 * sample.store_gbps)


def solved(round_: Round, backend: str) -> Plan:
    plan = solve_round(round_, backend=backend, gap=0.0, isolation="none")
    assert verify(round_, plan).ok
    assert plan.certificate is not None
    assert plan.certificate.terms[0].gap == 0
    return plan


def value_of(plan: Plan) -> int:
    assert plan.certificate is not None
    return plan.certificate.terms[0].value


def test_the_best_intervals_of_any_length() -> None:
    assert checkpoints.fluid_intervals([SMALL, LARGE], 5) == pytest.approx([100 / 3, 200])
    sample = Sample((SMALL, LARGE), (1,), {}, 5, 0, 1)
    assert fluid_bound(sample) == pytest.approx(9 * 100 / 6 + 1 * 200 / 2) == pytest.approx(250)


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_best_intervals_of_a_menu(backend: str) -> None:
    sample = Sample((SMALL, LARGE), tuple(range(10, 401, 10)), {32: 0}, 5, 60_000, 240)
    round_ = round_of(sample)
    plan = solved(round_, backend)
    assert least_lost(sample) == 255 == 10 * WORST // 2 - value_of(plan)
    names = [
        job.options[d.option or 0].name
        for job, d in zip(round_.jobs, plan.decisions, strict=True)
        if d.decision is DecisionKind.START
    ]
    assert names == ["30s-32bits", "240s-32bits"]


@pytest.mark.nightly(after=4)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("part", range(5))
def test_menus_are_as_good_as_brute_force(backend: str, part: int) -> None:
    begin = 100 * BACKENDS.index(backend) + 5 * part
    for seed in range(begin, begin + 5):
        compare(seed, backend)


def compare(seed: int, backend: str) -> None:
    """Compare one random round with all choices, and with any intervals where all jobs start."""
    sample = drawn(seed)
    plan = solved(round_of(sample), backend)
    lost = Fraction(sum(work for _, work in sample.jobs) * WORST, 2) - value_of(plan)
    assert lost == least_lost(sample), seed
    if set(sample.bits) == {32} and all(d.decision is DecisionKind.START for d in plan.decisions):
        assert lost >= fluid_bound(sample) * (1 - 1e-12), seed


def menu(*jobs: tuple[int, int, TaskGroup], bits: dict[int, float]) -> list[tuple[Option, ...]]:
    return [
        checkpoints.options(
            state, work, (20, 50, 80, 160, 200), bits, worst_s=400, worker=worker, scale=1
        )
        for state, work, worker in jobs
    ]


def best_of(menus: list[tuple[Option, ...]]) -> int:
    return max(
        sum(option.value or 0 for option in chosen)
        for chosen in product(*menus)
        if sum(option.uses["store_mbps"] for option in chosen) <= 5000
    )


def test_the_bundled_round_is_the_menu() -> None:
    jobs = (*SMALL, TaskGroup(gpu=8)), (*LARGE, TaskGroup(gpu=8, count=2))
    both = menu(*jobs, bits={32: 0, 8: 60})
    assert [job.options for job in load_round(LIBRARY / f"{NAME}.yaml").jobs] == both
    assert best_of(both) == 1770
    assert best_of(menu(*jobs, bits={32: 0})) == 1695
    assert best_of(menu(*jobs, bits={8: 60})) == 1765


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_bundled_round_has_its_answer(backend: str) -> None:
    round_ = load_round(LIBRARY / f"{NAME}.yaml")
    plan = solved(round_, backend)
    assert value_of(plan) == 1770
    names = [
        job.options[d.option or 0].name for job, d in zip(round_.jobs, plan.decisions, strict=True)
    ]
    assert names == ["20s-8bits", "160s-32bits"]
    assert {task.host for task in plan.decisions[0].tasks} == {"h0"}


def test_memory_and_bandwidth_are_rounded_up() -> None:
    assert checkpoints.snapshot_mib(100, 1) == 11_921
    assert checkpoints.snapshot_mib(100, 8) == 1491
    worker = TaskGroup(gpu=1, count=8, memory="1000Mi")
    (option,) = checkpoints.options(100, 1, [30], {3: 0}, worst_s=60, worker=worker)
    assert option.name == "30s-3bits"
    assert option.uses == {"store_mbps": 313}  # 312.5
    assert option.groups == (worker.model_copy(update={"memory": 2491}),)
    assert option.value == 15_000


def test_options_that_others_beat_are_left_out() -> None:
    made = checkpoints.options(32, 2, [10, 20, 40], {32: 0, 8: 10, 4: 40}, worst_s=40, scale=1)
    # 10 s in 4 bits lose as much as 40 s in 8 bits, and more than 20 s in 8 bits.
    assert {o.name: (o.uses["store_mbps"], o.value) for o in made} == {
        "20s-8bits": (400, 10),
        "10s-8bits": (800, 20),
        "10s-32bits": (3200, 30),
    }


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"state_gbit": 0}, "state_gbit: 0: expected a number above 0"),
        ({"state_gbit": 1e12}, "state_gbit: .*: expected 0 to"),
        ({"work": float("nan")}, "work: nan: expected a number above 0"),
        ({"intervals_s": [0]}, "intervals_s: 0: expected 1 to"),
        ({"bits": {5: 0}}, r"bits: 5: expected some of \(2, 3, 4, 8, 32\)"),
        ({"bits": {8: -1}}, r"bits\[8\]: -1: expected 0 to"),
        ({"worst_s": 10}, "worst_s: 10: no interval loses less; expected a longer one"),
        ({"window_s": 0}, "window_s: 0: expected 1 or more"),
        ({"intervals_s": range(1, 66)}, "intervals_s: 65 options; expected at most 64"),
    ],
)
def test_what_cannot_be_is_refused(changes: dict[str, Any], message: str) -> None:
    given: dict[str, Any] = {"state_gbit": 1000, "work": 1, "intervals_s": [10], "worst_s": 1000}
    with pytest.raises(InvalidInputError, match=message):
        checkpoints.options(**(given | changes))


def test_a_store_without_bandwidth_has_no_intervals() -> None:
    with pytest.raises(InvalidInputError, match="store_gbps: 0: expected a number above 0"):
        checkpoints.fluid_intervals([SMALL, LARGE], 0)
