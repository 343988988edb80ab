"""What pending jobs of Slurm ask for, and whether partitions and limits let them start.

| sbatch | shapes |
|---|---|
| `--gpus-per-node`, `--gres`, of N nodes | N tasks, a host each |
| the same of `-N2-4` | a choice for each number of nodes |
| the same of `-n` alone | a choice for the fewest nodes that have the CPUs, and for some more |
| `--gpus-per-task` | its tasks, on as many hosts as it allows |
| `--gpus-per-task`, `--ntasks-per-node` | the fewest nodes that have all tasks, each with so many |
| `--gpus`, `--ntasks-per-gpu` | one task on a job's only node, else tasks of one GPU each |
| the same with `--exclusive` | the fewest nodes that have the GPUs, and some more |
| `--gres=shard` | parts of one GPU of each node |
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Annotated, Any, NamedTuple

from pydantic import AliasChoices, BeforeValidator, Field

from placewright.instances.converters.bookkeeping import Bookkeeping
from placewright.instances.converters.slurm.ledger import ALONE
from placewright.instances.converters.slurm.limits import NONE, Limit, Limits
from placewright.instances.converters.slurm.nodes import Room
from placewright.instances.converters.slurm.records import Part, SlurmJob, read_list
from placewright.instances.converters.slurm.texts import (
    UNLIMITED,
    Number,
    Record,
    Text,
    Words,
    blocks,
    number,
    seconds,
)
from placewright.instances.converters.support.live import LeftOutError
from placewright.instances.derived import slurm_marks
from placewright.instances.documents.base import MAX_COUNT, Name
from placewright.instances.documents.option import TaskGroup
from placewright.instances.documents.quantities import small_number
from placewright.topology.units import WHOLE_GPU

MAX_OPTIONS = 16
"""Numbers of nodes, of a range of them, that become options: the least, the most, some between."""

MAX_MORE = 3
"""Numbers of nodes beyond the fewest that become options where the user names no most."""

DIVIDED = "how its CPUs and memory divide among its nodes, which Slurm decides: shares are a guess"
FEWEST = f"more than {MAX_MORE} nodes beyond the fewest that have what it asks for"
LONG = f"ranges of more than {MAX_OPTIONS} numbers of nodes, of which some are options"
WHOLE = "how its GPUs divide among nodes that it has alone: equal numbers are a guess"
THREADS = "how many CPUs a core of its nodes has, which differ: the fewest are a guess"


class Shape(NamedTuple):
    """Tasks with GPUs by model ("": any), millicores and MiB each; `apart`: a host each.

    They are on `least` to `most` hosts together (None: on any more). `parts` are of one GPU, by
    their GRES, with the milli-GPU that they are.
    """

    tasks: int
    gpus: Mapping[str, int]
    cpu: int
    memory: int
    apart: bool = False
    least: int = 1
    most: int | None = None
    parts: tuple[str, int, int] | None = None

    @property
    def milli_gpu(self) -> int:
        """What each task has of GPUs."""
        return self.parts[2] if self.parts else sum(self.gpus.values()) * WHOLE_GPU


class Counts(NamedTuple):
    """The fewest and the most nodes (None: any number) that a job may have where it may start."""

    least: int
    most: int | None


class Asked(NamedTuple):
    """Choices of shapes, each of which a job has together, and what of them is not as it is.

    `alike`: they are worth the same, as Slurm takes the first one that it can.
    """

    choices: Sequence[tuple[Shape, ...]]
    guesses: tuple[str, ...] = ()
    alike: bool = False


def asked_of(job: SlurmJob, room: Room, nodes: Counts) -> Asked:
    """Return what a pending job asks for.

    `job`: a pending job. `room`: what there is on the nodes that it may use. `nodes`: how many of
    them it may have, by what it asks for and its partitions and limits allow. Raises
    `LeftOutError`: it asks for what a round does not know, or for too much.
    """
    kinds = (job.tres_per_node, job.tres_per_task, job.tres_per_job, job.tres_per_socket)
    others = sorted({name for gres in kinds for name in gres.others})
    if others:
        raise LeftOutError(f"asks for a resource that a round does not know ({others[0]})")
    if job.tres_per_socket.total:
        raise LeftOutError("asks for GPUs per socket")
    least, tasks = nodes.least, max(1, job.tasks or 1)
    if max(least, tasks, *(gres.total for gres in kinds)) > MAX_COUNT:
        raise LeftOutError(f"asks for more than {MAX_COUNT:,} nodes, tasks or GPUs")
    nodes = nodes._replace(most=nodes.most and min(nodes.most, MAX_COUNT))
    if any(gres.parts for gres in kinds):
        return _parts(job, room, nodes)
    if gpus := job.tres_per_node.gpus:
        return _per_node(job, gpus, room, nodes)
    if gpus := job.tres_per_task.gpus:
        if job.tasks_per_node:
            return _per_node(job, _times(gpus, job.tasks_per_node), room, nodes)
        if job.exclusive:
            return _alone(job, _times(gpus, tasks), room, nodes)
        cpu, memory = (_share(all_, tasks) for all_ in _total(job, least, gpus.total() * tasks))
        cpu *= _widening(job, room)
        guess = tasks > 1 and (_is_part(cpu, room) or _is_wide(job))
        asked = _on_some(nodes, [Shape(tasks, gpus, cpu, memory)])
        return asked._replace(guesses=(DIVIDED,) if guess else ())
    gpus = _per_job(job)
    if not gpus:
        return _per_node(job, gpus, room, nodes)
    if nodes.most == 1:
        cpu, memory = _total(job, 1, gpus.total())
        cpus, used = room.whole_cores(cpu // 1000, job.threads_per_core)
        memory = max(memory, (job.memory_per_cpu or 0) * used)
        return Asked([(Shape(1, gpus, cpus * 1000, memory, most=1),)])
    if job.exclusive:
        return _alone(job, gpus, room, nodes)
    number = gpus.total()
    cpu, memory = (_share(all_, number) for all_ in _total(job, least, number))
    cpu *= _widening(job, room)
    shapes = [Shape(count, {model: 1}, cpu, memory) for model, count in sorted(gpus.items())]
    every = job.cpus_per_tres.total and job.memory_per_tres.total
    guess = number > 1 and not every and not job.tasks_per_tres
    guess = guess or (number > 1 and (_is_part(cpu, room) or _is_wide(job)))
    return _on_some(nodes, shapes)._replace(guesses=(DIVIDED,) * guess)


def _per_job(job: SlurmJob) -> Counter[str]:
    """Return the GPUs of all nodes together; of tasks per GPU Slurm may say the sum alone."""
    if gpus := job.tres_per_job.gpus or job.tres_req_str.gpus.gpus:
        return gpus
    each = job.tasks_per_tres or 0
    return Counter({"": _share(job.tasks or 1, each)}) if each else Counter()


def _is_part(millicores: int, room: Room) -> bool:
    """Whether tasks of a node that ask so many CPUs each may have less together than they get."""
    return any(millicores % (1000 * each) for each in room.per_core)


def _widening(job: SlurmJob, room: Room) -> int:
    """Return how many CPUs a job gets for each that it uses (--threads-per-core)."""
    cpus, used = room.whole_cores(1, job.threads_per_core)
    return cpus // used


def _is_wide(job: SlurmJob) -> bool:
    """Whether a job asks for more of each node than its tasks there need (--mincpus, --mem)."""
    cpus, tasks = max(job.tres_req_str.cpus, job.cpus or 0), max(1, job.tasks or 1)
    memory = job.memory_per_node and not job.memory_per_tres.total
    return bool(memory) or (job.minimum_cpus_per_node or 0) > max(1, cpus // tasks)


def _on_some(nodes: Counts, shapes: Iterable[Shape]) -> Asked:
    """Return shapes of which the tasks divide in any way among the nodes that a job may have."""
    made = tuple(one._replace(least=nodes.least, most=nodes.most) for one in shapes)
    if sum(one.tasks for one in made) < nodes.least:
        raise LeftOutError("asks for more nodes than GPUs")
    return Asked([made])


def _per_node(job: SlurmJob, gpus: Mapping[str, int], room: Room, nodes: Counts) -> Asked:
    """Return a shape for each number of nodes that a job may have, each with so many GPUs."""
    per_node, tasks = job.tasks_per_node or 0, max(1, job.tasks or 1)
    least = nodes.least
    guesses: list[str] = []
    cpus = max(job.tres_req_str.cpus, job.cpus or 0)
    if per_node:
        numbers: Sequence[int] = [max(least, _share(tasks, per_node))]
    else:
        fewest = max(least, min(tasks, _share(cpus, max(1, room.cpus))))
        numbers = range(fewest, max(fewest, min(tasks, fewest + MAX_MORE) * bool(gpus)) + 1)
    if job.names_most_nodes:
        numbers = range(least, (nodes.most or least) + 1)
    elif gpus and not per_node and tasks > numbers[-1]:
        guesses.append(FEWEST)
    if nodes.most is not None and len(numbers) > 1:
        numbers = [number for number in numbers if number <= nodes.most] or numbers[:1]
    if len(numbers) > MAX_OPTIONS:
        last = len(numbers) - 1
        numbers = [numbers[i * last // (MAX_OPTIONS - 1)] for i in range(MAX_OPTIONS)]
        guesses.append(LONG)
    guesses += [DIVIDED] * (not per_node and 1 < numbers[-1] < tasks)
    guesses += [THREADS] * (len(room.per_core) > 1)
    return Asked(
        [(_node(job, n, gpus, room),) for n in numbers], tuple(guesses), not job.names_most_nodes
    )


def _node(job: SlurmJob, nodes: int, gpus: Mapping[str, int], room: Room) -> Shape:
    """Return the shape of a number of nodes with equal GPUs, CPUs of whole cores, and memory."""
    number = sum(gpus.values())
    all_cpus = max(job.tres_req_str.cpus, job.cpus or 0)  # of a range Slurm may count one node
    fixed = max(job.minimum_cpus_per_node or 0, job.cpus_per_tres.total * number)
    cpus, used = room.whole_cores(max(_share(all_cpus, nodes), fixed), job.threads_per_core)
    per_gpu, per_node = job.memory_per_tres.total * number, job.memory_per_node or 0
    memory = per_gpu or max(per_node, (job.memory_per_cpu or 0) * used)
    if not memory:
        of = nodes if job.most_nodes is None else job.least_nodes
        memory = _share(job.tres_req_str.memory, of)
    return Shape(nodes, gpus, cpus * 1000, memory, nodes > 1, nodes, nodes)


def _alone(job: SlurmJob, gpus: Counter[str], room: Room, nodes: Counts) -> Asked:
    """Return shapes of whole nodes that have the GPUs of a job together."""
    number = gpus.total()
    fewest = max(nodes.least, _share(number, max(1, room.gpus)))
    last = fewest + MAX_MORE if nodes.most is None else nodes.most
    numbers = range(fewest, max(fewest, min(number, last, fewest + MAX_MORE)) + 1)
    if len(gpus) > 1:
        raise LeftOutError("asks for several GPU models, on nodes that it has alone")
    model = next(iter(gpus))
    made = [(_node(job, n, {model: _share(number, n)}, room),) for n in numbers]
    return Asked(made, (WHOLE,) if number > 1 else (), alike=True)


def _parts(job: SlurmJob, room: Room, nodes: Counts) -> Asked:
    """Return the shapes of a job that asks for parts of a GPU of each of its nodes."""
    gres = job.tres_per_node
    others = (job.tres_per_task, job.tres_per_job, job.tres_per_socket)
    if gres.total or len(gres.parts) != 1 or any(one.parts or one.total for one in others):
        raise LeftOutError("asks for shards of GPUs other than so many per node")
    ((part, number),) = gres.parts.items()
    cut = {each for name, each in room.parts if name == part}
    if len(cut) != 1 or not (each := next(iter(cut))) or WHOLE_GPU // each * (each + 1) < WHOLE_GPU:
        raise LeftOutError("asks for shards of GPUs that its nodes do not cut alike")
    if number > each:
        raise LeftOutError("asks for more shards than a GPU has")
    share = (part, number, WHOLE_GPU * number // each)
    asked = _per_node(job, {}, room, nodes)
    return asked._replace(
        choices=[tuple(one._replace(parts=share) for one in made) for made in asked.choices]
    )


def _total(job: SlurmJob, nodes: int, gpus: int) -> tuple[int, int]:
    """Return the millicores and MiB of all nodes together."""
    cpus = max(job.tres_req_str.cpus, job.cpus or 0, job.cpus_per_tres.total * gpus)
    if job.memory_per_tres.total:
        return cpus * 1000, job.memory_per_tres.total * gpus
    per_node, per_cpu = job.memory_per_node or 0, job.memory_per_cpu or 0
    return cpus * 1000, max(job.tres_req_str.memory, per_node * nodes, per_cpu * cpus)


def _times(gpus: Counter[str], number: int) -> Counter[str]:
    return Counter({model: count * number for model, count in gpus.items()})


def _share(amount: int, parts: int) -> int:
    return -(-amount // parts)


def names_of(shapes: Sequence[Shape], name: str) -> Iterator[tuple[str, Shape]]:
    """Yield shapes that a job has together with the names of their groups."""
    for shape in shapes:
        model = next(iter(shape.gpus), "")
        yield (f"{name}-{model}" if len(shapes) > 1 and model else name), shape


# Partitions of Slurm: which jobs each of them takes, and how its jobs are scheduled.

OPEN = frozenset({"UP", "DRAIN"})
"""States of a partition that starts jobs; one that drains takes no new ones."""

_NONE = frozenset({"ALL", "N/A", "(null)", "NONE", "UNLIMITED", "INFINITE"})


def _limit(value: Any) -> int | None:
    return number(None if value == -1 else value)


def _minutes(value: Any) -> int | None:
    if not isinstance(value, str):
        return _limit(value)
    limit = seconds(value)
    return limit and limit // 60


def _of(*names: str, default: Any = None) -> Any:
    """Return a field by its paths: in JSON from v0.0.39 on, in v0.0.38, and in the text."""
    return Field(default=default, validation_alias=AliasChoices(*names))


class Partition(Record):
    """A partition of `scontrol show partition`; None and () are no limit."""

    name: Name = Field(validation_alias=AliasChoices("name", "PartitionName"))
    max_minutes: Annotated[int | None, BeforeValidator(_minutes)] = _of(
        "maximums.time", "max_time_limit", "MaxTime"
    )
    max_nodes: Annotated[int | None, BeforeValidator(_limit)] = _of(
        "maximums.nodes", "maximum_nodes_per_job", "MaxNodes"
    )
    min_nodes: Number = _of("minimums.nodes", "min nodes per job", "MinNodes")
    state: Words = _of("partition.state", "state", "State", default=())
    qos: Text = _of("qos.assigned", "qos", "QoS", default="")
    tier: Number = _of("priority.tier", "priority_tier", "PriorityTier", default=1)
    job_factor: Number = _of("priority.job_factor", "priority_job_factor", "PriorityJobFactor")
    shares: Number = _of("maximums.shares")
    exclusive: Text = _of("partition.exclusive", "Exclusive", default="")
    preempt_mode: Words = _of("preempt_mode", "PreemptMode", default=())
    grace_s: Number = _of("grace_time", "preemption_grace_time", "GraceTime")
    accounts: Words = _of("accounts.allowed", "allowed_accounts", "AllowAccounts", default=())
    denied_accounts: Words = _of("accounts.deny", "denied_accounts", "DenyAccounts", default=())
    allowed_qos: Words = _of("qos.allowed", "allowed_qos", "AllowQos", default=())
    denied_qos: Words = _of("qos.deny", "denied_qos", "DenyQos", default=())

    @property
    def alone(self) -> bool:
        """Whether it gives each job its nodes alone; where it says so in a word, that holds."""
        return self.exclusive.upper() in ALONE if self.exclusive else self.shares == 0

    def refusal(self, job: SlurmJob, limits: Limits) -> str:
        """Return why a pending job does not start in it, "" if nothing is known that forbids it."""
        flags = limits.flags(job.qos)
        minutes, least, most = job.time_limit, job.least_nodes, job.most_nodes
        account, asks_for = job.account or "", shown(minutes or 0)
        for broken, text in (
            (self.state and not OPEN & {s.upper() for s in self.state}, "is not up"),
            (
                self.max_minutes is not None
                and (minutes or 0) > self.max_minutes
                and "PARTITIONTIMELIMIT" not in flags,
                f"allows {shown(self.max_minutes or 0)} minutes (MaxTime), the job asks {asks_for}",
            ),
            (
                self.max_nodes is not None
                and least > self.max_nodes
                and "PARTITIONMAXNODES" not in flags,
                f"allows {self.max_nodes} nodes a job (MaxNodes), the job asks {least}",
            ),
            (
                most is not None
                and most < (self.min_nodes or 0)
                and "PARTITIONMINNODES" not in flags,
                f"asks {self.min_nodes} nodes a job or more (MinNodes), the job asks {most}",
            ),
            (
                bool(self.accounts) and not set(limits.path(account)) & set(self.accounts),
                "is not for its account (AllowAccounts)",
            ),
            (account in self.denied_accounts, "is not for its account (DenyAccounts)"),
            (
                bool(self.allowed_qos) and job.qos not in self.allowed_qos,
                "is not for its QOS (AllowQos)",
            ),
            (job.qos in self.denied_qos, "is not for its QOS (DenyQos)"),
        ):
            if broken:
                return f"not eligible: partition {self.name} {text}"
        return ""


_PATHS = frozenset(
    path
    for field in Partition.model_fields.values()
    if isinstance(field.validation_alias, AliasChoices)
    for path in map(str, field.validation_alias.choices)
)


def read_partitions(part: Part | None, book: Bookkeeping) -> dict[str, Partition]:
    """Return the partitions of a dump by name, as JSON or as `scontrol show partition` prints them.

    Raises `InvalidInputError`: a value is not what Slurm writes.
    """
    if part is None:
        return {}
    if part.text is not None:
        raw = [_of_row(row) for row in blocks(part.text, "PartitionName")]
    else:
        listed = part.raw["partitions"]
        if not isinstance(listed, list):
            return {one.name: one for one in read_list(Partition, part, "partitions", book)}
        raw = [_of_json(entry) if isinstance(entry, dict) else entry for entry in listed]
    made = Part(part.file, raw={"partitions": raw})
    return {one.name: one for one in read_list(Partition, made, "partitions", book)}


def usable(
    job: SlurmJob, partitions: Mapping[str, Partition], limits: Limits
) -> tuple[Sequence[str], str]:
    """Return the partitions of a pending job in which it may start, and why not in the others."""
    refusals = {
        name: partitions[name].refusal(job, limits) if name in partitions else ""
        for name in job.partition
    }
    return [name for name, why in refusals.items() if not why], next(
        (why for why in refusals.values() if why), ""
    )


def counts(job: SlurmJob, partitions: Mapping[str, Partition], limits: Limits) -> Counts:
    """Return how many nodes a pending job may have in the widest of its partitions."""
    flags = limits.flags(job.qos)
    own = [partitions[name] for name in job.partition if name in partitions]
    known = len(own) == len(job.partition) > 0
    fewest = min((one.min_nodes or 1 for one in own), default=1) if known else 1
    least = max(job.least_nodes, 1 if "PARTITIONMINNODES" in flags else fewest)
    most = [one.max_nodes for one in own if one.max_nodes is not None]
    if not known or len(most) < len(own) or "PARTITIONMAXNODES" in flags:
        most = []
    ends = [one for one in (job.most_nodes, max(most, default=None)) if one is not None]
    return Counts(least, max(least, min(ends)) if ends else None)


def _of_row(row: Mapping[str, str]) -> dict[str, Any]:
    alone = {"maximums.shares": 0} if row.get("OverSubscribe") == "EXCLUSIVE" else {}
    return alone | {
        name: text if (whole := small_number(text)) is None else whole
        for name, text in row.items()
        if name in _PATHS and text and (text not in _NONE or name == "PartitionName")
    }


def _of_json(entry: Mapping[str, Any]) -> dict[str, Any]:
    return dict(_values(entry))


def _values(entry: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the values at the paths of an entry, or what is on the way and is no mapping."""
    for path in _PATHS:
        value: Any = entry
        head, *below = path.split(".")
        value = entry.get(head)
        if below and head in _PATHS and not isinstance(value, dict):
            continue  # a text in v0.0.38
        if not below and isinstance(value, dict) and any(p.startswith(f"{head}.") for p in _PATHS):
            continue
        for key in below:
            value = value.get(key) if isinstance(value, dict) else value
        if value is not None:
            yield path, value


