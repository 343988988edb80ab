"""Names by which people know a job of a source: its jobs in the round, or why it has none there."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from pydantic import TypeAdapter, ValidationError

from placewright.instances.derived.names import check_known
from placewright.instances.derived.phrases import several
from placewright.instances.derived.source_words import words_of
from placewright.instances.documents.annotations import MAX_TEXT
from placewright.instances.documents.bookkeeping import book_of
from placewright.instances.documents.job import Job
from placewright.instances.documents.round import Round
from placewright.instances.documents.source_keys import (
    ALSO,
    KUBERNETES_NAME,
    KUBERNETES_NAMESPACE,
    KUBERNETES_OWNER,
    KUBERNETES_POD_UIDS,
    KUBERNETES_PODS,
    KUBERNETES_UID,
    SLURM_COMPONENTS,
    SLURM_JOB,
)
from placewright.instances.errors import InvalidInputError, Path

_NAMES = (SLURM_JOB, SLURM_COMPONENTS, KUBERNETES_NAME, f"{KUBERNETES_OWNER}name", KUBERNETES_PODS)
_UIDS = (KUBERNETES_UID, f"{KUBERNETES_OWNER}uid", KUBERNETES_POD_UIDS)
_NAMES_ALSO = TypeAdapter(tuple[str, ...])
_PART = re.compile(r"([0-9]+)[_+][0-9]+")
"""A task of an array, or a component of a heterogeneous job."""


class LeftOut(NamedTuple):
    """Something of a source that is not in the round: its names there, why not, what helps."""

    name: str
    why: str
    help: str
    also: Sequence[str] = ()


def also_of(names: Iterable[str]) -> str:
    """Return the annotation `ALSO` of some names, "" if there are none."""
    listed = list(dict.fromkeys(names))
    text = json.dumps(listed) if listed else ""
    return text if len(text) <= MAX_TEXT else ""


def names_of(job: Job) -> Iterator[str]:
    """Yield all names that a job has in its source, some several times."""
    yield job.name
    space = job.annotations.get(KUBERNETES_NAMESPACE, "")
    for key, text in job.annotations.items():
        if key.startswith(_NAMES):
            yield from (f"{space}/{name}" if space else name for name in text.split(","))
        elif key.startswith(_UIDS):
            yield from text.split(",")
        elif key == ALSO:
            yield from _listed(text)


def is_called(names: Iterable[str], name: str) -> bool:
    """Whether a name is among some, or is one of them without its namespace, or its array."""
    short, whole = f"/{name}", name.isdecimal()
    return any(
        one == name
        or one.endswith(short)
        or (whole and (part := _PART.fullmatch(one)) is not None and part[1] == name)
        for one in names
    )


def jobs_called(round_: Round, name: str) -> list[Job]:
    """Return the job of a name, or else those with it in the source, those that wait first."""
    exact = next((job for job in round_.jobs if job.name == name), None)
    if exact is not None:
        return [exact]
    found = [job for job in round_.jobs if is_called(names_of(job), name)]
    return sorted(found, key=lambda job: job.running is not None)


def all_left_out(round_: Round) -> Iterator[LeftOut]:
    """Yield all that the source has and the round has not, as far as its bookkeeping has names."""
    book, words = book_of(round_.annotations), words_of(round_)
    if book is None:
        return
    reasons = {name: kind.reason for kind in book.left_out for name in kind.names}
    for name in reasons | book.why:
        why = ": ".join(filter(None, (reasons.get(name), book.why.get(name))))
        yield LeftOut(name, why, words.help_for(name, why), book.also.get(name, ()))


def left_out_called(round_: Round, name: str) -> list[LeftOut]:
    """Return what the source has of a name and the round has not, with the reasons."""
    part = _PART.fullmatch(name)
    whole = part[1] if part else name
    left = all_left_out(round_)
    return [one for one in left if one.name == whole or is_called((one.name, *one.also), name)]


def check_in_round(round_: Round, name: str, path: Path) -> list[Job]:
    """Return the jobs of a name, and refuse one that has none.

    Raises
    ------
    InvalidInputError
        It is left out of the round, with the reason; or nothing has this name.
    """
    found = jobs_called(round_, name)
    if found:
        return found
    left = left_out_called(round_, name)
    if left:
        raise InvalidInputError(
            f"is not in the round: {whys(left)}; expected a job of the round", path=path, value=name
        )
    check_known(name, {job.name for job in round_.jobs}, "job", path)
    return []


def by_reason(left: Iterable[LeftOut]) -> dict[str, list[str]]:
    """Return the names of things that are left out by the reason why."""
    reasons: dict[str, list[str]] = {}
    for one in left:
        reasons.setdefault(one.why, []).append(one.name)
    return reasons


def whys(left: Sequence[LeftOut]) -> str:
    """Say why some things are left out, each reason once."""
    reasons = by_reason(left)
    several_reasons = len(reasons) > 1
    said = (f"{several(n)}: {why}" if several_reasons else why for why, n in reasons.items())
    return "; ".join(said)


def _listed(text: str) -> tuple[str, ...]:
    try:
        return _NAMES_ALSO.validate_json(text)
    except (ValidationError, RecursionError):
        return ()
