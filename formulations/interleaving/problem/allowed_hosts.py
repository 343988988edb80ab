"""Masks of the hosts that task groups allow, by GPU model and by name."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

import numpy as np

from placewright.array_types import Bools
from placewright.formulations.gang.problem.shapes import host_mask
from placewright.instances.derived.host_sets import AllowedHosts, is_anywhere
from placewright.instances.documents.job import Job
from placewright.instances.documents.option import TaskGroup
from placewright.topology import Cluster


class HostMasks:
    """The hosts that task groups allow, (hosts,); those of one mask are worked out once.

    Parameters
    ----------
    cluster
        The hosts.
    host_sets
        Those of the round.
    """

    def __init__(self, cluster: Cluster, host_sets: Mapping[str, Sequence[str]]) -> None:
        self.cluster = cluster
        self._allowed = AllowedHosts(host_sets)
        self._known: dict[Hashable, Bools] = {}

    @staticmethod
    def key(group: TaskGroup) -> Hashable:
        """Return what is equal for groups that allow the same hosts in the same words."""
        return group.gpu_models, group.hosts, group.host_sets

    def of(self, group: TaskGroup) -> Bools:
        """Return the hosts that a task group allows; not to be written to."""
        key = self.key(group)
        if key not in self._known:
            self._known[key] = self._mask(group)
        return self._known[key]

    def with_current(self, job: Job, group: TaskGroup) -> Bools:
        """Return the hosts where tasks of a job may be: those allowed, and where it runs."""
        mask = self.of(group)
        if job.running is None or is_anywhere(group):
            return mask
        mask = mask.copy()
        mask[[self.cluster.host_index[task.host] for task in job.running.tasks]] = True
        return mask

    def _mask(self, group: TaskGroup) -> Bools:
        cluster, mask = self.cluster, np.ones(self.cluster.num_hosts, dtype=bool)
        if group.gpu_models is not None:
            index = {name: i for i, name in enumerate(cluster.gpu_models)}
            mask &= np.isin(cluster.gpu_model, [index[model] for model in group.gpu_models])
        named = self._allowed.of(group)
        return mask if named is None else mask & host_mask(cluster, tuple(named))
