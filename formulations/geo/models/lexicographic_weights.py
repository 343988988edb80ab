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

from placewright.formulations.geo.models.region_options import RegionOption, RegionOptions
from placewright.formulations.session import Bound

MAX_SCORE = 10**10
"""Of worth in all: a solver still tells single units apart."""


@dataclass(frozen=True, slots=True)
class LexicographicWeights:
    """What worth is made of.

    `terms` are `value` and the costs that count, `weights` the W, and `most` the X; `unit` is what
    divides all values. `before` is what running jobs cost in each before the round. `proves` are
    the terms that bounds speak of: not what GPUs cost if that is not an option's own.
    """

    terms: tuple[str, ...]
    weights: tuple[int, ...]
    max_total: tuple[int, ...]
    unit: int
    initial_costs: tuple[int, ...]
    num_bounded: int

    def score(self, value: int, costs: Sequence[int]) -> int:
        """Return the worth of a value with these costs."""
        lost = sum(w * c for w, c in zip(self.weights[1:], costs, strict=False))
        return self.weights[0] * (value // self.unit) - lost

    @property
    def _initial_cost(self) -> int:
        return sum(w * c for w, c in zip(self.weights[1:], self.initial_costs, strict=True))

    def terms_of(self, score: int) -> tuple[tuple[str, int], ...]:
        """Return the terms of the plans whose worth in all this is."""
        rest = score - self._initial_cost
        value = -(-rest // self.weights[0])
        found, rest = [value * self.unit], value * self.weights[0] - rest
        for weight in self.weights[1:]:
            found.append(rest // weight)
            rest %= weight
        return tuple(zip(self.terms, found, strict=True))

    def bounds(self, score: int, best: Mapping[str, int] | None) -> Iterator[Bound]:
        """Yield what a bound of worth proves of each term, at the values of the best plan."""
        rest = score - self._initial_cost
        slack = [0]
        for weight, max_total in zip(self.weights[:0:-1], self.max_total[::-1], strict=True):
            slack.insert(0, slack[0] + weight * max_total)
        yield Bound("value", (rest + slack[0]) // self.weights[0] * self.unit)
        if best is None:
            return
        held = self.weights[0] * (best["value"] // self.unit)
        for k, term in enumerate(self.terms[1 : self.num_bounded], 1):
            least = -(-(held - rest - slack[k]) // self.weights[k])
            holds = tuple((t, best[t]) for t in self.terms[:k])
            yield Bound(term, max(0, least), holds)
            held -= self.weights[k] * best[term]


def choose_weights(
    region_options: RegionOptions,
    options_of_job: Mapping[int, Sequence[RegionOption]],
    terms: tuple[str, ...],
) -> LexicographicWeights:
    """Return weights of as many of the terms as a solver can tell apart.

    `every` has the ways of each job.
    """
    values = [option.value for mine in options_of_job.values() for option in mine]
    unit = gcd(*values) or 1
    count = len(terms) - 1
    max_total = [
        sum(max(option.costs[k] for option in mine) for mine in options_of_job.values() if mine)
        for k in range(count)
    ]
    max_value = sum(
        max(option.value for option in mine) // unit for mine in options_of_job.values() if mine
    )
    if max_value * _product(m + 1 for m in max_total) > MAX_SCORE:
        # With costs too few jobs would be alike, and value comes first.
        max_total = []
    weights = [1]
    for x in reversed(max_total):
        weights.insert(0, weights[0] * (x + 1))
    initial_costs = [
        sum(
            mine[0].costs[k]
            for j, mine in options_of_job.items()
            if region_options.round.jobs[j].running
        )
        for k in range(len(max_total))
    ]
    counted = terms[: len(weights)]
    num_bounded = len(counted)
    if "gpu_cost" in counted and not region_options.costs_are_exact:
        num_bounded = counted.index("gpu_cost")  # nor what comes after it, which holds it
    return LexicographicWeights(
        counted, tuple(weights), tuple(max_total), unit, tuple(initial_costs), num_bounded
    )


def _product(factors: Iterator[int]) -> int:
    result = 1
    for factor in factors:
        result *= factor
    return result
