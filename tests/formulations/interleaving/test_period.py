"""The period of a group: enumeration, an event simulation, a linear program, and invariants."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from itertools import permutations
from math import ceil, prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from examples import examples
from placewright.formulations.interleaving.problem.packing_problem import (
    best_offsets,
    contended,
    slots_of,
)
from placewright.instances.documents.sharing import Sharing
from placewright.instances.verify.rules.interleaving import period_of
from placewright.solver import InProcess, Limits, Model

Group = Sequence[Sequence[int]]
Offsets = Sequence[int]

SHAPES = [
    *((False, 4, members) for members in (1, 2, 3, 4)),
    *((False, 3, members) for members in (2, 3)),
    *((True, 3, members) for members in (1, 2, 3, 4)),
]
"""Spanning or not, resources, members."""


def plain_period(group: Group, offsets: Offsets) -> int:
    """Add up the longest stages of the slots."""
    slots = range(len(group[0]))
    return sum(
        max(job[(s + o) % len(job)] for job, o in zip(group, offsets, strict=True)) for s in slots
    )


def rows_of(group: Group, offsets: Offsets) -> Iterator[tuple[tuple[int, ...], int]]:
    """List what each job needs: which of the four slots, and how long they are together."""
    for (first, second, third), o in zip(group, offsets, strict=True):
        yield (-o % 4, (1 - o) % 4), first
        yield ((2 - o) % 4,), second
        yield ((3 - o) % 4,), third


def spanning_period(group: Group, offsets: Offsets) -> int:
    """Return the longest path around the circle in steps of one and of two slots.

    Slots can be no shorter than the longest path, and every path around of four slots is one of
    seven: all single steps, one double step of four, or two of them.
    """
    single, double = [0] * 4, [0] * 4
    for slots, need in rows_of(group, offsets):
        kind = single if len(slots) == 1 else double
        kind[slots[0]] = max(kind[slots[0]], need)
    paths = [sum(single), double[0] + double[2], double[1] + double[3]]
    paths += [double[s] + single[(s + 2) % 4] + single[(s + 3) % 4] for s in range(4)]
    return max(paths)


def periods_by_offsets(group: Group, *, spanning: bool) -> dict[Offsets, int]:
    """Return the period at every choice of distinct offsets, the first member's included."""
    period: Callable[[Group, Offsets], int] = spanning_period if spanning else plain_period
    slots = 4 if spanning else len(group[0])
    return {o: period(group, o) for o in permutations(range(slots), len(group))}


def simulate(group: Group, offsets: Offsets, *, spanning: bool) -> int:
    """Let the jobs run stage by stage until the slots repeat, and return how long a round takes.

    At each boundary some jobs begin a stage, and a boundary comes when all stages have ended that
    have to end there: that is one boundary later, or two after the stage that may span.
    """
    lasts = (2, 1, 1) if spanning else (1,) * len(group[0])
    begins = {sum(lasts[:stage]): stage for stage in range(len(lasts))}
    slots = sum(lasts)
    boundary = [0]
    due: dict[int, int] = {}
    for s in range(1000 * slots):
        for job, offset in zip(group, offsets, strict=True):
            stage = begins.get((s + offset) % slots)
            if stage is not None:
                end = s + lasts[stage]
                due[end] = max(due.get(end, 0), boundary[s] + job[stage])
        boundary.append(max(boundary[s], due.pop(s + 1, 0)))
        if s >= 3 * slots and boundary[-1] - boundary[-2] == (
            boundary[-1 - slots] - boundary[-2 - slots]
        ):
            # A slot depends on the one before it alone: from here on all is as it was.
            return boundary[-1] - boundary[-1 - slots]
    raise AssertionError("the slots never repeat")


def random_groups(seed: int, groups: int, members: int, resources: int) -> np.ndarray:
    """Draw groups of all kinds: duplicates, zeros, ties, and stages that dominate all others."""
    rng = np.random.default_rng(seed)
    stages = rng.integers(0, 1000, (groups, members, resources))
    stages[rng.random(stages.shape) < 0.2] = 0
    few = rng.random(groups) < 0.2
    stages[few] //= 200
    twins = rng.random(groups) < 0.3
    stages[twins, -1] = stages[twins, 0]
    longest = np.flatnonzero(rng.random(groups) < 0.2)
    at = rng.integers(0, members, longest.size), rng.integers(0, resources, longest.size)
    stages[longest, *at] = 10**9
    return stages


