"""A small round as one round of gangs, in which each option stands once for each region.

An option of a job in a region is worth its value less what it reads over links there, so far apart
that the first decides: with X_k the most that term k can be in all and W_k = W_(k+1) (X_(k+1) + 1),

    worth = W_0 value - W_1 remote_reads - W_2 egress_cost - ...

From worth in all each of the terms can be read, and a bound of worth bounds each of them: the first
of all plans, and the k-th of those that are as good in the ones before,

    term_k  >=  (W_0 value - W_1 term_1 - ... - worth - what the terms after k can be at most) / W_k
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import gcd
from typing import Any

import numpy as np

from placewright.formulations.geo.compile import Problem
from placewright.formulations.session import Bound, Candidate
from placewright.instances.documents import WHOLE_GPU
from placewright.instances.geo import Geo
from placewright.instances.job import Job, Option, Running, TaskGroup
from placewright.instances.ranges import expand
from placewright.instances.round import Round

PLACES = ("disruption", "spread", "proximity", "opened")
"""Terms that rounds of gangs have from the policy."""

COSTS = ("remote_reads", "egress_cost", "gpu_cost")

MOST = 10**10
"""Of worth in all: a solver still tells single units apart."""


@dataclass(frozen=True, slots=True)
class Scale:
    """What worth is made of.

    `terms` are `value` and the costs that count, `weights` the W, and `most` the X; `unit` is what
    divides all values. `before` is what running jobs cost in each before the round. `proves` are
    the terms that bounds speak of: not what GPUs cost if that is not an option's own.
    """

    terms: tuple[str, ...]
    weights: tuple[int, ...]
    most: tuple[int, ...]
    unit: int
    before: tuple[int, ...]
    proves: int

    def worth(self, value: int, costs: Sequence[int]) -> int:
        """Return the worth of a value with these costs."""
        lost = sum(w * c for w, c in zip(self.weights[1:], costs, strict=False))
        return self.weights[0] * (value // self.unit) - lost

    @property
    def _start(self) -> int:
        return sum(w * c for w, c in zip(self.weights[1:], self.before, strict=True))

    def read(self, worth: int) -> tuple[tuple[str, int], ...]:
        """Return the terms of the plans whose worth in all this is."""
        rest = worth - self._start
        value = -(-rest // self.weights[0])
        found, rest = [value * self.unit], value * self.weights[0] - rest
        for weight in self.weights[1:]:
            found.append(rest // weight)
            rest %= weight
        return tuple(zip(self.terms, found, strict=True))

    def bounds(self, worth: int, best: Mapping[str, int] | None) -> Iterator[Bound]:
        """Yield what a bound of worth proves of each term, at the values of the best plan."""
        rest = worth - self._start
        slack = [0]
        for weight, most in zip(self.weights[:0:-1], self.most[::-1], strict=True):
            slack.insert(0, slack[0] + weight * most)
        yield Bound("value", (rest + slack[0]) // self.weights[0] * self.unit)
        if best is None:
            return
        held = self.weights[0] * (best["value"] // self.unit)
        for k, term in enumerate(self.terms[1 : self.proves], 1):
            least = -(-(held - rest - slack[k]) // self.weights[k])
            holds = tuple((t, best[t]) for t in self.terms[:k])
            yield Bound(term, max(0, least), holds)
            held -= self.weights[k] * best[term]


@dataclass(frozen=True, slots=True, eq=False)
class United:
    """The round of gangs.

    Attributes
    ----------
    jobs : tuple of int
        Index in the whole round of each gang.
    options : tuple of tuple of int
        Option in the whole round of each option of each gang.
    """

    round: Round
    jobs: tuple[int, ...]
    options: tuple[tuple[int, ...], ...]
    scale: Scale

    def told(self, found: Candidate) -> Candidate:
        """Tell a plan for the gangs as one for the whole round, without its data."""
        return Candidate(
            {
                self.jobs[gang]: (self.options[gang][option], places)
                for gang, (option, places) in found.starts.items()
            },
            found.source,
            {self.jobs[g]: self.jobs[above] for g, above in found.preempted.items()},
            slots={self.jobs[gang]: slots for gang, slots in found.slots.items()},
        )

    def bounds(self, found: Bound, best: Mapping[str, int] | None) -> Iterator[Bound]:
        """Tell a bound for the gangs as bounds for the whole round, at the best plan's values."""
        if found.term == "value":
            for bound in self.scale.bounds(int(np.floor(found.value)), best):
                yield Bound(bound.term, bound.value, bound.holds, found.certified)
            return
        if self.scale.proves < len(self.scale.terms):
            return
        holds: list[tuple[str, int]] = []
        for term, value in found.holds:
            holds += self.scale.read(value) if term == "value" else [(term, value)]
        yield Bound(found.term, found.value, tuple(holds), found.certified)


