"""Lease arithmetic: the work that a lease does, the leases that work needs, and when it is done.

Work is in thousandths of a second at speed 1000, times are in seconds on the round's clock.
"""

from __future__ import annotations

from collections.abc import Mapping

from placewright.instances.documents.deadline import UNIT, Pace
from placewright.instances.documents.option import Option
from placewright.topology.units import WHOLE_GPU


def relative_speed(pace: Pace, hosts: int) -> int:
    """Return the speed of an option on `hosts` hosts, in thousandths of that on one host.

    Between two entries of `spanning` the one of more hosts counts, beyond the last one the last.
    """
    if hosts <= 1 or not pace.spanning:
        return UNIT
    return next((part for most, part in pace.spanning if most >= hosts), pace.spanning[-1][1])


def work_per_lease(pace: Pace, length_s: int, hosts: int) -> int:
    """Return the work that one lease of `length_s` seconds does on `hosts` hosts."""
    working = max(0, length_s - pace.overhead_s)
    return pace.speed * relative_speed(pace, hosts) * working // UNIT


def leases_needed(work: int, pace: Pace, length_s: int, hosts: int) -> int | None:
    """Return the number of leases that `work` needs; None if a lease does no work."""
    each = work_per_lease(pace, length_s, hosts)
    return -(-work // each) if each else None


def completion_time(start: int, work: int, pace: Pace, hosts: int) -> int:
    """Return the completion time of a job whose last lease begins at `start` and does `work`.

    `work` must be at most the work of one lease.
    """
    return start + pace.overhead_s - (-UNIT * work // (pace.speed * relative_speed(pace, hosts)))


def min_hosts(option: Option, largest: Mapping[str, int]) -> int:
    """Return the fewest hosts that hold the whole GPUs of an option, at least 1.

    `largest` has the most GPUs of a host of each GPU model; models that no group of the option
    allows do not count.
    """
    whole = sum(group.milli_gpu for group in option.groups if group.gpu >= WHOLE_GPU) // WHOLE_GPU
    most = max(
        (
            gpus
            for model, gpus in largest.items()
            if any(group.gpu_models is None or model in group.gpu_models for group in option.groups)
        ),
        default=0,
    )
    return max(1, -(-whole // most)) if most else 1
