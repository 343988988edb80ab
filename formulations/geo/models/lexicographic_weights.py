"""What options are worth in regions, so that one number says value and costs.

An option of a job in a region is worth its value less what it reads over links there, so far apart
that the first decides: with X_k the most that term k can be in all and W_k = W_(k+1) (X_(k+1) + 1),

    worth = W_0 value - W_1 remote_reads - W_2 egress_cost - ...

From worth in all each of the terms can be read, and a bound of worth bounds each of them: the first
of all plans, and the k-th of those that are as good in the ones before,

    term_k  >=  (W_0 value - W_1 term_1 - ... - worth - what the terms after k can be at most) / W_k
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import gcd

from placewright.formulations.geo.models.region_options import Way, Ways
from placewright.formulations.session import Bound

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


def scale_of(ways: Ways, every: Mapping[int, Sequence[Way]], terms: tuple[str, ...]) -> Scale:
    """Return weights of as many of the terms as a solver can tell apart.

    `every` has the ways of each job.
    """
    values = [way.value for mine in every.values() for way in mine]
    unit = gcd(*values) or 1
    count = len(terms) - 1
    most = [
        sum(max(way.costs[k] for way in mine) for mine in every.values() if mine)
        for k in range(count)
    ]
    in_all = sum(max(way.value for way in mine) // unit for mine in every.values() if mine)
    if in_all * _product(m + 1 for m in most) > MOST:
        # With costs too few jobs would be alike, and value comes first.
        most = []
    weights = [1]
    for x in reversed(most):
        weights.insert(0, weights[0] * (x + 1))
    before = [
        sum(mine[0].costs[k] for j, mine in every.items() if ways.round.jobs[j].running)
        for k in range(len(most))
    ]
    told = terms[: len(weights)]
    proves = len(told)
    if "gpu_cost" in told and not ways.costs_stay:
        proves = told.index("gpu_cost")  # nor what comes after it, which holds it
    return Scale(told, tuple(weights), tuple(most), unit, tuple(before), proves)


def _product(factors: Iterator[int]) -> int:
    result = 1
    for factor in factors:
        result *= factor
    return result
