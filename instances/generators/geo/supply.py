"""Supply and demand of generated regions: hosts by region and GPU model, jobs, and links."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import log
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from placewright.array_types import Floats, Ints
from placewright.instances.derived import ranges
from placewright.instances.documents.cluster import ClusterDocument, DomainEntry, HostEntry
from placewright.instances.generators.gang import PER_MILLE, Shares
from placewright.instances.generators.wan_grid import WanGrid

# Distributions as quantiles in a random order: exact in shape at any sample size.
#
# A distribution over n things is its quantiles at 1/n, 2/n ... 1 (the last one at 1 - 1/2n). So the
# percentiles of a round are those asked for, not those of a sample.


READERS = ((0.5, 3.0), (0.9, 17.0), (0.99, 45.0))
"""Workloads that read a dataset, as MAST (OSDI'24) was reported to have them."""

MEDIAN_GIB = 2048
SIGMA = 1.5
JOBS_SIGMA = 1.0
REGION_SIGMA = 0.5

THROUGHPUT_MBPS = (
    (0.0, 120.0),
    (0.05, 2050.0),
    (0.1, 2690.0),
    (0.25, 3480.0),
    (0.5, 4360.0),
    (0.75, 5350.0),
    (0.9, 7190.0),
    (0.95, 12050.0),
    (1.0, 26440.0),
)
RTT_US = (
    (0.0, 1540.0),
    (0.05, 15870.0),
    (0.1, 30840.0),
    (0.25, 95550.0),
    (0.5, 153360.0),
    (0.75, 215370.0),
    (0.9, 258550.0),
    (0.95, 294320.0),
    (1.0, 430910.0),
)
"""Percentiles of a grid of 63 cloud regions, measured in January 2022 (premium tiers)."""


def positions(count: int) -> Floats:
    """Return the `count` probabilities at which quantiles are taken."""
    at = (np.arange(count) + 1.0) / max(count, 1)
    at[count - 1 :] = 1 - 0.5 / max(count, 1)
    return at


def normal(at: Floats) -> Floats:
    """Return quantiles of the standard normal distribution."""
    inverse = NormalDist().inv_cdf
    return np.array([inverse(p) for p in at.tolist()], dtype=np.float64)


def log_normal(count: int, sigma: float) -> Floats:
    """Return rising quantiles of a log-normal distribution of median 1."""
    return np.exp(sigma * normal(positions(count)))


def readers(count: int) -> Ints:
    """Return ascending numbers of readers, with logarithm piecewise linear in the normal quantile.

    It goes through the three percentiles of `READERS`, and on beyond them with the same slopes.
    """
    knots = normal(np.array([p for p, _ in READERS]))
    heights = [log(many) for _, many in READERS]
    at = normal(positions(count))
    piece = (at > knots[1]).astype(np.int64)
    slopes = np.diff(heights) / np.diff(knots)
    value = np.exp(np.array(heights)[piece] + slopes[piece] * (at - knots[piece]))
    return as_counts(value)


def as_counts(values: Floats) -> Ints:
    """Return the nearest whole numbers, at least 1."""
    counts: Ints = np.maximum(1, np.rint(values)).astype(np.int64)
    return counts


def interpolated(table: Sequence[tuple[float, float]], uniform: Floats) -> Ints:
    """Turn uniform draws into values by a table of percentiles, linear between them."""
    at, value = np.array(table).T
    return as_counts(np.interp(uniform, at, value))


def order(rng: np.random.Generator, count: int) -> Ints:
    """Return a random permutation of `count` indices."""
    shuffled: Ints = np.argsort(rng.random(count), kind="stable")
    return shuffled


def chosen(rng: np.random.Generator, count: int, per_mille: int) -> NDArray[np.bool_]:
    """Draw `count` Bernoulli trials, each true with `per_mille` thousandths (count,)."""
    return np.floor(rng.random(count) * PER_MILLE) < per_mille


def apportion(total: int, weights: Floats) -> Ints:
    """Split a whole number by weights, by largest remainders; ties to the first."""
    exact = total * weights / weights.sum()
    whole: Ints = np.floor(exact).astype(np.int64)
    rest = np.argsort(whole - exact, kind="stable")[: total - int(whole.sum())]
    whole[rest] += 1
    return whole


# Links between regions: some of a measured grid, or drawn like one.


EGRESS = Shares(
    (21_475, 53_687, 85_899, 93_952, 96_637, 128_849, 161_061, 204_011),
    (90, 50, 130, 150, 150, 290, 100, 40),
)
"""Micro-dollars per GiB: 0.02, 0.05, 0.08, 0.0875, 0.09, 0.12, 0.15 and 0.19 USD per GB, about as
often as on the grid of 63 cloud regions."""


def draw_grid(rng: np.random.Generator, regions: int, grid: WanGrid | None) -> WanGrid:
    """Return the links between the regions: those of `grid`, or drawn by its percentiles.

    What is drawn is as far apart and as fast as the measured grid, but independently: there, links
    over longer ways are slower. Round-trip times are the same both ways.
    """
    if grid is not None:
        return grid.only(np.sort(order(rng, len(grid.regions))[:regions]).tolist())
    shape = (regions, regions)
    rtt = interpolated(RTT_US, rng.random(shape))
    lower = np.tril_indices(regions, -1)
    rtt[lower] = rtt.T[lower]
    return WanGrid(
        regions=tuple(f"region-{r}" for r in range(regions)),
        bandwidth=interpolated(THROUGHPUT_MBPS, rng.random(shape)),
        rtt_us=rtt,
        egress=EGRESS.pick(rng.random(shape)),
    )


# Supply of generated regions: hosts by region and GPU model, and their cluster.


HOST_GPUS = 8
MODELS = ("H100", "A100", "V100")
MODEL_SHARES = (0.3, 0.5, 0.2)
LACKING = 0.15
"""How likely a region lacks a model, but for the second one, which all have."""

_SMALL = 64
_BLOCKS_PER_DATACENTER = 8


@dataclass(frozen=True, slots=True)
class Rack:
    """Hosts of one model next to each other: `name-h0` and so on."""

    region: int
    datacenter: int
    block: int
    model: int
    name: str
    hosts: int


def supply(rng: np.random.Generator, regions: int, hosts: int) -> Ints:
    """Draw the hosts of each model in each region (regions, models).

    Regions are log-normal in size, each of one host of the second model at least; a region has
    half to one and a half of each model's share, or none of it.
    """
    size = 1 + apportion(hosts - regions, log_normal(regions, REGION_SIGMA)[order(rng, regions)])
    draw = rng.random((regions, len(MODELS)))
    share = np.array(MODEL_SHARES) * (0.5 + draw)
    absent = rng.random((regions, len(MODELS))) < LACKING
    absent[:, 1] = False
    share[absent] = 0
    return np.array([apportion(int(n), row) for n, row in zip(size, share, strict=True)])


def racks(names: Sequence[str], hosts: Ints) -> tuple[Rack, ...]:
    """Return the racks of regions with these hosts (regions, models), each rack of one model.

    A block has 16 racks of 8 hosts, or 4 of 4 where regions have 64 hosts at the mean or fewer; a
    datacenter has 8 blocks.
    """
    small = hosts.sum() <= _SMALL * len(names)
    per_rack, per_block = (4, 4) if small else (8, 16)
    found = []
    for r, name in enumerate(names):
        rack = 0
        for model, many in enumerate(hosts[r].tolist()):
            for first in range(0, many, per_rack):
                block, slot = divmod(rack, per_block)
                found.append(
                    Rack(
                        region=r,
                        datacenter=block // _BLOCKS_PER_DATACENTER,
                        block=block,
                        model=model,
                        name=f"{name}-b{block}-r{slot}",
                        hosts=min(per_rack, many - first),
                    )
                )
                rack += 1
    return tuple(found)


def cluster(title: str, names: Sequence[str], layout: Sequence[Rack]) -> ClusterDocument:
    """Return the cluster of these regions: datacenters of blocks of racks of hosts with 8 GPUs."""
    return ClusterDocument(
        name=title,
        levels=("region", "datacenter", "block", "rack"),
        domains=tuple(dict.fromkeys(_domains(names, layout))),
        hosts=tuple(
            HostEntry(
                name=ranges.of_size(f"{rack.name}-h", rack.hosts),
                parent=rack.name,
                gpus=HOST_GPUS,
                gpu_model=MODELS[rack.model],
            )
            for rack in layout
        ),
    )


def _domains(names: Sequence[str], layout: Sequence[Rack]) -> Iterator[DomainEntry]:
    """Yield the domains of all levels; those that hold several racks more than once."""
    for name in names:
        yield DomainEntry(name=name, level="region")
    for rack in layout:
        region = names[rack.region]
        datacenter, block = f"{region}-d{rack.datacenter}", f"{region}-b{rack.block}"
        yield DomainEntry(name=datacenter, level="datacenter", parent=region)
        yield DomainEntry(name=block, level="block", parent=datacenter)
        yield DomainEntry(name=rack.name, level="rack", parent=block)


# Demand of generated jobs: GPUs, allowed models, and skew between regions.


SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
SIZE_SHARES = (700, 100, 70, 60, 30, 20, 12, 5, 3)
HOTTEST = 2.63
"""Demand over supply of the hottest region before MAST (OSDI'24) moved data."""

_HOTTEST_OF_ALL = 0.8
_WIDTHS = Shares((1, 2, 3), (500, 200, 300))
"""How many models a job of one host accepts."""


def tilted_sizes(mean: float, largest: int) -> Floats:
    """Return the probabilities of `SIZES`, up to `largest`, that have the given mean.

    The shares of `SIZE_SHARES` times a power of the size.
    """
    kept = np.array([size for size in SIZES if size <= largest], dtype=np.float64)
    base = np.array(SIZE_SHARES[: kept.size], dtype=np.float64)

    def likely(tilt: float) -> Floats:
        weights = base * kept**tilt
        return np.asarray(weights / weights.sum())

    tilt = solve(lambda t: float(likely(t) @ kept), mean, -20.0, 20.0)
    return np.concatenate([likely(tilt), np.zeros(len(SIZES) - kept.size)])


def draw_sizes(rng: np.random.Generator, count: int, likely: Floats) -> Ints:
    """Return the GPUs of each workload: quantiles, in a random order."""
    at = (np.arange(count) + 0.5) / count
    index = np.searchsorted(np.cumsum(likely)[:-1], at, side="right")
    return np.array(SIZES)[index][order(rng, count)]


def adjust_to_total(sizes: Ints, jobs: Ints, total: int, largest: int) -> None:
    """Double or halve sizes of some jobs until they sum to `total`, as far as possible.

    Parameters
    ----------
    sizes
        Of all jobs, powers of two; changed in place.
    jobs
        Those that may change, the first ones first.
    """
    short = total - int(sizes[jobs].sum())
    while short:
        own = sizes[jobs]
        step = own * (2 * own <= largest) if short > 0 else own // 2
        gentle = step * (step <= max(1, abs(short) // 4))
        step = gentle if gentle.any() else step * (step <= abs(short))
        if not step.any():
            return
        job = int(np.argmax(step))
        change = int(step[job]) if short > 0 else -int(step[job])
        sizes[jobs[job]] += change
        short -= change


def draw_models(rng: np.random.Generator, sizes: Ints, asked: Ints, hosts: Ints) -> list[Ints]:
    """Return the models that each workload accepts, in rising order.

    Workloads of more than one host accept one model, others one to all. The first model of each is
    the one of which the least of its share is asked so far, largest workloads first: so each model
    is asked for as it is there.

    Parameters
    ----------
    sizes, asked
        (workloads,): GPUs of a job, and of all its jobs.
    hosts
        (regions, models).
    """
    supply, most = hosts.sum(axis=0).astype(np.float64), hosts.max(axis=0)
    width = np.where(sizes > 8, 1, _WIDTHS.pick(rng.random(sizes.size)))
    taken = np.zeros(supply.size)
    chosen: list[Ints] = [np.zeros(0, dtype=np.int64)] * sizes.size
    for w in np.argsort(-asked, kind="stable").tolist():
        usable = np.flatnonzero(most * 8 >= 2 * sizes[w])
        if not usable.size:
            usable = np.flatnonzero(most)
        full = taken[usable] / supply[usable]
        picked = usable[np.argsort(full, kind="stable")[: width[w]]]
        taken[picked] += asked[w] / picked.size
        chosen[w] = np.sort(picked)
    return chosen


def heat(rng: np.random.Generator, supply: Ints, ratio: float) -> Floats:
    """Return demand over supply per region: `ratio` in total, `HOTTEST` in the hottest.

    It falls by one factor from region to region, in a random order. The hottest region is one small
    enough to be it; where all are too large, it has four fifths of the demand at most.
    """
    share = supply / supply.sum()
    ranks = order(rng, supply.size)
    small = share[ranks] * HOTTEST <= _HOTTEST_OF_ALL * ratio
    first = int(np.argmax(small)) if small.any() else int(np.argmin(share[ranks]))
    ranks = np.concatenate([ranks[first : first + 1], np.delete(ranks, first)])
    if supply.size == 1:
        return np.array([ratio])
    top = min(HOTTEST, _HOTTEST_OF_ALL * ratio / float(share[ranks[0]]))

    def fall(factor: float) -> Floats:
        heat = np.empty(supply.size)
        heat[ranks] = top * factor ** np.arange(supply.size)
        return heat

    return fall(solve(lambda q: float(fall(q) @ share), ratio, 0.0, 1.0))


def solve(rising: Callable[[float], float], value: float, low: float, high: float) -> float:
    """Bisection: return the argument at which an increasing function has a value."""
    for _ in range(80):
        middle = (low + high) / 2
        if rising(middle) < value:
            low = middle
        else:
            high = middle
    return (low + high) / 2
