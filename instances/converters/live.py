"""A dump of a live cluster, whatever scheduler it is of."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from placewright.instances.converters.kubernetes.convert import read_kubernetes
from placewright.instances.converters.kubernetes.sources import files_in, is_zip
from placewright.instances.converters.ray import read_ray
from placewright.instances.converters.slurm.convert import read_slurm
from placewright.instances.converters.slurm.records import JSON_PARTS
from placewright.instances.converters.support.live import LiveConversion
from placewright.instances.io.files import load_documents

_SUFFIXES = (".json", ".zip")
_EXPECTED = (
    "expected what squeue --json --states=all and scontrol show node --json, or "
    "kubectl get nodes,pods -A -o json print"
)


def is_dump(path: str | os.PathLike[str]) -> bool:
    """Whether a path is a folder, a zip, or a file of something else than a document of ours."""
    name = os.fspath(path)
    if name == "-":
        return False
    if Path(name).is_dir() or is_zip(name):
        return True
    values = next(_documents([name]), None)
    version = values.get("apiVersion") if isinstance(values, dict) else None
    return not str(version).startswith("placewright/") and (
        isinstance(version, str) or _is_of_slurm(values) or _is_of_ray(values)
    )


def read_live(path: str | os.PathLike[str], *, movable: bool = False) -> LiveConversion:
    """Turn a dump of a Slurm, Kubernetes or Ray cluster into a round; its JSON says which it is.

    Parameters
    ----------
    path
        A folder, or one file.
    movable
        Running jobs can be moved as far as the scheduler may stop them and start them again; else
        all are pinned.

    Raises
    ------
    InvalidInputError
        It is neither, or a file of it cannot be read.
    """
    name = os.fspath(path)
    files = files_in(name, _SUFFIXES, _EXPECTED) if Path(name).is_dir() else [name]
    if all(_is_of_ray(values) for values in _documents(files)):
        return read_ray(files)
    if any(_is_of_slurm(values) for values in _documents(files)):
        return read_slurm([name], movable=movable)
    return read_kubernetes(files, movable=movable)


def _documents(files: Sequence[str]) -> Iterator[Any]:
    for file in files:
        yield from [None] if is_zip(file) else load_documents(file)


def _is_of_slurm(values: Any) -> bool:
    return (
        isinstance(values, dict) and "kind" not in values and any(p in values for p in JSON_PARTS)
    )


def _is_of_ray(values: Any) -> bool:
    return isinstance(values, list)
