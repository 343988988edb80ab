"""What tenants use of their quotas after a plan, as reasons to wait speak of it (docs/plans.md)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, NamedTuple

from placewright.formulations.gang.problem.quotas import resources_held
from placewright.formulations.plan_messages import Candidate
from placewright.instances.documents.job import Job
from placewright.instances.documents.round import Round
from placewright.rounds.sections.fixed_states import Precedence

Amounts = dict[str, int]


class RegionQuotas(NamedTuple):
    """The quotas of a region, and which jobs they are about."""

    name: str
    quotas: Mapping[str, int]
    jobs: Collection[int]


class _GivenBack(NamedTuple):
    """What a tenant uses if a preempted job and those of at least its precedence had stayed."""

    precedence: Precedence
    job: str
    used: Amounts


class QuotaUse:
    """What tenants use of their quotas after a plan, and what they may use.

    What a preempted job gave back of a quota is for starts of strictly higher precedence alone. So
    for any other job what is used counts as if it and the preempted jobs above it had stayed, and
    the starts above it had not come, if that is more.

    Parameters
    ----------
    precedence
        The precedence of a started job, or of a preempted one with the option that it ran.
    exempt
        Preempted jobs whose quota anybody may have.
    region
        For the quotas of a region: its name, these by tenant, and which jobs run there before the
        round or start there.
    """

    def __init__(
        self,
        round_: Round,
        candidate: Candidate,
        precedence: Callable[[int], Precedence],
        exempt: Collection[int] = (),
        region: RegionQuotas | None = None,
    ) -> None:
        self._where = {} if region is None else {"region": region.name}
        quotas = {tenant.name: dict(tenant.quota) for tenant in round_.tenants if tenant.quota}
        self.limit = quotas if region is None else {t: {"gpu": q} for t, q in region.quotas.items()}
        self._stay = {name: dict.fromkeys(quota, 0) for name, quota in self.limit.items()}
        self._jobs = round_.jobs
        before = {name: dict.fromkeys(quota, 0) for name, quota in self.limit.items()}
        starts: dict[str, list[tuple[int, Amounts]]] = {name: [] for name in self.limit}
        stopped: dict[str, list[tuple[int, Amounts]]] = {name: [] for name in self.limit}
        for j, job in enumerate(round_.jobs if self.limit else ()):
            if job.tenant not in self.limit or not (region is None or j in region.jobs):
                continue
            if job.running is not None:
                held = resources_held(job.options[job.running.option])
                _add(before[job.tenant], held)
                if j not in candidate.preempted:
                    _add(self._stay[job.tenant], held)
                elif j not in exempt:
                    stopped[job.tenant].append((j, held))
            elif j in candidate.starts:
                option = job.options[candidate.starts[j][0]]
                starts[job.tenant].append((j, resources_held(option)))
        for name, limit in self.limit.items():
            for resource, amount in limit.items():
                limit[resource] = max(amount, before[name][resource])
        self.used = {name: dict(stay) for name, stay in self._stay.items()}
        for name, mine in starts.items():
            for _, held in mine:
                _add(self.used[name], held)
        self._given_back = {
            name: list(self._accounts(name, starts[name], mine, precedence))
            for name, mine in stopped.items()
        }

    def _accounts(
        self,
        tenant: str,
        starts: list[tuple[int, Amounts]],
        stopped: list[tuple[int, Amounts]],
        precedence: Callable[[int], Precedence],
    ) -> Iterator[_GivenBack]:
        """Yield what is used once preempted jobs are back, one for each precedence of these."""
        if not stopped:
            return
        ranks = {j: precedence(j) for j, _ in (*starts, *stopped)}
        first = {ranks[j]: j for j, _ in reversed(stopped)}
        for rank, job in first.items():
            used = dict(self._stay[tenant])
            for j, held in stopped:
                if ranks[j] >= rank:
                    _add(used, held)
            for j, held in starts:
                if ranks[j] <= rank:
                    _add(used, held)
            yield _GivenBack(rank, self._jobs[job].name, used)

    def excess(self, job: Job, option: int, precedence: Precedence) -> dict[str, Any]:
        """Return by how much an option exceeds a quota, nothing if none; the worst of several."""
        if job.tenant not in self.limit:
            return {}
        asks = resources_held(job.options[option])
        worst: dict[str, Any] = {}
        accounts: list[tuple[dict[str, str], Amounts]] = [({}, self.used[job.tenant])]
        accounts += [
            ({"job": one.job}, one.used)
            for one in self._given_back[job.tenant]
            if one.precedence >= precedence
        ]
        for victim, used in accounts:
            for resource, limit in self.limit[job.tenant].items():
                asked = asks.get(resource, 0)
                excess = used[resource] + asked - limit
                if excess > 0 and (not worst or excess * worst["asked"] > worst["excess"] * asked):
                    worst = {
                        "tenant": job.tenant,
                        "resource": resource,
                        "asked": asked,
                        "used": used[resource],
                        "limit": limit,
                        "excess": excess,
                        **victim,
                        **self._where,
                    }
        return worst


def _add(sums: dict[str, int], amounts: Mapping[str, int]) -> None:
    for name in sums:
        sums[name] += amounts.get(name, 0)
