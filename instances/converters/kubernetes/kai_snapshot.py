"""KAI's snapshot: one file of a zip, with the objects that its scheduler sees by kind."""

from __future__ import annotations

import io
import lzma
import struct
import zipfile
import zlib
from collections.abc import Iterator
from typing import Any

from placewright.instances.errors import InvalidInputError
from placewright.instances.io import streams
from placewright.instances.io.files import MAX_JSON_MIB, parse_values, text_of

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

    Raises
    ------
    InvalidInputError
        It cannot be read, is no zip with a snapshot, or holds too much.
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

    Raises
    ------
    InvalidInputError
        It has no lists of objects.
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
