"""Mutated dumps of Slurm: one file of a dump in one of its dialects is changed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

from fuzz.dumps.mutation import mutated, mutated_text
from fuzz.dumps.silence import Entry, Rows, judged
from placewright.instances.converters import read_slurm
from placewright.instances.converters.ledger import Ledger
from placewright.instances.converters.slurm.ledger import LEDGERS
from placewright.instances.converters.support.live import LiveConversion
from placewright.instances.errors import InvalidInputError

DATA = Path(__file__).parents[2] / "tests" / "data"
DIALECTS = tuple(f"v0.0.{number}" for number in range(38, 46))
FIELDS = tuple(json.loads((DATA / "fields" / "slurm.json").read_text()))
TABLES = LEDGERS | {
    "config": Ledger(
        "config",
        """PreemptType PreemptMode PreemptExemptTime PriorityMaxAge PriorityWeightAge
        PriorityWeightFairShare PriorityWeightQOS PriorityWeightPartition PriorityType""",
        "",
    ),
    "shares": Ledger("shares", "FairShare", ""),
}


def convert(seed: int, folder: Path) -> LiveConversion | str:
    """Return what is read of a mutated dump that is written into an empty folder, or its error.

    Raises
    ------
    AssertionError
        An error that does not name its file, a round without one of the jobs of the dump, or a
        change of a field that is not told.
    """
    rng = Random(f"slurm {seed}")
    source = rng.choice((*DIALECTS, "block", *range(len(FIELDS))))
    movable, judging = rng.random() < 0.5, rng.random() < 0.5
    files = dict(_texts(source))
    try:
        if judging:
            parsed = {name: _parsed(name, text) for name, text in files.items()}

            def read() -> LiveConversion:
                _write(folder, {name: _text(value) for name, value in parsed.items()})
                return read_slurm([folder], movable=movable)

            return judged(list(_entries(parsed)), rng, _before(source, movable=movable), read)
        if source == DIALECTS[0] and rng.random() < 0.5:
            texts = _texts("text")
            stems = {Path(name).stem for name in texts}
            files = {n: text for n, text in files.items() if Path(n).stem not in stems} | texts
        victim = rng.choice(sorted(files))
        if not victim.endswith(".json") or rng.random() < 0.1:
            files[victim] = mutated_text(files[victim], rng)
        else:
            files[victim] = json.dumps(mutated(json.loads(files[victim]), rng))
        _write(folder, files)
        made = read_slurm([folder], movable=movable)
    except InvalidInputError as error:
        assert str(error).startswith(str(folder)), error
        return str(error)
    jobs = json.loads(files["jobs.json"])["jobs"] or ()
    assert made.book.total("jobs") == len(jobs), (made.book.total("jobs"), len(jobs))
    assert all(line.isprintable() for line in made.book.lines())
    return made


def _entries(parsed: Mapping[str, Any]) -> Iterator[Entry]:
    for name, value in parsed.items():
        if isinstance(value, Rows):
            for row in value.rows:
                yield Entry(TABLES[Path(name).stem], row, is_text=True)
        elif isinstance(value, dict):
            for part in LEDGERS.keys() & value.keys():
                for raw in value[part]:
                    yield Entry(LEDGERS[part], raw)


def _parsed(name: str, text: str) -> Any:
    if name.endswith(".json"):
        return json.loads(text)
    return Rows(text) if Path(name).stem in TABLES else text


def _text(value: Any) -> str:
    if isinstance(value, Rows):
        return value.text()
    return value if isinstance(value, str) else json.dumps(value)


def _write(folder: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        (folder / name).write_text(text, errors="surrogatepass")


@cache
def _before(source: str | int, *, movable: bool) -> LiveConversion:
    """Return what is read of a dump that nobody changed."""
    with TemporaryDirectory() as folder:
        parsed = {name: _parsed(name, text) for name, text in _texts(source).items()}
        _write(Path(folder), {name: _text(value) for name, value in parsed.items()})
        return read_slurm([folder], movable=movable)


@cache
def _texts(source: str | int) -> dict[str, str]:
    if isinstance(source, int):
        return {name: _text(value) for name, value in FIELDS[source].items()}
    return {file.name: file.read_text() for file in sorted((DATA / "slurm" / source).iterdir())}
