"""The loop of replays, for pods that come in rounds and stay.

GPUs of the loop are thousandths here. CPU, memory and single GPUs are in a ledger beside it.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from benchmarks.packing_pods import Arrivals, Pods
from placewright.instances.traces.trace import Trace
from placewright.rounds.benchmark.packing_rules import Ledger, Place, Rule
from placewright.rounds.replay.book import HostLedger
from placewright.rounds.replay.loop import Decider, Loop
from placewright.topology.units import WHOLE_GPU

__all__ = ["ByRule", "Placing", "play"]

LONG_US = 10**12
"""Longer than any pods arrive."""


class Placing(Decider):
    """Places pods when they arrive; one without room is dropped.

    Attributes
    ----------
    ledger
        What is free on the hosts.
    """

    def __init__(self, arriving: Arrivals) -> None:
        super().__init__()
        self.ledger = Ledger(arriving.pods)
        self._kinds: list[int] = arriving.kinds.tolist()
        self._came: list[int] = []

    @abstractmethod
    def places(self, pods: Sequence[int], kinds: Sequence[int]) -> Iterator[Place | None]:
        """Yield where each pod goes, None if it has no room; each is taken before the next."""

    def arrive(self, loop: Loop, job: int) -> None:  # noqa: ARG002
        """Note a pod."""
        self._came.append(job)

    def decide(self, loop: Loop) -> None:
        """Place the pods that have come since the last decision."""
        came, self._came = self._came, []
        kinds = [self._kinds[pod] for pod in came]
        for pod, kind, place in zip(came, kinds, self.places(came, kinds), strict=True):
            if place is None:
                loop.withdraw(pod)
            else:
                self.ledger.take(kind, place)
                loop.start(pod, ((place[0], loop.gpus[pod]),))

    def state(self) -> Any:
        """Return nothing: no run goes on after a kill."""

    def restore(self, state: Any) -> None:
        """Take nothing over."""


class ByRule(Placing):
    """Places pod by pod, as a rule says."""

    def __init__(self, arriving: Arrivals, rule: Rule) -> None:
        super().__init__(arriving)
        self._rule = rule

    def places(self, pods: Sequence[int], kinds: Sequence[int]) -> Iterator[Place | None]:  # noqa: ARG002
        """Yield where each pod goes."""
        for kind in kinds:
            yield self._rule(self.ledger, kind)


def play(arriving: Arrivals, decider: Placing, batch: int = 1) -> Ledger:
    """Let so many pods arrive at a time; return what is free in the end."""
    pods: Pods = arriving.pods
    count = len(arriving.kinds)
    trace = Trace.of(np.arange(count) // batch, pods.milli[arriving.kinds], np.full(count, LONG_US))
    loop = Loop(trace, HostLedger((WHOLE_GPU * pods.gpus).tolist()), decider)
    loop.run(until_us=count)
    return decider.ledger