# Whether a job of Slurm runs, may start, or waits for something that a round does not decide.

RUNS = frozenset(
    {"RUNNING", "SUSPENDED", "CONFIGURING", "POWER_UP_NODE", "STOPPED", "RESIZING", "SIGNALING"}
)
ENDING = frozenset({"COMPLETING", "STAGE_OUT"})
HELD = frozenset({"JobHeldUser", "JobHeldAdmin", "JobHoldMaxRequeue", "JobHeld"})
HOLDS = frozenset({"REQUEUE_HOLD", "RESV_DEL_HOLD", "SPECIAL_EXIT"})
BY_USER = frozenset({"JobHeldUser", "JobHeld"})
"""Also what a job is that is held as it is submitted, or as it is requeued."""

DEPENDS = frozenset({"Dependency", "DependencyNeverSatisfied"})
ENDED = frozenset(
    {"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY", "DEADLINE"}
)
FULFILS = {"afterany": ENDED, "afterok": frozenset({"COMPLETED"})}
"""States of a job by the dependency that they fulfil."""

_UNFULFILLED = re.compile(r"(afterany|afterok):([0-9]+)\(unfulfilled\)")
BEGINS_LATER = frozenset({"BeginTime"})
_LIMIT = re.compile(
    r"(Assoc|QOS)(?:Grp|Max)(GRES|Cpu|Mem|Node|Jobs)(?:ory)?(?:Per(?:User|Account))?(?:Limit)?"
)
"""Reasons of limits that caps say, and what each is on."""

