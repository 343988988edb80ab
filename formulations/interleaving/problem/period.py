"""The period of jobs that take turns at resources, and the offsets at which it is shortest.

A job runs its stages in order, stage r on resource r, again and again. Jobs of a group share
everything, so at any time each of them is at another resource: k resources make k slots, the
members have distinct offsets o in 0..k-1, and in slot s a job is at stage (s + o) mod k. A slot
lasts as long as its longest stage, and the period is

    T = min over offsets of  sum over slots s of  max over members i of  stage[i, (s + o_i) mod k]

after the interleaving of Zhao et al., *Multi-Resource Interleaving for Deep Learning Training*
(Muri, SIGCOMM 2022); there only orders of the jobs are tried, without empty slots between them.

Spanning, after Muri's released code: three resources, four slots, and the first stage may take
two of them. With m[s] the longest second or third stage in slot s, and P[s] the first stage of
the job that begins in slot s (0 if none does),

    T = min over offsets of  min { d[0] + .. + d[3] :  d[s] >= m[s],  d[s] + d[s+1] >= P[s] }

where a job of offset o begins in slot -o, and slots and stages are counted in a circle. Rows and
columns of the inner program are vertices and edges of a circle of even length, so the optimum of
its dual is integral: each slot pays for itself or in one pair with a neighbour.

    max( max(P[0], m[0] + m[1]) + max(P[2], m[2] + m[3]),
         max(P[1], m[1] + m[2]) + max(P[3], m[3] + m[0]) )

Turning all offsets alike changes nothing, so the first member has offset 0. All else is tried.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations

import numpy as np
from numpy.typing import NDArray

from placewright.formulations.interleaving import parameters
from placewright.topology.units import MILLION

__all__ = ["SPANNING_SLOTS", "best_offsets", "contended", "slots_of"]

Int64 = NDArray[np.int64]

SPANNING_STAGES = 3
SPANNING_SLOTS = 4
MAX_MEMBERS = 4


def slots_of(resources: int, *, spanning: bool) -> int:
    """Return into how many slots a period is divided.

    Raises
    ------
    ValueError
        Spanning with a number of resources other than three.
    """
    if not spanning:
        return resources
    if resources != SPANNING_STAGES:
        raise ValueError(f"{resources} stages: expected {SPANNING_STAGES} where one may span")
    return SPANNING_SLOTS


def best_offsets(stages: Int64, *, spanning: bool) -> tuple[Int64, Int64]:
    """Return the shortest period of each group, and offsets that reach it.

    Of offsets that are equally good, the lexicographically first ones are returned. Every choice
    of offsets is tried, 6 for four jobs in four slots and 2,730 in sixteen, for many groups at
    once in memory that does not grow with their number.

    Parameters
    ----------
    stages : int64 (groups, members, resources)
        Microseconds of each stage, 0 to 10^12; 1 to 4 members, and no more than there are slots.
    spanning
        Whether the first of three stages may span two of four slots.

    Returns
    -------
    periods : int64 (groups,)
        Microseconds, without contention.
    offsets : int64 (groups, members)
        The first column is 0.

    Raises
    ------
    ValueError
        The array has another shape.
    """
    if stages.ndim != 3:
        raise ValueError(f"stages of {stages.ndim} dimensions: expected groups, members, resources")
    groups, members, resources = stages.shape
    slots = slots_of(resources, spanning=spanning)
    if not 1 <= members <= min(slots, MAX_MEMBERS):
        raise ValueError(f"{members} members: expected 1 to {min(slots, MAX_MEMBERS)}")
    choices = np.array([(0, *rest) for rest in permutations(range(1, slots), members - 1)])
    search = _spanning if spanning else _plain
    best = np.empty(groups, dtype=np.int64)
    size = max(parameters.PARAMETERS.period_chunk_values // (MAX_MEMBERS * slots), 1)
    for start in range(0, groups, size):
        # Groups last: every operation below runs along them. Times the number of choices, so that
        # a period and the choice that reaches it are one number, and a minimum finds both.
        chunk = stages[start : start + size].transpose(1, 2, 0) * np.int64(len(choices))
        best[start : start + size] = search(chunk, choices.tolist())
    periods, chosen = np.divmod(best, len(choices))
    return periods, choices[chosen]


def contended(periods: Int64, factors: Int64 | int) -> Int64:
    """Return periods times contention factors, rounded up.

    Exact for periods and factors of up to 10^12 each.

    Parameters
    ----------
    periods : int64
        Microseconds.
    factors : int64, as `periods`, or one for all
        Millionths.
    """
    # In two parts, since the product itself may not fit 64 bits.
    whole, rest = np.divmod(periods, MILLION)
    return np.asarray(whole * factors - (-rest * factors) // MILLION, dtype=np.int64)


def _plain(stages: Int64, choices: Sequence[Sequence[int]]) -> Int64:
    """Return the least of period + index over the choices of offsets, for each group.

    Parameters
    ----------
    stages : int64 (members, resources, groups)
        Times the number of choices.
    """
    members, slots, groups = stages.shape
    # Each job's stages twice in a row: those of any offset are then a slice.
    twice = np.concatenate((stages, stages), axis=1)
    # busy[i]: how long each slot lasts for the first i + 1 members.
    busy = np.empty((members, slots, groups), dtype=np.int64)
    busy[0] = stages[0]
    best = np.full(groups, np.iinfo(np.int64).max)
    period = np.empty(groups, dtype=np.int64)
    before: Sequence[int] = choices[0][:1]
    for index, offsets in enumerate(choices):
        for member in range(1, members):
            # Choices come in lexicographic order and share the slots of a common beginning.
            if tuple(before[: member + 1]) != tuple(offsets[: member + 1]):
                moved = twice[member, offsets[member] : offsets[member] + slots]
                np.maximum(busy[member - 1], moved, out=busy[member])
        before = offsets
        np.add.reduce(busy[-1], axis=0, out=period)
        period += index
        np.minimum(best, period, out=best)
    return best


def _spanning(stages: Int64, choices: Sequence[Sequence[int]]) -> Int64:
    """Return the least of period + index over the choices, as `_plain` does."""
    members, _, groups = stages.shape
    jobs = np.zeros((SPANNING_SLOTS, SPANNING_STAGES, groups), dtype=np.int64)
    jobs[:members] = stages
    first, second, third = jobs.transpose(1, 0, 2)
    # Slot s + 2 has the second stage of whoever begins in s, and the third of who begins in s - 1.
    longest = np.maximum(third[:, None], second[None])
    best = np.full(groups, np.iinfo(np.int64).max)
    for index, offsets in enumerate(choices):
        idle = iter(range(members, SPANNING_SLOTS))
        begins = {-offset % SPANNING_SLOTS: job for job, offset in enumerate(offsets)}
        at = [begins[s] if s in begins else next(idle) for s in range(SPANNING_SLOTS)]
        m = [longest[at[s - 3], at[s - 2]] for s in range(SPANNING_SLOTS)]
        pair = [np.maximum(first[at[s]], m[s] + m[s - 3]) for s in range(SPANNING_SLOTS)]
        period = np.maximum(pair[0] + pair[2], pair[1] + pair[3])
        period += index
        np.minimum(best, period, out=best)
    return best
