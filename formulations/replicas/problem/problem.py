"""The problem of replica placement as arrays over job classes and dataset classes.

All terms are minimised, one after the other: `overload`, `remote_reads`, `copies`, `imbalance`,
`hottest` (`values.values` has the formulas).

References
----------
Choudhury et al., "MAST: global scheduling of ML training across geo-distributed datacenters at
hyperscale", OSDI'24: its slow path, Tetris, balances demand and places data once a day. Tables
with the same readers are moved together.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from placewright.formulations.common.wan.arrays import Bools, Ints, Wan

DATA = ("remote_reads", "copies")
"""Terms of what data costs, which matter one after the other."""

TOGETHER = "+".join(DATA)
"""Their sum: what data costs in all."""

HOMELESS = 3
"""What a milli-GPU of a job without a home adds to `overload`."""


@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    """Job classes (w), dataset classes (p), regions (r) and GPU models (m) as arrays.

    The jobs of a job class have the same demand, models, regions and reads. The datasets of a
    dataset class have the same replicas, residency and readers, and the GiB read are in proportion
    to their sizes; it is one dataset class for a relaxation, and the search moves it as a whole.

    Attributes
    ----------
    job class : Ints
        (jobs,): the job class of each job.
    dataset class : Ints
        (datasets,): the dataset class of each dataset.
    count, demand : Ints
        (job classes,): jobs, and milli-GPU of one of them.
    may : Bools
        (job classes, regions, models): where its jobs may have their home, as far as one job class
        alone can tell: allowed, with supply, and all data could be there or be read from afar.
    supply : Ints
        (regions, models): milli-GPU.
    size : Ints
        (dataset classes,): GiB.
    now : Bools
        (dataset classes, regions): where a replica is or arrives.
    fixed : Bools
        (dataset classes, regions): where one arrives that is not complete yet; it stays.
    may_hold : Bools
        (dataset classes, regions): where one is, arrives, or could be copied to.
    storage, incoming, outgoing : Ints
        (regions,): GiB that may be held, and that may be copied in and out over all its links.
    linked : Bools
        (regions, regions): whether the second may read from the first one's replicas.
    read_workload, read_group, read_gib : Ints
        (reads,): GiB that each job of a job class reads of a dataset class, by job class.
    read_remote : Bools
        (reads,): whether it may be from another region.
    """

    wan: Wan
    job_class: Ints
    dataset_class: Ints
    count: Ints
    demand: Ints
    allowed_homes: Bools
    supply: Ints
    size: Ints
    current: Bools
    fixed: Bools
    may_hold: Bools
    storage: Ints
    incoming: Ints
    outgoing: Ints
    linked: Bools
    read_class: Ints
    read_dataset_class: Ints
    read_gib: Ints
    read_remote: Bools

    @property
    def terms(self) -> tuple[str, ...]:
        """The policy's terms."""
        return self.wan.round.policy.terms

    @property
    def regions(self) -> int:
        """The number of regions."""
        return len(self.storage)

    @property
    def job_classes(self) -> int:
        """The number of job classes."""
        return len(self.count)

    @property
    def dataset_classes(self) -> int:
        """The number of dataset classes."""
        return len(self.size)

    @property
    def origin(self) -> Ints:
        """The only region with a dataset class (dataset classes,), -1 for none or several."""
        alone = self.current.sum(axis=1) == 1
        origin: Ints = np.where(alone, self.current.argmax(axis=1), -1)
        return origin

    @property
    def homeless(self) -> Bools:
        """Which job classes cannot run anywhere, whatever is copied (job classes,)."""
        never: Bools = np.logical_not(self.allowed_homes.any(axis=(1, 2)))
        return never


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """Where replicas are in the end, and where each job is to run.

    Attributes
    ----------
    replicas : Bools
        (datasets, regions).
    homes : Ints
        (jobs, 2): region and GPU model, `NONE` without a home.
    """

    replicas: Bools
    homes: Ints

    def creates(self, wan: Wan) -> Bools:
        """Return the replicas that are new (datasets, regions)."""
        new: Bools = self.replicas & ~(wan.holds | wan.arriving)
        return new

    def drops(self, wan: Wan) -> Bools:
        """Return the replicas that go (datasets, regions); copies under way stay."""
        gone: Bools = wan.complete() & ~self.replicas
        return gone


def dense_ids(labels: list[object]) -> Ints:
    """Return a number for each label, counted from 0 in the order in which they appear."""
    seen: dict[object, int] = {}
    return np.array([seen.setdefault(label, len(seen)) for label in labels], dtype=np.int64)
