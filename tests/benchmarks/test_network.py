"""The benchmark `network`: its rules and counts by hand, and that no method beats a bound."""

from __future__ import annotations

import random

import pytest

from benchmarks import network
from benchmarks.network_rounds import (
    FULL,
    LOOSE,
    Asked,
    Kind,
    drawn,
    figures_of,
    hosts_of,
    placed_in_order,
    round_of,
    rules,
)
from benchmarks.report import OURS
from examples import examples
from placewright.instances.checks.round import check_round
from placewright.instances.documents.plan import TermResult
from placewright.instances.verify import verify
from placewright.rounds import solve_round

TERMS = ("value", "spread", "contention")


def test_counts_by_hand() -> None:
    """Racks of 8: jobs of 6, 6, 2 and 3 hosts in order; two share the link of the second rack."""
    jobs = [Asked(6, 200), Asked(6, 200), Asked(6, 120), Asked(2, 300)]
    found = figures_of(8, 24, jobs, placed_in_order(range(24), jobs))
    # j0 in rack 0, j1 in 0 and 1, j2 in 1 and 2, j3 in 2: 200, 320 and 120 over the links.
    assert (found.started, found.held) == (4, 20)
    assert found.spread == 2 * 6 * 8
    assert (found.contention, found.overloaded) == (20, 1)
    assert found.fullest == pytest.approx(320 / 300)


def test_a_job_in_three_racks_counts_twice_in_spread_and_once_on_each_link() -> None:
    found = figures_of(8, 24, [Asked(3, 310)], [[0, 8, 16]])
    assert (found.spread, found.contention, found.overloaded) == (2 * 3 * 8, 30, 3)


def test_what_does_not_fit_waits() -> None:
    jobs = [Asked(6, 40), Asked(4, 40), Asked(2, 40)]
    placement = placed_in_order(range(8), jobs)
    assert placement == [[0, 1, 2, 3, 4, 5], [], [6, 7]]
    assert figures_of(8, 8, jobs, placement).started == 2


@pytest.mark.parametrize("placement", [[[0, 1], [1]], [[0], [1]], [[0, 8], [1]], [[0, 1]]])
def test_what_is_no_placement_is_refused(placement: list[list[int]]) -> None:
    with pytest.raises(ValueError, match="expected"):
        figures_of(8, 8, [Asked(2, 40), Asked(1, 0)], placement)


@pytest.mark.parametrize("hosts", [64, 1000])
def test_jobs_ask_most_of_the_hosts(hosts: int) -> None:
    for seed in range(12):
        asked = sum(job.hosts for job in drawn(LOOSE, hosts, seed))
        assert 54 * hosts // 64 <= asked <= 60 * hosts // 64
        assert sum(job.hosts for job in drawn(FULL, hosts, seed)) == hosts


def test_counts_are_those_of_the_verifier() -> None:
    for seed in range(3):
        rng = random.Random(seed)
        jobs = [Asked(n, rng.choice([0, 80, 200, 300])) for n in rng.choices([1, 2, 3, 5, 9], k=10)]
        round_ = round_of(8, 64, jobs, TERMS)
        check_round(round_)
        for seconds in (0.0, 10.0):
            plan = solve_round(round_, time_limit=seconds, isolation="none")
            found, verified = figures_of(8, 64, jobs, hosts_of(plan)), verify(round_, plan)
            assert verified.ok
            assert verified.terms == {
                "value": found.held * 8000,
                "spread": found.spread * 1000,
                "contention": found.contention,
            }


def test_a_value_beyond_a_bound_is_noticed() -> None:
    terms = [
        TermResult(name="value", sense="max", value=8, bound=10.0),
        TermResult(name="spread", sense="min", value=5, bound=4.0),
    ]
    assert not network.beaten([10, 4], terms)
    assert "value 11 beats the bound 10" in network.beaten([11, 9], terms)
    assert "spread 3 beats the bound 4" in network.beaten([8, 3], terms)
    assert not network.beaten([7, 0], terms)  # that bound is for plans of value 8


@pytest.mark.nightly
def test_no_method_beats_a_bound() -> None:
    rows = list(network.run(network.cases(quick=True)[: examples(day=1, nightly=3)], quick=True))
    assert {(row.status, row.note) for row in rows} == {("done", "")}
    for row in rows:
        assert row.figures["jobs"] == row.figures["of"]
        assert row.figures["spread"] >= row.figures["least spread"]
        assert row.figures["contention"] >= row.figures["least contention"]
        if row.method == OURS:
            assert row.figures["spread gap %"] == 0
            assert row.figures["contention"] == row.figures["overloaded"] == 0
    assert {row.method for row in rows} == {OURS, network.WITHOUT, "first fit", "random"}


@pytest.mark.nightly
@pytest.mark.parametrize("kind", [LOOSE, FULL])
def test_rules_beat_no_bound_of_larger_rounds(kind: Kind) -> None:
    case = network.Case(kind, 160, 0)
    plan = network.solved(case, TERMS).result
    for placement in rules(160, case.jobs, case.seed).values():
        found = figures_of(kind.rack, 160, case.jobs, placement)
        values = found.held * 8000, found.spread * 1000, found.contention
        assert not network.beaten(values, network.terms_of(plan))
