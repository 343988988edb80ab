"""Vector bin packing by host class: one-task jobs on the hosts of the class the counts chose."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from placewright.array_types import Ints
from placewright.formulations.gang import parameters
from placewright.formulations.gang.heuristics.vector_packing import (
    best_fit_decreasing,
    pack_by_columns,
)
from placewright.formulations.gang.models.aggregate.gpu_columns import GpuPatterns
from placewright.formulations.gang.models.aggregate.variables import AggregateModel
from placewright.formulations.gang.placement.placement import Placement
from placewright.formulations.gang.problem.jobs import TaskPlacement
from placewright.formulations.gang.problem.problem import Problem
from placewright.formulations.session import Session
from placewright.topology.units import WHOLE_GPU

StartCounts: TypeAlias = defaultdict[tuple[int, int], int]
"""Number of jobs still to be started, by (class, choice)."""


def priority_class_of(problem: Problem, entry: tuple[int, int]) -> int:
    """Return the priority class of a (class, choice), the highest 0."""
    job_class, choice = entry
    return problem.classes[job_class].choices[choice].priority_class


def single_jobs(problem: Problem, starts: StartCounts) -> defaultdict[int, list[tuple[int, int]]]:
    """Return (class, choice) of the one-task jobs to start, by shape; one entry per job.

    Those of the highest priority class are the last of each list, to be taken first.
    """
    jobs: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
    for (c, o), n in sorted(starts.items(), key=lambda s: -priority_class_of(problem, s[0])):
        choice = problem.classes[c].choices[o]
        if choice.is_single_task:
            jobs[choice.groups[0].shape] += [(c, o)] * n
    return jobs


@dataclass(frozen=True, slots=True)
class _Item:
    """An item: one task, or the shares that one pattern puts on a GPU."""

    gpus: int
    demand: Ints
    shapes: tuple[int, ...]


class ClassPacking:
    """Packs the one-task jobs of all host classes."""

    def __init__(
        self,
        counts: AggregateModel,
        patterns: GpuPatterns | None,
        number: Ints,
        placement: Placement,
        starts: StartCounts,
        session: Session,
    ) -> None:
        self.session = session
        self.counts, self.patterns, self.number = counts, patterns, number
        self.placement, self.starts = placement, starts
        self.problem = counts.problem
        self.jobs_of_shape = single_jobs(self.problem, starts)

    def pack(self) -> None:
        """Pack every host class; jobs that do not fit stay in `starts`."""
        wanted: defaultdict[int, list[int]] = defaultdict(list)  # class -> shapes, one per task
        taken = self._tasks_of_gangs()
        unassigned = {shape: len(jobs) for shape, jobs in self.jobs_of_shape.items()}
        counts = self.counts
        for i in np.flatnonzero(self.number[counts.x]):
            shape, a = int(counts.x_shape[i]), int(counts.x_class[i])
            n = int(self.number[counts.x[i]]) - taken[shape, a]
            n = min(n, unassigned.get(shape, 0))
            if n > 0:
                unassigned[shape] -= n
                wanted[a] += [shape] * n
        for a, shapes in wanted.items():
            hosts = np.flatnonzero(counts.host_classes.of_host == a)
            shares = [s for s in shapes if self.problem.is_share[s]]
            items = [
                _Item(
                    int(self.problem.shape_gpu[s]) // WHOLE_GPU, self.problem.shape_demand[s], (s,)
                )
                for s in shapes
                if not self.problem.is_share[s]
            ]
            if shares and self.patterns is not None:
                shares = self._fill_partial_gpus(self.patterns, a, hosts, shares)
                items += self._shares_per_gpu(self.patterns, a, shares)
            self._pack_items(hosts, items)

    def _tasks_of_gangs(self) -> defaultdict[tuple[int, int], int]:
        """Return the tasks of gangs, by (shape, host class)."""
        taken: defaultdict[tuple[int, int], int] = defaultdict(int)
        for _, start in self.placement.started():
            groups = self.problem.classes[start.job_class].choices[start.choice].groups
            for put in start.tasks:
                key = groups[put.group].shape, int(self.counts.host_classes.of_host[put.host])
                taken[key] += put.count
        return taken

    def _start(self, shape: int, host: int) -> bool:
        if not self.placement.fits_host(shape, host):
            return False
        c, o = self.jobs_of_shape[shape].pop()
        self.placement.start(c, o, [TaskPlacement(0, host, 1, self.placement.put(shape, host))])
        self.starts[c, o] -= 1
        return True

    def _gpu_patterns(self, patterns: GpuPatterns, a: int, *, whole: bool) -> Iterator[list[int]]:
        """Yield the parts on each GPU of the class: of wholly free GPUs, or of partly used ones."""
        for i in np.flatnonzero(self.number[patterns.pool.columns]):
            g = patterns.pool.kind[i]
            if patterns.kind_class[g] == a and (patterns.kind_free[g] == WHOLE_GPU) == whole:
                cut = np.repeat(np.arange(len(self.counts.parts)), patterns.pool.cuts[i]).tolist()
                for _ in range(int(self.number[patterns.pool.columns[i]])):
                    yield cut

    def _fill_partial_gpus(
        self, patterns: GpuPatterns, a: int, hosts: Ints, shares: list[int]
    ) -> list[int]:
        """Start shares on partly used GPUs by their patterns; return the other shares."""
        left = self._shares_by_part(a, shares)
        for cut in self._gpu_patterns(patterns, a, whole=False):
            for part in reversed(cut):
                if left[part]:
                    self._start_on_partial(hosts, left[part])
        return [s for shapes in left.values() for s in shapes]

    def _start_on_partial(self, hosts: Ints, shapes: list[int]) -> None:
        """Start a share of one of some shapes, which demand the same part, by best fit."""
        fitting = self.placement.fits_partial_gpus(shapes[0], hosts) > 0
        tightest = np.where(fitting, self.placement.gpu_free[hosts], WHOLE_GPU + 1).min(axis=1)
        most = parameters.PARAMETERS.packing.max_partial_gpus
        for at in np.argsort(tightest, kind="stable")[:most]:
            if tightest[at] > WHOLE_GPU:
                return
            for k in range(len(shapes) - 1, -1, -1):
                if self._start(shapes[k], int(hosts[at])):
                    del shapes[k]
                    return

    def _shares_per_gpu(self, patterns: GpuPatterns, a: int, shares: list[int]) -> list[_Item]:
        """Deal the shares of a class to the patterns of whole GPUs, heavy with light."""
        demand = self.problem.shape_demand
        left = self._shares_by_part(a, shares)
        for shapes in left.values():
            shapes.sort(key=lambda s: tuple(demand[s]))
        bundles = []
        for cut in self._gpu_patterns(patterns, a, whole=True):
            # From both ends of each list in turn, so that heavy and light share a GPU.
            chosen = [left[f].pop(-(k % 2)) for k, f in enumerate(cut) if left[f]]
            if chosen:
                bundles.append(_Item(1, demand[chosen].sum(axis=0), tuple(chosen)))
        # Other shares were meant for partly used GPUs on which they no longer fit.
        bundles += [_Item(1, demand[s], (s,)) for shapes in left.values() for s in shapes]
        return bundles

    def _pack_items(self, hosts: Ints, items: list[_Item]) -> None:
        """Pack by best fit decreasing; if items are left and all hosts are equal, by patterns."""
        if not items:
            return
        shape_gpu = self.problem.shape_gpu
        free = np.column_stack([self.placement.whole[hosts], self.placement.free[hosts]])
        sizes = np.array([(item.gpus, *item.demand) for item in items], dtype=np.int64)
        chosen = best_fit_decreasing(sizes, free)
        equal = np.flatnonzero((free == free[0]).all(axis=1))
        if (chosen < 0).any() and len(equal) == len(hosts):
            worth = np.array([max(int(shape_gpu[list(i.shapes)].sum()), 1) for i in items])
            chosen = pack_by_columns(self.session, sizes, worth, chosen, free)
        for item, at in zip(items, chosen, strict=True):
            for shape in item.shapes if at >= 0 else ():
                self._start(shape, int(hosts[at]))

    def _shares_by_part(self, a: int, shares: list[int]) -> defaultdict[int, list[int]]:
        """Return the shares of a host class by the part of a GPU that they demand."""
        left: defaultdict[int, list[int]] = defaultdict(list)
        part = self.counts.part_of(np.array(shares, dtype=np.int64), np.full(len(shares), a))
        for s, f in zip(shares, part.tolist(), strict=True):
            left[f].append(s)
        return left
