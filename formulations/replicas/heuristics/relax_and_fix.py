"""Relax and fix with a MIP solver, and restricted MIPs over the replicas that it finds."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass
from itertools import count, takewhile

import numpy as np

from placewright.array_types import Bools, Floats
from placewright.formulations.plan_messages import Candidate
from placewright.formulations.replicas import parameters
from placewright.formulations.replicas.heuristics.incumbent import Incumbent
from placewright.formulations.replicas.models.mip import (
    IntegerProgram,
    Restriction,
    promising_copies,
)
from placewright.formulations.replicas.models.relaxation import (
    RelaxationResult,
    build_relaxation,
    try_relaxation,
)
from placewright.formulations.replicas.problem.compile import (
    AggregateProblem,
    aggregate_problem,
    count_for_share,
    largest_datasets,
    least_remote_reads,
    restrict_to_values,
)
from placewright.formulations.replicas.problem.problem import Problem, Solution
from placewright.formulations.session import Session
from placewright.solver import Arrays, SolveOptions

# Relax and fix with a MIP solver, the largest datasets first.
#
# All copies at once are too many to find good points among. At first only copies are free that
# the LP relaxation has in part or nearly has (by reduced cost), and only the replicas of the
# largest datasets are integer: these are few and have most of the GiB, and the relaxed rest still
# tells them what it will need. Then they are fixed, and smaller datasets are made integer as
# well. The smallest datasets stay relaxed to the end.
#
# References
# ----------
# Pochet and Wolsey, "Production planning by mixed integer programming", Springer 2006, section 3.6.


@dataclass(frozen=True, slots=True, eq=False)
class RestrictedReplicas:
    """Replicas for a restricted MIP: those of a point, and those near the relaxation."""

    # Upper bounds on the point's leading terms, comparable with `Solution.objective`.
    objective: tuple[int, int, float]
    # (dataset classes, regions): replicas of the point, and some of small reduced cost.
    chosen: Bools
    # (dataset classes, regions): those with a large fraction in the first relaxation.
    relaxed: Bools


def relax_and_fix(
    problem: Problem, session: Session, solution: Solution, refused: Bools, seconds: float
) -> RestrictedReplicas | None:
    """Return replicas for a restricted MIP, None without a point in the given seconds.

    The point has no more overload and remote reads than the solution; both are at their lower
    bounds if such points are found. It may copy more.
    `refused` (dataset classes, regions): copies that must not be made.
    """
    aggregate = aggregate_problem(problem.wan)
    allowed = aggregate.copyable & ~refused[problem.dataset_class]
    end = session.remaining() - seconds
    overload, remote_reads, _ = solution.objective(problem)
    targets = _term_bounds(aggregate, session, {"overload": overload, "remote_reads": remote_reads})

    def replicas(copies: Bools) -> Bools:
        found = problem.current.copy()
        np.logical_or.at(found, problem.dataset_class, copies)
        return found

    for k, holds in enumerate(targets):
        left = max(0.0, session.remaining() - end)
        until = session.remaining() - left * (
            parameters.PARAMETERS.better_target_time_share if k < len(targets) - 1 else 1.0
        )
        found = _chosen_copies(
            session, IntegerProgram.of(restrict_to_values(aggregate, holds)), holds, allowed, until
        )
        if found is not None:
            gib, chosen, much = found
            rank = (holds["overload"], holds["remote_reads"], gib)
            return RestrictedReplicas(rank, replicas(chosen), replicas(much))
    return None


def _term_bounds(
    aggregate: AggregateProblem, session: Session, held: dict[str, int]
) -> list[dict[str, int]]:
    """Return bounds on the leading terms to try in turn, the tightest first."""
    targets = [held]
    if held["overload"]:
        arrays = build_relaxation(aggregate).arrays(
            "overload", {"remote_reads": held["remote_reads"]}
        )
        least = try_relaxation(arrays, session)
        overload = held["overload"] if least is None else least.bound
        if overload < held["overload"]:
            targets.insert(0, {**held, "overload": overload})
    remote_reads = least_remote_reads(aggregate)
    if remote_reads < held["remote_reads"]:
        targets.insert(0, {**targets[0], "remote_reads": remote_reads})
    return targets


def _chosen_copies(
    session: Session,
    integer_program: IntegerProgram,
    holds: Mapping[str, int],
    allowed: Bools,
    end: float,
) -> tuple[float, Bools, Bools] | None:
    """Return the GiB of copies of a point, and the copies (datasets, regions) to choose among.

    Those of the point or of small reduced cost, and those with a large fraction in the relaxation.
    None without a point when `end` seconds are left.
    """
    tuning = parameters.PARAMETERS
    arrays = integer_program.relaxation.arrays("copies", holds)
    barred = np.zeros(arrays.columns, dtype=np.bool_)
    barred[
        integer_program.relaxation.replica[integer_program.relaxation.aggregate.copyable & ~allowed]
    ] = True
    arrays = arrays.without_columns(barred)
    root = try_relaxation(arrays, session)
    if root is None:
        return None
    aggregate = integer_program.relaxation.aggregate
    all_gib = float(aggregate.wan.size @ aggregate.copyable.sum(axis=1))
    fixing = _RelaxAndFix(session, integer_program, holds, allowed, end, arrays, root)
    last = max(1, count_for_share(aggregate, tuning.integer_gib_share))
    sizes = (tuning.first_step_datasets * tuning.step_growth**step for step in count())
    numbers = [*takewhile(lambda number: number < last, sizes), last]
    reached, least = None, tuning.free_reduced_costs_rel[0]
    tries = 1 if holds["overload"] else tuning.first_step_tries
    for number, beyond in enumerate(tuning.free_reduced_costs_rel):
        if number >= tries and (reached is not None or not fixing.exhausted):
            break
        most = all_gib if reached is None else reached * (1 - tuning.step_gap_rel)
        found = fixing.decide(numbers[0], beyond, most)
        if found is not None:
            reached, least = found, beyond
    if reached is None:
        return None
    settled = numbers[0]
    for number in numbers[1:]:
        for beyond in sorted({least, max(least, tuning.free_reduced_costs_rel[1])}):
            found = fixing.decide(number, beyond, reached * tuning.step_max_growth, settled)
            if found is not None or not fixing.exhausted:
                break
        if found is not None:
            reached, settled = found, number
    stays = largest_datasets(
        aggregate, min(settled, count_for_share(aggregate, tuning.kept_gib_share))
    )[:, None]
    free = fixing.free(max(tuning.open_reduced_cost_rel, least))
    copies: Bools = np.where(stays, fixing.copied, fixing.copied | free)
    return (
        reached,
        copies,
        allowed
        & (integer_program.relaxation.copy_fractions(root.point) > tuning.relaxed_min_fraction),
    )


class _RelaxAndFix:
    """A MIP of which ever more datasets are integer, then fixed.

    `copied` (datasets, regions): copies of the last point, rounded. `exhausted`: whether the last
    step was infeasible.
    """

    def __init__(
        self,
        session: Session,
        integer_program: IntegerProgram,
        holds: Mapping[str, int],
        allowed: Bools,
        end: float,
        arrays: Arrays,
        root: RelaxationResult,
    ) -> None:
        self._session, self._mip, self._end = session, integer_program, end
        self._holds, self._allowed = holds, allowed
        self._arrays, self._root = arrays, root
        self.copied, self.exhausted = np.zeros_like(allowed), False

    def free(self, beyond: float) -> Bools:
        """Return copies (datasets, regions) whose reduced cost is at most a part of their size."""
        worth = promising_copies(self._mip.relaxation, self._arrays, self._root, beyond)
        free: Bools = self._allowed & worth
        return free

    def decide(self, large: int, beyond: float, most: float, kept: int = 0) -> float | None:
        """Solve with the largest datasets integer; return the GiB copied, None without a point.

        `large` and `kept`: number of datasets, largest first, that are integer, and that are fixed.
        `beyond`: as in `free`. `most`: objective cutoff in GiB.
        """
        tuning = parameters.PARAMETERS
        self.exhausted = False
        left = self._session.remaining() - self._end
        if left <= 0:
            return None
        integer_program, aggregate = self._mip, self._mip.relaxation.aggregate
        stays = largest_datasets(aggregate, kept)[:, None]
        free = (self.free(beyond) | self.copied) & ~stays
        choice = Restriction(free, self.copied & stays, largest_datasets(aggregate, large))
        outcome = self._session.optimise(
            integer_program.arrays("copies", self._holds, choice),
            most=tuning.step_time_share * left,
            gap=tuning.step_gap_rel,
            options=SolveOptions(cutoff=most),
        )
        if outcome is None or outcome.values is None:
            bound = None if outcome is None else outcome.bound
            self.exhausted = bound is not None and bound >= most * (1 - tuning.step_gap_rel)
            return None
        point = integer_program.relaxation.replicas(outcome.values)
        self.copied = self._allowed & (point > 0.5)
        return outcome.objective


def search_restricted(
    incumbent: Incumbent, reserve: float
) -> Generator[Candidate, None, Floats | None]:
    """Choose among replicas that relax and fix finds; return these, None without any.

    Only among these if its point is better than the incumbent; then among those of both, and what
    the relaxation has. What links refuse beside copies of the incumbent may do beside what the
    point does. `reserve` seconds are left over.
    """
    problem, session, before = incumbent.problem, incumbent.session, incumbent.solution
    values = parameters.PARAMETERS
    incumbent.retry_refused_copies()
    seconds = values.relax_and_fix_time_share * (session.remaining() - reserve)
    restricted = (
        relax_and_fix(problem, session, before, incumbent.refused, seconds) if seconds > 0 else None
    )
    if restricted is None:
        return None

    def left(share: float) -> float:
        return share * max(0.0, session.remaining() - reserve)

    search = incumbent.search_from(before)
    if restricted.objective < before.objective(problem):
        chosen = search.solve_restricted(restricted.chosen, left(values.restricted_mip_time_share))
        if chosen is not None:
            search.set_incumbent(chosen, incumbent.refused)
            search.reoptimise_homes(left(values.restricted_mip_time_share))
            found = incumbent.recombine(search.solution, left(values.restricted_mip_time_share))
            if found.objective(problem) < before.objective(problem):
                yield incumbent.accept(found, "relax and fix")
        search.set_incumbent(incumbent.solution, incumbent.refused)
    if search.recombine(
        restricted.chosen | restricted.relaxed, left(values.widened_mip_time_share)
    ):
        yield incumbent.accept(search.solution, "relax and fix")
    return restricted.chosen.astype(np.float64)
