"""Licences of Slurm: pools of the whole cluster, which jobs use per job."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from placewright.instances.converters.bookkeeping import Bookkeeping
from placewright.instances.converters.slurm.reading import read_list
from placewright.instances.converters.slurm.records import SlurmJob, SlurmLicence
from placewright.instances.converters.slurm.sources import Part
from placewright.instances.converters.slurm.text import blocks, is_name
from placewright.instances.documents.base import MAX_AMOUNT
from placewright.instances.documents.job import Job
from placewright.instances.documents.pools import Pool
from placewright.instances.documents.quantities import small_number

_ASKED = re.compile(r"([^,:|]+)(?::([0-9]{1,15}))?")
"""One licence that a job asks for, `matlab@flex:2`; without a number it is one."""

NOT_ASKED = "licences, as the dump does not have what `scontrol show licenses` prints"
CHOICE = "a choice of licences, or what is no number of them"
UNKNOWN = "licences that the dump does not list, or that are of some nodes alone"


def read_licences(part: Part | None, book: Bookkeeping) -> tuple[SlurmLicence, ...] | None:
    """Return the licences of a dump, as JSON or as `scontrol show licenses` prints them.

    None: the dump does not say.

    Raises
    ------
    InvalidInputError
        A value is not what Slurm writes.
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
