"""The benchmark `policies`: its quick cases meet the published figures."""

from __future__ import annotations

import pytest

from benchmarks import policies


@pytest.mark.nightly
@pytest.mark.skipif(not policies.ORACLES.is_dir(), reason="needs the published figures")
def test_quick_cases_meet_what_is_published() -> None:
    rows = list(policies.run(policies.cases(quick=True), quick=True))
    off = [(row.case, row.figures["off by %"]) for row in rows if "off by %" in row.figures]
    assert len(off) >= 20
    for case, percent in off:
        if case not in (policies.GAVEL.name, policies.SHOCKWAVE.name):
            assert abs(percent) < (2 if case == policies.SYNERGY.name else 0.01)


def test_cases_have_a_name_each() -> None:
    names = [case.name for case in policies.cases(quick=False)]
    assert len(names) == len(set(names))
