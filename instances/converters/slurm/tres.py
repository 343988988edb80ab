"""Slurm's resource texts: GRES (`gpu:h100:8(IDX:0-7)`) and TRES (`cpu=48,mem=384G,gres/gpu=24`)."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from typing import NamedTuple

from placewright.instances.documents.base import MAX_AMOUNT
from placewright.instances.documents.cluster import MAX_GPUS_PER_HOST

_ITEM = re.compile(r"(?:[^,()]|\([^()]*\))+")
_GRES = re.compile(r"[\w./-]*|\(null\)")
_COUNT = re.compile(r"[0-9]{1,9}")
_AMOUNT = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,6})?)([KMGTP]?)[nc]?")
_MIB = {"K": Decimal(1) / 1024, "": Decimal(1), "M": Decimal(1)}
_MIB |= {"G": Decimal(1024), "T": Decimal(1024**2), "P": Decimal(1024**3)}
_INDEX = re.compile(r"IDX:([0-9,-]{1,4000})")


_PARTS_OF = re.compile(r"\(([0-9/,]{1,4000})\)")

PARTS = ("shard", "mps")
"""GRES that are parts of GPUs: a GPU of which one is in use is none for a job of whole GPUs."""


@dataclass(frozen=True, slots=True)
class Gres:
    """GPUs by model ("": any), parts of GPUs and other GRES by name, and the GPUs' indices."""

    gpus: Counter[str] = field(default_factory=Counter)
    others: tuple[str, ...] = ()
    indices: tuple[int, ...] = ()
    parts: Counter[str] = field(default_factory=Counter)
    part_indices: tuple[int, ...] = ()

    @property
    def total(self) -> int:
        """GPUs of all models."""
        return sum(self.gpus.values())

    @property
    def models(self) -> frozenset[str]:
        """GPU models that are named."""
        return frozenset(self.gpus) - {""}


class Tres(NamedTuple):
    """CPUs, MiB, nodes (0: not said) and GPUs of a text of TRES."""

    cpus: int = 0
    memory: int = 0
    nodes: int = 0
    gpus: Gres = Gres()


def read_gres(text: str) -> Gres:
    """Read `gpu:8`, `gres:gpu:h100:8`, `gres/gpu=1`, `gpu:h100:8(S:0-1)` and lists of these.

    Raises
    ------
    ValueError
        A number is none, or too large.
    """
    gpus: Counter[str] = Counter()
    others: list[str] = []
    indices: tuple[int, ...] = ()
    parts: Counter[str] = Counter()
    part_indices: tuple[int, ...] = ()
    for item in _items(text):
        bare = item.partition("(")[0].removeprefix("gres:").removeprefix("gres/")
        name, *rest = bare.replace("=", ":").split(":")
        if not _GRES.fullmatch(name):
            raise ValueError("expected GRES such as gpu:8 or gpu:h100:8")
        if name in ("cpu", "mem", "node", "billing", "N/A", "(null)", ""):
            continue
        number = 1
        if rest and rest[-1][:1].isdigit() and (len(rest) > 1 or rest[-1].isdigit()):
            if not _COUNT.fullmatch(rest[-1]):
                raise ValueError("expected GRES such as gpu:8 or gpu:h100:8")
            number = int(rest.pop())
        if name in PARTS:
            parts[name] += number
            part_indices += _indices_of_parts(item)
            continue
        if name != "gpu":
            others.append(name)
            continue
        if number:
            gpus[":".join(rest)] += number
        if named := _INDEX.search(item):
            indices += _indices(named[1])
    return Gres(gpus, tuple(others), indices, +parts, part_indices)


def _indices_of_parts(item: str) -> tuple[int, ...]:
    """Return the GPUs of which parts are held: `shard:3(IDX:0)`, of newer releases `(3/4,0/4)`."""
    if named := _INDEX.search(item):
        return _indices(named[1])
    listed = _PARTS_OF.search(item)
    held = listed[1].split(",")[:MAX_GPUS_PER_HOST] if listed else ()
    return tuple(i for i, one in enumerate(held) if one.partition("/")[0].strip("0"))


def _indices(text: str) -> tuple[int, ...]:
    """Return the numbers of `0-2,5`; none if there are more than a host has GPUs."""
    numbers: list[int] = []
    for piece in text.split(","):
        first, _, last = piece.partition("-")
        last = last or first
        if not (piece.isascii() and first.isdigit() and last.isdigit()) or len(piece) > 9:
            return ()
        numbers += range(int(first), min(int(last), int(first) + MAX_GPUS_PER_HOST) + 1)
        if len(numbers) > MAX_GPUS_PER_HOST:
            return ()
    return tuple(numbers)


def read_tres(text: str) -> Tres:
    """Return what is read of a text of TRES, 0 for what it does not have.

    GPUs are those of the models that it names, if these are all.

    Raises
    ------
    ValueError
        One of them is no number.
    """
    cpus = memory = nodes = 0
    for name, amount in _pairs(text):
        if name == "cpu":
            cpus = int(_amount(amount))
        elif name == "mem":
            memory = read_memory(amount)
        elif name == "node":
            nodes = int(_amount(amount))
    gpus = read_gres(text).gpus
    every = gpus.pop("", 0)
    return Tres(cpus, memory, nodes, Gres(gpus if gpus.total() >= every else Counter({"": every})))


COUNTED = ("cpu", "mem", "node")
"""What limits are on beside GPUs: CPUs, MiB and nodes."""


def read_amounts(text: str) -> dict[str, int]:
    """Return the CPUs, MiB and nodes of a text of TRES, as far as it has them.

    Raises
    ------
    ValueError
        One of them is no number.
    """
    return {name: read_memory(amount) for name, amount in _pairs(text) if name in COUNTED}


def read_memory(text: str) -> int:
    """Return the MiB of `384G`, rounded up; a number alone is MiB.

    Raises
    ------
    ValueError
        It is no such amount.
    """
    return math.ceil(_amount(text))


def _amount(text: str) -> Decimal:
    match = _AMOUNT.fullmatch(text)
    amount = Decimal(match[1]) * _MIB[match[2]] if match else Decimal(-1)
    if not 0 <= amount <= MAX_AMOUNT:
        raise ValueError("expected an amount such as 48 or 384G")
    return amount


def _pairs(text: str) -> Iterator[tuple[str, str]]:
    for item in _items(text):
        name, given, amount = item.partition("=")
        if not given and item:
            raise ValueError("expected TRES such as cpu=48,mem=384G")
        yield name, amount


def _items(text: str) -> Iterator[str]:
    if text == "(null)":
        return
    for match in _ITEM.finditer(text):
        yield match[0].strip()
