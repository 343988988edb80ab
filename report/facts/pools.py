"""Pools: what each domain has of what hosts share, and what jobs take before and after a plan."""

from __future__ import annotations

from dataclasses import dataclass

from placewright.instances.derived.pools import PoolDomains, places_of, pools_of
from placewright.instances.documents.plan import Plan
from placewright.instances.documents.round import Round
from placewright.report.facts.placed import placed_after, placed_before
from placewright.topology import Cluster

WHOLE_CLUSTER = "whole cluster"


@dataclass(frozen=True, slots=True)
class PoolUsage:
    """What jobs take of a pool in one domain of its level, before and after a plan.

    Parameters
    ----------
    resource
        What hosts share.
    where
        The level and the domain, such as `rack r0`, or `whole cluster`.
    capacity
        What the domain has; jobs that ran before may take more.
    before, after
        What jobs take; the same without a plan.
    """

    resource: str
    where: str
    capacity: int
    before: int
    after: int

    @property
    def share(self) -> float:
        """The part of the capacity that is taken after the plan; all of it if there is none."""
        return self.after / self.capacity if self.capacity else float(self.after > 0)


def pool_usage(round_: Round, cluster: Cluster, plan: Plan | None = None) -> list[PoolUsage]:
    """Return the usage of each domain of each pool, the fullest after the plan first."""
    pools = pools_of(round_, cluster)
    if not pools:
        return []
    jobs = {job.name: job for job in round_.jobs}
    placed = placed_before(round_.jobs), None if plan is None else placed_after(jobs, plan)
    before, after = (
        None if one is None else [(option, places_of(tasks, cluster)) for option, tasks in one]
        for one in placed
    )
    found: list[PoolUsage] = []
    for pool in pools:
        old = pool.held(before or ())
        new = old if after is None else pool.held(after)
        found += [
            PoolUsage(pool.pool.resource, _where(pool, d), int(has), int(old[d]), int(new[d]))
            for d, has in enumerate(pool.capacity)
        ]
    return sorted(found, key=lambda usage: -usage.share)


def pool_totals(round_: Round, cluster: Cluster) -> dict[str, int]:
    """Return what all domains of a resource's pools have together; of several pools, the least."""
    totals: dict[str, int] = {}
    for one in pools_of(round_, cluster):
        total, resource = int(one.capacity.sum()), one.pool.resource
        totals[resource] = min(total, totals.get(resource, total))
    return totals


def _where(pool: PoolDomains, domain: int) -> str:
    name = pool.names[domain]
    return WHOLE_CLUSTER if name is None else f"{pool.pool.level} {name}"
