"""Rules about places: hosts, capacity, parts of GPUs, topology, gangs that are whole."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import combinations
from typing import NamedTuple, TypeAlias

from placewright.instances.derived.ranges import expand
from placewright.instances.documents.arrangement import Apart, GpuLinkRequest, HostCount
from placewright.instances.documents.option import Option, TaskGroup
from placewright.instances.documents.quantities import amount_text, memory_in_gi
from placewright.instances.documents.round import Round
from placewright.instances.verify.reading import (
    HostFacts,
    Placed,
    PlacedTask,
    Reading,
    demand,
    reserved_places,
)
from placewright.instances.verify.result import Finding, Rule, rules
from placewright.instances.verify.rules.gang.waiting import end_of
from placewright.topology.gpu_links import LINK_KINDS, Joined
from placewright.topology.mig import COMPUTE_SLICES, NO_MIG, PRODUCTS, SLICES, Slice
from placewright.topology.units import WHOLE_GPU

# Rules about hosts of arrivals: health, GPU models, reservations, hosts to vacate.
#
# Kept jobs are exempt from all of them, and staying tasks of migrated jobs from all but health.


def healthy(reading: Reading) -> Iterator[Finding]:
    """Refuse all tasks of started and migrated jobs on unhealthy hosts."""
    for placed in reading.placed_anew:
        for task in placed.tasks:
            if not task.host.healthy:
                yield Finding(
                    (*task.path, "host"),
                    f"host {task.host.name!r} is unhealthy; "
                    "expected started and migrated jobs on healthy hosts",
                )


def gpu_model(reading: Reading) -> Iterator[Finding]:
    """Require of each arrival a host of a GPU model that its group allows."""
    for arrival in reading.arrivals():
        group, host = arrival.group, arrival.host
        if group.gpu_models is not None and host.hardware.gpu_model not in group.gpu_models:
            yield Finding(
                (*arrival.path, "host"),
                f"host {host.name!r} has GPU model {host.hardware.gpu_model or 'none'}; "
                f"expected one of {', '.join(group.gpu_models)}",
            )


def allowed_host(reading: Reading) -> Iterator[Finding]:
    """Require of each arrival one of the hosts that its group allows."""
    for arrival in reading.arrivals():
        group, host = arrival.group, arrival.host.name
        if not reading.named.include(group, host):
            yield Finding(
                (*arrival.path, "host"),
                f"host {host!r} is none that its group allows; "
                f"expected {reading.named.text(group)}",
            )


def reserved(reading: Reading) -> Iterator[Finding]:
    """Refuse arrivals on reserved hosts, and on reserved GPUs of others."""
    hosts, gpus = reserved_places(reading.round)
    for arrival in reading.arrivals():
        host = arrival.host
        if host.name in hosts:
            yield Finding(
                (*arrival.path, "host"),
                f"host {host.name!r} is reserved; expected a host without reservation",
            )
        elif taken := gpus.get(host.name, set()).intersection(arrival.task.gpus):
            yield Finding(
                (*arrival.path, "gpus"),
                f"GPU {min(taken)} of host {host.name!r} is reserved; "
                "expected GPUs without reservation",
            )


def vacated(reading: Reading) -> Iterator[Finding]:
    """Refuse arrivals on hosts that the policy empties."""
    for arrival in reading.arrivals():
        if arrival.host.name in reading.vacated:
            yield Finding(
                (*arrival.path, "host"),
                f"host {arrival.host.name!r} is to be vacated; expected a host that is not",
            )


def gpu_links(reading: Reading) -> Iterator[Finding]:
    """Require that the GPUs of each arrival are joined as its group asks."""
    for arrival in reading.arrivals():
        asked, gpus = arrival.group.gpu_links, sorted(set(arrival.task.gpus))
        if asked is None or not asked.is_required:
            continue
        if not _has_links(arrival.host, asked, gpus):
            wide = "" if asked.at_least_mbps is None else f" of {asked.at_least_mbps} Mbit/s"
            how = {"all": "any two", "ring": "a ring of all", "path": "a path through all"}
            yield Finding(
                (*arrival.path, "gpus"),
                f"GPUs {', '.join(map(str, gpus))} of host {arrival.host.name!r} are not "
                f"joined; expected {how[asked.joined]} joined by {asked.required or 'links'}{wide}",
            )


def _has_links(host: HostFacts, asked: GpuLinkRequest, gpus: Sequence[int]) -> bool:
    links = host.gpu_links
    if links is None or len(gpus) < 2 or gpus[-1] >= links.gpus:
        return False
    joined = _joining(host, asked)
    return bool(joined) if links.is_uniform else are_joined(gpus, joined, asked.joined)


def _joining(host: HostFacts, asked: GpuLinkRequest) -> set[frozenset[int]]:
    """Return the pairs of GPUs of a host with a link that will do."""
    links = host.gpu_links
    if links is None:
        return set()
    least = 1 if asked.required is None else 1 + LINK_KINDS.index(asked.required)
    return {
        frozenset((a, b))
        for a, b in combinations(range(links.gpus), 2)
        if links.kind[a][b] >= least and links.mbps[a][b] >= (asked.at_least_mbps or 0)
    }


def are_joined(gpus: Sequence[int], joined: set[frozenset[int]], how: Joined) -> bool:
    """Whether any two GPUs are joined, or neighbours on some ring or path through all of them."""
    if how == "all":
        return all(frozenset(pair) in joined for pair in combinations(gpus, 2))
    ends: dict[frozenset[int], set[int]] = {frozenset([gpu]): {gpu} for gpu in gpus}
    if how == "ring":
        ends = {frozenset([gpus[0]]): {gpus[0]}}
    for _ in range(len(gpus) - 1):
        longer: defaultdict[frozenset[int], set[int]] = defaultdict(set)
        for on_path, last in ends.items():
            for gpu in set(gpus) - on_path:
                if any(frozenset((gpu, end)) in joined for end in last):
                    longer[on_path | {gpu}].add(gpu)
        ends = longer
    last = ends.get(frozenset(gpus), set())
    if how == "ring":
        last = {end for end in last if frozenset((end, gpus[0])) in joined}
    return bool(last)


RULES_OF_ARRIVALS = rules(healthy, gpu_model, allowed_host, reserved, vacated, gpu_links)


# Maintenance: tasks that would not have ended by then do not come to hosts that it takes.


class Windows:
    """When maintenance takes hosts."""

    def __init__(self, round_: Round) -> None:
        windows = defaultdict[str, list[tuple[float, float]]](list)
        for outage in round_.maintenance:
            end = float("inf") if outage.end is None else outage.end
            for name in expand(outage.host):
                windows[name].append((outage.start or 0, end))
        self._windows: Mapping[str, Sequence[tuple[float, float]]] = windows

    def first(self, host: str, start: float, end: float) -> float | None:
        """Return when a host is away for the first time from `start` to `end`, None for never."""
        found = [max(a, start) for a, b in self._windows.get(host, ()) if a < end and b > start]
        return min(found, default=None)

    def ends(self) -> set[float]:
        """Return the times at which hosts are back."""
        return {end for windows in self._windows.values() for _, end in windows}


def maintenance(reading: Reading) -> Iterator[Finding]:
    """Refuse tasks that come to a host which maintenance takes before they would have ended."""
    if not reading.round.maintenance:
        return
    windows, now = Windows(reading.round), reading.round.now
    for placed in reading.placed:
        end = end_of(placed.job, now)
        for task in placed.arrivals:
            at = windows.first(task.host.name, now, end)
            if at is not None:
                yield Finding(
                    (*task.path, "host"),
                    f"job {placed.job.name!r} comes to host {task.host.name!r}, which is away at "
                    f"{at:.0f}; expected jobs that have ended by then",
                )


RULES_OF_MAINTENANCE = rules(maintenance)


# Rules about capacity: of each host per resource, and of each GPU.
#
# Jobs of a group, which take turns, hold their GPUs and CPU together.


def host_capacity(reading: Reading) -> Iterator[Finding]:
    """Require that all tasks on a host ask no more of a resource together than it has."""
    used: defaultdict[str, dict[str, int]] = defaultdict(dict)
    asked: dict[int, list[tuple[str, int]]] = {}  # by group, each of which the round keeps alive
    for placed in reading.held_tasks():
        asks = asked.get(id(placed.group))
        if asks is None:
            asks = asked[id(placed.group)] = [ask for ask in demand(placed.group) if ask[1]]
        on_host = used[placed.host.name]
        for resource, amount in asks:
            on_host[resource] = on_host.get(resource, 0) + amount
    over: dict[tuple[str, str], int] = {}
    for name, on_host in used.items():
        capacity = reading.cluster.hosts[name].hardware.capacity
        for resource, amount in on_host.items():
            if amount > capacity.get(resource, 0):
                over[name, resource] = amount
    if not over:
        return
    last = {
        (placed.host.name, resource): placed.path
        for placed in reading.held_tasks()
        for resource, amount in demand(placed.group)
        if amount
    }
    for (name, resource), amount in over.items():
        capacity = reading.cluster.hosts[name].hardware.capacity
        yield Finding(
            last[name, resource],
            f"tasks on host {name!r} ask {amount_text(resource, amount)} together; "
            f"expected at most {amount_text(resource, capacity.get(resource, 0))}",
        )


def gpu_capacity(reading: Reading) -> Iterator[Finding]:
    """Require that all tasks on a GPU take at most 1000 milli-GPU of it together."""
    used: defaultdict[str, dict[int, int]] = defaultdict(dict)
    for _, _, task, group, host in reading.held_tasks():
        taken, on_host = min(group.gpu, WHOLE_GPU), used[host.name]
        for gpu in task.gpus:
            on_host[gpu] = on_host.get(gpu, 0) + taken
    over = {
        (name, gpu): amount
        for name, on_host in used.items()
        for gpu, amount in on_host.items()
        if amount > WHOLE_GPU
    }
    if not over:
        return
    last = {
        (placed.host.name, gpu): placed.path
        for placed in reading.held_tasks()
        for gpu in placed.task.gpus
    }
    for (name, gpu), amount in over.items():
        yield Finding(
            (*last[name, gpu], "gpus"),
            f"tasks on GPU {gpu} of host {name!r} take {amount_text('gpu', amount)} together; "
            "expected at most 1",
        )


RULES_OF_CAPACITY = rules(host_capacity, gpu_capacity)


# Rules about parts of GPUs: legal starts of MIG slices, and the memory of GPUs.
#
# The table of profiles is read here anew: what is legal on a GPU is counted slice by slice.


def slice_on(host: HostFacts, profile: str) -> Slice | None:
    """Return the slice of a MIG profile on a host's GPUs; None if they have no such profile."""
    product = host.hardware.product
    kind = PRODUCTS[product].profiles.get(profile) if product != NO_MIG else None
    return None if kind is None else SLICES[kind]


