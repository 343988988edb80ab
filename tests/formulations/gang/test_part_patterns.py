"""The knapsack over milli-GPU and memory that prices patterns of shares."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from gang_parameters import set_parameters
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import examples
from placewright.formulations.gang.models.aggregate.gpu_columns import unbounded_knapsack_2d
from placewright.instances import Round, parse_round
from placewright.rounds import solve_round


@settings(max_examples=examples(day=20, nightly=80))
@given(
    st.lists(st.tuples(st.integers(1, 5), st.integers(0, 4), st.integers(0, 9)), max_size=4),
    st.integers(1, 9),
    st.integers(0, 6),
)
def test_the_table_has_the_best_multiset_within_each_pair_of_capacities(
    parts: list[tuple[int, int, int]], milli: int, memory: int
) -> None:
    @cache
    def best(u: int, m: int) -> int:
        return max((p + best(u - a, m - b) for a, b, p in parts if a <= u and b <= m), default=0)

    size, more, price = np.array(parts, dtype=np.int64).reshape(-1, 3).T
    for prices in (price[None].astype(np.float64), price[None].astype(object)):
        table, choice = unbounded_knapsack_2d(size, more, (milli, memory), prices)
        for u in range(milli + 1):
            for m in range(memory + 1):
                assert table[0, u, m] == best(u, m)
        worth, u, m = 0, milli, memory
        while (f := int(choice[0, u, m])) >= 0:
            worth, u, m = worth + int(price[f]), u - int(size[f]), m - int(more[f])
        assert worth == best(milli, memory)
        assert u >= 0
        assert m >= 0


Share = tuple[float, str]


def round_of(*asks: list[Share], term: str = "value") -> Round:
    """Return a round of two GPUs of 24 MiB, jobs that ask for shares, and one that has 4 MiB."""
    host = {"name": "h", "gpus": 2, "gpu_model": "A", "gpu_memory": "24Mi"}
    jobs: list[dict[str, Any]] = [
        {
            "name": f"j{i}",
            "options": [{"groups": [{"gpu": gpu, "gpu_memory": memory} for gpu, memory in shares]}],
        }
        for i, shares in enumerate([[(0.4, "4Mi")], *asks])
    ]
    jobs[0]["running"] = {"tasks": [{"host": "h", "gpus": [0]}], "option": 0}
    document = {"apiVersion": "placewright/v1alpha2", "kind": "Round", "now": 10, "jobs": jobs}
    cluster = {"levels": [], "domains": [], "hosts": [host]}
    return parse_round({**document, "cluster": cluster, "policy": {"terms": [term]}})


def test_shares_of_different_hunger_together_are_within_the_bound(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Neither two large shares nor two small ones take as much memory as one of each."""
    set_parameters(monkeypatch, "run", max_exact_variables=0)
    plan = solve_round(round_of([(1, "12Mi")], [(1, "4Mi"), (0.6, "12Mi")]))
    assert plan.certificate is not None
    assert (plan.certificate.terms[0].value, plan.certificate.terms[0].bound) == (1600, 1600)


def test_a_search_of_a_round_without_the_term_value_keeps_its_plan(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    set_parameters(monkeypatch, "run", max_exact_variables=0)
    plan = solve_round(round_of([(1, "12Mi")], [(1, "4Mi"), (0.6, "12Mi")], term="entitled"))
    assert plan.certificate is not None
    assert not plan.certificate.degraded
    assert plan.certificate.terms[0].value == 1600
