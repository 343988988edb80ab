"""Texts that Slurm writes: tables, GRES and TRES, host lists, constraints; values of its JSON.

A number is plain, null, or `{"set": ..., "infinite": ..., "number": ...}` (from v0.0.39 on); a
state is a text, or a list of texts (from v0.0.40 on); a list of names may be one text with commas.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from functools import lru_cache, wraps
from typing import Annotated, Any, NamedTuple, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, PlainValidator

from placewright.instances.checks.cluster import MAX_HOSTS
from placewright.instances.converters.ledger import NO_NUMBERS
from placewright.instances.documents.base import MAX_AMOUNT, MAX_NOW
from placewright.instances.documents.cluster import MAX_GPUS_PER_HOST

_T = TypeVar("_T")
_SHORT = 200
"""Characters of a text that is remembered with what it says."""

MAX_TEXT = 1_000_000
"""Characters of one text: a list of hosts is the longest."""


class Record(BaseModel):
    """An entry of a dump: fields that are not read are ignored, since each dialect adds some."""

    model_config = ConfigDict(extra="ignore", frozen=True, populate_by_name=True)


_WRAPPED = frozenset({"set", "infinite", "number"})


def number(value: Any) -> int | None:
    """Return a number that is not negative; None: not set, or without limit.

    Raises `ValueError`: it is none that Slurm writes.
    """
    if isinstance(value, dict):
        given, infinite = value.get("set", True), value.get("infinite", False)
        known = isinstance(given, bool) and isinstance(infinite, bool)
        if not known or _WRAPPED.isdisjoint(value):
            raise ValueError("expected a number, or {set, infinite, number}")
        if infinite or not given:
            return None
        value = value.get("number")
    if value is None or (isinstance(value, int | float) and value in NO_NUMBERS):
        return None
    whole = isinstance(value, int | float) and not isinstance(value, bool)
    if not whole or not 0 <= value <= MAX_AMOUNT or value != int(value):
        raise ValueError(
            f"expected a whole number from 0 to {MAX_AMOUNT}, null, or {{set, infinite, number}}"
        )
    return int(value)


UNLIMITED = MAX_AMOUNT
"""Minutes of a job without a limit."""


def _minutes(value: Any) -> int | None:
    """Return a limit of time; null is none in v0.0.38, where Slurm never leaves it open."""
    inner = value.get("number") if isinstance(value, dict) else value
    endless = isinstance(inner, int) and inner in NO_NUMBERS and inner % 2 == 1
    if value is None or endless or (isinstance(value, dict) and value.get("infinite") is True):
        return UNLIMITED
    return number(value)


def _moment(value: Any) -> int | None:
    moment = number(value)
    if moment is not None and moment > MAX_NOW:
        raise ValueError("expected seconds since 1970, of a time before the year 10000")
    return moment


def _text(value: Any) -> str:
    if value is None:
        return ""
    if not isinstance(value, str) or len(value) > MAX_TEXT:
        raise ValueError(f"expected a text of at most {MAX_TEXT:,} characters, or null")
    if any("\ud800" <= c <= "\udfff" for c in value if not c.isascii()):
        raise ValueError("expected valid Unicode text")
    return value


def words(value: Any) -> tuple[str, ...]:
    """Return the words of a list, or of a text with commas; raises `ValueError` otherwise."""
    if value is None:
        return ()
    if isinstance(value, str):
        value = value.split(",")
    if not isinstance(value, list | tuple) or not all(isinstance(word, str) for word in value):
        raise ValueError("expected a text, or a list of texts")
    return tuple(word.strip() for word in value if word.strip())


def _flag(value: Any) -> bool:
    if value is None:
        return False
    if not isinstance(value, bool) and value not in (0, 1):
        raise ValueError("expected true or false")
    return bool(value)


Number = Annotated[int | None, PlainValidator(number)]
Moment = Annotated[int | None, PlainValidator(_moment)]
Minutes = Annotated[int | None, PlainValidator(_minutes)]
Text = Annotated[str, PlainValidator(_text)]
Words = Annotated[tuple[str, ...], BeforeValidator(words)]
Truth = Annotated[bool, PlainValidator(_flag)]


# What scontrol and sacctmgr print as text, as rows of texts by name.

PAIR = re.compile(r"(?<![A-Za-z])([A-Za-z]+)=(\S*)")
_DURATION = re.compile(r"(?:([0-9]{1,6})-)?(?:([0-9]{1,6}):)?([0-9]{1,6}):([0-9]{1,6})")
_NOTHING = ("(null)", "N/A", "n/a")
_NO_LIMIT = frozenset({"", "-1", "INFINITE", "NONE", "UNLIMITED", "PARTITION_LIMIT"})


def table(text: str) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield the rows of what `sacctmgr -P` prints, by the columns of its header, with lines."""
    header, *lines = text.splitlines()
    columns = [name.strip() for name in header.split("|")]
    for number, line in enumerate(lines, 2):
        if line.strip():
            cells = line.split("|")
            yield number, dict(zip(columns, cells + [""] * len(columns), strict=False))


