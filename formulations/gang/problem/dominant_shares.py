"""Dominant resource fairness: the shares of tenants, and the objective terms that they stand for.

The dominant share of a tenant is the largest, over resources, of what its jobs hold after the round
out of what all healthy hosts have, divided by the tenant's weight (Ghodsi et al., Dominant Resource
Fairness, NSDI 2011, sections 4.1 and 4.3). In whole units of 1 / `SCALE`, rounded down,

    share(i)  =  max_r  floor(SCALE * held[i,r] / (capacity[r] * weight[i]))

Max-min over tenants, lexicographically: theta_k, the sum of the k smallest shares, is maximised for
k = 1, 2, ... Such ordered sums are linear, also in whole numbers (Ogryczak and Sliwinski, On
solving linear programs with the ordered weighted averaging objective, EJOR 148, 2003). The policy's
term `share` stands for these terms, one per tenant that has jobs in the round, but no more than
`MAX_ORDERED`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from placewright.formulations.gang.problem.quotas import resources_held
from placewright.instances.documents.round import Round
from placewright.topology import Cluster
from placewright.topology.units import WHOLE_GPU

SHARE = "share"
SCALE = 100_000
MAX_ORDERED = 8
"""With more tenants the last term is the sum of all shares."""

TOTAL_SHARE = "share_all"
ORDERED_SHARES = (SHARE, *(f"share_{k}" for k in range(2, MAX_ORDERED + 1)))
SHARE_TERMS = (*ORDERED_SHARES, TOTAL_SHARE)


@dataclass(frozen=True, slots=True)
class TenantShare:
    """A tenant that counts in the term `share`.

    Attributes
    ----------
    tenant : int
        Its index in the round.
    denominator : mapping of resource index (-1: milli-GPU) to int
        Capacity of the healthy hosts times the tenant's weight; resources of which they have none
        are left out.
    total : mapping of resource index to int
        Capacity of all hosts.
    held : mapping of resource index to int
        What those of the tenant's jobs hold that are not decided here.
    """

    tenant: int
    denominator: Mapping[int, int]
    total: Mapping[int, int]
    held: Mapping[int, int]

    @property
    def by_resource(self) -> dict[int, int]:
        """Share of each resource that the tenant holds, in units of 1 / `SCALE`."""
        return {r: SCALE * self.held[r] // per for r, per in self.denominator.items()}

    @property
    def upper_bound(self) -> int:
        """Dominant share of what the tenant holds, no more than all hosts have."""
        return max(
            (
                SCALE * min(self.held[r], self.total[r]) // per
                for r, per in self.denominator.items()
            ),
            default=0,
        )

    def plus(self, amounts: Mapping[int, int]) -> Self:
        """Return the tenant holding these amounts, by resource, in addition."""
        return replace(self, held={r: h + amounts[r] for r, h in self.held.items()})


def tenant_shares(
    round_: Round, cluster: Cluster, healthy: NDArray[np.bool_]
) -> tuple[TenantShare, ...]:
    """Return the tenants that have jobs in a round; () if its policy has no term `share`.

    Parameters
    ----------
    healthy : bool (hosts,)
    """
    if SHARE not in round_.policy.terms:
        return ()
    names = {-1: "gpu", **dict(enumerate(cluster.resources))}
    everywhere = np.ones_like(healthy)
    capacity, everything = (_capacity(cluster, hosts) for hosts in (healthy, everywhere))
    held = {tenant.name: dict.fromkeys(names, 0) for tenant in round_.tenants}
    counts = {job.tenant for job in round_.jobs}
    for job in round_.jobs:
        if job.running is not None and job.running.pinned and job.tenant is not None:
            amounts = resources_held(job.options[job.running.option])
            for r, name in names.items():
                held[job.tenant][r] += amounts.get(name, 0)
    return tuple(
        TenantShare(
            i,
            {r: most * tenant.weight for r, most in capacity.items() if most},
            everything,
            {r: amount for r, amount in held[tenant.name].items() if capacity[r]},
        )
        for i, tenant in enumerate(round_.tenants)
        if tenant.name in counts
    )


def _capacity(cluster: Cluster, hosts: NDArray[np.bool_]) -> dict[int, int]:
    """Return the capacity of the marked hosts, bool (hosts,), by resource (-1: milli-GPU)."""
    has = cluster.capacity[hosts].sum(axis=0).tolist()
    return {-1: int(cluster.gpu_count[hosts].sum()) * WHOLE_GPU, **dict(enumerate(has))}


def write_out_share(terms: Iterable[str], tenants: int) -> tuple[str, ...]:
    """Replace the term `share` by its ordered sums, for a number of tenants."""
    ordered = (
        ORDERED_SHARES[: max(tenants, 1)]
        if tenants <= MAX_ORDERED
        else (*ORDERED_SHARES[: MAX_ORDERED - 1], TOTAL_SHARE)
    )
    return tuple(t for term in terms for t in (ordered if term == SHARE else (term,)))


def num_smallest(term: str, tenants: int) -> int:
    """Return how many of the smallest shares a term adds up."""
    return tenants if term == TOTAL_SHARE else min(ORDERED_SHARES.index(term) + 1, tenants)


def sum_of_smallest(term: str, shares: Sequence[int]) -> int:
    """Return the value of a term, given the shares of all tenants that count."""
    return sum(sorted(shares)[: num_smallest(term, len(shares))])
