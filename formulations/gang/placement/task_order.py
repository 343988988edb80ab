"""Order of the tasks of a group: whole slices in a domain, ranks of collectives along the tree."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np

from placewright.formulations.gang.problem.jobs import Group
from placewright.topology import Cluster


def task_indices(
    cluster: Cluster, group: Group, hosts: Sequence[int], kept: Mapping[int, int]
) -> list[int]:
    """Return the index in the group of each task that arrives, in the order of `hosts`.

    Tasks go by domain, outermost level first, so that a ring or tree leaves each domain as rarely
    as possible, and each slice is inside one domain if domains hold whole slices. `kept` has the
    host of each task that stays, by index; slices with such tasks are filled first.
    """
    begun: defaultdict[int, list[int]] = defaultdict(list)  # by domain, indices in slices of `kept`
    domain = cluster.domain[-1 if group.slices is None else group.slices.level]
    size = 1 if group.slices is None else group.slices.size
    for index, host in sorted(kept.items()):
        mine, first = begun[int(domain[host])], index - index % size
        mine += [i for i in range(first, first + size) if i not in kept and i not in mine]
    others = set(range(group.count)) - set(kept) - {i for mine in begun.values() for i in mine}
    left = iter(sorted(others))
    indices = [-1] * len(hosts)
    inside = cluster.host_model[hosts]  # an NVLink domain may be all hosts of a model in a domain
    keys = (cluster.domain[-1, hosts], inside, *cluster.domain[-2::-1, hosts])
    for p in np.lexsort(keys).tolist():
        mine = begun[int(domain[hosts[p]])]
        indices[p] = mine.pop(0) if mine else next(left)
    return indices
