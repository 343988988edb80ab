"""Feasibility of one option in a fixed state of the hosts.

Of one group it is computed exactly, by capacity summed up the domain tree (gang_tree.py), but for
slices on so many hosts. That, and several groups at once, is vector bin packing with few item
types: a first fit proves that they fit, a group that does not fit alone or a sum over the hosts
that they do not, and dynamic programming over the hosts decides the rest, up to a number of steps.
The latter does not look at pools: where an option takes from some, it decides only that the groups
do not fit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import NamedTuple, TypeAlias

import numpy as np

from placewright.array_types import Bools, Ints
from placewright.formulations.gang.placement.gang_tree import NO_POOLS, tasks_by_level, tasks_in_all
from placewright.formulations.gang.placement.greedy import lift_all, place_choice
from placewright.formulations.gang.placement.placement import Placement
from placewright.formulations.gang.problem.gpu_parts import FREE
from placewright.formulations.gang.problem.jobs import NO_LEVEL, Choice, Group
from placewright.topology import Cluster
from placewright.topology.units import WHOLE_GPU

Counts: TypeAlias = tuple[int, ...]
"""A number per group."""

_State: TypeAlias = tuple[Counts, Counts, Counts, Counts]
"""Tasks left of each group; those in the slices' and the limit's domain; hosts, and of all."""


class _Gpu(NamedTuple):
    """What a GPU has left for shares and MIG slices; `milli` is 0 once it has slices."""

    milli: int
    memory: int
    layout: int


class _UndecidedError(Exception):
    """The search has taken all of its steps."""


def fits(placement: Placement, choice: Choice, max_steps: int) -> bool | None:
    """Return whether all tasks of an option can arrive at once; None if the steps do not suffice.

    The placement is the same afterwards.
    """
    if is_single(choice):
        group = choice.groups[0]
        return group_fits(placement.problem.cluster, group, placement.fits(group.shape))
    puts = place_choice(placement, choice)
    if puts is not None:
        lift_all(placement, choice, puts)
        return True
    if is_counted(placement.problem.cluster, choice) or not _pools_suffice(placement, choice):
        return False
    try:
        found = _Search(placement, choice, max_steps).finds()
    except _UndecidedError:
        return None
    linked = placement.link_state is not None  # nor at links between GPUs
    return None if found and (choice.pooled or linked) else found


def is_single(choice: Choice) -> bool:
    """Whether an option is one group whose places only a required level relates."""
    (first, *others) = choice.groups
    return not others and not choice.is_tied and not (choice.pooled and first.count > 1)


def is_counted(cluster: Cluster, choice: Choice) -> bool:
    """Whether an option is one group that is placed wherever it fits (gang_tree.py)."""
    (first, *others) = choice.groups
    sliced = first.slices is not None and first.slices.level < len(cluster.levels) - 1
    return not others and (first.num_hosts is None or not sliced)


def _pools_suffice(placement: Placement, choice: Choice) -> bool:
    """Whether all domains of a pool together have what all tasks ask."""
    return all(
        sum(group.count * int(pool.demand[group.shape]) for group in choice.groups)
        <= left.clip(min=0).sum()
        for pool, left in zip(placement.pools.pools, placement.pools.left, strict=True)
    )


def group_fits(cluster: Cluster, group: Group, fitting: Ints) -> bool:
    """Return whether the group of a single option fits; `fitting` has what each host takes."""
    held = np.minimum(fitting, group.count)
    if group.required == NO_LEVEL:
        return bool(held.sum() >= group.count)
    return bool(np.bincount(cluster.domain[group.required], held).max(initial=0) >= group.count)


def most_places(
    placement: Placement, group: Group, fitting: Ints, level: int
) -> tuple[int, int | None]:
    """Return how many tasks of a group fit together, and the domain of a level where they do.

    `fitting` has how many each host takes. Without a level (`NO_LEVEL`) all hosts count, and the
    domain is None.
    """
    if level == NO_LEVEL:
        held_in_all = tasks_in_all(placement.problem.cluster, group, fitting)
        return min(held_in_all, group.count), None
    held = tasks_by_level(placement.problem.cluster, group, fitting)
    # Of equal domains the first whose hosts take most, so that it is none without hosts.
    tasks = np.bincount(
        placement.problem.cluster.domain[level], weights=fitting, minlength=len(held[level])
    )
    best = int(np.lexsort((-np.arange(len(tasks)), tasks, held[level]))[-1])
    return int(_places(group, held[level], level)[best]), best


def places_by_domain(
    cluster: Cluster, group: Group, fitting: Ints, level: int, room: Mapping[int, Ints] = NO_POOLS
) -> Ints:
    """Return how many tasks of a group have places together in each domain of a level (domains,).

    `fitting` has how many each host takes, and `room`, by level, for how many pools have room.
    """
    return _places(group, tasks_by_level(cluster, group, fitting, room)[level], level)


def _places(group: Group, held: Ints, level: int) -> Ints:
    """Return what domains hold of a group whose tasks all are in one of them: whole slices."""
    limit = group.domain_limit
    most = limit.max_tasks if limit is not None and level >= limit.level else group.count
    places: Ints = np.minimum(held, most)
    places -= places % (1 if group.slices is None else group.slices.size)
    return places


class _Search:
    """The search for places of several groups, domain by domain and host by host."""

    def __init__(self, placement: Placement, choice: Choice, max_steps: int) -> None:
        self.placement, self.choice, self.groups = placement, choice, choice.groups
        self.cluster = placement.problem.cluster
        self.steps = max_steps
        open_ = placement.open_to(choice.label)
        open_ &= placement.pools.open_to(choice, len(open_))
        self.fitting = [np.where(open_, placement.fits(g.shape), 0) for g in self.groups]
        self.tied = choice.num_hosts is not None or any(g.is_arranged for g in self.groups)
        self._held: dict[tuple[object, ...], bool] = {}

    def finds(self) -> bool:
        """Whether there are places; raise `_UndecidedError` after the last step."""
        everywhere = np.ones(self.cluster.num_hosts, dtype=np.bool_)
        for joint in self._domains(self.choice.joint_level, everywhere):
            if not self._sums_suffice(joint):
                continue
            within = [list(self._domains_of(k, joint)) for k in range(len(self.groups))]
            for hosts in product(*within):
                if self._packs(hosts):
                    return True
        return False

    def _domains(self, level: int, hosts: Bools) -> Iterator[Bools]:
        """Yield the hosts of each domain of a level among some hosts; without a level, these."""
        if level == NO_LEVEL:
            yield hosts
            return
        domain = self.cluster.domain[level]
        for d in np.unique(domain[hosts]).tolist():
            yield hosts & (domain == d)

    def _domains_of(self, k: int, joint: Bools) -> Iterator[Bools]:
        """Yield the sets of hosts that may hold a group, of those that hold it alone."""
        group = self.groups[k]
        level = group.required
        for hosts in self._domains(level, joint & (self.fitting[k] > 0)):
            self._step()
            fitting = np.where(hosts, self.fitting[k], 0)
            if most_places(self.placement, group, fitting, level)[0] >= group.count:
                yield hosts

    def _sums_suffice(self, joint: Bools) -> bool:
        """Whether the hosts where some group fits have what all groups ask together."""
        placement, problem = self.placement, self.placement.problem
        hosts = joint & np.any([fitting > 0 for fitting in self.fitting], axis=0)
        shapes = np.array([group.shape for group in self.groups])
        count = np.array([group.count for group in self.groups])
        asked = problem.shape_gpu[shapes] * count
        whole = ~problem.is_share[shapes]
        number = self.choice.num_hosts
        milli = np.sort(placement.free_milli_gpu[hosts])[None if number is None else -number.most :]
        return bool(
            milli.sum() >= asked.sum()
            and placement.whole[hosts].sum() * WHOLE_GPU >= asked[whole].sum()
            and (
                placement.free[hosts].clip(min=0).sum(axis=0)
                >= count @ problem.shape_demand[shapes]
            ).all()
        )

    def _packs(self, hosts: Sequence[Bools]) -> bool:
        """Whether the groups fit at once, each on hosts of its own set.

        The state after each host is what is left of each group, and of an arranged one its tasks in
        the domains that are not complete yet, and on how many hosts it is.
        """
        fitting = np.array(
            [np.where(on, each, 0) for on, each in zip(hosts, self.fitting, strict=True)]
        )
        used = np.flatnonzero(fitting.any(axis=0))
        paths = [tuple(int(domain[h]) for domain in self.cluster.domain) for h in used.tolist()]
        order = sorted(range(len(used)), key=lambda i: paths[i])
        none = (0,) * len(self.groups)
        states = {(tuple(g.count for g in self.groups), none, none, (*none, 0))}
        before: tuple[int, ...] | None = None
        for i in order:
            host, path = int(used[i]), paths[i]
            if before is not None and self.tied:
                states = {s for state in states for s in self._across(state, before, path)}
            before = path
            following = set()
            for state in states:
                for more in self._loads(host, fitting[:, host], state):
                    self._step()
                    left = tuple(a - b for a, b in zip(state[0], more, strict=True))
                    sliced = tuple(a + b for a, b in zip(state[1], more, strict=True))
                    limited = tuple(a + b for a, b in zip(state[2], more, strict=True))
                    on = tuple(
                        n + (m > 0) for n, m in zip(state[3], (*more, sum(more)), strict=True)
                    )
                    after = (left, sliced, limited, on)
                    if not any(left) and self._slices_whole(sliced) and self._hosts_right(on):
                        return True
                    following.add(after if self.tied else (left, none, none, state[3]))
            states = following
        return False

    def _across(
        self, state: _State, before: tuple[int, ...], path: tuple[int, ...]
    ) -> Iterator[_State]:
        """Yield the state in the next domains, if slices in those that end are whole."""
        left, sliced, limited, on = state
        for k, group in enumerate(self.groups):
            if group.slices is not None and before[group.slices.level] != path[group.slices.level]:
                if sliced[k] % group.slices.size:
                    return
                sliced = (*sliced[:k], 0, *sliced[k + 1 :])
            limit = group.domain_limit
            if limit is not None and before[limit.level] != path[limit.level]:
                limited = (*limited[:k], 0, *limited[k + 1 :])
        yield left, sliced, limited, on

    def _slices_whole(self, sliced: Counts) -> bool:
        return all(
            group.slices is None or not n % group.slices.size
            for group, n in zip(self.groups, sliced, strict=True)
        )

    def _hosts_right(self, on: Counts) -> bool:
        asked = (*(group.num_hosts for group in self.groups), self.choice.num_hosts)
        return all(
            one is None or one.includes(number) for one, number in zip(asked, on, strict=True)
        )

    def _loads(self, host: int, fitting: Ints, state: _State) -> list[Counts]:
        """Return the tasks of each group that a host may take: the maximal ones if none is tied."""
        most = []
        for k, group in enumerate(self.groups):
            limit = group.domain_limit
            room = group.count if limit is None else limit.max_tasks - state[2][k]
            most.append(min(int(fitting[k]), state[0][k], room))
        found: list[Counts] = []
        for counts in product(*(range(n, -1, -1) for n in most)):
            self._step()
            if not self.tied and any(
                all(a <= b for a, b in zip(counts, known, strict=True)) for known in found
            ):
                continue
            if self._holds(host, counts):
                found.append(counts)
        return found

    def _holds(self, host: int, counts: Counts) -> bool:
        """Whether a host holds so many tasks of each group."""
        placement, problem = self.placement, self.placement.problem
        key = (
            counts,
            int(placement.whole[host]),
            placement.free[host].tobytes(),
            tuple(gpus := sorted(self._gpus(host))),
            int(self.cluster.gpu_memory[host]),
            -1 if problem.part_demands is None else int(problem.part_demands.product[host]),
        )
        if key not in self._held:
            shapes = [group.shape for group in self.groups]
            asked = np.array(counts) @ problem.shape_demand[shapes]
            whole = int(placement.whole[host]) - sum(
                n * (int(problem.shape_gpu[s]) // WHOLE_GPU)
                for n, s in zip(counts, shapes, strict=True)
                if not problem.is_share[s]
            )
            shares = [
                s
                for n, s in zip(counts, shapes, strict=True)
                if problem.is_share[s]
                for _ in range(n)
            ]
            shares.sort(key=lambda s: (-int(problem.shape_gpu[s]), s))
            self._held[key] = bool(
                whole >= 0
                and (asked <= placement.free[host].clip(min=0)).all()
                and self._shares_fit(host, shares, gpus, whole)
            )
        return self._held[key]

    def _gpus(self, host: int) -> list[_Gpu]:
        """Return the GPUs of a host that are partly used, by what they have left."""
        placement, parts = self.placement, self.placement.part_state
        return [
            _Gpu(
                int(placement.partial_free[host, g]),
                0 if parts is None else int(parts.memory[host, g]),
                FREE if parts is None else int(parts.layout[host, g]),
            )
            for g in range(placement.gpu_free.shape[1])
            if placement.partial_free[host, g] > 0
            or (parts is not None and parts.layout[host, g] != FREE)
        ]

    def _shares_fit(self, host: int, shares: Sequence[int], gpus: list[_Gpu], whole: int) -> bool:
        """Whether shares and slices fit GPUs in use and so many free ones."""
        self._step()
        if not shares:
            return True
        parts = self.placement.part_state
        memory = 0 if parts is None else int(self.cluster.gpu_memory[host])
        fresh = [_Gpu(WHOLE_GPU, memory, FREE)] if whole else []
        for gpu in dict.fromkeys([*gpus, *fresh]):
            after = self._after_share(host, shares[0], gpu)
            if after is None:
                continue
            rest, left = list(gpus), whole
            if gpu in rest:
                rest.remove(gpu)
            else:
                left -= 1
            if self._shares_fit(host, shares[1:], [*rest, after], left):
                return True
        return False

    def _after_share(self, host: int, shape: int, gpu: _Gpu) -> _Gpu | None:
        """Return what a GPU has left once it has taken a share or a slice, None if it cannot."""
        milli, demands = (
            int(self.placement.problem.shape_gpu[shape]),
            self.placement.problem.part_demands,
        )
        if demands is not None and demands.is_slice[shape]:
            kind = demands.slice_kind_on(shape, host)
            if (gpu.layout == FREE and gpu.milli < WHOLE_GPU) or not demands.layouts.num_fitting[
                gpu.layout, kind
            ]:
                return None
            return _Gpu(0, gpu.memory, demands.layouts.after(gpu.layout, kind, None, 1))
        memory = 0 if demands is None else int(demands.memory[shape])
        if gpu.layout != FREE or gpu.milli < milli or gpu.memory < memory:
            return None
        return _Gpu(gpu.milli - milli, gpu.memory - memory, FREE)

    def _step(self) -> None:
        self.steps -= 1
        if self.steps < 0:
            raise _UndecidedError