@pytest.mark.nightly(after=4)
@pytest.mark.parametrize(("spanning", "resources", "members"), SHAPES)
def test_the_period_equals_enumeration_of_all_offsets(spanning, resources, members):
    number = examples(day=2_000, nightly=10_000)
    groups = random_groups(members, number, members, resources)
    periods, offsets = best_offsets(groups, spanning=spanning)
    assert (offsets[:, 0] == 0).all()
    for group, period, chosen in zip(
        groups.tolist(), periods.tolist(), offsets.tolist(), strict=True
    ):
        every = periods_by_offsets(group, spanning=spanning)
        assert period == min(every.values())
        assert every[tuple(chosen)] == period


@pytest.mark.parametrize(("resources", "members"), [(1, 1), (2, 2), (5, 3), (6, 4), (16, 2)])
def test_any_number_of_resources_equals_enumeration(resources, members):
    groups = random_groups(7, examples(day=60, nightly=200), members, resources)
    periods, offsets = best_offsets(groups, spanning=False)
    for group, period, chosen in zip(
        groups.tolist(), periods.tolist(), offsets.tolist(), strict=True
    ):
        every = periods_by_offsets(group, spanning=False)
        assert (every[tuple(chosen)], min(every.values())) == (period, period)


def test_four_jobs_at_sixteen_resources_equal_enumeration_from_the_first_one():
    groups = random_groups(8, 5, 4, 16)
    periods, _ = best_offsets(groups, spanning=False)
    for group, period in zip(groups.tolist(), periods.tolist(), strict=True):
        rest = permutations(range(1, 16), 3)
        assert period == min(plain_period(group, (0, *others)) for others in rest)


def test_two_jobs_may_leave_a_slot_between_them():
    groups = np.array([[[9, 1, 9, 1], [1, 9, 1, 9]], [[9, 0, 1, 0], [9, 0, 1, 0]]])
    periods, offsets = best_offsets(groups, spanning=False)
    assert periods.tolist() == [20, 18]
    price_neighbours = [plain_period(groups[1].tolist(), o) for o in ((0, 1), (1, 0))]
    assert price_neighbours == [20, 20]
    assert offsets[1].tolist() == [0, 2]


@pytest.mark.parametrize(("spanning", "resources", "members"), SHAPES)
def test_the_period_is_what_a_simulation_settles_at(spanning, resources, members):
    groups = random_groups(100 + members, 150, members, resources)
    periods, offsets = best_offsets(groups, spanning=spanning)
    for group, period, chosen in zip(
        groups.tolist(), periods.tolist(), offsets.tolist(), strict=True
    ):
        assert simulate(group, chosen, spanning=spanning) == period
    for group, period in zip(groups[:30].tolist(), periods.tolist(), strict=False):
        slots = slots_of(resources, spanning=spanning)
        every = permutations(range(slots), members)
        assert min(simulate(group, o, spanning=spanning) for o in every) == period


def linear_program(group: Group, offsets: Offsets) -> int:
    """Return the least sum of four slots that holds every stage."""
    model = Model()
    model.variables("length", 4)
    model.term("period", range(4), 1.0, sense="min")
    needs = list(rows_of(group, offsets))
    rows = model.rows("stage", len(needs), lower=[need for _, need in needs])
    for row, (slots, _) in zip(rows, needs, strict=True):
        model.add(row, slots, 1.0)
    outcome = InProcess().solve("highs", model.arrays("period", relax=True), Limits(20))
    assert outcome.objective is not None
    return round(outcome.objective)


def test_spanning_is_the_optimum_of_a_linear_program():
    groups = random_groups(5, 12, 4, 3) % 10**9
    periods, _ = best_offsets(groups, spanning=True)
    for group, period in zip(groups.tolist(), periods.tolist(), strict=True):
        every = permutations(range(1, 4))
        assert period == min(linear_program(group, (0, *rest)) for rest in every)


def test_what_muri_tries_for_two_jobs_is_among_what_spanning_tries():
    groups = random_groups(6, 2000, 2, 3)
    periods, _ = best_offsets(groups, spanning=True)
    closed = []
    for (a, b), period in zip(groups.tolist(), periods.tolist(), strict=True):
        extra = max(a[0], b[1] + b[2]) + max(b[0], a[1] + a[2])
        assert spanning_period((a, b), (0, 2)) == extra
        closed.append(extra == period)
    assert 0 < sum(closed) < len(closed)


@pytest.mark.parametrize(("spanning", "resources", "members"), SHAPES)
def test_the_verifier_finds_the_same_period(spanning, resources, members):
    names = tuple(f"r{i}" for i in range(resources))
    factors = (1_310_345, 1_477_833, 1_349_754)
    sharing = Sharing(resources=names, spanning=spanning, contention=factors)
    groups = random_groups(200 + members, 200, members, resources)
    periods, offsets = best_offsets(groups, spanning=spanning)
    slower = contended(periods, (10**6, *factors)[members - 1])
    for group, period, chosen in zip(
        groups.tolist(), slower.tolist(), offsets.tolist(), strict=True
    ):
        assert period_of(group, chosen, sharing) == period


