"""How fast a program is made whole, by how long its relaxation takes."""

from __future__ import annotations

from dataclasses import dataclass

BETTER = 2e-3
"""Points must be better than others like them by so much, relative to them."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How a program is made whole.

    Attributes
    ----------
    first : int
        Datasets that are made whole first.
    growth : float
        How many times as many each later step.
    tries : int
        How many of `FREE` are tried first where nothing is overloaded, one where something is, as
        the others then take long; more only where no point is proven.
    share : float
        Of the time left, for each step after the first.
    gap : float
        Of each step.
    loss : float
        What a step may copy, in times of the one before.
    stays, open : float
        What may still be chosen after all steps: of all GiB, the share of the largest datasets,
        which stay, and what others may cost beyond their worth.
    """

    first: int
    growth: float
    tries: int
    share: float
    gap: float
    loss: float
    stays: float
    open: float


QUICK = Pace(33, 2.0, tries=2, share=0.5, gap=BETTER, loss=1.02, stays=0.9, open=0.1)
SLOW = Pace(25, 1.5, tries=1, share=0.4, gap=0.012, loss=1.1, stays=1.0, open=0.03)
"""With up to `MOST_COPIES`, and with more, where a relaxation takes long."""
