"""Replays beside the figures that published simulators give for the same traces."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from placewright.instances.traces.read import read_trace
from placewright.instances.traces.trace import Trace
from placewright.rounds.replay.measures import measure
from placewright.rounds.replay.spec import ReplaySpec, play

SHARED = Path(__file__).parents[4] / "shared" / "data"
TRACES, ORACLES = SHARED / "traces", SHARED / "oracles"
pytestmark = pytest.mark.skipif(not ORACLES.is_dir(), reason="needs the published figures")

MURI = {"SRTF": "srtf", "SRSF": "srsf", "Tiresias_L": "2d-las"}
FILES = {
    "tiresias 60_job": "tiresias/60_job.csv",
    "elasticflow cluster03": "elasticflow/raw/cluster03.csv",
    "elasticflow cluster06": "elasticflow/raw/cluster06.csv",
    "elasticflow cluster10": "elasticflow/raw/cluster10.csv",
}
POLICIES = {
    "FIFO, first fit": ("fifo", "first-fit"),
    "FIFO, best fit": ("fifo", "best-fit"),
    "fit first (FIFO, skipping), first fit": ("fit-first", "first-fit"),
    "SJF, best fit": ("sjf", "best-fit"),
    "QSSF perfect, best fit": ("qssf", "best-fit"),
    "SRTF": ("srtf", "first-fit"),
    "SRSF": ("srsf", "first-fit"),
    "smallest gang first, preemptive": ("smallest", "first-fit"),
}


def rows(name: str) -> list[dict[str, str]]:
    """Return the rows of a table of published figures, none where it is absent."""
    path = ORACLES / name
    return list(csv.DictReader(path.open())) if path.is_file() else []


def at_once(trace: Trace) -> Trace:
    """Return the trace with all jobs submitted at once."""
    return Trace.of(
        np.zeros(len(trace), dtype=np.int64),
        trace.gpus,
        trace.work_ms,
        model=trace.model,
        models=trace.models,
    )


@pytest.mark.parametrize(
    "row",
    [r for r in rows("muri.csv") if r["policy"] in MURI and r["trace"][:6] in ("trace1", "trace3")],
    ids=lambda row: f"{row['trace']}-{row['policy']}",
)
def test_muri(row: dict[str, str]) -> None:
    trace = read_trace(TRACES / "muri" / f"{row['trace'][:6]}.csv")
    if row["trace"].endswith("_pr"):
        trace = at_once(trace)
    spec = ReplaySpec(
        MURI[row["policy"]], (8,) * 8, places="free", start_table="muri", charge="event"
    )
    found = measure(play(trace, spec))
    within = 5e-3 if row["trace"].endswith("_pr") else 1e-3
    assert found["jct_mean_s"] == pytest.approx(float(row["jct_published"]), rel=within)
    assert found["makespan_s"] == pytest.approx(float(row["makespan_published"]), rel=within)
    assert found["jct_p99_s"] == pytest.approx(float(row["p99_published"]), rel=within)


def published(row: dict[str, str]) -> float | None:
    """Return the figure that a third party's simulator gives, the average completion time."""
    cell = row["jct_tiresias_simulator"] or row["jct_helios_simulator"]
    return float(cell) if cell else None


@pytest.mark.parametrize(
    "row",
    [
        r
        for r in rows("zero_cost.csv")
        if r["policy"] in POLICIES and r["trace"] in FILES and published(r)
    ],
    ids=lambda row: f"{row['trace']}-{row['cluster']}-{row['policy']}",
)
def test_simulators_without_costs(row: dict[str, str]) -> None:
    number, gpus = map(int, row["cluster"].split("x"))
    policy, placer = POLICIES[row["policy"]]
    trace = read_trace(TRACES / FILES[row["trace"]])
    spec = ReplaySpec(policy, (gpus,) * number, placer=placer, places="free")
    found = measure(play(trace, spec))["jct_mean_s"]
    assert found == pytest.approx(published(row), rel=1e-3 if policy == "qssf" else 1e-4)
