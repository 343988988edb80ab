"""EASY's reservation beside a ledger on which running jobs end one after the other."""

from __future__ import annotations

import numpy as np
import pytest

from examples import by_day
from placewright.instances.traces.trace import NEVER
from placewright.rounds.replay.book import HostLedger, Place, Placer
from placewright.rounds.replay.list_decider import ExpectedEnds, Reservation

HOSTS = ((4,), (8, 8, 8), (4, 8, 2, 8, 8), (16,), (2,) * 6)
PLACERS: tuple[Placer, ...] = ("first-fit", "best-fit", "counting")


def without(
    sizes: tuple[int, ...],
    placer: Placer,
    closed: set[int],
    running: dict[int, tuple[int, Place]],
    time: int,
) -> HostLedger:
    """Return a ledger that holds who is expected to run later than that."""
    ledger = HostLedger(sizes, placer)
    for host in closed:
        ledger.close(host)
    for end, place in running.values():
        if end > time:
            ledger.take(place)
    return ledger


@pytest.mark.parametrize("seed", by_day(range(400), 40))
def test_reservation_beside_a_ledger(seed: int) -> None:
    rng = np.random.default_rng(seed)
    sizes = HOSTS[seed % len(HOSTS)]
    placer = PLACERS[int(rng.integers(3))]
    ledger = HostLedger(sizes, placer)
    ends, running, closed = ExpectedEnds(ledger), dict[int, tuple[int, Place]](), set[int]()
    for job in range(60):
        now, gpus = job, int(rng.integers(1, sum(sizes) + 1))
        place = ledger.find(min(gpus, int(rng.integers(1, 9))))
        if running and (place is None or rng.integers(4) == 0):
            left = int(rng.choice(list(running)))
            ledger.release(running.pop(left)[1])
            ends.remove(left)
        elif place is not None:
            running[job] = now + int(rng.integers(1, 20)), place
            ledger.take(place)
            ends.add(job, place, running[job][0])
        host = int(rng.integers(len(ledger.sizes)))
        if placer != "counting" and rng.integers(8) == 0:
            if host in closed:
                ledger.open(host)
                closed.remove(host)
            elif ledger.free[host] == sizes[host]:
                ledger.close(host)
                closed.add(host)
        if ledger.find(gpus) is not None:
            continue
        reservation = Reservation(ends, ledger, gpus, now)
        times = sorted({max(now, end) for end, _ in running.values()})
        fits = [
            time
            for time in times
            if without(sizes, placer, closed, running, time).find(gpus) is not None
        ]
        assert reservation.begin == (fits[0] if fits else NEVER)
        beside = ledger.find(int(rng.integers(1, gpus)) if gpus > 1 else 1)
        if beside is not None and fits:
            then = without(sizes, placer, closed, running, fits[0])
            then.take(beside)
            assert reservation.admits(beside) == (then.find(gpus) is not None)
