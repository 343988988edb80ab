"""Placing tied groups on the domain tree: joint levels, slices, failure domains, anti-affinity.

How many tasks of a group a domain holds is summed up the tree, with two caps: a domain limit caps
what a domain counts for, and from the slices' level upwards only whole slices count. Both caps are
those of a tree, so whatever a domain counts for can be placed there, and a group alone is placed
wherever it fits. Several groups in one domain are placed one
after the other, which may fail although a placement exists.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from placewright.array_types import Bools, Ints
from placewright.formulations.gang import parameters
from placewright.formulations.gang.placement.host_ranges import choose_hosts, host_steps
from placewright.formulations.gang.placement.placement import Placement
from placewright.formulations.gang.placement.tree_capacity import (
    NO_POOLS,
    tasks_by_level,
    tasks_in_all,
    tasks_on_tree,
)
from placewright.formulations.gang.problem.jobs import (
    NO_LEVEL,
    Choice,
    Group,
    HostRange,
    TaskPlacement,
)
from placewright.formulations.gang.problem.problem import Problem
from placewright.topology import Cluster


def place_tied_groups(
    placement: Placement, choice: Choice, within: Mapping[int, NDArray[np.bool_]] | None = None
) -> list[TaskPlacement] | None:
    """Place all groups of a tied option where they fit; None, and nothing changed, if they do not.

    `within` restricts groups, by index, to some hosts, bool (hosts,); with a joint level it is
    ignored.
    """
    tuning = parameters.PARAMETERS.placement
    open_ = placement.open_to(choice.label)
    if choice.uses:
        open_ &= placement.pools.open_to(choice, len(open_))
    if choice.joint_level == NO_LEVEL:
        return _all_groups(placement, choice, open_, within or {})
    domain = placement.problem.cluster.domain[choice.joint_level]
    for d in _joint_domains(placement, choice, open_)[: tuning.max_joint_domains]:
        puts = _all_groups(placement, choice, open_ & (domain == d), {})
        if puts is not None:
            return puts
    return None


def _domains_for_all(held: list[Ints], group: Group, level: int) -> NDArray[np.bool_]:
    """Return which domains of a level hold all tasks of a group, bool (domains,)."""
    if group.domain_limit is not None and level >= group.domain_limit.level:
        return np.zeros(len(held[level]), dtype=np.bool_)  # inside a domain that takes too few
    enough: NDArray[np.bool_] = held[level] >= group.count
    return enough


def _joint_domains(placement: Placement, choice: Choice, open_: NDArray[np.bool_]) -> list[int]:
    """Return domains of the joint level that hold each group alone, the fullest first."""
    cluster = placement.problem.cluster
    number = len(cluster.names[choice.joint_level])
    enough = np.ones(number, dtype=np.bool_)
    for group in choice.groups:
        enough &= _domains_for_all(
            _tasks_per_domain(placement, group, open_), group, choice.joint_level
        )
    free = np.bincount(
        cluster.domain[choice.joint_level], weights=placement.whole, minlength=number
    )
    found = np.flatnonzero(enough)
    ordered: list[int] = found[np.argsort(free[found], kind="stable")].tolist()
    return ordered


def _all_groups(
    placement: Placement,
    choice: Choice,
    open_: NDArray[np.bool_],
    within: Mapping[int, NDArray[np.bool_]],
) -> list[TaskPlacement] | None:
    """Place the groups of an option on open hosts, the largest first; all or none."""
    puts: list[TaskPlacement] = []
    used = np.zeros_like(open_)
    for k in sorted(range(len(choice.groups)), key=lambda k: -choice.groups[k].milli_gpu):
        there = open_ & within[k] if k in within else open_
        places = (
            _place(placement, group, k, mask)
            for group, mask in _with_hosts_of(choice, choice.groups[k], used, there)
        )
        placed = next((found for found in places if found is not None), None)
        if placed is None:
            break
        puts += placed
        used[[put.host for put in placed]] = True
    else:
        if choice.num_hosts is None or choice.num_hosts.includes(int(used.sum())):
            return puts
    for put in puts:
        placement.lift(choice.groups[put.group].shape, put)
    return None


def _with_hosts_of(
    choice: Choice, group: Group, used: Bools, open_: Bools
) -> Iterator[tuple[Group, Bools]]:
    """Yield a group, and the hosts that it may use, in the ways in which it is to be tried.

    Where all groups together are on so many hosts: on those that others have once these are
    enough, else on others, as many as are missing or may be; then wherever there is room.
    """
    asked = choice.num_hosts
    if asked is None:
        yield group, open_
        return
    number, own = int(used.sum()), group.num_hosts or HostRange(1, group.count)
    if number >= asked.least:
        yield group, open_ & used
    more = HostRange(
        max(min(asked.least - number, group.count), own.least), min(asked.most - number, own.most)
    )
    if more.least <= more.most:
        yield replace(group, num_hosts=more), open_ & ~used
    yield group, open_ & used
    yield group, open_


def _place(
    placement: Placement, group: Group, index: int, open_: NDArray[np.bool_]
) -> list[TaskPlacement] | None:
    """Place a group in the smallest domain that holds it, and there on few of its sub-domains.

    A group with a domain limit takes the fullest domains of the limit's level, unless few outer
    domains count: for gangs of one kind no other way places more of them.
    """
    cluster = placement.problem.cluster
    held, inside = _tasks_per_domain(placement, group, open_), open_
    if group.num_hosts is None and held[0].sum() < group.count:
        return None
    level, parts = 0, np.flatnonzero(held[0])
    for inner in reversed(levels_to_try(cluster, group)):
        enough = np.flatnonzero(_domains_for_all(held, group, inner))
        if len(enough):
            level, parts = inner, enough[held[inner][enough].argmin()][None]
            inside = open_ & (cluster.domain[inner] == parts[0])
            break
        if inner == group.required:
            return None
    chosen: list[tuple[int, int]] = []
    limit = group.domain_limit
    if group.num_hosts is not None:
        chosen = _on_hosts(placement, group, group.num_hosts, inside)
        if not chosen:
            return None
    elif limit is not None and limit.level >= level and _takes_fullest(placement.problem, group):
        within = open_ & np.isin(cluster.domain[level], parts)
        for part, taken in _fullest(placement, group, limit.level, within, held):
            one = np.array([part])
            _distribute(cluster, held, limit.level, one, taken, placement.whole, chosen)
    else:
        _distribute(cluster, held, level, parts, group.count, placement.whole, chosen)
    return [TaskPlacement(index, h, n, placement.put(group.shape, h, n)) for h, n in chosen]


def _on_hosts(
    placement: Placement, group: Group, asked: HostRange, open_: Bools
) -> list[tuple[int, int]]:
    """Choose open hosts for a group on so many of them; [] if none are found.

    With slices of several hosts as if their number did not matter, on all hosts and on those that
    hold an equal part of the group, and then it has to be right.
    """
    cluster, _, per_host, room = _asked(placement, group, open_)
    if group.slices is None or group.slices.level == len(cluster.levels) - 1:
        steps = host_steps(cluster, group, per_host, room)
        return choose_hosts(group, steps, per_host, placement.whole.astype(np.float64))
    for least in (1, -(-group.count // asked.most)):
        chosen: list[tuple[int, int]] = []
        held = tasks_on_tree(cluster, group, np.where(per_host >= least, per_host, 0), room)
        some = np.flatnonzero(held[0])
        if held[0].sum() >= group.count:
            _distribute(cluster, held, 0, some, group.count, placement.whole, chosen)
        if asked.includes(len(chosen)):
            return chosen
    return []


def _takes_fullest(problem: Problem, group: Group) -> bool:
    """Whether few domains outside the level of a domain limit, and slices, count nothing."""
    limit = group.domain_limit
    outer = limit is not None and any(level < limit.level for level, _ in group.weights)
    return group.slices is None and not (outer and "spread" in problem.terms)


def _fullest(
    placement: Placement, group: Group, level: int, within: NDArray[np.bool_], held: list[Ints]
) -> list[tuple[int, int]]:
    """Return domains of a level that hold most tasks of a group, and how many each takes."""
    tasks = np.where(within, placement.fits(group.shape), 0)
    domain = placement.problem.cluster.domain[level]
    holds = np.bincount(domain, weights=tasks, minlength=len(held[level])).astype(np.int64)
    may = np.where(holds > 0, held[level], 0)
    order = np.argsort(-holds, kind="stable")
    before = np.cumsum(may[order]) - may[order]
    taken = np.clip(group.count - before, 0, may[order])
    some = taken > 0
    return list(zip(order[some].tolist(), taken[some].tolist(), strict=True))


def levels_to_try(cluster: Cluster, group: Group) -> list[int]:
    """Return the levels of which one domain should hold a group if possible, outermost first."""
    levels = {level for level, _ in group.weights} | ({group.required} - {NO_LEVEL})
    return sorted(levels | set(range(len(cluster.levels) if group.counts_all_levels else 0)))


def _tasks_per_domain(placement: Placement, group: Group, open_: NDArray[np.bool_]) -> list[Ints]:
    """Return per level how many tasks of a group each domain holds now."""
    return tasks_by_level(*_asked(placement, group, open_))


def _asked(
    placement: Placement, group: Group, open_: Bools
) -> tuple[Cluster, Group, Ints, Mapping[int, Ints]]:
    """Return what `tasks_by_level` takes."""
    per_host = np.where(open_, placement.fits(group.shape), 0)
    room = placement.pools.room_by_level(group.shape)
    return placement.problem.cluster, group, per_host, room


def _distribute(
    cluster: Cluster,
    held: list[Ints],
    level: int,
    parts: Ints,
    count: int,
    whole: Ints,
    chosen: list[tuple[int, int]],
) -> None:
    """Distribute `count` tasks over domains of a level: the smallest that holds the rest first.

    Of hosts that hold as many, the one with fewer free GPUs comes first.
    """
    is_host = level == len(held) - 1
    tie = whole[parts] if is_host else np.zeros(len(parts), dtype=np.int64)
    order = parts[np.lexsort((tie, held[level][parts]))]
    sizes, last = held[level][order], len(order)
    while count:
        at = int(np.searchsorted(sizes[:last], count))
        if at == last:
            at = last = last - 1
        part = int(order[at])
        taken = min(count, int(sizes[at]))
        if is_host:
            chosen.append((part, taken))
        else:
            inside = np.flatnonzero((cluster.parent[level + 1] == part) & (held[level + 1] > 0))
            _distribute(cluster, held, level + 1, inside, taken, whole, chosen)
        count -= taken


def cheapest_hosts_of_tree(
    cluster: Cluster, group: Group, loss: NDArray[np.float64], each: Ints
) -> list[tuple[int, int]]:
    """Choose hosts for a group with slices or domain limits, by least cost per task.

    Parameters
    ----------
    loss : float64 (hosts,)
        Cost of displacing what runs there, for as many tasks as the host then holds.
    each : int64 (hosts,)
        That number of tasks.

    Returns
    -------
    list of (host, tasks)
        Empty if the group does not fit.
    """
    may = np.isfinite(loss) & (each > 0)
    held = tasks_by_level(cluster, group, np.where(may, each, 0))
    lost, tasks = np.where(may, loss, 0.0), np.where(may, each, 0)
    rate = [
        np.bincount(domain, weights=lost) / np.maximum(np.bincount(domain, weights=tasks), 1)
        for domain in cluster.domain
    ]
    level, best = 0, np.flatnonzero(held[0])
    if group.required != NO_LEVEL:
        enough = np.flatnonzero(_domains_for_all(held, group, group.required))
        level, best = group.required, enough[rate[group.required][enough].argsort()[:1]]
    elif tasks_in_all(cluster, group, tasks) < group.count:
        return []
    if not len(best):
        return []
    if group.num_hosts is not None and group.slices is None:
        inside = level != group.required or np.isin(cluster.domain[level], best)
        here = np.where(inside, tasks, 0)
        return choose_hosts(group, host_steps(cluster, group, here, NO_POOLS), here, rate[-1])
    chosen = _cheapest_in(cluster, held, rate, level, best, group.count)
    asked = group.num_hosts
    return chosen if asked is None or asked.includes(len(chosen)) else []


def _cheapest_in(
    cluster: Cluster,
    held: list[Ints],
    rate: list[NDArray[np.float64]],
    level: int,
    parts: Ints,
    count: int,
) -> list[tuple[int, int]]:
    """Choose hosts for `count` tasks in domains of a level, those of least cost per task first."""
    chosen: list[tuple[int, int]] = []
    for part in parts[np.argsort(rate[level][parts], kind="stable")].tolist():
        taken = min(count, int(held[level][part]))
        if not taken:
            continue
        if level == len(held) - 1:
            chosen.append((part, taken))
        else:
            inside = np.flatnonzero((cluster.parent[level + 1] == part) & (held[level + 1] > 0))
            chosen += _cheapest_in(cluster, held, rate, level + 1, inside, taken)
        count -= taken
    return chosen
