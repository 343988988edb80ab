"""Demand of generated jobs: GPUs, allowed models, and skew between regions."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from placewright.array_types import Floats, Ints
from placewright.instances.generators.geo.distributions import order
from placewright.instances.generators.mixes import Shares

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
