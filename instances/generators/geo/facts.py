"""Summary statistics of a round of regions, computed from the document."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from placewright.instances.derived.arrays import build_cluster
from placewright.instances.documents.round import Round
from placewright.topology.units import WHOLE_GPU

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
