"""Pools: what each domain has of what hosts share, and what jobs take before and after a plan."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from placewright.instances.derived.pools import places_of, pools_of
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
    level, domain
        The pool's level and one of its domains; None is the whole cluster.
    capacity
        What the domain has; jobs that ran before may take more.
    before, after
        What jobs take; the same without a plan.
    """

    resource: str
    level: str | None
    domain: str | None
    capacity: int
    before: int
    after: int

    @property
    def where(self) -> str:
        """The level and the domain, such as `rack r0`, or `whole cluster`."""
        return WHOLE_CLUSTER if self.domain is None else f"{self.level} {self.domain}"

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
            PoolUsage(pool.pool.resource, pool.pool.level, name, int(has), int(a), int(b))
            for name, has, a, b in zip(pool.names, pool.capacity, old, new, strict=True)
        ]
    return sorted(found, key=lambda usage: -usage.share)


def fullest(usages: Sequence[PoolUsage], most: int | None) -> list[PoolUsage]:
    """Return the fullest domains, at most so many (None: all), of each pool about as many."""
    if most is None or len(usages) <= most:
        return list(usages)
    place: Counter[tuple[str, str | None]] = Counter()
    ranks = []
    for number, usage in enumerate(usages):
        ranks.append((place[usage.resource, usage.level], number))
        place[usage.resource, usage.level] += 1
    return [usages[number] for number in sorted(number for _, number in sorted(ranks)[:most])]


def pool_totals(round_: Round, cluster: Cluster) -> dict[str, int]:
    """Return what all domains of a resource's pools have together; of several pools, the least."""
    totals: dict[str, int] = {}
    for one in pools_of(round_, cluster):
        total, resource = int(one.capacity.sum()), one.pool.resource
        totals[resource] = min(total, totals.get(resource, total))
    return totals
