"""The objects in files that kubectl wrote, or in KAI's snapshot: which there are of each kind."""

from __future__ import annotations

import io
import lzma
import os
import struct
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from pydantic import ValidationError

from placewright.instances.converters.bookkeeping import Bookkeeping
from placewright.instances.converters.kubernetes.records import Object
from placewright.instances.converters.support.live import salvaged, why
from placewright.instances.errors import InvalidInputError
from placewright.instances.io import streams
from placewright.instances.io.files import (
    MAX_JSON_MIB,
    entries_of,
    load_documents,
    parse_values,
    text_of,
)

OBJECTS = "rawObjects"
_FILE = "snapshot.json"
_MOST = MAX_JSON_MIB * 1024**2
_MAX_RATIO = 200
"""Of what is compressed: JSON of a cluster shrinks some 20 to 50 times."""

_BROKEN = (
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error, EOFError, OSError),
    *(NotImplementedError, RuntimeError, ValueError, OverflowError, IndexError),
)
"""What `zipfile` raises of zips that are none, are encrypted, or are packed in other ways."""

_KINDS = {
    "pods": ("v1", "Pod"),
    "nodes": ("v1", "Node"),
    "queues": ("scheduling.run.ai/v2", "Queue"),
    "podGroups": ("scheduling.run.ai/v2alpha2", "PodGroup"),
    "topologies": ("kai.scheduler/v1alpha1", "Topology"),
}
"""Objects of a snapshot do not say what they are; of other lists their name does."""


def is_zip(file: str) -> bool:
    """Whether a file is a zip by its name."""
    return file.lower().endswith(".zip")


def load_zip(file: str) -> Any:
    """Return plain values of the snapshot in a zip; nothing is unpacked to a disk.

    Raises `InvalidInputError`: it cannot be read, is no zip with a snapshot, or holds too much.
    """
    try:
        packed = io.BytesIO(streams.read(file, _MOST))
        with zipfile.ZipFile(packed) as archive:
            info = archive.getinfo(_FILE)
            if info.file_size > min(_MOST, _MAX_RATIO * max(1, info.compress_size)):
                raise InvalidInputError(
                    f"{_FILE} of {info.file_size:,} bytes out of {info.compress_size:,}; expected "
                    f"at most {_MAX_RATIO} times as many, and {MAX_JSON_MIB} MiB",
                    show_value=False,
                )
            with archive.open(info) as stream:
                content = stream.read(_MOST + 1)
        text = text_of(content)
    except KeyError:
        raise _wrong(file, f"has no {_FILE}") from None
    except InvalidInputError as error:
        raise error.inside(file) from None
    except _BROKEN:
        raise _wrong(file, "cannot be unpacked") from None
    return parse_values(text, _FILE if text.lstrip().startswith("{") else file)


def snapshot_objects(raw: dict[str, Any], file: str) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    """Yield the objects of a snapshot of a file, each with its kind, and where it stands.

    Raises `InvalidInputError`: it has no lists of objects.
    """
    lists = raw[OBJECTS]
    if not isinstance(lists, dict):
        raise InvalidInputError("expected an object", file=file, path=(OBJECTS,), value=lists)
    for name, items in lists.items():
        if items is None:
            continue
        if not isinstance(items, list):
            raise InvalidInputError("expected a list", file=file, path=(OBJECTS, name), value=items)
        version, kind = _KINDS.get(name, ("v1", name or "?"))
        for i, item in enumerate(items):
            typed = (
                {**item, "apiVersion": version, "kind": kind} if isinstance(item, dict) else item
            )
            yield (OBJECTS, name, i), typed


def _wrong(file: str, what: str) -> InvalidInputError:
    return InvalidInputError(f"{what}; expected a snapshot of KAI", file=file, show_value=False)


# The objects in files that kubectl wrote: which there are of each kind, each read once.

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

    A folder is the files in it that are named as JSON, YAML or a zip. Raises `InvalidInputError`: a
    file cannot be read, or has something that is no object.
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

    Raises `InvalidInputError`: it cannot be read, or there are none.
    """
    found = [one.path for one in entries_of(folder) if one.name.lower().endswith(suffixes)]
    if not found:
        kinds = " or ".join(suffix[1:].upper() for suffix in suffixes[:2])
        raise InvalidInputError(f"has no {kinds}; {expected}", file=folder, show_value=False)
    return found


def sources_of(objects: Sequence[Any], where: str) -> dict[Kind, list[Source]]:
    """Return objects by kind; `where` is what errors call the place that they are from.

    Raises `InvalidInputError`: one is no object.
    """
    found: dict[Kind, list[Source]] = {}
    for i, raw in enumerate(objects):
        for source in _objects(Source(where, (i,), raw)):
            found.setdefault(_kind(source), []).append(source)
    return found


def read_all(kind: type[_O], sources: Sequence[Source], book: Bookkeeping, what: str) -> list[_O]:
    """Read all objects of a kind, sorted by namespace and name; what is listed twice is left out.

    `kind`: the record. `sources`: where they are. `book`: counts what is left out. `what`: how the
    bookkeeping calls them. Raises `InvalidInputError`: the first value that Kubernetes would not
    have: file, field, value, what was expected.
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


def key_of(source: Source) -> tuple[str, str]:
    """Return namespace and name of an object."""
    meta = source.raw.get("metadata")
    space = meta.get("namespace") if isinstance(meta, dict) else None
    return space if isinstance(space, str) else "", name_of(source)


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