def slot(reading: Reading) -> Iterator[Finding]:
    """Require a legal start of each arriving MIG slice, and none of other tasks."""
    for placed in (task for job in reading.placed_anew for task in job.tasks):
        given, profile = placed.task.slot, placed.group.mig
        if profile is None:
            if given is not None:
                yield Finding(
                    (*placed.path, "slot"),
                    f"slot {given} of a task that asks for no MIG slice; expected none",
                )
            continue
        kind = slice_on(placed.host, profile)
        if kind is None:
            yield Finding(
                (*placed.path, "host"),
                f"GPUs of host {placed.host.name!r} have no MIG profile {profile!r}; "
                "expected a host that can be cut so",
            )
        elif given not in kind.starts:
            yield Finding(
                (*placed.path, "slot"),
                f"{'no slot' if given is None else f'slot {given}'} for a slice {profile!r}; "
                f"expected one of {', '.join(map(str, kind.starts))}",
            )


def mig_layout(reading: Reading) -> Iterator[Finding]:
    """Require that MIG slices of a GPU do not overlap, and that nothing else is on that GPU."""
    if not reading.sliced:
        return
    on_gpu: defaultdict[tuple[str, int], list[PlacedTask]] = defaultdict(list)
    for placed in reading.placed_tasks():
        for gpu in placed.task.gpus:
            on_gpu[placed.host.name, gpu].append(placed)
    for (name, gpu), tasks in on_gpu.items():
        slices = [task for task in tasks if task.group.mig is not None]
        if not slices:
            continue
        where = f"GPU {gpu} of host {name!r}"
        if len(slices) < len(tasks):
            other = next(task for task in tasks if task.group.mig is None)
            yield Finding(
                (*other.path, "gpus"),
                f"{where} holds MIG slices, and this task is none; expected only slices there",
            )
        taken: set[int] = set()
        compute = media = 0
        for task in slices:
            kind = slice_on(task.host, task.group.mig or "")
            if kind is None or task.task.slot is None:
                continue
            mine = set(range(task.task.slot, task.task.slot + kind.size))
            compute, media = compute + kind.compute, media + kind.media
            if taken & mine or compute > COMPUTE_SLICES or media > 1:
                problem = (
                    f"overlaps another at memory slice {min(taken & mine)}"
                    if taken & mine
                    else "is one compute slice or media extension too many"
                )
                yield Finding(
                    (*task.path, "slot"),
                    f"slice {task.group.mig!r} of {where} {problem}; "
                    "expected slices that a GPU can hold together",
                )
            taken |= mine


