"""Initial places of data, and residency and locality rules."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from placewright.array_types import Bools, Floats, Ints
from placewright.instances.generators.geo.distributions import apportion, chosen
from placewright.instances.generators.geo.readers import Readers

RESIDENT_DATA = 50
RESIDENT_JOBS = 30
LOCAL = 200
"""Per mille: of datasets and workloads that stay near, and of those whose data is in one place that
read there only."""


@dataclass(frozen=True, slots=True, eq=False)
class Rules:
    """Residency of datasets and workloads, and which workloads may read remotely.

    Attributes
    ----------
    data, work : Bools
        (datasets, regions), (workloads, regions).
    remote : Bools
        (workloads,).
    """

    data: Bools
    work: Bools
    remote: Bools


def place_data(reads: Readers, asked: Ints, target: Floats) -> Ints:
    """Return the region of each dataset: in descending order of demand, where most is missing.

    A dataset counts with what its readers ask of which it is the largest dataset. Those that are
    the largest of none are spread in proportion to `target`.

    Parameters
    ----------
    asked
        (workloads,): GPUs.
    target
        (regions,): GPUs that those who read there are to ask.
    """
    largest = np.lexsort((-reads.size[reads.dataset], reads.workload))
    first = np.flatnonzero(np.diff(reads.workload[largest], prepend=-1))
    main = reads.dataset[largest[first]]
    weight = np.bincount(main, weights=asked, minlength=reads.size.size)
    missing = target.astype(np.float64)
    region = np.empty(reads.size.size, dtype=np.int64)
    by_weight = np.argsort(-weight, kind="stable")
    main_ones, others = np.split(by_weight, [np.count_nonzero(weight)])
    for d in main_ones.tolist():
        region[d] = int(np.argmax(missing))
        missing[region[d]] -= weight[d]
    region[others] = np.repeat(np.arange(target.size), apportion(others.size, target))
    return region


def homes(reads: Readers, region: Ints, regions: int) -> tuple[Ints, Bools]:
    """Return where most GiB of each workload's data are, and whether all of its data is there."""
    gib = np.zeros((reads.jobs.size, regions), dtype=np.int64)
    np.add.at(gib, (reads.workload, region[reads.dataset]), reads.size[reads.dataset])
    return gib.argmax(axis=1), (gib > 0).sum(axis=1) == 1


def draw_rules(
    rng: np.random.Generator,
    reads: Readers,
    region: Ints,
    usable: Bools,
    rtt: Ints,
) -> Rules:
    """Draw residency and locality such that some region can run each workload once it has the data.

    What must stay stays in the third of the regions, at least two, that are nearest by round-trip
    time.

    Parameters
    ----------
    region
        (datasets,): where each is.
    usable
        (workloads, regions): where a workload finds a GPU model that it accepts.
    rtt
        (regions, regions).
    """
    regions = rtt.shape[0]
    own, together = homes(reads, region, regions)
    data_drawn = chosen(rng, region.size, RESIDENT_DATA)
    work_drawn = chosen(rng, own.size, RESIDENT_JOBS)
    remote = ~(together & chosen(rng, own.size, LOCAL))
    data = np.ones((region.size, regions), dtype=np.bool_)
    work = np.ones((own.size, regions), dtype=np.bool_)
    if regions < 3:
        return Rules(data, work, remote)
    near = _nearest(rtt)
    may = usable.copy()
    for d in np.flatnonzero(data_drawn).tolist():
        readers = reads.workload[reads.dataset == d]
        left = may[readers] & near[region[d]]
        if left.any(axis=1).all():
            data[d], may[readers] = near[region[d]], left
    for w in np.flatnonzero(work_drawn).tolist():
        left = may[w] & near[own[w]]
        if left.any():
            work[w], may[w] = near[own[w]], left
    return Rules(data, work, remote)


def _nearest(rtt: Ints) -> Bools:
    """Return which regions are in the nearest third of each (regions, regions), itself first."""
    regions = rtt.shape[0]
    away = rtt + 1
    np.fill_diagonal(away, 0)
    rank = np.argsort(np.argsort(away, axis=1, kind="stable"), axis=1, kind="stable")
    return np.asarray(rank < max(2, -(-regions // 3)))
