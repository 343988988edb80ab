"""Rules about hosts of arrivals: health, GPU models, reservations, hosts to vacate.

Kept jobs are exempt from all of them, and staying tasks of migrated jobs from all but health.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from placewright.instances.derived.ranges import expand
from placewright.instances.verify.reading import Reading
from placewright.instances.verify.result import Finding, Rule


def healthy(reading: Reading) -> Iterator[Finding]:
    """Refuse all tasks of started and migrated jobs on unhealthy hosts."""
    for placed in reading.placed_anew:
        for task in placed.tasks:
            if not task.host.healthy:
                yield Finding(
                    (*task.path, "host"),
                    f"host {task.host.name!r} is unhealthy; "
                    "expected started and migrated jobs on healthy hosts",
                )


def gpu_model(reading: Reading) -> Iterator[Finding]:
    """Require of each arrival a host of a GPU model that its group allows."""
    for arrival in reading.arrivals():
        group, host = arrival.group, arrival.host
        if group.gpu_models is not None and host.hardware.gpu_model not in group.gpu_models:
            yield Finding(
                (*arrival.path, "host"),
                f"host {host.name!r} has GPU model {host.hardware.gpu_model or 'none'}; "
                f"expected one of {', '.join(group.gpu_models)}",
            )


def allowed_host(reading: Reading) -> Iterator[Finding]:
    """Require of each arrival one of the hosts that its group allows."""
    for arrival in reading.arrivals():
        group, host = arrival.group, arrival.host.name
        if not reading.named.include(group, host):
            yield Finding(
                (*arrival.path, "host"),
                f"host {host!r} is none that its group allows; "
                f"expected {reading.named.text(group)}",
            )


def reserved(reading: Reading) -> Iterator[Finding]:
    """Refuse arrivals on reserved hosts, and on reserved GPUs of others."""
    hosts: set[str] = set()
    gpus: defaultdict[str, set[int]] = defaultdict(set)
    for entry in reading.round.reservations:
        for name in expand(entry.host):
            if entry.gpus is None:
                hosts.add(name)
            else:
                gpus[name].update(entry.gpus)
    for arrival in reading.arrivals():
        host = arrival.host
        if host.name in hosts:
            yield Finding(
                (*arrival.path, "host"),
                f"host {host.name!r} is reserved; expected a host without reservation",
            )
        elif taken := gpus.get(host.name, set()).intersection(arrival.task.gpus):
            yield Finding(
                (*arrival.path, "gpus"),
                f"GPU {min(taken)} of host {host.name!r} is reserved; "
                "expected GPUs without reservation",
            )


def vacated(reading: Reading) -> Iterator[Finding]:
    """Refuse arrivals on hosts that the policy empties."""
    for arrival in reading.arrivals():
        if arrival.host.name in reading.vacated:
            yield Finding(
                (*arrival.path, "host"),
                f"host {arrival.host.name!r} is to be vacated; expected a host that is not",
            )


RULES_OF_ARRIVALS: tuple[Rule[Reading], ...] = (
    Rule("healthy", healthy),
    Rule("gpu_model", gpu_model),
    Rule("allowed_host", allowed_host),
    Rule("reserved", reserved),
    Rule("vacated", vacated),
)
