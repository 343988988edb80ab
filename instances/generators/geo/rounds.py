"""Seeded rounds of regions, their data and their jobs, the same on every machine.

Draws come in this order: hosts, links, readers, GPUs, heat, models, who must stay where, tenants,
weights, passes; who runs, since when; prices.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

import numpy as np

from placewright.array_types import Ints
from placewright.instances.documents.round import Round
from placewright.instances.errors import InvalidInputError
from placewright.instances.generators.geo import demand, supply
from placewright.instances.generators.geo.distributions import apportion, order
from placewright.instances.generators.geo.grid import draw_grid
from placewright.instances.generators.geo.homes import homes, place_data
from placewright.instances.generators.geo.readers import draw_datasets, draw_readers
from placewright.instances.generators.geo.world import PolicyName, World, draw_world, round_of
from placewright.instances.generators.wan_grid import WanGrid
from placewright.instances.policies import POLICIES

MixName = Literal["spare", "scarce"]
MIXES: Mapping[MixName, int] = MappingProxyType({"spare": 950, "scarce": 1200})
"""Demand over supply, in per mille."""

MAX_REGIONS = 64
MAX_DATASETS = 20_000
MAX_JOBS = 200_000
MAX_GPUS = 1_600_000

_LARGEST = 256
_LARGEST_PART = 8


def generate(
    *,
    regions: int = 10,
    datasets: int = 100,
    jobs: int = 1000,
    gpus: int,
    mix: MixName = "spare",
    seed: int = 0,
    policy: PolicyName = "replicas",
    grid: WanGrid | None = None,
) -> Round:
    """Make a round of regions.

    Parameters
    ----------
    regions, datasets, jobs
        How many; under `geo` half of the jobs run, as far as there is room, others are pending. No
        fewer jobs than datasets.
    gpus
        Of all regions, a multiple of 8; two hosts of 8 for each region at least.
    mix
        `spare`: all jobs together ask for 95 % of the GPUs, `scarce`: for 120 %.
    seed
        At least 0; the same arguments give the same round.
    policy
        `replicas`: where data lives, all jobs pending; `geo`: nearly half of the GPUs run.
    grid
        Measured links, of which those of `regions` regions are drawn; None: links are drawn, too.

    Raises
    ------
    InvalidInputError
        If an argument is out of its range, or `jobs` and `gpus` do not go together.
    """
    _check(regions, datasets, jobs, gpus, seed)
    if mix not in MIXES:
        raise _argument("mix", mix, f"expected one of {', '.join(MIXES)}")
    if grid is not None and len(grid.regions) < regions:
        raise _argument("regions", regions, f"expected at most {len(grid.regions)}, as in the grid")
    rng = np.random.Generator(np.random.PCG64(seed))
    running = jobs // 2 if POLICIES[policy].places_jobs else 0
    title = f"{policy}-{mix}-{regions}-{datasets}-{jobs}-{gpus}-{seed}"
    hosts = supply.supply(rng, regions, gpus // supply.HOST_GPUS)
    wan = draw_grid(rng, regions, grid)
    world = _world(rng, hosts, wan, datasets, jobs, MIXES[mix] / 1000)
    return round_of(world, title, policy, running, rng)


def _world(
    rng: np.random.Generator, hosts: Ints, wan: WanGrid, datasets: int, jobs: int, ratio: float
) -> World:
    """Draw data and jobs of regions with these hosts, so that they ask for `ratio` of the GPUs."""
    gpus = hosts.sum(axis=1) * supply.HOST_GPUS
    total = round(ratio * int(gpus.sum()))
    largest = max(1, min(_LARGEST, int(gpus.mean()) // _LARGEST_PART))
    largest = 1 << (largest.bit_length() - 1)
    if not jobs <= total <= jobs * largest:
        expected = f"expected {jobs / ratio:,.0f} to {jobs * largest / ratio:,.0f}"
        raise _argument("gpus", int(gpus.sum()), f"{expected} for this number of jobs and regions")

    reads = draw_readers(rng, *draw_datasets(rng, datasets), jobs)
    owner = np.repeat(np.arange(reads.jobs.size), reads.jobs)
    likely = demand.tilted_sizes(total / jobs, largest)
    each = demand.draw_sizes(rng, reads.jobs.size, likely)
    target = demand.heat(rng, gpus, ratio) * gpus
    asked = each * reads.jobs
    region = place_data(reads, asked, target * asked.sum() / total)
    here, _ = homes(reads, region, gpus.size)

    sizes, goal = each[owner], apportion(total, target)
    anyone = order(rng, owner.size)
    where = here[owner[anyone]]
    for r in range(gpus.size):
        demand.adjust_to_total(sizes, anyone[where == r], int(goal[r]), largest)
    elsewhere = anyone[where != np.argmax(target / gpus)]
    for jobs_left in (elsewhere, anyone):  # the hottest region only if nothing else helps
        rest = total - int(sizes.sum()) + int(sizes[jobs_left].sum())
        demand.adjust_to_total(sizes, jobs_left, rest, largest)

    asked = np.bincount(owner, weights=sizes).astype(np.int64)
    most = np.zeros(reads.jobs.size, dtype=np.int64)
    np.maximum.at(most, owner, sizes)
    models = demand.draw_models(rng, most, asked, hosts)
    return draw_world(rng, wan, hosts, reads, region, models, owner, sizes)


def _check(regions: int, datasets: int, jobs: int, gpus: int, seed: int) -> None:
    """Refuse arguments that are out of their range."""
    host = supply.HOST_GPUS
    for name, value, least, most in (
        ("regions", regions, 1, MAX_REGIONS),
        ("datasets", datasets, 1, MAX_DATASETS),
        ("jobs", jobs, datasets, MAX_JOBS),
        ("gpus", gpus, 2 * host * regions, MAX_GPUS),
    ):
        if not least <= value <= most:
            raise _argument(name, value, f"expected {least:,} to {most:,}")
    if gpus % host:
        raise _argument("gpus", gpus, f"expected a multiple of {host}")
    if seed < 0:
        raise _argument("seed", seed, "expected 0 or more")


def _argument(name: str, value: object, expected: str) -> InvalidInputError:
    return InvalidInputError(expected, path=(name,), value=value)
