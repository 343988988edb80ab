"""Cutting stock by column generation (Gilmore and Gomory 1961): GPUs are cut into shares anew.

Shares are to need few GPUs, and few running ones are to move.

    v[q,k,a]   GPUs that hold the shares q, of which k stay and to which a come   (k within q)
    over       GPUs in use beyond those available

    min  sum cost of moving(q less k) v[q,k,a]  +  worth over
    gpus       sum_(k,a) v[q,k,a]            =  GPUs that hold q       (no row for free GPUs)
    shares     sum (k + a)[f] v[q,k,a]      >=  shares of type f, pending ones included
    available  sum_(k or a) v[q,k,a] - over <=  GPUs available

At given prices of the shares the best a is an unbounded knapsack in what k leaves of a GPU, and q
has few sub-multisets k. Only GPUs are modelled; `swap_search.py` deals with the other resources.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import gcd
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from placewright.formulations.gang import parameters
from placewright.formulations.gang.models.aggregate.gpu_columns import (
    pattern_of,
    unbounded_knapsack,
)
from placewright.formulations.gang.problem.problem import Problem
from placewright.formulations.session import Session
from placewright.solver import Model
from placewright.topology.units import WHOLE_GPU

Home: TypeAlias = tuple[int, tuple[int, ...]]
"""A host and some of its GPUs."""
Content: TypeAlias = tuple[int, ...]
"""Number of shares of each type on a GPU."""
_GpuKey: TypeAlias = tuple[int, Content]
"""Equal GPUs: host type and content."""


@dataclass(frozen=True, slots=True)
class Bin:
    """One-task jobs that are placed on the same GPUs.

    The first `stay` of them run on the GPUs `home` now; None if none does.
    """

    jobs: tuple[int, ...]
    home: Home | None
    stay: int


def recut_shares(
    session: Session,
    shares: ShareTypes,
    gpus: dict[Home, list[int]],
    waiting: Sequence[int],
    gpu_worth: int,
    available: int = 0,
) -> list[Bin] | None:
    """Return bins of all jobs that share GPUs; None if time is up.

    Parameters
    ----------
    gpus
        The jobs on each GPU, one share each; all of them may move.
    waiting
        Pending jobs, one share each.
    gpu_worth
        Cost of a GPU in use beyond `available`, in milli-GPU-seconds.
    """
    gpus_of_key: defaultdict[_GpuKey, list[Home]] = defaultdict(list)
    for home, jobs in gpus.items():
        gpus_of_key[int(shares.of_host[home[0]]), shares.content(jobs)].append(home)
    number = {key: len(places) for key, places in gpus_of_key.items()}
    chosen = _CuttingStock(shares, number, shares.content(waiting), gpu_worth, available).solve(
        session
    )
    return None if chosen is None else _name_jobs(shares, gpus, waiting, gpus_of_key, chosen)


class ShareTypes:
    """Types of shares (size, allowed hosts), smallest first, and of hosts (share types allowed).

    `shape_of` has the shape of each job.
    """

    def __init__(self, problem: Problem, shape_of: Mapping[int, int]) -> None:
        self._shape = shape_of
        index: dict[tuple[int, bytes], int] = {}
        self._of_shape = {
            s: index.setdefault(
                (int(problem.shape_gpu[s]), problem.shape_hosts[s].tobytes()), len(index)
            )
            for s in sorted(set(shape_of.values()), key=lambda s: (int(problem.shape_gpu[s]), s))
        }
        self.milli = np.array([milli for milli, _ in index], dtype=np.int64)
        hosts = np.stack([np.frombuffer(mask, dtype=np.bool_) for _, mask in index])
        allowed, self.of_host = np.unique(hosts, axis=1, return_inverse=True)
        self.allowed: NDArray[np.bool_] = allowed.T
        """Whether a host type allows a share type, bool (host types, share types)."""
        self.hosts = range(len(self.allowed))

    def of(self, job: int) -> int:
        """Return the share type of a job."""
        return self._of_shape[self._shape[job]]

    def content(self, jobs: Sequence[int]) -> Content:
        """Return the number of each share type among some jobs."""
        number = np.zeros(len(self.milli), dtype=np.int64)
        np.add.at(number, [self.of(job) for job in jobs], 1)
        return tuple(number.tolist())


@dataclass(frozen=True, slots=True)
class _Pattern:
    """A pattern: of the shares that a GPU holds, those that stay, and those that come."""

    host_type: int
    held: Content
    stays: Content
    comes: Content


class _CuttingStock:
    """The restricted master problem and its patterns so far."""

    def __init__(
        self,
        types: ShareTypes,
        number: dict[_GpuKey, int],
        more: Content,
        gpu_worth: int,
        available: int,
    ) -> None:
        self._types, self._gpu_worth = types, gpu_worth
        self._model = Model()
        nothing = (0,) * len(types.milli)
        sizes = np.array(list(number.values()), dtype=np.int64)
        gpus = self._model.rows("gpus", len(sizes), lower=sizes, upper=sizes)
        needed = np.array(more, dtype=np.int64)
        for (_, held), times in number.items():
            needed += times * np.array(held, dtype=np.int64)
        self._shares = self._model.rows("shares", len(needed), lower=needed)
        (self._available,) = self._model.rows("available", 1, upper=available)
        most = int(needed.sum())
        (over,) = self._model.variables("over", 1, upper=most)
        self._model.add(self._available, over, -1.0)
        self._model.term("cost", over, float(gpu_worth), sense="min")
        self._row = dict(zip(number, gpus.tolist(), strict=True))
        self._most = {**number, **{(m, nothing): most for m in types.hosts}}
        self._parts = {
            held: np.array(list(product(*(range(n + 1) for n in held))), dtype=np.int64)
            for _, held in self._most
        }
        self.patterns: list[_Pattern] = []
        self._add([_Pattern(*key, stays=key[1], comes=nothing) for key in number])
        fits = WHOLE_GPU // types.milli
        self._add(
            [
                _Pattern(m, nothing, nothing, (*nothing[:f], int(fits[f]), *nothing[f + 1 :]))
                for m in types.hosts
                for f in np.flatnonzero(types.allowed[m]).tolist()
            ]
        )

    def solve(self, session: Session) -> Counter[_Pattern] | None:
        """Generate columns, then solve the integer program; return the GPUs of each pattern.

        None if time is up.
        """
        tuning = parameters.PARAMETERS.packing
        for _ in range(tuning.max_cutting_iterations):
            outcome = session.optimise(
                self._model.arrays("cost", relax=True), share=tuning.cutting_share
            )
            if outcome is None or outcome.row_duals is None:
                return None
            if not self._add(self._price_out(outcome.row_duals)):
                break
        outcome = session.optimise(
            self._model.arrays("cost"),
            share=tuning.cutting_share,
            most=tuning.max_cutting_seconds,
        )
        if outcome is None or outcome.values is None:
            return None
        number = np.rint(outcome.values[1:]).astype(np.int64).tolist()
        return Counter(dict(zip(self.patterns, number, strict=True)))

    def _price_out(self, duals: NDArray[np.float64]) -> list[_Pattern]:
        """Price: return for each GPU type the pattern of most gain, if it has any."""
        milli = self._types.milli
        price = duals[self._shares].clip(min=0.0)
        unit = gcd(*milli.tolist(), WHOLE_GPU)
        steps = milli // unit
        best, choice = unbounded_knapsack(
            steps, WHOLE_GPU // unit, np.where(self._types.allowed, price, 0.0)
        )
        found, least = [], parameters.PARAMETERS.packing.min_cutting_gain_rel * self._gpu_worth
        for host_type, held in self._most:
            parts = self._parts[held]
            left = (WHOLE_GPU - parts @ milli) // unit
            gpu_worth = best[host_type, left]
            used = parts.any(axis=1) | (gpu_worth > 0)
            cost = (np.array(held) - parts) @ milli - duals[self._available] * used
            row = self._row.get((host_type, held))
            gain = parts @ price + gpu_worth - cost + (0.0 if row is None else duals[row])
            k = int(gain.argmax())
            if gain[k] > least:
                comes = tuple(pattern_of(steps, choice[host_type], int(left[k])).tolist())
                found.append(_Pattern(host_type, held, tuple(parts[k].tolist()), comes))
        return found

    def _add(self, patterns: Sequence[_Pattern]) -> bool:
        known = set(self.patterns)
        fresh = [pattern for pattern in patterns if pattern not in known]
        most = np.array([self._most[p.host_type, p.held] for p in fresh], dtype=np.int64)
        # One more than the row allows: if the bound were tight, it would take the row's dual.
        columns = self._model.variables("pattern", len(fresh), upper=most + 1)
        for column, pattern in zip(columns.tolist(), fresh, strict=True):
            after = np.add(pattern.stays, pattern.comes)
            moved = np.subtract(pattern.held, pattern.stays) @ self._types.milli
            self._model.term("cost", column, float(moved), sense="min")
            self._model.add(self._available, column, float(after.any()))
            f = np.flatnonzero(after)
            self._model.add(self._shares[f], column, after[f])
            row = self._row.get((pattern.host_type, pattern.held))
            if row is not None:
                self._model.add(row, column, 1.0)
        self.patterns += fresh
        return bool(fresh)


def _name_jobs(
    types: ShareTypes,
    gpus: dict[Home, list[int]],
    waiting: Sequence[int],
    gpus_of_key: dict[_GpuKey, list[Home]],
    chosen: Counter[_Pattern],
) -> list[Bin]:
    """Assign jobs to patterns: jobs that leave a GPU fill the shares that come elsewhere."""
    leaving: defaultdict[int, list[int]] = defaultdict(list)
    for job in waiting:
        leaving[types.of(job)].append(job)
    cut_gpus: list[tuple[_Pattern, Home | None, list[int]]] = []
    at = {key: iter(places) for key, places in gpus_of_key.items()}
    for pattern, number in chosen.items():
        for _ in range(number):
            home = next(at[pattern.host_type, pattern.held]) if any(pattern.held) else None
            stays: list[int] = []
            left = list(pattern.stays)
            for job in gpus[home] if home else ():
                share_type = types.of(job)
                (stays if left[share_type] else leaving[share_type]).append(job)
                left[share_type] -= left[share_type] > 0
            cut_gpus.append((pattern, home, stays))
    bins = []
    for pattern, home, stays in cut_gpus:
        comes = [
            leaving[share_type].pop()
            for share_type, number in enumerate(pattern.comes)
            for _ in range(min(number, len(leaving[share_type])))
        ]
        if stays or comes:
            bins.append(Bin((*stays, *comes), home if stays else None, len(stays)))
    return bins
