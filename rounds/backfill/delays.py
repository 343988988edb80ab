"""Which reservation a job would delay, of several that begin before it has ended."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from placewright.instances.documents.plan import Reason
from placewright.rounds.backfill.profile import Reservation
from placewright.rounds.decisions import Why

MOST_JOBS = 500
"""Of a round in which the reservation that a job would delay is looked for among several; in larger
ones it is the first that begins before the job has ended."""

MAY_START = (Reason.NOT_CHOSEN, Reason.DISPLACED_BY_PRIORITY)


class BesideSome:
    """Which jobs wait beside some of the reservations, under one candidate.

    Parameters
    ----------
    reasons
        Why jobs wait beside some reservations alone.
    """

    def __init__(self, reasons: Callable[[Sequence[Reservation]], dict[int, Why]]) -> None:
        self._reasons = reasons
        self._known: dict[tuple[int, ...], dict[int, Why]] = {}

    def fits(self, job: int, reservations: Sequence[Reservation], whole: Why) -> bool:
        """Whether some reservations leave a job its place, which `whole` says that it has."""
        key = tuple(r.job for r in reservations)
        if key not in self._known:
            self._known[key] = self._reasons(reservations)
        return not is_kept_off(whole, self._known[key][job])

    def first_delayed(
        self, job: int, reservations: Sequence[Reservation], whole: Why
    ) -> Reservation:
        """Return the first of some reservations beside which, with those before it, none is left.

        All of them together leave no place.
        """
        least, most = 1, len(reservations)
        while least < most:
            middle = (least + most) // 2
            if self.fits(job, reservations[:middle], whole):
                least = middle + 1
            else:
                most = middle
        return reservations[least - 1]


def is_kept_off(whole: Why, restricted: Why) -> bool:
    """Whether a job that might start in the whole round may not in a restricted one."""
    may_start = restricted.reason in MAY_START
    return not may_start or (_is_startable(whole) and not _is_startable(restricted))


def _is_startable(why: Why) -> bool:
    return why.detail is not None and why.detail.startable
