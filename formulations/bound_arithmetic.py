"""Bounds of terms, which are whole numbers: tolerances, rounding, and which of two is tighter."""

from __future__ import annotations

from math import ceil, floor, inf, nextafter

HOLD_SLACK = 0.5
"""Terms are integers: held within a half, nothing changes and no solver tolerance matters."""

SHARPNESS = 1e-6
"""Relative slack of a solver's bound: a value this near to it is as good as proven."""

MOST_SLACK = 0.5
"""Of a claimed bound whose tolerance is larger than that: below it lies no other whole number."""


def near(bound: float, value: float, gap: float) -> bool:
    """Whether a value is proven within a relative gap by a bound."""
    return abs(bound - value) <= gap * max(abs(bound), abs(value))


def proven_whole(bound: float, sense: str = "min") -> int:
    """Return the tightest whole number that a solver proves with a bound of a term.

    Solvers stop within tolerances: of a minimum 7.0000004 does not prove 8, and of a maximum
    6.9999996 not 6.
    """
    slack = min(SHARPNESS * max(1.0, abs(bound)), MOST_SLACK)
    return floor(bound + slack) if sense == "max" else ceil(bound - slack)


def outward(bound: float, sense: str) -> float:
    """Return a bound, maybe an int, as a float that is no tighter: beyond 2^53 floats are few."""
    near = float(bound)
    if near == bound or (near > bound) == (sense == "max"):
        return near
    return nextafter(near, inf if sense == "max" else -inf)


def tighter(first: float | None, second: float | None, sense: str) -> float | None:
    """Return the tighter of two bounds of a term with this sense; None is no bound."""
    if first is None or second is None:
        return second if first is None else first
    return min(first, second) if sense == "max" else max(first, second)