@st.composite
def groups_of(draw: st.DrawFn) -> tuple[bool, np.ndarray]:
    """Draw some groups of one shape."""
    spanning = draw(st.booleans())
    resources = 3 if spanning else draw(st.integers(1, 5))
    members = draw(st.integers(1, 4 if spanning else min(resources, 4)))
    shape = (draw(st.integers(0, 6)), members, resources)
    return spanning, draw(arrays(np.int64, shape, elements=st.integers(0, 40)))


@given(groups_of(), st.randoms(use_true_random=False))
def test_the_order_of_members_and_where_the_circle_begins_change_nothing(case, random):
    spanning, groups = case
    periods, _ = best_offsets(groups, spanning=spanning)
    order = list(range(groups.shape[1]))
    random.shuffle(order)
    assert (best_offsets(groups[:, order], spanning=spanning)[0] == periods).all()
    if not spanning:
        turned = np.roll(groups, random.randrange(groups.shape[2]), axis=2)
        assert (best_offsets(turned, spanning=False)[0] == periods).all()


@given(groups_of(), st.integers(1, 40), st.data())
def test_longer_stages_never_make_a_shorter_period(case, more, data):
    spanning, groups = case
    periods, _ = best_offsets(groups, spanning=spanning)
    if groups.size:
        longer = groups.copy()
        longer.flat[data.draw(st.integers(0, groups.size - 1))] += more
        assert (best_offsets(longer, spanning=spanning)[0] >= periods).all()
    assert (best_offsets(groups * 3, spanning=spanning)[0] == periods * 3).all()


@given(groups_of())
def test_the_period_lies_between_its_simple_bounds(case):
    spanning, groups = case
    periods, _ = best_offsets(groups, spanning=spanning)
    busy = groups.sum(axis=1)
    if spanning:
        # Two jobs may be at the first stage at a time.
        busy[:, 0] = -(-busy[:, 0] // 2)
    assert (periods >= groups.sum(axis=2).max(axis=1)).all()
    assert (periods >= busy.max(axis=1)).all()
    assert (periods <= groups.sum(axis=(1, 2))).all()


@given(groups_of())
def test_a_job_more_never_makes_a_shorter_period(case):
    spanning, groups = case
    if groups.shape[1] > 1:
        fewer, _ = best_offsets(groups[:, :-1], spanning=spanning)
        assert (best_offsets(groups, spanning=spanning)[0] >= fewer).all()


def test_the_longest_stages_are_exact():
    stages = np.full((3, 4, 16), 10**12)
    assert best_offsets(stages, spanning=False)[0].tolist() == [16 * 10**12] * 3
    assert best_offsets(stages[:, :, :3], spanning=True)[0].tolist() == [4 * 10**12] * 3


def test_of_equal_choices_the_first_is_returned():
    assert best_offsets(np.ones((1, 3, 4), dtype=np.int64), spanning=False)[1].tolist() == [
        [0, 1, 2]
    ]
    assert best_offsets(np.zeros((1, 4, 3), dtype=np.int64), spanning=True)[1].tolist() == [
        [0, 1, 2, 3]
    ]


@pytest.mark.parametrize(
    ("shape", "spanning", "words"),
    [
        ((2, 3), False, "dimensions"),
        ((2, 2, 4), True, "expected 3"),
        ((2, 0, 4), False, "0 members: expected 1 to 4"),
        ((2, 3, 2), False, "3 members: expected 1 to 2"),
        ((2, 5, 16), False, "5 members: expected 1 to 4"),
        ((2, 5, 3), True, "5 members: expected 1 to 4"),
    ],
)
def test_stages_of_another_shape_are_refused(shape, spanning, words):
    with pytest.raises(ValueError, match=words):
        best_offsets(np.ones(shape, dtype=np.int64), spanning=spanning)


@settings(max_examples=examples(day=75, nightly=300))
@given(st.lists(st.tuples(st.integers(0, 10**12), st.integers(0, 10**12)), min_size=1))
def test_contention_is_rounded_up_exactly(pairs):
    periods, factors = np.array(pairs, dtype=np.int64).T
    exact = [ceil(Fraction(prod(pair), 10**6)) for pair in pairs]
    fits = [value < 2**63 for value in exact]
    assert [v for v, ok in zip(contended(periods, factors).tolist(), fits, strict=True) if ok] == [
        v for v, ok in zip(exact, fits, strict=True) if ok
    ]


def test_one_factor_serves_all_periods():
    assert contended(np.array([0, 1, 3, 2_000_001]), 1_500_000).tolist() == [0, 2, 5, 3_000_002]
    assert contended(np.array([7]), 10**6).tolist() == [7]
