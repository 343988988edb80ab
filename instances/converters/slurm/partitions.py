"""Partitions of Slurm: which jobs each of them takes, and how its jobs are scheduled."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any

from pydantic import AliasChoices, BeforeValidator, Field

from placewright.instances.converters.bookkeeping import Bookkeeping
from placewright.instances.converters.slurm.accessor import Number, Record, Text, Words, number
from placewright.instances.converters.slurm.limits import Limits
from placewright.instances.converters.slurm.reading import read_list
from placewright.instances.converters.slurm.records import SlurmJob
from placewright.instances.converters.slurm.requests import Counts
from placewright.instances.converters.slurm.sources import Part
from placewright.instances.converters.slurm.text import blocks, seconds
from placewright.instances.documents.base import Name
from placewright.instances.documents.quantities import small_number

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
    preempt_mode: Words = _of("preempt_mode", "PreemptMode", default=())
    grace_s: Number = _of("grace_time", "preemption_grace_time", "GraceTime")
    accounts: Words = _of("accounts.allowed", "allowed_accounts", "AllowAccounts", default=())
    denied_accounts: Words = _of("accounts.deny", "denied_accounts", "DenyAccounts", default=())
    allowed_qos: Words = _of("qos.allowed", "allowed_qos", "AllowQos", default=())
    denied_qos: Words = _of("qos.deny", "denied_qos", "DenyQos", default=())

    def refusal(self, job: SlurmJob, limits: Limits) -> str:
        """Return why a pending job does not start in it, "" if nothing is known that forbids it."""
        flags = limits.flags(job.qos)
        minutes, least, most = job.time_limit, job.least_nodes, job.most_nodes
        account = job.account or ""
        for broken, text in (
            (self.state and "UP" not in {s.upper() for s in self.state}, "is not up"),
            (
                self.max_minutes is not None
                and (minutes or 0) > self.max_minutes
                and "PARTITIONTIMELIMIT" not in flags,
                f"allows {self.max_minutes} minutes (MaxTime), the job asks {minutes}",
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

    Raises
    ------
    InvalidInputError
        A value is not what Slurm writes.
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