_COUNTED = {"Cpu": "cpu", "Mem": "mem", "Node": "node"}
_GPUS = "gres/gpu"
ARRAY_LIMIT = "JobArrayTaskLimit"
NEVER = frozenset(
    {
        "AccountNotAllowed",
        "BadConstraints",
        "BurstBufferOperation",
        "BurstBufferResources",
        "BurstBufferStageIn",
        "FedJobLock",
        "InactiveLimit",
        "InvalidAccount",
        "InvalidQOS",
        "MaxMemPerLimit",
        "PartitionDown",
        "PartitionInactive",
        "PartitionNodeLimit",
        "PartitionTimeLimit",
        "PartitionConfig",
        "QOSNotAllowed",
        "Reservation",
        "ReservationDeleted",
        "ReservationInvalid",
        "TimeLimit",
    }
)


def runs(job: SlurmJob) -> bool:
    """Whether a job holds its nodes and goes on."""
    return bool(job.states & RUNS) and not job.states & ENDING


def held(job: SlurmJob) -> bool:
    """Whether its user or an administrator holds a pending job, and not Placewright.

    Slurm holds one for a reason of its own, such as a failed launch, by a priority of 0 alone.
    """
    ours = job.admin_comment.startswith(slurm_marks.HELD)
    if job.state_reason in BY_USER and ours:
        return False
    by_slurm = bool(job.states & HOLDS) or job.priority == 0
    return job.hold or job.state_reason in HELD or (by_slurm and not ours)


