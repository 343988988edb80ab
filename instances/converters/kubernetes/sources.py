"""The objects in files that kubectl wrote: which there are of each kind, each read once."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from pydantic import ValidationError

from placewright.instances.converters.bookkeeping import Bookkeeping
from placewright.instances.converters.kubernetes.kai_snapshot import (
    OBJECTS,
    is_zip,
    load_zip,
    snapshot_objects,
)
from placewright.instances.converters.kubernetes.records import Object
from placewright.instances.converters.support.salvage import salvaged, why
from placewright.instances.errors import InvalidInputError
from placewright.instances.io.files import entries_of, load_documents

_O = TypeVar("_O", bound=Object)
_SUFFIXES = (".json", ".yaml", ".yml", ".zip")
_EXPECTED = "expected what `kubectl get ... -o json` prints"


class Source(NamedTuple):
    """One object as plain values, and where it stands."""

    file: str
    path: tuple[str | int, ...]
    raw: dict[str, Any]


class Kind(NamedTuple):
    """A kind of objects: its API group ("" is the core's) and name."""

    group: str
    name: str


NODE, POD = Kind("", "Node"), Kind("", "Pod")


def read_sources(files: Sequence[str | os.PathLike[str]]) -> dict[Kind, list[Source]]:
    """Return the objects of some files by kind; a List is its items, KAI's snapshot its objects.

    A folder is the files in it that are named as JSON, YAML or a zip.

    Raises
    ------
    InvalidInputError
        A file cannot be read, or has something that is no object.
    """
    found: dict[Kind, list[Source]] = {}
    for name in [os.fspath(one) for one in files]:
        for file in files_in(name, _SUFFIXES, _EXPECTED) if Path(name).is_dir() else [name]:
            documents = [load_zip(file)] if is_zip(file) else load_documents(file)
            if len(documents) == 1 and isinstance(documents[0], list):
                documents = documents[0]
            for i, values in enumerate(documents):
                for source in _objects(Source(file, (i,) if len(documents) > 1 else (), values)):
                    found.setdefault(_kind(source), []).append(source)
    return found


def files_in(folder: str, suffixes: tuple[str, ...], expected: str) -> list[str]:
    """Return the files in a folder, but not in folders below, that end in one of some suffixes.

    Raises
    ------
    InvalidInputError
        It cannot be read, or there are none.
    """
    found = [one.path for one in entries_of(folder) if one.name.lower().endswith(suffixes)]
    if not found:
        kinds = " or ".join(suffix[1:].upper() for suffix in suffixes[:2])
        raise InvalidInputError(f"has no {kinds}; {expected}", file=folder, show_value=False)
    return found


def sources_of(objects: Sequence[Any], where: str) -> dict[Kind, list[Source]]:
    """Return objects by kind; `where` is what errors call the place that they are from.

    Raises
    ------
    InvalidInputError
        One is no object.
    """
    found: dict[Kind, list[Source]] = {}
    for i, raw in enumerate(objects):
        for source in _objects(Source(where, (i,), raw)):
            found.setdefault(_kind(source), []).append(source)
    return found


def read_all(kind: type[_O], sources: Sequence[Source], book: Bookkeeping, what: str) -> list[_O]:
    """Read all objects of a kind, sorted by namespace and name; what is listed twice is left out.

    Parameters
    ----------
    kind
        The record.
    sources
        Where they are.
    book
        Counts what is left out.
    what
        How the bookkeeping calls them.

    Raises
    ------
    InvalidInputError
        The first value that Kubernetes would not have: file, field, value, what was expected.
    """
    found: dict[tuple[str, str], _O] = {}
    for source in sources:
        try:
            made = kind.model_validate(source.raw)
        except ValidationError as error:
            book.refuse(refused(error, source))
            left = salvaged(kind, source.raw, error, {})
            if left is None:
                book.leave(what, why(error), name_of(source))
                continue
            made = left
        if made.key in found:
            book.leave(what, "listed twice", made.name)
        else:
            found[made.key] = made
    return [found[key] for key in sorted(found)]


def _objects(source: Source) -> Iterator[Source]:
    waiting = [iter((source,))]
    while waiting:
        found = next(waiting[-1], None)
        if found is None:
            waiting.pop()
            continue
        file, path, raw = found
        if not isinstance(raw, dict):
            raise InvalidInputError(f"{_EXPECTED}, an object", file=file, path=path, value=raw)
        if not path and OBJECTS in raw and "kind" not in raw:
            waiting.append(Source(file, at, item) for at, item in snapshot_objects(raw, file))
            continue
        if not str(raw.get("kind", "")).endswith("List") or "items" not in raw:
            yield Source(file, path, _named(raw))
            continue
        items = raw["items"] or []
        if not isinstance(items, list):
            raise InvalidInputError(
                "expected a list", file=file, path=(*path, "items"), value=items
            )
        waiting.append(_items(found, items))


def _items(source: Source, items: list[Any]) -> Iterator[Source]:
    """Yield the objects of a list, none of which is copied before those before it are checked."""
    kind = str(source.raw["kind"]).removesuffix("List")
    for i, item in enumerate(items):
        typed = item
        if kind and isinstance(item, dict) and "kind" not in item:  # as the API's own lists
            typed = {"apiVersion": source.raw.get("apiVersion"), "kind": kind, **item}
        yield Source(source.file, (*source.path, "items", i), typed)


def _named(raw: dict[str, Any]) -> dict[str, Any]:
    """Return an object with the name that it has, or else what its name is to begin with."""
    meta = raw.get("metadata")
    if not isinstance(meta, dict) or "name" in meta or not meta.get("generateName"):
        return raw
    return {**raw, "metadata": {**meta, "name": meta["generateName"]}}


def _kind(source: Source) -> Kind:
    for field in ("kind", "apiVersion"):
        value = source.raw.get(field)
        if not isinstance(value, str) or not value:
            raise InvalidInputError(
                f"{'missing' if value is None else 'wrong'}; {_EXPECTED}",
                file=source.file,
                path=(*source.path, field),
                value=value,
                show_value=value is not None,
            )
    meta = source.raw.get("metadata")
    if not isinstance(meta, dict) or "name" not in meta:
        raise InvalidInputError(
            f"{_EXPECTED}, with a name in its metadata",
            file=source.file,
            path=source.path,
            value=source.raw,
        )
    group, slash, _ = source.raw["apiVersion"].rpartition("/")
    return Kind(group if slash else "", source.raw["kind"])


def name_of(source: Source) -> str:
    """Return the name of an object, "?" if it has none."""
    meta = source.raw.get("metadata")
    name = meta.get("name") if isinstance(meta, dict) else None
    return name if isinstance(name, str) else "?"


def refused(error: ValidationError, source: Source) -> InvalidInputError:
    """Return the first value that a record refuses: file, field, value, what was expected."""
    first = error.errors(include_url=False)[0]
    message = first["msg"]
    if first["type"] == "value_error":
        message = str(first["ctx"]["error"])
    elif first["type"] == "missing":
        message = "missing; expected a value"
    elif first["type"].startswith("model"):
        message = "expected an object"
    else:
        message = f"expected otherwise: {message}"
    return InvalidInputError(
        message,
        file=source.file,
        path=(*source.path, *(part for part in first["loc"] if part != "[key]")),
        value=first["input"],
        show_value=first["type"] != "missing",
    )
