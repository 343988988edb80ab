"""`nvidia-smi topo -m` and `topo -mp`: a table of words, also as people paste it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from placewright.instances.converters.gpu_links.said import (
    ITSELF,
    MAX_GPUS,
    MAX_NICS,
    NOT_KNOWN,
    LinkWord,
    SaidLinks,
    unreadable,
)

_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b[@-Z\\-_]|[\u200b\ufeff\x00-\x08\x0e-\x1f]")
_GPU = re.compile(r"GPU\d{1,4}")
_DEVICE = re.compile(r"(?=[A-Za-z_.:-]{1,60}\d)[\w.:-]{1,64}")
_NVLINK = re.compile(r"NV(\d{1,3})")
_PATHS = {
    "PIX": LinkWord("pcie"),
    "PXB": LinkWord("pcie"),
    "PHB": LinkWord("numa"),
    "NODE": LinkWord("numa"),
    "SYS": LinkWord("system"),
    "SOC": LinkWord("system"),  # of drivers before 384
}
_COLUMNS = {"CPU", "NUMA", "GPU"}
"""The first words of columns that are no device: CPU Affinity, NUMA Affinity, GPU NUMA ID."""

_AFFINITY = re.compile(r"\d+(?:-\d+)?(?:,\d+(?:-\d+)?)*,?|N/A")


class _Row(NamedTuple):
    line: int
    words: list[str]
    rest: list[str]


def is_nvidia_smi(text: str) -> bool:
    """Whether a text has the head of such a table."""
    return next(_heads(text), None) is not None


def read_nvidia_smi(text: str) -> SaidLinks:
    """Return the first table of a text; NICs are the devices of it that are no GPU.

    Raises
    ------
    InvalidInputError
        A GPU has no row, or a row lacks a word or has one that is not known.
    """
    heads = list(_heads(text))
    if not heads:
        raise unreadable("expected a table of nvidia-smi topo -m, whose head names GPU0")
    first, devices = heads[0]
    gpus = [name for name in devices if _GPU.fullmatch(name)]
    if len(gpus) > MAX_GPUS:
        raise unreadable(f"has {len(gpus)} GPUs; expected at most {MAX_GPUS}", first)
    if len(set(devices)) < len(devices):
        raise unreadable("names a device twice; expected each once", first)
    rows = _rows(text, first, devices)
    missing = next((name for name in gpus if name not in rows), None)
    if missing is not None:
        raise unreadable(f"has no row of {missing}; expected one for each GPU", first)
    said = SaidLinks("nvidia-smi topo -m", [], words={})
    at = [devices.index(name) for name in gpus]
    nics = [name for name in devices if name in rows and name not in gpus]
    for name in [*gpus, *nics[:MAX_NICS]]:
        row = rows[name]
        words = [_word(said, row.words[column], row.line, name == devices[column]) for column in at]
        (said.gpus if name in gpus else said.nics).append(words)
    if len(nics) > MAX_NICS:
        said.notes.append(f"{len(nics) - MAX_NICS} NICs beyond the first {MAX_NICS} are left out")
    silent = [name for name in devices if name not in rows and name not in gpus]
    if silent:
        # A table that is cut off after its GPUs still has what these are to each NIC.
        for name in silent[: MAX_NICS - len(said.nics)]:
            column = devices.index(name)
            words = [_word(said, rows[g].words[column], rows[g].line, False) for g in gpus]
            said.nics.append(words)
    _read_numa(said, text, first, [rows[name] for name in gpus])
    if "PIX  =" in text and "NV#" not in text:
        said.tool = "nvidia-smi topo -mp"
        said.notes.append("topo -mp leaves out NVLink; topo -m shows it")
    later = [line for line, _ in heads[1:]]
    if later:
        said.notes.append(f"the first of {len(heads)} tables is read, not that of line {later[0]}")
    return said


def _lines(text: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the words of each line, without what terminals and quotations add."""
    for number, line in enumerate(text.split("\n"), 1):
        yield number, _ESCAPES.sub("", line.lstrip("> \t")).replace("|", " ").split()


def _heads(text: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the line and the devices of each head of a table."""
    for number, words in _lines(text):
        end = next((i for i, word in enumerate(words) if word in _COLUMNS), len(words))
        if words[:1] == ["GPU0"] and all(map(_DEVICE.fullmatch, words[:end])):
            yield number, words[:end]


def _rows(text: str, head: int, devices: list[str]) -> dict[str, _Row]:
    """Return the rows of a table by their devices, up to the next head."""
    rows: dict[str, _Row] = {}
    for number, words in _lines(text):
        if number <= head or not words:
            continue
        name, *cells = words
        if name == devices[0] and name in rows:
            break
        if name not in devices or name in rows:
            continue
        if len(cells) < len(devices):
            if _GPU.fullmatch(name):
                raise unreadable(
                    f"row of {name} has {len(cells)} words; expected one for each of "
                    f"{len(devices)} devices",
                    number,
                )
            continue
        rows[name] = _Row(number, cells[: len(devices)], cells[len(devices) :])
    return rows


def _word(said: SaidLinks, word: str, line: int, itself: bool) -> str:
    """Return a word of the matrix, and keep what it means."""
    if itself or word == ITSELF:
        if itself != (word == ITSELF):
            raise unreadable("expected X for the device itself, and only there", line, word)
        return ITSELF
    nvlink = _NVLINK.fullmatch(word)
    if nvlink is not None and int(nvlink[1]):
        said.words[word] = LinkWord("nvlink", int(nvlink[1]))
    elif word in _PATHS:
        said.words[word] = _PATHS[word]
    elif word in {"N/A", "NS", "U", "?", "-", "DIS", "ERR!", "NV0"}:
        return NOT_KNOWN
    else:
        raise unreadable(f"expected X, NV# or one of {', '.join(_PATHS)}", line, word)
    return word


def _read_numa(said: SaidLinks, text: str, head: int, rows: list[_Row]) -> None:
    """Read the NUMA node of each GPU; without that column, GPUs with other CPUs are on another."""
    title = " ".join(next(words for number, words in _lines(text) if number == head))
    if "Affinity" not in title:
        return
    if "NUMA Affinity" in title:
        cells = [row.rest[1] if len(row.rest) > 1 else "" for row in rows]
        said.numa = [int(cell) if cell.isdecimal() and len(cell) < 6 else None for cell in cells]
        return
    cpus = [row.rest[0] if row.rest else "" for row in rows]
    if all(_AFFINITY.fullmatch(cell) for cell in cpus) and "N/A" not in cpus:
        numbers = {cell: i for i, cell in enumerate(dict.fromkeys(cpus))}
        said.numa = [numbers[cell] for cell in cpus]
        said.notes.append("NUMA nodes are not printed: GPUs of one CPU affinity are on one")
