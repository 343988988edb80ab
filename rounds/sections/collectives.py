"""The plan section `communication`: bottleneck and time of each collective that is placed anew."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from placewright.formulations.plan_messages import Candidate
from placewright.instances.documents.round import Round
from placewright.topology import Cluster
from placewright.topology.collectives import bottleneck, time_us


def collective_section(
    round_: Round, cluster: Cluster, candidate: Candidate
) -> dict[str, Any] | None:
    """Return the section for a candidate, or None if no group that it places has a collective.

    Groups go in the order in which a plan is read: migrated jobs, then started ones, each in the
    round's order. `bottleneck_mbit` is rounded down, and None where no link limits the group.
    """
    jobs, groups = round_.jobs, []
    for index in sorted(candidate.starts, key=lambda j: (jobs[j].running is None, j)):
        option, places = candidate.starts[index]
        for number, group in enumerate(jobs[index].options[option].groups):
            asked = group.communication
            if asked is None or asked.data_mib is None:
                continue
            mine = sorted(place for place in places if place[0] == number)
            ranks = [(host, gpu) for _, _, host, named in mine for gpu in named]
            hosts, gpus = np.array(ranks, dtype=np.int64).T
            slowest = bottleneck(cluster, hosts, gpus, asked.pattern)
            entry: Mapping[str, Any] = {
                "job": jobs[index].name,
                "group": number,
                "bottleneck_mbit": None if slowest is None else int(slowest),
                "time_us": time_us(asked.pattern, len(ranks), asked.data_mib, slowest),
            }
            groups.append(entry)
    return {"kind": "communication", "groups": groups} if groups else None
