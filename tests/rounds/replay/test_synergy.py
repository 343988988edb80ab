"""Synergy's static trace beside the figures of its simulator."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path
from shutil import copyfile

import numpy as np
import pytest

from benchmarks.policies import ORACLES, SHARED, SYNERGY
from examples import by_day
from placewright.instances.converters.traces.synergy import KINDS
from placewright.instances.traces.papers import PROFILES
from placewright.instances.traces.read import read_trace
from placewright.instances.traces.trace import SECOND, Trace
from placewright.rounds.replay.book import Places
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
            assert (found.end_us <= played[0].end_us).all()


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
    trace = replace(trace, work_us=300_000_000 * np.array(rounds))
    found = play(trace, SYNERGY.spec(order, "first-fit"))
    mean = float((found.end_us / SECOND + 1 - arrivals).mean())
    assert mean == pytest.approx(SYNERGY.published()[order, "first-fit"], rel=within)


def random_trace_of_models(folder: Path, seed: int) -> Trace:
    """Write 80 jobs of Synergy's models, of 1 to 16 GPUs, that come at random; read them."""
    copyfile(SHARED / "profiles" / PROFILES, folder / PROFILES)
    models = json.loads((folder / PROFILES).read_text())["models"]
    names = [model for kind in KINDS.values() for model in kind]
    rng = np.random.default_rng(seed)
    rows, arrival = [], 0.0
    for number in range(80):
        arrival += rng.exponential(600)
        model = names[rng.integers(len(names))]
        iterations = 1 + int(np.exp(rng.normal(8.5, 1.2)) / models[f"{model}_1"]["iter_time"])
        gpus = rng.choice([1, 1, 1, 2, 4, 8, 16])
        rows.append(f"{number},{model},{arrival:.3f},{iterations},{gpus}\n")
    (folder / "trace").write_text("".join(rows))
    return read_trace(folder / "trace")


@pytest.mark.parametrize("places", ["free", "kept"])
@pytest.mark.parametrize("order", ["fifo", "srtf", "las"])
@pytest.mark.parametrize("seed", by_day(range(3)))
def test_tuned_shares_are_no_worse_on_random_jobs(
    seed: int, order: str, places: Places, tmp_path: Path
) -> None:
    trace = random_trace_of_models(tmp_path, seed)
    tuned, proportional = (
        measure(play(trace, replace(SYNERGY.spec(policy, "first-fit"), places=places)))
        for policy in (f"{order}-tuned", order)
    )
    assert tuned["jct_mean_s"] <= proportional["jct_mean_s"]
