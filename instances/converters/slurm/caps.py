"""Limits of Slurm as caps, and its licences as pools."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from placewright.instances.converters.bookkeeping import Bookkeeping
from placewright.instances.converters.slurm.jobs import Context
from placewright.instances.converters.slurm.limits import NONE, Limit, Owner, QosLimits
from placewright.instances.converters.slurm.nodes import NODE, WHOLE_NODE, gpu_model, of_model
from placewright.instances.converters.slurm.records import Part, SlurmJob, SlurmLicence, read_list
from placewright.instances.converters.slurm.texts import blocks
from placewright.instances.converters.support.live import LeftOutError, is_name, with_one_model_each
from placewright.instances.documents.base import MAX_AMOUNT
from placewright.instances.documents.caps import Cap
from placewright.instances.documents.job import MAX_CAPS, Job
from placewright.instances.documents.pools import Pool
from placewright.instances.documents.quantities import small_number
from placewright.topology.units import WHOLE_GPU

NODES = "nodes@together"
"""What jobs use of limits of nodes: no host has it."""

RESOURCES = {"cpu": "cpu", "mem": "memory"}
UNITS = {"cpu": "", "mem": "Mi"}
"""What limits are on, by the name of the resource in a round and the unit of its amount."""

SHARED = "limits of nodes that jobs have together, of which some may share a node"
OF_SOME = "limits of its user in some of its partitions"
UNTYPED = "a limit of GPUs of a model, of which it names none"


class Caps:
    """The caps of the jobs of a dump, each made when a first job counts in it."""

    def __init__(self, context: Context, book: Bookkeeping) -> None:
        self._context, self._limits, self._book = context, context.limits, book
        self._models = {n: gpu_model(node) for n, node in context.nodes.by_name.items()}
        self._mixed = {*context.nodes.mixed, *context.nodes.counted}
        self._found: dict[str, Limit] = {}
        self._jobs_elsewhere: Counter[str] = Counter()
        self._nodes_elsewhere: dict[str, set[str]] = {}

    def with_caps(self, job: Job, components: Sequence[SlurmJob]) -> Job:
        """Return a job that counts in the caps of its account, user and QOS.

        Raises `LeftOutError`: it waits, and is to have more nodes than one of them allows all jobs
        together.
        """
        said = dict(self._of(components[0]))
        if len(self._context.qos_of_partitions(components[0])) > 1:
            self._book.cannot_say("limits of QOS that only some of its partitions have", job.name)
        first = components[0]
        owner, of = (first.account or "", first.user_name), self._limits
        every = (of.together, of.jobs_of_users, of.job_of_association)
        some = any((*owner, name) in one for name in first.partition for one in every)
        if some and len(first.partition) > 1:
            self._book.cannot_say(OF_SOME, job.name)
        limits = {name: limit for name, limit in said.items() if is_name(name)}
        if len(limits) < len(said):
            self._book.cannot_say("limits of users or QOS with such names", job.name)
        least = sum(one.least_nodes for one in components)
        for name, limit in limits.items() if job.running is None else ():
            if (most := limit.others.get("node", least)) < least:
                what = f"{name} allows {most:,} nodes together, the job asks {least:,}"
                raise LeftOutError(f"not eligible: {what}")
        counted = {of_model(m) for m in self._context.nodes.counted}
        if any(counted.intersection(limit.others) for limit in limits.values()) and any(
            group.gpu and not counted.intersection(group.resources)
            for option in job.options
            for group in option.groups
            if not group.gpu_models or {*group.gpu_models} & self._mixed
        ):
            self._book.cannot_say(UNTYPED, job.name)
        if not limits:
            return job
        capped = {model for limit in limits.values() for model in limit.gpus if model}
        if capped:
            known = with_one_model_each(job, self._models, capped)
            if known is None:
                self._book.cannot_say("a limit per GPU model, of a job of several models", job.name)
                limits = {n: one for n, one in limits.items() if not any(one.gpus)}
            job = known or job
        self._found |= limits
        return job.model_copy(update={"caps": tuple(limits)[:MAX_CAPS]})

    def leave(self, components: Sequence[SlurmJob]) -> None:
        """Count a running job that is not in the round against the numbers of jobs and nodes."""
        for name, _ in self._of(components[0]):
            self._jobs_elsewhere[name] += 1
            held = (node for one in components for node in one.nodes)
            self._nodes_elsewhere.setdefault(name, set()).update(held)

    def with_nodes(self, jobs: Sequence[Job]) -> list[Job]:
        """Return jobs that say how many nodes they have, where limits of these can be in the round.

        Slurm counts a node once for all jobs that share it. So that is where no two of them can:
        tasks have more than half of the GPUs of any node, and none fits beside one that runs.
        """
        limited = {name for name, one in self._found.items() if "node" in one.others}
        members = [job for job in jobs if limited.intersection(job.caps)]
        for name in sorted(limited):
            counted = [job for job in members if name in job.caps]
            limit = self._found[name]
            others = dict(limit.others)
            most = others.pop("node") - len(self._nodes_elsewhere.get(name, ()))
            if self._share_no_node(counted, self._nodes_elsewhere.get(name, set())):
                others[NODES] = max(0, most)
            else:
                self._book.cannot_say(SHARED, *(one.name for one in counted if not one.running))
            self._found[name] = limit._replace(others=others)
        said = {name for name in limited if NODES in self._found[name].others}
        return [_with_nodes(job) if said.intersection(job.caps) else job for job in jobs]

    def _share_no_node(self, jobs: Sequence[Job], elsewhere: set[str]) -> bool:
        """Whether no two of some jobs have a node together, whatever a plan does."""
        nodes, has = self._context.nodes, self._models
        waiting = [g for job in jobs if not job.running for o in job.options for g in o.groups]
        places = [task for job in jobs if job.running for task in job.running.tasks]
        if not waiting:
            return True
        if elsewhere or len({task.host for task in places}) < len(places):
            return False
        least = min(group.gpu for group in waiting)
        alone = all(group.resources.get(NODE) == WHOLE_NODE for group in waiting)
        most = max(
            nodes.by_name[name].gres.total
            for name, model in has.items()
            if any(not group.gpu_models or model in group.gpu_models for group in waiting)
        )
        free = (nodes.by_name[one.host].gres.total - len(one.gpus) for one in places)
        return alone or (2 * least > most * WHOLE_GPU and max(free, default=0) * WHOLE_GPU < least)

    def without_quotas(self, jobs: Sequence[Job]) -> list[Job]:
        """Return the jobs without caps that say no more than the quota of a tenant."""
        tenants: dict[str, set[str | None]] = {name: set() for name in self._found}
        for job in jobs:
            for name in job.caps:
                tenants.setdefault(name, set()).add(job.tenant)
        same_as_quotas = set()
        for name, found in tenants.items():
            limit, (tenant, *others) = self._found.get(name, NONE), found or {None}
            same = tenant is not None and name == _name("account", tenant) and not others
            if same and limit == Limit({"": limit.gpus.get("", 0)}):
                same_as_quotas.add(name)
                del self._found[name]
        return [
            job.model_copy(update={"caps": tuple(n for n in job.caps if n not in same_as_quotas)})
            if same_as_quotas.intersection(job.caps)
            else job
            for job in jobs
        ]

    def documents(self) -> dict[str, Cap]:
        """Return all caps by name."""
        return {name: self._document(name, limit) for name, limit in sorted(self._found.items())}

    def _document(self, name: str, limit: Limit) -> Cap:
        jobs = limit.jobs
        return Cap(
            gpus=limit.gpus.get(""),
            gpus_by_model={model: most for model, most in sorted(limit.gpus.items()) if model},
            jobs=None if jobs is None else max(0, jobs - self._jobs_elsewhere[name]),
            resources={
                RESOURCES.get(what, what): f"{most}{UNITS[what]}" if what in UNITS else most
                for what, most in limit.others.items()
                if what != "node"
            },
        )

    def _of(self, job: SlurmJob) -> Iterator[tuple[str, Limit]]:
        """Yield the names and limits of what a job counts in."""
        account, user, limits = job.account or "", job.user_name, self._limits
        share = self._context.shares.get(job.reservation)
        if share and job.reservation not in self._context.flexible:
            gpus = {"": share.gpus} if share.gpus else {}
            cpus = {"cpu": share.cpus} if share.cpus else {}
            yield _name("reservation", job.reservation), Limit(gpus, None, cpus)
        for one in limits.path(account):
            if limit := self._known(limits.together.get((one, "", ""), NONE)):
                yield _name("account", one), limit
        own = self._association(account, user, job.partition)
        limit = self._known(limits.together.get(own, NONE)) if user else NONE
        jobs = [most for most in (limit.jobs, self._jobs_of_user(own)) if most is not None]
        limit = limit._replace(jobs=min(jobs, default=None)) if user else NONE
        if limit:
            where = ("partition", own[2]) if own[2] else ()
            yield _name("account", account, "user", user, *where), limit
        stronger = QosLimits()
        for name in self._context.qos_of(job):
            qos = limits.qos.get(name, stronger)
            for found, other, who in (
                (qos.together, stronger.together, ()),
                (qos.per_user, stronger.per_user, ("user", user)),
                (qos.per_account, stronger.per_account, ("account", account)),
            ):
                rest = found if qos is stronger else found.but(other)
                if (limit := self._known(rest)) and all(who):
                    yield _name("qos", name, *who), limit
            stronger = qos

    def _association(self, account: str, user: str, partitions: Sequence[str]) -> Owner:
        """Return the association of a user: that with the partition, if there is one."""
        own = (account, user, partitions[0] if len(partitions) == 1 else "")
        known = own in self._limits.together or own in self._limits.jobs_of_users
        return own if known else (account, user, "")

    def _jobs_of_user(self, own: Owner) -> int | None:
        account, most = own[0], self._limits.jobs_of_users
        above = (most.get((one, "", "")) for one in self._limits.path(account))
        return most.get(own, next((one for one in above if one is not None), None))

    def _known(self, limit: Limit) -> Limit:
        """Return a limit without GPU models that no node has.

        GPUs of models that some node has beside others are resources.
        """
        if not limit:
            return limit
        nodes, others = self._context.nodes, dict(limit.others)
        others |= {of_model(m): most for m, most in limit.gpus.items() if m in nodes.counted}
        models = {"", *nodes.models} - nodes.counted
        known = {m: most for m, most in limit.gpus.items() if m in models}
        return limit._replace(gpus=known, others=others)


def _with_nodes(job: Job) -> Job:
    """Return a job of which each option says on how many nodes it is."""
    options = [
        one.model_copy(update={"uses": {**one.uses, NODES: sum(g.count for g in one.groups)}})
        for one in job.options
    ]
    return job.model_copy(update={"options": tuple(options)})


def _name(*parts: str) -> str:
    """Return the name of a cap: `account/lab/user/mia`, `qos/high/account/lab`."""
    return "/".join(parts)


# Licences of Slurm: pools of the whole cluster, which jobs use per job.

_ASKED = re.compile(r"([^,:|]+)(?::([0-9]{1,15}))?")
"""One licence that a job asks for, `matlab@flex:2`; without a number it is one."""

NOT_ASKED = "licences, as the dump does not have what `scontrol show licenses` prints"
CHOICE = "a choice of licences, or what is no number of them"
UNKNOWN = "licences that the dump does not list, or that are of some nodes alone"


def read_licences(part: Part | None, book: Bookkeeping) -> tuple[SlurmLicence, ...] | None:
    """Return the licences of a dump, as JSON or as `scontrol show licenses` prints them.

    None: the dump does not say. Raises `InvalidInputError`: a value is not what Slurm writes.
    """
    if part is None:
        return None
    if part.text is None:
        return read_list(SlurmLicence, part, "licenses", book)
    rows = [
        {k: v if number is None else number for k, v, number in numbers}
        for row in blocks(part.text, "LicenseName")
        for numbers in [((k, v, small_number(v)) for k, v in row.items())]
    ]
    return read_list(SlurmLicence, Part(part.file, raw={"licenses": rows}), "licenses", book)


class Licences:
    """What jobs of a round use of licences, and what there is for them."""

    def __init__(self, found: Sequence[SlurmLicence] | None, book: Bookkeeping) -> None:
        self._said, self._book = found is not None, book
        listed = Counter(one.name for one in found or ())
        self._free = {
            one.name: one.available
            for one in found or ()
            if listed[one.name] == 1 and is_name(_resource(one.name))
        }
        self._held: Counter[str] = Counter()
        self._asked: set[str] = set()

    def with_uses(self, job: Job, components: Sequence[SlurmJob]) -> Job:
        """Return a job that uses the licences of all its components, with each of its options."""
        uses = Counter[str]()
        for component in components:
            if component.licenses:
                uses.update(self._of(component))
        if not uses:
            return job
        self._asked.update(uses)
        if job.running is not None:
            self._held.update(uses)
        named = {_resource(name): min(amount, MAX_AMOUNT) for name, amount in uses.items()}
        options = [option.model_copy(update={"uses": named}) for option in job.options]
        return job.model_copy(update={"options": tuple(options)})

    def _of(self, job: SlurmJob) -> Mapping[str, int]:
        """Return what a component asks for, nothing if the round cannot say it."""
        if not self._said:
            self._book.cannot_say(NOT_ASKED, job.name)
            return {}
        parts = job.licenses.split(",")
        found = [_ASKED.fullmatch(part.strip()) for part in parts]
        asked = {one[1]: int(one[2] or 1) for one in found if one is not None}
        if len(asked) < len(parts) or any(number > MAX_AMOUNT for number in asked.values()):
            self._book.cannot_say(CHOICE, job.name)
            return {}
        if asked.keys() - self._free.keys():
            self._book.cannot_say(UNKNOWN, job.name)
        return {name: number for name, number in asked.items() if name in self._free}

    def pools(self) -> tuple[Pool, ...]:
        """Return a pool of each licence that jobs use: what is free, and what they hold."""
        return tuple(self._pools())

    def _pools(self) -> Iterator[Pool]:
        for name in sorted(self._asked):
            capacity = min(self._free[name] + self._held[name], MAX_AMOUNT)
            yield Pool(resource=_resource(name), capacity=capacity, per="job")


def _resource(name: str) -> str:
    """Return a licence by the name of its TRES."""
    return f"license/{name}"
