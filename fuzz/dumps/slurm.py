"""Mutated dumps of Slurm: one file of a dump in one of its dialects is changed."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from random import Random

from fuzz.dumps.mutation import mutated, mutated_text
from placewright.instances.converters import read_slurm
from placewright.instances.errors import InvalidInputError

DATA = Path(__file__).parents[2] / "tests" / "data" / "slurm"
DIALECTS = tuple(f"v0.0.{number}" for number in range(38, 46))


def convert(seed: int, folder: Path) -> str | None:
    """Read a mutated dump that is written into an empty folder; return its error, or None.

    Raises
    ------
    AssertionError
        An error that does not name its file, or a round without one of the jobs of the dump.
    """
    rng = Random(f"slurm {seed}")
    source = rng.choice((*DIALECTS, "block"))
    files = dict(_texts(source))
    if source == DIALECTS[0] and rng.random() < 0.5:
        texts = _texts("text")
        stems = {Path(name).stem for name in texts}
        files = {n: text for n, text in files.items() if Path(n).stem not in stems} | texts
    victim = rng.choice(sorted(files))
    as_text = not victim.endswith(".json") or rng.random() < 0.1
    if as_text:
        files[victim] = mutated_text(files[victim], rng)
    else:
        files[victim] = json.dumps(mutated(json.loads(files[victim]), rng))
    for name, text in files.items():
        (folder / name).write_text(text, errors="surrogatepass")
    try:
        made = read_slurm([folder], movable=rng.random() < 0.5)
    except InvalidInputError as error:
        assert str(error).startswith(str(folder)), error
        return str(error)
    jobs = json.loads(files["jobs.json"])["jobs"] or ()
    assert made.book.total("jobs") == len(jobs), (made.book.total("jobs"), len(jobs))
    assert all(line.isprintable() for line in made.book.lines())
    return None


@cache
def _texts(source: str) -> dict[str, str]:
    return {file.name: file.read_text() for file in sorted((DATA / source).iterdir())}
