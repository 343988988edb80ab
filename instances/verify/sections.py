"""Sections of plans: where each kind stands, that it is given once, and what its fields may be."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, TypeVar

from pydantic import ValidationError

from placewright.instances.documents.base import Document
from placewright.instances.errors import Path, value_text
from placewright.instances.io.validation_messages import invalid_input
from placewright.instances.verify.reading import Reading
from placewright.instances.verify.result import Finding

Section = TypeVar("Section", bound=Document)


def given(reading: Reading, kind: str) -> list[int]:
    """Return which sections of a plan are of a kind."""
    return [i for i, entry in enumerate(reading.plan.sections) if entry.get("kind") == kind]


def one_section(reading: Reading, kind: str, missing: str = "") -> Iterator[Finding]:
    """Require a section of a kind at most once; without any say what is missing, if that is."""
    indices = given(reading, kind)
    if missing and not indices:
        yield Finding(("sections",), f"{missing}; expected one")
    for index in indices[1:]:
        yield Finding(
            ("sections", index), f"section {kind!r} is given more than once; expected one"
        )


def first_of(reading: Reading, kind: str, document: type[Section]) -> tuple[Path, Section] | None:
    """Return the first section of a kind and where it stands, None if it cannot be read."""
    for index in given(reading, kind)[:1]:
        try:
            return ("sections", index), document.model_validate(reading.plan.sections[index])
        except ValidationError:
            return None
    return None


def document_form(
    document: type[Document], entry: Mapping[str, Any], path: Path
) -> Iterator[Finding]:
    """Require the fields of a document."""
    try:
        document.model_validate(entry)
    except ValidationError as error:
        found = invalid_input(error, document)
        said = f"{value_text(found.value)}; " if found.show_value else ""
        yield Finding((*path, *found.path), f"{said}{found.expected}")


def unknown_fields(
    entry: Mapping[str, Any], known: Collection[str], path: Path, expected: str, where: str = ""
) -> Iterator[Finding]:
    """Refuse other fields than the known ones, of an entry or, as `where` says, of a section."""
    for name in entry:
        if name not in known:
            yield Finding(
                (*path, name), f"field {value_text(name)}{where} is unknown; expected {expected}"
            )
