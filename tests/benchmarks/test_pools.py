"""The benchmark `pools`: its rules and counts by hand, and that no method beats a bound."""

from __future__ import annotations

import pytest

from benchmarks import pools, pools_power, pools_storage
from benchmarks.pools_power import Asked, figures_of, first_fit
from benchmarks.pools_storage import BITS, FULL, Choice, Stream
from benchmarks.report import OURS
from examples import by_night, examples
from placewright import solve_round, verify
from placewright.instances.checks.round import check_round

RULES = {pools.EVEN, "first fit", "equal bandwidth", "equal intervals"}
SMALL, LARGE = Stream(1, 100, 9), Stream(1, 400, 1)
"""Jobs that share a store of 5 Gbit/s."""


def test_first_fit_keeps_to_the_budgets_of_racks() -> None:
    """Two racks of 40,000 W: hosts of 8 GPUs at 8,000 W fill a rack with five."""
    jobs = [Asked(1, 8, 8000, 8)] * 11 + [Asked(2, 8, 8000, 100)]
    placement = first_fit(16, jobs)
    # The gang is worth most, so it comes first; eight others follow.
    assert placement[-1] == [0, 1]
    assert placement[:-1] == [[h] for h in (2, 3, 4, 8, 9, 10, 11, 12)] + [[], [], []]
    found = figures_of(16, jobs, placement)
    assert (found.value, found.started, found.gpus) == (164, 9, 80)
    assert (found.beyond, found.fullest) == (0, 1.0)


def test_a_gang_that_does_not_fit_leaves_its_room_to_others() -> None:
    jobs = [Asked(6, 8, 8000, 600), Asked(1, 8, 8000, 8)]
    assert first_fit(8, jobs) == [[], [0]]


def test_draws_beyond_a_budget_are_counted() -> None:
    jobs = [Asked(6, 8, 8000, 600), Asked(1, 1, 300, 1)]
    found = figures_of(16, jobs, [[0, 1, 2, 3, 4, 5], [8]])
    assert (found.value, found.beyond, found.fullest) == (601, 1, 1.2)


@pytest.mark.parametrize("placement", [[[0]], [[0, 0]], [[0, 8]]])
def test_what_is_no_placement_is_refused(placement: list[list[int]]) -> None:
    with pytest.raises(ValueError, match="expected"):
        figures_of(8, [Asked(2, 8, 1, 1)], placement)


def test_counts_are_those_of_the_verifier() -> None:
    for seed in range(3):
        jobs = pools_power.drawn(16, seed)
        round_ = pools_power.round_of(16, jobs, "pools")
        check_round(round_)
        for seconds in (0.0, 10.0):
            plan = solve_round(round_, time_limit=seconds, isolation="none")
            found = figures_of(16, jobs, pools_power.hosts_of(plan))
            verified = verify(round_, plan)
            assert verified.ok
            assert verified.terms == {"value": found.value}
            assert found.beyond == 0


def test_equal_parts_and_equal_intervals_by_hand() -> None:
    jobs = [SMALL, LARGE]
    assert pools_storage.store_mbps(jobs) == 5000
    parts = pools_storage.equal_bandwidth(jobs, FULL)
    assert parts == [Choice(40, 32), Choice(160, 32)]
    assert pools_storage.lost_of(jobs, parts, FULL) == 260
    alike = pools_storage.equal_intervals(jobs, FULL)
    assert alike == [Choice(100, 32)] * 2
    assert pools_storage.lost_of(jobs, alike, FULL) == 500
    assert pools_storage.fluid_bound(jobs) == pytest.approx(250)


def test_who_has_too_small_a_part_waits() -> None:
    huge = Stream(1, 10_000, 1)
    jobs = [Stream(1, 1, 1)] * 99 + [huge]
    assert pools_storage.equal_bandwidth(jobs, FULL)[-1] is None
    assert pools_storage.lost_of([huge], [None], FULL) == 1800


@pytest.mark.parametrize("bits", [FULL, BITS])
def test_work_lost_and_load_are_those_of_the_options(bits: dict[int, int]) -> None:
    jobs = pools_storage.drawn(16, 0)
    round_ = pools_storage.round_of(16, jobs, bits, pools_storage.store_mbps(jobs))
    check_round(round_)
    plan = solve_round(round_, isolation="none")
    verified = verify(round_, plan)
    assert verified.ok
    chosen = pools_storage.choices_of(round_, plan)
    waiting = pools_storage.lost_of(jobs, [None] * len(jobs), bits)
    lost = pools_storage.lost_of(jobs, chosen, bits)
    assert verified.terms == {"value": waiting - lost}
    assert pools_storage.load_of(jobs, chosen) == sum(
        job.options[one.option].uses["store_mbps"]
        for job, one in zip(round_.jobs, plan.decisions, strict=True)
        if one.option is not None
    )
    if bits is FULL:
        assert None not in chosen
        assert lost >= pools_storage.fluid_bound(jobs)


@pytest.mark.nightly
def test_no_method_beats_a_bound() -> None:
    chosen = [pools.Case(kind, 32, 0) for kind in pools.KINDS][: examples(day=1, nightly=3)]
    rows = list(pools.run(chosen, quick=True))
    assert {row.status for row in rows} == {"done"}
    for row in rows:
        assert row.value is not None
        assert row.bound is not None
        if row.method in (pools.WIDE, pools.WITHOUT):
            assert row.note == "breaks budgets"
        else:
            assert row.note == ""
            assert row.value <= row.bound
    assert {row.method for row in rows} >= {OURS, pools.WIDE, pools.WITHOUT}
    assert {row.method for row in rows} >= {*RULES} or not by_night()
    ours = {row.case: row.value or 0 for row in rows if row.method == OURS}
    assert all((row.value or 0) <= ours[row.case] for row in rows if row.method in RULES)
