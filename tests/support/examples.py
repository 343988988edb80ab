"""How much a test tries, by the profile of the run: by day, nightly, or for long.

The README's command runs the profile `day`. There the numbers of rounds, seeds and examples are
small, and what is marked `nightly` is left out: what is dear and has a smaller test beside it.
`pytest --hypothesis-profile nightly` runs all; `long` draws new examples, and many more.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from hypothesis import settings

_Case = TypeVar("_Case")
Number = TypeVar("Number", int, float)


def by_night() -> bool:
    """Whether the run is nightly, or longer."""
    return settings.get_current_profile_name() in {"nightly", "long"}


def examples(*, day: Number, nightly: Number, long: Number | None = None) -> Number:
    """Return the number of drawn rounds, seeds ... for the profile in force."""
    if long is not None and settings.get_current_profile_name() == "long":
        return long
    return nightly if by_night() else day


def tried(number: int) -> int:
    """Return a twentieth of a number of solved rounds, nightly a third, for long tenfold."""
    return examples(day=max(4, number // 20), nightly=max(4, number // 3), long=10 * number)


def by_day(cases: Iterable[_Case], number: int = 1) -> list[_Case]:
    """Return the cases of a parametrisation, by day the first `number` of them."""
    return list(cases)[: None if by_night() else number]
