"""The verifier's own lease arithmetic: rates, the work of a lease, completion times, least hosts.

Formulations have theirs in `instances.derived.lease_arithmetic`; a test compares the two. Work is
in thousandths of a second at speed 1000, and times are in seconds.
"""

from __future__ import annotations

from collections.abc import Mapping

from placewright.instances.documents.deadline import UNIT, Pace
from placewright.instances.documents.option import Option
from placewright.topology.units import WHOLE_GPU


def rate(pace: Pace, hosts: int) -> int:
    """Return the work per second on `hosts` hosts, in millionths of a second at speed 1000.

    The entry of `spanning` with the fewest hosts that are enough counts; beyond all, the last one.
    """
    remaining = UNIT
    for entry, part in pace.spanning if hosts > 1 else ():
        remaining = part
        if entry >= hosts:
            break
    return pace.speed * remaining


def lease_work(pace: Pace, length_s: int, hosts: int) -> int:
    """Return the work that a lease does after its overhead, rounded down."""
    if length_s <= pace.overhead_s:
        return 0
    return rate(pace, hosts) * (length_s - pace.overhead_s) // UNIT


def completion(start: int, work: int, pace: Pace, hosts: int) -> int:
    """Return the first second at which `work` is done in a lease that begins at `start`."""
    seconds, rest = divmod(work * UNIT, rate(pace, hosts))
    return start + pace.overhead_s + seconds + (rest > 0)


def fewest_hosts(option: Option, largest: Mapping[str, int]) -> int:
    """Return how many of the largest hosts the whole GPUs of an option fill, at least 1.

    `largest` has the most GPUs of a host by GPU model; a host may be of any model that some task
    group allows.
    """
    gpus = 0
    sizes = set()
    for group in option.groups:
        if group.gpu >= WHOLE_GPU:
            gpus += group.count * (group.gpu // WHOLE_GPU)
        models = largest if group.gpu_models is None else group.gpu_models
        sizes |= {largest.get(model, 0) for model in models}
    size = max(sizes, default=0)
    return max(1, (gpus + size - 1) // size) if size else 1
