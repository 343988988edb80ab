"""Check-N-Run and DataStates: how often a job writes its state, and with how many bits.

Stores are shared: a job that checkpoints twice as often loses half the work in a failure, and takes
twice the bandwidth from all others. Each job is a choice of interval and bits, all jobs together a
multiple-choice knapsack over the bandwidth of the store.

Source: Eisenman et al., "Check-N-Run: a Checkpointing System for Training Deep Learning
Recommendation Models", NSDI'22: a snapshot in host memory is quantised to 2, 3, 4 or 8 bits and
written while training goes on; fewer bits cost accuracy. Maurya et al., "DataStates-LLM: Lazy
Asynchronous Checkpointing for Large Language Models", HPDC'24: snapshots are written before the
next one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from math import ceil, sqrt

from placewright.instances.documents.base import MAX_AMOUNT
from placewright.instances.documents.option import Option, TaskGroup
from placewright.instances.errors import InvalidInputError
from placewright.instances.speed_models.amounts import SCALE, WORKER, positive, whole

STORE = "store_mbps"
"""The pool of the whole cluster, `per: job`, from which options ask for bandwidth."""

FULL_BITS = 32
"""Of each number of a state that is written as it is."""

BITS = (2, 3, 4, 8, FULL_BITS)

MAX_OPTIONS = 64
"""As many options a job may have."""


def snapshot_mib(state_gbit: float, tasks: int) -> int:
    """Return MiB of host memory that each of a job's tasks needs for its part of a snapshot."""
    return ceil(_gbit(state_gbit) * 10**9 / (8 << 20) / tasks)


def fluid_intervals(jobs: Sequence[tuple[float, float]], store_gbps: float) -> list[float]:
    """Return the intervals, in seconds, at which jobs lose least work if any interval will do.

    Work lost is sum_j a_j tau_j / 2 under sum_j S_j / tau_j <= B. By Cauchy and Schwarz it is at
    least (sum_j sqrt(a_j S_j))^2 / (2 B), which tau_j = sqrt(S_j / a_j) sum_i sqrt(a_i S_i) / B
    attains.

    `jobs`: the state S_j of each, in Gbit, and its work a_j per second. `store_gbps`: B, in Gbit/s.
    Raises InvalidInputError if B is not above 0.
    """
    positive(store_gbps, ("store_gbps",))
    both = sum(sqrt(state * work) for state, work in jobs) / store_gbps
    return [sqrt(state / work) * both for state, work in jobs]


def options(
    state_gbit: float,
    work: float,
    intervals_s: Sequence[int],
    bits: Mapping[int, float] | None = None,
    *,
    worst_s: float,
    worker: TaskGroup = WORKER,
    store: str = STORE,
    window_s: int = 1,
    scale: int = SCALE,
) -> tuple[Option, ...]:
    """Return an option per interval and number of bits that no other beats.

    A failure finds a job half an interval after its checkpoint, so that with interval tau and b
    bits it loses work * tau / 2 + cost(b); a job that waits counts as one that loses
    work * worst_s / 2. The value is `scale` times the difference. The store is asked for
    state * b / 32 / tau, and the memory of hosts for a snapshot of the whole state. An option is
    left out if one that asks no more of the store loses no more.

    - `state_gbit`: what one checkpoint writes with 32 bits.
    - `work`: work that is lost per second since the checkpoint, in any unit that the jobs share,
      such as GPUs times the failures to be expected.
    - `intervals_s`: from one checkpoint to the next.
    - `bits`: what each number of bits of 2, 3, 4, 8 and 32 costs in accuracy, in units of work
      (None: 32 bits, at no cost).
    - `worst_s`: interval as which waiting counts.
    - `worker`: the tasks of the job; the snapshot's memory is added, as much for each.
    - `store`: the pool.
    - `window_s`: the pool has what the store writes in so many seconds, in Mbit. What an option
      asks is rounded up, so with a window that all intervals divide it is exact where states are
      whole.

    Raises InvalidInputError if a number is out of range, no option is better than waiting, or more
    than 64 are left.
    """
    state = _gbit(state_gbit) * 1000
    positive(work, ("work",))
    positive(worst_s, ("worst_s",))
    if window_s < 1:
        raise InvalidInputError("expected 1 or more", ("window_s",), window_s)
    asked: list[tuple[int, float, str]] = []
    for number, cost in ({FULL_BITS: 0.0} if bits is None else bits).items():
        if number not in BITS:
            raise InvalidInputError(f"expected some of {BITS}", ("bits",), number)
        whole(cost, ("bits", number))
        for interval in intervals_s:
            if not 1 <= interval <= MAX_AMOUNT:
                raise InvalidInputError(f"expected 1 to {MAX_AMOUNT}", ("intervals_s",), interval)
            takes = whole(ceil(state * number * window_s / (FULL_BITS * interval)), ("state_gbit",))
            lost = work * interval / 2 + cost
            asked.append((takes, lost, f"{interval}s-{number}bits"))
    kept: list[Option] = []
    group = worker.model_copy(
        update={"memory": worker.memory + snapshot_mib(state_gbit, worker.count)}
    )
    least = work * worst_s / 2
    for takes, lost, name in sorted(asked):
        if lost >= least:
            continue
        value = whole(scale * (work * worst_s / 2 - lost), ("work",))
        kept.append(Option(name=name, groups=(group,), value=value, uses={store: takes}))
        least = lost
    if not kept:
        raise InvalidInputError(
            "no interval loses less; expected a longer one", ("worst_s",), worst_s
        )
    if len(kept) > MAX_OPTIONS:
        raise InvalidInputError(
            f"{len(kept)} options; expected at most {MAX_OPTIONS}", ("intervals_s",)
        )
    return tuple(kept)


def _gbit(state: float) -> Fraction:
    return Fraction(positive(state, ("state_gbit",)))
