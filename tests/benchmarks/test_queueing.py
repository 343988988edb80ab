"""The benchmark `queueing`: theory against known figures, and replays against theory."""

from __future__ import annotations

import pytest

from benchmarks import queueing
from examples import examples


@pytest.mark.parametrize(
    ("servers", "load", "expected"),
    [(1, 0.8, 5), (1, 0.9, 10), (8, 0.9, 1.8769), (64, 0.95, 1.1838)],
)
def test_mean_time_of_many_servers(servers: int, load: float, expected: float) -> None:
    assert queueing.blind(servers, load) == pytest.approx(expected, abs=5e-5)


@pytest.mark.parametrize(("load", "expected"), [(0.8, 2.3528), (0.9, 3.5521)])
def test_mean_time_of_least_remaining_first(load: float, expected: float) -> None:
    assert queueing.least_remaining_first(1, load) == pytest.approx(expected, abs=5e-5)


def test_order_matters_little_where_there_is_no_load() -> None:
    for mean in (queueing.blind, queueing.shortest_first, queueing.least_remaining_first):
        assert mean(1, 1e-9) == pytest.approx(1, abs=1e-6)


def test_more_servers_have_no_closed_form() -> None:
    with pytest.raises(ValueError, match="8 servers"):
        queueing.least_remaining_first(8, 0.9)


@pytest.mark.nightly
def test_replays_are_within_their_intervals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queueing, "QUICK_JOBS", examples(day=10_000, nightly=60_000))
    rows = list(queueing.run(queueing.cases(quick=True), quick=True))
    assert [row.method for row in rows] == list(queueing.THEORY)
    assert {row.status for row in rows} == {"done"}
    most = examples(day=0.5, nightly=0.2)
    assert all(row.figures["99.9 % +-"] < most * row.figures["theory"] for row in rows)
