"""Rules that place pods one by one, each from its published description.

A rule says how good each host would be for a pod, and which of the host's GPUs a share takes; of
equally good hosts the first of the list is taken. Kubernetes' simulator for FGD
(hkust-adsl/kubernetes-scheduler-simulator) rounds scores to whole numbers from 0 to 100 and draws
among equal ones; these rules do not round.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from placewright.array_types import Floats, Ints
from placewright.topology.units import WHOLE_GPU

__all__ = ["RULES", "Fragmentation", "Kind", "Kinds", "Ledger", "Place", "Rule"]

Place: TypeAlias = tuple[int, tuple[int, ...]]
"""A host and GPUs on it."""

Cost: TypeAlias = Callable[["Hosts", int], Floats]
"""What each host costs for a pod of a kind, float64 (hosts,), whether it has room or not."""

Rule: TypeAlias = Callable[["Ledger", int], Place | None]
"""Where a pod of a kind goes, None if it has no room; whatever it says is then done."""


@dataclass(frozen=True, slots=True)
class Kind:
    """What a pod asks: milli-GPU (up to 1000 a share of one GPU), millicores, MiB, GPU models."""

    gpu: int
    cpu: int
    memory: int
    models: tuple[str, ...] | None


@dataclass(frozen=True, eq=False)
class Kinds:
    """The hosts of a cluster, and the kinds of pods with their numbers; those without a GPU, too.

    Attributes
    ----------
    kinds, counts
        The distinct kinds, and how many pods there are of each.
    gpus : int64 (hosts,)
    capacity : int64 (hosts, 2)
        Millicores and MiB.
    allowed : bool (kinds, hosts)
        Hosts of a GPU model that the kind may use.
    """

    kinds: tuple[Kind, ...]
    counts: Ints
    gpus: Ints
    capacity: Ints
    allowed: NDArray[np.bool_]

    @cached_property
    def milli(self) -> Ints:
        """Milli-GPU of a pod of each kind."""
        return np.array([kind.gpu for kind in self.kinds], dtype=np.int64)

    @cached_property
    def demand(self) -> Ints:
        """Millicores and MiB of a pod of each kind, (kinds, 2)."""
        return np.array([(kind.cpu, kind.memory) for kind in self.kinds], dtype=np.int64)

    @property
    def most_gpus(self) -> int:
        """GPUs of the largest host, 1 where none has any."""
        return max(1, int(self.gpus.max()))

    @property
    def total(self) -> int:
        """Milli-GPU of the cluster."""
        return int(self.gpus.sum()) * WHOLE_GPU


class Hosts(Protocol):
    """What a rule looks at: pods, and what is free on the hosts, as in `Ledger`."""

    pods: Kinds
    left: Ints
    gpus: Ints
    whole: Ints


class Ledger:
    """What is free on the hosts; refuses what does not fit.

    Attributes
    ----------
    left : int64 (hosts, 2)
        Millicores and MiB.
    gpus : int64 (hosts, most GPUs)
        Free milli-GPU of each GPU, 0 where there is none.
    held : int
        Milli-GPU that are taken.
    pods_held : int64 (kinds,)
    """

    def __init__(self, pods: Kinds) -> None:
        self.pods, self.left = pods, pods.capacity.copy()
        most = int(pods.gpus.max())
        self.gpus = np.where(np.arange(most) < pods.gpus[:, None], WHOLE_GPU, 0)
        self.whole = pods.gpus.copy()
        self.largest = self.gpus.max(axis=1)
        self.held, self.pods_held = 0, np.zeros(len(pods.kinds), dtype=np.int64)

    def room(self, kind: int) -> NDArray[np.bool_]:
        """Return the hosts that have room for a pod."""
        asked = self.pods.kinds[kind]
        fits = self.pods.allowed[kind] & (self.left[:, 0] >= asked.cpu)
        fits &= self.left[:, 1] >= asked.memory
        if asked.gpu >= WHOLE_GPU:
            fits &= self.whole >= asked.gpu // WHOLE_GPU
        elif asked.gpu:
            fits &= self.largest >= asked.gpu
        answer: NDArray[np.bool_] = fits
        return answer

    def take(self, kind: int, place: Place) -> None:
        """Take what a pod asks, on these GPUs.

        Raises
        ------
        ValueError
            If the host or a GPU does not have it.
        """
        asked, (host, gpus) = self.pods.kinds[kind], place
        milli = min(asked.gpu, WHOLE_GPU)
        left = self.left[host] - (asked.cpu, asked.memory)
        if (
            len(set(gpus)) != -(-asked.gpu // WHOLE_GPU)
            or (left < 0).any()
            or not self.pods.allowed[kind, host]
            or any(self.gpus[host, gpu] < milli for gpu in gpus)
        ):
            raise ValueError(
                f"{asked} does not fit host {host}, GPUs {gpus}; expected a free place"
            )
        self.left[host] = left
        for gpu in gpus:
            self.gpus[host, gpu] -= milli
        self.whole[host] = (self.gpus[host] == WHOLE_GPU).sum()
        self.largest[host] = self.gpus[host].max()
        self.held += asked.gpu
        self.pods_held[kind] += 1


def _by_cost(cost: Cost) -> Rule:
    """Make a rule that takes the cheapest host, and there the fullest GPU that has the share."""

    def rule(ledger: Ledger, kind: int) -> Place | None:
        room = ledger.room(kind)
        if not room.any():
            return None
        host = int(np.where(room, cost(ledger, kind), np.inf).argmin())
        return host, _gpus(ledger, kind, host)

    return rule


def _gpus(ledger: Ledger, kind: int, host: int) -> tuple[int, ...]:
    gpu, free = ledger.pods.kinds[kind].gpu, ledger.gpus[host]
    if gpu >= WHOLE_GPU:
        return tuple(np.flatnonzero(free == WHOLE_GPU)[: gpu // WHOLE_GPU].tolist())
    return (int(np.where(free >= gpu, free, 2 * WHOLE_GPU).argmin()),) if gpu else ()


def first_fit(ledger: Hosts, kind: int) -> Floats:  # noqa: ARG001
    """First fit: the first host of the node list that has room."""
    return np.arange(len(ledger.left), dtype=np.float64)


def best_fit(ledger: Hosts, kind: int) -> Floats:
    """Best fit of FGD's evaluation: least CPU and GPU left, each over the largest host's, halved.

    Weng et al. (ATC 2023), section 6.
    """
    asked, pods = ledger.pods.kinds[kind], ledger.pods
    cpu = (ledger.left[:, 0] - asked.cpu) / pods.capacity[:, 0].max()
    gpu = (ledger.gpus.sum(axis=1) - asked.gpu) / (pods.most_gpus * WHOLE_GPU)
    cost: Floats = (cpu + gpu) / 2
    return cost


def least_allocated(ledger: Hosts, kind: int) -> Floats:
    """Kubernetes' `LeastAllocated`: largest mean share of CPU and memory that stays free."""
    asked, capacity = ledger.pods.kinds[kind], ledger.pods.capacity
    free = (ledger.left - (asked.cpu, asked.memory)) / np.maximum(capacity, 1)
    cost: Floats = -free.mean(axis=1)
    return cost


