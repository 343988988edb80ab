"""Set packing: job groups of most value, by the method that suits classes and columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from placewright.array_types import Floats, Ints
from placewright.formulations.interleaving import parameters
from placewright.formulations.interleaving.problem.packing_problem import (
    ALONE,
    MAX_MEMBERS,
    Grouping,
    GroupingBound,
    PackingProblem,
    pad_members,
    periods,
    sort_members,
)
from placewright.formulations.interleaving.set_packing.column_generation import (
    solve_by_column_generation,
)
from placewright.formulations.interleaving.set_packing.columns import (
    AggregatedProblem,
    Columns,
    by_size,
    concatenate,
    count_columns,
    enumerate_columns,
    merge_classes,
    merge_weights,
    single_values,
    values_by_class,
    weights,
    with_values,
)
from placewright.formulations.interleaving.set_packing.integer_program import (
    Held,
    SetPackingProgram,
    greedy,
    improve_by_exchange,
    solve_program,
    solve_relaxation,
    solve_restricted,
)
from placewright.formulations.session import Session
from placewright.solver import Status
from placewright.solver.certify import SCALE

# Templates: groups of profiles, whose places any classes of these profiles may take.
#
# A group's period depends on profiles alone. Its members may differ in all else: weight, speed, use
# of rows, whether they must be covered. So few profiles have few templates, however many classes
# there are; and at given duals the best column of a template has the best class in each place.


Number = TypeVar("Number", np.int64, np.float64)


@dataclass(frozen=True, slots=True, eq=False)
class Profiles:
    """The profiles of a packing problem."""

    # Profiles as classes; weight, speed and rows are those of some class of the profile.
    packing: PackingProblem
    of: Ints  # (classes,): The profile of each class

    @classmethod
    def of_problem(cls, packing: PackingProblem) -> Profiles:
        """Find the profiles.

        Classes with a `separation_key` have one of their own. So have those that must be covered,
        unless that makes too many templates: their prices may be negative, and a bound that puts
        one of them in several places of a template is poor.
        """
        number = packing.separation_key()
        own_profile = np.where(
            packing.must_cover, packing.classes + 1 + np.arange(packing.classes), number
        )
        profiles = cls._by_number(packing, own_profile)
        return (
            profiles
            if profiles.templates <= parameters.PARAMETERS.max_templates
            else cls._by_number(packing, number)
        )

    @classmethod
    def _by_number(cls, packing: PackingProblem, number: Ints) -> Profiles:
        """Return profiles shared by classes of one profile and one number."""
        keys = [
            number,
            packing.bucket,
            packing.iteration,
            packing.memory,
            packing.max_period(),
            *packing.stages.T,
        ]
        _, first, of = np.unique(np.vstack(keys).T, axis=0, return_index=True, return_inverse=True)
        return cls(packing.aggregate(first, of.reshape(-1)), of.reshape(-1))

    @property
    def templates(self) -> int:
        """Upper bound of the number of templates."""
        return count_columns(self.packing) - self.packing.classes


@dataclass(frozen=True, slots=True, eq=False)
class _Places:
    """The places for one profile, and who may fill them."""

    # template, place, turn: (places,): Where they are; the turn of the second place for a profile
    # in its template is 1.
    template: Ints
    place: Ints
    turn: Ints
    period: Ints  # (places,): Index of the template's period among the different ones
    # (candidates,): Classes of the profile, each as often as a template could hold it.
    candidates: Ints
    value: Ints  # (different periods, candidates)


@dataclass(frozen=True, slots=True, eq=False)
class Templates:
    """All templates of a packing problem."""

    members: Ints  # (templates, 4): Profiles in ascending order, `ALONE` after the last one
    # bucket, size, value: (templates,): Bucket, number of places, and the value of a template with
    # any members.
    bucket: Ints
    size: Ints
    value: Ints
    places: tuple[_Places, ...]

    @classmethod
    def of_problem(cls, packing: PackingProblem, profiles: Profiles) -> Templates:
        """Return the templates of the profiles, with each class's value in each place."""
        packed = profiles.packing
        # If every profile must be covered, no group is left out for its small value.
        columns = enumerate_columns(
            replace(packed, must_cover=np.ones(packed.classes, dtype=np.bool_))
        )
        columns = columns.take(columns.members[:, 1] != ALONE)
        members = columns.members
        present = members != ALONE
        size = present.sum(axis=1)
        period = np.zeros(len(members), dtype=np.int64)
        for some, group in by_size(members):
            period[some] = periods(packed, group)
        turn = np.zeros_like(members)
        for k in range(1, MAX_MEMBERS):
            again = members[:, k] == members[:, k - 1]
            turn[:, k] = np.where(again, turn[:, k - 1] + 1, 0)
        shared = packing.rules.objective == "efficiency"
        speed = (0 if shared else 1) * packing.speed * packing.iteration
        places = []
        for profile in range(packed.classes):
            template, place = np.nonzero(members == profile)
            classes = np.flatnonzero(profiles.of == profile)
            candidates = np.repeat(classes, packing.count[classes].clip(max=MAX_MEMBERS))
            different, index = np.unique(period[template], return_inverse=True)
            value = speed[candidates] // different[:, None] * weights(packing)[candidates]
            places.append(_Places(template, place, turn[template, place], index, candidates, value))
        fixed = columns.value if shared else np.zeros(len(members), dtype=np.int64)
        return cls(members, packed.bucket[members[:, 0]], size, fixed, tuple(places))

    def __len__(self) -> int:
        return len(self.size)

    def fill(self, cost: NDArray[Number]) -> tuple[NDArray[Number], Ints]:
        """Return the best column of each template at given costs of the classes.

        `cost` (classes,).

        Returns
        -------
        earned : (templates, 4)
            What each place earns so, 0 where there is none.
        chosen : int64 (templates, 4)
            Who fills it: no class more often than it has jobs, ascending, `ALONE` last.
        """
        earned = np.zeros(self.members.shape, dtype=cost.dtype)
        chosen = np.full_like(self.members, ALONE)
        for at in self.places:
            if not len(at.template):
                continue
            gain = at.value - cost[at.candidates]
            best = np.argsort(-gain, axis=1, kind="stable")[:, :MAX_MEMBERS]
            who = best[at.period, at.turn]
            earned[at.template, at.place] = gain[at.period, who]
            chosen[at.template, at.place] = at.candidates[who]
        return earned, sort_members(chosen)

    def max_earned(self, cost: Ints) -> Ints:
        """Return the largest gain in each place, int64 (templates, 4).

        Whether it is in another place of the template, too, is not asked.
        """
        earned = np.zeros(self.members.shape, dtype=np.int64)
        for at in self.places:
            if len(at.template):
                gain = (at.value - cost[at.candidates]).max(axis=1)
                earned[at.template, at.place] = gain[at.period]
        return earned

    def least_costs(self, price: Ints, own: Ints) -> Ints:
        """Return the least costs at which no class gains more than the price of a place.

        `price` (templates, 4): what each place asks for. `own` (classes,): what each class earns
        elsewhere: the least cost there is.
        """
        cost = own.copy()
        for at in self.places:
            if not len(at.template):
                continue
            least = np.full(len(at.value), np.iinfo(np.int64).max)
            np.minimum.at(least, at.period, price[at.template, at.place])
            np.maximum.at(cost, at.candidates, (at.value - least[:, None]).max(axis=0))
        return cost


