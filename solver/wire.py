"""Messages between a parent and its child: a length, then a pickle (protocol 5)."""

from __future__ import annotations

import os
import pickle
import struct
from dataclasses import dataclass

from placewright.array_types import Floats
from placewright.solver.arrays import Arrays
from placewright.solver.outcome import Limits

__all__ = ["Refusal", "Request", "Warm", "frame", "receive", "send", "take", "write"]

_LENGTH = struct.Struct("<Q")


@dataclass(frozen=True, slots=True, eq=False)
class Request:
    """Ask the worker to solve; `sent` is the parent's monotonic clock, which both sides share."""

    backend: str
    arrays: Arrays
    limits: Limits
    start: Floats | None
    sent: float


@dataclass(frozen=True, slots=True)
class Warm:
    """Ask the worker to load a backend; nothing is answered."""

    backend: str


@dataclass(frozen=True, slots=True)
class Refusal:
    """Answer that a backend is not installed (`available` False) or cannot take the model."""

    available: bool
    message: str


def frame(message: object) -> bytes:
    """Give the bytes of a message."""
    body = pickle.dumps(message, protocol=5)
    return _LENGTH.pack(len(body)) + body


def take(received: bytearray) -> object | None:
    """Take the first complete message off the bytes received; None if there is none yet."""
    if len(received) < _LENGTH.size:
        return None
    end = _LENGTH.size + _LENGTH.unpack_from(received)[0]
    if len(received) < end:
        return None
    # Both ends are ours, and the pipe is private to them.
    message: object = pickle.loads(memoryview(received)[_LENGTH.size : end])  # noqa: S301
    del received[:end]
    return message


def send(descriptor: int, message: object) -> None:
    """Write a message to a blocking descriptor."""
    write(descriptor, frame(message))


def write(descriptor: int, framed: bytes) -> None:
    """Write the bytes of a message to a blocking descriptor."""
    rest = memoryview(framed)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def receive(descriptor: int) -> object | None:
    """Read a message from a blocking descriptor; None at its end."""
    received = bytearray()
    while (message := take(received)) is None:
        # The other side may send more at once, as after `Warm`: never read past one message.
        missing = _LENGTH.size
        if len(received) >= _LENGTH.size:
            missing += _LENGTH.unpack_from(received)[0]
        chunk = os.read(descriptor, min(missing - len(received), 1 << 20))
        if not chunk:
            return None
        received += chunk
    return message
