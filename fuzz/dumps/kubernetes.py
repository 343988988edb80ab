"""Mutated dumps of Kubernetes: objects of all kinds that are read, some of them changed."""

from __future__ import annotations

import copy
import json
from functools import cache
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

from fuzz.dumps.mutation import mutated
from fuzz.dumps.silence import Entry, judged
from placewright.instances.converters import read_kubernetes
from placewright.instances.converters.kubernetes.ledger import LEDGERS
from placewright.instances.converters.kubernetes.sources import Kind
from placewright.instances.converters.support.live import LiveConversion
from placewright.instances.errors import InvalidInputError

ROOT = Path(__file__).parents[2]
DATA = ROOT / "tests" / "data"
CAPTURED = ROOT.parent / "shared" / "data" / "live" / "kubernetes" / "captured"
CAPTURES = ("kueue-tas-seed5", "kube-scheduler-gang-seed3-ours")
PER_KIND = 6
"""So many objects of each kind are taken of a dump."""

COUNTED = {("", "Node"): "nodes", ("", "Pod"): "pods", ("kueue.x-k8s.io", "Workload"): "workloads"}


def convert(seed: int, folder: Path) -> LiveConversion | str:
    """Return what is read of a mutated dump that is written into an empty folder, or its error.

    Raises
    ------
    AssertionError
        An error that does not name its file or what was expected, a round in which an object of
        the dump is not counted, or a change of a field that is not told.
    """
    rng = Random(f"kubernetes {seed}")
    file, movable = folder / "dump.json", rng.random() < 0.5
    at = rng.randrange(len(_documents()))
    document = copy.deepcopy(_documents()[at])

    def read() -> LiveConversion:
        file.write_text(json.dumps(document))
        return read_kubernetes([file], movable=movable)

    try:
        before = _before(at, movable=movable) if rng.random() < 0.5 else None
        if before is not None:
            tables = [(LEDGERS.get(_kind(one)), one) for one in document["items"]]
            entries = [Entry(table, one) for table, one in tables if table is not None]
            return judged(entries, rng, before, read)
        document = mutated(document, rng)
        made = read()
    except InvalidInputError as error:
        said = str(error)
        assert said.startswith(str(file)), said
        assert "expected" in said, said
        return said
    items = document["items"]
    for kind, name in COUNTED.items():
        there = sum(_kind(one) == kind for one in items)
        assert made.book.total(name) == there, (name, made.book.total(name), there)
    assert all(line.isprintable() for line in made.book.lines())
    return made


def _kind(item: Any) -> Kind:
    """Return the API group and kind of an object."""
    return Kind(item["apiVersion"].rpartition("/")[0], item.get("kind"))


@cache
def _before(at: int, *, movable: bool) -> LiveConversion:
    """Return what is read of a dump that nobody changed."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "dump.json"
        file.write_text(json.dumps(_documents()[at]))
        return read_kubernetes([file], movable=movable)


@cache
def _documents() -> tuple[Any, ...]:
    """Return handmade dumps and captured ones, each as one List."""
    dumps = [[DATA / "kubernetes-kinds" / "dump.json"], sorted((DATA / "kubernetes").iterdir())]
    dumps += [sorted((CAPTURED / name).glob("*.json")) for name in CAPTURES]
    lists = json.loads((DATA / "fields" / "kubernetes.json").read_text())
    for files in dumps:
        kinds: dict[str, list[Any]] = {}
        for file in files:
            for item in json.loads(file.read_text())["items"]:
                kinds.setdefault(item["kind"], []).append(item)
        lists.append([one for of_kind in kinds.values() for one in of_kind[:PER_KIND]])
    return tuple({"apiVersion": "v1", "kind": "List", "items": items} for items in lists if items)
