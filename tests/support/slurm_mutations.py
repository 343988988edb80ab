"""Mutations of dumps that know their structure: values of other types, names and sizes."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from placewright.instances.converters import read_slurm
from placewright.instances.errors import InvalidInputError

DATA = Path(__file__).parents[1] / "data" / "slurm"
VALUES: tuple[Any, ...] = (
    *(None, True, 0, -1, 1, 7, 2**31, 2**63, 10**30, 0.5, float("inf"), float("nan"), "", " ", "x"),
    *([], {}, [None], [[]], {"set": True}, {"set": 1, "number": "x"}, {"number": []}),
    *({"set": True, "infinite": True, "number": 0}, {"set": False}, {"set": True, "number": -5}),
    *("h[0-", "h[0-999999999]", "h[3-1]", "[0-9]" * 7, "[0-9]" * 99, "h[0-3],,a1", "a" * 5000),
    *("gpu:", "gpu:99999999999", "gres/gpu:h100:0", "gpu:2,gpu:x:3", "gres/shard:2"),
    *("gpu:h100:8(IDX:0-999)", "gpu:8(IDX:7,7,7)", "mem=9999999999999999P", "cpu=x", "cpu=1e9"),
    *("\x1b[31mred", "\ud800", "../..", "none", "a&(b", "((((", "a|", "a*2", "\U0001f4a5", "0-9%1"),
    *("RUNNING", "PENDING", ["RUNNING", "COMPLETING"], ["DOWN"], "0-99999", "2-5%", "3,9-1:0"),
)
TEXTS = (
    "\x00",
    "\x1b[2J",
    "=",
    "|",
    "[",
    "Nodes=",
    "SwitchName=x",
    "\\\n",
    "\n\n",
    "999999999999",
    "-",
)


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the paths of all values inside a value."""
    entries: Iterator[tuple[Any, Any]] = iter(())
    if isinstance(value, dict):
        entries = iter(value.items())
    elif isinstance(value, list):
        entries = iter(enumerate(value))
    for key, inner in entries:
        yield (*path, key)
        yield from places(inner, (*path, key))


def mutate(values: Any, rng: random.Random) -> Any:
    """Return values with one to three of them changed, dropped, doubled, or moved."""
    values = json.loads(json.dumps(values))
    for _ in range(rng.randint(1, 3)):
        found = list(places(values))
        if not found:
            break
        *path, last = rng.choice(found)
        parent = values
        for key in path:
            parent = parent[key]
        match rng.randint(0, 5):
            case 0:
                del parent[last]
            case 1 if isinstance(parent, list):
                parent.append(parent[last])
            case 2 if isinstance(parent, dict):
                parent[last] = parent[rng.choice(list(parent))]
            case _:
                parent[last] = rng.choice(VALUES)
    return values


def mutate_text(text: str, rng: random.Random) -> str:
    """Return a text that is cut, or has something put into it or taken out."""
    at, to = sorted(rng.randrange(len(text) + 1) for _ in range(2))
    return (text[:at], text[:at] + rng.choice(TEXTS) + text[at:], text[:at] + text[to:])[
        rng.randrange(3)
    ]


def convert_mutated(seed: int, folder: Path) -> str | None:
    """Convert a mutated dump; return the error that it gives, if any.

    Anything but a round of which each job is accounted for, or an error of the input, is raised.
    """
    rng = random.Random(seed)
    source = rng.choice([f"v0.0.{number}" for number in range(38, 46)] + ["block"])
    extra = list((DATA / "text").iterdir()) if source == "v0.0.38" and rng.random() < 0.5 else []
    names = [f for f in (DATA / source).iterdir() if not (extra and f.stem in _stems(extra))]
    victim = rng.choice(names + extra)
    for old in folder.iterdir():
        old.unlink()
    number = None
    for file in sorted(names + extra):
        text = file.read_text()
        if file == victim:
            if file.suffix == ".json" and rng.random() < 0.9:
                text = json.dumps(mutate(json.loads(text), rng))
            else:
                text = mutate_text(text, rng)
        if file.stem == "jobs" and file.suffix == ".json":
            number = text
        (folder / file.name).write_text(text, errors="surrogatepass")
    try:
        made = read_slurm([folder], movable=rng.random() < 0.5)
    except InvalidInputError as error:
        assert str(error).startswith(str(folder)), error
        return str(error)
    assert number is not None
    assert made.book.total("jobs") == len(json.loads(number)["jobs"] or ())
    assert all(line.isprintable() for line in made.book.lines())
    return None


def _stems(files: list[Path]) -> set[str]:
    return {file.stem for file in files}
