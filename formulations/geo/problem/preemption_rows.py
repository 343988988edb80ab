"""Preemption rows: freed capacity serves only jobs of higher rank than the preempted job.

A job is preempted only by jobs of strictly higher precedence, and no task of rank k or lower comes
to a host on which a job of level k or higher was preempted (see `gang/problem`). So for each
region, each set of GPU models and each level k at which jobs may be preempted,

    sum over tasks up to rank k, of running jobs too, of their milli-GPU
        + sum over preempted jobs of level k or higher of what they held  <=  capacity

Running jobs above rank k are not counted: they may move to what was freed and leave their own
places to any job.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from placewright.array_types import Bools, Ints
from placewright.formulations.gang.problem.problem import Problem as Gangs
from placewright.formulations.geo import parameters
from placewright.topology.units import WHOLE_GPU

Demand = tuple[int, int, int]
"""Rank, allowed GPU models as a bit mask, and milli-GPU."""

Holding = tuple[bool, tuple[Demand, ...]]
"""Whether a running job may be preempted, and what it holds of each GPU model."""

Rows = tuple[tuple[int, int], ...]
"""(row, amount) pairs."""


class PreemptionRows:
    """Preemption rows of a round.

    Parameters
    ----------
    gangs
        All jobs as one gang round.
    regions
        Number of regions.
    model_sets
        Sets of GPU models, as bit masks.
    preemptible
        (jobs,): which running jobs may be preempted.
    first
        Index of the first row.
    """

    def __init__(
        self, gangs: Gangs, regions: int, model_sets: Sequence[int], preemptible: Bools, first: int
    ) -> None:
        self._gangs, self._regions, self._model_sets = gangs, regions, model_sets
        self._preemptible, self._first = preemptible, first
        self._usage_of_demands: dict[tuple[Demand, ...], tuple[tuple[int, int, int], ...]] = {}
        self._continuation: dict[tuple[Holding, int], Rows] = {}
        self._holding_of_job: dict[int, Holding] = {}
        known = {running.level for j, running in gangs.running.items() if preemptible[j]}
        self._levels = sorted(known)[: parameters.PARAMETERS.max_preemption_levels]

    def capacities(
        self, capacity: Ints, current_region: Ints, equivalent: Iterable[Sequence[int]]
    ) -> Ints:
        """Return the right-hand sides of the rows (levels * regions * sets,).

        Parameters
        ----------
        capacity
            (regions, sets): milli-GPU of each set of GPU models.
        current_region
            (jobs,): the region of each running job.
        equivalent
            Equivalence classes of running jobs.
        """
        every = np.repeat(capacity[None], len(self._levels), axis=0).reshape(-1)
        for jobs in equivalent:
            for row, amount in self.continuation(
                self.holding_of(jobs[0]), int(current_region[jobs[0]])
            ):
                every[row - self._first] += len(jobs) * amount
        return every

    def demands(self, r: int, groups: Iterable[Demand]) -> Iterator[tuple[int, int]]:
        """Yield (row, milli-GPU) of tasks with these demands in a region."""
        mine = tuple(groups)
        if mine not in self._usage_of_demands:
            self._usage_of_demands[mine] = tuple(
                (k, s, amount)
                for k, level in enumerate(self._levels)
                for s, mask in enumerate(self._model_sets)
                for amount in [sum(a for rank, m, a in mine if rank <= level and not m & ~mask)]
                if amount
            )
        for k, s, amount in self._usage_of_demands[mine]:
            yield self._row(k, r, s), amount

    def continuation(self, holding: Holding, r: int) -> Rows:
        """Return (row, negative milli-GPU) of a running job that goes on.

        The right-hand sides are reduced as if every preemptible job were preempted; a job that goes
        on gives its part back.
        """
        may_stop, held = holding
        known = self._continuation.get((holding, r))
        if known is None:
            known = self._continuation[holding, r] = tuple(
                (self._row(k, r, s), -amount)
                for k, level in enumerate(self._levels)
                for s, mask in enumerate(self._model_sets)
                for amount in [sum(milli for rank, m, milli in held if not m & ~mask)]
                if may_stop and level <= held[0][0] and amount
            )
        return known

    def holding_of(self, job: int) -> Holding:
        """Return whether a running job may be preempted, and what it holds on open hosts."""
        if job not in self._holding_of_job:
            gangs, running = self._gangs, self._gangs.running[job]
            groups = gangs.classes[running.job_class].choices[0].groups
            found: dict[int, int] = {}
            for group, _, host, gpus in running.places:
                start, model = (
                    int(gangs.cluster.gpu_start[host]),
                    int(gangs.cluster.gpu_model[host]),
                )
                if gangs.open[host] and model >= 0:
                    each = min(int(gangs.shape_gpu[groups[group].shape]), WHOLE_GPU)
                    milli = sum(each for gpu in gpus if gangs.usable[start + gpu])
                    found[1 << model] = found.get(1 << model, 0) + milli
            held = tuple((running.level, mask, milli) for mask, milli in sorted(found.items()))
            self._holding_of_job[job] = bool(self._preemptible[job] and held), held
        return self._holding_of_job[job]

    def _row(self, k: int, r: int, s: int) -> int:
        return self._first + (k * self._regions + r) * len(self._model_sets) + s