def gpu_memory(reading: Reading) -> Iterator[Finding]:
    """Require that all tasks on a GPU use at most its memory, and that it is known if any is asked.

    What stays where it runs has been checked with the round.
    """
    used: defaultdict[tuple[str, int], int] = defaultdict(int)
    last: dict[tuple[str, int], PlacedTask] = {}
    asking = reading.held is not None or reading.parted
    for placed in reading.held_tasks() if asking else ():
        for gpu in placed.task.gpus if placed.group.gpu_memory else ():
            used[placed.host.name, gpu] += placed.group.gpu_memory
            last[placed.host.name, gpu] = placed
    for (name, gpu), amount in used.items():
        has = last[name, gpu].host.hardware.gpu_memory
        if has is None or amount > has:
            yield Finding(
                (*last[name, gpu].path, "gpus"),
                f"tasks on GPU {gpu} of host {name!r} use {memory_in_gi(amount)} of its memory "
                "together; expected "
                + ("GPUs whose memory is known" if has is None else f"at most {memory_in_gi(has)}"),
            )


RULES_OF_GPU_PARTS = rules(slot, mig_layout, gpu_memory)


# Rules about tasks: all of a gang or none, on hosts that exist, with the GPUs that they ask.
#
# Kept tasks are compared with the round by `decisions.kept_in_place`; these rules judge the tasks
# of started and migrated jobs.