def dot_product(ledger: Hosts, kind: int) -> Floats:
    """Dot product of FGD's evaluation, after Tetris (Grandl et al., SIGCOMM 2014): the smallest.

    Of what the pod asks and what is free, CPU and GPU over the largest host's. Free is what the pod
    could take: for a share the fullest GPU that has it, for whole GPUs the wholly free ones.
    """
    asked, pods = ledger.pods.kinds[kind], ledger.pods
    if 0 < asked.gpu < WHOLE_GPU:
        gpu = np.where(ledger.gpus >= asked.gpu, ledger.gpus, 2 * WHOLE_GPU).min(axis=1)
    else:
        gpu = ledger.whole * WHOLE_GPU
    most = pods.most_gpus * WHOLE_GPU
    cpu = ledger.left[:, 0] / pods.capacity[:, 0].max()
    cost: Floats = cpu * (asked.cpu / pods.capacity[:, 0].max()) + gpu / most * (asked.gpu / most)
    return cost


def gpu_packing(ledger: Hosts, kind: int) -> Floats:
    """GPU packing (Weng et al., NSDI 2022): GPUs in part use, then hosts in use, then empty ones.

    Of GPUs in part use the fullest; of hosts without use those with fewest GPUs.
    """
    asked, pods = ledger.pods.kinds[kind], ledger.pods
    if not asked.gpu:
        return np.zeros(len(ledger.left))
    idle = ledger.whole == pods.gpus
    cost = np.where(idle, 2.0 + pods.gpus / pods.most_gpus, 1.0)
    if asked.gpu < WHOLE_GPU:
        partial = (ledger.gpus >= asked.gpu) & (ledger.gpus < WHOLE_GPU)
        fullest = np.where(partial, ledger.gpus, WHOLE_GPU).min(axis=1) / WHOLE_GPU
        cost = np.where(fullest < 1.0, fullest, cost)
    return cost