def blocks(text: str, first: str) -> list[dict[str, str]]:
    """Return the pairs of each entry that `scontrol show` prints, which begins with one name."""
    rows: list[dict[str, str]] = []
    for line in text.splitlines():
        pairs = dict(PAIR.findall(line))
        if first in pairs:
            rows.append({})
        if rows:
            rows[-1] |= pairs
    return rows


def rows(text: str) -> Iterator[dict[str, str]]:
    """Yield the rows of any of these texts, without what says nothing and spaces in names."""
    head = text.lstrip().partition("=")[0]
    found = [row for _, row in table(text)] if "|" in head else blocks(text, head)
    for row in found:
        yield {k.replace(" ", ""): v for k, v in row.items() if v not in _NOTHING}


def seconds(text: str) -> int | None:
    """Return a duration as Slurm prints it: `7-00:00:00`, `01:30:00`, `30:00`; None for no limit.

    Raises `ValueError`: it is neither.
    """
    match = _DURATION.fullmatch(text)
    if match is None and (text in _NOTHING or text.upper() in _NO_LIMIT):
        return None
    if match is None:
        raise ValueError("expected a duration such as 7-00:00:00, or UNLIMITED")
    days, hours, minutes, rest = (int(part or 0) for part in match.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + rest


# Slurm's host lists: `h[0-3,7],a[00-17]` stands for 23 hosts.

MAX_NAMES = 5_000_000

_PART = re.compile(r"(?:[^,\[\]]|\[[^\[\]]*\])+")
_BRACKET = re.compile(r"\[([^\[\]]*)\]")
_RANGE = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?")
_NUMBERED = re.compile(r"(.*?)([0-9]{1,9})\Z", re.DOTALL)
_NO_HOSTS = ("", "(null)", "None")
_MAX_BRACKETS = 8


def expand(text: str) -> tuple[str, ...]:
    """Return the hosts that a list stands for, in order.

    Raises `ValueError`: it is no list of hosts, or one of more than `MAX_HOSTS`.
    """
    if text in _NO_HOSTS:
        return ()
    names: list[str] = []
    for part in _parts(text):
        for name in _expanded(part):
            names.append(name)
            if len(names) > MAX_HOSTS:
                raise ValueError(f"expected a list of at most {MAX_HOSTS:,} hosts")
    return tuple(names)


class HostLists:
    """Expands the host lists of a file, each text once, up to `MAX_NAMES` names in all."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[str, ...]] = {}
        self._left = MAX_NAMES

    def expand(self, text: str) -> tuple[str, ...]:
        """Return the hosts that a list stands for, in order.

        Raises `ValueError`: it is no list of hosts, or one of more than `MAX_HOSTS`, or the lists
        before it name too many.
        """
        if text not in self._known:
            names = expand(text)
            self._left -= len(names)
            if self._left < 0:
                raise ValueError(f"expected lists of at most {MAX_NAMES:,} hosts in all")
            self._known[text] = names
        return self._known[text]


def compress(names: Iterable[str]) -> tuple[str, ...]:
    """Return hosts as names and ranges of a document, sorted: `h[0-3]`, `h7`."""
    plain: list[str] = []
    numbered: dict[tuple[str, int], list[int]] = {}
    for name in names:
        numbers = _numbered(name)
        if numbers is None:
            plain.append(name)
        else:
            prefix, width, number = numbers
            numbered.setdefault((prefix, width), []).append(number)
    for (prefix, width), found in numbered.items():
        plain += (_range(prefix, width, first, last) for first, last in _runs(sorted(found)))
    return tuple(sorted(plain))


@lru_cache(maxsize=MAX_HOSTS)
def _numbered(name: str) -> tuple[str, int, int] | None:
    """Return the prefix, the width (0: no zeros) and the number of a name that ends in one."""
    match = _NUMBERED.fullmatch(name)
    if match is None:
        return None
    digits = match[2]
    return match[1], len(digits) if digits[0] == "0" and len(digits) > 1 else 0, int(digits)


def _parts(text: str) -> Iterator[str]:
    at = 0
    while at < len(text):
        match = _PART.match(text, at)
        if match is None or (match.end() < len(text) and text[match.end()] != ","):
            raise ValueError("expected a list of hosts, such as h[0-3,7],a1")
        if match[0].count("[") > _MAX_BRACKETS:
            raise ValueError(f"expected at most {_MAX_BRACKETS} brackets in a name")
        yield match[0].strip()
        at = match.end() + 1


def _expanded(part: str) -> Iterator[str]:
    """Yield the names of a part, of which each bracket stands for one of its numbers."""
    match = _BRACKET.search(part)
    if match is None:
        yield part
        return
    head, tail = part[: match.start()], part[match.end() :]
    for piece in match[1].split(","):
        bounds = _RANGE.fullmatch(piece.strip())
        if bounds is None:
            raise ValueError("expected numbers and ranges between brackets, such as [0-3,7]")
        first, last = bounds[1], bounds[2] or bounds[1]
        if not 0 <= int(last) - int(first) < MAX_HOSTS:
            raise ValueError(f"expected ranges of 1 to {MAX_HOSTS:,} hosts, such as [0-3]")
        for number in range(int(first), int(last) + 1):
            yield from _expanded(f"{head}{number:0{len(first)}d}{tail}")


def _runs(numbers: list[int]) -> Iterator[tuple[int, int]]:
    """Yield the first and last of each run of consecutive numbers."""
    first = last = numbers[0]
    for number in numbers[1:]:
        if number > last + 1:
            yield first, last
            first = number
        last = number
    yield first, last


def _range(prefix: str, width: int, first: int, last: int) -> str:
    low = f"{first:0{width}d}"
    return f"{prefix}{low}" if first == last else f"{prefix}[{low}-{last:0{width}d}]"


# Slurm's resource texts: GRES (`gpu:h100:8(IDX:0-7)`) and TRES (`cpu=48,mem=384G,gres/gpu=24`).

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


def _remembered(read: Callable[[str], _T]) -> Callable[[str], _T]:
    """Return what reads short texts once; what they say is not to be changed."""
    short = lru_cache(maxsize=4096)(read)

    @wraps(read)
    def remembering(text: str) -> _T:
        return short(text) if len(text) <= _SHORT else read(text)

    return remembering


@_remembered
def read_gres(text: str) -> Gres:
    """Read `gpu:8`, `gres:gpu:h100:8`, `gres/gpu=1`, `gpu:h100:8(S:0-1)` and lists of these.

    Raises `ValueError`: a number is none, or too large.
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


@_remembered
def read_tres(text: str) -> Tres:
    """Return what is read of a text of TRES, 0 for what it does not have.

    GPUs are those of the models that it names, if these are all. Raises `ValueError`: one of them
    is no number.
    """
    cpus = memory = nodes = 0
    for name, amount in _pairs(text):
        if name == "cpu":
            cpus = int(_amount(amount))
        elif name == "mem":
            memory = read_memory(amount)
        elif name == "node":
            nodes = int(_amount(amount))
    gpus = read_gres(text).gpus.copy()
    every = gpus.pop("", 0)
    return Tres(cpus, memory, nodes, Gres(gpus if gpus.total() >= every else Counter({"": every})))


COUNTED = ("cpu", "mem", "node")
"""What limits are on beside GPUs: CPUs, MiB and nodes."""


def read_amounts(text: str) -> dict[str, int]:
    """Return the CPUs, MiB and nodes of a text of TRES, as far as it has them.

    Raises `ValueError`: one of them is no number.
    """
    return {name: read_memory(amount) for name, amount in _pairs(text) if name in COUNTED}


def read_memory(text: str) -> int:
    """Return the MiB of `384G`, rounded up; a number alone is MiB.

    Raises `ValueError`: it is no such amount.
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


# Constraints on the features of nodes: `h100&ib`, `a100|h100`, `ib&(a100|h100)`.

_TOKEN = re.compile(r"[A-Za-z0-9_.:+=/@-]+|[&|(),]")
MAX_TOKENS = 200


def matches(text: str, features: Collection[str]) -> bool | None:
    """Say whether a node with these features satisfies a constraint; None: it cannot be read.

    Counts (`h100*4`) and choices for all nodes alike (`[rack1|rack2]`) are not read. As Slurm
    does, operators of one level are applied from left to right.
    """
    tokens = _tokens(text)
    if tokens is None:
        return None
    value, at = _expression(tokens, 0, frozenset(features))
    return value if at == len(tokens) else None


@lru_cache(maxsize=4096)
def _tokens(text: str) -> tuple[str, ...] | None:
    tokens = tuple(_TOKEN.findall(text))
    whole = "".join(tokens) == "".join(text.split())
    return tokens if whole and len(tokens) <= MAX_TOKENS else None


def _expression(
    tokens: tuple[str, ...], at: int, features: frozenset[str]
) -> tuple[bool | None, int]:
    """Return the value of an expression and where it ends."""
    value, at = _operand(tokens, at, features)
    while value is not None and at < len(tokens) and tokens[at] in "&|,":
        operator = tokens[at]
        other, at = _operand(tokens, at + 1, features)
        if other is None:
            return None, at
        value = (value or other) if operator == "|" else (value and other)
    return value, at


def _operand(tokens: tuple[str, ...], at: int, features: frozenset[str]) -> tuple[bool | None, int]:
    if at >= len(tokens) or tokens[at] in "&|,)":
        return None, at
    if tokens[at] != "(":
        return tokens[at] in features, at + 1
    value, at = _expression(tokens, at + 1, features)
    closed = at < len(tokens) and tokens[at] == ")"
    return (value, at + 1) if closed else (None, at)
