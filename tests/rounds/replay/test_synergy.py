"""Synergy's static trace beside the figures of its simulator."""

from __future__ import annotations

import csv
import json
from dataclasses import replace

import numpy as np
import pytest

from benchmarks.policies import ORACLES, SHARED, SYNERGY
from placewright.instances.traces.synergy import PROFILES
from placewright.rounds.replay.measures import measure
from placewright.rounds.replay.spec import play

pytestmark = pytest.mark.skipif(not SYNERGY.is_there, reason="needs Synergy's trace and figures")


@pytest.mark.parametrize("order", ["fifo", "srtf", "las"])
def test_shares(order: str) -> None:
    """By Synergy's two shares per job within 2 % of its figures; by steps between faster still."""
    trace, published = SYNERGY.read(), SYNERGY.published()
    names = (order, f"{order}-synergy", f"{order}-tuned")
    played = [play(trace, SYNERGY.spec(name, "first-fit")) for name in names]
    proportional, synergy, tuned = (measure(found)["jct_mean_s"] for found in played)
    assert proportional == pytest.approx(published[order, "first-fit"], rel=0.01)
    assert synergy == pytest.approx(published[f"{order}-synergy", "first-fit"], rel=0.02)
    assert tuned <= 0.97 * published[f"{order}-synergy", "first-fit"]
    assert tuned < synergy < proportional
    if order == "fifo":
        for found in played[1:]:
            assert (found.end_ms <= played[0].end_ms).all()


@pytest.mark.parametrize(("order", "within"), [("fifo", 1e-9), ("srtf", 1e-9), ("las", 5e-4)])
def test_proportional_shares_are_exact_in_whole_rounds(order: str, within: float) -> None:
    """Its simulator does whole iterations in a round, ends jobs with it, and starts it at 1 s.

    Under LAS jobs of equal service are in order of arrival there, here in that of the last round.
    """
    profiles = json.loads((SHARED / "profiles" / PROFILES).read_text())["models"]
    rounds, arrivals = [], []
    with (ORACLES / SYNERGY.file).open(encoding="utf-8") as file:
        for _, model, arrival, iterations, _ in csv.reader(file):
            in_a_round = int(300 / profiles[f"{model}_1"]["iter_time"])
            rounds.append(-(-int(iterations) // in_a_round))
            arrivals.append(float(arrival))
    trace = SYNERGY.read().arriving(np.zeros(len(rounds), dtype=np.int64))
    trace = replace(trace, work_ms=300_000 * np.array(rounds))
    found = play(trace, SYNERGY.spec(order, "first-fit"))
    mean = float((found.end_ms / 1000 + 1 - arrivals).mean())
    assert mean == pytest.approx(SYNERGY.published()[order, "first-fit"], rel=within)
