"""Files that may be packed with gzip: what they hold, piece by piece, up to a limit."""

from __future__ import annotations

import zlib
from collections.abc import Iterator

from placewright.instances.errors import InvalidInputError
from placewright.instances.io import streams

_GZIP = b"\x1f\x8b"
_WITH_HEADER = 31
"""Window bits of zlib for the format gzip."""


def pieces(file: str, limit: int) -> Iterator[bytes]:
    """Yield what a file holds, unpacked if it is gzip, in pieces of at most `streams.PIECE` bytes.

    Raises
    ------
    InvalidInputError
        It cannot be read, holds more than `limit` bytes, unpacked, or is damaged.
    """
    with streams.opened(file) as stream:
        size = 0
        for piece in _unpacked(file, streams.stream_pieces(stream)):
            size += len(piece)
            if size > limit:
                raise _unusable(file, f"too large; expected at most {limit} bytes, unpacked")
            yield piece


def _unpacked(file: str, packed: Iterator[bytes]) -> Iterator[bytes]:
    piece = next(packed, b"")
    if not piece.startswith(_GZIP):
        yield piece
        yield from packed
        return
    member = zlib.decompressobj(_WITH_HEADER)
    while True:
        try:
            unpacked = member.decompress(piece, streams.PIECE)
        except zlib.error:
            raise _unusable(file, "damaged; expected gzip") from None
        if unpacked:
            yield unpacked
        if member.eof:  # another member may follow, or padding
            piece = member.unused_data.lstrip(b"\0")
            while not piece and (more := next(packed, b"")):
                piece = more.lstrip(b"\0")
            if not piece:
                return
            member = zlib.decompressobj(_WITH_HEADER)
        else:
            piece = member.unconsumed_tail or next(packed, b"")
            if not piece and not unpacked:
                raise _unusable(file, "ends within gzip; expected all of it")


def _unusable(file: str, message: str) -> InvalidInputError:
    return InvalidInputError(message, file=file)