def not_before(job: SlurmJob, now: int) -> int | None:
    """Return from when on a pending job may start, None for now."""
    at = job.eligible_time or 0
    return at if at > now else None


def depends(job: SlurmJob) -> bool:
    """Whether a pending job waits for others: a hold hides the reason, and not what it names."""
    named = [one for one in re.split(r"[,?]", job.dependency) if one]
    left = [one for one in named if not one.endswith("(fulfilled)")]
    one_is_enough = "?" in job.dependency and len(left) < len(named)
    return job.state_reason in DEPENDS or bool(left and not one_is_enough)


def with_fulfilled(jobs: Sequence[SlurmJob]) -> tuple[SlurmJob, ...]:
    """Return jobs whose dependencies are fulfilled if the jobs that they name are said to be.

    Slurm looks at those of a job that is held once a minute, and lists it as waiting until then.
    """
    states: dict[str, list[frozenset[str]]] = {}
    for job in jobs:
        for of in {job.job_id, job.array_job_id or 0, job.het_job_id or 0} - {0}:
            states.setdefault(str(of), []).append(frozenset(job.states))

    def checked(found: re.Match[str]) -> str:
        seen = states.get(found[2], ())
        fulfilled = bool(seen) and all(one <= FULFILS[found[1]] for one in seen)
        return f"{found[1]}:{found[2]}(fulfilled)" if fulfilled else found[0]

    return tuple(
        job.model_copy(update={"dependency": _UNFULFILLED.sub(checked, job.dependency)})
        if "(unfulfilled)" in job.dependency
        else job
        for job in jobs
    )


