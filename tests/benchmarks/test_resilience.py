"""The benchmark `resilience`: its rules by hand, and that none has more teams than the bound."""

from __future__ import annotations

from collections import Counter

import pytest

from benchmarks import resilience


def test_cliques_of_a_stride() -> None:
    assert resilience.strided(8, 2, 1) == [(0, 1), (2, 3), (4, 5), (6, 7)]
    assert resilience.strided(8, 2, 4) == [(0, 4), (1, 5), (2, 6), (3, 7)]
    assert resilience.strided(7, 2, 2) == [(0, 2), (1, 3), (4, 5), (5, 6), (6, 4)]


def test_groups_and_a_ring() -> None:
    assert resilience.in_order(range(5), 2) == [(0, 1), (2, 3), (3, 4), (4, 2)]
    assert resilience.in_order(range(6), 3) == [(0, 1, 2), (3, 4, 5)]


@pytest.mark.parametrize("hosts", [64, 65, 66])
@pytest.mark.parametrize("copies", [2, 3])
def test_no_rule_keeps_more_than_its_share(hosts: int, copies: int) -> None:
    for sets in resilience.rules(hosts, copies).values():
        assert {host for one in sets for host in one} == set(range(hosts))
        assert max(Counter(host for one in sets for host in one).values()) <= copies


def test_no_rule_has_more_teams_apart_than_ours() -> None:
    rows = list(resilience.run(resilience.cases(quick=True), quick=True))
    assert {row.status for row in rows} == {"done"}
    ours = {row.case: row.figures for row in rows if row.method == "placewright"}
    assert all(figures["teams apart"] == figures["at most"] for figures in ours.values())
    assert all(row.figures["teams apart"] <= ours[row.case]["teams apart"] for row in rows)
    assert all(figures["fatal racks"] == 0 for figures in ours.values())
