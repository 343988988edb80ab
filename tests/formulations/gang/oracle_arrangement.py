"""Every plan of a tiny round whose options tie their tasks to each other, by brute force.

Tasks take whole GPUs and nothing else. It reads the Round document and shares nothing with the code
under test. Jobs are decided one after the other; plans that leave the same behind are one state.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import combinations_with_replacement, product
from typing import NamedTuple

from placewright.instances.derived.ranges import expand
from placewright.instances.documents.job import Job
from placewright.instances.documents.option import TaskGroup
from placewright.instances.documents.round import Round
from tests.formulations.gang.oracle import Priorities

MAX_STATES = 6_000
Vector = tuple[int, ...]


class TooManyPlansError(Exception):
    """The round is not tiny."""


class State(NamedTuple):
    """What is left, who came where, and what that is worth.

    `came` has (job, host, GPUs) of each task that arrived, `left` of each that left a host,
    `labels` (label, domain, job, whether it came), `stopped` the index of each preempted job.
    """

    free: tuple[int, ...]
    came: tuple[tuple[int, int, int], ...]
    left: tuple[tuple[int, int, int], ...]
    labels: frozenset[tuple[str, str, str, bool]]
    stopped: tuple[int, ...]
    value: int
    disruption: int
    spread: int


class Tree:
    """Hosts by number, and the domain of each at each level."""

    def __init__(self, round_: Round) -> None:
        document = round_.cluster
        above = {(d.level, d.name): d.parent for d in document.domains}
        self.names: list[str] = []
        self.gpus: list[int] = []
        self.healthy: list[bool] = []
        self.domains: list[dict[str, str]] = []
        for entry in document.hosts:
            for name in expand(entry.name):
                inside, parent = {"host": name}, entry.parent
                for level in reversed(document.levels):
                    assert parent is not None
                    inside[level] = parent
                    parent = above[level, parent]
                self.names.append(name)
                self.gpus.append(entry.gpus or 0)
                self.healthy.append(entry.healthy)
                self.domains.append(inside)

    def used(self, level: str, hosts: tuple[int, ...]) -> set[str]:
        return {self.domains[h][level] for h in hosts}


def attainable(round_: Round) -> set[Vector]:
    """The term values of every plan, in the policy's order."""
    tree = Tree(round_)
    index = {name: h for h, name in enumerate(tree.names)}
    free, busy = list(tree.gpus), set()
    labels = set()
    for job in round_.jobs:
        if job.running is None:
            continue
        for task in job.running.tasks:
            busy.add(index[task.host])
            if job.running.pinned:
                free[index[task.host]] -= len(task.gpus)
        if job.running.pinned and job.anti_affinity is not None:
            hosts = tuple(index[task.host] for task in job.running.tasks)
            for domain in tree.used(job.anti_affinity.level, hosts):
                labels.add((job.anti_affinity.label, domain, job.name, False))
    states = {State(tuple(free), (), (), frozenset(labels), (), 0, 0, 0)}
    for number, job in enumerate(round_.jobs):
        if job.running is not None and job.running.pinned:
            continue
        following: set[State] = set()
        decide = _pending if job.running is None else _running
        ways = list(decide(round_, tree, index, number, job))
        for state in states:
            for way in ways:
                after = _joined(state, way)
                if after is not None:
                    following.add(after)
            if len(following) > MAX_STATES:
                raise TooManyPlansError
        states = following
    plans, priorities = set(), Priorities(round_)
    for state in states:
        if _lawful(round_, tree, index, state):
            opened = len({host for _, host, _ in state.came} - busy)
            terms = {**state._asdict(), "opened": opened}
            values = priorities.values(state.value)
            terms |= dict(zip(priorities.value_terms, values, strict=True))
            plans.add(tuple(terms[term] for term in priorities.terms))
    return plans


def _joined(state: State, way: State) -> State | None:
    free = tuple(f - taken for f, taken in zip(state.free, way.free, strict=True))
    if min(free) < 0:
        return None
    for label, domain, job, came in way.labels:
        for other, there, holder, arrived in state.labels:
            same = (label, domain) == (other, there) and job != holder
            if same and (came or arrived):
                return None
    return State(
        free,
        state.came + way.came,
        state.left + way.left,
        state.labels | way.labels,
        state.stopped + way.stopped,
        state.value + way.value,
        state.disruption + way.disruption,
        state.spread + way.spread,
    )


