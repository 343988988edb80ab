"""Topology of a host as NCCL and RCCL dump it (`NCCL_TOPO_DUMP_FILE`), in XML from anywhere."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from xml.parsers import expat

from placewright.instances.converters.gpu_links.said import (
    ITSELF,
    MAX_GPUS,
    MAX_NICS,
    LinkWord,
    SaidLinks,
    unreadable,
)
from placewright.topology.gpu_links import LinkKind

MAX_DEPTH = 64
MAX_ELEMENTS = 100_000
_GPU_CLASSES = ("0x0300", "0x0302", "0x0380", "0x1200")
_NIC_CLASSES = ("0x0200", "0x0207")
_LINK_TO_CPU = "0x068001"
_SPEED = re.compile(r"(\d{1,4}(?:\.\d{1,3})?)\s*GT/s", re.IGNORECASE)
_PCIE_3 = 8.0
_MODELS = {
    "60": "P100",
    "70": "V100",
    "75": "2080",
    "80": "A100",
    "86": "A40",
    "89": "L40S",
    "90": "H100",
    "100": "B200",
    "103": "B300",
    "120": "5090",
}
"""By compute capability (`sm`), a model with the links of it."""


@dataclass(slots=True, eq=False)
class _Element:
    tag: str
    said: dict[str, str]
    parent: _Element | None
    children: list[_Element] = field(default_factory=list)

    def all(self) -> Iterator[_Element]:
        yield self
        for child in self.children:
            yield from child.all()

    def above(self) -> list[_Element]:
        """Return this element and those around it, the outermost last."""
        found = [self]
        while found[-1].parent is not None:
            found.append(found[-1].parent)
        return found

    @property
    def busid(self) -> str:
        return self.said.get("busid", "").lower()


def is_nccl(text: str) -> bool:
    """Whether a text is XML, if it is anything."""
    return text.lstrip("\ufeff \t\r\n").startswith("<")


def read_nccl(text: str) -> SaidLinks:
    """Return the links between the GPUs of a host, in the order of `dev`, or of bus numbers.

    GPUs that NVSwitches join have the lanes of the one that has fewer. PCI Express is as fast as
    the slowest link on the way.

    Raises
    ------
    InvalidInputError
        It is no such XML, has a DOCTYPE, is too large or deep, or has no GPU.
    """
    root = _parse(text)
    said = SaidLinks("topology of NCCL", [])
    cpus = [one for one in root.all() if one.tag == "cpu"]
    hosts = list(dict.fromkeys(cpu.said.get("host_hash", "") for cpu in cpus))
    if len(hosts) > 1:
        said.notes.append(f"the first of {len(hosts)} hosts is read")
    pci = [
        one
        for cpu in cpus
        if cpu.said.get("host_hash", "") == hosts[0]
        for one in cpu.all()
        if one.tag == "pci"
    ]
    gpus = _of(pci, "gpu", _GPU_CLASSES)
    if not gpus or len(gpus) > MAX_GPUS:
        raise unreadable(f"has {len(gpus)} GPUs; expected 1 to {MAX_GPUS}")
    gpus.sort(key=_order)
    said.gpu_model = next((_MODELS.get(_gpu(one).said.get("sm", "")) for one in gpus), None)
    lanes = _lanes(gpus)
    for i, one in enumerate(gpus):
        row = [_pair(said, lanes, gpus, i, j) for j in range(len(gpus))]
        said.gpus.append(row)
        numa = next((e.said.get("numaid", "") for e in one.above() if e.tag == "cpu"), "")
        said.numa = [*said.numa, int(numa) if numa.isdecimal() and len(numa) < 6 else None]
    nics = _of(pci, "nic", _NIC_CLASSES)
    if len(nics) > MAX_NICS:
        said.notes.append(f"{len(nics) - MAX_NICS} NICs beyond the first {MAX_NICS} are left out")
    said.nics = [[_path(said, nic, gpu) for gpu in gpus] for nic in nics[:MAX_NICS]]
    if not any(word.kind in ("nvlink", "xgmi") for word in said.words.values()):
        said.notes.append(
            "no NVLink or XGMI in it: a dump (NCCL_TOPO_DUMP_FILE) has them, files for "
            "NCCL_TOPO_FILE leave them out"
        )
    return said


def _parse(text: str) -> _Element:
    root = _Element("", {}, None)
    at, count, depth = root, 0, 0
    parser = expat.ParserCreate()

    def start(tag: str, said: dict[str, str]) -> None:
        nonlocal at, count, depth
        count, depth = count + 1, depth + 1
        if count > MAX_ELEMENTS or depth > MAX_DEPTH:
            raise unreadable(
                f"expected at most {MAX_ELEMENTS:,} elements, {MAX_DEPTH} inside each other",
                parser.CurrentLineNumber,
            )
        at.children.append(_Element(tag, said, at))
        at = at.children[-1]

    def end(_: str) -> None:
        nonlocal at, depth
        depth -= 1
        at = at.parent or root

    def refuse(*_: object) -> None:
        raise unreadable("has a DOCTYPE; expected none", parser.CurrentLineNumber)

    parser.StartElementHandler, parser.EndElementHandler = start, end
    parser.StartDoctypeDeclHandler = refuse
    try:
        parser.Parse(text.lstrip("\ufeff \t\r\n"), True)
    except expat.ExpatError as error:
        raise unreadable(
            f"is no XML ({expat.ErrorString(error.code)}); expected the system element of NCCL",
            error.lineno,
        ) from None
    if root.children[0].tag != "system":
        raise unreadable("expected the element system", 1, root.children[0].tag)
    return root


def _of(pci: Sequence[_Element], tag: str, classes: tuple[str, ...]) -> list[_Element]:
    """Return the PCI devices that hold an element, or in files without any have such a class."""
    found = [one for one in pci if any(child.tag == tag for child in one.children)]
    named = [one for one in pci if one.said.get("class", "").startswith(classes)]
    return found or named


def _gpu(pci: _Element) -> _Element:
    return next((child for child in pci.children if child.tag == "gpu"), pci)


def _order(pci: _Element) -> tuple[bool, int, str]:
    device = _gpu(pci).said.get("dev", "")
    known = device.isdecimal() and len(device) < 6
    return not known, int(device) if known else 0, pci.busid


def _lanes(gpus: Sequence[_Element]) -> dict[str, list[tuple[dict[str, int], int]]]:
    """Return for each kind and GPU its lanes to each other GPU by bus number, and to switches."""
    known = {one.busid for one in gpus}
    found: dict[str, list[tuple[dict[str, int], int]]] = {}
    for kind in ("nvlink", "xgmi"):
        found[kind] = []
        for one in gpus:
            direct: dict[str, int] = {}
            switched = 0
            for link in (child for child in _gpu(one).children if child.tag == kind):
                count = link.said.get("count", "")
                number = int(count) if count.isdecimal() and len(count) < 4 else 0
                target = link.said.get("target", "").lower()
                if target in known:
                    direct[target] = direct.get(target, 0) + number
                elif not link.said.get("tclass", "").startswith(_LINK_TO_CPU):
                    switched += number
            found[kind].append((direct, switched))
    return found


def _pair(
    said: SaidLinks,
    lanes: dict[str, list[tuple[dict[str, int], int]]],
    gpus: Sequence[_Element],
    i: int,
    j: int,
) -> str:
    """Return the word of a pair of GPUs: of the links of their own, else of PCI Express."""
    if i == j:
        return ITSELF
    kind: LinkKind
    for kind, name in (("nvlink", "NV"), ("xgmi", "XGMI")):
        (mine, up), (theirs, down) = lanes[kind][i], lanes[kind][j]
        number = min(mine.get(gpus[j].busid, 0), theirs.get(gpus[i].busid, 0)) + min(up, down)
        if number:
            said.words[f"{name}{number}"] = LinkWord(kind, number)
            return f"{name}{number}"
    return _path(said, gpus[i], gpus[j])


def _path(said: SaidLinks, one: _Element, other: _Element) -> str:
    """Return the word of the way over PCI Express between two devices."""
    here, there = one.above(), other.above()
    meet = next(element for element in here if any(element is e for e in there))
    ways = [[e for e in way[: _index(way, meet)] if e.tag == "pci"] for way in (here, there)]
    rates = [rate for e in (*ways[0], *ways[1]) if (rate := _rate(e)) is not None]
    kind: LinkKind
    if meet.tag == "pci":
        kind, word = "pcie", "PIX" if max(map(len, ways)) <= 1 else "PXB"
    elif meet.tag == "cpu":
        kind, word = "numa", "PHB"
    else:
        kind, word = "system", "SYS"
    told = min(rates, default=None)
    meant = LinkWord(kind, pcie_mbps=told)
    names = word, f"{word}-{told}"
    return next(name for name in names if said.words.setdefault(name, meant) == meant)


def _index(way: Sequence[_Element], element: _Element) -> int:
    return next(i for i, one in enumerate(way) if one is element)


def _rate(pci: _Element) -> int | None:
    """Return the rate of a device's link to what is above it, None where it is not told."""
    speed, width = _SPEED.match(pci.said.get("link_speed", "")), pci.said.get("link_width", "")
    if speed is None or not width.isdecimal() or not 0 < int(width[:4]) <= MAX_DEPTH:
        return None
    coded = (128, 130) if float(speed[1]) >= _PCIE_3 else (8, 10)
    return int(float(speed[1]) * 1000 * int(width) * coded[0]) // coded[1] or None
