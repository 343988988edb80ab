"""Quotas of tenants: cells as in HiveD, or numbers of GPUs.

References
----------
Zhao et al., "HiveD: sharing a GPU cluster for deep learning with guarantees", OSDI 2020.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

Guarantee: TypeAlias = Literal["cells", "gpus"]


@dataclass(frozen=True, slots=True)
class QuotaPolicy:
    """Jobs inside the quota of their tenant are guaranteed, the others opportunistic.

    A tenant with a quota has guaranteed jobs: in order of arrival, the first that its quota has no
    room for ends the walk through its list, and none runs outside the quota. Jobs that are larger
    than the quota, and those of tenants without one, are opportunistic: they start in order of
    arrival where GPUs are free, skipping who does not fit, and are preempted when a guaranteed job
    needs their GPUs.

    Parameters
    ----------
    name
        As the command line calls it.
    guarantee
        `cells`: a tenant owns cells, of a power of two of GPUs on one host, and its jobs start
        wherever a cluster of these alone would start them. `gpus`: it owns as many GPUs,
        anywhere; a job that none of the hosts has room for waits.
    """

    name: str
    guarantee: Guarantee

    @property
    def sees(self) -> frozenset[str]:
        """Columns that it reads."""
        return frozenset({"tenant"})


HIVED = QuotaPolicy("hived", "cells")
GPU_QUOTA = QuotaPolicy("gpu-quota", "gpus")