# Column generation for many classes of few profiles: which classes fill the places of templates.
#
# The program of `integer_program.py` has a column for each multiset of classes. Here it begins
# with few, and its duals, y of classes and p of rows, price what is missing: a template of bucket
# b filled by classes c in places i pays if
#
#     value + sum_i value(i, c_i)  >  sum_r p_r per_group[r, b]
#                                     + sum_i ( y[c_i] + sum_r p_r per_member[r, c_i] )
#
# so each place may choose for itself. Where nothing pays, the relaxation is solved over all
# columns.
#
# The bound is proven separately, in integers, for any prices p >= 0 (weak duality). Let the
# places of each template ask for prices that add up to what its columns cost less their fixed
# value; then any y that leaves no class a gain in any place, nor on its own, is a point of the
# dual:
#
#     bound  =  sum_c y[c] count(c) + sum_r p_r limit(r)
#
# It lets classes be those of all weights, where the program had but a few.


MAX_PRICE = 2.0**60
"""Beyond this a price of a row is not used."""


@dataclass(frozen=True, slots=True, eq=False)
class Duals:
    """Duals of a template program: per job of each class, and per unit of each row."""

    classes: Floats
    rows: Floats

    def divided(self, unit: int) -> Duals:
        """Return the duals in a larger unit."""
        return Duals(self.classes / unit, self.rows / unit)


