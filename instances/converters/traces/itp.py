"""Clusters of one trace each as regions: Microsoft's ITP clusters, and others drawn like them.

The traces accompany Gu et al., "ElasticFlow: An Elastic Serverless Training Platform for
Distributed Deep Learning", ASPLOS'23: submission, duration and GPUs of each job. A region without a
trace of its own is resampled from one: as many jobs are drawn from it, with replacement, each with
its time and GPUs. A round has the jobs that are alive at one second.

The traces name neither data nor GPU models, nor how many GPUs a cluster had. Data is drawn as for
generated rounds: the jobs of a region are divided into workloads of nearly equal jobs, whose data
is in that region. All hosts are alike. A region has as many of them as make its demand over supply
what generated rounds have: 2.63 where most is asked, falling by one factor from region to region.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from placewright.array_types import Floats, Ints
from placewright.instances.converters.support.csv_table import read_table
from placewright.instances.converters.support.trace_rounds import (
    Conversion,
    check_range,
    invalid_argument,
)
from placewright.instances.documents.base import MAX_AMOUNT, NAME
from placewright.instances.errors import InvalidInputError
from placewright.instances.generators.geo import MIXES, MixName, PolicyName, facts_of
from placewright.instances.generators.geo.supply import (
    HOST_GPUS,
    HOTTEST,
    MODELS,
    apportion,
    draw_grid,
    order,
    solve,
)
from placewright.instances.generators.geo.world import (
    Readers,
    draw_datasets,
    draw_readers,
    draw_world,
    round_of,
)
from placewright.instances.generators.wan_grid import WanGrid
from placewright.instances.policies import POLICIES

MAX_REGIONS = 64
MAX_DATASETS = 20_000
MODEL = "V100"

_LARGEST = 2048
_LEAST_HOSTS = 2


@dataclass(frozen=True, slots=True, eq=False)
class ClusterTrace:
    """Jobs of a cluster: when each was submitted, how long it ran, and its GPUs (jobs,)."""

    name: str
    submitted: Ints
    duration: Ints
    gpus: Ints

    def alive(self, at: int) -> Ints:
        """Return the GPUs of each job that has come and not ended, had it started at once."""
        here = (self.submitted <= at) & (at < self.submitted + self.duration)
        return self.gpus[here]

    def resampled(self, name: str, rng: np.random.Generator) -> ClusterTrace:
        """Return as many jobs, drawn with replacement."""
        count = self.gpus.size
        drawn = np.floor(rng.random(count) * count).astype(np.int64)
        return ClusterTrace(name, self.submitted[drawn], self.duration[drawn], self.gpus[drawn])


def read_cluster(trace_csv: str | os.PathLike[str]) -> ClusterTrace:
    """Read a trace, named after its file; rows that ask no GPU are left out.

    `trace_csv`: columns submission_time, duration and num_gpu: up to 8, or whole hosts of 8. Raises
    `InvalidInputError`: for a file that cannot be used, with line and column.
    """
    table = read_table(trace_csv)
    table.require("submission_time", "duration", "num_gpu")
    gpus = table.integers("num_gpu", _LARGEST)
    for row in np.flatnonzero((gpus > HOST_GPUS) & (gpus % HOST_GPUS > 0)).tolist():
        raise table.error(row, "num_gpu", f"expected up to {HOST_GPUS} GPUs, or a multiple of it")
    kept = gpus > 0
    if not kept.any():
        raise InvalidInputError("expected at least one job", file=table.file, show_value=False)
    name = Path(table.file).stem
    if not re.fullmatch(NAME, name):
        raise InvalidInputError(
            "the file's name is that of a region; expected letters, digits and . _ : / @ | + = -",
            file=table.file,
            show_value=False,
        )
    return ClusterTrace(
        name=name,
        submitted=table.integers("submission_time", MAX_AMOUNT)[kept],
        duration=table.integers("duration", MAX_AMOUNT)[kept],
        gpus=gpus[kept],
    )


def read_itp(
    traces: Sequence[str | os.PathLike[str]],
    *,
    regions: int = 10,
    datasets: int = 100,
    at: int | None = None,
    mix: MixName = "spare",
    seed: int = 0,
    policy: PolicyName = "replicas",
    grid: WanGrid | None = None,
) -> Conversion:
    """Turn clusters into a round of regions, one each, and others resampled from them in turn.

    Parameters
    ----------
    traces
        Files as `read_cluster` reads them.
    regions, datasets
        How many; no fewer regions than traces, no more datasets than jobs.
    at
        The second at which the jobs are taken; None: when the traces together ask for most GPUs.
    mix, policy
        As in `generators.geo.generate`; under `geo` half of the jobs run, as far as there is room.
    seed
        Of what is resampled, and of data, links and who runs.
    grid
        Links; the regions are named after the traces. None: drawn.

    Raises
    ------
    InvalidInputError
        For a file that cannot be used (with line and column) or an argument out of its range.
    """
    if not traces:
        raise invalid_argument("traces", list(traces), "expected at least one")
    check_range("regions", regions, len(traces), MAX_REGIONS)
    check_range("seed", seed, 0, MAX_AMOUNT)
    if mix not in MIXES:
        raise invalid_argument("mix", mix, f"expected one of {', '.join(MIXES)}")
    if grid is not None and len(grid.regions) < regions:
        raise invalid_argument(
            "regions", regions, f"expected at most {len(grid.regions)}, as in the grid"
        )
    real = [read_cluster(trace) for trace in traces]
    if len({trace.name for trace in real}) < len(real):
        names = ", ".join(trace.name for trace in real)
        raise invalid_argument("traces", names, "expected files of different names")
    moment = _busiest(real) if at is None else at
    check_range("at", moment, 0, MAX_AMOUNT)
    rng = np.random.Generator(np.random.PCG64(seed))
    clusters = [*real, *_resampled(real, regions - len(real), rng)]
    asked = [np.sort(cluster.alive(moment)) for cluster in clusters]
    jobs = np.array([gpus.size for gpus in asked])
    if not jobs.any():
        raise invalid_argument("at", moment, "expected a second at which some job is alive")
    check_range("datasets", datasets, int((jobs > 0).sum()), min(MAX_DATASETS, int(jobs.sum())))

    hosts = np.zeros((regions, len(MODELS)), dtype=np.int64)
    hosts[:, MODELS.index(MODEL)] = _hosts(rng, asked, MIXES[mix] / 1000)
    reads, region = _reads(rng, jobs, datasets)
    workloads = reads.jobs.size
    world = draw_world(
        rng,
        replace(draw_grid(rng, regions, grid), regions=tuple(one.name for one in clusters)),
        hosts,
        reads,
        region,
        [np.arange(len(MODELS))] * workloads,
        np.repeat(np.arange(workloads), reads.jobs),
        np.concatenate(asked),
    )
    running = int(jobs.sum()) // 2 if POLICIES[policy].places_jobs else 0
    title = f"itp-{policy}-{mix}-{regions}-{datasets}-{moment}-{seed}"
    made = round_of(world, title, policy, running, rng)
    which = f"{len(real)} traces at second {moment:,}"
    if regions > len(real):
        which += f", {regions - len(real)} regions resampled with seed {seed}"
    return Conversion(made, f"itp: {len(made.jobs):,} jobs of {which}; {facts_of(made)}")


def _busiest(traces: Sequence[ClusterTrace]) -> int:
    """Return the first second at which most GPUs are asked for together."""
    change: dict[int, int] = {}
    for trace in traces:
        for sign, times in ((1, trace.submitted), (-1, trace.submitted + trace.duration)):
            for time, gpus in zip(times.tolist(), trace.gpus.tolist(), strict=True):
                change[time] = change.get(time, 0) + sign * gpus
    times = np.array(sorted(change))
    return int(times[np.argmax(np.cumsum([change[time] for time in times.tolist()]))])


def _resampled(
    traces: Sequence[ClusterTrace], count: int, rng: np.random.Generator
) -> list[ClusterTrace]:
    """Draw `count` more clusters, from each trace in turn."""
    found = []
    for i in range(count):
        again, which = divmod(i, len(traces))
        found.append(traces[which].resampled(f"{traces[which].name}-like-{again + 1}", rng))
    return found


def _hosts(rng: np.random.Generator, asked: Sequence[Ints], ratio: float) -> Ints:
    """Return the hosts of each region: demand over supply is `ratio` in all, as far as hosts allow.

    The region that is asked most is the hottest, the others follow in a random order.
    """
    demand = np.array([int(gpus.sum()) for gpus in asked], dtype=np.float64)
    ranks = order(rng, demand.size)
    first = int(np.argmax(demand))
    ranks = np.concatenate([[first], ranks[ranks != first]])

    def supply(factor: float) -> Floats:
        found = np.empty(demand.size)
        found[ranks] = demand[ranks] / (HOTTEST * factor ** np.arange(demand.size))
        return found

    total = float(demand.sum()) / ratio
    factor = solve(lambda q: -float(supply(q).sum()), -total, 0.01, 1.0)
    exact = supply(factor) / HOST_GPUS
    rounded = np.ceil(exact)
    rounded[first] = np.rint(exact[first])
    return np.asarray(np.maximum(_LEAST_HOSTS, rounded).astype(np.int64))


def _reads(rng: np.random.Generator, jobs: Ints, datasets: int) -> tuple[Readers, Ints]:
    """Draw the data of the jobs of each region apart, and return where each dataset is.

    Datasets are as many in a region as its part of the jobs, one at least.
    """
    size, many = draw_datasets(rng, datasets)
    here = (jobs > 0).astype(np.int64)
    count = here + apportion(datasets - int(here.sum()), (jobs - here).astype(np.float64) + 1e-9)
    first = np.concatenate([[0], np.cumsum(count)])
    parts = [
        draw_readers(rng, size[a:b], many[a:b], int(n))
        for a, b, n in zip(first[:-1], first[1:], jobs, strict=True)
        if n
    ]
    before = np.cumsum([0, *(part.jobs.size for part in parts)])
    starts = first[:-1][jobs > 0]
    reads = Readers(
        size=size,
        jobs=np.concatenate([part.jobs for part in parts]),
        workload=np.concatenate(
            [part.workload + w for part, w in zip(parts, before[:-1], strict=True)]
        ),
        dataset=np.concatenate([part.dataset + d for part, d in zip(parts, starts, strict=True)]),
    )
    return reads, np.repeat(np.arange(jobs.size), count)
