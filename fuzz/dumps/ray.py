"""Mutated dumps of Ray: nodes or placement groups are changed."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from fuzz.dumps.mutation import mutated
from placewright.instances.converters import read_ray
from placewright.instances.converters.support.live import LiveConversion
from placewright.instances.errors import InvalidInputError

DATA = Path(__file__).parents[2] / "tests" / "data" / "ray"


def convert(seed: int, folder: Path) -> LiveConversion | str:
    """Return what is read of a mutated dump that is written into an empty folder, or its error.

    Raises
    ------
    AssertionError
        An error that names none of its files, or a round in which a node or group is not counted.
    """
    rng = Random(f"ray {seed}")
    files = dict(_files())
    victim = rng.choice(sorted(files))
    files[victim] = mutated(files[victim], rng)
    for name, values in files.items():
        (folder / name).write_text(json.dumps(values))
    try:
        made = read_ray(sorted(folder.iterdir()), levels=["rack"] if rng.random() < 0.5 else [])
    except InvalidInputError as error:
        said = str(error)
        assert str(folder) in said or "is on no node" in said, said
        return said
    groups = sum("placement_group_id" in one for values in files.values() for one in values)
    assert made.book.total("placement groups") == groups
    assert made.book.total("nodes") == sum(map(len, files.values())) - groups
    assert all(line.isprintable() for line in made.book.lines())
    return made


@cache
def _files() -> tuple[tuple[str, Any], ...]:
    return tuple((file.name, json.loads(file.read_text())) for file in sorted(DATA.iterdir()))
