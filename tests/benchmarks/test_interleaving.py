"""The benchmark `interleaving`: its baselines by hand, their plans verified, and honest rows."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import examples
from placewright import Plan, Round, verify
from placewright.instances.checks.round import check_round
from placewright.instances.converters.traces.muri import CONTENTION, RESOURCES
from placewright.instances.documents.cluster import ClusterDocument, HostEntry
from placewright.instances.documents.job import Job
from placewright.instances.documents.option import Option, TaskGroup
from placewright.instances.documents.policy import Policy
from placewright.instances.documents.profile import Profile
from placewright.instances.documents.sharing import Sharing

ROOT = Path(__file__).parents[2]
TRACES = ROOT.parent / "shared" / "data" / "traces" / "muri"
MURI = Sharing(resources=RESOURCES, spanning=True, contention=CONTENTION)
IO, GPU, NETWORK = (600, 100, 0), (50, 500, 50), (0, 100, 600)
"""Stages of jobs that each wait for another resource."""


@pytest.fixture(scope="module")
def bench() -> Iterator[SimpleNamespace]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT)
        patch.chdir(ROOT)
        modules = "groups", "interleaving", "matching", "measure"
        yield SimpleNamespace(
            **{name: importlib.import_module(f"benchmarks.{name}") for name in modules}
        )


def round_of(
    *jobs: tuple[int, tuple[int, int, int]],
    hosts: tuple[int, ...],
    sharing: Sharing = MURI,
    weights: tuple[int, ...] = (),
) -> Round:
    """A round of jobs, each (GPUs, stages), on hosts of a given size; tasks have at most 8 GPUs."""
    made = Round(
        cluster=ClusterDocument(
            hosts=tuple(
                HostEntry(name=f"h{i}", gpus=gpus, gpu_model="V100") for i, gpus in enumerate(hosts)
            )
        ),
        jobs=tuple(
            Job(
                name=f"j{i}",
                weight=weights[i] if weights else 1,
                options=(Option(groups=(TaskGroup(count=max(1, n // 8), gpu=min(n, 8)),)),),
                profile=Profile(stages=stages),
            )
            for i, (n, stages) in enumerate(jobs)
        ),
        policy=Policy(
            formulation="interleaving",
            terms=("weighted_throughput" if weights else "throughput",),
        ),
        sharing=sharing,
    )
    check_round(made)
    return made


def ours_and_verified(bench: Any, round_: Round, groups: list[tuple[int, ...]]) -> tuple[int, int]:
    """The value of groups by the benchmark, and what the verifier says of their plan."""
    queue = bench.groups.Queue.of(round_)
    found = verify(round_, bench.groups.plan_of(round_, queue, groups))
    assert found.ok, found.violations
    (value,) = found.terms.values()
    return int(bench.groups.measure(queue, groups).throughput.sum()), value


def test_a_group_is_measured_by_its_period_with_contention(bench: SimpleNamespace) -> None:
    queue = bench.groups.Queue.of(round_of((1, IO), (1, NETWORK), (1, GPU), hosts=(1,)))
    found = bench.groups.measure(queue, [(0, 1), (2,), (0, 1, 2)])
    # Both have their 600 at one time, and each its 100 of the GPU in a slot of its own.
    pair = -(-800 * CONTENTION[0] // 10**6)
    assert found.period[:2].tolist() == [pair, 600]
    assert found.throughput[:2].tolist() == [2 * (10**6 * 700 // pair), 10**6]
    assert found.gamma[:2].tolist() == [10**6 * 1400 // (4 * pair), 10**6 * 600 // (4 * 600)]
    assert not found.lost.any()


def test_a_group_that_is_slower_than_taking_turns_is_lost(bench: SimpleNamespace) -> None:
    queue = bench.groups.Queue.of(round_of((1, GPU), (1, GPU), (1, GPU), hosts=(1,)))
    assert bench.groups.measure(queue, [(0, 1), (0,)]).lost.tolist() == [True, False]


def test_weights_count_where_the_term_says_so(bench: SimpleNamespace) -> None:
    round_ = round_of((1, IO), (2, NETWORK), (1, NETWORK), hosts=(4,), weights=(3, 5, 1))
    assert ours_and_verified(bench, round_, [(0,), (1,)]) == (8 * 10**6, 8 * 10**6)
    ours, verified = ours_and_verified(bench, round_, [(0, 2), (1,)])
    assert ours == verified > 5 * 10**6


@given(
    hosts=st.lists(st.sampled_from([1, 3, 4, 8, 8]), min_size=1, max_size=4),
    asked=st.lists(st.sampled_from([1, 2, 4, 8, 16]), min_size=1, max_size=8),
)
@settings(max_examples=examples(day=15, nightly=60))
def test_groups_are_placed_exactly_if_blocks_of_each_size_suffice(
    bench: SimpleNamespace, hosts: list[int], asked: list[int]
) -> None:
    queue = bench.groups.Queue.of(round_of(*((n, GPU) for n in asked), hosts=tuple(hosts)))
    places = bench.groups.place(queue, [(job,) for job in range(len(asked))])
    wanted = [min(n, 8) for n in asked for _ in range(max(1, n // 8))]
    enough = all(
        sum(size // s for size in wanted) <= sum(free // s for free in hosts) for s in (1, 2, 4, 8)
    )
    assert (places is not None) == enough
    if places is None:
        return
    used = [
        (host, gpu)
        for job, where in enumerate(places)
        for host, first in where
        for gpu in range(first, first + min(asked[job], 8))
    ]
    assert len(used) == len(set(used)) == sum(asked)
    assert all(gpu < hosts[host] for host, gpu in used)


def test_what_does_not_fit_is_no_plan(bench: SimpleNamespace) -> None:
    round_ = round_of((1, GPU), (1, IO), hosts=(1,))
    with pytest.raises(ValueError, match="2 groups do not fit 1 GPUs"):
        bench.groups.plan_of(round_, bench.groups.Queue.of(round_), [(0,), (1,)])


@given(st.lists(st.integers(1, 99), min_size=15, max_size=15))
@settings(max_examples=examples(day=15, nightly=40))
def test_blossom_finds_the_heaviest_matching_and_greedy_half_of_it(
    bench: SimpleNamespace, weights: list[int]
) -> None:
    pairs = np.array(list(combinations(range(6), 2)))
    of = dict(zip(combinations(range(6), 2), weights, strict=True))

    def total(pairing: Any) -> int:
        found = list(pairing(6, pairs, np.array(weights)))
        assert len({node for pair in found for node in pair}) == 2 * len(found)
        return sum(of[pair] for pair in found)

    def best(free: tuple[int, ...]) -> int:
        if len(free) < 2:
            return 0
        first, rest = free[0], free[1:]
        return max(of[first, other] + best(tuple(n for n in rest if n != other)) for other in rest)

    exact = best(tuple(range(6)))
    assert total(bench.matching.PAIRINGS["matching"]) == exact
    assert 2 * total(bench.matching.PAIRINGS["greedy"]) >= exact


def grouped(
    bench: Any, round_: Round, pairing: str = "matching", **settings: Any
) -> list[list[int]]:
    queue = bench.groups.Queue.of(round_)
    chosen = bench.matching.Settings(**{"weight": "throughput", **settings})
    groups = bench.matching.grouped(queue, chosen, bench.matching.PAIRINGS[pairing])
    return sorted(sorted(group) for group in groups)


@pytest.mark.parametrize("pairing", ["matching", "greedy"])
def test_nobody_shares_while_all_fit(bench: SimpleNamespace, pairing: str) -> None:
    round_ = round_of((1, IO), (2, GPU), (1, NETWORK), hosts=(4,))
    assert grouped(bench, round_, pairing) == [[0], [1], [2]]


@pytest.mark.parametrize("pairing", ["matching", "greedy"])
@pytest.mark.parametrize("weight", ["gamma", "throughput"])
def test_only_as_many_pairs_as_gpus_lack_those_that_lose_least(
    bench: SimpleNamespace, pairing: str, weight: str
) -> None:
    apart = (1, (600, 0, 0)), (1, (0, 0, 600))
    round_ = round_of((2, GPU), (2, (0, 600, 0)), *apart, hosts=(5,))
    assert grouped(bench, round_, pairing, weight=weight) == [[0], [1], [2, 3]]


def test_pairs_become_groups_of_four_where_that_is_needed(bench: SimpleNamespace) -> None:
    stages = [(60, 1, 1), (1, 60, 1), (1, 1, 60), (60, 1, 2)]
    round_ = round_of(*((8, s) for s in stages), *((4, s) for s in stages), hosts=(8, 4))
    assert grouped(bench, round_) == [[0, 1, 2, 3], [4, 5, 6, 7]]


def test_a_lost_group_leaves_its_place_to_one_member(bench: SimpleNamespace) -> None:
    round_ = round_of((1, GPU), (1, GPU), (1, GPU), (1, GPU), hosts=(1,))
    assert len(grouped(bench, round_)) == 1
    assert all(len(group) == 1 for group in grouped(bench, round_))
    assert grouped(bench, round_, without_losses=True) == [[0]]


def test_jobs_are_admitted_in_fours_by_order_and_the_rest_fills_what_is_left(
    bench: SimpleNamespace,
) -> None:
    jobs = [(2, IO), (1, IO), (1, GPU), (1, NETWORK), (1, IO), (1, GPU)]
    round_ = round_of(*jobs, hosts=(3,))
    queue = bench.groups.Queue.of(round_)
    in_order = list(range(6))
    assert bench.matching._admitted(queue, in_order, 4) == [0, 1, 2, 3, 4]
    assert bench.matching._admitted(queue, in_order, 1) == [0, 1]
    assert bench.matching._admitted(queue, in_order[1:], 2) == [1, 2, 3, 4, 5]
    assert [0] in grouped(bench, round_, admitted=1)
    assert [0] not in grouped(bench, round_, admitted=1, order="fewest")
    assert bench.matching.alone(queue) == [(1,), (2,), (3,)]


def test_every_way_of_matching_makes_valid_plans_of_the_value_it_says(
    bench: SimpleNamespace,
) -> None:
    draw = np.random.Generator(np.random.PCG64(5))
    for trial in range(examples(day=1, nightly=4)):
        number = 14
        gpus = draw.choice([1, 1, 2, 4, 8, 16], number).tolist()
        stages = draw.integers(0, 500, (number, 3)) * draw.integers(0, 2, (number, 3)) + 1
        lack = -(-sum(gpus) // (2 + trial % 3))
        hosts = (8,) * (lack // 8) + ((lack % 8,) if lack % 8 else ())
        round_ = round_of(
            *zip(gpus, map(tuple, stages.tolist()), strict=True),
            hosts=hosts,
            weights=tuple(gpus) if trial % 2 else (),
        )
        queue = bench.groups.Queue.of(round_)
        for pairing in bench.matching.PAIRINGS.values():
            for chosen in bench.matching.all_settings(described=False):
                groups = bench.matching.grouped(queue, chosen, pairing)
                ours, verified = ours_and_verified(bench, round_, groups)
                assert ours == verified


def test_groups_of_plain_stages_are_valid_too(bench: SimpleNamespace) -> None:
    sharing = Sharing(resources=("a", "b", "c"), most=3)
    round_ = round_of(*((1, s) for s in (IO, GPU, NETWORK)), hosts=(1,), sharing=sharing)
    assert grouped(bench, round_) == [[0, 1, 2]]
    ours, verified = ours_and_verified(bench, round_, [(0, 1, 2)])
    assert ours == verified


HEADER = "job_id,num_gpu,model_name,iteration_time,resource_time_0,resource_time_1,resource_time_2"
ROWS = ["1,io,700,600,100,0", "1,net,700,0,100,600", "2,gpu,600,50,500,50", "4,io,700,600,100,0"]


@pytest.fixture
def traces(bench: SimpleNamespace, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setattr(bench.interleaving, "TRACES", tmp_path)
    rows = [f"{i},{row}" for i, row in enumerate(3 * ROWS)]
    (tmp_path / "tiny.csv").write_text("\n".join([HEADER, *rows, ""]), encoding="utf-8")
    return tmp_path


def test_a_case_is_drawn_on_a_quarter_of_the_gpus_that_are_asked(
    bench: SimpleNamespace, traces: Path
) -> None:
    case = bench.interleaving.Case("tiny", 8, 1)
    made = case.make()
    check_round(made)
    assert made == case.make() != bench.interleaving.Case("tiny", 8, 2).make()
    asked = sum(job.options[0].milli_gpu for job in made.jobs)
    (host,) = made.cluster.hosts
    assert host.gpus == -(-asked // 4000)
    assert made.policy.terms == ("throughput",)
    weighted = bench.interleaving.Case("tiny", 8, 1, "weighted").make()
    assert weighted.policy.terms == ("weighted_throughput",)
    assert [job.weight for job in weighted.jobs] == [
        job.options[0].milli_gpu // 1000 for job in made.jobs
    ]


def test_jitter_leaves_no_two_profiles_alike_and_zero_stages_zero(
    bench: SimpleNamespace, traces: Path
) -> None:
    plain = bench.interleaving.Case("tiny", 12, 0).make()
    made = bench.interleaving.Case("tiny", 12, 0, "jittered").make()
    check_round(made)
    assert len({job.profile for job in made.jobs}) == 12
    for before, after in zip(plain.jobs, made.jobs, strict=True):
        for old, new in zip(before.profile.stages, after.profile.stages, strict=True):
            assert abs(new - old) <= old / 10 + 1
        assert abs(after.profile.alone - before.profile.alone) <= before.profile.alone / 10 + 1


def test_without_a_trace_its_cases_are_skipped_and_say_what_is_missing(
    bench: SimpleNamespace, traces: Path
) -> None:
    (row,) = bench.interleaving.run([bench.interleaving.Case("none", 64, 0)], quick=True)
    assert (row.status, row.case) == ("skipped", "none-64")
    assert "none.csv not found" in row.note


def test_plans_are_counted_by_jobs_that_run_and_that_share(bench: SimpleNamespace) -> None:
    round_ = round_of((1, IO), (1, NETWORK), (1, GPU), (1, GPU), hosts=(2,))
    plan: Plan = bench.groups.plan_of(round_, bench.groups.Queue.of(round_), [(0, 1), (2,)])
    assert bench.interleaving.shared(plan) == {"running": 3, "in groups": 2}


def test_rows_say_how_much_better_ours_is_and_means_how_little_on_any_seed(
    bench: SimpleNamespace, traces: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def measured(prepare: Any, function: Any, repeats: int) -> list[Any]:
        return [bench.measure.Measured(function(prepare()), 1.0, 2.0, 3.0)] * repeats

    def planted(seconds: float, round_: Round) -> Any:
        return bench.interleaving._best(
            "matching", bench.matching.all_settings(described=False), round_
        )

    monkeypatch.setattr(bench.interleaving, "measured", measured)
    monkeypatch.setattr(bench.interleaving, "placewright", planted)
    chosen = [bench.interleaving.Case("tiny", 12, seed) for seed in range(2)]
    rows = list(bench.interleaving.run(chosen, quick=False))
    methods = [
        "placewright",
        "matching",
        "greedy",
        "matching, best settings",
        "greedy, best settings",
    ]
    assert [row.method for row in rows] == 3 * [*methods, "alone"]
    better = "ours better by %"
    assert [row.status for row in rows[-6:]] == ["mean"] * 6
    for row in rows:
        if row.method == "matching, best settings":
            assert row.figures[better] == 0
        elif row.method == "matching":
            assert row.figures[better] >= 0
    alone = [row.figures[better] for row in rows if row.method == "alone"]
    assert alone[-1] == pytest.approx(sum(alone[:2]) / 2)
    assert rows[-1].figures["at least %"] == min(alone[:2])


@pytest.mark.nightly
@pytest.mark.skipif(not TRACES.is_dir(), reason="needs the traces of Muri")
@pytest.mark.parametrize("variant", ["", "weighted"])
def test_on_the_published_trace_no_way_of_matching_is_better_than_ours(
    bench: SimpleNamespace, variant: str
) -> None:
    for seed in range(2):
        round_ = bench.interleaving.Case("trace3", 40, seed, variant).make()
        ours = bench.interleaving.placewright(20.0, round_)
        assert ours.value == ours.bound
        every = bench.matching.all_settings(described=False)
        for pairing in bench.matching.PAIRINGS:
            assert bench.interleaving._best(pairing, every, round_).value <= ours.value
        assert bench.interleaving._alone(round_).value < ours.value
