"""The plan section `leases`: its form, and its promises as rules and terms read them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np
from pydantic import ValidationError

from placewright.instances.documents.plan_leases import Interval, LeaseSection
from placewright.instances.errors import value_text
from placewright.instances.io.validation_messages import invalid_input
from placewright.instances.verify.reading import Promises, Reading, Spans
from placewright.instances.verify.result import Finding, Rule
from placewright.instances.verify.rules.deadline.lease_work import first_usable, in_order

KIND = "leases"


def spans(lists: Iterable[tuple[Interval, ...]]) -> Spans:
    """Return the intervals of some lists of them; the owner is the index of the list."""
    each = list(lists)
    flat = chain.from_iterable(chain.from_iterable(each))
    pairs = np.fromiter(flat, dtype=np.int64).reshape(-1, 2)
    owner = np.repeat(np.arange(len(each)), [len(one) for one in each])
    return Spans(owner, pairs[:, 0], pairs[:, 1])


def form(
    reading: Reading, entry: Mapping[str, Any], path: tuple[str | int, ...]
) -> Iterator[Finding]:
    """Require the fields of the section; `sections.section` applies it."""
    if reading.promises is not None and reading.promises.path == path:
        return
    try:
        LeaseSection.model_validate(entry)
    except ValidationError as error:
        found = invalid_input(error, LeaseSection)
        given = f"{value_text(found.value)}; " if found.show_value else ""
        yield Finding((*path, *found.path), f"{given}{found.expected}")


def with_promises(reading: Reading) -> Reading:
    """Return a reading with the promises of its plan, if they can be read.

    Of a job that is named twice the first entry counts, and entries that name no job of the round
    with a deadline, or none of its options, are left out; a rule reports them.
    """
    given = [i for i, entry in enumerate(reading.plan.sections) if entry.get("kind") == KIND]
    if not given:
        return reading
    try:
        section = LeaseSection.model_validate(reading.plan.sections[given[0]])
    except ValidationError:
        return reading
    numbers: dict[str, int] = {}
    for number, promised in enumerate(section.jobs):
        job = reading.jobs.get(promised.job)
        if job is not None and job.deadline is not None and promised.option < len(job.options):
            numbers.setdefault(promised.job, number)
    each = spans(promised.leases for promised in section.jobs)
    earliest = [0] * len(section.jobs)
    for name, number in numbers.items():
        option = section.jobs[number].option
        earliest[number] = first_usable(reading, reading.jobs[name], option)
    wrong = ~in_order(each, earliest, reading.round.leases.horizon)
    out = frozenset(each.owner[wrong].tolist())
    timely = {number: reading.jobs[name] for name, number in numbers.items() if number not in out}
    path = ("sections", given[0])
    return replace(reading, promises=Promises(path, section, numbers, each, timely))


def leases(reading: Reading) -> Iterator[Finding]:
    """Require one section, of leases as long as those of the round."""
    given = [i for i, entry in enumerate(reading.plan.sections) if entry.get("kind") == KIND]
    if not given:
        yield Finding(("sections",), f"section {KIND!r} is missing; expected one")
    for index in given[1:]:
        yield Finding(
            ("sections", index), f"section {KIND!r} is given more than once; expected one"
        )
    promises, length = reading.promises, reading.round.leases.length_s
    if promises is not None and promises.section.length != length:
        yield Finding(
            (*promises.path, "length"),
            f"leases of {promises.section.length} seconds are not those of the round; "
            f"expected {length}",
        )


def promised_job(reading: Reading) -> Iterator[Finding]:
    """Require of each promise a job with a deadline, once, and one of the job's options."""
    promises = reading.promises
    if promises is None:
        return
    for number, promised in enumerate(promises.section.jobs):
        job = reading.jobs.get(promised.job)
        if job is None:
            problem = "is not in the round; expected one of its jobs"
        elif job.deadline is None:
            problem = "has no deadline; expected jobs that can be promised something"
        elif promised.option >= len(job.options):
            problem = f"has no option {promised.option}; expected at most {len(job.options) - 1}"
        elif promises.numbers[promised.job] != number:
            problem = "is promised something already; expected it once"
        else:
            continue
        yield Finding((*promises.path, "jobs", number, "job"), f"job {promised.job!r} {problem}")


RULES_OF_LEASES: tuple[Rule[Reading], ...] = (
    Rule("leases", leases),
    Rule("promised_job", promised_job),
)
