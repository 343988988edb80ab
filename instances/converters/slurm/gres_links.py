"""Links between GPUs of nodes: `Links=` and cores of gres.conf, or of what `slurmd -G` prints."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from placewright.instances.converters.bookkeeping import Bookkeeping
from placewright.instances.converters.gpu_links.matrix import matrix_of
from placewright.instances.converters.gpu_links.said import ITSELF, NOT_KNOWN, LinkWord, SaidLinks
from placewright.instances.converters.slurm.texts import PAIR, HostLists, expand
from placewright.instances.documents.cluster import LinkMatrix
from placewright.instances.errors import InvalidInputError
from placewright.topology.gpu_links import LinkKind
from placewright.topology.link_rates import link_rates

MOST_LINKED = 64
"""GPUs of a node whose links are read."""

_IS_GRES = re.compile(r"(?im)^[^#\n]*\bName=gpu\b|^\s*AutoDetect=")
_NODE_BEFORE = re.compile(r"([\w.-]+):\s+(?:slurmd:\s*)?Gres\s+Name=", re.IGNORECASE)
_NAMES = "NodeName Name Type File Count Cores Links Flags AutoDetect ID Index CoreCnt"
_KNOWN = {name.lower(): name for name in _NAMES.split()} | {"cpus": "Cores"}
_LINK = re.compile(r"-1|\d{1,3}")
_NO_LINKS = "links between GPUs: Links= of gres.conf has none, as of GPUs that NVSwitches join"
_BY_LINKS = "links between GPUs, as Links= of gres.conf is no number for each GPU of the node"


class _Device(NamedTuple):
    """What is said of one GPU; empty where nothing is."""

    cores: str
    links: str


def gres_text(text: str) -> str | None:
    """Return the lines of GPUs with their names as documented; None if a text has none of them.

    Before a line of `slurmd -G` there may be the node, as parallel shells print it.
    """
    if not _IS_GRES.search(text):
        return None
    lines = []
    for line in text.splitlines():
        said = line.partition("#")[0]
        pairs = {_KNOWN.get(name.lower(), name): value for name, value in PAIR.findall(said)}
        node = _NODE_BEFORE.match(said.strip())
        if node is not None and node[1].lower() != "slurmd":
            pairs.setdefault("NodeName", node[1])
        if pairs.pop("Name", "").lower() == "gpu":
            lines.append(" ".join(["Name=gpu", *(f"{k}={v}" for k, v in pairs.items())]))
    return "\n".join(lines)


def gres_links(
    rows: Iterable[Mapping[str, str]],
    file: str,
    gpus: Mapping[str, tuple[int, str | None]],
    book: Bookkeeping,
) -> tuple[dict[str, str], tuple[LinkMatrix, ...]]:
    """Return the names of the link matrices of nodes, and these.

    `rows`: of `gres_text`, in `file`. `gpus`: how many each node has, and their model. Lines that
    name no node are of all. Without `Links=`, cores tell where GPUs are of a model without NVLink.
    Raises `InvalidInputError`: a line names no list of nodes or of files.
    """
    of: defaultdict[str | None, list[_Device]] = defaultdict(list)
    lists = HostLists()
    for row in rows:
        devices = _devices(row, file)
        for name in _expanded(row, "NodeName", file, lists) or (None,):
            of[name] += devices
    made: dict[tuple[tuple[_Device, ...], int, str | None], LinkMatrix | str] = {}
    links: dict[str, str] = {}
    for name, (number, model) in gpus.items():
        found = of.get(name) or of.get(None)
        if found is None or number < 2:
            continue
        key = tuple(found), number, model
        if key not in made:
            matrices = sum(isinstance(one, LinkMatrix) for one in made.values())
            made[key] = _matrix(found, number, model, f"gres-{matrices + 1}", book)
        matrix = made[key]
        if isinstance(matrix, str):
            book.cannot_say(matrix, name)
        else:
            links[name] = matrix.name
    return links, tuple(one for one in made.values() if isinstance(one, LinkMatrix))


def _devices(row: Mapping[str, str], file: str) -> list[_Device]:
    count = row.get("Count", "")
    number = len(_expanded(row, "File", file)) or (int(count[:9]) if count.isdecimal() else 1)
    return [_Device(row.get("Cores", ""), row.get("Links", ""))] * min(number, MOST_LINKED + 1)


def _expanded(
    row: Mapping[str, str], field: str, file: str, lists: HostLists | None = None
) -> tuple[str, ...]:
    text = row.get(field, "")
    try:
        return expand(text) if lists is None else lists.expand(text)
    except ValueError as error:
        raise InvalidInputError(str(error), (field,), text, file=file) from None


def _matrix(
    devices: Sequence[_Device], number: int, model: str | None, name: str, book: Bookkeeping
) -> LinkMatrix | str:
    """Return the link matrix of a node, or what the round cannot say of its links."""
    if len(devices) != number:
        return "links between GPUs, as gres.conf has another number of them"
    rates = link_rates(model)
    if all(device.links for device in devices):
        rows = [[part.strip() for part in device.links.split(",")] for device in devices]
        numbers = [[int(part) for part in row if _LINK.fullmatch(part)] for row in rows]
        places = {row.index(-1): i for i, row in enumerate(numbers) if row.count(-1) == 1}
        lengths = {len(row) for row in rows} | {len(row) for row in numbers}
        if lengths != {number} or len(places) < number:
            return _BY_LINKS
        order = [places[i] for i in range(number)]
        lanes = [numbers[i] for i in order]
        if rates.lane and not any(count > 0 for row in lanes for count in row):
            return _NO_LINKS
    elif not rates.lane and all(device.cores for device in devices):
        order, lanes = [*range(number)], [[0] * number] * number
    else:
        return "links between GPUs: gres.conf has no Links=, what slurmd -G prints has them"
    cores = [devices[i].cores for i in order]
    numa = {text: node for node, text in enumerate(dict.fromkeys(cores))}
    said = SaidLinks("gres.conf", [], numa=[numa[text] if text else None for text in cores])
    kind: LinkKind = "xgmi" if rates.model.startswith("mi") else "nvlink"
    for i in range(number):
        said.gpus.append([_word(said, kind, lanes[i][j], cores, i, j) for j in range(number)])
    notes: list[str] = []
    try:
        matrix = matrix_of(said, name, model, notes)
    except InvalidInputError as error:
        return f"links between GPUs: {model} {error.expected}"
    book.notes.append(f"links {name} of {number} GPUs: {'; '.join(notes)}")
    return matrix


def _word(said: SaidLinks, kind: LinkKind, lanes: int, cores: Sequence[str], i: int, j: int) -> str:
    """Return the word of a pair: of its links, else of where the cores of its GPUs are."""
    if i == j:
        return ITSELF
    if lanes:
        word, meant = f"{'XGMI' if kind == 'xgmi' else 'NV'}{lanes}", LinkWord(kind, lanes)
    elif not (cores[i] and cores[j]):
        return NOT_KNOWN
    else:
        near = cores[i] == cores[j]
        word, meant = ("NODE", LinkWord("numa")) if near else ("SYS", LinkWord("system"))
    said.words[word] = meant
    return word
