"""Partitions of Slurm: which jobs each of them takes, and how its jobs are scheduled."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic import Field

from placewright.instances.converters.bookkeeping import Bookkeeping
from placewright.instances.converters.slurm.accessor import Number, Record, Text, Words
from placewright.instances.converters.slurm.limits import Limits
from placewright.instances.converters.slurm.reading import read_list
from placewright.instances.converters.slurm.records import SlurmJob
from placewright.instances.converters.slurm.requests import Counts
from placewright.instances.converters.slurm.sources import Part
from placewright.instances.converters.slurm.text import blocks, seconds
from placewright.instances.documents.base import Name

_JSON: Mapping[str, tuple[str, ...]] = {
    "max_minutes": ("maximums.time", "max_time_limit"),
    "max_nodes": ("maximums.nodes", "maximum_nodes_per_job"),
    "min_nodes": ("minimums.nodes", "min nodes per job"),
    "state": ("partition.state", "state"),
    "qos": ("qos.assigned", "qos"),
    "tier": ("priority.tier", "priority_tier"),
    "job_factor": ("priority.job_factor", "priority_job_factor"),
    "shares": ("maximums.shares",),
    "preempt_mode": ("preempt_mode",),
    "grace_s": ("grace_time", "preemption_grace_time"),
    "accounts": ("accounts.allowed", "allowed_accounts"),
    "denied_accounts": ("accounts.deny", "denied_accounts"),
    "allowed_qos": ("qos.allowed", "allowed_qos"),
    "denied_qos": ("qos.deny", "denied_qos"),
}
"""Where each field is in JSON: from v0.0.39 on, and in v0.0.38."""

_TEXT = {
    "max_nodes": "MaxNodes",
    "min_nodes": "MinNodes",
    "state": "State",
    "qos": "QoS",
    "tier": "PriorityTier",
    "job_factor": "PriorityJobFactor",
    "preempt_mode": "PreemptMode",
    "grace_s": "GraceTime",
    "accounts": "AllowAccounts",
    "denied_accounts": "DenyAccounts",
    "allowed_qos": "AllowQos",
    "denied_qos": "DenyQos",
}
_NONE = frozenset({"ALL", "N/A", "(null)", "NONE", "UNLIMITED", "INFINITE"})


class Partition(Record):
    """A partition of `scontrol show partition`; None and () are no limit."""

    name: Name
    max_minutes: Number = None
    max_nodes: Number = None
    min_nodes: Number = None
    state: Words = ()
    qos: Text = ""
    tier: Number = Field(default=1)
    job_factor: Number = None
    shares: Number = None
    preempt_mode: Words = ()
    grace_s: Number = None
    accounts: Words = ()
    denied_accounts: Words = ()
    allowed_qos: Words = ()
    denied_qos: Words = ()

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
    found: dict[str, Any] = {
        field: _plain(row.get(key, "")) for field, key in _TEXT.items() if _said(row.get(key, ""))
    }
    limit = seconds(row.get("MaxTime", ""))
    alone = {"shares": 0} if row.get("OverSubscribe") == "EXCLUSIVE" else {}
    return {"name": row["PartitionName"], "max_minutes": limit and limit // 60, **alone, **found}


def _plain(text: str) -> Any:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 16 else text


def _said(text: str) -> bool:
    return bool(text) and text not in _NONE


def _of_json(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {"name": entry.get("name"), **dict(_values(entry))}


def _values(entry: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for field, paths in _JSON.items():
        for path in paths:
            value: Any = entry
            for key in path.split("."):
                value = value.get(key) if isinstance(value, dict) else None
            limitless = value == -1 and field in ("max_nodes", "max_minutes")
            if limitless or value is None or (isinstance(value, dict) and "set" not in value):
                continue
            yield field, value
            break