def _nothing(tree: Tree) -> State:
    return State((0,) * len(tree.names), (), (), frozenset(), (), 0, 0, 0)


def _pending(
    round_: Round, tree: Tree, index: dict[str, int], number: int, job: Job
) -> Iterator[State]:
    del index
    yield _nothing(tree)
    for o, option in enumerate(job.options):
        for hosts in product(*(_orders(tree, group) for group in option.groups)):
            if _allowed(tree, job, o, hosts):
                came = tuple(
                    (number, h, group.gpu // 1000)
                    for group, places in zip(option.groups, hosts, strict=True)
                    for h in places
                )
                yield _held(tree, job, o, hosts, came)._replace(
                    value=Priorities(round_).worth(job, o),
                    spread=_spread(round_, tree, job, o, hosts),
                )


def _orders(tree: Tree, group: TaskGroup) -> list[tuple[int, ...]]:
    """Return the hosts of the tasks, by index; where the index does not matter, ascending."""
    named = {h for name in group.hosts or () for h in expand(name)}
    may = [
        h
        for h, name in enumerate(tree.names)
        if tree.healthy[h] and tree.gpus[h] * 1000 >= group.gpu and (not named or name in named)
    ]
    if group.slices is None:
        return list(combinations_with_replacement(may, group.count))
    return list(product(may, repeat=group.count))


def _running(
    round_: Round, tree: Tree, index: dict[str, int], number: int, job: Job
) -> Iterator[State]:
    running = job.running
    assert running is not None
    option = job.options[running.option]
    home = {(task.group, task.index): index[task.host] for task in running.tasks}
    groups = [
        tuple(home[g, i] for i in range(group.count)) for g, group in enumerate(option.groups)
    ]
    yield _held(tree, job, running.option, groups, ())
    assert running.migrate_cost is not None
    assert running.preempt_cost is not None
    yield _nothing(tree)._replace(
        value=-Priorities(round_).worth(job, running.option),
        disruption=running.preempt_cost + option.milli_gpu,
        left=tuple(
            (number, h, group.gpu // 1000)
            for group, places in zip(option.groups, groups, strict=True)
            for h in places
        ),
        stopped=(number,),
    )
    choices = []
    for g, group in enumerate(option.groups):
        listed = {h for name in group.hosts or () for h in expand(name)}
        ways = []
        for hosts in product(range(len(tree.names)), repeat=group.count):
            moves = [i for i, h in enumerate(hosts) if h != groups[g][i]]
            if all(tree.healthy[h] for h in hosts) and all(
                not listed or tree.names[hosts[i]] in listed for i in moves
            ):
                ways.append((hosts, moves))
        choices.append(ways)
    for chosen in product(*choices):
        hosts = [way[0] for way in chosen]
        moved = [(g, i) for g, way in enumerate(chosen) for i in way[1]]
        if moved and _allowed(tree, job, running.option, hosts):
            came, left = (
                tuple((number, at[g][i], option.groups[g].gpu // 1000) for g, i in moved)
                for at in (hosts, groups)
            )
            cost = sum(option.groups[g].gpu for g, _ in moved)
            yield _held(tree, job, running.option, hosts, came)._replace(
                left=left,
                disruption=running.migrate_cost + cost,
                spread=_spread(round_, tree, job, running.option, hosts),
            )


def _held(
    tree: Tree,
    job: Job,
    option: int,
    hosts: list[tuple[int, ...]] | tuple[tuple[int, ...], ...],
    came: tuple[tuple[int, int, int], ...],
) -> State:
    taken: Counter[int] = Counter()
    for group, places in zip(job.options[option].groups, hosts, strict=True):
        for h in places:
            taken[h] += group.gpu // 1000
    labels = set()
    if (asked := job.anti_affinity) is not None:
        arrived = {tree.domains[h][asked.level] for _, h, _ in came}
        for domain in tree.used(asked.level, tuple(taken)):
            labels.add((asked.label, domain, job.name, domain in arrived))
    return _nothing(tree)._replace(
        free=tuple(taken[h] for h in range(len(tree.names))), came=came, labels=frozenset(labels)
    )


def _allowed(
    tree: Tree,
    job: Job,
    option: int,
    hosts: list[tuple[int, ...]] | tuple[tuple[int, ...], ...],
) -> bool:
    chosen = job.options[option]
    everywhere = tuple(h for places in hosts for h in places)
    asks = [(chosen.hosts, everywhere)]
    asks += [(g.num_hosts, places) for g, places in zip(chosen.groups, hosts, strict=True)]
    for asked, places in asks:
        if asked is not None and not asked.min <= len(set(places)) <= (asked.max or 99):
            return False
    if chosen.required is not None and len(tree.used(chosen.required, everywhere)) > 1:
        return False
    for group, places in zip(chosen.groups, hosts, strict=True):
        if group.required is not None and len(tree.used(group.required, places)) > 1:
            return False
        if group.slices is not None:
            size, level = group.slices.size, group.slices.required
            for first in range(0, group.count, size):
                if len(tree.used(level, places[first : first + size])) > 1:
                    return False
        if group.apart is not None:
            in_domain = Counter(tree.domains[h][group.apart.level] for h in places)
            if max(in_domain.values()) > group.apart.most:
                return False
    return True


def _spread(
    round_: Round,
    tree: Tree,
    job: Job,
    option: int,
    hosts: list[tuple[int, ...]] | tuple[tuple[int, ...], ...],
) -> int:
    weights = round_.spread_weights()
    return sum(
        group.milli_gpu * weights[level] * (len(tree.used(level, places)) - 1)
        for group, places in zip(job.options[option].groups, hosts, strict=True)
        for level in (weights if group.preferred is None else set(group.preferred) & set(weights))
    )


def _lawful(round_: Round, tree: Tree, index: dict[str, int], state: State) -> bool:
    """Whether no stopped job could stay, by counts of GPUs, and only higher ones profit."""
    jobs, came = round_.jobs, {job for job, _, _ in state.came}
    for number in state.stopped:
        priority = jobs[number].priority
        if not _breaks(round_, tree, index, state, {number}, set()):
            return False
        back = {j for j in state.stopped if jobs[j].priority >= priority}
        higher = {j for j in came if jobs[j].priority > priority}
        movers = {j for j in higher if jobs[j].running is not None}
        while more := {
            j
            for j in movers - back
            if {h for job, h, _ in state.came if job == j}
            & {index[t.host] for one in back if (r := jobs[one].running) for t in r.tasks}
            or _meets(round_, tree, index, state, back, {j})
        }:
            back |= more
        if _breaks(round_, tree, index, state, back, higher - movers):
            return False
    return True


def _breaks(
    round_: Round,
    tree: Tree,
    index: dict[str, int],
    state: State,
    back: set[int],
    gone: set[int],
) -> bool:
    """Whether a host lacks GPUs, or a label meets, with jobs back in place and others gone."""
    free = list(state.free)
    for job, h, gpus in state.came:
        free[h] += gpus * (job in back | gone)
    for job, h, gpus in state.left:
        free[h] -= gpus * (job in back)
    touched = {h for job, h, _ in state.left if job in back}
    others = {job for job, _, _ in state.came} - back - gone
    return any(free[h] < 0 for h in touched) or _meets(round_, tree, index, state, back, others)


def _meets(
    round_: Round,
    tree: Tree,
    index: dict[str, int],
    state: State,
    back: set[int],
    others: set[int],
) -> bool:
    """Whether some jobs came where a label of jobs that are back keeps them out."""
    for j in back:
        running, asked = round_.jobs[j].running, round_.jobs[j].anti_affinity
        if running is None or asked is None:
            continue
        home = tree.used(asked.level, tuple(index[task.host] for task in running.tasks))
        for other in others - {j}:
            if round_.jobs[other].anti_affinity == asked:
                came = tuple(h for job, h, _ in state.came if job == other)
                if home & tree.used(asked.level, came):
                    return True
    return False
