"""Validation messages: errors of form and of references, with the lines on which they stand."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from json import JSONDecoder
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin

import yaml
from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from placewright.instances.checks.round import in_whole_round
from placewright.instances.documents.annotations import LINE
from placewright.instances.documents.base import NAME
from placewright.instances.documents.cluster import HOST_NAME
from placewright.instances.documents.plan import SHA256
from placewright.instances.documents.round import Round
from placewright.instances.errors import ENTRY, InvalidInputError, Path, merged

# Lines of a JSON or YAML text on which paths of its document stand, for messages of errors.
#
# The readers keep no positions, so that they are fast: this looks for a few paths afterwards.


_BETWEEN = re.compile(r"[\s,:]*")


def lines_of(text: str, paths: Collection[Path]) -> dict[Path, int]:
    """Return the line, from 1, of the key or list entry that each path leads to.

    A path that goes on where the document ends has the line of its last part that is there.
    Empty where the text cannot be read.
    """
    try:
        if text.lstrip().startswith(("{", "[")):
            starts = _Json(text, paths).starts
            return {path: text.count("\n", 0, start) + 1 for path, start in starts.items()}
        return _yaml_lines(text, paths)
    except (ValueError, RecursionError, yaml.YAMLError):
        return {}


class _Json:
    """Looks for paths; whatever none of them leads through, the decoder skips."""

    def __init__(self, text: str, paths: Iterable[Path]) -> None:
        self.starts: dict[Path, int] = {}
        self._text, self._skip = text, JSONDecoder(strict=False).raw_decode
        self._value(self._next(0), (), set(paths))

    def _next(self, at: int) -> int:
        found = _BETWEEN.match(self._text, at)
        return at if found is None else found.end()

    def _value(self, at: int, here: Path, paths: set[Path]) -> int:
        """Read the value at `at`, to which the path `here` leads, and return where it ends."""
        deeper = {path for path in paths if len(path) > len(here)}
        if not deeper or self._text[at] not in "{[":
            return self._skip(self._text, at)[1]
        closing = "}" if self._text[at] == "{" else "]"
        at, index = self._next(at + 1), 0
        while self._text[at : at + 1] != closing:
            start, part = at, index  # type: int, str | int
            if closing == "}":
                part, at = self._skip(self._text, at)
                at = self._next(at)
            wanted = {path for path in deeper if path[len(here)] == part}
            self.starts.update(dict.fromkeys(wanted, start))
            at = self._next(self._value(at, (*here, part), wanted))
            index += 1
        return at + 1


@dataclass(slots=True)
class _Open:
    """A mapping or list that is being read, and the paths that lead into it."""

    paths: set[Path]
    part: str | int | None  # the key or index that was read last; None where a key comes next


def _yaml_lines(text: str, paths: Iterable[Path]) -> dict[Path, int]:
    lines: dict[Path, int] = {}
    containers: list[_Open] = []
    wanted = set(paths)  # those that lead to the next value
    event: Any  # marks of all events are there, although their type says otherwise
    for event in yaml.parse(text, Loader=yaml.CSafeLoader):
        inner = containers[-1] if containers else None
        if isinstance(event, yaml.CollectionEndEvent):
            containers.pop()
            inner = containers[-1] if containers else None
        elif not isinstance(event, yaml.NodeEvent):
            continue
        elif inner is not None and (inner.part is None or isinstance(inner.part, int)):
            if inner.part is not None:
                inner.part += 1
            elif isinstance(event, yaml.ScalarEvent):
                inner.part = event.value
            else:
                raise ValueError("a key that is not text")
            depth = len(containers) - 1
            wanted = {
                path for path in inner.paths if len(path) > depth and path[depth] == inner.part
            }
            lines.update(dict.fromkeys(wanted, event.start_mark.line + 1))
            if isinstance(inner.part, str):
                continue  # its value comes next
        if isinstance(event, yaml.CollectionStartEvent):
            is_mapping = isinstance(event, yaml.MappingStartEvent)
            containers.append(_Open(wanted, None if is_mapping else -1))
        elif inner is not None and isinstance(inner.part, str):
            inner.part = None
    return lines


# References of a refused round: those of its well-formed jobs, beside the errors of form.


_ELSEWHERE = ("cluster", "host_sets", "policy", "reservations")
"""Parts of a round whose errors do not depend on which jobs it has."""


def reference_errors(
    raw: Any, forms: InvalidInputError, checked: Callable[[Round], Round]
) -> Iterator[InvalidInputError]:
    """Yield errors of a round without its jobs of a wrong form, with their paths in all of it.

    Nothing is said of what jobs left aside may have to do with: tenants' quotas of resources that
    they ask, conflicts with them, and running jobs if one of them runs.

    Parameters
    ----------
    raw
        The values of the round.
    forms
        Its errors of form; only if all are in jobs is anything yielded.
    checked
        Checks the references of a round, by raising.
    """
    if not all(one.path[:1] == ("jobs",) and one.path[1:] for one in forms.errors):
        return
    jobs, aside = raw["jobs"], {int(one.path[1]) for one in forms.errors}
    kept = [index for index in range(len(jobs)) if index not in aside]
    runs = [isinstance(job, dict) and "running" in job for job in jobs]
    unsure = any(runs[index] for index in aside)
    try:
        checked(Round.model_validate({**raw, "jobs": [jobs[index] for index in kept]}))
    except ValidationError:  # there were more errors of form than are looked for
        return
    except InvalidInputError as error:
        for one in error.errors:
            path = in_whole_round(one.path, kept)
            if path[:1] == ("jobs",) and len(path) > ENTRY:
                told = not (unsure and runs[int(path[1])])
            else:
                told = path[:1] in {(part,) for part in _ELSEWHERE}
            if told:
                yield one.at(path)


# Validation messages: pydantic's errors in a document as one `InvalidInputError`.


MOST_ERRORS = 10_000
"""Of one document that are looked for."""

_TEXTS = {
    "bool_type": "expected true or false",
    "dict_type": "expected a mapping",
    "finite_number": "expected a finite number",
    "float_type": "expected a number",
    "greater_than_equal": "expected at least {ge}",
    "int_type": "expected an integer",
    "less_than_equal": "expected at most {le}",
    "literal_error": "expected {expected}",
    "enum": "expected {expected}",
    "model_type": "expected a mapping",
    "string_too_long": "expected at most {max_length} characters",
    "string_too_short": "expected at least {min_length} character",
    "string_type": "expected text",
    "string_unicode": "expected valid Unicode text",
    "too_long": "expected at most {max_length} in the list",
    "too_short": "expected at least {min_length} in the list",
    "tuple_type": "expected a list",
    "value_error": "{error}",
}
_PATTERNS = {
    NAME: "expected only letters, digits and any of . _ : / @ | + = -",
    HOST_NAME: "expected only letters, digits and any of . _ : / @ | + = -, or a range: h[000-127]",
    SHA256: "expected a sha256: 64 of 0-9 and a-f",
    LINE: "expected one line without control characters",
}


def invalid_input(
    error: ValidationError, document: type[BaseModel], raw: Any = None
) -> InvalidInputError:
    """Return the errors of a document, those of its raw values after the first of each list, too.

    Lists stop at their first wrong entry, lest a wrong file of millions fill the memory; only when
    a document is refused is the rest of them looked at.
    """
    details = chain(_details(error), _further(error, document, raw, ()))
    return merged([_error(one, document) for one in islice(details, MOST_ERRORS)])


def _error(details: ErrorDetails, document: type[BaseModel]) -> InvalidInputError:
    path = tuple(part for part in details["loc"] if part != "[key]")
    cause = details.get("ctx", {}).get("error")
    if isinstance(cause, InvalidInputError):
        return cause.moved(lambda inner: path + inner)
    unknown = None
    if details["type"] == "extra_forbidden":
        unknown = str(path[-1]), _fields(document, path[:-1])
    elif details["type"] in ("literal_error", "enum") and isinstance(details["input"], str):
        unknown = details["input"], re.findall("'([^']*)'", details["ctx"]["expected"])
    return InvalidInputError(
        _expected(details, document, path),
        path=path,
        value=details["input"],
        show_value=details["type"] != "missing" and not isinstance(details["input"], BaseModel),
        unknown=unknown,
    )


def _details(error: ValidationError) -> list[ErrorDetails]:
    # A list that stopped at a wrong entry is also reported as too short: that is no second error.
    details = error.errors(include_url=False)
    within = {e["loc"][:length] for e in details for length in range(len(e["loc"]))}
    return [e for e in details if e["loc"] not in within]


def _further(
    error: ValidationError, document: Any, raw: Any, at: tuple[str | int, ...]
) -> Iterator[ErrorDetails]:
    """Yield the errors after the first wrong entry of each list, with their paths below `at`."""
    stopped = {
        e["loc"][:depth]: part
        for e in _details(error)
        for depth, part in enumerate(e["loc"])
        if isinstance(part, int)
    }
    for path, first in stopped.items():
        entries, kind = _values(raw, path), _annotation(document, path)
        if not isinstance(entries, list | tuple) or get_args(kind)[1:] != (Ellipsis,):
            continue
        entry = get_args(kind)[0]
        adapter = TypeAdapter(entry)
        for index, value in enumerate(entries[first + 1 :], first + 1):
            try:
                adapter.validate_python(value)
            except ValidationError as another:
                inside = (*at, *path, index)
                for e in _details(another):
                    yield {**e, "loc": (*inside, *e["loc"])}
                yield from _further(another, _unwrapped(entry), value, inside)


def _values(raw: Any, path: tuple[str | int, ...]) -> Any:
    """Return the raw value at a path, None if there is none."""
    try:
        for part in path:
            raw = raw[part]
    except (TypeError, KeyError, IndexError):
        return None
    return raw


def _expected(details: ErrorDetails, document: type[BaseModel], path: Sequence[str | int]) -> str:
    context = details.get("ctx", {})
    if details["type"] == "missing":
        return "missing; expected a value"
    if details["type"] == "extra_forbidden":
        return f"unknown field; expected one of {', '.join(_fields(document, path[:-1]))}"
    if details["type"] == "string_pattern_mismatch":
        return _PATTERNS[context["pattern"]]
    text = _TEXTS.get(details["type"])
    return text.format(**context) if text else f"expected otherwise: {details['msg']}"


def _fields(document: type[BaseModel], path: Sequence[str | int]) -> list[str]:
    """Return the field names of the document that a path leads to."""
    return sorted(_annotation(document, path).model_fields)


def _annotation(document: Any, path: Sequence[str | int]) -> Any:
    """Return the type of what a path leads to in a document."""
    here = document
    for part in path:
        if isinstance(here, type) and issubclass(here, BaseModel):
            here = _unwrapped(here.model_fields[str(part)].annotation)
        else:  # a list or mapping: on to what its entries are
            here = _unwrapped([entry for entry in get_args(here) if entry is not Ellipsis][-1])
    return here


def _unwrapped(annotation: Any) -> Any:
    """Return a type without what `Annotated[...]` and `| None` add to it."""
    while True:
        if get_origin(annotation) is Annotated:
            annotation = get_args(annotation)[0]
        elif get_origin(annotation) in (Union, UnionType):
            annotation = next(part for part in get_args(annotation) if part is not NoneType)
        else:
            return annotation
