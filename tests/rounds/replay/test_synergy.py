"""Synergy's static trace beside the figures of its simulator."""

from __future__ import annotations

import csv
import shutil
from pathlib import Path

import pytest

from benchmarks.policies import ORACLES
from placewright.instances.traces.read import read_trace
from placewright.instances.traces.synergy import PROFILES
from placewright.instances.traces.trace import Trace
from placewright.rounds.replay.measures import measure
from placewright.rounds.replay.spec import ReplaySpec, play

TABLE = ORACLES / "synergy.csv"
needs_table = pytest.mark.skipif(not TABLE.is_file(), reason="needs Synergy's figures")


def static_trace(folder: Path) -> Trace:
    """Return Synergy's trace of 100 jobs, read with its profiles beside it."""
    shutil.copyfile(ORACLES.parent / "profiles" / PROFILES, folder / PROFILES)
    path = shutil.copyfile(ORACLES / "inputs" / "synergy_static_100.csv", folder / "static.csv")
    return read_trace(path)


def published() -> dict[tuple[str, str], float]:
    """Return mean completion times by policy and mode."""
    with TABLE.open(encoding="utf-8") as file:
        return {(r["policy"], r["mode"]): float(r["avg_jct_s"]) for r in csv.DictReader(file)}


def spec_of(policy: str) -> ReplaySpec:
    """Return the assumptions of Synergy's simulator."""
    return ReplaySpec(policy, (8,) * 4, places="free", every_s=300)


@needs_table
@pytest.mark.parametrize("order", ["FIFO", "SRTF", "LAS"])
def test_proportional_shares(order: str, tmp_path: Path) -> None:
    found = measure(play(static_trace(tmp_path), spec_of(order.lower())))
    assert found["jct_mean_s"] == pytest.approx(published()[order, "proportional"], rel=0.01)


@needs_table
@pytest.mark.parametrize("order", ["FIFO", "SRTF", "LAS"])
def test_tuned_shares(order: str, tmp_path: Path) -> None:
    """By Synergy's two shares per job within 2 % of its figures; by steps between faster still."""
    trace, name = static_trace(tmp_path), order.lower()
    proportional, synergy, tuned = (
        play(trace, spec_of(policy)) for policy in (name, f"{name}-synergy", f"{name}-tuned")
    )
    means = [measure(found)["jct_mean_s"] for found in (proportional, synergy, tuned)]
    assert means[1] == pytest.approx(published()[order, "tune"], rel=0.02)
    assert means[2] <= 0.97 * published()[order, "tune"]
    assert means[2] < means[1] < means[0]
    if order == "FIFO":
        assert (synergy.end_ms <= proportional.end_ms).all()
        assert (tuned.end_ms <= proportional.end_ms).all()