def gang(reading: Reading) -> Iterator[Finding]:
    """Require each task of each group of the chosen option exactly once."""
    for placed in reading.placed_anew:
        groups = placed.option.groups
        seen: set[tuple[int, int]] = set()
        for number, task in enumerate(placed.decision.tasks):
            key = (task.group, task.index)
            path = (*placed.path, "tasks", number)
            if task.group >= len(groups):
                yield Finding(
                    (*path, "group"),
                    f"job {placed.job.name!r} has no group {task.group} in this option; "
                    f"expected an index from 0 to {len(groups) - 1}",
                )
            elif task.index >= groups[task.group].count:
                yield Finding(
                    (*path, "index"),
                    f"job {placed.job.name!r} has no task {task.index} in group {task.group}; "
                    f"expected an index from 0 to {groups[task.group].count - 1}",
                )
            elif key in seen:
                yield Finding(
                    path,
                    f"task {task.index} of group {task.group} of job {placed.job.name!r} "
                    "is placed twice; expected each task once",
                )
            else:
                seen.add(key)
        missing = sum(group.count for group in groups) - len(seen)
        if missing:
            yield Finding(
                (*placed.path, "tasks"),
                f"{missing} tasks of job {placed.job.name!r} are not placed; "
                f"expected all {missing + len(seen)}",
            )


