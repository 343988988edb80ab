"""Replays side by side: who may be compared, who is best, and seeds that belong together."""

from __future__ import annotations

import numpy as np
import pytest

from placewright.instances.errors import InvalidInputError
from placewright.rounds.replay.files import Saved, compare

NONE = np.array([], dtype=np.int64)


def saved(policy: str, jct: float, seed: int = 0, **card: str | int) -> Saved:
    """Make a replay with one measure of time."""
    return Saved(
        folder=f"{policy}-{seed}",
        card={"policy": policy, "seed": seed, "trace_sha256": f"of {seed}", "placer": "a", **card},
        measures={"jct_mean_s": jct, "allocation": jct, "deadlines_met": jct},
        by_size={},
        by_tenant={},
        submit_us=NONE,
        gpus=NONE,
        start_us=NONE,
        end_us=NONE,
        isolated_us=NONE,
        samples=NONE.reshape(-1, 5),
    )


def test_the_best_has_least_time_and_most_deadlines_and_allocation_has_none() -> None:
    found = compare([saved("a", 2), saved("b", 1), saved("c", 2)])
    assert [group.name for group in found.groups] == ["a", "b", "c"]
    assert found.best("jct_mean_s") == {1}
    assert found.best("deadlines_met") == {0, 2}
    assert found.best("allocation") == frozenset()
    assert compare([saved("a", 2), saved("b", 2)]).best("jct_mean_s") == frozenset()
    assert found.differing == ("policy",)


def test_seeds_are_one_group_and_paired_with_those_of_another() -> None:
    runs = [saved("a", 10 + 40 * seed, seed) for seed in (2, 0, 1)]
    runs += [saved("b", 11 + 40 * seed, seed) for seed in range(3)]
    found = compare(runs)
    assert [group.seeds for group in found.groups] == [(0, 1, 2), (0, 1, 2)]
    above = found.above_first("jct_mean_s", 1)
    assert above is not None
    assert (above.mean, above.half_width) == pytest.approx((1, 0))
    alone = found.groups[1].value("jct_mean_s")
    assert alone is not None
    assert (alone.mean, alone.half_width) == pytest.approx((51, 4.303 * 40 / np.sqrt(3)))
    assert compare(runs[:-1]).above_first("jct_mean_s", 1) is None


@pytest.mark.parametrize(
    ("card", "said"),
    [
        ({"placer": "z"}, "b-0/summary.json: card.placer: 'z': expected 'a', as in a-0.*any-card"),
        ({"trace_sha256": "x"}, "card.trace_sha256: 'x'"),
        ({"new": 1}, "card.new: 1: expected None"),
    ],
)
def test_other_assumptions_are_refused_unless_asked_for(
    card: dict[str, str | int], said: str
) -> None:
    runs = [saved("a", 1), saved("b", 2, **card)]
    with pytest.raises(InvalidInputError, match=said):
        compare(runs)
    assert compare(runs, any_card=True).differing == ("policy", *card)


def test_name_of_the_trace_and_version_may_differ() -> None:
    first, other = (
        saved("a", 1, trace="x", placewright="1"),
        saved("b", 2, trace="y", placewright="2"),
    )
    assert len(compare([first, other]).groups) == 2


def test_the_same_replay_twice_is_refused() -> None:
    with pytest.raises(InvalidInputError, match=r"card.seed: 0: expected another seed"):
        compare([saved("a", 1), saved("a", 1)])
    with pytest.raises(InvalidInputError, match=r"card.seed: 0: expected another seed"):
        compare([saved("a", 1), saved("a", 1)], any_card=True)


def test_one_policy_twice_is_named_by_what_differs() -> None:
    runs = [saved("a", 1), saved("a", 2, placer="z"), saved("b", 1)]
    names = [group.name for group in compare(runs, any_card=True).groups]
    assert names == ["a, placer a", "a, placer z", "b"]
