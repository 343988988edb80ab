"""Mutated dumps of Kubernetes: objects of all kinds that are read, some of them changed."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from fuzz.dumps.mutation import mutated
from placewright.instances.converters import read_kubernetes
from placewright.instances.errors import InvalidInputError

ROOT = Path(__file__).parents[2]
DATA = ROOT / "tests" / "data"
CAPTURED = ROOT.parent / "shared" / "data" / "live" / "kubernetes" / "captured"
CAPTURES = ("kueue-tas-seed5", "kube-scheduler-gang-seed3-ours")
PER_KIND = 6
"""So many objects of each kind are taken of a dump."""

COUNTED = {("", "Node"): "nodes", ("", "Pod"): "pods", ("kueue.x-k8s.io", "Workload"): "workloads"}


def convert(seed: int, folder: Path) -> str | None:
    """Read a mutated dump that is written into an empty folder; return its error, or None.

    Raises
    ------
    AssertionError
        An error that does not name its file or what was expected, or a round in which an object of
        the dump is not counted.
    """
    rng = Random(f"kubernetes {seed}")
    document = mutated(rng.choice(_documents()), rng)
    file = folder / "dump.json"
    file.write_text(json.dumps(document))
    try:
        made = read_kubernetes([file], movable=rng.random() < 0.5)
    except InvalidInputError as error:
        said = str(error)
        assert said.startswith(str(file)), said
        assert "expected" in said, said
        return said
    items = document["items"]
    for (group, kind), name in COUNTED.items():
        there = sum(_group(one) == group and one.get("kind") == kind for one in items)
        assert made.book.total(name) == there, (name, made.book.total(name), there)
    assert all(line.isprintable() for line in made.book.lines())
    return None


def _group(item: Any) -> str:
    """Return the API group of an object."""
    group: str = item["apiVersion"].rpartition("/")[0]
    return group


@cache
def _documents() -> tuple[Any, ...]:
    """Return handmade dumps and captured ones, each as one List."""
    dumps = [[DATA / "kubernetes-kinds" / "dump.json"], sorted((DATA / "kubernetes").iterdir())]
    dumps += [sorted((CAPTURED / name).glob("*.json")) for name in CAPTURES]
    made = []
    for files in dumps:
        kinds: dict[str, list[Any]] = {}
        for file in files:
            for item in json.loads(file.read_text())["items"]:
                kinds.setdefault(item["kind"], []).append(item)
        items = [one for of_kind in kinds.values() for one in of_kind[:PER_KIND]]
        if items:
            made.append({"apiVersion": "v1", "kind": "List", "items": items})
    return tuple(made)
