"""Replays for tests of their page."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from placewright.instances.traces.trace import Trace
from placewright.rounds.replay.files import Comparison, compare, read_outputs, write_outputs
from placewright.rounds.replay.spec import ReplaySpec, play

HOSTILE = "</title><script>document.title='pwned'</script>\u202e\x1b[2J"


def compared(
    folder: Path, *policies: str, seeds: int = 1, name: str = "week.csv", tenant: str = "vision"
) -> Comparison:
    """Play, write, read and compare policies over a trace per seed."""
    runs = []
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        trace = Trace.of(
            rng.integers(0, 3 * 10**8, 200),
            rng.choice([1, 2, 4, 8, 12], 200),
            rng.integers(1, 3 * 10**7, 200),
            tenant=rng.integers(0, 2, 200),
            tenants=(tenant, "speech"),
        )
        for policy in policies:
            spec, place = ReplaySpec(policy, (8, 8), seed=seed), folder / f"{policy}-{seed}"
            write_outputs(place, play(trace, spec), spec, name, {})
            runs.append(read_outputs(str(place)))
    return compare(runs)
