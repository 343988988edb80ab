"""Metrics of the service, in the text format of Prometheus."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from placewright.live.serve.messages import Snapshot
from placewright.topology.units import WHOLE_GPU

BUCKETS = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)
"""Seconds of a round."""


class Metrics:
    """Counters of this service, and gauges of the last round."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._rounds = Counter(
            "placewright_rounds", "Rounds solved and shown.", registry=self._registry
        )
        self._degraded = Counter(
            "placewright_degraded_rounds",
            "Rounds of which something went wrong on the way.",
            registry=self._registry,
        )
        self._seconds = Histogram(
            "placewright_round_seconds",
            "Wall-clock seconds of a round.",
            buckets=BUCKETS,
            registry=self._registry,
        )
        self._answers = Counter(
            "placewright_answers",
            "Answers by what was asked and status.",
            ("asked", "status"),
            registry=self._registry,
        )
        self._last = _LastRound()
        self._registry.register(self._last)

    def answered(self, asked: str, status: int) -> None:
        """Count an answer."""
        self._answers.labels(asked, str(status)).inc()

    def show(self, snapshot: Snapshot) -> None:
        """Count a round, and show it from now on."""
        self._rounds.inc()
        self._seconds.observe(snapshot.seconds)
        if snapshot.degraded:
            self._degraded.inc()
        self._last.snapshot, self._last.since = snapshot, time.time()

    def text(self) -> bytes:
        """Return all of them as Prometheus reads them."""
        return generate_latest(self._registry)


class _LastRound(Collector):
    """Gauges of the last round, without the labels of earlier ones."""

    def __init__(self) -> None:
        self.snapshot: Snapshot | None = None
        self.since = 0.0

    def collect(self) -> Iterator[Metric]:
        last = self.snapshot
        if last is None:
            return
        gaps = {term: gap for term, gap in last.gaps.items() if gap is not None}
        yield _gauge("term_gap_ratio", "Relative gap to the bound, by term.", "term", gaps)
        waiting = {reason: milli / WHOLE_GPU for reason, milli in last.waiting.items()}
        yield _gauge("waiting_gpus", "GPUs that waiting jobs ask for.", "reason", waiting)
        yield _gauge("free_domains", "Domains all of whose GPUs are free.", "level", last.free)
        yield GaugeMetricFamily(
            "placewright_shown_timestamp_seconds", "Since when this round is shown.", self.since
        )
        yield GaugeMetricFamily(
            "placewright_degraded", "Whether the last round is degraded.", bool(last.degraded)
        )
        if last.stranded is not None:
            yield GaugeMetricFamily(
                "placewright_stranded_gpus",
                "Free GPUs that a task of the mix cannot use, on average.",
                last.stranded / WHOLE_GPU,
            )


def _gauge(
    name: str, text: str, label: str, values: Mapping[str, float] | Mapping[str, int]
) -> GaugeMetricFamily:
    made = GaugeMetricFamily(f"placewright_{name}", text, labels=(label,))
    for key, value in values.items():
        made.add_metric((key,), value)
    return made
