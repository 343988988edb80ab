"""Lexicographic weights: one score for value and costs, in which earlier terms decide.

With X_k the largest possible total of term k and W_k = W_(k+1) (X_(k+1) + 1), the score of an
option in a region is

    score = W_0 value - W_1 remote_reads - W_2 egress_cost - ...

The terms of a plan can be read off its total score. An upper bound of the score bounds each term:
the first over all plans, and the k-th over plans that are as good in the terms before it,

    term_k  >=  (W_0 value - W_1 term_1 - ... - score - the most that later terms can add) / W_k
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import gcd

from placewright.formulations.geo import parameters
from placewright.formulations.geo.models.region_options import RegionOption, RegionOptions
from placewright.formulations.plan_messages import Bound


@dataclass(frozen=True, slots=True)
class LexicographicWeights:
    """Weights of the terms.

    `terms` are `value` and the costs that are scored, `weights` the W, `max_total` the X of the
    costs; `unit` divides all values. `initial_costs` are the costs of running jobs before the
    round. Bounds are derived for the first `num_bounded` terms: not for `gpu_cost` if it depends on
    more than the option.
    """

    terms: tuple[str, ...]
    weights: tuple[int, ...]
    max_total: tuple[int, ...]
    unit: int
    initial_costs: tuple[int, ...]
    num_bounded: int

    def score(self, value: int, costs: Sequence[int]) -> int:
        """Return the score of a value with these costs."""
        lost = sum(w * c for w, c in zip(self.weights[1:], costs, strict=False))
        return self.weights[0] * (value // self.unit) - lost

    @property
    def _initial_cost(self) -> int:
        return sum(w * c for w, c in zip(self.weights[1:], self.initial_costs, strict=True))

    def terms_of(self, score: int) -> tuple[tuple[str, int], ...]:
        """Return the terms of plans with this total score, as (term, value) pairs."""
        rest = score - self._initial_cost
        value = -(-rest // self.weights[0])
        found, rest = [value * self.unit], value * self.weights[0] - rest
        for weight in self.weights[1:]:
            found.append(rest // weight)
            rest %= weight
        return tuple(zip(self.terms, found, strict=True))

    def bounds(self, score: int, best: Mapping[str, int] | None) -> Iterator[Bound]:
        """Yield the bounds of terms implied by one of the score, at the best plan's terms."""
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
    """Return weights of as many terms as a solver can distinguish numerically.

    `options_of_job` has the region options of each job, `terms` are `value` and the costs to score.
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
    if max_value * _product(m + 1 for m in max_total) > parameters.PARAMETERS.max_score:
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
