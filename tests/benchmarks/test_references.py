"""The references of others: their checkers by hand, their models against all answers, the rows."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import pytest

from benchmarks import reassignment_search as searching
from benchmarks.reassignment import broken_rules, cost_of, loads_bound, read_reassignment
from benchmarks.references import assign, main, overloaded, read_assignment, table
from examples import examples
from placewright.report.benchmark import benchmark_page
from placewright.rounds.benchmark.run import read_rows
from placewright.solver import InProcess, Limits

ROOT = Path(__file__).parents[2]

# Two resources, the first transient; machines 0 and 1 in neighbourhood 0, machine 2 in 1; three
# services, of which 0 is spread over two locations and needs 1 nearby; four processes.
MODEL = """2  1 10  0 1
3  0 0 10 10 5 5 0 1 2  0 1 10 10 4 9 1 0 3  1 1 8 8 8 2 2 3 0
3  2 1 1  1 0  1 0
4  0 4 1 5  0 2 2 6  1 3 3 7  2 5 5 8
1  0 1 2 20
1 10 100"""


@pytest.fixture
def small(tmp_path):
    (tmp_path / "model.txt").write_text(MODEL, encoding="ascii")
    (tmp_path / "first.sol").write_text("0 1 1 2", encoding="ascii")
    return read_reassignment(tmp_path / "model.txt", tmp_path / "first.sol")


def drawn(tmp_path, seed):
    draw = np.random.default_rng(seed)
    first = draw.integers(3, size=5)
    services = [0, 0, 1, 1, 2]
    needs = draw.integers(1, 5, (5, 2))
    used = [[int(needs[first == m, r].sum()) for r in range(2)] for m in range(3)]
    machines = [
        (int(draw.integers(2)), int(draw.integers(2)), *(u + int(draw.integers(5)) for u in use))
        for use in used
    ]
    text = f"2 1 10 0 {draw.integers(1, 9)} 3 "
    for place, location, *room in machines:
        safe = [int(draw.integers(one + 1)) for one in room]
        text += " ".join(map(str, (place, location, *room, *safe, *draw.integers(9, size=3)))) + " "
    text += "3 " + " ".join(f"{draw.integers(3)} {n} {' '.join(['1'] * n)}" for n in (1, 0, 1))
    costs = draw.integers(9, size=5)
    text += " 5 " + " ".join(
        f"{s} {a} {b} {c}" for s, (a, b), c in zip(services, needs, costs, strict=True)
    )
    text += f" 1 0 1 {draw.integers(3)} 7 1 10 {draw.integers(5)}"
    (tmp_path / "m").write_text(text, encoding="ascii")
    (tmp_path / "a").write_text(" ".join(map(str, first)), encoding="ascii")
    return read_reassignment(tmp_path / "m", tmp_path / "a")


def test_costs_of_an_assignment_by_hand(small):
    # Machine 1 uses 5 of safe 4: 10. Balance, 2 x free CPU - free memory: 12 - 9, 10 - 5, 6 - 3.
    assert cost_of(small, small.initial) == 10 + 3 + 20 * (3 + 5 + 3)
    # Process 2 moves from machine 1 to 2, at 7, 10 for its service and 300: 2 uses 8 of safe 8.
    moved = np.array([0, 1, 2, 2])
    assert cost_of(small, moved) == 6 + 20 * (3 + 8) + 7 + 10 + 300
    assert loads_bound(small) <= cost_of(small, small.initial)


@pytest.mark.parametrize(
    ("assignment", "broken"),
    [
        ([0, 1, 1, 2], []),
        ([0, 1, 2, 2], ["dependency of service 0 on 1"]),
        ([0, 0, 1, 2], ["conflict of service 0", "spread of service 0"]),
        ([0, 2, 1, 2], ["dependency of service 0 on 1"]),
        ([1, 0, 1, 2], []),
        # Process 2 has left machine 1, where it still counts; 3 + 2 + 5 fit, memory is free again.
        ([0, 1, 0, 1], []),
        ([0, 1, 3, 2], ["not a machine for each process"]),
        (
            [1, 2, 1, 1],
            [
                "capacity of machine 1, resource 0",
                "spread of service 0",
                "dependency of service 0 on 1",
            ],
        ),
    ],
)
def test_each_rule_by_hand(small, assignment, broken):
    assert broken_rules(small, np.array(assignment)) == broken


def best_of(it, allowed=lambda _: True):
    every = (np.array(one) for one in product(range(3), repeat=5) if allowed(one))
    return min((cost_of(it, one) for one in every if not broken_rules(it, one)), default=None)


@pytest.mark.parametrize("seed", range(examples(day=6, nightly=200)))
def test_the_model_has_the_best_of_all_assignments(tmp_path, seed):
    it = drawn(tmp_path, seed)
    best = best_of(it)
    if broken_rules(it, it.initial):
        return
    whole = np.arange(5), np.arange(3)
    model, start = searching.neighbourhood_model(it, it.initial, *whole)
    arrays = model.arrays("cost")
    assert model.value_of("cost", start) == cost_of(it, it.initial)
    assert not arrays.violations(start).size
    outcome = InProcess().solve("cp-sat", arrays, Limits(10, gap=0))
    assert round(outcome.objective) == best
    assert loads_bound(it) <= best
    down = searching.descend(it, it.initial, lambda: False)
    assert not broken_rules(it, down)
    assert best <= cost_of(it, down) <= cost_of(it, it.initial)
    # Of a neighbourhood: processes 1, 2 and 4 go to the machines where they are.
    free = np.array([1, 2, 4])
    opened = np.unique(it.initial[free])
    part, _ = searching.neighbourhood_model(it, it.initial, free, opened)
    outcome = InProcess().solve("highs", part.arrays("cost"), Limits(10, gap=0))
    made = it.initial.copy()
    made[free] = opened[outcome.values[: 3 * len(opened)].reshape(3, -1).argmax(axis=1)]

    def inside(one):
        stays = one[0] == it.initial[0] and one[3] == it.initial[3]
        return stays and all(one[p] in opened for p in free)

    assert not broken_rules(it, made)
    assert cost_of(it, made) == best_of(it, inside)


def test_a_search_ends_with_a_valid_assignment(small, monkeypatch):
    monkeypatch.setattr(searching, "WHOLE", 0)  # it takes more than one neighbourhood
    monkeypatch.setattr(searching, "Worker", InProcess)
    told = []
    found, _ = searching.search(small, "cp-sat", 0.3, watch=told.append)
    assert not broken_rules(small, found)
    assert told == sorted(set(told), reverse=True)
    assert told[-1] == cost_of(small, found)


GAP = "2 3  4 9 3  5 2 8  2 3 2  3 1 2  4 3"


def test_generalised_assignment_by_hand(tmp_path):
    path = tmp_path / "g"
    path.write_text(GAP, encoding="ascii")
    it = read_assignment(path)
    assert overloaded(it, [0, 0, 0]) == [0]
    assert overloaded(it, [0, 1, 0]) == []
    assert assign(it, "highs", 10).objective == 4 + 2 + 3


def test_rows_are_kept_and_reported(tmp_path, capsys):
    (tmp_path / "gap").mkdir()
    (tmp_path / "roadef2012").mkdir()
    head = "instance,initial_cost,lower_bound_J12,S41_5min\n"
    (tmp_path / "roadef2012" / "reference_A.csv").write_text(head, encoding="utf-8")
    (tmp_path / "gap" / "g").write_text(GAP, encoding="ascii")
    lines = "Path,Optimum\ng,9\nh,\n"
    (tmp_path / "gap" / "reference.csv").write_text(lines, encoding="utf-8")
    rows = tmp_path / "rows.jsonl"
    for _ in range(2):
        main([str(tmp_path), "-o", str(rows)])
    found = read_rows(rows)
    assert [(row.solver, row.status, row.values) for row in found] == [
        ("published", "optimal", {"cost": 9}),
        ("placewright.solver", "optimal", {"cost": 9}),
    ]
    assert "| 1 more | optimum | the same |" in capsys.readouterr().out
    assert "100.00 %" in benchmark_page(found, {})


def test_the_page_has_the_table_of_the_rows_beside_it():
    folder = ROOT / "docs" / "benchmarks"
    made = table(read_rows(folder / "references.jsonl"))
    assert made in (folder / "references.md").read_text(encoding="utf-8")
