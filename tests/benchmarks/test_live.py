"""The benchmark `live`: generated dumps become rounds."""

from __future__ import annotations

import pytest

from benchmarks.live import Case, cases


@pytest.mark.parametrize("case", cases(quick=True), ids=lambda case: case.name)
def test_a_generated_dump_is_read_whole(case: Case, tmp_path):
    case.write(64, 200, tmp_path)
    made = case.read(tmp_path)
    assert len(made.round.cluster.hosts) == 64
    assert all("left out" not in line for line in made.book.lines())
    assert sum(job.running is not None for job in made.round.jobs) > 100
    assert any(job.running is None for job in made.round.jobs)
