"""Pricing of groups: exact by branch and bound in the tree of classes, and by exchange."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from placewright.array_types import Floats, Ints
from placewright.formulations.interleaving import parameters
from placewright.formulations.interleaving.problem.packing_problem import (
    ALONE,
    MAX_MEMBERS,
    PackingProblem,
    best_offsets,
    contended,
    pad_members,
    sort_members,
)
from placewright.formulations.interleaving.set_packing.columns import (
    NOT_ALLOWED,
    Columns,
    ValueBound,
    column_values,
    concatenate,
    rate_numerator,
    single_values,
    with_values,
)
from placewright.formulations.session import Session
from placewright.solver.certify import round_to_integers
from placewright.topology.units import MILLION

# Duals of jobs and rows, and the bound that they prove: weak duality in integers.
#
# With a price y(c) per job of each class (not negative, unless the class must be covered) and z(r)
# per unit of each row (not negative), let
#
#     reduced(q) = value(q) - sum over members c of (y(c) + sum_r z(r) per_member[r, c])
#                           - sum_r z(r) per_group[r, bucket]
#
# If no single job has a positive reduced cost, and no group of bucket b more than top(b),
#
#     sum_q value(q) x_q  <=  sum_c y(c) count(c) + sum_r z(r) limit(r) + sum_b groups(b) top(b)
#
# where at most groups(b) groups of the bucket fit. Prices are integers in fractions of a millionth,
# so nothing is rounded, whatever the duals are.


MAX_SCALE = 1 << 20
"""Fractions of a unit of value in which prices are counted at most."""

MAX_SCALED_VALUE = 1 << 52
"""Scaled value of a job at most, so that scaled value less prices stays far within 64 bits."""

MAX_PRICE = 1 << 60
"""No price may be larger."""


@dataclass(frozen=True, slots=True, eq=False)
class Prices:
    """Integer prices, times `scale`, at which no single job has a positive reduced cost."""

    scale: int  # Parts into which a unit of value is divided
    member: Ints  # (classes,): What each member of a column pays: y and its part of the rows
    group: Ints  # (buckets,): What each column of a bucket pays on top
    base: int  # The scaled bound if no group has a positive reduced cost, but for those that run
    job: Floats  # (classes,): y, unscaled
    row: Floats  # (rows,): z, unscaled

    def reduced_cost(self, packing: PackingProblem, members: Ints, value: Ints) -> Ints:
        """Return the scaled reduced cost of columns, members int64 (columns, up to 4)."""
        paid = np.where(members != ALONE, self.member[members], 0).sum(axis=1)
        bucket = packing.bucket[members[:, 0]]
        own = self.group[bucket] if packing.buckets else np.zeros_like(paid)
        left: Ints = value * self.scale - paid - np.where(bucket != ALONE, own, 0)
        return left


def rounded_prices(packing: PackingProblem, job: Floats, row: Floats) -> Prices | None:
    """Return integer prices near these duals: right signs, no single job pays; or None.

    `job` is (classes,), `row` (rows,). None where numbers are too large to be counted in 64 bits.
    """
    own = single_values(packing)
    most = max(int(own.max(initial=0)), int(_max_group_value(packing)), 1)
    scale = min(MAX_SCALE, 1 << max(MAX_SCALED_VALUE // most, 1).bit_length() - 1)
    y = round_to_integers(np.where(packing.must_cover, job, job.clip(min=0.0)) * scale)
    z = round_to_integers(row.clip(min=0.0) * scale)
    in_rows = (
        z @ packing.per_member.astype(object) if len(z) else np.zeros(packing.classes, dtype=object)
    )
    group = (
        z @ packing.per_group.astype(object) if len(z) else np.zeros(packing.buckets, dtype=object)
    )
    shares = packing.bucket != ALONE
    on_top = np.where(shares, np.append(group, 0)[packing.bucket], 0)
    # Raise the dual of a single job until its reduced cost is not positive.
    y = np.maximum(y, own.astype(object) * scale - in_rows - on_top)
    y = np.where(packing.must_cover, y, np.maximum(y, 0))
    member = y + in_rows
    if any(abs(price) > MAX_PRICE for price in (*member, *group, most * scale)):
        return None
    base = int(sum(y * packing.count) + sum(z * packing.limit))
    prices = Prices(
        scale,
        member.astype(np.int64),
        group.astype(np.int64),
        base,
        y.astype(np.float64) / scale,
        z.astype(np.float64) / scale,
    )
    # Frozen groups are columns although the rules forbid them, each once at most.
    frozen = with_values(packing, packing.frozen_groups)
    gained = prices.reduced_cost(packing, frozen.members, frozen.value).clip(min=0)
    return replace(prices, base=base + sum(gained.tolist()))


def _max_group_value(packing: PackingProblem) -> float:
    """Return an upper bound of a job's value in a group."""
    shares = packing.bucket != ALONE
    least = packing.stages.sum(axis=1)[shares].clip(min=1) * (
        min(packing.rules.contention) / MILLION
    )
    return float((rate_numerator(packing)[shares] / least.clip(min=1.0)).max(initial=0.0))


