"""Utilisation of clusters too large for a map: whose GPUs each domain's bar shows, and how long."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from placewright import solve_round
from placewright.cli.views.gang.chart import (
    MAX_BARS,
    USES,
    amounts_of,
    domains_of,
    letters_of,
    print_utilisation,
)
from placewright.cli.views.gang.facts import occupancy_of
from placewright.instances.documents.round import Round
from placewright.instances.generators.gang import generate_round
from placewright.report.facts.jobs import Condition


@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=10), st.integers(10, 60))
def test_bars_are_full_and_every_amount_is_seen(amounts, width):
    letters = letters_of(np.array(amounts), width)
    assert letters.sum() == (width if any(amounts) else 0)
    assert ((letters > 0) == (np.array(amounts) > 0)).all()
    if width >= 40 and all(amount * width >= sum(amounts) for amount in amounts):
        exact = np.array(amounts) * width / sum(amounts)
        assert (abs(letters - exact) <= 1).all()


def small() -> Round:
    """Two racks of two hosts of two GPUs: one is unhealthy; a job moves, two stay, one starts."""
    racks = [{"name": name, "level": "rack"} for name in ("r0", "r1")]

    def running(name: str, host: str, gpu: int, **more: object) -> dict[str, object]:
        tasks = [{"host": host, "gpus": [gpu]}]
        return {"name": name, "options": ONE, "running": {"tasks": tasks, **more}}

    hosts = [
        {
            "name": f"h{i}",
            "parent": f"r{i // 2}",
            "gpus": 2,
            "gpu_model": "A100",
            "healthy": i != 3,
        }
        for i in range(4)
    ]
    return Round.model_validate(
        {
            "cluster": {"levels": ["rack"], "domains": racks, "hosts": hosts},
            "jobs": [
                running("moves", "h0", 0),
                running("stays", "h1", 1, pinned=True),
                running("ill", "h3", 0, pinned=True),
                {"name": "starts", "options": [{"groups": [{"gpu": 0.5}]}]},
            ],
            "policy": {"terms": ["remaining", "value"], "vacate": ["h0"]},
        }
    )


ONE = [{"groups": [{"gpu": 1}]}]


def test_amounts_are_those_of_uses_conditions_and_what_is_free():
    round_ = small()
    occupancy = occupancy_of(round_, solve_round(round_, isolation="none"))
    domains = domains_of(occupancy)
    assert (domains.level, domains.names) == ("rack", ("r0", "r1"))
    of_gpu = np.repeat(domains.of_host, 2)
    kinds = [*USES, *(c for c in Condition if c), "free"]
    before, after = (
        [
            {str(kind): int(n) for kind, n in zip(kinds, row, strict=True) if n}
            for row in amounts_of(occupancy, parts, of_gpu, 2)
        ]
        for parts in occupancy.maps
    )
    vacated, ill = str(Condition.TO_VACATE), str(Condition.UNHEALTHY)
    assert before == [
        {"migrated": 1000, "kept": 1000, vacated: 1000, "free": 1000},
        {"kept": 1000, ill: 1000, "free": 2000},
    ]
    assert sum(row.get("migrated", 0) for row in after) == 1000
    assert sum(row.get("started", 0) for row in after) == 500
    assert after[0][vacated] == 2000
    assert all(sum(row.values()) == 4000 for row in (*before, *after))


@pytest.mark.parametrize(("hosts", "bars"), [(4, 4), (64, 64), (65, 33), (129, 43), (1000, 63)])
def test_hosts_without_racks_have_bars_by_runs(hosts, bars):
    entry = {"name": f"h[0-{hosts - 1}]", "gpus": 1, "gpu_model": "A100"}
    domains = domains_of(occupancy_of(Round.model_validate({"cluster": {"hosts": [entry]}})))
    assert len(domains.names) == bars <= MAX_BARS
    assert domains.names[0].startswith("h0 to h")
    assert domains.names[-1].endswith(f" to h{hosts - 1}")
    assert domains.of_host.max() == bars - 1


def test_a_large_cluster_is_drawn_rack_by_rack():
    round_ = generate_round(2048, 8, mix="tight", seed=1)
    occupancy = occupancy_of(round_)
    console = Console(width=120)
    with console.capture() as capture:
        print_utilisation(console, occupancy)
    lines = capture.get().splitlines()
    racks = [line.split() for line in lines if line.startswith((" b0-r", " b1-r"))]
    assert [row[0] for row in racks] == list(occupancy.cluster.names[-2])
    assert sum(int(row[2]) for row in racks) == 2048
    assert sum(float(row[5]) for row in racks) == occupancy.free.sum() / 1000
    assert all(len(row[1]) == 40 for row in racks)
    running = len(occupancy.jobs)
    assert any(line.startswith(f"□ running: {running} jobs") for line in lines)
