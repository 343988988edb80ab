"""Seeded rounds of regions, their data and jobs, the same on every machine; statistics."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

import numpy as np

from placewright.array_types import Ints
from placewright.instances.derived.arrays import build_cluster
from placewright.instances.documents.round import Round
from placewright.instances.errors import InvalidInputError
from placewright.instances.generators.geo import supply
from placewright.instances.generators.geo.supply import apportion, draw_grid, order
from placewright.instances.generators.geo.world import (
    PolicyName,
    World,
    draw_datasets,
    draw_readers,
    draw_world,
    homes,
    place_data,
    round_of,
)
from placewright.instances.generators.wan_grid import WanGrid
from placewright.instances.policies import POLICIES
from placewright.topology.units import WHOLE_GPU

# Summary statistics of a round of regions, computed from the document.


_PERCENTILES = (50, 90, 99)


@dataclass(frozen=True, slots=True)
class Facts:
    """Figures of a round of policy `geo` or `replicas`.

    Attributes
    ----------
    regions, datasets, workloads : int
        How many; the jobs of a workload are named after it, `w7-0`.
    gpus, running, pending : int
        GPUs there, and those that running and pending jobs hold or ask.
    size : int
        GiB of all datasets, each once.
    median_size : int
        GiB.
    readers : tuple of int
        Workloads that read a dataset, at the median, the 90th and the 99th percentile.
    hottest : float
        Demand over supply of the hottest region: of the jobs of which most GiB of data are there.
    hottest_region : str
        Its name.
    """

    regions: int
    datasets: int
    workloads: int
    gpus: int
    running: int
    pending: int
    size: int
    median_size: int
    readers: tuple[int, ...]
    hottest: float
    hottest_region: str

    @property
    def load(self) -> float:
        """Demand of all jobs over supply."""
        return (self.running + self.pending) / self.gpus

    def __str__(self) -> str:
        """Return the figures in one line."""
        at = ", ".join(f"{many:,}" for many in self.readers)
        runs = f"; {self.running / self.gpus:.0%} of the GPUs run" if self.running else ""
        return (
            f"{self.regions:,} regions; {self.datasets:,} datasets of {self.size / 1024:,.0f} TiB "
            f"(median {self.median_size / 1024:.1f}), read by {at} of {self.workloads:,} workloads "
            f"(median, 90th and 99th percentile); demand / supply {self.load:.2f}, "
            f"{self.hottest:.2f} where it is hottest ({self.hottest_region}){runs}"
        )


def facts_of(round_: Round) -> Facts:
    """Return the figures of a round of regions."""
    cluster, geo = build_cluster(round_.cluster), round_.geo
    level = cluster.levels.index(geo.level)
    names = cluster.names[level]
    supply = np.bincount(cluster.domain[level], weights=cluster.gpu_count, minlength=len(names))
    held = {dataset.name: dataset.replicas for dataset in geo.datasets}
    size = {dataset.name: dataset.size for dataset in geo.datasets}
    index = {name: r for r, name in enumerate(names)}
    demand = np.zeros(len(names))
    asked = {True: 0, False: 0}
    readers: defaultdict[str, set[str]] = defaultdict(set)
    workloads = set()
    for job in round_.jobs:
        gpus = job.options[0].milli_gpu / WHOLE_GPU
        asked[job.running is not None] += round(gpus)
        workload = job.name.rpartition("-")[0]
        workloads.add(workload)
        gib: Counter[int] = Counter()
        for read in job.reads:
            readers[read.dataset].add(workload)
            gib.update({index[name]: size[read.dataset] for name in held[read.dataset]})
        if gib:
            demand[min(gib, key=lambda r: (-gib[r], r))] += gpus
    heat = demand / np.maximum(supply, 1)
    return Facts(
        regions=len(names),
        datasets=len(size),
        workloads=len(workloads),
        gpus=cluster.num_gpus,
        running=asked[True],
        pending=asked[False],
        size=sum(size.values()),
        median_size=_percentiles(list(size.values()), (50,))[0],
        readers=_percentiles([len(readers[name]) for name in size], _PERCENTILES),
        hottest=float(heat.max()),
        hottest_region=names[int(heat.argmax())],
    )


def _percentiles(values: Sequence[int], at: Sequence[int]) -> tuple[int, ...]:
    """Return percentiles of values (nearest rank); 0 without values."""
    if not values:
        return (0,) * len(at)
    return tuple(int(v) for v in np.percentile(values, at, method="inverted_cdf"))


# Seeded rounds of regions, their data and their jobs, the same on every machine.
#
# Draws come in this order: hosts, links, readers, GPUs, heat, models, who must stay where, tenants,
# weights, passes; who runs, since when; prices.


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
    likely = supply.tilted_sizes(total / jobs, largest)
    each = supply.draw_sizes(rng, reads.jobs.size, likely)
    target = supply.heat(rng, gpus, ratio) * gpus
    asked = each * reads.jobs
    region = place_data(reads, asked, target * asked.sum() / total)
    here, _ = homes(reads, region, gpus.size)

    sizes, goal = each[owner], apportion(total, target)
    anyone = order(rng, owner.size)
    where = here[owner[anyone]]
    for r in range(gpus.size):
        supply.adjust_to_total(sizes, anyone[where == r], int(goal[r]), largest)
    elsewhere = anyone[where != np.argmax(target / gpus)]
    for jobs_left in (elsewhere, anyone):  # the hottest region only if nothing else helps
        rest = total - int(sizes.sum()) + int(sizes[jobs_left].sum())
        supply.adjust_to_total(sizes, jobs_left, rest, largest)

    asked = np.bincount(owner, weights=sizes).astype(np.int64)
    most = np.zeros(reads.jobs.size, dtype=np.int64)
    np.maximum.at(most, owner, sizes)
    models = supply.draw_models(rng, most, asked, hosts)
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
    return InvalidInputError(expected, (name,), value)
