"""Disruption budgets of region subproblems."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from placewright.array_types import Ints
from placewright.formulations.gang.problem.disruption_budget import Disruption, DisruptionBudget
from placewright.formulations.geo.heuristics.fixed_decisions import FixedDecisions
from placewright.formulations.geo.problem.compile import Problem
from placewright.instances.documents.policy import DisruptionLimits
from placewright.topology.units import WHOLE_GPU


def budgets_of_regions(
    problem: Problem, fixed: FixedDecisions, jobs_of_region: Mapping[int, Sequence[int]]
) -> dict[int, DisruptionLimits]:
    """Return the disruption limits of each region subproblem, {} without a budget.

    What earlier passes left of each limit is split in proportion to the GPUs that the jobs assigned
    to a region ask for beyond those that are free there (largest remainder).
    """
    round_, budget = problem.round, DisruptionBudget.of(problem.round)
    given = round_.policy.limits
    if budget is None or given is None or given.disruption is None:
        return {}
    moved = [j for j in fixed.starts if round_.jobs[j].running is not None]
    left = budget.after(budget.used(fixed.preempted, moved)).limits
    weights = _lacking_gpus(problem, jobs_of_region)
    shares = {
        name: _split(most // WHOLE_GPU if name == "lost_gpu_s" else most, weights)
        for name, most in zip(Disruption._fields, left, strict=True)
        if most is not None
    }
    return {
        r: given.disruption.model_copy(
            update={name: int(amounts[i]) for name, amounts in shares.items()}
        )
        for i, r in enumerate(jobs_of_region)
    }


def _lacking_gpus(problem: Problem, jobs_of_region: Mapping[int, Sequence[int]]) -> Ints:
    """Return the milli-GPU that jobs ask for beyond those free in each region, at least 1."""
    jobs, state = problem.round.jobs, problem.gangs().state
    gpus = np.repeat(problem.wan.host_region, problem.cluster.gpu_count)
    regions = len(problem.wan.regions)
    free = np.bincount(gpus, weights=state.gpu_free, minlength=regions).astype(np.int64)
    asked = [sum(jobs[j].options[0].milli_gpu for j in mine) for mine in jobs_of_region.values()]
    return (np.array(asked, dtype=np.int64) - free[list(jobs_of_region)]).clip(min=1)


def _split(amount: int, weights: Ints) -> Ints:
    """Split an amount in proportion to weights, in whole numbers that add up to it."""
    total = int(weights.sum())
    exact = [divmod(amount * weight, total) for weight in weights.tolist()]
    parts = np.array([whole for whole, _ in exact], dtype=np.int64)
    order = sorted(range(len(exact)), key=lambda i: (-exact[i][1], i))
    parts[order[: amount - int(parts.sum())]] += 1
    return parts
