"""The benchmark `links`: its rules by hand and by enumeration, and streams under all of them."""

from __future__ import annotations

import random
from itertools import permutations

import pytest

from benchmarks import links
from benchmarks.links import GPUS, KINDS, METHODS, Case, best_effort, first_run, lowest, packed
from benchmarks.measure import RunError

PAIRS, MESH, SWITCHED = KINDS


def gpus(*some: int) -> int:
    return sum(1 << gpu for gpu in some)


@pytest.mark.parametrize(
    ("rule", "kind", "free", "number", "answer"),
    [
        (lowest, PAIRS, gpus(1, 2, 3, 6), 2, gpus(1, 2)),
        (first_run, PAIRS, gpus(0, 2, 3, 4), 3, gpus(2, 3, 4)),
        (first_run, PAIRS, gpus(0, 2, 4, 5), 3, gpus(0, 2, 4)),
        (best_effort, PAIRS, gpus(1, 2, 3, 6), 2, gpus(2, 3)),
        # All jobs are taken to be of one GPU, so any is as good: the pair 0-1 is broken.
        (best_effort, PAIRS, gpus(0, 1, 2), 1, gpus(0)),
        (packed, PAIRS, gpus(0, 1, 2), 1, gpus(2)),
        # Two lanes join 0-3 and 1-2; both sets score as much.
        (best_effort, MESH, gpus(0, 1, 2, 3), 2, gpus(0, 3)),
        (best_effort, MESH, gpus(0, 1, 4, 5, 6, 7), 4, gpus(4, 5, 6, 7)),
        (packed, MESH, gpus(0, 1, 2, 3, 4), 4, gpus(0, 1, 2, 3)),
        # Of seven GPUs one is left over: the first, where all are alike.
        (best_effort, SWITCHED, gpus(0, 1, 2, 3, 4, 5, 6), 3, gpus(1, 2, 3)),
    ],
)
def test_a_rule_chooses_by_hand(rule, kind, free, number, answer):
    assert rule(kind, free, number) == answer


@pytest.mark.parametrize("seed", range(30))
def test_best_effort_is_of_a_best_partition(seed):
    draw = random.Random(seed)
    kind, number = draw.choice(KINDS), draw.randint(2, 4)
    free = draw.sample(range(GPUS), draw.randint(number, 6))
    score = links._kind(kind).score

    def cut(order: tuple[int, ...]) -> list[int]:
        return [gpus(*order[at : at + number]) for at in range(0, len(order), number)]

    partitions = [cut(order) for order in permutations(free)]
    most = max(sum(score[one] for one in sets) for sets in partitions)
    best = [sets for sets in partitions if sum(score[one] for one in sets) == most]
    chosen = best_effort(kind, gpus(*free), number)
    full = [[one for one in sets if one.bit_count() == number] for sets in best]
    assert any(score[chosen] == max(map(score.__getitem__, s)) for s in full if chosen in s)


def test_sets_are_joined_where_each_pair_is():
    pairs, mesh, switched = (links._kind(kind) for kind in KINDS)
    assert pairs.joined[gpus(2, 3)] and not pairs.joined[gpus(1, 2)]
    assert (pairs.possible, mesh.possible) == ({0, 1, 2}, {0, 1, 2, 3, 4})
    assert switched.possible == set(range(GPUS + 1))
    assert mesh.joined[gpus(4, 5, 6, 7)] and not mesh.joined[gpus(0, 3, 4, 7)]
    assert (mesh.ring[gpus(0, 3, 4, 7)], mesh.ring[gpus(0, 5)]) == (200_000, 0)


def test_all_methods_play_a_stream(monkeypatch):
    monkeypatch.setattr(links, "HOSTS", 6)
    monkeypatch.setattr(links, "UNCOUNTED", 2)
    case = Case(0.9, 3, rounds=12)
    rows = {row.method: row for row in links.run([case], quick=True)}
    assert rows.keys() == METHODS.keys()
    assert {row.status for row in rows.values()} == {"done"}
    for row in rows.values():
        assert row.figures["joined %"] <= row.figures["where some are %"] <= 100
        assert 0 < row.figures["allocation %"] <= 100


def test_gpus_that_are_not_free_are_refused():
    class Greedy:
        def step(self, free, ended, arrived):
            return {job.name: links.Place(0, (1 << job.gpus) - 1) for job in arrived}

    case = Case(0.9, 0, rounds=1)
    with pytest.raises(RunError, match="of host 0, not free"):
        links._play(case, case.arrivals(), Greedy())
