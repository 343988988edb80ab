"""Bounds against plans: which plan beats what was proven, and which plan is the best."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from placewright.formulations.plan_messages import Bound
from placewright.instances.documents.plan import TermResult
from placewright.instances.policies import sense_of

CLAIM_SLACK = 1e-6
"""Relative: a solver's claim may be off by its own tolerance. Certified bounds may not."""


class Beaten(NamedTuple):
    """A bound and the number of a plan that beats it."""

    bound: Bound
    plan: int
    value: int

    def __str__(self) -> str:
        proof = "certified" if self.bound.certified else "claimed"
        holds = ", ".join(f"{term} {value}" for term, value in self.bound.holds)
        given = f" with {holds}" if holds else ""
        bound = f"{proof} bound {self.bound.value} of {self.bound.term}{given}"
        return f"{bound} is beaten by a plan's {self.value}"


class Values:
    """The values of many plans, as signed columns: more is better in each."""

    def __init__(self, plans: Sequence[Mapping[str, int]]) -> None:
        self.terms = tuple(plans[0])
        sign = np.array([1 if sense_of(term) == "max" else -1 for term in self.terms], np.int64)
        rows = [[plan[term] for term in self.terms] for plan in plans]
        self._signed: NDArray[np.int64] = np.array(rows, np.int64) * sign

    def best(self) -> int:
        """Return the number of the best plan, by the terms in their order."""
        return int(np.lexsort(self._signed.T[::-1])[-1])

    def column(self, term: str) -> NDArray[np.int64]:
        """Return what all plans have of a term, more being better."""
        return self._signed[:, self.terms.index(term)]

    def beating(self, bound: Bound) -> Beaten | None:
        """Return a plan of those the bound speaks of that beats it, the best such one.

        Bounds of terms that the policy has not are no claims.
        """
        if bound.term not in self.terms:
            return None
        sign = 1 if sense_of(bound.term) == "max" else -1
        spoken = np.ones(len(self._signed), bool)
        for term, value in bound.holds:
            spoken &= self.column(term) >= value * (1 if sense_of(term) == "max" else -1)
        if not spoken.any():
            return None
        column = self.column(bound.term)
        chosen = int(np.where(spoken, column, np.iinfo(np.int64).min).argmax())
        limit = bound.value * sign
        if not bound.certified:
            limit += CLAIM_SLACK * max(1.0, abs(limit))
        value = int(column[chosen])
        return Beaten(bound, chosen, value * sign) if value > limit else None


def certificate_bounds(
    results: Iterable[TermResult], values: Mapping[str, int], *, claims: bool
) -> Iterator[Bound]:
    """Yield what a certificate says of plans at least as good as its own, term by term.

    Parameters
    ----------
    results
        Of the terms.
    values
        Of the plan with this certificate, in the order of the terms.
    claims
        Whether what solvers claim is asked, too.
    """
    order = tuple(values)
    for result in results:
        holds = tuple((name, values[name]) for name in order[: order.index(result.name)])
        if result.certified is not None:
            yield Bound(result.name, result.certified, holds, certified=True)
        if claims and result.claimed is not None:
            yield Bound(result.name, result.claimed, holds)
