"""Permuting equal hosts changes nothing but on which of them jobs run."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from replay_traces import LISTS, random_spec, random_trace

from examples import by_day
from placewright.rounds.replay.book import HostLedger, Place
from placewright.rounds.replay.loop import Loop, Outage, random_outages
from placewright.rounds.replay.spec import ReplaySpec, loop_of


class PermutedLedger(HostLedger):
    """First fit and best fit that look at hosts in another order, one by one."""

    def __init__(self, loop: Loop, order: list[int]) -> None:
        super().__init__(loop.ledger.sizes, loop.ledger.placer)
        self._order = order

    def find(self, gpus: int) -> Place | None:
        """Return where a job fits."""
        able = [host for host in self._order if host not in self.closed]
        if self.placer == "best-fit":
            able.sort(key=self.free.__getitem__)
        whole, rest = divmod(gpus, self.largest) if gpus > self.largest else (0, gpus)
        idle = [host for host in self._order if host in able and self.free[host] == self.largest]
        place = [(host, self.largest) for host in idle[:whole]]
        rest_on = [host for host in able if self.free[host] >= rest and host not in idle[:whole]]
        if len(place) < whole or (rest and not rest_on):
            return None
        return (*place, (rest_on[0], rest)) if rest else tuple(place)


def permuted(sizes: tuple[int, ...], rng: np.random.Generator) -> list[int]:
    """Return a host for each one, of the same size."""
    order = np.arange(len(sizes))
    for size in set(sizes):
        equal = np.flatnonzero(np.array(sizes) == size)
        order[equal] = rng.permutation(equal)
    return order.tolist()


Held = list[tuple[int, dict[int, Place]]]


def played(loop: Loop) -> Held:
    """Play; return times and where jobs ran then."""
    found: Held = []
    loop.run(after_event=lambda loop: found.append((loop.now, dict(loop.place))))
    return found


def assert_permuted(seed: int, spec: ReplaySpec) -> None:
    """Play a trace twice, and compare who ran where, and all that is counted per job."""
    rng = np.random.default_rng(seed)
    trace = random_trace(rng, sum(spec.hosts))
    order = permuted(spec.hosts, rng)
    if seed % 2:
        away = random_outages(len(spec.hosts), 100_000_000, mean_up_s=60, mean_down_s=12, seed=seed)
        spec = replace(spec, outages=away, checkpoint_s=3)
    first = loop_of(trace, spec)
    outages = tuple(Outage(order[outage.host], *outage[1:]) for outage in spec.outages)
    second = loop_of(trace, replace(spec, outages=outages))
    second.ledger = PermutedLedger(second, order)
    expected = [
        (now, {job: tuple((order[host], n) for host, n in at) for job, at in places.items()})
        for now, places in played(first)
    ]
    assert played(second) == expected
    for column in ("end", "first_start", "stops", "moves", "run_us", "overhead_us", "lost_us"):
        assert getattr(first, column).tolist() == getattr(second, column).tolist()


@pytest.mark.parametrize("seed", by_day(range(1000), 40))
def test_permuting_equal_hosts_changes_nothing_else(seed: int) -> None:
    rng = np.random.default_rng(20_000 + seed)
    spec = random_spec(rng, LISTS[seed % len(LISTS)])
    placer = ("first-fit", "best-fit")[seed // 2 % 2]
    assert_permuted(seed, replace(spec, placer=placer))
