"""Periods of groups, recomputed from the stages and offsets of their members.

References
----------
Zhao et al., "Multi-resource interleaving for deep learning training", SIGCOMM'22; the stage that
spans two slots is that of its published artifact.
"""

from __future__ import annotations

from collections.abc import Sequence

from placewright.instances.documents.sharing import Sharing
from placewright.topology.units import MILLION


def period_of(stages: Sequence[Sequence[int]], offsets: Sequence[int], sharing: Sharing) -> int:
    """Return the period of a group in microseconds, contention included.

    Parameters
    ----------
    stages
        Per member, the microseconds on each resource.
    offsets
        Per member, distinct and below `sharing.slots`.
    """
    if sharing.spanning:
        alone = _spanning(stages, offsets)
    else:
        slots = range(sharing.slots)
        alone = sum(
            max(
                times[(slot + offset) % len(slots)]
                for times, offset in zip(stages, offsets, strict=True)
            )
            for slot in slots
        )
    members = len(stages)
    factor = sharing.contention[members - 2] if members > 1 else MILLION
    return -(-alone * factor // MILLION)


def _spanning(stages: Sequence[Sequence[int]], offsets: Sequence[int]) -> int:
    """Return the least sum of four slots in which each job finds its three stages.

    A job's first stage needs two slots in a row, each other stage the slot after. Two of the four
    pairs of neighbours, opposite each other, are the whole period, so it is at least what either
    two pairs need; and one that long can always be divided so that each slot and each pair of
    neighbours has what it needs.
    """
    single, double = [0] * 4, [0] * 4
    for (first, second, third), offset in zip(stages, offsets, strict=True):
        start = -offset % 4
        double[start] = max(double[start], first)
        for slot, time in ((start + 2, second), (start + 3, third)):
            single[slot % 4] = max(single[slot % 4], time)
    pair = [max(double[s], single[s] + single[(s + 1) % 4]) for s in range(4)]
    return max(pair[0] + pair[2], pair[1] + pair[3])