def known_host(reading: Reading) -> Iterator[Finding]:
    """Require hosts of the cluster."""
    hosts = reading.cluster.hosts
    named = {task.host for decision in reading.plan.decisions for task in decision.tasks}
    if named <= hosts.keys():
        return
    for index, decision in enumerate(reading.plan.decisions):
        for number, task in enumerate(decision.tasks):
            if task.host not in hosts:
                yield Finding(
                    ("decisions", index, "tasks", number, "host"),
                    f"host {task.host!r} of job {decision.job!r} is not in the cluster; "
                    "expected one of its hosts",
                )


def gpus(reading: Reading) -> Iterator[Finding]:
    """Require as many GPUs as a task asks (a share: one), distinct, of its host."""
    for placed in (task for job in reading.placed_anew for task in job.tasks):
        group, host, given = placed.group, placed.host, placed.task.gpus
        asked = -(-group.gpu // WHOLE_GPU)
        if len(given) != asked:
            problem = f"{len(given)} GPUs for a task that asks {amount_text('gpu', group.gpu)}"
            expected = f"{asked}"
        elif len(set(given)) != asked:
            problem = f"GPUs {list(given)} name one twice"
            expected = f"{asked} different ones"
        elif given and max(given) >= host.hardware.gpus:
            problem = f"GPU {max(given)} is not on host {host.name!r}"
            expected = f"an index below its {host.hardware.gpus} GPUs"
        else:
            continue
        yield Finding((*placed.path, "gpus"), f"{problem}; expected {expected}")


RULES_OF_TASKS = rules(gang, known_host, gpus)


# Ties: tasks of a job that share a domain.


class Tie(NamedTuple):
    """Tasks that share a domain of a level: of which, which tasks, and what is said otherwise.

    `level` is that of a group of an option, None without a tie; tasks of a group, its number and
    theirs given, are tied where `part` is equal.
    """

    rule: str
    level: Callable[[Option, TaskGroup], str | None]
    part: Callable[[TaskGroup, int, int], tuple[int, ...]]
    text: str


_AMONG = "{first!r} and {last!r} among them"
TIES = (
    Tie(
        "required_level",
        lambda _, group: group.required,
        lambda _group, number, _index: (number,),
        f"group {{0}} of job {{job!r}} is in {{n}} domains of level {{level!r}}, {_AMONG}; "
        "expected one",
    ),
    Tie(
        "joint_level",
        lambda option, _: option.required,
        lambda _group, _number, _index: (),
        f"job {{job!r}} is in {{n}} domains of level {{level!r}}, {_AMONG}; "
        "expected one for all groups",
    ),
    Tie(
        "slices",
        lambda _, group: None if group.slices is None else group.slices.required,
        lambda group, number, index: (index // (group.slices.size if group.slices else 1), number),
        f"slice {{0}} of group {{1}} of job {{job!r}} is in {{n}} domains, {_AMONG}; expected one",
    ),
)

Located: TypeAlias = tuple[int, int, HostFacts]
"""The number of the group of a task, its own, and its host."""


def torn(
    tie: Tie, levels: Mapping[str, int], option: Option, tasks: Iterable[Located]
) -> Iterator[tuple[str, tuple[int, ...], set[str]]]:
    """Yield the level, the part and the domains of tied tasks that are in several."""
    asked = [tie.level(option, group) for group in option.groups]
    used: defaultdict[tuple[str, tuple[int, ...]], set[str]] = defaultdict(set)
    for number, index, host in tasks if any(asked) else ():
        if (level := asked[number]) is not None:
            part = tie.part(option.groups[number], number, index)
            used[level, part].add(host.domains[levels[level]])
    for (level, part), domains in used.items():
        if len(domains) > 1:
            yield level, part, domains


def crowded(
    levels: Mapping[str, int], option: Option, tasks: Iterable[Located]
) -> Iterator[tuple[int, Apart, str, int]]:
    """Yield the group, what it allows, the domain and the number of tasks where these are more."""
    asked = [group.apart for group in option.groups]
    counts = Counter[tuple[int, str]]()
    for number, _, host in tasks if any(asked) else ():
        if (rule := asked[number]) is not None:
            counts[number, host.domains[levels[rule.level]]] += 1
    for (number, domain), count in counts.items():
        if (rule := asked[number]) is not None and count > rule.most:
            yield number, rule, domain, count


def miscounted(
    option: Option, tasks: Sequence[Located]
) -> Iterator[tuple[int | None, HostCount, int]]:
    """Yield the group, None for all, what is asked and the number of hosts if that is another."""
    asks = [(None, option.hosts), *enumerate(group.num_hosts for group in option.groups)]
    for which, asked in asks:
        if asked is not None:
            used = len({host.name for number, _, host in tasks if which in (None, number)})
            if not asked.min <= used <= (asked.max or used):
                yield which, asked, used


def _located(placed: Placed) -> list[Located]:
    return [(one.task.group, one.task.index, one.host) for one in placed.tasks]


def _together(reading: Reading, *, tie: Tie) -> Iterator[Finding]:
    """Require that the tasks of started and migrated jobs that are tied share a domain."""
    levels = reading.cluster.levels
    for placed in reading.placed_anew:
        for level, part, used in torn(tie, levels, placed.option, _located(placed)):
            said = {"job": placed.job.name, "n": len(used), "level": level}
            text = tie.text.format(*part, **said, first=min(used), last=max(used))
            yield Finding((*placed.path, "tasks"), text)


_RULES_OF_TIES = tuple(Rule(tie.rule, partial(_together, tie=tie)) for tie in TIES)
RULES_OF_LEVELS = _RULES_OF_TIES[:1]


# Rules about topology constraints: joint levels, slices, domains, hosts, labels.
#
# They speak of started and migrated jobs; kept jobs stay as they are, and count where others come.


def apart(reading: Reading) -> Iterator[Finding]:
    """Require that no domain has more tasks of a group than the group allows."""
    levels = reading.cluster.levels
    for placed in reading.placed_anew:
        for number, rule, domain, count in crowded(levels, placed.option, _located(placed)):
            yield Finding(
                (*placed.path, "tasks"),
                f"{count} tasks of group {number} of job {placed.job.name!r} are in {domain!r}; "
                f"expected at most {rule.most} in one {rule.level}",
            )


def num_hosts(reading: Reading) -> Iterator[Finding]:
    """Require that an option, and each of its groups, is on as many hosts as it asks for."""
    for placed in reading.placed_anew:
        for which, asked, used in miscounted(placed.option, _located(placed)):
            several = which is not None and len(placed.option.groups) > 1
            yield Finding(
                (*placed.path, "tasks"),
                f"{f'group {which} of ' * several}job {placed.job.name!r} is on {used} hosts; "
                f"expected {asked.min} to {asked.max or 'any number'}",
            )


def anti_affinity(reading: Reading) -> Iterator[Finding]:
    """Refuse an arrival in a domain where another job of the same label has a task."""
    if all(job.anti_affinity is None for job in reading.round.jobs):
        return
    holders: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    everybody = (*reading.kept, *reading.placed_anew)
    for placed in everybody:
        if (asked := placed.job.anti_affinity) is not None:
            position = reading.cluster.levels[asked.level]
            for task in placed.tasks:
                holders[asked.label, task.host.domains[position]].add(placed.job.name)
    for placed in reading.placed_anew:
        if (asked := placed.job.anti_affinity) is None:
            continue
        position = reading.cluster.levels[asked.level]
        for arrival in placed.arrivals:
            domain = arrival.host.domains[position]
            others = holders[asked.label, domain] - {placed.job.name}
            if others:
                yield Finding(
                    (*arrival.path, "host"),
                    f"job {placed.job.name!r} comes to {domain!r}, where {min(others)!r} has the "
                    f"label {asked.label!r}, too; expected another {asked.level}",
                )


RULES_OF_ARRANGEMENT = (*_RULES_OF_TIES[1:], *rules(apart, num_hosts, anti_affinity))