def max_groups(packing: PackingProblem) -> Ints:
    """Return the number of groups of two or more that fit per bucket, int64 (buckets,)."""
    jobs = np.bincount(
        packing.bucket[packing.bucket != ALONE],
        weights=packing.count[packing.bucket != ALONE],
        minlength=packing.buckets,
    )
    fit = jobs.astype(np.int64) // 2
    grows = (packing.per_group >= 0).all(axis=1) & (packing.per_member >= 0).all(axis=1)
    for row in np.flatnonzero(grows):
        takes = packing.per_group[row]
        fit = np.where(takes > 0, np.minimum(fit, packing.limit[row] // takes.clip(min=1)), fit)
    return fit.clip(min=0)


# Class tree: a binary tree over the classes of a bucket, with bounds for exact pricing.
#
# All classes of a bucket are split again and again along the measure in which they differ most,
# down to single classes. The reduced cost of a group of members i at a period T is at most
#
#     sum over i of (rate_numerator(i) / T - price(i)) - price of the bucket
#
# and a period never falls when a stage grows. So the period of the least stages of some subtrees
# is a lower bound of T for all members from them, and at a lower bound of T the largest summand
# of each subtree is an upper bound. These are tabulated for a geometric grid of periods.


ROUNDING_FACTOR = 1 + 1e-12
"""More than what rounding can take from a quotient of floating-point numbers."""


@dataclass(frozen=True, slots=True, eq=False)
class ClassTree:
    """The class tree of one bucket; the root is node 0, children come after their parent."""

    # left, right: (nodes,): The children of a node, -1 for a single class.
    left: Ints
    right: Ints
    jobs: Ints  # (nodes,): How many jobs its classes have
    of: Ints  # (nodes,): Its class if it is a single one, else one of its classes
    width: Floats  # (nodes,): How much its classes differ; -1 for a single class
    stages: Ints  # (nodes, resources): The least of each stage
    own: Ints  # (nodes,): The least sum of all stages of a class
    # iteration, max_period: (nodes,): The most of any class.
    iteration: Ints
    max_period: Ints
    memory: Ints  # (nodes,): The least of any class
    grid: Ints  # (periods,): Ascending; the first is a lower bound of all periods
    # (nodes, periods): The most that reach over period less price is for any class, scaled as the
    # prices are.
    most: Ints


def build_class_tree(packing: PackingProblem, prices: Prices, bucket: int) -> ClassTree:
    """Return the class tree of a bucket with at least one class that has a job."""
    tuning = parameters.PARAMETERS
    classes = np.flatnonzero((packing.bucket == bucket) & (packing.count > 0))
    own = packing.stages[classes].sum(axis=1)
    typical = float(own.mean())
    value = rate_numerator(packing)[classes]
    # At twice the typical iteration, in the value of a typical job at the speed it has alone.
    unit = max(float(value.mean()), 1.0) / typical
    net = value / (2 * typical) - prices.member[classes] / prices.scale
    measures = np.column_stack(
        [packing.stages[classes] / typical, tuning.net_value_weight * net / unit]
    )
    left, right, parts, widths = _split_recursively(measures)
    order = np.concatenate(parts)
    start = np.cumsum([0, *(len(part) for part in parts)])[:-1]

    def least(of: Ints) -> Ints:
        return np.minimum.reduceat(of[classes][order], start, axis=0)

    def greatest(of: Ints) -> Ints:
        return np.maximum.reduceat(of[classes][order], start, axis=0)

    # No period is below a member's own stages.
    factor = min(packing.rules.contention) / MILLION
    first = max(int(own.min() * factor * 0.999), 1)
    last = max(first + 1, int(tuning.max_period_ratio * packing.iteration[classes].max()))
    length = max(
        min(
            tuning.max_grid_periods,
            tuning.max_grid_entries // len(parts),
        ),
        2,
    )
    grid = np.unique(np.geomspace(first, last, length).astype(np.int64))
    grid[0] = first
    paid = prices.member[classes]
    most = np.empty((len(parts), len(grid)), dtype=np.int64)
    for node in range(len(parts))[::-1]:
        if left[node] < 0:
            job = parts[node][0]
            gained = np.ceil(value[job] * prices.scale / grid * ROUNDING_FACTOR) + 1
            most[node] = gained.astype(np.int64) - paid[job]
        else:
            np.maximum(most[left[node]], most[right[node]], out=most[node])
    return ClassTree(
        left=left,
        right=right,
        jobs=np.add.reduceat(packing.count[classes][order], start),
        of=classes[order[start]],
        width=widths,
        stages=least(packing.stages),
        own=np.minimum.reduceat(own[order], start),
        iteration=greatest(packing.iteration),
        max_period=greatest(packing.max_period()),
        memory=least(packing.memory),
        grid=grid,
        most=most,
    )


def _split_recursively(measures: Floats) -> tuple[Ints, Ints, list[Ints], Floats]:
    """Return both children of each node, its classes by position, and its width."""
    left, right, widths = [-1], [-1], [-1.0]
    parts = [np.arange(len(measures))]
    for node, part in enumerate(parts):
        if len(part) == 1:
            continue
        part_measures = measures[part]
        spread = part_measures.max(axis=0) - part_measures.min(axis=0)
        widths[node] = float(spread.sum())
        along = part_measures[:, spread.argmax()]
        order = np.argsort(along, kind="stable")
        # In the middle of the range, so that nodes far apart separate first.
        middle = np.searchsorted(along[order], (along.min() + along.max()) / 2, side="right")
        cut = int(middle.clip(1, len(part) - 1))
        left[node], right[node] = len(parts), len(parts) + 1
        for half in (part[order[:cut]], part[order[cut:]]):
            parts.append(half)
            left.append(-1)
            right.append(-1)
            widths.append(-1.0)
    return np.array(left), np.array(right), parts, np.array(widths)


# Exact pricing: the groups of a bucket of positive reduced cost, by branch and bound.
#
# A node is a group of subtrees of the class tree (`pricing_tree`), for all groups with one member
# from each; its bound is that of the least stages. The widest subtree is split where the bound is
# too high, best bound first, many nodes at a time. Groups of single classes are evaluated
# exactly. What is left unexplored is bounded, so that stopping early only weakens the bound.


@dataclass(frozen=True, slots=True, eq=False)
class PricingResult:
    """Groups found by pricing a bucket, and a bound of all others."""

    columns: Columns  # Groups with a scaled reduced cost above the tolerance
    reduced: Ints  # (columns,): Theirs
    rest_bound: int  # No other group of the bucket has a greater one; at least the tolerance


def solve_pricing(
    packing: PackingProblem,
    prices: Prices,
    bucket: int,
    tolerance: int,
    nodes: int,
    session: Session,
    reserve: float = 0.0,
) -> PricingResult:
    """Return the groups of a bucket whose scaled reduced cost exceeds a tolerance.

    `bucket`: has at least one class with a job. `nodes`: nodes to bound, after which the search
    stops. `reserve`: seconds to leave before the deadline.
    """
    search = _BranchAndBound(packing, prices, bucket, tolerance)
    for size in range(2, packing.max_members + 1):
        search.run(size, nodes, session, reserve)
    columns = Columns(np.concatenate(search.members), np.concatenate(search.values_found))
    return PricingResult(
        columns, prices.reduced_cost(packing, columns.members, columns.value), search.rest_bound
    )


class _BranchAndBound:
    """Branch and bound over the groups of a bucket, by number of members."""

    def __init__(
        self, packing: PackingProblem, prices: Prices, bucket: int, tolerance: int
    ) -> None:
        self.packing, self.prices, self.bucket, self.tolerance = packing, prices, bucket, tolerance
        self.tree = build_class_tree(packing, prices, bucket)
        self.gpu_memory = int(packing.gpu_memory[bucket])
        self.rest_bound = tolerance
        self.nodes = 0
        self.members = [np.zeros((0, MAX_MEMBERS), dtype=np.int64)]
        self.values_found = [np.zeros(0, dtype=np.int64)]

    def run(self, size: int, max_nodes: int, session: Session, reserve: float) -> None:
        """Branch until no node exceeds the tolerance, or `max_nodes` were bounded."""
        found = 0
        groups, bounds = self._bound_groups(np.zeros((1, size), dtype=np.int64))
        while len(groups):
            if (
                self.nodes >= max_nodes
                or found >= parameters.PARAMETERS.max_priced_groups
                or session.expired(reserve)
            ):
                self.rest_bound = max(self.rest_bound, int(bounds.max()))
                return
            count = max(parameters.PARAMETERS.pricing_chunk_nodes, len(groups) // 4)
            if count < len(groups):
                order = np.argpartition(-bounds, count)
                groups, bounds = groups[order], bounds[order]
            children, values = self._bound_groups(_branch(self.tree, groups[:count]))
            single = (self.tree.left[children] < 0).all(axis=1)
            found += self._keep_single_groups(children[single])
            groups = np.concatenate([groups[count:], children[~single]])
            bounds = np.concatenate([bounds[count:], values[~single]])

    def _bound_groups(self, groups: Ints) -> tuple[Ints, Ints]:
        """Return the nodes whose bound exceeds the tolerance, and their bounds."""
        tree, rules = self.tree, self.packing.rules
        self.nodes += len(groups)
        if self.gpu_memory:
            groups = groups[tree.memory[groups].sum(axis=1) <= self.gpu_memory]
        bare, _ = best_offsets(tree.stages[groups], spanning=rules.spanning)
        bare = np.maximum(bare, tree.own[groups].max(axis=1))
        period = contended(bare, rules.contention[groups.shape[1] - 2])
        within = np.minimum(tree.iteration[groups].sum(axis=1), tree.max_period[groups].min(axis=1))
        groups, period = groups[period <= within], period[period <= within]
        level = np.searchsorted(tree.grid, period, side="right") - 1
        bound = tree.most[groups, level[:, None]].sum(axis=1) - self.prices.group[self.bucket]
        above = bound > self.tolerance
        return groups[above], bound[above]

    def _keep_single_groups(self, groups: Ints) -> int:
        """Keep the groups of single classes above the tolerance; return their number."""
        members = np.sort(self.tree.of[groups], axis=1)
        members = pad_members(members)
        value = column_values(self.packing, members)
        above = self.prices.reduced_cost(self.packing, members, value) > self.tolerance
        above &= value != NOT_ALLOWED
        self.members.append(members[above])
        self.values_found.append(value[above])
        return int(above.sum())


def _branch(tree: ClassTree, groups: Ints) -> Ints:
    """Return the nodes with the widest subtree of each replaced by its halves."""
    rows = np.arange(len(groups))
    node = groups[rows, tree.width[groups].argmax(axis=1)]
    same = groups == node[:, None]
    times = same.sum(axis=1)
    results = [groups[:0]]
    for times_used in np.unique(times).tolist():
        some = times == times_used
        left, right = tree.left[node[some]], tree.right[node[some]]
        rest = groups[some][~same[some]].reshape(len(left), -1)
        for rights in range(times_used + 1):
            lefts = times_used - rights
            enough = (tree.jobs[left] >= lefts) & (tree.jobs[right] >= rights)
            halved = [np.repeat(left[:, None], lefts, 1), np.repeat(right[:, None], rights, 1)]
            results.append(np.hstack([rest, *halved])[enough])
    return np.concatenate(results)


def price_neighbours(
    packing: PackingProblem,
    prices: Prices,
    columns: Columns,
    tolerance: int,
    rng: np.random.Generator,
) -> Columns:
    """Return columns above a reduced cost that differ in one member from given ones.

    The member is replaced, left out or added. Of more columns than can be tried, some are drawn.
    """
    value_bound = ValueBound(packing)
    parts = [columns.take(np.zeros(0, dtype=np.int64))]
    for bucket in range(packing.buckets):
        base = columns.members[packing.bucket[columns.members[:, 0]] == bucket]
        jobs = np.append(np.flatnonzero((packing.bucket == bucket) & (packing.count > 0)), ALONE)
        many = max(
            parameters.PARAMETERS.max_neighbour_groups // (len(jobs) * packing.max_members), 1
        )
        if len(base) > many:
            base = base[rng.choice(len(base), many, replace=False)]
        groups = _exchange_neighbours(base, jobs, packing.max_members)
        paid = np.append(prices.member, 0)[groups].sum(axis=1) + prices.group[bucket] + tolerance
        groups = _unique_groups(packing, groups[value_bound.of(groups) * prices.scale > paid])
        some = Columns(groups, column_values(packing, groups))
        # A job that must be covered may have a negative price, at which what is not allowed pays.
        pays = prices.reduced_cost(packing, groups, some.value) > tolerance
        parts.append(some.take(pays & (some.value != NOT_ALLOWED)))
    return concatenate(*parts)


def _exchange_neighbours(base: Ints, jobs: Ints, most: int) -> Ints:
    """Return the columns with each of these jobs, or none, in each place."""
    groups = np.repeat(base, len(jobs) * most, axis=0)
    place = np.tile(np.repeat(np.arange(most), len(jobs)), len(base))
    groups[np.arange(len(groups)), place] = np.tile(jobs, len(base) * most)
    return groups


def _unique_groups(packing: PackingProblem, groups: Ints) -> Ints:
    """Return distinct groups for which there are enough jobs."""
    groups = sort_members(groups[(groups != ALONE).any(axis=1)])
    _, first = np.unique(
        (groups + 1) @ (packing.classes + 1) ** np.arange(MAX_MEMBERS), return_index=True
    )
    groups = groups[first]
    often = (groups[:, :, None] == groups[:, None, :]).sum(axis=2)
    enough = (groups == ALONE) | (often <= packing.count[groups])
    unique: Ints = groups[enough.all(axis=1)]
    return unique
