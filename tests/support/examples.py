"""How many examples a test tries, by the Hypothesis profile of the run."""

from __future__ import annotations

from hypothesis import settings


def examples(*, ci: int, nightly: int) -> int:
    """Return the number of hand-drawn rounds, seeds ... for the profile in force."""
    return nightly if settings.get_current_profile_name() == "nightly" else ci


def tried(number: int) -> int:
    """Return a third of a number of solved rounds, at least four, and nightly ten times as many."""
    return examples(ci=max(4, number // 3), nightly=10 * number)
