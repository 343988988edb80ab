"""The benchmark `packing`: its rules by hand, equal arrivals for all, and what a ledger refuses."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from placewright.rounds.benchmark import packing_rules

ROOT = Path(__file__).parents[2]
NODES = """sn,cpu_milli,memory_mib,gpu,model
small,8000,8000,2,A
large,32000,64000,4,A
other,32000,64000,4,B
"""
PODS = """name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec
p0,6000,1000,1,1000,
p1,1000,1000,1,400,
p2,1000,1000,1,400,
p3,2000,1000,2,1000,B
p4,1000,1000,0,0,
p5,1000,1000,1,700,A
"""
WHOLE, SHARE, PAIR, CPU_ONLY, LARGE_SHARE = range(5)


@pytest.fixture(scope="module")
def bench() -> Iterator[SimpleNamespace]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT)
        patch.chdir(ROOT)
        yield SimpleNamespace(
            **{
                name: importlib.import_module(f"benchmarks.{name}")
                for name in ("packing", "packing_pods")
            }
        )


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    nodes, pods = tmp_path / "nodes.csv", tmp_path / "pods.csv"
    nodes.write_text(NODES, encoding="utf-8")
    pods.write_text(PODS, encoding="utf-8")
    return nodes, pods


@pytest.fixture
def pods(bench: SimpleNamespace, files: tuple[Path, Path]) -> Any:
    return bench.packing_pods.read_pods(*files)


def test_a_list_is_read_with_its_pods_without_gpu(pods: Any) -> None:
    assert [(kind.gpu, kind.models) for kind in pods.kinds] == [
        (1000, None),
        (400, None),
        (2000, ("B",)),
        (0, None),
        (700, ("A",)),
    ]
    assert pods.counts.tolist() == [1, 2, 1, 1, 1]
    assert pods.total == 10_000
    assert pods.allowed[PAIR].tolist() == [False, False, True]


def test_arrivals_ask_a_multiple_of_the_gpus_and_are_the_same_for_a_seed(
    bench: SimpleNamespace, pods: Any
) -> None:
    first, again, other = (bench.packing_pods.arrivals(pods, seed) for seed in (0, 0, 1))
    assert first.kinds.tolist() == again.kinds.tolist() != other.kinds.tolist()
    asked = pods.milli[first.kinds]
    assert asked[:-1].sum() < 13_000 <= asked.sum()


def test_a_ledger_refuses_what_does_not_fit(bench: SimpleNamespace, pods: Any) -> None:
    ledger = packing_rules.Ledger(pods)
    ledger.take(LARGE_SHARE, (0, (1,)))
    for kind, place in [
        (SHARE, (0, (1,))),  # 300 left
        (WHOLE, (0, (1,))),
        (PAIR, (2, (0, 0))),  # one GPU twice
        (PAIR, (1, (0, 1))),  # another model
        (SHARE, (0, ())),
    ]:
        with pytest.raises(ValueError, match="does not fit"):
            ledger.take(kind, place)
    ledger.take(WHOLE, (0, (0,)))
    ledger.take(CPU_ONLY, (0, ()))
    with pytest.raises(ValueError, match="does not fit"):
        ledger.take(CPU_ONLY, (0, ()))  # no core is left
    assert ledger.held == 1700


@pytest.mark.parametrize(
    ("rule", "kind", "taken", "host"),
    [
        ("first-fit", WHOLE, [], 0),
        ("first-fit", PAIR, [], 2),
        # Fewest CPU and GPUs left; the small host is too small once it is in use.
        ("best-fit", WHOLE, [], 0),
        ("best-fit", WHOLE, [(WHOLE, (0, (0,)))], 1),
        ("best-fit", CPU_ONLY, [(WHOLE, (2, (0,)))], 0),
        # The largest shares of CPU and memory stay free.
        ("least-allocated", SHARE, [(WHOLE, (1, (0,)))], 2),
        ("least-allocated", SHARE, [], 1),
        # The smallest product: the fullest GPU on the smallest host.
        ("dot-product", SHARE, [], 0),
        ("dot-product", SHARE, [(WHOLE, (0, (0,))), (SHARE, (2, (3,)))], 0),
        # GPUs in part use, then hosts in use, then the smallest host.
        ("GPU packing", SHARE, [(SHARE, (2, (3,)))], 2),
        ("GPU packing", WHOLE, [(SHARE, (2, (3,)))], 2),
        ("GPU packing", WHOLE, [], 0),
    ],
)
def test_each_rule_goes_where_its_description_says(
    bench: SimpleNamespace, pods: Any, rule: str, kind: int, taken: list[Any], host: int
) -> None:
    ledger = packing_rules.Ledger(pods)
    for one, place in taken:
        ledger.take(one, place)
    assert packing_rules.RULES[rule](pods)(ledger, kind)[0] == host


def test_fgd_goes_where_fragmentation_grows_least(bench: SimpleNamespace, pods: Any) -> None:
    """By the definition, on every host and GPU, over the six pods of the list."""
    shares = pods.counts / pods.counts.sum()

    def fragments(left: Any, gpus: Any, host: int) -> float:
        total = 0.0
        for k, kind in enumerate(pods.kinds):
            large = [free for free in gpus if free >= min(kind.gpu, 1000)]
            runs = kind.gpu > 0 and len(large) >= max(kind.gpu // 1000, 1)
            runs = runs and left[0] >= kind.cpu and bool(pods.allowed[k, host])
            total += shares[k] * (sum(gpus) - sum(large) * runs)
        return total

    ledger = packing_rules.Ledger(pods)
    rule = packing_rules.RULES["FGD"](pods)
    for kind in bench.packing_pods.arrivals(pods, 3).kinds.tolist():
        growths = {}
        asked = pods.kinds[kind]
        for host in range(3):
            gpus = [int(g) for g in ledger.gpus[host, : pods.gpus[host]]]
            left = ledger.left[host] - (asked.cpu, asked.memory)
            if not ledger.room(kind)[host]:
                continue
            before = fragments(ledger.left[host], gpus, host)
            if 0 < asked.gpu < 1000:
                ways = [[i] for i, free in enumerate(gpus) if free >= asked.gpu]
            else:
                free = [i for i, left_of in enumerate(gpus) if left_of == 1000]
                ways = [free[: asked.gpu // 1000]]
            for way in ways:
                after = [g - min(asked.gpu, 1000) * (i in way) for i, g in enumerate(gpus)]
                growths[host, tuple(way)] = fragments(left, after, host) - before
        place = rule(ledger, kind)
        assert (place is None) == (not growths)
        if place is not None:
            assert growths[place] == pytest.approx(min(growths.values()))
            ledger.take(kind, place)


def test_all_methods_stay_below_the_bound_and_ours_leaves_valid_ledgers(
    bench: SimpleNamespace, pods: Any
) -> None:
    arriving = bench.packing_pods.arrivals(pods, 0)
    bound = bench.packing.bound_of(arriving)
    ledgers = [bench.packing.play_rounds(arriving, batch) for batch in (1, 4, 100)]
    ledgers += [bench.packing.play_rules(arriving, make) for make in packing_rules.RULES.values()]
    for ledger in ledgers:
        assert 0 < ledger.held <= bound <= pods.total
        assert ledger.held == pods.total - ledger.gpus.sum()
    # All at once, nothing is held up by what came before.
    assert ledgers[2].held >= max(ledger.held for ledger in ledgers[3:])


def test_without_the_trace_the_case_is_skipped_and_says_why(
    bench: SimpleNamespace, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(bench.packing, "TRACE", tmp_path)
    (row,) = bench.packing.run(bench.packing.cases(quick=True), quick=True)
    assert (row.status, row.case) == ("skipped", "default-100")
    assert "not found" in row.note


def test_a_case_has_a_row_per_method_and_its_means(
    bench: SimpleNamespace, monkeypatch: pytest.MonkeyPatch, files: tuple[Path, Path]
) -> None:
    monkeypatch.setattr(bench.packing, "TRACE", files[0].parent)
    monkeypatch.setattr(bench.packing, "NODES", "nodes.csv")
    monkeypatch.setattr(bench.packing, "PODS", "pods.csv")
    rows = list(bench.packing.run([bench.packing.Case("default", 4, 2)], quick=False))
    assert [row.method for row in rows] == ["placewright", *packing_rules.RULES]
    assert {row.status for row in rows} == {"done"}
    assert all(row.value <= row.bound for row in rows)
    assert all(row.gap == (row.bound - row.value) / row.bound for row in rows)
