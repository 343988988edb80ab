"""Groups as Muri forms them: rounds of matching, merged only while the cluster is over-subscribed.

Written from the description in Zhao et al., "Multi-Resource Interleaving for Deep Learning
Training", SIGCOMM 2022, section 4. Jobs are walked in an order, and whenever one would still fit an
empty cluster, it and the next ones of its GPU count are admitted, as many as a group may have. The
admitted jobs of each GPU count are matched in pairs by weight, the pairs again, and so on, until
what is left fits; a group that is slower than taking turns is dissolved.

Where the description leaves a choice, it is made in favour of the method: of the merges that are
more than what is needed, those that cost most are not made; a dissolved group leaves its place to
one of its members, and whatever fits in the end runs alone. `all_settings` lists further choices.
Never is more given out than there is: jobs count when their tasks have found hosts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import networkx as nx
import numpy as np

from benchmarks.groups import Group, Queue, measure
from placewright.array_types import Ints

__all__ = ["PAIRINGS", "Pairing", "Settings", "all_settings", "alone", "grouped"]

Pairing: TypeAlias = Callable[[int, Ints, Ints], Iterable[tuple[int, int]]]

IN_A_GROUP = 4
ROUNDS = 4
"""At most; two make groups of four, later ones find partners for what was left over."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What the description leaves open.

    `weight` of a pair: efficiency of the merged group, or its throughput. `order` in which jobs are
    admitted: as the round has them, or those that ask the fewest GPUs first. For each that fits
    `admitted` are, so that groups need not have four. `without_losses`: groups slower than taking
    turns are not merged in the first place.
    """

    weight: Literal["gamma", "throughput"]
    order: Literal["arrival", "fewest"] = "arrival"
    admitted: int = IN_A_GROUP
    without_losses: bool = False


def all_settings(*, described: bool) -> list[Settings]:
    """Return the settings of the description with both weights, or all settings."""
    if described:
        return [Settings("gamma"), Settings("throughput")]
    return [
        Settings(weight, order, admitted, without_losses)
        for weight in ("gamma", "throughput")
        for order in ("arrival", "fewest")
        for admitted in range(1, IN_A_GROUP + 1)
        for without_losses in (False, True)
    ]


def blossom(number: int, pairs: Ints, weights: Ints) -> Iterator[tuple[int, int]]:
    """Match some of `number` nodes so that the weights (pairs,) of `pairs` (pairs, 2) add up."""
    graph: nx.Graph[int] = nx.Graph()
    graph.add_nodes_from(range(number))
    graph.add_weighted_edges_from(
        (u, v, weight) for (u, v), weight in zip(pairs.tolist(), weights.tolist(), strict=True)
    )
    for u, v in sorted(nx.max_weight_matching(graph)):
        yield min(u, v), max(u, v)


def heaviest_first(number: int, pairs: Ints, weights: Ints) -> Iterator[tuple[int, int]]:
    """Match as `blossom` does, but greedily: pairs by falling weight."""
    free = np.ones(number, dtype=bool)
    for u, v in pairs[np.argsort(-weights, kind="stable")].tolist():
        if free[u] and free[v]:
            free[[u, v]] = False
            yield u, v


PAIRINGS: Mapping[str, Pairing] = {"matching": blossom, "greedy": heaviest_first}


def grouped(queue: Queue, settings: Settings, pairing: Pairing) -> list[Group]:
    """Return the groups, and jobs alone, that run; all of them fit the hosts."""
    order = np.arange(len(queue.gpus))
    if settings.order == "fewest":
        order = np.argsort(queue.gpus, kind="stable")
    groups: list[Group] = [(job,) for job in _admitted(queue, order.tolist(), settings.admitted)]
    for _ in range(ROUNDS):
        if queue.fits(groups):
            break
        merges = _merges(queue, groups, settings, pairing)
        if not merges:
            break
        groups = _merged(queue, groups, merges)
    return _running(queue, groups)


def alone(queue: Queue, running: Sequence[Group] = ()) -> list[Group]:
    """Fill the hosts beside what runs with jobs alone, the most weight per GPU first."""
    taken = {job for group in running for job in group}
    order = np.argsort(-queue.weight / queue.gpus, kind="stable")
    return _filled(queue, running, [(job,) for job in order.tolist() if job not in taken])


def _admitted(queue: Queue, order: Sequence[int], together: int) -> list[int]:
    """Admit, for each job in order that fits as well, the next ones of its GPU count."""
    waiting: dict[int, list[int]] = {}
    for job in order:
        waiting.setdefault(int(queue.gpus[job]), []).append(job)
    heads: list[Group] = []
    admitted: list[int] = []
    taken: set[int] = set()
    full: set[int] = set()
    for job in order:
        gpus = int(queue.gpus[job])
        if job in taken or gpus in full:
            continue
        if not queue.fits([*heads, (job,)]):
            full.add(gpus)
            continue
        heads.append((job,))
        these = waiting[gpus][:together]
        del waiting[gpus][:together]
        admitted += these
        taken.update(these)
    return admitted


def _merges(
    queue: Queue, groups: Sequence[Group], settings: Settings, pairing: Pairing
) -> list[tuple[float, int, int]]:
    """Pair groups of each GPU count; what throughput a merge loses per GPU, and the two groups."""
    made: list[tuple[float, int, int]] = []
    gpus = queue.gpus[[group[0] for group in groups]]
    alone = measure(queue, groups).throughput
    for count in np.unique(gpus).tolist():
        here = np.flatnonzero(gpus == count)
        pairs = here[np.stack(np.triu_indices(len(here), 1), axis=1)]
        sizes = np.array([len(group) for group in groups])
        pairs = pairs[sizes[pairs].sum(axis=1) <= IN_A_GROUP]
        if not len(pairs):
            continue
        merged = measure(queue, [groups[u] + groups[v] for u, v in pairs.tolist()])
        weights = merged.gamma if settings.weight == "gamma" else merged.throughput
        kept = ~merged.lost if settings.without_losses else np.ones(len(pairs), dtype=bool)
        losses = (alone[pairs].sum(axis=1) - merged.throughput) / count
        loss_of = {(u, v): loss for (u, v), loss in zip(pairs.tolist(), losses, strict=True)}
        local = np.searchsorted(here, pairs[kept])
        for i, j in pairing(len(here), local, weights[kept]):
            u, v = int(here[i]), int(here[j])
            made.append((float(loss_of[u, v]), u, v))
    return sorted(made)


def _merged(
    queue: Queue, groups: Sequence[Group], merges: Sequence[tuple[float, int, int]]
) -> list[Group]:
    """Make the merges, or, if fewer are enough, those that lose least."""

    def after(number: int) -> list[Group]:
        gone = {i for _, u, v in merges[:number] for i in (u, v)}
        kept = [group for i, group in enumerate(groups) if i not in gone]
        return kept + [groups[u] + groups[v] for _, u, v in merges[:number]]

    few, many = 0, len(merges)
    while few < many:
        middle = (few + many) // 2
        if queue.fits(after(middle)):
            many = middle
        else:
            few = middle + 1
    return after(few)


def _running(queue: Queue, groups: Sequence[Group]) -> list[Group]:
    """Dissolve groups that lose to taking turns, and fill the hosts: groups, then jobs alone."""
    found = measure(queue, groups)
    kept = [group[:1] if lost else group for group, lost in zip(groups, found.lost, strict=True)]
    value = measure(queue, kept).throughput / queue.gpus[[group[0] for group in kept]]
    running = kept
    if not queue.fits(kept):
        running = _filled(queue, [], [kept[i] for i in np.argsort(-value, kind="stable")])
    return alone(queue, running)


def _filled(queue: Queue, running: Sequence[Group], more: Iterable[Group]) -> list[Group]:
    """Add one after the other what still fits; of each size it is tried until one does not fit."""
    result = list(running)
    full: set[tuple[int, int]] = set()
    for group in more:
        asked = int(queue.tasks[group[0]]), int(queue.size[group[0]])
        if asked in full:
            continue
        if queue.fits([*result, group]):
            result.append(group)
        else:
            full.add(asked)
    return result
