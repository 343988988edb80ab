"""Caveats: rules of a source that bind a job or a host, and that the round cannot say.

They are annotations of the job or the host, so that everything that says something of it can say
this, too. A hard one forbids what the round may allow; one that is not hard is a wish, or a reading
that leaves no plan wrong.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Annotated, Final

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from placewright.instances.documents.annotations import LINE
from placewright.instances.documents.base import Document, Flag, Many, Name

CAVEATS: Final = "caveats"
"""The annotation, of a job or a host: a list of `Caveat` as JSON."""

UNKNOWN_FIELD: Final = "unknown-field"

MAX_CAVEATS = 100


class Caveat(Document):
    """A rule that is not obeyed: its name, what it is in words, and whether it can forbid a plan.

    The words go after "as far as the round knows:", such as "topology spread is not read".
    """

    rule: Name
    text: Annotated[str, Field(min_length=1, max_length=500, pattern=LINE)]
    hard: Flag = True


_LIST = TypeAdapter(
    Annotated[Many[Caveat], Field(max_length=MAX_CAVEATS)], config=ConfigDict(defer_build=True)
)


def caveats_of(annotations: Mapping[str, str]) -> tuple[Caveat, ...]:
    """Return the caveats of a job or a host; () if its annotation is no list of them."""
    text = annotations.get(CAVEATS)
    if text is None:
        return ()
    try:
        return _LIST.validate_json(text)
    except (ValidationError, RecursionError):
        return ()


def hard_caveats(annotations: Mapping[str, str]) -> tuple[Caveat, ...]:
    """Return the caveats that can forbid what the round allows."""
    return tuple(one for one in caveats_of(annotations) if one.hard)


def annotation_of(caveats: Iterable[Caveat]) -> dict[str, str]:
    """Return the annotation that says some caveats, each rule once; {} if there are none."""
    first = {one.rule: one for one in reversed(list(caveats))}
    listed = [first[rule].model_dump() for rule in sorted(first)[:MAX_CAVEATS]]
    return {CAVEATS: json.dumps(listed)} if listed else {}
