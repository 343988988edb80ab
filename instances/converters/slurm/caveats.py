"""Caveats of Slurm's jobs and nodes: rules of theirs, their accounts and QOS that are told."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from placewright.instances.converters.bookkeeping import Bookkeeping
from placewright.instances.converters.ledger import Reading
from placewright.instances.converters.slurm.ledger import LEDGERS
from placewright.instances.converters.slurm.limits import Limits
from placewright.instances.converters.slurm.records import SlurmJob
from placewright.instances.converters.slurm.sources import Part
from placewright.instances.converters.slurm.text import rows
from placewright.instances.documents.caveats import Caveat, annotation_of

_KEYS: Mapping[str, tuple[str, ...]] = {
    "jobs": ("job_id",),
    "nodes": ("name",),
    "associations": ("account", "user", "Account", "User"),
    "qos": ("name", "Name"),
    "partitions": ("name", "PartitionName"),
}
"""The fields by whose values an object of a part is found again."""


@dataclass(slots=True)
class Caveats:
    """Caveats by the objects that have them: jobs by number, associations by account and user."""

    of: dict[str, dict[tuple[Any, ...], tuple[Caveat, ...]]] = field(default_factory=dict)

    def of_job(self, components: Sequence[SlurmJob], limits: Limits) -> dict[str, str]:
        """Return the annotation of a job: what its components, accounts and QOS say."""
        return annotation_of(one for job in components for one in self._of(job, limits))

    def add(self, node: str, caveat: Caveat) -> None:
        """Note a caveat of a node."""
        self.of.setdefault("nodes", {})[node,] = (*self._find("nodes", node), caveat)

    def of_node(self, name: str) -> dict[str, str]:
        """Return the annotation of a host."""
        return annotation_of(self._find("nodes", name))

    def _of(self, job: SlurmJob, limits: Limits) -> Iterator[Caveat]:
        yield from self._find("jobs", job.job_id)
        yield from self._find("qos", job.qos)
        for partition in job.partition:
            yield from self._find("partitions", partition)
        account = job.account or ""
        yield from self._find("associations", account, job.user_name)
        for above in limits.path(account):
            yield from self._find("associations", above)

    def _find(self, part: str, *values: Any) -> tuple[Caveat, ...]:
        return self.of.get(part, {}).get(tuple(str(one) for one in values if one), ())


def read_caveats(parts: Mapping[str, Part], book: Bookkeeping) -> Caveats:
    """Go through all objects of a dump; the bookkeeping has a line about each kind's fields."""
    found = Caveats()
    for name, ledger in LEDGERS.items():
        part = parts.get(name)
        if part is None:
            continue
        reading = Reading(ledger)
        listed: dict[tuple[Any, ...], tuple[Caveat, ...]] = {}
        for raw in _objects(name, part):
            caveats = reading.take(raw)
            if caveats:
                key = tuple(str(raw[key]) for key in _KEYS.get(name, ()) if raw.get(key))
                listed[key] = listed.get(key, ()) + caveats
        found.of[name] = listed
        book.fields.append(reading.line())
    return found


def _objects(name: str, part: Part) -> Iterable[Any]:
    if part.text is None:
        listed = part.raw[name]
        return [raw for raw in listed if isinstance(raw, dict)] if isinstance(listed, list) else ()
    return rows(part.text)
