"""Repacking: one-task jobs are packed anew on their hosts, shares included, so that more run."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import gcd, inf
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from placewright.formulations.gang import parameters
from placewright.formulations.gang.heuristics.displace import (
    counted_starts,
    displace_within_quotas,
)
from placewright.formulations.gang.heuristics.gang_insertion import insert_counts
from placewright.formulations.gang.heuristics.vector_packing import (
    HostAssignment,
    Units,
    drop_excess,
    drop_waiting,
    reduce_excess,
)
from placewright.formulations.gang.models.aggregate.gpu_columns import (
    pattern_of,
    unbounded_knapsack,
)
from placewright.formulations.gang.models.aggregate.host_columns import HostPatterns
from placewright.formulations.gang.models.aggregate.solve import HostPatternModel, PricedModel
from placewright.formulations.gang.models.aggregate.variables import AggregateModel
from placewright.formulations.gang.placement.disruption_budget import repair_disruptions
from placewright.formulations.gang.placement.greedy import fill_by_policy, upgrade_options
from placewright.formulations.gang.placement.placement import Placement
from placewright.formulations.gang.problem.jobs import ANY_JOB, NOWHERE, TaskPlacement
from placewright.formulations.gang.problem.limits import DISRUPTION, SPREAD, VALUE
from placewright.formulations.gang.problem.problem import Problem
from placewright.formulations.plan_messages import HOLD_SLACK
from placewright.formulations.session import Session
from placewright.solver import Arrays, Model, Outcome, Status
from placewright.topology.units import WHOLE_GPU

# Cutting stock by column generation (Gilmore and Gomory 1961): GPUs are cut into shares anew.
#
# Shares are to need few GPUs, and few running ones are to move.
#
#     v[q,k,a]   GPUs that hold the shares q, of which k stay and to which a come   (k within q)
#     over       GPUs in use beyond those available
#
#     min  sum cost of moving(q less k) v[q,k,a]  +  worth over
#     gpus       sum_(k,a) v[q,k,a]            =  GPUs that hold q       (no row for free GPUs)
#     shares     sum (k + a)[f] v[q,k,a]      >=  shares of type f, pending ones included
#     available  sum_(k or a) v[q,k,a] - over <=  GPUs available
#
# At given prices of the shares the best a is an unbounded knapsack in what k leaves of a GPU, and q
# has few sub-multisets k. Only GPUs are modelled; `vector_packing.py` deals with other resources.


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


# Bundles: the items of repacking, one-task jobs that take whole GPUs of one host together.
#
# A bundle is a task of whole GPUs, or the shares of one GPU. A running job keeps its index in the
# round; a pending job has an index below 0.


class Bundles:
    """All running one-task jobs that may move, and some pending ones.

    Parameters
    ----------
    base
        A placement of all other jobs; the running jobs that may move are removed from it.
    waiting
        (class, choice) of each pending job.

    Attributes
    ----------
    homes : dict of job to Home
        The running ones, each with its host and GPUs.
    """

    def __init__(self, base: Placement, waiting: Sequence[tuple[int, int]] = ()) -> None:
        problem = base.problem
        self._base, self._problem = base, problem
        self.homes = _remove_movable(base)
        starts = {job: (problem.running[job].job_class, 0) for job in self.homes}
        self._start = starts | {-1 - i: start for i, start in enumerate(waiting)}
        self._shape = {
            job: problem.classes[c].choices[o].groups[0].shape
            for job, (c, o) in self._start.items()
        }
        self._bundles: list[Bin] = []

    def units(self, session: Session, gpu_worth: int, gpus: int | None = None) -> Units | None:
        """Cut GPUs into shares anew, and return the bundles as units; None if time is up.

        Parameters
        ----------
        gpu_worth
            Worth of each GPU that shares do not need, in milli-GPU-seconds.
        gpus
            GPUs available to all bundles: using fewer has no worth. None: each GPU saved has.
        """
        problem = self._problem
        shape_of = {j: s for j, s in self._shape.items() if problem.is_share[s]}
        whole = [j for j in self._shape if j not in shape_of]
        self._bundles = [Bin((j,), self.homes.get(j), int(j in self.homes)) for j in whole]
        if shape_of:
            held: defaultdict[Home, list[int]] = defaultdict(list)
            for job in shape_of:
                if job in self.homes:
                    held[self.homes[job]].append(job)
            waiting = [job for job in shape_of if job not in self.homes]
            taken = sum(int(problem.shape_gpu[self._shape[j]]) for j in whole) // WHOLE_GPU
            available = 0 if gpus is None else max(gpus - taken, 0)
            shares = ShareTypes(problem, shape_of)
            bins = recut_shares(session, shares, held, waiting, gpu_worth, available)
            if bins is None:
                return None
            self._bundles += bins
        return self._units()

    def _units(self) -> Units:
        problem = self._problem
        shapes = [[self._shape[j] for j in item.jobs] for item in self._bundles]
        runs = [[self._shape[j] for j in item.jobs if j in self.homes] for item in self._bundles]
        masks: dict[bytes, int] = {}
        host_set = [
            masks.setdefault(problem.shape_hosts[sorted(set(s))].all(axis=0).tobytes(), len(masks))
            for s in shapes
        ]
        stay = [item.jobs[: item.stay] for item in self._bundles]
        return Units(
            gpus=np.array([-(-problem.shape_gpu[s].sum() // WHOLE_GPU) for s in shapes]),
            demand=np.array([problem.shape_demand[s].sum(axis=0) for s in shapes]),
            home=np.array([i.home[0] if i.home else NOWHERE for i in self._bundles]),
            move_cost=np.array([sum(self._move_cost(j) for j in jobs) for jobs in stay]),
            value=np.array([sum(self._value(j) for j in item.jobs) for item in self._bundles]),
            running_demand=np.array([problem.shape_demand[s].sum(axis=0) for s in runs]),
            has_running=np.array([len(s) > 0 for s in runs]),
            allowed=np.stack([np.frombuffer(mask, dtype=np.bool_) for mask in masks]),
            host_set=np.array(host_set),
        )

    def _move_cost(self, job: int) -> int:
        return self._problem.running[job].migrate_cost + int(
            self._problem.shape_gpu[self._shape[job]]
        )

    def _value(self, job: int) -> int:
        """Return the loss if a job is dropped: 0 for running ones, at least 1 for pending ones."""
        c, o = self._start[job]
        return 0 if job in self.homes else max(self._problem.classes[c].choices[o].value, 1)

    def apply(self, assignment: HostAssignment) -> Placement:
        """Start the jobs in `base`: bundles at home on their former GPUs, others on free ones."""
        base, hosts = self._base, assignment.host.tolist()
        in_place = [
            item.home is not None and item.home[0] == host
            for item, host in zip(self._bundles, hosts, strict=True)
        ]
        kept = [item.home for item, stays in zip(self._bundles, in_place, strict=True) if stays]
        named = {(home[0], gpu) for home in kept if home is not None for gpu in home[1]}
        free = {
            host: [gpu for gpu in base.free_gpu_ids(host) if (host, gpu) not in named]
            for host in set(hosts) - {NOWHERE}
        }
        for item, host, stays, dropped in zip(
            self._bundles, hosts, in_place, assignment.dropped.tolist(), strict=True
        ):
            jobs = [job for job in item.jobs if job in self.homes or not dropped]
            if host == NOWHERE or not jobs:
                continue
            milli = int(self._problem.shape_gpu[self._shape[jobs[0]]])
            new = [free[host].pop() for _ in range(0 if stays else -(-milli // WHOLE_GPU))]
            gpus = item.home[1] if item.home and stays else tuple(new)
            for job in jobs:
                self._start_on(job, host, gpus)
        return base

    def _start_on(self, job: int, host: int, gpus: tuple[int, ...]) -> None:
        if self.homes.get(job) == (host, gpus):
            self._base.restart(self._problem.running_placement_of[job])
        else:
            c, o = self._start[job]
            put = TaskPlacement(0, host, 1, gpus)
            self._base.keep(self._shape[job], put)
            self._base.start(c, o, (put,), job if job in self.homes else ANY_JOB)


def _remove_movable(base: Placement) -> dict[int, Home]:
    """Stop the running one-task jobs that may move; return them with their hosts and GPUs.

    A share may move only if all shares on its GPU may.
    """
    problem = base.problem
    homes: dict[int, Home] = {}
    for job, running in problem.running.items():
        single = problem.classes[running.job_class].choices[0].is_single_task
        if single and running.places[0][3] and problem.competes(running):
            _, _, host, gpus = running.places[0]
            homes[job] = (host, gpus)
            base.stop(base.start_of(job))
    fixed = [
        job
        for job, (host, gpus) in homes.items()
        if (base.gpu_free[host, list(gpus)] < WHOLE_GPU).any()
    ]
    for job in fixed:
        base.restart(problem.running_placement_of[job])
        del homes[job]
    return homes


# Restricted master heuristic: which jobs run by an integer program, then where, host by host.


USED_TOLERANCE = 1e-9


def displace_by_model(
    session: Session,
    model: PricedModel | HostPatternModel,
    relaxed: Outcome | None,
    best: Mapping[str, int] | None = None,
    of_classes: Outcome | None = None,
) -> Placement | None:
    """Restricted master heuristic: an integer program over a few patterns, then disaggregation.

    The aggregate model plans on hosts that are cleared of running jobs; `displace_by_counts` places
    its counts where displacing the running jobs costs least; if that loses some of their value,
    `insert_counts` starts them where running jobs can move. With the values of a `best` plan the
    program has to reach its `value`, stops the jobs that are cheapest to stop, and starts those of
    least `spread` if that comes next. Priority classes are optimised one after the other, over
    patterns of their own relaxation if that is known. None without host patterns, a solved
    relaxation or an integer solution in time.

    Parameters
    ----------
    relaxed, of_classes
        The relaxation of `value`, and that of the last priority class, the others held.
    """
    counts, patterns = model
    if not isinstance(patterns, HostPatterns) or relaxed is None:
        return None
    columns, program = patterns.pool.columns, counts.model
    terms: tuple[str, ...] = counts.problem.value_terms
    if of_classes is None:
        arrays = program.arrays(VALUE, without=program.held)
        excluded = _columns_to_exclude(arrays, counts, columns, relaxed)
    else:
        held = {f"hold:{term}" for term in terms[:-1]}
        arrays = program.arrays(
            terms[-1], without=[name for name in program.held if name not in held]
        )
        excluded = _columns_to_exclude(arrays, counts, columns, of_classes)
    gap = None
    if best is not None:
        for term in terms:
            program.hold(term, best[term], HOLD_SLACK)
        # Jobs of equal worth differ in how far apart their tasks have to be.
        spreads = counts.problem.weighted_terms[2:3] == (SPREAD,)
        terms = (DISRUPTION, SPREAD) if spreads else (DISRUPTION,)
        gap = parameters.PARAMETERS.models.place_term_gap_rel
    tuning, inner = parameters.PARAMETERS.insertion, counts.inner_gang_columns
    values: NDArray[np.float64] | None = None
    counted = -inf
    left_out = {*program.held} if best is None else {f"hold:{t}" for t in terms} & {*program.held}
    for term in terms:
        arrays = patterns.relax_exchanges(program.arrays(term, without=left_out), session.backend)
        arrays = arrays.without_columns(excluded & ~inner if term == SPREAD else excluded)
        outcome = session.optimise(
            arrays,
            share=tuning.displacement_share,
            most=tuning.max_displacement_seconds,
            gap=gap,
            start=values,
        )
        if best is None and values is None:
            outcome = _or_rounded(session, arrays, of_classes or relaxed, outcome)
        if outcome is None or outcome.values is None or outcome.objective is None:
            break
        values = outcome.values
        counted = outcome.objective if terms == (VALUE,) else -inf
        if term != terms[-1]:
            program.hold(term, round(outcome.objective), HOLD_SLACK)
            left_out -= {f"hold:{term}"}
    if values is None:
        return None
    found = displace_within_quotas(session, counts, patterns, values, relaxed.row_duals)
    upgrade_options(found)
    starts = counted_starts(counts, values)
    pairs = sum(starts.values()) * counts.problem.cluster.num_hosts
    in_time = pairs <= tuning.host_start_pairs_per_second * session.remaining()
    if found.value >= counted * (1 - session.gap) or session.expired() or not in_time:
        return found
    inserted = Placement(counts.problem)
    insert_counts(session, inserted, starts)
    upgrade_options(inserted)
    return max(found, inserted, key=lambda placement: placement.value)


def _columns_to_exclude(
    arrays: Arrays, counts: AggregateModel, patterns: NDArray[np.int64], relaxed: Outcome
) -> NDArray[np.bool_]:
    """Mark the columns (columns,) left out of the restricted master.

    It keeps the patterns that the relaxation uses, and some of least reduced cost.
    """
    excluded = counts.inner_gang_columns
    if relaxed.values is None or relaxed.row_duals is None:
        return excluded
    used = np.pad(relaxed.values, (0, arrays.columns - len(relaxed.values)))
    worth = arrays.reduced_costs(relaxed.row_duals)
    unused = patterns[used[patterns] <= USED_TOLERANCE]
    unused = unused[np.argsort(-worth[unused], kind="stable")]
    excluded[unused[parameters.PARAMETERS.insertion.max_unused_patterns :]] = True
    return excluded


def _or_rounded(
    session: Session, arrays: Arrays, relaxed: Outcome, outcome: Outcome | None
) -> Outcome | None:
    """Return an outcome, or where it is far from a relaxation the best rounding of that, if better.

    Each variable is rounded up or down (relaxation enforced neighbourhood search, Berthold 2014):
    soon solved, where branch and bound of the whole program may find nothing near for seconds. An
    optimum of the program needs none.
    """
    if relaxed.values is None or (outcome is not None and outcome.status is Status.OPTIMAL):
        return outcome
    tuning = parameters.PARAMETERS.insertion
    near = np.pad(relaxed.values, (0, arrays.columns - len(relaxed.values)))
    worth = -inf if outcome is None or outcome.objective is None else outcome.objective
    if worth >= arrays.objective_of(near) * (1 - tuning.rounding_gap_rel):
        return outcome
    lower = np.where(arrays.integer, np.floor(near + TOLERANCE), -inf)
    upper = np.where(arrays.integer, np.ceil(near - TOLERANCE), inf).clip(max=arrays.upper)
    rounded = session.optimise(
        replace(arrays, lower=np.clip(lower, arrays.lower, upper), upper=upper),
        share=tuning.displacement_share,
        most=tuning.max_rounding_seconds,
    )
    if rounded is None or rounded.objective is None or rounded.objective <= worth:
        return outcome
    return rounded


# Repacking: bin packing of one-task jobs anew, shares included, so that more of them run.
#
# The linear relaxation gives the pending jobs to start. They and all movable running jobs become
# bundles, which are assigned to hosts by GPUs (`vector_packing.py`). Swaps then
# reduce the excess of other resources (`vector_packing.py`); where none helps, pending jobs are
# dropped, least value first. If time is up, jobs are dropped until no host has an excess.


TOLERANCE = 1e-6


def repack_tasks(
    session: Session, model: PricedModel, relaxed: Outcome | None, planned: Placement
) -> Placement | None:
    """Return a placement that starts the pending jobs of the relaxation as far as they fit.

    Jobs of several tasks are placed as in `planned`. None if there is no relaxation or time is up,
    with host patterns, which model all resources, with GPU memory or slices, and where somebody
    resizes in the plan.
    """
    counts, patterns = model
    if isinstance(patterns, HostPatterns) or relaxed is None or relaxed.values is None:
        return None
    if not counts.problem.counts_gpus_alone:
        return None
    resized = any(start.job != ANY_JOB and start.choice for _, start in planned.changed())
    if session.expired() or resized:
        return None
    problem = counts.problem
    base = Placement(problem)
    _copy_gangs(base, planned)
    waiting = _jobs_to_start(counts, relaxed.values, base)
    bundles = Bundles(base, waiting)
    # A gang of the plan may take GPUs of running jobs that are not packed: gangs, or shares.
    if base.is_overcommitted or not (bundles.homes or waiting):
        return None
    gpus = np.where(problem.open, base.whole, 0)
    gpu_worth = parameters.PARAMETERS.packing.gpu_worth_gpu_seconds * WHOLE_GPU
    units = bundles.units(session, gpu_worth, int(gpus.sum()))
    if units is None:
        return None
    assignment = HostAssignment(units, base.free, gpus, np.zeros(len(gpus), dtype=np.bool_))
    while not reduce_excess(assignment, session):
        if session.expired() or not drop_waiting(assignment):
            drop_excess(assignment)
            break
    placement = bundles.apply(assignment)
    repair_disruptions(placement)
    fill_by_policy(placement)
    return placement


def _copy_gangs(base: Placement, planned: Placement) -> None:
    """Place the jobs of several tasks as in a plan."""
    problem = base.problem

    def packed(job_class: int, choice: int) -> bool:
        return problem.classes[job_class].choices[choice].is_single_task

    away = [
        job for job in planned.displaced_jobs() if not packed(problem.running[job].job_class, 0)
    ]
    for job in away:
        base.stop(base.start_of(job))
    for _, start in planned.changed():
        if not packed(start.job_class, start.choice):
            base.restart(start)


def _jobs_to_start(
    counts: AggregateModel, values: NDArray[np.float64], base: Placement
) -> list[tuple[int, int]]:
    """Return (class, choice) of each one-task job that the relaxation starts, rounded up."""
    problem, quota = counts.problem, base.quota_left()
    number = np.ceil(values[counts.y] - TOLERANCE).astype(np.int64)
    left = list(base.waiting)
    to_start = []
    for c, o, n in zip(counts.y_class.tolist(), counts.y_choice.tolist(), number, strict=True):
        job_class = problem.classes[c]
        choice = job_class.choices[o]
        for _ in range(
            0 if job_class.running or not choice.is_single_task else min(int(n), left[c])
        ):
            if problem.within_quota(quota, job_class.accounts, choice):
                problem.charge_quota(quota, job_class.accounts, choice)
                to_start.append((c, o))
                left[c] -= 1
    return to_start
