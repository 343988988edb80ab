"""`rocm-smi --showtopo`, as JSON or text, and `amd-smi topology --json`: the link of each pair."""

from __future__ import annotations

import re
from itertools import combinations
from typing import Any

from placewright.instances.converters.gpu_links.said import (
    ITSELF,
    MAX_GPUS,
    NOT_KNOWN,
    LinkWord,
    SaidLinks,
    unreadable,
)

_PAIR = re.compile(
    r"\(Topology\) (weight|hops|link type|bandwidth) between (?:DRM )?devices "
    r"(\d{1,4}) and (\d{1,4})",
    re.IGNORECASE,
)
_CARD = re.compile(r"(?:card|gpu)\s?\[?(\d{1,4})\]?", re.IGNORECASE)
_NUMA = re.compile(r"\(Topology\) Numa (?:Node|Affinity)", re.IGNORECASE)
_TABLE = re.compile(r"(weight|hops|link type) between two GPUs", re.IGNORECASE)
_ROW = re.compile(r"GPU(\d{1,4})((?:\s+[\w/]+)+)\s*")
_NODE = re.compile(r"GPU\[(\d{1,4})\]\s*: *(\(Topology\) Numa Node): *(-?\d+)", re.IGNORECASE)
_BANDWIDTH = re.compile(r"(\d{1,9})-(\d{1,9})")
"""Of one link, and of all of a pair."""

_OF_AMD_SMI = {
    "weight": "weight",
    "num_hops": "hops",
    "link_type": "link type",
    "bandwidth": "bandwidth",
}
_WEIGHT_OF_A_HOP = 15
"""Of XGMI; weights of other links are sums of more."""

_OVER_ONE_SOCKET = 2
"""Hops of a pair that the CPU joins; with 3 it is over two sockets. XGMI says 1 of any pair."""


def values_of_tables(text: str) -> dict[str, Any]:
    """Return what the tables of a text say, as the tool says it in JSON."""
    found: dict[str, Any] = {"system": {}}
    table = None
    for line in text.splitlines():
        head, row, node = _TABLE.search(line), _ROW.fullmatch(line.strip()), _NODE.search(line)
        table = head[1] if head else None if line.startswith("==") else table
        if node:
            found[f"card{node[1]}"] = {node[2]: node[3]}
        elif row and table:
            words = row[2].split()[: MAX_GPUS + 1]
            pairs = ((j, word) for j, word in enumerate(words) if j > int(row[1]))
            for j, word in pairs:
                found["system"][f"(Topology) {table} between devices {row[1]} and {j}"] = word
    return found


def values_of_amd_smi(listed: list[Any]) -> dict[str, Any]:
    """Return what amd-smi lists of each GPU's links, as rocm-smi says it."""
    system: dict[str, str] = {}
    for one in listed:
        links = one.get("links") if isinstance(one, dict) else None
        for link in links if isinstance(links, list) else ():
            if isinstance(link, dict) and link.get("link_status") != "DISABLED":
                pair = f"between devices {one.get('gpu')} and {link.get('gpu')}"
                told = ((name, link[key]) for key, name in _OF_AMD_SMI.items() if key in link)
                system |= {f"(Topology) {name} {pair}": str(value) for name, value in told}
    return {"system": system}


def is_rocm_smi(values: Any) -> bool:
    """Whether values have a pair of devices as the tool calls them."""
    system = values.get("system") if isinstance(values, dict) else None
    return isinstance(system, dict) and any(_PAIR.fullmatch(str(key)) for key in system)


def read_rocm_smi(values: dict[str, Any]) -> SaidLinks:
    """Return the table of types; a pair of which no known type is said has no link.

    GPUs without XGMI between them reach each other through a host bridge if the hops say so, or
    without any they are on one NUMA node; across sockets otherwise.

    Raises
    ------
    InvalidInputError
        The numbers of devices have gaps, or are too many.
    """
    pairs: dict[tuple[int, int], dict[str, str]] = {}
    for key, value in values["system"].items():
        match = _PAIR.fullmatch(str(key))
        if match is not None:
            i, j = sorted((int(match[2]), int(match[3])))
            if i == j:
                continue
            pairs.setdefault((i, j), {}).setdefault(match[1].lower(), str(value).strip().upper())
    numa = _numa(values)
    devices = sorted({*numa, *(device for pair in pairs for device in pair)})
    if devices != list(range(len(devices))) or len(devices) > MAX_GPUS:
        raise unreadable(
            f"has devices {devices[0]} to {devices[-1]}, {len(devices)} of them; expected at most "
            f"{MAX_GPUS}, numbered from 0 without a gap"
        )
    said = SaidLinks(
        "rocm-smi --showtopo",
        [[ITSELF if i == j else NOT_KNOWN for j in devices] for i in devices],
        numa=[numa.get(device) for device in devices],
    )
    unknown = 0
    for j, i in combinations(devices, 2):
        word = _word(said, pairs.get((j, i), {}), numa.get(i), numa.get(j))
        unknown += word == NOT_KNOWN
        said.gpus[i][j] = said.gpus[j][i] = word
    if unknown:
        said.notes.append(f"{unknown} pairs without a known type of link have none")
    if any(one.hops > 1 for one in said.words.values()):
        said.notes.append("XGMI over several hops has the rate of one link divided by the hops")
    return said


def _word(said: SaidLinks, told: dict[str, str], a: int | None, b: int | None) -> str:
    """Return the word of a pair, and keep what it means."""
    kind = told.get("link type", "")
    if kind == "XGMI":
        hops = max(_number(told.get("hops")), -(-_number(told.get("weight")) // _WEIGHT_OF_A_HOP))
        width = _BANDWIDTH.fullmatch(told.get("bandwidth", ""))
        lanes = int(width[2]) // int(width[1]) if width and hops <= 1 and int(width[1]) else 1
        word = f"XGMI-{hops}" if hops > 1 else "XGMI" if lanes <= 1 else f"XGMI{lanes}"
        said.words[word] = LinkWord("xgmi", max(lanes, 1), max(hops, 1))
        return word
    if kind in ("PCIE", "PCI", "PCIEXPRESS"):
        hops = _number(told.get("hops"))
        near = hops == _OVER_ONE_SOCKET if hops > 1 else a is not None and a == b
        word = "PCIE" if near else "PCIE-SYS"
        said.words[word] = LinkWord("numa" if near else "system")
        return word
    return NOT_KNOWN


def _number(text: str | None) -> int:
    return int(text) if text is not None and text.isdecimal() and len(text) < 6 else 0


def _numa(values: dict[str, Any]) -> dict[int, int | None]:
    """Return the NUMA node of each card, None where it has none: the tool prints -1."""
    found: dict[int, int | None] = {}
    for name, card in values.items():
        match = _CARD.fullmatch(str(name))
        if match is not None and isinstance(card, dict):
            told = next((str(value) for key, value in card.items() if _NUMA.fullmatch(key)), "")
            found[int(match[1])] = int(told) if told.isdecimal() and len(told) < 6 else None
    return found