def solve_by_templates(
    fine: AggregatedProblem, profiles: Profiles, session: Session
) -> Iterator[Grouping | GroupingBound]:
    """Yield groupings of the original jobs, and a certified bound over all columns.

    `profiles` are those of its packing problem.
    """
    tuning = parameters.PARAMETERS
    coarse = merge_weights(fine, tuning.num_template_classes)
    columns, found_duals = generate_columns(coarse.packing, session)
    if found_duals is not None:
        duals = found_duals.divided(coarse.unit)
        bound = certified_bound(fine, coarse, Templates.of_problem(fine.packing, profiles), duals)
        yield GroupingBound(bound, certified=True)
    gap = tuning.template_mip_gap_rel if coarse is fine else tuning.merged_template_mip_gap_rel
    # Where most jobs have a class of their own, the best columns are hardly among those generated.
    mostly_distinct = 2 * fine.packing.classes > int(fine.packing.count.sum())
    for found in solve_restricted(
        coarse.packing,
        columns,
        session,
        gap=gap,
        seconds=tuning.template_mip_seconds,
    ):
        grouping = coarse.disaggregate(found)
        if mostly_distinct and found.source != "greedy":
            better = improve_by_exchange(
                fine.original, with_values(fine.original, grouping.members), session
            )
            grouping = Grouping(better.members, int(better.value.sum()), found.source)
        yield grouping


def generate_columns(packing: PackingProblem, session: Session) -> tuple[Columns, Duals | None]:
    """Column generation: return the columns of the last restricted master, and its duals."""
    profiles = Profiles.of_problem(packing)
    templates = Templates.of_problem(packing, profiles)
    singles = np.arange(packing.classes, dtype=np.int64)[:, None]
    columns = with_values(packing, pad_members(singles))
    most = float(columns.value.max(initial=1))
    duals = _initial_duals(packing, profiles, session)
    known: set[bytes] = set()
    values: list[float] = []
    for _ in range(parameters.PARAMETERS.max_template_iterations):
        if duals is None or _stalled(values):
            break
        earned, chosen = templates.fill(duals.classes + duals.rows @ packing.per_member)
        price = (duals.rows @ packing.per_group)[templates.bucket]
        gain = earned.sum(axis=1) + templates.value - price
        # The first prices are a guess: then templates are filled whether they pay or not.
        pays = gain > (parameters.PARAMETERS.min_template_gain_rel * most if known else -np.inf)
        best = best_per_class(chosen[pays], gain[pays])
        new_columns = [m for m in chosen[pays][best] if m.tobytes() not in known]
        if known and not new_columns:
            break
        known.update(m.tobytes() for m in (*columns.members, *new_columns))
        if new_columns:
            columns = concatenate(columns, with_values(packing, np.array(new_columns)))
        duals = _solve_duals(SetPackingProgram.of(packing, columns), session) or duals
        values.append(float(duals.classes @ packing.count + duals.rows @ packing.limit))
    return columns, duals


def _stalled(values: Sequence[float]) -> bool:
    """Whether the value of the last programs hardly changes."""
    return len(values) > parameters.PARAMETERS.template_stall_iterations and values[-1] - values[
        -1 - parameters.PARAMETERS.template_stall_iterations
    ] < parameters.PARAMETERS.template_stall_rel * abs(values[-1])


