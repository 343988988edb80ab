"""A round as the rule book sees it, read from its JSON document."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

from fuzz.book.accounts import JOBS, Account, accounts_of, limits, of_model
from fuzz.book.fabric import Fabric
from fuzz.book.references import invalid_jobs
from fuzz.policy import Raw

WHOLE = 1000
HOST = "host"
NO_LIMIT = 10**12
"""What a host has of a resource of pools that it does not list."""
DEFAULT_WEIGHTS = {"rack": 1, "block": 4}
Place: TypeAlias = tuple[int, int, int, tuple[int, ...], int | None]
"""Of a task: its group, its index there, the number of its host, its GPUs, its MIG slot."""


MANY = 10**6
"""More hosts than there are."""


class Slice(NamedTuple):
    """A kind of MIG slice: compute slices, memory slices, where it starts, media extensions."""

    compute: int
    size: int
    starts: tuple[int, ...]
    media: bool = False


SLICES_80 = {
    "1g.10gb": Slice(1, 1, (0, 1, 2, 3, 4, 5, 6)),
    "1g.10gb+me": Slice(1, 1, (0, 1, 2, 3, 4, 5, 6), media=True),
    "1g.20gb": Slice(1, 2, (0, 2, 4, 6)),
    "2g.20gb": Slice(2, 2, (0, 2, 4)),
    "3g.40gb": Slice(3, 4, (0, 4)),
    "4g.40gb": Slice(4, 4, (0,)),
    "7g.80gb": Slice(7, 8, (0,)),
}
"""Of the one product that rounds are drawn with."""
CUT = "A100-SXM4-80GB"
CUT_MEMORY = 81_920


@dataclass(frozen=True, slots=True)
class Host:
    """A host; `domains` are outermost first and end with the host itself.

    `gpu_memory` is None where nobody knows, and `slices` are empty where GPUs cannot be cut.
    `away`: an outage overlaps the current lease, so that nobody stays there. `gpu_links` has the
    rank and the Mbit/s of the links that are known, both ways.
    """

    number: int
    name: str
    gpus: int
    model: str | None
    gpu_memory: int | None
    slices: Mapping[str, Slice]
    has: Mapping[str, int]
    domains: tuple[str, ...]
    healthy: bool
    reserved: bool
    reserved_gpus: frozenset[int]
    vacated: bool
    busy: bool
    away: bool
    gpu_links: Mapping[tuple[int, int], tuple[int, int]]

    @property
    def open(self) -> bool:
        """Whether tasks may arrive."""
        return self.healthy and not self.reserved and not self.vacated and not self.away


@dataclass(frozen=True, slots=True)
class Group:
    """A task group; levels are positions in `Host.domains`, `hosts` are numbers.

    A task takes `each` milli-GPU of each of `number` GPUs. `on_hosts` are the fewest and the most
    hosts of all tasks.
    """

    count: int
    gpu: int
    number: int
    each: int
    wants: tuple[tuple[str, int], ...]
    models: tuple[str, ...] | None
    hosts: frozenset[int] | None
    required: int | None
    preferred: tuple[str, ...] | None
    slices: tuple[int, int] | None
    apart: tuple[int, int] | None
    on_hosts: tuple[int, int] | None
    communication: Mapping[str, Any] | None
    gpu_memory: int
    profile: str | None
    gpu_links: Mapping[str, Any] | None

    @property
    def milli(self) -> int:
        """Milli-GPU of all tasks."""
        return self.count * self.gpu

    @property
    def ordered(self) -> bool:
        """Whether it matters which of its tasks is where."""
        return self.slices is not None or self.communication is not None


@dataclass(frozen=True, slots=True)
class Option:
    """A way to run a job; `asks` is what all its tasks ask of each resource, `gpu` included.

    `counts` is what it counts in quotas and caps: the same, GPUs by model, and the job. `uses` is
    what the job takes once of pools.
    """

    groups: tuple[Group, ...]
    value: int
    progress: int
    required: int | None
    on_hosts: tuple[int, int] | None
    asks: Mapping[str, int]
    counts: Mapping[str, int]
    uses: Mapping[str, int]

    def tasks(self) -> Iterator[tuple[int, int]]:
        """Yield group and index of each task."""
        for number, group in enumerate(self.groups):
            for index in range(group.count):
                yield number, index


@dataclass(frozen=True, slots=True)
class Running:
    """Where a job runs, and what stopping it costs before the milli-GPU of its tasks.

    `stays` says that it is pinned to its place. `sizes` are the options with which it may go on
    instead, `resize_costs` what each option costs, and `resize_factor` the thousandths of their
    progress that count.
    """

    option: int
    places: tuple[Place, ...]
    pinned: bool
    stays: bool
    migrate_cost: int
    preempt_cost: int
    sizes: tuple[int, ...]
    resize_costs: tuple[int, ...]
    resize_factor: int


@dataclass(frozen=True, slots=True)
class Job:
    """A job; `label` is that of its anti-affinity, with the position of its level.

    `ineligible` is the reason for which it starts under no policy, "" if it may. Options of a
    pending job have the value that it has by now.
    """

    number: int
    name: str
    tenant: str | None
    accounts: tuple[Account, ...]
    priority: int
    opportunistic: bool
    ineligible: str
    label: tuple[str, int] | None
    options: tuple[Option, ...]
    running: Running | None


class Facts:
    """A round: its hosts and jobs by number, and the rest of the document as it is.

    It is the round without its `invalid` jobs, which wait.
    """

    def __init__(self, round_: Raw) -> None:
        cluster = round_["cluster"]
        hosts = [name for host in cluster["hosts"] for name in named(host["name"])]
        self.invalid = invalid_jobs(round_, hosts)
        jobs = [job for job in round_.get("jobs", ()) if job["name"] not in self.invalid]
        self.every_job = [job["name"] for job in round_.get("jobs", ())]
        self.raw: Raw = {**round_, "jobs": jobs} if self.invalid else round_
        self.levels: tuple[str, ...] = (*cluster.get("levels", ()), HOST)
        self.policy: Raw = round_.get("policy", {})
        self.tenants: list[Raw] = round_.get("tenants", [])
        self.limits = limits(self.raw)
        self.uplinks: dict[tuple[str, str], int] = {
            (entry.get("level", HOST), name): entry["uplink_mbps"]
            for entry in (*cluster.get("domains", ()), *cluster["hosts"])
            for name in named(entry["name"])
            if "uplink_mbps" in entry
        }
        self.fabric = Fabric(cluster) if cluster.get("fabric") else None
        self.hosts = tuple(self._hosts(cluster))
        self.numbers = {host.name: host.number for host in self.hosts}
        self.jobs = tuple(self._job(n, job) for n, job in enumerate(jobs))

    def uplink(self, level: str, domain: str) -> int | None:
        """Return what the link of a domain carries, None if it has none."""
        if self.fabric is not None and level != HOST:
            return self.fabric.out_of(domain)
        links: Raw = self.raw["cluster"].get("links", {})
        usual: int | None = links.get(level, {}).get("bandwidth_mbps")
        return self.uplinks.get((level, domain), usual)

    def position(self, level: str | None) -> int | None:
        """Return where a level stands in `Host.domains`."""
        return None if level is None else self.levels.index(level)

    @cached_property
    def weights(self) -> dict[str, int]:
        """Weights of the levels in the term `spread`."""
        given: dict[str, int] | None = self.policy.get("spread_weights")
        usual = {name: w for name, w in DEFAULT_WEIGHTS.items() if name in self.levels}
        return usual if given is None else given

    def _hosts(self, cluster: Raw) -> Iterator[Host]:
        parents = {domain["name"]: domain.get("parent") for domain in cluster.get("domains", ())}
        reservations = self.raw.get("reservations", ())
        vacated = {name for entry in self.policy.get("vacate", ()) for name in named(entry)}
        busy = {
            task["host"]
            for job in self.raw.get("jobs", ())
            if job.get("running") is not None
            for task in job["running"]["tasks"]
        }
        away = {name for name, leases in outages(self.raw).items() if 0 in leases}
        pooled = [pool["resource"] for pool in cluster.get("pools", ()) if pool.get("per") != "job"]
        entries = [(name, entry) for entry in cluster["hosts"] for name in named(entry["name"])]
        for number, (name, entry) in enumerate(entries):
            above: list[str] = []
            domain = entry.get("parent")
            while domain is not None:
                above.append(domain)
                domain = parents[domain]
            model = entry.get("gpu_model") if entry["gpus"] else None
            cut = model == CUT and entry.get("mig", True)
            mine = [entry for entry in reservations if name in named(entry["host"])]
            yield Host(
                number,
                name,
                entry["gpus"],
                model,
                entry.get("gpu_memory", CUT_MEMORY if model == CUT else None),
                SLICES_80 if cut else {},
                {
                    "cpu": entry.get("cpu", 0),
                    "memory": entry.get("memory", 0),
                    **dict.fromkeys(pooled, NO_LIMIT),
                    **entry.get("resources", {}),
                },
                (*reversed(above), name),
                entry.get("healthy", True),
                any(entry.get("gpus") is None for entry in mine),
                frozenset(gpu for entry in mine for gpu in entry.get("gpus") or ()),
                name in vacated,
                name in busy,
                name in away,
                gpu_links(cluster, entry.get("gpu_links")),
            )

    def _job(self, number: int, job: Raw) -> Job:
        weight = job.get("weight", 1)
        options = tuple(self._aged(self._option(option, weight), job) for option in job["options"])
        early = job.get("not_before", 0) > self.raw.get("now", 0)
        label: Raw | None = job.get("anti_affinity")
        return Job(
            number,
            job["name"],
            job.get("tenant"),
            accounts_of(job),
            job.get("priority", 0),
            job.get("opportunistic", False),
            "held" if job.get("held") else "not_before" if early else "",
            None if label is None else (label["label"], self.levels.index(label["level"])),
            options,
            self._running(job.get("running"), options),
        )

    def _option(self, option: Raw, weight: int) -> Option:
        groups = tuple(self._group(group) for group in option["groups"])
        milli = sum(group.milli for group in groups)
        asks = {"gpu": milli}
        for group in groups:
            for name, amount in group.wants:
                asks[name] = asks.get(name, 0) + group.count * amount
        counts = {**asks, JOBS: 1}
        for name, amount in option.get("uses", {}).items():
            counts[name] = counts.get(name, 0) + amount
        for group in groups:
            for model in set(group.models or ()):
                counts[of_model(model)] = counts.get(of_model(model), 0) + group.milli
        value = option.get("value")
        return Option(
            groups,
            milli * weight if value is None else value,
            option.get("progress", 0),
            self.position(option.get("required")),
            _numbers(option.get("hosts")),
            asks,
            counts,
            option.get("uses", {}),
        )

    def _aged(self, option: Option, job: Raw) -> Option:
        """Return an option of a job with the value that it has by now."""
        aging: Raw | None = self.policy.get("aging")
        if aging is None or job.get("running") is not None:
            return option
        now, doubles = self.raw.get("now", 0), aging["doubles_after_s"]
        age = max(0, now - max(job.get("submitted", now), job.get("not_before", 0)))
        grown = min(doubles + age, aging.get("limit", 10) * doubles)
        return replace(option, value=option.value * grown // doubles)

    def _group(self, group: Raw) -> Group:
        profile = group.get("mig")
        gpu = group["gpu"] if profile is None else WHOLE * SLICES_80[profile].compute // 7
        preferred = group.get("preferred")
        slices, apart = group.get("slices"), group.get("apart")
        wants = {"cpu": group.get("cpu", 0), "memory": group.get("memory", 0)}
        wants |= group.get("resources", {})
        return Group(
            group.get("count", 1),
            gpu,
            -(-gpu // WHOLE),
            min(gpu, WHOLE),
            tuple((name, amount) for name, amount in wants.items() if amount),
            tuple(group["gpu_models"]) if group.get("gpu_models") is not None else None,
            self._named_hosts(group),
            self.position(group.get("required")),
            None if preferred is None else tuple(preferred),
            None if slices is None else (slices["size"], self.levels.index(slices["required"])),
            None if apart is None else (self.levels.index(apart["level"]), apart.get("most", 1)),
            _numbers(group.get("num_hosts")),
            group.get("communication"),
            group.get("gpu_memory", 0),
            profile,
            group.get("gpu_links"),
        )

    def _named_hosts(self, group: Raw) -> frozenset[int] | None:
        """Return the hosts that are in the list of a group and in each of its sets; None: all."""
        lists = [self.raw["host_sets"][name] for name in group.get("host_sets", ())]
        lists += [] if group.get("hosts") is None else [group["hosts"]]
        sets = [{self.numbers[name] for entry in one for name in named(entry)} for one in lists]
        return frozenset(set.intersection(*sets)) if sets else None

    def _running(self, running: Raw | None, options: tuple[Option, ...]) -> Running | None:
        if running is None:
            return None
        number = running.get("option", 0)
        places = [
            (
                task.get("group", 0),
                task.get("index", 0),
                self.numbers[task["host"]],
                tuple(sorted(task.get("gpus", ()))),
                task.get("slot"),
            )
            for task in running["tasks"]
        ]
        saved = [running.get(name) for name in ("checkpoint", "started")]
        since = next((at for at in saved if at is not None), self.raw.get("now", 0))
        lost = self.raw.get("now", 0) - since
        usual = options[number].asks["gpu"] * (lost + running.get("restart_s", 0))
        migrate, preempt = running.get("migrate_cost"), running.get("preempt_cost")
        move = usual if migrate is None else migrate
        costs = running.get("resize_costs")
        pinned = running.get("pinned", False) or running.get("pin") == "both"
        fixed = pinned or running.get("pin") == "size" or not self.resizes
        return Running(
            number,
            tuple(sorted(places)),
            pinned,
            running.get("pin") == "place",
            move,
            usual if preempt is None else preempt,
            () if fixed else tuple(n for n in range(len(options)) if n != number),
            (move,) * len(options) if costs is None else tuple(costs),
            running.get("resize_factor", 1000),
        )

    @property
    def resizes(self) -> bool:
        """Whether running jobs may go on with other options at all."""
        policy = self.policy
        if policy.get("formulation", "gang") != "gang" or policy.get("keep_sizes"):
            return False
        cells = any(tenant.get("cells") for tenant in self.tenants)
        return policy.get("backfill") is None and not cells


LINK_RANKS = ("", "system", "numa", "pcie", "xgmi", "nvlink")


def gpu_links(cluster: Raw, name: str | None) -> dict[tuple[int, int], tuple[int, int]]:
    """Return the rank and the Mbit/s of the links of the matrix with a name."""
    found: dict[tuple[int, int], tuple[int, int]] = {}
    for matrix in cluster.get("gpu_links", ()):
        for i, row in enumerate(matrix["gpus"] if matrix["name"] == name else ()):
            for j, word in enumerate(row.split()):
                if word in matrix["classes"]:
                    link = matrix["classes"][word]
                    found[i, j] = LINK_RANKS.index(link["kind"]), link["bandwidth_mbps"]
    return found


def _numbers(asked: Raw | None) -> tuple[int, int] | None:
    """Return the fewest and the most hosts that are asked, None for any."""
    return None if asked is None else (asked.get("min", 1), asked.get("max", MANY))


def outages(round_: Raw) -> dict[str, set[int]]:
    """Return the leases that an outage of each host overlaps; no host without the section."""
    section: Raw = round_.get("leases", {})
    now, length = round_.get("now", 0), section.get("length_s", 1200)
    found: dict[str, set[int]] = {}
    for entry in section.get("outages", ()):
        start, end = entry.get("start"), entry.get("end")
        overlapped = {
            lease
            for lease in range(section.get("horizon", 500))
            if (start is None or start < now + (lease + 1) * length)
            and (end is None or end > now + lease * length)
        }
        for name in named(entry["host"]):
            found.setdefault(name, set()).update(overlapped)
    return found


def named(entry: str) -> list[str]:
    """Return the hosts that a name or a range such as `h[0-2]` stands for."""
    if "[" not in entry:
        return [entry]
    before, _, rest = entry.partition("[")
    bounds, _, after = rest.partition("]")
    first, _, last = bounds.partition("-")
    width = len(first)
    return [f"{before}{i:0{width}d}{after}" for i in range(int(first), int(last) + 1)]