def check_pending(job: SlurmJob, limits: Limits, now: int, qos: Iterable[str] = ()) -> None:
    """Refuse a job that is not pending, or waits for what a round does not decide.

    Raises `LeftOutError`: with the reason.
    """
    reason = job.state_reason
    if "PENDING" not in job.states:
        raise LeftOutError("ending" if job.states & ENDING else "neither running nor pending")
    if "REVOKED" in job.states:
        raise LeftOutError("runs in another cluster of its federation")
    if depends(job):
        raise LeftOutError("waits for another job (dependency)")
    if reason == ARRAY_LIMIT:
        raise LeftOutError("held by the limit of its array")
    if reason in BEGINS_LATER and not_before(job, now) is None:
        raise LeftOutError("begins later, and the dump does not say when")
    if reason in NEVER or "PerJob" in reason:
        raise LeftOutError(f"not eligible ({reason})")
    if reason.startswith(("Assoc", "QOS")) and not _is_known(job, limits, {job.qos, *qos}):
        raise LeftOutError(f"held by a limit that the round does not have ({reason})")


def check_limits(
    job: SlurmJob, groups: Sequence[TaskGroup], qos: Iterable[str], limits: Limits
) -> None:
    """Refuse a pending job that asks for more than a single one may have.

    Raises `LeftOutError`: with the limit: of what is limited in several places, the first holds.
    """
    asked: dict[str, int] = {
        "cpu": -(-sum(group.cpu * group.count for group in groups) // 1000),
        "mem": sum(group.memory * group.count for group in groups),
        "node": job.least_nodes,
    }
    on_node: dict[str, int] = {
        "cpu": -(-max(group.cpu for group in groups) // 1000),
        "mem": max(group.memory for group in groups),
    }
    asked[_GPUS], on_node[_GPUS] = (
        -(-amount // WHOLE_GPU)
        for amount in (sum(g.milli_gpu for g in groups), max(g.gpu for g in groups))
    )
    for group in groups:
        models = group.gpu_models or ()
        for model in models if len(models) == 1 else ():
            key = f"{_GPUS}:{model}"
            asked[key] = asked.get(key, 0) + group.milli_gpu // WHOLE_GPU
            on_node[key] = max(on_node.get(key, 0), group.gpu // WHOLE_GPU)
    minutes = job.time_limit or 0
    used = {key: amount * minutes for key, amount in asked.items()}
    met: set[tuple[str, str]] = set()
    who = (job.account or "", job.user_name, job.partition)
    for owner, limit in limits.of_job(*who, qos):
        time = NONE if limit.minutes is None else Limit(others={"minutes (MaxWall)": limit.minutes})
        for kind, said, amounts, per in (
            ("most", limit.asked, asked, " a job"),
            ("node", limit.per_node, on_node, " a node"),
            ("time", time, {"minutes (MaxWall)": minutes}, ""),
            ("used", limit.by_time, used, " times minutes a job (MaxTRESMins)"),
            ("least", limit.least, asked, " a job (MinTRES)"),
        ):
            least = kind == "least"
            for key, bound in _by_name(said).items():
                amount = amounts.get(key, bound if least else 0)
                if (kind, key) not in met and (amount < bound if least else amount > bound):
                    raise LeftOutError(
                        f"not eligible: {owner} {'asks' if least else 'allows'} "
                        f"{bound:,} {key}{per}, the job asks {shown(amount)}"
                    )
                met.add((kind, key))


def shown(amount: int) -> str:
    """Return an amount, of minutes maybe."""
    return f"{amount:,}" if amount < UNLIMITED else "no limit"


def _by_name(limit: Limit) -> dict[str, int]:
    """Return what is limited by its name: `gres/gpu:h100`, `cpu`."""
    return {f"{_GPUS}:{m}" if m else _GPUS: most for m, most in limit.gpus.items()} | dict(
        limit.others
    )


def _is_known(job: SlurmJob, limits: Limits, qos: Iterable[str]) -> bool:
    """Whether the limit that a job waits for is in the round."""
    match = _LIMIT.fullmatch(job.state_reason)
    if match is None:
        return job.state_reason.startswith("QOSMin") and any(
            one.least for name in qos if (one := limits.job_of_qos.get(name))
        )  # `check_limits` has these
    what = _COUNTED.get(match[2])
    if match[1] == "QOS":
        known = [limit for name in qos for limit in limits.qos.get(name, ())]
        return any(what in limit.others if what else limit for limit in known)
    owners = {owner for owner, one in limits.together.items() if not what or what in one.others}
    owners |= set() if what else set(limits.jobs_of_users)
    path = limits.path(job.account or "")
    return any(account in path for account, _, _ in owners)


def reservations_of_pending(jobs: Iterable[SlurmJob], limits: Limits, now: int) -> frozenset[str]:
    """Return the reservations that jobs name which `check_pending` does not refuse."""
    found: set[str] = set()
    for job in jobs:
        if job.reservation and job.reservation not in found:
            with suppress(LeftOutError):
                check_pending(job, limits, now)
                found.add(job.reservation)
    return frozenset(found)
