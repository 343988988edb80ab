"""Places of gangs: hosts by displacement cost, and tied groups on the tree of domains."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

import numpy as np

from placewright.array_types import Bools, Floats, Ints
from placewright.formulations.gang.placement.placement import Placement
from placewright.formulations.gang.problem.jobs import (
    NO_LEVEL,
    Choice,
    Group,
    HostRange,
    TaskPlacement,
)
from placewright.formulations.gang.problem.problem import Problem
from placewright.topology import Cluster

# Host selection for gangs: on which hosts the tasks of a group go, by displacement cost.


ChooseHosts: TypeAlias = Callable[[Cluster, Group, Floats, Ints], list[tuple[int, int]]]
"""Host selection of a group: (host, tasks) pairs, [] if it does not fit.

Its arguments are the cluster, the group, what displacing costs per host, float64 (hosts,), and how
many tasks each host then holds, int64 (hosts,)."""


def compact_hosts(
    cluster: Cluster, group: Group, loss: Floats, each: Ints
) -> list[tuple[int, int]]:
    """Choose hosts in the innermost weighted domain that holds all tasks, of least cost per task.

    Inside it, few domains of the innermost weighted level, and hosts of least cost. For gangs that
    a model starts: it has reserved GPUs elsewhere for the jobs that are displaced.
    """
    count = group.count
    hosts = np.flatnonzero(np.isfinite(loss) & (each > 0))
    if each[hosts].sum() < count:
        return []
    levels = sorted(level for level, _ in group.weights if level < len(cluster.levels) - 1)
    for level in reversed(levels):
        domain = cluster.domain[level][hosts]
        held = np.bincount(domain, weights=each[hosts])
        enough = np.flatnonzero(held >= count)
        if len(enough):
            cost = np.bincount(domain, weights=loss[hosts])
            best = enough[np.argmin(cost[enough] / held[enough])]
            hosts = hosts[domain == best]
            break
    domain = cluster.domain[levels[-1]][hosts] if levels else np.zeros(len(hosts), np.int64)
    order = np.lexsort((loss[hosts], domain))
    hosts, parts = hosts[order], np.split(order, np.flatnonzero(np.diff(domain[order])) + 1)
    starts = np.cumsum([0, *map(len, parts)])
    tasks = [int(each[hosts[a:b]].sum()) for a, b in pairwise(starts)]
    mean = [float(loss[hosts[a:b]].mean()) for a, b in pairwise(starts)]
    fullest = sorted(range(len(parts)), key=lambda p: (-min(tasks[p], count), mean[p]))
    return _first_tasks([hosts[starts[at] : starts[at + 1]] for at in fullest], each, count)


def _first_tasks(hosts: Sequence[Ints], each: Ints, count: int) -> list[tuple[int, int]]:
    """Return the first hosts, of several parts, that hold `count` tasks, and how many of these."""
    order = np.concatenate(hosts)
    before = np.cumsum(each[order]) - each[order]
    taken = np.minimum(each[order], count - before)
    some = taken > 0
    return list(zip(order[some].tolist(), taken[some].tolist(), strict=True))


def cheapest_hosts(
    cluster: Cluster, group: Group, loss: Floats, each: Ints
) -> list[tuple[int, int]]:
    """Choose the hosts of least cost; among equal ones those in domains that hold most tasks.

    For gangs that no model has decided to start, and that must be worth what they displace.
    """
    count = group.count
    hosts = np.flatnonzero(np.isfinite(loss) & (each > 0))
    if each[hosts].sum() < count:
        return []
    levels = sorted(level for level, _ in group.weights if level < len(cluster.levels) - 1)
    # Fractions of a unit are what stopping costs: a term after value, before spread.
    lost = np.floor(loss / np.maximum(each, 1))
    hosts = hosts[np.argsort(loss[hosts] / each[hosts], kind="stable")]
    needed = int(np.searchsorted(np.cumsum(each[hosts]), count)) + 1
    least = np.floor(loss[hosts[:needed]].sum())
    for level in reversed(levels):
        domain = cluster.domain[level]
        inside, cost = _cheapest_domain(hosts, domain[hosts], loss, each, count)
        if np.floor(cost) <= least:
            hosts = hosts[domain[hosts] == inside]
            needed = int(np.searchsorted(np.cumsum(each[hosts]), count)) + 1
            break
    # The last ones may be any that lose as little: those in domains that hold most.
    worst = lost[hosts[needed - 1]]
    rank = np.zeros(len(hosts), dtype=np.int64)
    if levels:
        domain = cluster.domain[levels[-1]][hosts]
        good = lost[hosts] <= worst
        held = np.bincount(domain, weights=good * each[hosts])
        rank = np.unique(np.stack([-held[domain], domain]), axis=1, return_inverse=True)[1]
    order = np.lexsort((loss[hosts], rank.reshape(-1), np.sign(lost[hosts] - worst)))
    return _first_tasks([hosts[order]], each, count)


def _cheapest_domain(
    hosts: Ints, domain: Ints, loss: Floats, each: Ints, count: int
) -> tuple[int, float]:
    """Return the domain where `count` tasks cost least on its best hosts, and that cost.

    (-1, inf) if no domain holds them all.
    """
    order = np.argsort(domain, kind="stable")
    hosts, domain = hosts[order], domain[order]
    starts = np.flatnonzero(np.diff(domain, prepend=-1))
    ends = np.append(starts[1:], len(hosts)) - 1
    tasks = np.concatenate([[0], np.cumsum(each[hosts])])
    lost = np.concatenate([[0.0], np.cumsum(loss[hosts])])
    last = np.searchsorted(tasks[1:], tasks[starts] + count)
    cost = np.where(last <= ends, lost[np.minimum(last, ends) + 1] - lost[starts], np.inf)
    best = int(cost.argmin())
    return (
        (int(domain[starts[best]]), float(cost[best])) if np.isfinite(cost[best]) else (-1, np.inf)
    )


# Groups on so many hosts: how many tasks they have places for, and which hosts they take.
#
# A host adds a *step* of tasks or several: slices of one host each, else single tasks. Domain
# limits and pools cap what the hosts of a domain add, and these domains are those of a tree. So
# hosts add most in the order of what they hold, each what its domains still take after those
# before it, and the first k hosts hold the most that k hosts can: a group fits exactly if the
# first `most` hosts hold its tasks and `least` hosts have room for a step. With slices of several
# hosts that is necessary only.


class HostSteps(NamedTuple):
    """What each host adds, int64 (hosts,), and whether it counts as one of them, bool (hosts,).

    `caps` are, per level with some, innermost first, the domain of each host and the most steps of
    each domain; `step` is how many tasks one is.
    """

    added: Ints
    counts: Bools
    caps: Sequence[tuple[Ints, Ints]]
    step: int


def host_steps(
    cluster: Cluster, group: Group, per_host: Ints, room: Mapping[int, Ints], level: int = 0
) -> HostSteps:
    """Return what hosts add to a group inside domains of a level, or in all of the cluster.

    `per_host` and `room` are as in `tasks_by_level`.
    """
    slices, limit = group.slices, group.domain_limit
    step = slices.size if slices is not None and slices.level == len(cluster.levels) - 1 else 1
    caps: list[tuple[Ints, Ints]] = []
    for inner in reversed(range(level, len(cluster.levels))):
        most = room.get(inner)
        if limit is not None and limit.level == inner:
            number = len(cluster.names[inner])
            most = np.minimum(number * [limit.max_tasks] if most is None else most, limit.max_tasks)
        if most is not None:
            caps.append((cluster.domain[inner], most // step))
    added = np.minimum(per_host, group.count) // step
    counts = added > 0
    for domain, most in caps:
        order = np.lexsort((-added, ~counts, domain))
        before, mine, end = _before(domain, added, order), added[order], most[domain[order]]
        added[order] = np.minimum(before + mine, end) - np.minimum(before, end)
        counts[order] &= _before(domain, counts.astype(np.int64), order) < end
    return HostSteps(added, counts, caps, step)


def tasks_on_hosts(group: Group, steps: HostSteps, domain: Ints, number: int) -> Ints:
    """Return how many tasks the hosts of each of `number` domains hold, no more hosts than may be.

    0 where too few have room.
    """
    asked = group.num_hosts
    if asked is None:
        raise ValueError("the group may be on any number of hosts")
    order = np.lexsort((-steps.added, ~steps.counts, domain))
    first = _before(domain, np.ones_like(steps.added), order) < asked.most
    hosts = order[first]
    held = np.bincount(domain[hosts], weights=steps.added[hosts], minlength=number)
    enough = np.bincount(domain, weights=steps.counts, minlength=number) >= asked.least
    tasks: Ints = np.where(enough, held, 0).astype(np.int64) * steps.step
    return tasks


def _before(domain: Ints, amount: Ints, order: Ints) -> Ints:
    """Return, in an order by domain, what comes before each host in its domain."""
    sums = np.cumsum(amount[order]) - amount[order]
    first = np.flatnonzero(np.diff(domain[order], prepend=-1))
    before: Ints = sums - np.repeat(sums[first], np.diff(np.append(first, len(order))))
    return before


def choose_hosts(
    group: Group, steps: HostSteps, per_host: Ints, cost: Floats
) -> list[tuple[int, int]]:
    """Choose as few hosts as may be, (host, tasks) each; [] if the group does not fit.

    Hosts that hold an equal part come first, those of least cost, float64 (hosts,), among them.
    """
    asked, (added, counts, _, step) = group.num_hosts, steps
    if asked is None:
        raise ValueError("the group may be on any number of hosts")
    wanted = group.count // step
    largest = np.lexsort((cost, -added, ~counts))[: np.count_nonzero(counts)]
    needed = int(np.searchsorted(np.cumsum(added[largest]), wanted)) + 1
    number = max(asked.least, needed)
    if number > min(asked.most, len(largest)):
        return []
    holds = np.minimum(per_host, group.count) // step
    part = np.flatnonzero((holds >= -(-wanted // number)) & (holds > 0))
    cheap = part[np.lexsort((holds[part], cost[part]))]
    for order in (cheap, largest):
        taken = _take(steps, holds, order.tolist(), number, wanted)
        if taken:
            return [(host, count * step) for host, count in taken.items()]
    return []


def _take(
    steps: HostSteps, holds: Ints, order: Sequence[int], number: int, wanted: int
) -> dict[int, int]:
    """Take steps of the first hosts of an order that have room; nothing if these are too few."""
    left = [most.copy() for _, most in steps.caps]
    taken: dict[int, int] = {}

    def take(host: int, most: int) -> None:
        around = [(room, domain[host]) for room, (domain, _) in zip(left, steps.caps, strict=True)]
        amount = min([most, *(int(room[d]) for room, d in around)])
        if amount > 0:
            taken[host] = taken.get(host, 0) + amount
            for room, d in around:
                room[d] -= amount

    for host in order:
        if len(taken) == number:
            break
        take(host, 1)
    for host in list(taken):
        take(host, min(int(holds[host]) - 1, wanted - sum(taken.values())))
    return taken if len(taken) == number and sum(taken.values()) == wanted else {}


# How many tasks of a group each domain of the tree counts for.
#
# Summed up the tree, with two caps: a domain limit caps what a domain counts for, and from the
# slices' level upwards only whole slices count. Both caps are those of a tree, so whatever a domain
# counts for can be placed there; on so many hosts see `host_steps`.


NO_POOLS: Mapping[int, Ints] = MappingProxyType({})


def tasks_by_level(
    cluster: Cluster, group: Group, per_host: Ints, room: Mapping[int, Ints] = NO_POOLS
) -> list[Ints]:
    """Return per level how many tasks each domain counts for; `per_host` has them per host.

    `room` has, by level, for how many tasks the pools of each domain have room. A group on so many
    hosts counts as if it were in one domain alone.
    """
    held = tasks_on_tree(cluster, group, per_host, room)
    if group.num_hosts is not None:
        for level, here in enumerate(held):
            steps = host_steps(cluster, group, per_host, room, level)
            np.minimum(
                here, tasks_on_hosts(group, steps, cluster.domain[level], len(here)), out=here
            )
    return held


def tasks_in_all(
    cluster: Cluster, group: Group, per_host: Ints, room: Mapping[int, Ints] = NO_POOLS
) -> int:
    """Return how many tasks all hosts count for together, with what `tasks_by_level` takes."""
    total = int(tasks_on_tree(cluster, group, per_host, room)[0].sum())
    if group.num_hosts is None:
        return total
    steps = host_steps(cluster, group, per_host, room)
    return min(total, int(tasks_on_hosts(group, steps, np.zeros_like(per_host), 1)[0]))


def tasks_on_tree(
    cluster: Cluster, group: Group, per_host: Ints, room: Mapping[int, Ints]
) -> list[Ints]:
    """Return per level what each domain counts for, whatever the number of hosts."""
    per_host = np.minimum(per_host, group.count)
    held: list[Ints] = []
    for level in reversed(range(len(cluster.levels))):
        if held:
            above = cluster.parent[level + 1]
            number = len(cluster.names[level])
            per_host = np.bincount(above, weights=held[-1], minlength=number).astype(np.int64)
        if group.domain_limit is not None and group.domain_limit.level == level:
            per_host = np.minimum(per_host, group.domain_limit.max_tasks)
        if level in room:
            per_host = np.minimum(per_host, room[level])
        if group.slices is not None and level <= group.slices.level:
            per_host = per_host - per_host % group.slices.size
        held.append(per_host)
    held.reverse()
    for level in range(1, len(held)) if room else ():
        np.minimum(held[level], held[level - 1][cluster.parent[level]], out=held[level])
    return held


# Placing groups on the domain tree: joint levels, slices, failure domains, anti-affinity.
#
# How many tasks of a group a domain holds is summed up the tree, with two caps: a domain limit
# caps what a domain counts for, and from the slices' level upwards only whole slices count. Both
# caps are those of a tree, so whatever a domain counts for can be placed there, and a group alone
# is placed wherever it fits. Several groups in one domain are placed one after the other, which
# may fail although a placement exists.


def _domains_for_all(held: list[Ints], group: Group, level: int) -> Bools:
    """Return which domains of a level hold all tasks of a group, bool (domains,)."""
    if group.domain_limit is not None and level >= group.domain_limit.level:
        return np.zeros(len(held[level]), dtype=np.bool_)  # inside a domain that takes too few
    enough: Bools = held[level] >= group.count
    return enough


def joint_domains(placement: Placement, choice: Choice, open_: Bools) -> list[int]:
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


def place_groups(
    placement: Placement, choice: Choice, open_: Bools, within: Mapping[int, Bools]
) -> list[TaskPlacement] | None:
    """Place the groups of an option on open hosts, the largest first; all or none."""
    puts: list[TaskPlacement] = []
    used = np.zeros_like(open_)
    for k in sorted(range(len(choice.groups)), key=lambda k: -choice.groups[k].milli_gpu):
        there = open_ & within[k] if k in within else open_
        places = (
            place_group(placement, group, k, mask)
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


def place_group(
    placement: Placement, group: Group, index: int, open_: Bools
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
    placement: Placement, group: Group, level: int, within: Bools, held: list[Ints]
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


def _tasks_per_domain(placement: Placement, group: Group, open_: Bools) -> list[Ints]:
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
    cluster: Cluster, group: Group, loss: Floats, each: Ints
) -> list[tuple[int, int]]:
    """Choose hosts for a group with slices or domain limits, by least cost per task.

    `loss`, float64 (hosts,), is the cost of displacing what runs there, for `each`, int64 (hosts,),
    tasks that the host then holds. Returns (host, tasks) pairs; none if the group does not fit.
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
    cluster: Cluster, held: list[Ints], rate: list[Floats], level: int, parts: Ints, count: int
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