class Fragmentation:
    """FGD (Weng et al., ATC 2023): the host, and the GPU, where fragmentation grows least.

    A host's fragmentation is, over the pods of the list, the expected milli-GPU that a pod cannot
    use: all that is free if it cannot run there (or asks no GPU), else the GPUs that each have less
    free than it takes of one. As in the paper, CPU, GPUs and GPU models count, memory does not. The
    simulator looks at the most popular 95 % of the pods; here all count.
    """

    def __init__(self, pods: Kinds) -> None:
        self._pods = pods
        able = np.flatnonzero(pods.milli)
        self._each = np.minimum(pods.milli[able], WHOLE_GPU)
        self._number = np.maximum(pods.milli[able] // WHOLE_GPU, 1)
        self._cpu = pods.demand[able, 0]
        self._share = pods.counts[able] / pods.counts.sum()
        self._able = pods.allowed[able]
        self._growth = np.full((len(pods.kinds), len(pods.gpus)), np.inf)
        self._gpu = np.zeros(self._growth.shape, dtype=np.int64)
        self._model = np.unique(pods.allowed.T, axis=0, return_inverse=True)[1].ravel()
        self._known: dict[tuple[int, bytes, bytes], tuple[Floats, Ints]] = {}
        self.changed: Iterable[int] = range(len(pods.gpus))

    def __call__(self, ledger: Ledger, kind: int) -> Place | None:
        """Choose a place on a ledger that has changed since by the last answer only."""
        growth = self.costs(ledger, kind)
        host = int(growth.argmin())
        if growth[host] == np.inf:
            return None
        self.changed = (host,)
        if 0 < self._pods.kinds[kind].gpu < WHOLE_GPU:
            return host, (int(self._gpu[kind, host]),)
        return host, _gpus(ledger, kind, host)

    def costs(self, ledger: Hosts, kind: int) -> Floats:
        """Return the growth on each host, `inf` where there is no room; look at `changed` only."""
        for host in self.changed:
            self._look(ledger, host)
        self.changed = ()
        growth: Floats = self._growth[kind]
        return growth

    def _look(self, ledger: Hosts, host: int) -> None:
        """Compute the growth for each kind on one host; equal states are computed once."""
        order = np.argsort(ledger.gpus[host], kind="stable")
        left, gpus = ledger.left[host], ledger.gpus[host][order]
        key = (int(self._model[host]), left.tobytes(), gpus.tobytes())
        if key not in self._known:
            self._known[key] = self._growths(left, gpus, host)
        growth, gpu = self._known[key]
        self._growth[:, host], self._gpu[:, host] = growth, order[gpu]

    def _growths(self, left: Ints, gpus: Ints, host: int) -> tuple[Floats, Ints]:
        """Return per kind the growth and the GPU; `gpus` ascend."""
        pods = self._pods
        fits = (left >= pods.demand).all(axis=1) & pods.allowed[:, host]
        number, place = pods.milli // WHOLE_GPU, np.arange(len(gpus))
        whole = int((gpus == WHOLE_GPU).sum())
        share = (pods.milli > 0) & (pods.milli < WHOLE_GPU)
        kinds = [np.flatnonzero(fits & ~share & (number <= whole))]
        after = [np.repeat(gpus[None], len(kinds[0]), axis=0)]
        taken = (place >= len(gpus) - whole) & (
            place < len(gpus) - whole + number[kinds[0]][:, None]
        )
        after[0][taken] = 0
        chosen = [np.zeros(len(kinds[0]), dtype=np.int64)]
        for free, gpu in zip(*np.unique(gpus, return_index=True), strict=True):
            some = np.flatnonzero(fits & share & (pods.milli <= free))
            less = np.repeat(gpus[None], len(some), axis=0)
            less[:, gpu] -= pods.milli[some]
            kinds.append(some)
            after.append(less)
            chosen.append(np.full(len(some), gpu))
        kind, gpu_of = np.concatenate(kinds), np.concatenate(chosen)
        rest = left[0] - pods.demand[kind, 0]
        grown = self._fragments(rest, np.concatenate(after), host)
        grown -= self._fragments(left[:1], gpus[None], host)
        growth, gpu = np.full(len(fits), np.inf), np.zeros(len(fits), dtype=np.int64)
        order = np.argsort(-grown, kind="stable")  # the least is written last
        growth[kind[order]], gpu[kind[order]] = grown[order], gpu_of[order]
        return growth, gpu

    def _fragments(self, cpu: Ints, gpus: Ints, host: int) -> Floats:
        """Return the fragmentation of states of a host: millicores, and GPUs (states, GPUs)."""
        large = gpus[:, None, :] >= self._each[:, None]
        runs = (large.sum(axis=2) >= self._number) & (cpu[:, None] >= self._cpu)
        runs &= self._able[:, host]
        useful = np.where(runs, np.where(large, gpus[:, None, :], 0).sum(axis=2), 0)
        fragments: Floats = gpus.sum(axis=1) - useful @ self._share
        return fragments


def _rule(cost: Cost) -> Callable[[Kinds], Rule]:
    return lambda pods: _by_cost(cost)  # noqa: ARG005


RULES: Mapping[str, Callable[[Kinds], Rule]] = MappingProxyType(
    {
        "first-fit": _rule(first_fit),
        "best-fit": _rule(best_fit),
        "least-allocated": _rule(least_allocated),
        "dot-product": _rule(dot_product),
        "GPU packing": _rule(gpu_packing),
        "FGD": Fragmentation,
    }
)
