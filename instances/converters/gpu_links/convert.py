"""Link matrix of a host from what a tool printed, and clusters and rounds that have it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from placewright.instances.checks.cluster import MAX_HOSTS, check_cluster
from placewright.instances.converters.bookkeeping import Bookkeeping
from placewright.instances.converters.gpu_links.matrix import matrix_of
from placewright.instances.converters.gpu_links.nccl import is_nccl, read_nccl
from placewright.instances.converters.gpu_links.nvidia_smi import is_nvidia_smi, read_nvidia_smi
from placewright.instances.converters.gpu_links.rocm_smi import (
    is_rocm_smi,
    read_rocm_smi,
    values_of_amd_smi,
    values_of_tables,
)
from placewright.instances.converters.gpu_links.said import SaidLinks
from placewright.instances.derived.hardware import hardware
from placewright.instances.derived.phrases import count
from placewright.instances.derived.ranges import expand, expand_all, size
from placewright.instances.documents.base import HOST_NAME, NAME, Document
from placewright.instances.documents.cluster import (
    ClusterDocument,
    HostEntry,
    LinkMatrix,
)
from placewright.instances.documents.round import Round
from placewright.instances.errors import InvalidInputError
from placewright.instances.io.files import load_text
from placewright.instances.io.yaml_json import parse_json
from placewright.topology import LINK_MATRICES

MAX_CHARACTERS = 8 << 20
MAX_NAME = 200
_EXPECTED = (
    "expected what nvidia-smi topo -m, rocm-smi --showtopo or amd-smi topology --json prints, or "
    "NCCL dumps"
)
_UNKNOWN_MODEL = "gpu"


@dataclass(frozen=True, slots=True)
class LinkConversion:
    """A link matrix, the GPU model that has it as far as that is known, and what was guessed."""

    matrix: LinkMatrix
    gpu_model: str | None
    book: Bookkeeping

    @property
    def summary(self) -> str:
        """Say in a line what was made."""
        kinds = {one.kind for one in self.matrix.classes.values()}
        best = max(kinds, key=["system", "numa", "pcie", "xgmi", "nvlink"].index, default="none")
        return (
            f"gpu-links: {self.matrix.name}, {count(len(self.matrix.gpus), 'GPU')}, "
            f"{count(len(self.matrix.nics), 'NIC')}, best link {best}"
        )

    def cluster(self) -> ClusterDocument:
        """Return a cluster of one host that has these links."""
        host = HostEntry(
            name="h0",
            gpus=len(self.matrix.gpus),
            gpu_model=self.gpu_model or _UNKNOWN_MODEL,
            gpu_links=self.matrix.name,
        )
        made = ClusterDocument(name=self.matrix.name, hosts=(host,), gpu_links=(self.matrix,))
        check_cluster(made)
        return made


def read_gpu_links(
    file: str | os.PathLike[str], *, name: str | None = None, gpu_model: str | None = None
) -> LinkConversion:
    """Read the links of a host from what a tool printed; which one did, the text itself says.

    Rates that it does not print are those of `gpu_model`, or low ones; `LinkMatrix.source` and the
    bookkeeping say which.

    Raises
    ------
    InvalidInputError
        It is none of these texts, or not a whole one, or the GPU model has no such links.
    """
    path = os.fspath(file)
    text = load_text(file)
    try:
        if len(text) > MAX_CHARACTERS:
            raise InvalidInputError(f"too long; expected at most {MAX_CHARACTERS:,} characters")
        said = _said(text)
        book = Bookkeeping()
        matrix = matrix_of(said, name or _named(path), gpu_model, book.notes)
        return LinkConversion(matrix, gpu_model, book)
    except InvalidInputError as error:
        raise error.inside(path) from None


def _named(path: str) -> str:
    """Return a name for the matrix of a file: that of the file, if it can be one."""
    stem = Path(path).name.partition(".")[0]
    if not re.fullmatch(NAME, stem) or path == "-" or len(stem) > MAX_NAME:
        return "links"
    return f"{stem}-links" if stem in LINK_MATRICES else stem


def _list_in(text: str) -> str:
    return text[text.rfind("[", 0, text.find("{")) : text.rfind("]") + 1]


def _said(text: str) -> SaidLinks:
    if is_nccl(text):
        return read_nccl(text)
    values: Any = values_of_tables(text)
    if is_rocm_smi(values):
        return read_rocm_smi(values)
    if is_nvidia_smi(text):
        return read_nvidia_smi(text)
    start = text.find("{")
    is_list = text[: max(start, 0)].rstrip().endswith("[")
    if start >= 0:
        # The tool prints warnings before and after its object, in lines of their own.
        whole = parse_json(text[start : text.rfind("}") + 1] if not is_list else _list_in(text))
        values = values_of_amd_smi(whole) if isinstance(whole, list) else whole
    if not is_rocm_smi(values):
        raise InvalidInputError(_EXPECTED)
    return read_rocm_smi(values)


def model_of_hosts(document: Document, hosts: str) -> str | None:
    """Return the GPU model of the first of some hosts of a cluster or round; None: no host is."""
    cluster = document.cluster if isinstance(document, Round) else document
    first = next(iter(_listed(hosts)), None)
    for entry in cluster.hosts if isinstance(cluster, ClusterDocument) else ():
        if first in expand(entry.name):
            return hardware(entry).gpu_model
    return None


def _listed(hosts: str) -> dict[str, bool]:
    """Return the hosts of a list, none of them found as yet."""
    parts = [part.strip() for part in hosts.split(",")]
    if not all(re.fullmatch(HOST_NAME, part) and 0 < size(part) <= MAX_HOSTS for part in parts):
        raise InvalidInputError("expected hosts, such as h[0-3],a1", ("hosts",), hosts)
    return dict.fromkeys(expand_all(parts), False)


def with_gpu_links(document: Document, matrix: LinkMatrix, hosts: str) -> Document:
    """Return a cluster or round whose hosts (`h[0-3],a1`) have a link matrix.

    A matrix of that name is replaced. Ranges of which some hosts are meant are split.

    Raises
    ------
    InvalidInputError
        It is no cluster or round, hosts are unknown, or have other GPUs than the matrix.
    """
    if isinstance(document, Round):
        cluster = with_gpu_links(document.cluster, matrix, hosts)
        return document.model_copy(update={"cluster": cluster})
    if not isinstance(document, ClusterDocument):
        raise InvalidInputError("expected a Cluster or a Round", ("kind",), type(document).__name__)
    meant = _listed(hosts)
    entries = [part for entry in document.hosts for part in _attached(entry, matrix, meant)]
    unknown = next((name for name, found in meant.items() if not found), None)
    if unknown is not None:
        known = [name for entry in document.hosts for name in expand(entry.name)]
        raise InvalidInputError(
            "unknown host; expected hosts of the cluster",
            ("hosts",),
            unknown,
            unknown=(unknown, known),
        )
    others = [one for one in document.gpu_links if one.name != matrix.name]
    made = document.model_copy(
        update={"hosts": tuple(entries), "gpu_links": (*others, matrix)},
    )
    check_cluster(made)
    return made


def _attached(entry: HostEntry, matrix: LinkMatrix, meant: dict[str, bool]) -> Iterator[HostEntry]:
    """Yield the parts of an entry in order: hosts that are meant, with the matrix, and others."""
    names = expand(entry.name)
    prefix = entry.name.partition("[")[0]
    for is_meant, group in groupby(names, key=meant.__contains__):
        run = list(group)
        first, last = run[0].removeprefix(prefix), run[-1].removeprefix(prefix)
        part = run[0] if len(run) == 1 else f"{prefix}[{first}-{last}]"
        update = {"name": entry.name if len(run) == len(names) else part}
        if is_meant:
            meant.update(dict.fromkeys(run, True))
            update["gpu_links"] = matrix.name
            if hardware(entry).gpus != len(matrix.gpus):
                raise InvalidInputError(
                    f"has {hardware(entry).gpus} GPUs; expected {len(matrix.gpus)}, as many as "
                    f"the links are of",
                    ("hosts",),
                    run[0],
                )
        yield entry.model_copy(update=update)
