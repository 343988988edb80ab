"""Replays side by side: which may stand in one table, which is best, and over seeds how surely."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from placewright.instances.errors import InvalidInputError
from placewright.rounds.replay.measures import Interval, interval, paired
from placewright.rounds.replay.outputs import SUMMARY
from placewright.rounds.replay.saved import Assumption, Card, Saved

COMPARED = ("policy", "seed")
"""Assumptions that are what a comparison is about."""

UNLIKE = ("trace", "placewright")
"""Assumptions that may differ: a trace is known by its sha256, not by the name of its file."""

FEWER_IS_BETTER = frozenset(
    {
        "unfinished",
        "jct_mean_s",
        "jct_p50_s",
        "jct_p90_s",
        "jct_p99_s",
        "wait_mean_s",
        "wait_p50_s",
        "wait_p90_s",
        "wait_p99_s",
        "bounded_slowdown_mean",
        "rho_mean",
        "rho_worst",
        "stops_per_job",
        "moves_per_job",
        "value_missed",
        "makespan_s",
        "overhead_gpu_s",
        "lost_gpu_s",
    }
)
MORE_IS_BETTER = frozenset({"deadlines_met"})
"""Of all other measures neither is better: a high allocation may be overhead."""


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """Replays that differ in their seed alone, by seed; most groups have one.

    Parameters
    ----------
    name
        The policy, and where another group has the same one, in what they differ.
    runs
        At least one.
    """

    name: str
    runs: tuple[Saved, ...]

    @property
    def seeds(self) -> tuple[int | float | str | bool | None, ...]:
        """The seed of each run."""
        return tuple(run.card["seed"] for run in self.runs)

    def value(self, measure: str) -> Interval | None:
        """Return a measure over the seeds; None if a run does not have it."""
        values = [run.measures[measure] for run in self.runs if measure in run.measures]
        return interval(np.array(values)) if len(values) == len(self.runs) else None


@dataclass(frozen=True, slots=True, eq=False)
class Comparison:
    """Groups side by side."""

    groups: tuple[Group, ...]

    @property
    def keys(self) -> tuple[str, ...]:
        """All assumptions that some card has."""
        runs = (run for group in self.groups for run in group.runs)
        return tuple(dict.fromkeys(key for run in runs for key in run.card))

    @property
    def differing(self) -> tuple[str, ...]:
        """The assumptions in which the groups differ; over its seeds each may have several."""
        return tuple(key for key in self.keys if len(set(map(repr, self.assumed(key)))) > 1)

    @property
    def measures(self) -> tuple[str, ...]:
        """All measures that some group has, in the order of the summaries."""
        return tuple(dict.fromkeys(key for group in self.groups for key in group.runs[0].measures))

    def assumed(self, key: str) -> tuple[tuple[Assumption, ...], ...]:
        """Return what each group assumes, once where its seeds agree."""
        return tuple(
            tuple(dict.fromkeys(run.card.get(key) for run in group.runs)) for group in self.groups
        )

    def best(self, measure: str) -> frozenset[int]:
        """Return the numbers of the groups that are best; none if all are equal or none is."""
        if measure not in FEWER_IS_BETTER | MORE_IS_BETTER:
            return frozenset()
        found = [group.value(measure) for group in self.groups]
        means = {number: one.mean for number, one in enumerate(found) if one is not None}
        if len(set(means.values())) < 2:
            return frozenset()
        best = (max if measure in MORE_IS_BETTER else min)(means.values())
        return frozenset(number for number, mean in means.items() if mean == best)

    def above_first(self, measure: str, number: int) -> Interval | None:
        """Return how much a group is above the first one, seed by seed.

        None if they do not have two seeds or more, the same ones, or one lacks the measure.
        """
        first, other = self.groups[0], self.groups[number]
        if len(first.runs) < 2 or first.seeds != other.seeds:
            return None
        both = [
            np.array([run.measures.get(measure, np.nan) for run in group.runs])
            for group in (first, other)
        ]
        return None if np.isnan(both).any() else paired(both[0], both[1])


def compare(runs: Sequence[Saved], *, any_card: bool = False) -> Comparison:
    """Put replays side by side, those that differ in their seed alone as one group.

    Raises
    ------
    InvalidInputError
        If assumptions differ that make their measures incomparable, unless `any_card`; or two are
        the same replay.
    """
    apart = ("seed", *UNLIKE) if any_card else ("seed", "trace_sha256", *UNLIKE)
    grouped: dict[tuple[tuple[str, str], ...], list[Saved]] = {}
    for run in runs:
        grouped.setdefault(_key(run.card, apart), []).append(run)
    groups = [tuple(sorted(group, key=_seed)) for group in grouped.values()]
    for group in groups:
        _refuse_twice(group)
    if not any_card:
        for run in runs[1:]:
            _refuse_other_card(runs, run)
    names = _names([group[0] for group in groups])
    named = tuple(Group(name, group) for name, group in zip(names, groups, strict=True))
    return Comparison(named)


def _names(runs: Sequence[Saved]) -> list[str]:
    """Return the policies, where one is there twice with what differs, or else with the folder."""
    cards = [run.card for run in runs]
    keys = [key for key in _differing(cards) if key not in (*COMPARED, *UNLIKE, "trace_sha256")]
    policies = [str(card["policy"]) for card in cards]
    names = [
        ", ".join([policy, *(f"{key} {card.get(key)}" for key in keys)])
        if policies.count(policy) > 1
        else policy
        for policy, card in zip(policies, cards, strict=True)
    ]
    return [
        f"{policy} ({run.folder})" if names.count(name) > 1 else name
        for policy, name, run in zip(policies, names, runs, strict=True)
    ]


def _key(card: Card, without: Sequence[str]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((key, repr(value)) for key, value in card.items() if key not in without))


def _seed(run: Saved) -> int:
    seed = run.card["seed"]
    return seed if isinstance(seed, int) else 0


def _refuse_twice(group: Sequence[Saved]) -> None:
    for before, run in pairwise(group):
        if before.card["seed"] == run.card["seed"]:
            raise InvalidInputError(
                f"expected another seed or policy than {before.folder} has",
                file=f"{run.folder}/{SUMMARY}",
                path=("card", "seed"),
                value=run.card["seed"],
            )


def _refuse_other_card(runs: Sequence[Saved], run: Saved) -> None:
    """Refuse a run whose assumptions are not those of the first one, and of those of its seed."""
    first = runs[0]
    same_seed = next(one for one in runs if one.card["seed"] == run.card["seed"])
    for key in dict.fromkeys((*first.card, *run.card)):
        if key in COMPARED or key in UNLIKE:
            continue
        other = same_seed if key == "trace_sha256" else first
        if run.card.get(key) != other.card.get(key):
            raise InvalidInputError(
                f"expected {other.card.get(key)!r}, as in {other.folder}; with other assumptions "
                "measures are comparable only if you say so (--any-card)",
                file=f"{run.folder}/{SUMMARY}",
                path=("card", key),
                value=run.card.get(key),
            )


def _differing(cards: Sequence[Card]) -> tuple[str, ...]:
    keys = dict.fromkeys(key for card in cards for key in card)
    return tuple(key for key in keys if len({repr(card.get(key)) for card in cards}) > 1)