def best_per_class(members: Ints, gain: Floats) -> Ints:
    """Return the columns that are among the best of some class in them, by index."""
    order = np.argsort(-gain, kind="stable")
    column, place = np.nonzero(members[order] != ALONE)
    classes = members[order][column, place]
    by_class = np.argsort(classes, kind="stable")
    rank = np.arange(len(classes)) - np.searchsorted(classes[by_class], classes[by_class])
    return order[
        np.unique(column[by_class][rank < parameters.PARAMETERS.max_template_columns_per_class])
    ]


def certified_bound(
    fine: AggregatedProblem, coarse: AggregatedProblem, templates: Templates, duals: Duals
) -> int:
    """Return a bound of the problem, given duals of one with fewer weights.

    `templates`: of the fine packing problem. `duals`: of the coarse packing problem; anything at
    all gives a bound, good ones a good one.
    """
    packing = fine.packing
    prices = _prices(packing, duals.rows)
    cost = _row_cost(prices, packing.per_member)
    price = _row_cost(prices, packing.per_group)
    rows = sum(p * n for p, n in zip(prices, packing.limit.tolist(), strict=True))
    own = single_values(packing)
    own[packing.bucket != ALONE] -= price[packing.bucket[packing.bucket != ALONE]]
    asked = price[templates.bucket] - templates.value
    value = _interpolate_weights(fine, coarse, duals.classes) + cost
    at = np.arange(4) < templates.size[:, None]
    bounds = []
    for _ in range(parameters.PARAMETERS.max_place_price_passes):
        # What a place earns is what it may ask for, less a share of what is not asked of all.
        earned = templates.max_earned(value)
        over, rest = np.divmod(earned.sum(axis=1) - asked, templates.size)
        share = over[:, None] + (np.arange(4) < rest[:, None])
        value = templates.least_costs(np.where(at, earned - share, 0), own)
        value = np.where(packing.must_cover, value, value.clip(min=cost))
        jobs = sum(
            y * n for y, n in zip((value - cost).tolist(), packing.count.tolist(), strict=True)
        )
        bounds.append(jobs + -(-rows // SCALE))
    return int(min(bounds))


def _initial_duals(packing: PackingProblem, profiles: Profiles, session: Session) -> Duals | None:
    """Return duals as if all jobs of a profile were alike, scaled to each job's value."""
    own = single_values(packing).astype(np.float64)
    jobs, total, heavy = np.zeros((3, profiles.packing.classes))
    np.add.at(jobs, profiles.of, packing.count)
    np.add.at(total, profiles.of, packing.count * own)
    np.add.at(heavy, profiles.of, packing.count * weights(packing))
    weight = np.rint(heavy / jobs.clip(min=1)).astype(np.int64)
    by_profile = replace(
        profiles.packing,
        rules=replace(packing.rules, class_weights=(1,)),
        weight=weight,
        priority_class=np.zeros_like(weight),
        must_cover=np.zeros(len(jobs), dtype=np.bool_),
    )
    duals = _solve_duals(SetPackingProgram.of(by_profile, enumerate_columns(by_profile)), session)
    if duals is None:
        return None
    mean = (total / jobs.clip(min=1)).clip(min=1.0)
    return Duals(duals.classes[profiles.of] * own / mean[profiles.of], duals.rows)


def _solve_duals(program: SetPackingProgram, session: Session) -> Duals | None:
    """Return the duals of the relaxation.

    Where these columns cannot cover all who must be covered, covering them gains more than
    anything else instead, so that there is a point; the price of such a job is then less by as
    much.
    """
    packing, arrays = program.packing, program.relaxation()
    # At a bound of its own a column's price would be missing from those of its classes.
    arrays = replace(arrays, upper=arrays.upper + 1)
    bonus: Floats = np.zeros(packing.classes)
    outcome = solve_relaxation(arrays, session)
    if outcome is not None and outcome.status is Status.INFEASIBLE:
        bonus[packing.must_cover] = parameters.PARAMETERS.template_cover_bonus * float(
            program.columns.value.max(initial=1)
        )
        members = program.columns.members
        extra = np.where(members != ALONE, bonus[members], 0.0).sum(axis=1)
        cost = arrays.cost + extra / program.unit
        anyone = np.full(arrays.rows, -np.inf)
        outcome = solve_relaxation(replace(arrays, cost=cost, row_lower=anyone), session)
    if outcome is None or outcome.row_duals is None:
        return None
    duals = outcome.row_duals * program.unit
    return Duals(duals[: packing.classes] - bonus, duals[packing.classes :])


def _prices(packing: PackingProblem, rows: Floats) -> list[int]:
    """Return the duals of rows times `SCALE`; 0 where products could exceed 64 bits."""
    taken = np.abs(np.hstack([packing.per_group, packing.per_member])).max(axis=1, initial=0)
    usable = (rows > 0) & (rows * taken < MAX_PRICE)
    return [round(price * SCALE) for price in np.where(usable, rows, 0.0).tolist()]


def _row_cost(prices: list[int], amounts: Ints) -> Ints:
    """Return the cost of amounts of the rows, rounded down: int64 (columns of `amounts`,)."""
    total = np.array(prices, dtype=object) @ amounts.astype(object)
    return np.array([cost // SCALE for cost in total.tolist()], dtype=np.int64)


def _interpolate_weights(fine: AggregatedProblem, coarse: AggregatedProblem, value: Floats) -> Ints:
    """Return duals of all weights, interpolated from the merged weights of their family."""
    result = np.zeros(fine.packing.classes)
    for family in np.unique(fine.family).tolist():
        few, many = coarse.family == family, fine.family == family
        # Beyond the heaviest of the few, the value of a job grows as if it ran alone.
        weight = np.append(coarse.packing.weight[few] / coarse.unit, np.inf)
        weight[-1] = max(fine.packing.weight[many].max(), weight[-2] + 1.0)
        of_class = fine.packing.rules.class_weights[fine.packing.priority_class[many][0]]
        grown = (weight[-1] - weight[-2]) * of_class * fine.packing.best[many].max()
        known_values = np.append(value[few], value[few][-1] + grown)
        result[many] = np.interp(fine.packing.weight[many], weight, known_values)
    return np.rint(result).astype(np.int64)


def solve_set_packing(
    packing: PackingProblem, session: Session
) -> Iterator[Grouping | GroupingBound]:
    """Yield groupings, each of more value, and bounds, each tighter.

    A packing problem may have one class per job: classes that are alike are merged first.
    """
    best: int | None = None
    best_bound: int | None = None
    for found in _solve(packing, session):
        if isinstance(found, Grouping):
            if best is None or found.value > best:
                best = found.value
                yield found
        elif best_bound is None or found.value < best_bound:
            best_bound = found.value
            yield found


def _solve(packing: PackingProblem, session: Session) -> Iterator[Grouping | GroupingBound]:
    tuning = parameters.PARAMETERS
    aggregated = merge_classes(packing)
    if packing.peak.any() and count_columns(aggregated.packing) > tuning.min_template_columns:
        # Prices leave peaks out, and without them more classes are alike.
        aggregated = merge_classes(replace(packing, peak=np.zeros_like(packing.peak)))
    profiles = Profiles.of_problem(aggregated.packing)
    number = count_columns(aggregated.packing)
    few_templates = profiles.templates <= min(
        tuning.max_templates,
        number // tuning.min_columns_per_template,
    )
    if few_templates and number > tuning.min_template_columns:
        yield from solve_by_templates(aggregated, profiles, session)
        return
    if number <= tuning.max_enumerated_columns:
        search = solve_program(aggregated.packing, enumerate_columns(aggregated.packing), session)
    else:
        search = solve_by_column_generation(aggregated.packing, session)
    for found in search:
        yield aggregated.disaggregate(found) if isinstance(found, Grouping) else found


# Set packing by priority class: the highest class first, then the next (lexicographic).
#
# Up to `max_enumerated_columns` columns there is one program per class, with a row for each higher
# class that holds the value reached:
#
#     max  sum_q value(k, q) x_q
#     s.t. sum_q value(i, q) x_q >= held(i)      for each class i before k
#          the rows of the packing problem
#
# With more columns classes are weighted, and a bound B of the weighted sum of the classes up to k
# bounds class k by weak duality, whatever the higher ones have reached:
#
#     w(k) value(k)  <=  B - sum over i before k of w(i) value(i)


def solve_by_class(packing: PackingProblem, session: Session) -> Iterator[Grouping | GroupingBound]:
    """Yield groupings, each lexicographically of more value by class, and bounds of each class."""
    number = len(packing.rules.class_weights)
    if number == 1:
        yield from solve_set_packing(packing, session)
        return
    best: tuple[int, ...] | None = None
    programs = _ClassPrograms.of(packing)
    for k in range(number):
        if k and best is None:
            return
        if programs is None:
            part = session.part(1 / (number - k))
            steps = _solve_weighted(packing, k, part)
        else:
            steps = programs.solve(k, best or (), session)
        for found in steps:
            if isinstance(found, GroupingBound):
                yield found
                continue
            value = class_values(packing, found)
            if best is None or value > best:
                best = value
                yield found


def bound_by_class(
    packing: PackingProblem, values: Sequence[int], session: Session, numbers: Sequence[int]
) -> Iterator[GroupingBound]:
    """Yield bounds of some classes, where those before each have at least these values."""
    programs = _ClassPrograms.of(packing)
    for k in numbers:
        if programs is None:
            steps = _solve_weighted(packing, k, session.part(1 / (numbers[-1] - k + 1)))
        else:
            steps = programs.solve(k, values, session)
        yield from (found for found in steps if isinstance(found, GroupingBound))


def class_values(packing: PackingProblem, grouping: Grouping) -> tuple[int, ...]:
    """Return the value of a grouping by priority class."""
    return tuple(values_by_class(packing, grouping.members).sum(axis=1).tolist())


class _ClassPrograms:
    """The columns of a packing problem, and its program for each priority class."""

    def __init__(self, aggregated: AggregatedProblem) -> None:
        self._aggregated = aggregated
        self._columns = enumerate_columns(aggregated.packing)
        self._values: Ints = values_by_class(aggregated.packing, self._columns.members)

    @classmethod
    def of(cls, packing: PackingProblem) -> _ClassPrograms | None:
        """Return the programs; None if there are too many columns."""
        aggregated = merge_classes(packing)
        most = parameters.PARAMETERS.max_enumerated_columns
        return cls(aggregated) if count_columns(aggregated.packing) <= most else None

    def solve(
        self, k: int, held: Sequence[int], session: Session
    ) -> Iterator[Grouping | GroupingBound]:
        """Yield groupings and bounds of a class, those before it at the values held."""
        packing, members = self._aggregated.packing, self._columns.members
        kept = [Held(self._values[i], held[i]) for i in range(k)]
        if not k:
            for grouping in greedy(SetPackingProgram.of(packing, self._columns)):
                yield self._aggregated.disaggregate(grouping)
        for found in solve_program(packing, Columns(members, self._values[k]), session, kept):
            if isinstance(found, Grouping):
                yield self._aggregated.disaggregate(found)
            else:
                yield replace(found, class_weights=(0,) * k + (1,), held=tuple(held[:k]))


def _solve_weighted(
    packing: PackingProblem, k: int, session: Session
) -> Iterator[Grouping | GroupingBound]:
    """Yield groupings and bounds of the weighted sum of the classes up to one."""
    weights = packing.rules.class_weights
    rest = (0,) * (len(weights) - k - 1)
    rules = replace(packing.rules, class_weights=(*weights[: k + 1], *rest))
    for found in solve_set_packing(replace(packing, rules=rules), session):
        if isinstance(found, Grouping):
            yield found
        else:
            yield replace(found, class_weights=weights[: k + 1])
