"""Rows of the host-indexed model: GPUs whole and in part, places, pools, the disruption budget."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd

import numpy as np

from placewright.array_types import Bools, Ints
from placewright.formulations.gang.models.host.gpu_links import add_gpu_links
from placewright.formulations.gang.models.host.model import (
    NONE,
    HostModel,
    Tasks,
    add_arrival,
    add_domain_rows,
    add_domain_uses,
    milli_each,
)
from placewright.formulations.gang.problem.gpu_parts import mask_of
from placewright.formulations.gang.problem.jobs import (
    ANY_JOB,
    NO_LABEL,
    NO_LEVEL,
    HostRange,
    TaskSlices,
)
from placewright.formulations.gang.problem.limits import DisruptionBudget
from placewright.formulations.gang.problem.shapes import Pool
from placewright.topology.mig import COMPUTE_SLICES, MEMORY_SLICES, SLICES
from placewright.topology.units import WHOLE_GPU

# GPU parts in the host-indexed model: shares with memory, and MIG slices.
#
# Shares of equal milli-GPU and memory are one **part**, counted by b[i,part]; a MIG slice of kind k
# has a 0/1 variable b[i,k,start] for each start that is free on slot i.
#
#     memory   sum_part memory b[i,part] + sum of what stays   <=  free memory of slot i
#     slice    sum over slices on memory slice m of 1000 b[i,k,start]
#              + 1000 w[i] + sum milli b[i,part] + what stays  <=  1000         m = 0 ... 7
#     media    slices with media extensions on slot i          <=  1
#
# A share takes its milli-GPU of every memory slice, so that none fits beside a MIG slice.


UNCUT = -1
"""Instead of a mask: a GPU that holds shares, or cannot be cut."""


@dataclass(frozen=True, eq=False, slots=True)
class ShareTypes:
    """The distinct shares, by milli-GPU and memory, that shapes of the model ask for.

    Where jobs run, who may have whose GPU depends on the rank of a task: shares differ by it, too.
    """

    # milli, memory, rank: milli-GPU, MiB and rank of each; where no job runs, all ranks are 0
    milli: Ints
    memory: Ints
    rank: Ints
    of_shape: Ints  # share of each shape, -1 for whole GPUs and slices

    @classmethod
    def of(cls, m: HostModel, shapes: Ints) -> ShareTypes:
        """Return the distinct shares among some shapes."""
        problem, sharing = m.problem, m.problem.part_demands
        shapes = np.unique(shapes[problem.is_share[shapes]])
        memory = np.zeros(len(problem.shape_gpu), dtype=np.int64)
        if sharing is not None:
            shapes, memory = shapes[~sharing.is_slice[shapes]], sharing.memory
        rank = problem.shape_rank * bool(len(m.stays.s))
        asked = np.column_stack([problem.shape_gpu[shapes], memory[shapes], rank[shapes]])
        distinct, part = np.unique(asked, axis=0, return_inverse=True)
        of_shape = np.full(len(problem.shape_gpu), -1, dtype=np.int64)
        of_shape[shapes] = part.reshape(-1)
        return cls(distinct[:, 0], distinct[:, 1], distinct[:, 2], of_shape)

    def keys(self, m: HostModel) -> Ints:
        """Return the key of each x; meaningless for tasks of whole GPUs."""
        keys: Ints = self.of_shape[m.x_shape]
        sharing = m.problem.part_demands
        if sharing is not None:
            sliced = np.flatnonzero(sharing.is_slice[m.x_shape])
            hosts = m.hosts[m.x_host[sliced]]
            keys[sliced] = ~sharing.slice_kind[m.x_shape[sliced], sharing.product[hosts]]
        return keys

    def key(self, m: HostModel, shape: int, host: int) -> int:
        """Return the key of a shape on a host: its share, or ~ its kind of slice."""
        if m.problem.part_demands is not None and m.problem.part_demands.is_slice[shape]:
            return ~m.problem.part_demands.slice_kind_on(shape, host)
        return int(self.of_shape[shape])


@dataclass(frozen=True, eq=False, slots=True)
class SlotLimits:
    """What GPU slots have besides milli-GPU: free MiB, and the mask of their slices."""

    memory: Ints
    taken: Ints

    @classmethod
    def of(cls, m: HostModel, host: Ints, gpu: Ints, free: Ints) -> SlotLimits:
        """Look up slots by host (position in the model) and GPU (negative: any free one)."""
        parts, hosts = m.placement.part_state, m.hosts[host]
        if parts is None:
            zeros = np.zeros(len(host), dtype=np.int64)
            return cls(zeros, zeros + UNCUT)
        memory = np.where(
            gpu >= 0, parts.memory[hosts, gpu], m.problem.cluster.gpu_memory[hosts]
        ).astype(np.int64)
        layout = np.where(gpu >= 0, parts.layout[hosts, gpu], 0)
        taken = np.array([parts.demands.layouts.mask(i) for i in layout.tolist()], dtype=np.int64)
        return cls(memory, np.where((taken > 0) | (free == WHOLE_GPU), taken, UNCUT))


@dataclass(frozen=True, eq=False, slots=True)
class PartVariables:
    """The variables b: columns, slot, key, milli-GPU, and the start of slices (-1: a share)."""

    b: Ints
    slot: Ints
    key: Ints
    milli: Ints
    start: Ints


def add_part_variables(
    m: HostModel, parts: ShareTypes, x_key: Ints, host: Ints, free: Ints, limits: SlotLimits
) -> PartVariables:
    """Append b for all shares on slots where they fit, and for all slices that a task may be."""
    fits = (free[:, None] >= parts.milli) & (limits.memory[:, None] >= parts.memory)
    slot, part = np.nonzero(fits & (limits.taken <= 0)[:, None])
    most = free[slot] // parts.milli[part] if len(part) else np.zeros(0, dtype=np.int64)
    asks = parts.memory[part] > 0
    most[asks] = np.minimum(most, limits.memory[slot] // np.maximum(parts.memory[part], 1))[asks]
    wanted = set(zip(m.x_host[x_key < 0].tolist(), (~x_key[x_key < 0]).tolist(), strict=True))
    kinds: dict[int, list[int]] = {}
    for at, kind in sorted(wanted):
        kinds.setdefault(at, []).append(kind)
    slices = [
        (i, kind, start)
        for i, (at, taken) in enumerate(zip(host.tolist(), limits.taken.tolist(), strict=True))
        if taken != UNCUT
        for kind in kinds.get(at, ())
        for start in SLICES[kind].starts
        if not taken & mask_of(kind, start)
    ]
    cut_slot, kind, start = np.array(slices, dtype=np.int64).reshape(-1, 3).T
    compute = np.array([one.compute for one in SLICES], dtype=np.int64)
    b = m.model.variables("b", len(slot) + len(kind), upper=np.append(most, np.ones(len(kind))))
    return PartVariables(
        b,
        np.append(slot, cut_slot),
        np.append(part, ~kind),
        np.append(parts.milli[part], WHOLE_GPU * compute[kind] // COMPUTE_SLICES),
        np.append(np.full(len(slot), -1), start),
    )


def add_part_rows(
    m: HostModel,
    limits: SlotLimits,
    parts: ShareTypes,
    cuts: PartVariables,
    uses: tuple[Ints, Ints, Ints],
    stays: Ints,
) -> None:
    """Append the rows on memory and on memory slices.

    `uses` are slot, column and milli-GPU of all that uses a slot; the last of them belong to the
    running tasks in the places `stays`.
    """
    sharing = m.problem.part_demands
    if sharing is None:
        return
    use_slot, use, _ = uses
    first_stay = len(use) - len(stays)
    share = np.flatnonzero(cuts.start < 0)
    memory = np.zeros(len(use), dtype=np.int64)
    memory[share] = parts.memory[cuts.key[share]]
    memory[first_stay:] = sharing.memory[m.stay_shape[stays]]
    asks = np.flatnonzero(memory)
    mine, row_of = np.unique(use_slot[asks], return_inverse=True)
    rows = m.model.rows("memory", len(mine), upper=limits.memory[mine])
    m.model.add(rows[row_of], use[asks], memory[asks])
    _slices(m, cuts, uses, stays)


def _slices(m: HostModel, cuts: PartVariables, uses: tuple[Ints, Ints, Ints], stays: Ints) -> None:
    """Append the rows on memory slices and media extensions."""
    use_slot, use, use_milli = uses
    first_stay = len(use) - len(stays)
    masks = np.zeros(len(use), dtype=np.int64)
    cut = np.flatnonzero(cuts.start >= 0)
    masks[cut] = [mask_of(~k, s) for k, s in zip(cuts.key[cut], cuts.start[cut], strict=True)]
    for i, p in enumerate(stays.tolist()):
        masks[first_stay + i] = stay_mask(m, p)
    for mine in [np.flatnonzero(use_slot == i) for i in np.unique(use_slot[masks > 0]).tolist()]:
        for bit in range(MEMORY_SLICES):
            on = masks[mine] >> bit & 1 > 0
            if not on.any():
                continue
            takes = np.where(masks[mine] > 0, WHOLE_GPU * on, use_milli[mine])
            m.model.row("slice", use[mine], takes, upper=WHOLE_GPU)
        media = mine[masks[mine] >> MEMORY_SLICES > 0]
        m.model.row("media", use[media], upper=1.0)


def stay_mask(m: HostModel, place: int) -> int:
    """Return the mask of the slice in a place of a running job; 0 if it is none."""
    sharing, slot = m.problem.part_demands, m.stays.slot[place]
    shape = int(m.stay_shape[place])
    if sharing is None or slot is None or not sharing.is_slice[shape]:
        return 0
    return mask_of(sharing.slice_kind_on(shape, int(m.hosts[m.stays.host[place]])), slot)


# GPUs in the host-indexed model: counted per host for whole GPUs, slots of their own for shares.
#
#     gpus    sum_t gpus(t) x[t,h]  <= whole free GPUs of h                 (hosts without shares)
#     gpus    sum_t gpus(t) x[t,h]  <= sum_i w[i]                           (hosts with shares)
#     gpu     1000 w[i] + sum_f f b[i,f] <= free milli-GPU of slot i
#     share   sum_{t: share f} x[t,h] <= sum_{i on h} b[i,f]
#
# A slot i is one GPU of a host with something free; b[i,f] is how many shares f it takes, w[i]
# whether it is used whole. Running tasks that stay count on the left of `gpus` (without shares)
# or of their slots' `gpu`. Shares with memory and MIG slices have more rows.


ANY_FREE = -1
"""Instead of a GPU's index: any of the host's wholly free GPUs."""


@dataclass(frozen=True, eq=False, slots=True)
class GpuSlots:
    """The slots and the variables b."""

    # host, gpu, free: per slot the host (position in the model), GPU or `ANY_FREE`, milli-GPU
    host: Ints
    gpu: Ints
    free: Ints
    parts: ShareTypes  # the distinct shares
    # b, b_slot, b_key: columns of b, and the slot and key (see `ShareTypes.key`) of each
    b: Ints
    b_slot: Ints
    b_key: Ints
    # use_slot, use, use_milli: slot, column and milli-GPU of all that uses a slot
    use_slot: Ints
    use: Ints
    use_milli: Ints

    def whole_uses(self, m: HostModel, slots: Ints) -> Ints:
        """Return the columns w of some slots."""
        whole = (self.use_milli == WHOLE_GPU) & np.isin(self.use_slot, slots)
        found: Ints = self.use[whole & ~np.isin(self.use, np.append(self.b, m.stays.s))]
        return found


def add_gpus(m: HostModel) -> GpuSlots:
    """Append the rows of all GPUs."""
    gpu, stay_gpu = m.problem.shape_gpu[m.x_shape], milli_each(m)
    shared, stay_shared = _is_share(gpu), _is_share(stay_gpu)
    sharing = np.union1d(m.x_host[shared], m.stays.host[stay_shared])
    named = np.flatnonzero((stay_gpu > 0) & np.isin(m.stays.host, sharing))
    host, gpu_of, free = _slots(m, sharing, named)
    parts = ShareTypes.of(m, m.x_shape)
    limits = SlotLimits.of(m, host, gpu_of, free)
    key = np.where(shared, parts.keys(m), 0)
    cuts = add_part_variables(m, parts, key, host, free, limits)
    w = m.model.variables("w", int((free == WHOLE_GPU).sum()), upper=1)
    *uses, staying = _uses(m, (host, gpu_of, free), cuts, w, named)
    slots = GpuSlots(host, gpu_of, free, parts, cuts.b, cuts.slot, cuts.key, *uses)
    add_part_rows(m, limits, parts, cuts, (slots.use_slot, slots.use, slots.use_milli), staying)
    m.model.add(
        m.model.rows("gpu", len(free), upper=free)[slots.use_slot], slots.use, slots.use_milli
    )
    wholly = np.flatnonzero(free == WHOLE_GPU)
    on_gpu = zip(host[wholly].tolist(), gpu_of[wholly].tolist(), strict=True)
    add_gpu_links(m, dict(zip(on_gpu, w.tolist(), strict=True)))
    whole = np.flatnonzero(gpu >= WHOLE_GPU)
    held = np.flatnonzero((stay_gpu >= WHOLE_GPU) & ~np.isin(m.stays.host, sharing))
    plain = np.setdiff1d(np.union1d(m.x_host[whole], m.stays.host[held]), sharing)
    row = np.full(len(m.hosts), -1, dtype=np.int64)
    row[plain] = m.model.rows("gpus", len(plain), upper=m.placement.whole[m.hosts[plain]])
    row[sharing] = m.model.rows("gpus", len(sharing), upper=0.0)
    m.model.add(row[m.x_host[whole]], m.x[whole], gpu[whole] // WHOLE_GPU)
    m.model.add(row[m.stays.host[held]], m.stays.s[held], m.stays.usable[held])
    m.model.add(row[host[free == WHOLE_GPU]], w, -1.0)
    for one in np.unique(key[shared]):
        row[sharing] = m.model.rows("share", len(sharing), upper=0.0)
        asked, given = np.flatnonzero(shared & (key == one)), np.flatnonzero(slots.b_key == one)
        m.model.add(row[m.x_host[asked]], m.x[asked], 1.0)
        m.model.add(row[slots.host[slots.b_slot[given]]], slots.b[given], -1.0)
    return slots


def _is_share(gpu: Ints) -> Bools:
    return (gpu > 0) & (gpu < WHOLE_GPU)


def _usable_gpus(m: HostModel, place: int) -> list[int]:
    """Return the GPUs of a place that are not reserved."""
    start = int(m.problem.cluster.gpu_start[m.hosts[m.stays.host[place]]])
    return [g for g in m.stays.gpus[place] if m.problem.usable[start + g]]


def _slots(m: HostModel, sharing: Ints, held: Ints) -> tuple[Ints, Ints, Ints]:
    """Return the host, the GPU and the free milli-GPU of each slot.

    Slots are the GPUs in part use, those of the running tasks in the places `held`, and as many
    free ones as the host has, which are not named.
    """
    named: dict[int, set[int]] = {at: set() for at in sharing.tolist()}
    for p in held.tolist():
        named[int(m.stays.host[p])].update(_usable_gpus(m, p))
    slots: list[tuple[int, int, int]] = []
    for at in sharing.tolist():
        host = m.hosts[at]
        partial = m.placement.partial_free[host]
        known = named[at] | set(np.flatnonzero(partial).tolist())
        if m.problem.link_demands is not None and m.problem.link_demands.differ[host]:
            known.update(m.placement.free_gpu_ids(host))
        if m.placement.part_state is not None:
            known.update(np.flatnonzero(m.placement.part_state.layout[host]).tolist())
        # A GPU that all may leave is wholly free in the placement.
        free = {i: int(m.placement.gpu_free[host, i]) for i in sorted(known)}
        unnamed = int(m.placement.whole[host]) - sum(milli == WHOLE_GPU for milli in free.values())
        slots += [(at, i, milli) for i, milli in free.items()]
        slots += [(at, ANY_FREE, WHOLE_GPU)] * unnamed
    host_of, gpu, free_milli = np.array(slots, dtype=np.int64).reshape(-1, 3).T
    return host_of, gpu, free_milli


def _uses(
    m: HostModel, slots: tuple[Ints, Ints, Ints], cuts: PartVariables, w: Ints, held: Ints
) -> tuple[Ints, Ints, Ints, Ints]:
    """Return slot, column and milli-GPU of all that uses a slot: b, w and what stays.

    The last array has the places of running tasks that stay.
    """
    host, gpu_of, free = slots
    whole = np.flatnonzero(free == WHOLE_GPU)
    slot_of = {(h, g): i for i, (h, g) in enumerate(zip(host, gpu_of, strict=True))}
    milli = np.minimum(milli_each(m), WHOLE_GPU)
    staying = [
        (slot_of[m.stays.host[p], gpu], m.stays.s[p], milli[p], p)
        for p in held.tolist()
        for gpu in _usable_gpus(m, p)
    ]
    stay_slot, stay, stay_milli, place = np.array(staying, dtype=np.int64).reshape(-1, 4).T
    return (
        np.concatenate([cuts.slot, whole, stay_slot]),
        np.concatenate([cuts.b, w, stay]),
        np.concatenate([cuts.milli, np.full(len(whole), WHOLE_GPU), stay_milli]),
        place,
    )


# Topology rows: slices of tasks, failure domains, hosts, joint levels, anti-affinity.
#
# "Tasks in d" are those of a set that arrive or stay in domain d, less those of a kept job.
#
# slices   tasks of t in d  =  size m[t,d]                          d of the slices' level
#          s[p] - k <= g[i,d]        p of slice i in d;             sum_d g[i,d] <= 1
#          sum_i g[i,d] <= m[t,d]    the index of tasks that stay is fixed, that of others is free
# apart    tasks of t in d  <=  most                                d of the level
# hosts    used[t,h] <= tasks of t on h  <=  n used[t,h]
#          least (y[j] - k[j])  <=  sum_h used[t,h]  <=  most (y[j] - k[j]);     or of all sets of j
# joint    tasks of all sets of entry j in d  <=  most Z[j,d],      sum_d Z[j,d] <= y[j] - k[j]
# labels   x[t,h] <= capacity Q[j,d]     h in d;    sum_j Q[j,d] <= 1,
#          Q[j,d] + s[p] <= 1        p of another job in d


def add_topology_rows(m: HostModel) -> None:
    """Append the rows of all entries with tied options."""
    sets_of: defaultdict[int, list[int]] = defaultdict(list)
    for t, task_set in enumerate(m.task_sets):
        if task_set.group is not None:
            sets_of[task_set.users[0][0]].append(t)
    by_label: defaultdict[int, list[int]] = defaultdict(list)
    domain = m.problem.cluster.domain
    for e, entry in enumerate(m.entries):
        choice = m.choice(entry)
        if choice.label != NO_LABEL:
            by_label[choice.label].append(e)
        if choice.joint_level != NO_LEVEL:
            _joint(m, e, sets_of[e], choice.joint_level)
        if choice.num_hosts is not None:
            _num_hosts(m, e, sets_of[e], choice.num_hosts)
        for t in sets_of[e]:
            group = m.task_sets[t].group
            if group is not None and group.slices is not None:
                _task_slices(m, e, t, group.slices)
            if group is not None and group.domain_limit is not None:
                add_domain_rows(
                    m, e, [t], domain[group.domain_limit.level], upper=group.domain_limit.max_tasks
                )
            if group is not None and group.num_hosts is not None:
                _num_hosts(m, e, [t], group.num_hosts)
    for label, entries in by_label.items():
        _anti_affinity(m, label, entries, sets_of)


def _joint(m: HostModel, entry: int, sets: list[int], level: int) -> None:
    """All tasks of a job in one domain."""
    _, chosen = add_domain_uses(m, "joint", entry, sets, m.problem.cluster.domain[level])
    add_arrival(m, m.model.row("joint", chosen, upper=0.0), entry, -1.0)


def _num_hosts(m: HostModel, entry: int, sets: list[int], asked: HostRange) -> None:
    """All tasks of some sets of a job on so many hosts."""
    hosts = m.problem.cluster.domain[-1]
    _, used = add_domain_uses(m, "hosts", entry, sets, hosts)
    if asked.least > 1:
        m.model.add(add_domain_rows(m, entry, sets, hosts, lower=0.0, upper=np.inf).rows, used, -1)
    for number, sign in ((asked.most, 1.0), (asked.least, -1.0)):
        add_arrival(m, m.model.row("hosts", used, sign, upper=0.0), entry, -sign * number)


def _task_slices(m: HostModel, entry: int, t: int, slices: TaskSlices) -> None:
    """Whole slices in each domain; the domains of slices with tasks that stay are fixed."""
    count = m.task_sets[t].users[0][2]
    domain = m.problem.cluster.domain[slices.level]
    found = add_domain_rows(m, entry, [t], domain, lower=0.0)
    number = m.model.variables("slices", len(found.parts), upper=count // slices.size)
    m.model.add(found.rows, number, -float(slices.size))
    job = m.entries[entry].job
    if not m.entries[entry].may_stay:
        return
    _, group, _ = m.task_sets[t].users[0]
    index = [i for g, i, _, _ in m.problem.running[job].places if g == group]
    stays = np.flatnonzero(m.stays.set == t)
    there = domain[m.hosts[m.stays.host[stays]]].tolist()
    pairs = list(zip((i // slices.size for i in index), there, strict=True))
    known = sorted(set(pairs))
    g = m.model.variables("staying slice", len(known), upper=1)
    of_pair = [known.index(pair) for pair in pairs]
    rows = m.model.rows("staying slice", len(stays), upper=0.0)
    m.model.add(rows, m.stays.s[stays], 1.0)
    m.model.add(rows, m.kept[entry], -1.0)
    m.model.add(rows, g[of_pair], -1.0)
    each, of_slice = np.unique([i for i, _ in known], return_inverse=True)
    m.model.add(m.model.rows("staying slice", len(each), upper=1.0)[of_slice], g, 1.0)
    rows = m.model.rows("staying slice", len(found.parts), upper=0.0)
    m.model.add(rows, number, -1.0)
    m.model.add(rows[np.searchsorted(found.parts, [d for _, d in known])], g, 1.0)


def _anti_affinity(
    m: HostModel, label: int, entries: list[int], sets_of: dict[int, list[int]]
) -> None:
    """No task of a job arrives in a domain where another job with its label has one."""
    level, homes = m.problem.labels[label].level, m.problem.labels[label].running_domains
    domain = m.problem.cluster.domain[level][m.hosts]
    mine = {m.entries[e].job for e in entries}
    fixed = {d for job, home in homes.items() if job not in mine for d in home}
    number = len(m.problem.cluster.names[level])
    one = m.model.rows("label", number, upper=np.array([d not in fixed for d in range(number)]))
    comes: dict[int, Ints] = {}
    for e in entries:
        at = np.flatnonzero(np.isin(m.x_set, sets_of[e]))
        parts, part_of = np.unique(domain[m.x_host[at]], return_inverse=True)
        q = m.model.variables("comes", len(parts), upper=1)
        rows = m.model.rows("comes", len(at), upper=0.0)
        m.model.add(rows, m.x[at], 1.0)
        m.model.add(rows, q[part_of], -m.capacity[m.x_set[at], m.x_host[at]].astype(np.float64))
        m.model.add(one[parts], q, 1.0)
        comes[e] = np.full(number, NONE, dtype=np.int64)
        comes[e][parts] = q
    for p in np.flatnonzero(np.isin(m.stays.entry, entries)).tolist():
        d = int(domain[m.stays.host[p]])
        others = [int(comes[e][d]) for e in entries if e != m.stays.entry[p]]
        others = [column for column in others if column != NONE]
        rows = m.model.rows("label", len(others), upper=1.0)
        m.model.add(rows, others, 1.0)
        m.model.add(rows, m.stays.s[p], 1.0)


# Rows of pools: what the tasks and jobs of a domain take together <= what it has.
#
# sum_t demand[t] x[t,h in d] + sum_p demand[p] s[p in d] + sum_j amount[j] use[j,d]  <=  left[d]
# use[j,d] <= tasks of j in d <= n use[j,d]    jobs of several tasks, where the pool counts per job


@dataclass(frozen=True, eq=False, slots=True)
class PoolColumns:
    """What takes something of a pool of the model: columns, and what is known of each."""

    pool: Pool
    left: Ints  # (domains,): What may be taken of each domain
    # columns, domain, amount: columns, and where and what each takes
    columns: Ints
    domain: Ints
    amount: Ints
    entry: Ints  # entry of each column; the first one of a task set
    stays: Bools  # whether each is a running task in its place


def add_pools(m: HostModel) -> list[PoolColumns]:
    """Append the rows of all pools of levels; return what takes of each."""
    found = []
    for pool, left in zip(m.problem.pools, m.placement.pools.left, strict=True):
        taking = _taking(m, pool, left)
        parts, row = np.unique(taking.domain, return_inverse=True)
        rows = m.model.rows("pool", len(parts), upper=left[parts])
        m.model.add(rows[row], taking.columns, taking.amount.astype(np.float64))
        found.append(taking)
    return found


def _taking(m: HostModel, pool: Pool, left: Ints) -> PoolColumns:
    """Append which domains jobs of several tasks use; return all that takes of a pool."""
    entry_of_set = np.array([s.users[0][0] for s in m.task_sets], dtype=np.int64)
    x, stays = np.flatnonzero(pool.demand[m.x_shape]), np.flatnonzero(pool.demand[m.stay_shape])
    columns = [m.x[x], m.stays.s[stays]]
    domains = [pool.domain[m.hosts[h]] for h in (m.x_host[x], m.stays.host[stays])]
    amounts = [pool.demand[m.x_shape[x]], pool.demand[m.stay_shape[stays]]]
    entries = [entry_of_set[m.x_set[x]], m.stays.entry[stays]]
    for e, choice in enumerate(map(m.choice, m.entries)):
        amount = pool.used_by(choice.uses) if choice.num_tasks > 1 else 0
        if amount:
            parts, use = _use(m, e, choice.num_tasks, pool)
            columns.append(use)
            domains.append(parts)
            amounts.append(np.full(len(use), amount))
            entries.append(np.full(len(use), e))
    in_place = np.zeros(sum(map(len, columns)), dtype=np.bool_)
    in_place[len(x) : len(x) + len(stays)] = True
    taking, where, each, of = (
        np.concatenate(part).astype(np.int64) for part in (columns, domains, amounts, entries)
    )
    return PoolColumns(pool, left, taking, where, each, of, in_place)


def _use(m: HostModel, entry: int, tasks: int, pool: Pool) -> tuple[Ints, Ints]:
    """Append whether a job of several tasks uses each domain; return the domains and columns."""
    sets = [t for t, one in enumerate(m.task_sets) if one.users[0][0] == entry]
    there = Tasks.of(m, sets)
    parts, row = np.unique(pool.domain[m.hosts[there.hosts]], return_inverse=True)
    use = m.model.variables("use", len(parts), upper=1)
    most = np.minimum(np.bincount(row, weights=there.most, minlength=len(parts)), tasks)
    at_most = m.model.rows("in domain", len(parts), upper=0.0)
    at_least = m.model.rows("in domain", len(parts), lower=0.0)
    for rows, each in ((at_most, most), (at_least, np.ones(len(parts)))):
        m.model.add(rows[row], there.columns, 1.0)
        m.model.add(rows, use, -each)
    return parts.astype(np.int64), use


# Rows of the disruption budget (docs/formulations/disruption.md), over the jobs j that count.
#
# preempted_jobs   sum_j (1 - y[j])                    <= what is left of the limit
# preempted_gpus   sum_j milli-GPU (1 - y[j])          <= ...
# migrated_jobs    sum_j (y[j] - k[j])                 <= ...
# resized_jobs     sum_j y[j with another option]      <= ...
# lost_gpu_s       sum_j lost milli-GPU-seconds (1 - k[j])   <= ...
# min_run_s        y[j] >= 1                           of protected jobs
# pin: place       y[j] >= 1,  k[j] = y[j with the option that it runs]
#                  sum_h w[j,h] >= sum_{other options o} min(milli-GPU before, of o) y[j,o]
#                  w[j,h] <= milli-GPU on h before,  w[j,h] <= milli-GPU of arrivals on h
#
# What the placement of the model does to running jobs that the model does not have counts first.


def add_disruption_budget(m: HostModel) -> None:
    """Append the rows of what the rest of the placement leaves; none without a budget."""
    budget = m.problem.budget
    if budget is None:
        return
    inside = {entry.job for entry in m.entries if entry.job != ANY_JOB}
    others = [job for job in m.placement.displaced_jobs() if job not in inside]
    stopped = [job for job in others if not m.placement.is_running(job)]
    running = [job for job in others if m.placement.is_running(job)]
    # What is pinned to its place has not left it: the rest of the placement is lawful.
    moved = [job for job in running if not m.placement.resizes(job)]
    resized = [job for job in running if m.placement.resizes(job)]
    left = budget.after(budget.used(stopped, moved, resized))
    add_budget_rows(m, left, [(e, entry.job) for e, entry in enumerate(m.entries)])


def add_budget_rows(
    m: HostModel, budget: DisruptionBudget, entries: Sequence[tuple[int, int]]
) -> None:
    """Append the rows of a budget.

    `entries` of the model have the job that each stands for; of those of one job at most one runs.
    """
    counted = [(e, job) for e, job in entries if job in budget.stops]
    stops = {job: budget.stops[job] for _, job in counted}
    protected = sorted(job for job, stop in stops.items() if stop.protected)
    rows = dict(
        zip(protected, m.model.rows("protected", len(protected), lower=1.0).tolist(), strict=True)
    )
    of_protected = [(rows[job], m.y[e]) for e, job in counted if job in rows]
    m.model.add([row for row, _ in of_protected], [y for _, y in of_protected], 1.0)
    for mine in m.entries_of_running:
        if budget.is_pinned(m.entries[mine[0]].job):
            _stay(m, mine)
    # Of those on hosts that failed or are vacated, nothing else counts.
    counted = [(e, job) for e, job in counted if stops[job].migrated.migrated_jobs]
    jobs, gpus, moves, lost, sizes, _ = budget.limits
    milli = {job: stop.preempted.preempted_gpus for job, stop in stops.items()}
    work = {job: stop.migrated.lost_gpu_s for job, stop in stops.items()}
    once = {job: e for e, job in reversed(counted)}
    _limit(m, jobs, [(m.y[e], 1, once[job] == e) for e, job in counted])
    _limit(m, gpus, [(m.y[e], milli[job], milli[job] * (once[job] == e)) for e, job in counted])
    resized = [e for e, _ in counted if m.entries[e].resizes]
    _limit(m, sizes, [(m.y[e], -1, 0) for e in resized])
    counted = [(e, job) for e, job in counted if not m.entries[e].resizes]
    kept = [(m.kept[e], 1, 0) for e, _ in counted]
    _limit(m, moves, [*kept, *((m.y[e], -1, 0) for e, _ in counted)])
    _limit(m, lost, [(m.kept[e], work[job], work[job] * (once[job] == e)) for e, job in counted])


def _stay(m: HostModel, mine: Sequence[int]) -> None:
    """Keep a job, whose entries are `mine`, where it is, at whatever size."""
    m.model.row("pinned place", [m.kept[mine[0]], m.y[mine[0]]], [1.0, -1.0], lower=0.0)
    held = m.problem.milli_held(m.entries[mine[0]].job)
    sets = [t for t, one in enumerate(m.task_sets) if one.users[0][0] in mine[1:]]
    x, away = np.isin(m.x_set, sets), np.flatnonzero(np.isin(m.away_set, sets))
    kept: list[Ints] = []
    for h in np.unique(m.stays.host[m.stays.entry == mine[0]]).tolist():
        w = m.model.variables("kept milli-GPU", 1, upper=held[int(m.hosts[h])])
        there = np.flatnonzero(x & (m.x_host == h))
        row = m.model.row("pinned place", w, 1.0, upper=0.0)
        m.model.add(row, m.x[there], -m.problem.shape_gpu[m.x_shape[there]])
        m.model.add(row, m.away[away], -m.problem.shape_gpu[m.set_shape[m.away_set[away]]])
        kept.append(w)
    row = m.model.row("pinned place", np.concatenate(kept), 1.0, lower=0.0)
    for e in mine[1:]:
        asked = sum(group.milli_gpu for group in m.choice(m.entries[e]).groups)
        m.model.add(row, m.y[e], -min(asked, held.total()))


def _limit(m: HostModel, most: int | None, parts: Sequence[tuple[int, int, int]]) -> None:
    """Append  sum of (constant - coefficient * column) <= most,  divided by what all share."""
    if most is None or not parts:
        return
    unit = gcd(*(coefficient for _, coefficient, _ in parts)) or 1
    constant = sum(constant for _, _, constant in parts) // unit
    columns, coefficients = [c for c, _, _ in parts], [c / unit for _, c, _ in parts]
    m.model.row("disruption budget", columns, coefficients, lower=constant - most // unit)