@dataclass(frozen=True, slots=True)
class _Way:
    """An option in a region, on some GPU models, and what it costs in each of the terms."""

    number: int
    option: Option
    value: int
    costs: tuple[int, ...]


def united(problem: Problem) -> United:
    """Return the gangs of a whole round; jobs that can run nowhere now are left out."""
    return _Uniting(problem).united()


class _Uniting:
    def __init__(self, problem: Problem) -> None:
        self.problem, self.round = problem, problem.round
        self.terms = _counted(problem)

    @cached_property
    def _hosts(self) -> list[frozenset[str]]:
        names, region = self.problem.cluster.hosts, self.problem.wan.host_region
        return [
            frozenset(names[h] for h in np.flatnonzero(region == r).tolist())
            for r in range(len(self.problem.wan.regions))
        ]

    @cached_property
    def _quotas_of(self) -> frozenset[int]:
        """Regions in which tenants have quotas."""
        return frozenset(r for r, _ in self.problem.quota)

    @cached_property
    def _costs_stay(self) -> bool:
        """Whether costs are whole, and no way or running job may have GPUs of unlike prices."""
        if (self.problem.price % WHOLE_GPU).any() and any(
            group.gpu % WHOLE_GPU
            for job in self.round.jobs
            for option in job.options
            for group in option.groups
        ):
            return False
        return not any(self._costs_vary(j, job) for j, job in enumerate(self.round.jobs))

    def _costs_vary(self, j: int, job: Job) -> bool:
        if job.running is None:
            groups = [g for option in job.options for g in option.groups if g.count > 1]
            regions = np.flatnonzero(self.problem.can[j]).tolist()
        else:
            groups = [] if job.running.pinned else [*job.options[job.running.option].groups]
            regions = [int(self.problem.at[j])]
        return any(len(self._prices(g.gpu_models, r)) > 1 for g in groups for r in regions)

    def united(self) -> United:
        """Return the gangs."""
        ways = {j: list(self._ways(j, job)) for j, job in enumerate(self.round.jobs)}
        scale = self._scale(ways, self.terms)
        if any(scale.worth(way.value, way.costs) < 0 for mine in ways.values() for way in mine):
            # Rounds of gangs have no options that are worth less than nothing.
            scale = self._scale(ways, self.terms[:1])
        gangs: dict[int, Job] = {}
        numbers: list[tuple[int, ...]] = []
        for j, mine in ways.items():
            job = self.round.jobs[j]
            if not mine:
                continue
            options = tuple(
                way.option.model_copy(update={"value": scale.worth(way.value, way.costs)})
                for way in mine
            )
            update: dict[str, Any] = {"options": options, "reads": (), "regions": None}
            if job.running:
                update["running"] = job.running.model_copy(update={"option": 0})
            gangs[j] = job.model_copy(update=update)
            numbers.append(tuple(way.number for way in mine))
        terms = ("value", *(t for t in self.round.policy.terms if t in PLACES))
        policy = self.round.policy.model_copy(update={"formulation": "gang", "terms": terms})
        made = {"jobs": tuple(gangs.values()), "policy": policy, "geo": Geo()}
        inner = self.round.model_copy(update=made | self._capped())
        return United(inner, tuple(gangs), tuple(numbers), scale)

    def _capped(self) -> dict[str, Any]:
        """Return tenants whose quotas in regions are of resources, and hosts that have these."""
        quota = self.problem.quota
        if not quota:
            return {}
        tenants = tuple(
            tenant.model_copy(
                update={
                    "quota": tenant.quota
                    | {
                        _resource(r): most
                        for (r, name), most in quota.items()
                        if name == tenant.name
                    }
                }
            )
            for tenant in self.round.tenants
        )
        # As much as the GPUs of a host: only quotas limit it.
        most = WHOLE_GPU * int(self.problem.cluster.gpu_count.max(initial=0))
        plenty = {_resource(r): most for r in self._quotas_of}
        hosts = tuple(
            entry.model_copy(update={"resources": entry.resources | plenty})
            for entry in self.round.cluster.hosts
        )
        return {
            "tenants": tenants,
            "cluster": self.round.cluster.model_copy(update={"hosts": hosts}),
        }

    def _ways(self, j: int, job: Job) -> Iterator[_Way]:
        """Yield the options of a job in each region where it may run now."""
        if job.running is not None:
            r, number = int(self.problem.at[j]), job.running.option
            paid = self._paid(job, job.running, r)
            costs = self._costs(j, r, paid)
            yield _Way(number, self._staying(job, job.running, r), job.value_of(number), costs)
            return
        for r in np.flatnonzero(self.problem.can[j]).tolist():
            for number, option in enumerate(job.options):
                for part, price in self._parts(option, r):
                    yield _Way(number, part, job.value_of(number), self._costs(j, r, price))

    def _staying(self, job: Job, running: Running, r: int) -> Option:
        """Return the option of a running job, which may move within its region."""
        option = job.options[running.option]
        groups = []
        for g, group in enumerate(option.groups):
            hosts = self._named(group, r) or {t.host for t in running.tasks if t.group == g}
            groups.append(self._placed(group, hosts, r))
        return option.model_copy(update={"groups": tuple(groups)})

    def _named(self, group: TaskGroup, r: int) -> Collection[str]:
        """Return the hosts of a region that a group may be on by name."""
        if group.hosts is None:
            return self._hosts[r]
        return self._hosts[r] & {host for name in group.hosts for host in expand(name)}

    def _placed(self, group: TaskGroup, hosts: Collection[str], r: int) -> TaskGroup:
        """Return a group on some hosts of a region, which counts in the quotas there."""
        update: dict[str, Any] = {"hosts": tuple(sorted(hosts))}
        if r in self._quotas_of:
            update["resources"] = group.resources | {_resource(r): group.gpu}
        return group.model_copy(update=update)

    def _paid(self, job: Job, running: Running, r: int) -> int:
        """Return what a running job pays for its GPUs where they are."""
        cluster, groups = self.problem.cluster, job.options[running.option].groups
        milli = 0
        for task in running.tasks:
            model = int(cluster.gpu_model[cluster.host_index[task.host]])
            milli += groups[task.group].gpu * int(self.problem.price[r, model])
        return milli // WHOLE_GPU

    def _costs(self, j: int, r: int, price: int) -> tuple[int, ...]:
        each = {
            "remote_reads": int(self.problem.remote[j, r]),
            "egress_cost": int(self.problem.egress[j, r]),
            "gpu_cost": price,
        }
        return tuple(each[term] for term in self.terms[1:])

    def _parts(self, option: Option, r: int) -> Iterator[tuple[Option, int]]:
        """Yield an option in a region, apart by the prices of GPU models if these count."""
        variants = []
        for group in option.groups:
            hosts = self._named(group, r)
            if not hosts:
                return
            placed = self._placed(group, hosts, r)
            if "gpu_cost" not in self.terms:
                variants.append([(placed, 0)])
                continue
            prices = self._prices(group.gpu_models, r)
            if group.count > 1 and len(prices) > 1:
                # Its tasks may be on unlike GPUs.
                variants.append([(placed, min(prices))])
                continue
            variants.append(
                [
                    (placed.model_copy(update={"gpu_models": models}), price)
                    for price, models in prices.items()
                ]
            )
        for parts in product(*variants):
            groups = tuple(group for group, _ in parts)
            price = sum(group.milli_gpu * price for group, price in parts) // WHOLE_GPU
            yield option.model_copy(update={"groups": groups}), price

    def _prices(self, allowed: Sequence[str] | None, r: int) -> dict[int, tuple[str, ...]]:
        """Return the GPU models that a group may have in a region, by their price."""
        found: dict[int, tuple[str, ...]] = {}
        for m, model in enumerate(self.problem.wan.models):
            if allowed is None or model in allowed:
                price = int(self.problem.price[r, m])
                found[price] = (*found.get(price, ()), model)
        return found

    def _scale(self, ways: Mapping[int, list[_Way]], terms: tuple[str, ...]) -> Scale:
        """Return weights of as many terms as a solver can tell apart."""
        values = [way.value for mine in ways.values() for way in mine]
        unit = gcd(*values) or 1
        count = len(terms) - 1
        most = [
            sum(max(way.costs[k] for way in mine) for mine in ways.values() if mine)
            for k in range(count)
        ]
        in_all = sum(max(way.value for way in mine) // unit for mine in ways.values() if mine)
        if in_all * _product(m + 1 for m in most) > MOST:
            # With costs too few jobs would be alike, and value comes first.
            most = []
        weights = [1]
        for x in reversed(most):
            weights.insert(0, weights[0] * (x + 1))
        before = [
            sum(mine[0].costs[k] for j, mine in ways.items() if self.round.jobs[j].running)
            for k in range(len(most))
        ]
        told = terms[: len(weights)]
        proves = len(told)
        if "gpu_cost" in told and not self._costs_stay:
            proves = told.index("gpu_cost")  # nor what comes after it, which holds it
        return Scale(told, tuple(weights), tuple(most), unit, tuple(before), proves)


def _resource(region: int) -> str:
    """Return the resource by which quotas in a region are those of the whole round."""
    return f"milli-GPU in region {region}"


def _product(factors: Iterator[int]) -> int:
    result = 1
    for factor in factors:
        result *= factor
    return result


def _counted(problem: Problem) -> tuple[str, ...]:
    """Return `value` and the costs that follow it at once, as far as options tell them."""
    counted = ["value"]
    for term in problem.round.policy.terms[1:]:
        if term not in COSTS:
            break
        counted.append(term)
    return tuple(counted)
