"""The incumbent, whose transfers exist, and large-neighbourhood search around it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cached_property, partial
from itertools import count

import numpy as np

from placewright.array_types import Bools, Floats, Ints
from placewright.formulations.common.wan.arrays import NONE, UNLIMITED, Wan
from placewright.formulations.common.wan.routing import Transfers, never_out_of_time, schedule
from placewright.formulations.plan_messages import HOLD_SLACK, SHARPNESS, Candidate, DataPlan, Flow
from placewright.formulations.replicas import parameters
from placewright.formulations.replicas.heuristics.greedy import (
    GreedyPlacement,
    drop_idle_replicas,
    exchange_homes,
    place_homeless_jobs,
    placement_order,
)
from placewright.formulations.replicas.models.mip import (
    Neighbourhood,
    NeighbourhoodMip,
    is_small,
    whole_problem,
)
from placewright.formulations.replicas.problem.compile import (
    forced_replicas,
    homes_of_least_remote_reads,
)
from placewright.formulations.replicas.problem.problem import (
    Layout,
    Problem,
    Solution,
    demand_unit,
    least_overload_of_jobs,
)
from placewright.formulations.session import Session

# Neighbourhoods of large-neighbourhood search: which homes and replicas a MIP may change.
#
# `regions` frees all that happens in a few of them; `connected` dataset classes connected by
# readers, with all who read them; `sizes` all homes and some dataset classes, large ones more
# often; `relaxed` all homes and the dataset classes of which most GiB are elsewhere in the LP
# relaxation, each where the solution or the LP has it (RINS: Danna, Rothberg and Le Pape 2005).
# As other replicas are fixed there are few possible homes, so jobs of all regions can be free.
# Costly parts are drawn more often.


class NeighbourhoodSampler:
    """Draws neighbourhoods of solutions.

    `relaxed` (dataset classes, regions): fractional replicas of the LP relaxation; None if unknown.
    """

    def __init__(
        self, problem: Problem, relaxed: Floats | None, random: np.random.Generator
    ) -> None:
        self.problem, self._relaxation_replicas, self._random = problem, relaxed, random
        self._least_read_homes, self._least_remote_reads = homes_of_least_remote_reads(problem)
        self._readers = _rows(
            problem.read_dataset_class, problem.read_class, problem.dataset_classes
        )
        self._reads = _rows(problem.read_class, problem.read_dataset_class, problem.job_classes)

    def draw(self, kind: str, size: float, solution: Solution, may_hold: Bools) -> Neighbourhood:
        """Return a neighbourhood of a kind around a solution.

        `size`: number of job classes of kinds `regions` and `connected`, else of dataset classes.
        `may_hold` (dataset classes, regions): where replicas may be.
        """
        if kind == "regions":
            return self._few_regions(size, solution, may_hold)
        if kind == "connected":
            return self._connected_datasets(size, solution, may_hold)
        relaxed = self._relaxation_replicas if kind == "relaxed" else None
        return self.some_datasets(solution, may_hold, relaxed, size)

    def restricted_to(self, replicas: Bools) -> Neighbourhood:
        """Return the neighbourhood of all homes with these replicas (dataset classes, regions).

        Remote reads are at their lower bound if all jobs have a home so.
        """
        problem = self.problem
        homes = (
            problem.allowed_homes & self._homes_with_data(replicas, least_reads=True)[:, :, None]
        )
        least_reads = bool((homes.any(axis=(1, 2)) | problem.homeless).all())
        homes = homes if least_reads else problem.allowed_homes
        return replace(whole_problem(problem), homes=homes, holds=replicas, least_reads=least_reads)

    def some_datasets(
        self, solution: Solution, may_hold: Bools, relaxed: Floats | None, number: float
    ) -> Neighbourhood:
        """Return a number of dataset classes and all homes, near a relaxation if one is given."""
        problem = self.problem
        if relaxed is None:
            weight, holds = problem.size**0.5, may_hold | solution.replicas
        else:
            weight = problem.size * np.abs(solution.replicas - relaxed).sum(axis=1)
            holds = (
                (may_hold & (relaxed > parameters.PARAMETERS.rins_min_fraction))
                | solution.replicas
                | problem.current
            )
        weight = weight + 1e-3 * weight.mean() + 1e-9
        dataset_classes = np.zeros(problem.dataset_classes, dtype=np.bool_)
        dataset_classes[
            self._random.choice(
                problem.dataset_classes,
                int(min(problem.dataset_classes, number)),
                replace=False,
                p=weight / weight.sum(),
            )
        ] = True
        least_reads = solution.objective(problem)[1] <= self._least_remote_reads
        # Homes beside data that is there or may come, and those of today.
        found = np.where(dataset_classes[:, None], holds, solution.replicas)
        beside = self._homes_with_data(found, least_reads=least_reads)
        return Neighbourhood(
            job_classes=np.ones(problem.job_classes, dtype=np.bool_),
            dataset_classes=dataset_classes,
            homes=problem.allowed_homes & (beside[:, :, None] | (solution.jobs > 0)),
            holds=holds,
            least_reads=least_reads,
        )

    def _homes_with_data(self, replicas: Bools, *, least_reads: bool) -> Bools:
        """Return where job classes have all their data with these replicas (job classes, regions).

        With `least_reads` only where remote reads are least, beside all data that can be there.
        """
        problem, beside = self.problem, np.ones_like(self._least_read_homes)
        if least_reads:
            beside, replicas = self._least_read_homes.copy(), replicas | ~problem.may_hold
        np.logical_and.at(beside, problem.read_class, replicas[problem.read_dataset_class])
        return beside

    def _few_regions(self, size: float, solution: Solution, may_hold: Bools) -> Neighbourhood:
        """Return a few regions, drawn by GiB copied there, and all that is in them."""
        problem = self.problem
        new = (solution.replicas & ~problem.current).T.astype(np.int64) @ problem.size
        over = np.maximum(0, solution.demand(problem) - problem.supply).sum(axis=1)
        weight = (
            new + 0.1 * new.mean() + 1.0 + parameters.PARAMETERS.term_weights["overload"] * over
        )
        inside = np.zeros(problem.regions, dtype=np.bool_)
        number = solution.jobs.sum(axis=2) > 0
        for r in self._random.choice(
            problem.regions, problem.regions, replace=False, p=weight / weight.sum()
        ):
            inside[r] = True
            held = ~(number & ~inside).any(axis=1)
            if inside.sum() >= 2 and held.sum() > size:
                break
        free = number[:, inside].any(axis=1) & ~(number & ~inside).any(axis=1)
        dataset_classes = np.ones(problem.dataset_classes, dtype=np.bool_)
        return Neighbourhood(
            job_classes=free,
            dataset_classes=dataset_classes,
            homes=problem.allowed_homes & (inside[:, None] | (solution.jobs > 0)),
            holds=(may_hold & inside) | solution.replicas,
        )

    def _connected_datasets(
        self, size: float, solution: Solution, may_hold: Bools
    ) -> Neighbourhood:
        """Return dataset classes connected by readers, and all their readers."""
        problem = self.problem
        cost = ((solution.replicas & ~problem.current) * problem.size[:, None]).sum(axis=1) ** 0.5
        cost += 0.1 * cost.mean() + 1.0
        dataset_classes = np.zeros(problem.dataset_classes, dtype=np.bool_)
        free = np.zeros(problem.job_classes, dtype=np.bool_)
        order = self._random.choice(
            problem.dataset_classes, problem.dataset_classes, replace=False, p=cost / cost.sum()
        )
        waiting: list[int] = []
        for start in order.tolist():
            waiting.append(start)
            while waiting and free.sum() < size:
                p = waiting.pop(int(self._random.integers(len(waiting))))
                if dataset_classes[p]:
                    continue
                dataset_classes[p] = True
                for w in self._readers[p].tolist():
                    if not free[w]:
                        free[w] = True
                        waiting += self._reads[w].tolist()
            if free.sum() >= size:
                break
        return Neighbourhood(
            job_classes=free,
            dataset_classes=dataset_classes,
            homes=problem.allowed_homes,
            holds=(may_hold | solution.replicas),
        )


def _rows(keys: Ints, values: Ints, count: int) -> list[Ints]:
    """Return the values of each key, as one array per key."""
    order = np.argsort(keys, kind="stable")
    return np.split(values[order], np.searchsorted(keys[order], np.arange(1, count)))


# Adaptive large-neighbourhood search (Shaw 1998; Ropke and Pisinger 2006) with MIP repair.
#
# A neighbourhood grows while its MIPs are solved with time
# to spare.


class LargeNeighbourhoodSearch:
    """A search; `solution` is the incumbent.

    `relaxed` (dataset classes, regions): fractional replicas of the LP relaxation; None if unknown.
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
        tuning = parameters.PARAMETERS
        idle = 0
        while idle < tuning.max_idle_neighbourhoods:
            often = np.array([tuning.neighbourhood_weights[kind] for kind in self._size])
            kind = str(self._random.choice(list(self._size), p=often / often.sum()))
            drawn = kind if self.problem.dataset_classes else "regions"
            neighbourhood = self._sampler.draw(
                drawn, self._size[drawn], self.solution, self._may_hold
            )
            seconds = max(0.0, self.session.remaining() - reserve)
            better, solved = self._solve(neighbourhood, min(tuning.neighbourhood_max_s, seconds))
            self._size[kind] = float(
                np.clip(
                    self._size[kind] * (1.15 if solved else 0.7),
                    tuning.min_neighbourhood_size,
                    tuning.max_neighbourhood_size,
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
        neighbourhood = self._sampler.restricted_to(replicas)
        over = self.solution.objective(self.problem)[0]
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

        `most`: bound on overload in milli-GPU, None for that of the solution.
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
        `most`: bound on overload in milli-GPU, None to penalise it instead.
        """
        tuning = parameters.PARAMETERS
        problem = self.problem
        solution = self.solution
        before = self.solution.objective(self.problem)
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
        for (name, worth), value in zip(tuning.term_weights.items(), before, strict=True):
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
        gap = tuning.neighbourhood_gap_rel * max(SHARPNESS, before[2] / paid if paid else 1.0)
        closed = neighbourhood.dataset_classes[:, None] & ~neighbourhood.holds
        begins = most is not None and before[0] <= most and not (solution.replicas & closed).any()
        point = held.point(solution) if begins else None
        outcome = self.session.optimise(model.arrays("all"), most=seconds, gap=gap, start=point)
        if outcome is None or outcome.values is None:
            return None, False
        return held.solution(outcome.values).without_idle_copies(
            problem
        ), outcome.status == "optimal"


# Transfer scheduling of a solution, and repair where links refuse a copy.


def repair_transfers(
    problem: Problem,
    solution: Solution,
    refused: Bools,
    late: Callable[[], bool] = never_out_of_time,
) -> tuple[Solution, DataPlan, Bools]:
    """Return a solution with transfers for all of its copies, its plan, and the refused copies.

    Refused copies (dataset classes, regions) become tabu, and their readers get other homes: in the
    first attempts with other copies, later only beside replicas that are left, so that it ends.
    Scheduled copies keep their flows in later attempts. Once `late` returns true, no other copies
    are made.
    """
    refused = refused.copy()
    known: tuple[Flow, ...] = ()
    for attempt in count():
        solution = place_homeless_jobs(problem, solution)
        layout = solution.layout(problem)
        transfers = schedule(problem.wan, *_requests(problem, layout), known, late)
        not_made = _not_made(problem, layout, transfers)
        if not not_made.any():
            break
        refused |= not_made & ~problem.current
        known = transfers.flows
        copies = (
            problem.may_hold
            & ~refused
            & (attempt < parameters.PARAMETERS.max_attempts_with_copies and not late())
        )
        solution = exchange_homes(problem, _without(problem, solution, not_made, copies))
    return solution, _plan(layout, transfers), refused


def is_transferable(wan: Wan, copies: Bools) -> bool:
    """Whether links carry these copies (datasets, regions) where storage does not matter."""
    roomy = replace(wan, storage=np.full_like(wan.storage, UNLIMITED))
    d, r = np.nonzero(copies)
    return not schedule(roomy, list(zip(d.tolist(), r.tolist(), strict=True)), []).refused


def untransferable_copies(problem: Problem, late: Callable[[], bool] = never_out_of_time) -> Bools:
    """Return copies (dataset classes, regions) that links cannot carry even alone.

    Only datasets larger than every single link into the region are tried. Storage is left out,
    since data in the region may be dropped first. It ends once `late` returns true.
    """
    wan = problem.wan
    large = wan.size[:, None] > wan.budget.max(axis=0)
    refused = np.zeros_like(problem.current)
    d, r = np.nonzero(large & (problem.may_hold & ~problem.current)[problem.dataset_class])
    for dataset, region in zip(d.tolist(), r.tolist(), strict=True):
        if late():
            break
        alone = np.zeros_like(large)
        alone[dataset, region] = True
        if not is_transferable(wan, alone):
            refused[problem.dataset_class[dataset], region] = True
    return refused


def _without(problem: Problem, solution: Solution, not_made: Bools, copies: Bools) -> Solution:
    """Return a solution without the refused copies; a class left without any stays where it was."""
    replicas = solution.replicas & ~(not_made & ~problem.current)
    # Nobody drops the last replica, and a drop that was not made is none.
    bare = ~replicas.any(axis=1) | (not_made & problem.current).any(axis=1)
    replicas[bare] |= problem.current[bare]
    changed = (replicas != solution.replicas).any(axis=1)
    moved = np.zeros(problem.job_classes, dtype=np.bool_)
    moved[problem.read_class[changed[problem.read_dataset_class]]] = True
    placing = GreedyPlacement(problem, replicas, copies)
    placing.keep(solution, np.flatnonzero(~moved))
    order = placement_order(problem)
    placing.place(order[moved[order]].tolist())
    return placing.solution().without_idle_copies(problem)


def _requests(
    problem: Problem, layout: Layout
) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Return the copies, by descending GiB of reads that they save, and the drops."""
    wan = problem.wan
    region = layout.homes[wan.read_job, 0]
    there = region != NONE
    reads = np.zeros(layout.replicas.shape, dtype=np.int64)
    # A read that must be local decides whether a job runs at all.
    weight = np.where(wan.read_remote, 1, 10**3) * wan.read_gib
    np.add.at(reads, (wan.read_dataset[there], region[there]), weight[there])
    d, r = np.nonzero(layout.creates(wan))
    order = np.argsort(-reads[d, r], kind="stable")
    creates = list(zip(d[order].tolist(), r[order].tolist(), strict=True))
    d, r = np.nonzero(layout.drops(wan))
    return creates, list(zip(d.tolist(), r.tolist(), strict=True))


def _not_made(problem: Problem, layout: Layout, transfers: Transfers) -> Bools:
    """Return where a copy or a drop is not made (dataset classes, regions)."""
    not_made = layout.creates(problem.wan) | layout.drops(problem.wan)
    for made in (transfers.creates, transfers.drops):
        for dataset, region, _ in made:
            not_made[dataset, region] = False
    found = np.zeros_like(problem.current)
    d, r = np.nonzero(not_made)
    found[problem.dataset_class[d], r] = True
    return found


def _plan(layout: Layout, transfers: Transfers) -> DataPlan:
    return DataPlan(
        homes={j: (r, m) for j, (r, m) in enumerate(layout.homes.tolist()) if r != NONE},
        creates=transfers.creates,
        drops=transfers.drops,
        flows=transfers.flows,
    )


# The incumbent: the best solution whose transfers exist, and the copies that links refused.


class Incumbent:
    """The best solution so far, from which heuristics continue.

    `solution`: at first a greedy one, whose transfers are not known yet. `refused` (dataset
    classes, regions): copies that links refused beside those of earlier solutions.
    """

    def __init__(self, problem: Problem, session: Session) -> None:
        self.problem, self.session = problem, session
        self.solution = GreedyPlacement(problem).solution()
        self.refused: Bools = np.zeros_like(problem.current)

    @property
    def objective(self) -> tuple[int, int, int]:
        """The leading terms of the solution."""
        return self.solution.objective(self.problem)

    def accept(self, solution: Solution, source: str) -> Candidate:
        """Return a solution with transfers as a candidate; it becomes the incumbent if better."""
        problem = self.problem
        solution = drop_idle_replicas(problem, solution)
        grace = parameters.PARAMETERS.grace_s - min(0.0, self.session.before_deadline())
        late = partial(self.session.overdue, grace)
        solution, plan, refused = repair_transfers(problem, solution, self.refused, late)
        self.solution = min(solution, self.solution, key=lambda each: each.objective(problem))
        if not is_small(problem):
            # Without these a job must read more remotely; beside other copies they may do.
            left = replace(problem, may_hold=problem.may_hold & ~self.refused)
            refused &= ~forced_replicas(left)
        self.refused |= refused
        return Candidate({}, source, final=True, data=plan)

    def retry_refused_copies(self) -> None:
        """Refuse only copies that links cannot carry even alone."""
        self.refused = self._untransferable.copy()

    @cached_property
    def _untransferable(self) -> Bools:
        reserve = (1 - parameters.PARAMETERS.transfer_test_time_share) * self.session.remaining()
        return untransferable_copies(self.problem, lambda: self.session.expired(reserve))

    def search_from(
        self, solution: Solution, relaxed: Floats | None = None
    ) -> LargeNeighbourhoodSearch:
        """Return a search from a solution, without refused copies."""
        search = LargeNeighbourhoodSearch(self.problem, self.session, solution, relaxed)
        search.set_incumbent(solution, self.refused)
        return search

    def recombine(self, solution: Solution, seconds: float) -> Solution:
        """Return the better of a solution and the incumbent, recombined with the other one."""
        best, other = sorted(
            (self.solution, solution), key=lambda each: each.objective(self.problem)
        )
        search = self.search_from(best)
        search.recombine(other.replicas, seconds)
        return search.solution


def search_neighbourhoods(
    incumbent: Incumbent,
    relaxed: Floats | None,
    reserve: float,
    stop: Callable[[], bool] = lambda: False,
) -> Iterator[Candidate]:
    """Yield better plans than the incumbent, seldom, since scheduling their transfers takes time.

    Ends when `reserve` seconds are left, or after an iteration once `stop` is true.
    `relaxed` (dataset classes, regions): fractional replicas of the LP relaxation; None if unknown.
    """
    session, values = incumbent.session, parameters.PARAMETERS
    search = incumbent.search_from(incumbent.solution, relaxed)
    cost, reported, better = 0.0, time.monotonic(), False
    for number, found in enumerate(search.iterations(reserve)):
        better |= found and search.solution.objective(incumbent.problem) < incumbent.objective
        late = session.expired(reserve + values.last_plan_reserve_factor * cost)
        over = late or number >= values.max_neighbourhoods or stop()
        due = (
            not session.deterministic
            and time.monotonic() - reported > values.report_interval_factor * cost
        )
        if better and (over or due):
            began = time.monotonic()
            yield incumbent.accept(search.solution, "search")
            search.set_incumbent(incumbent.solution, incumbent.refused)
            reported, better = time.monotonic(), False
            cost = reported - began
        if over:
            break
    if better:
        yield incumbent.accept(search.solution, "search")
