"""Adaptive large-neighbourhood search (Shaw 1998; Ropke and Pisinger 2006) with MIP repair.

`neighbourhoods.py` says what they free. A neighbourhood grows while its MIPs are solved with time
to spare.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from placewright.array_types import Bools, Floats
from placewright.formulations.bound_arithmetic import HOLD_SLACK, SHARPNESS
from placewright.formulations.replicas import parameters
from placewright.formulations.replicas.heuristics.neighbourhoods import NeighbourhoodSampler
from placewright.formulations.replicas.models.mip import (
    Neighbourhood,
    NeighbourhoodMip,
)
from placewright.formulations.replicas.problem.overload_curve import (
    demand_unit,
    least_overload_of_jobs,
)
from placewright.formulations.replicas.problem.problem import Problem
from placewright.formulations.replicas.solution import Solution
from placewright.formulations.session import Session


class LargeNeighbourhoodSearch:
    """A search; `solution` is the incumbent.

    Parameters
    ----------
    relaxed
        (dataset classes, regions): fractional replicas of the LP relaxation; None if unknown.
    """

    def __init__(
        self, problem: Problem, session: Session, solution: Solution, relaxed: Floats | None
    ) -> None:
        self.problem, self.session, self.solution = problem, session, solution
        self._may_hold = problem.may_hold.copy()
        unit, asked = demand_unit(problem.demand), problem.count * problem.demand
        self._least_overload, self._overload_bound = least_overload_of_jobs(
            problem.supply, unit, asked, problem.homeless
        )
        self._random = np.random.default_rng(session.seed)
        self._sampler = NeighbourhoodSampler(problem, relaxed, self._random)
        self._size = {
            kind: float(size)
            for kind, size in parameters.PARAMETERS.neighbourhood_sizes.items()
            if relaxed is not None or kind != "relaxed"
        }

    def set_incumbent(self, solution: Solution, refused: Bools) -> None:
        """Continue from a solution whose transfers exist, without copies that were refused."""
        self.solution = solution
        self._may_hold &= ~refused

    def iterations(self, reserve: float) -> Iterator[bool]:
        """Yield after each neighbourhood whether the solution improved, until too many have not.

        MIPs end when `reserve` seconds are left.
        """
        idle = 0
        while idle < parameters.PARAMETERS.max_idle_neighbourhoods:
            often = np.array(
                [parameters.PARAMETERS.neighbourhood_weights[kind] for kind in self._size]
            )
            kind = str(self._random.choice(list(self._size), p=often / often.sum()))
            drawn = kind if self.problem.dataset_classes else "regions"
            neighbourhood = self._sampler.draw(
                drawn, self._size[drawn], self.solution, self._may_hold
            )
            seconds = max(0.0, self.session.remaining() - reserve)
            better, solved = self._solve(
                neighbourhood, min(parameters.PARAMETERS.neighbourhood_max_s, seconds)
            )
            self._size[kind] = float(
                np.clip(
                    self._size[kind] * (1.15 if solved else 0.7),
                    parameters.PARAMETERS.min_neighbourhood_size,
                    parameters.PARAMETERS.max_neighbourhood_size,
                )
            )
            idle = 0 if better or solved else idle + 1
            yield better

    def recombine(self, replicas: Bools, seconds: float) -> bool:
        """MIP recombination with other replicas (dataset classes, regions); return if it improved.

        All in which the two differ is free; each dataset class may be placed as in either parent or
        as today, so the MIP stays small (RINS, crossover).
        """
        if not self.problem.dataset_classes:
            return False
        return self._reoptimise_all(
            self._sampler.some_datasets(
                self.solution, self._may_hold, replicas.astype(np.float64), np.inf
            ),
            seconds,
        )

    def solve_restricted(self, replicas: Bools, seconds: float) -> Solution | None:
        """Restricted MIP: all homes, and replicas among these (dataset classes, regions).

        None without a solution in time. The incumbent's replicas are not added, as they are of no
        use where both are far apart. If no remote reads are to be saved, overload is penalised
        instead of bounded, as whole jobs may not fit where fractions do: the result need not
        improve on the incumbent, but is near solutions that do.
        """
        neighbourhood, over = (
            self._sampler.restricted_to(replicas),
            self.solution.objective(self.problem)[0],
        )
        priced = neighbourhood.least_reads or not over
        return self._solve_mip(neighbourhood, seconds, None if priced else over)[0]

    def reoptimise_homes(self, seconds: float) -> bool:
        """Fix and optimise: all homes beside fixed replicas; return whether the solution improved.

        Few possible homes are left then, so the MIP is soon solved.
        """
        return self._reoptimise_all(self._sampler.restricted_to(self.solution.replicas), seconds)

    def _reoptimise_all(self, neighbourhood: Neighbourhood, seconds: float) -> bool:
        """Return whether a neighbourhood of all homes improved the solution.

        If the solution exceeds the least overload, that least is tried first, in half of the time:
        such MIPs are soon solved or infeasible.
        """
        until = self.session.remaining() - seconds
        over = self.solution.objective(self.problem)[0] > self._overload_bound
        if over and self._solve(neighbourhood, seconds / 2, self._overload_bound)[0]:
            return True
        return self._solve(neighbourhood, self.session.remaining() - until)[0]

    def _solve(
        self, neighbourhood: Neighbourhood, seconds: float, most: int | None = None
    ) -> tuple[bool, bool]:
        """Return whether a neighbourhood improved the solution, and whether its MIP was solved.

        Parameters
        ----------
        most
            Bound on overload in milli-GPU, None for that of the solution.
        """
        before = self.solution.objective(self.problem)
        found, solved = self._solve_mip(neighbourhood, seconds, before[0] if most is None else most)
        if found is None or found.objective(self.problem) >= before:
            return False, solved
        self.solution = found
        return True, solved

    def _solve_mip(
        self, neighbourhood: Neighbourhood, seconds: float, most: int | None
    ) -> tuple[Solution | None, bool]:
        """Return the solution of a neighbourhood's MIP, and whether it was solved to the gap.

        Warm-started by the incumbent where that is feasible.

        Parameters
        ----------
        most
            Bound on overload in milli-GPU, None to penalise it instead.
        """
        problem, solution, before = (
            self.problem,
            self.solution,
            self.solution.objective(self.problem),
        )
        if seconds <= 0:
            return None, False
        at_least_overload = most is not None and most <= self._overload_bound
        held = NeighbourhoodMip(
            problem,
            neighbourhood,
            solution,
            (),
            self._least_overload if at_least_overload else None,
        )
        model = held.model
        paid = 0.0
        for (name, worth), value in zip(
            parameters.PARAMETERS.term_weights.items(), before, strict=True
        ):
            if at_least_overload and name == "overload":
                continue
            paid += worth * value
            arrays = model.arrays(name)
            used = np.flatnonzero(arrays.cost)
            model.term(
                "all",
                used,
                worth * arrays.cost[used],
                sense="min",
                constant=worth * arrays.constant,
            )
        if not before[0]:
            model.hold("remote_reads", before[1], HOLD_SLACK)
        if most is not None:
            model.hold("overload", most, HOLD_SLACK)
        # The gap is one of copies: other terms, often as they are, would make it wide.
        gap = parameters.PARAMETERS.neighbourhood_gap_rel * max(
            SHARPNESS, before[2] / paid if paid else 1.0
        )
        closed = neighbourhood.dataset_classes[:, None] & ~neighbourhood.holds
        begins = most is not None and before[0] <= most and not (solution.replicas & closed).any()
        point = held.point(solution) if begins else None
        outcome = self.session.optimise(model.arrays("all"), most=seconds, gap=gap, start=point)
        if outcome is None or outcome.values is None:
            return None, False
        return held.solution(outcome.values).without_idle_copies(
            problem
        ), outcome.status == "optimal"
