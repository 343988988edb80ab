"""The problem of replica placement, as arrays over job classes and dataset classes.

All terms are minimised lexicographically: `overload`, `remote_reads`, `copies`, `imbalance`,
`hottest` (`objective.term_values` has the formulas).

References
----------
Choudhury et al., "MAST: global scheduling of ML training across geo-distributed datacenters at
hyperscale", OSDI'24: its slow path, Tetris, balances demand and places data once a day. Tables
with the same readers are moved together.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from placewright.array_types import Bools, Ints
from placewright.formulations.common.wan.arrays import Wan

DATA = ("remote_reads", "copies")
"""Terms of what data costs, which matter one after the other."""

DATA_SUM = "data"
"""Their sum, an objective of relaxations: bounds of it less one term are of the other."""

HOMELESS = 3
"""What a milli-GPU of a job without a home adds to `overload`."""


@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    """Job classes (w), dataset classes (p), regions (r) and GPU models (m) as arrays.

    Jobs of a class have the same demand, GPU models, regions and reads. Datasets of a class have
    the same replicas, residency and readers, and the GiB that a job reads of each are proportional
    to its size; the search copies and drops a dataset class as a whole.

    Attributes
    ----------
    job_class : Ints
        (jobs,): the class of each job.
    dataset_class : Ints
        (datasets,): the class of each dataset.
    count, demand : Ints
        (job classes,): number of jobs, and milli-GPU of one of them.
    allowed_homes : Bools
        (job classes, regions, models): where its jobs may have their home, as far as the class
        alone decides: region and model are allowed and have supply, and all reads are possible.
    supply : Ints
        (regions, models): milli-GPU.
    size : Ints
        (dataset classes,): GiB.
    current : Bools
        (dataset classes, regions): where a replica is, or is under way.
    fixed : Bools
        (dataset classes, regions): replicas under way that are not complete; they stay.
    may_hold : Bools
        (dataset classes, regions): current replicas and possible copies.
    storage, incoming, outgoing : Ints
        (regions,): GiB of storage, and of copies that all links in and out of a region can carry.
    linked : Bools
        (regions, regions): whether the second may read from replicas in the first.
    read_class, read_dataset_class, read_gib : Ints
        (reads,): GiB that each job of a class reads of a dataset class, sorted by job class.
    read_remote : Bools
        (reads,): whether the read may be remote.
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
        """The terms of the policy, in their order."""
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
        """Which job classes cannot have a home whatever is copied (job classes,)."""
        never: Bools = np.logical_not(self.allowed_homes.any(axis=(1, 2)))
        return never


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """Replicas after the plan, and the home of each job.

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
        """Return the new replicas (datasets, regions)."""
        new: Bools = self.replicas & ~(wan.holds | wan.arriving)
        return new

    def drops(self, wan: Wan) -> Bools:
        """Return the dropped replicas (datasets, regions); replicas under way cannot be dropped."""
        gone: Bools = wan.complete() & ~self.replicas
        return gone


def dense_ids(labels: list[object]) -> Ints:
    """Return an id for each label (labels,), counted from 0 in order of first appearance."""
    seen: dict[object, int] = {}
    return np.array([seen.setdefault(label, len(seen)) for label in labels], dtype=np.int64)
