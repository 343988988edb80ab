"""Mutation testing of the suite: `python -m fuzz mutants [--profile day|nightly] [--only TEXT]`.

The faults of `mutants.yaml` are planted one after another in a copy of the tree. The nearest tests
are asked first, then, unless `--near`, all of the profile; the first that fails has found the
fault. At the end it has to pass without one.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import yaml

ROOT = Path(__file__).parents[1]
LIST = Path(__file__).with_name("mutants.yaml")
PROFILES = ("day", "nightly")
NOT_COPIED = (".git", ".venv", "__pycache__", ".mypy_cache", ".ruff_cache", ".pytest_cache")
OWN = "not slurm and not browser"
"""Tests that start a Slurm or a browser are slow to say what others say as well."""

HANGS_S = 1800
NO_TESTS = 5
"""What pytest exits with if all tests are deselected."""
_FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+\.py(?:::.*?)?)(?: - .*)?$", re.MULTILINE)


class Mutant(NamedTuple):
    """A fault: what of the files below `where` is replaced by what, and the tests nearest to it."""

    group: str
    where: str
    old: str
    new: str
    why: str
    near: tuple[str, ...]


def mutants(only: str = "") -> Iterator[Mutant]:
    """Yield the faults that have a text in their group, folder or description."""
    for raw in yaml.safe_load(LIST.read_text()):
        one = Mutant(**{**raw, "near": tuple(raw["near"])})
        if only in f"{one.group} {one.where} {one.why}":
            yield one


def mutated(root: Path, mutant: Mutant) -> tuple[Path, str]:
    """Return the file that a fault is in, and its text with the fault.

    Raises
    ------
    LookupError
        What is to be replaced is not in one place.
    """
    where = root / mutant.where
    files = sorted(where.rglob("*.py")) if where.is_dir() else [where]
    texts = {file: text for file in files if mutant.old in (text := file.read_text())}
    number = sum(text.count(mutant.old) for text in texts.values())
    if number != 1:
        raise LookupError(f"{mutant.why}: {number} places in {mutant.where}; expected one")
    ((file, text),) = texts.items()
    return file, text.replace(mutant.old, mutant.new)


def finder(root: Path, mutant: Mutant, profile: str, *, near: bool) -> str | None:
    """Return the first test that fails with a fault, None if all pass."""
    file, text = mutated(root, mutant)
    original = file.read_text()
    _write(file, text)
    try:
        found = next(iter(failures(root, mutant.near, profile, "-x")), None)
        if found is None and not near:
            found = next(iter(failures(root, ["tests"], profile, "-x", "-n", "auto")), None)
    finally:
        _write(file, original)
    return found


def _write(file: Path, text: str) -> None:
    """Write a file, a second later than before: compiled files know it by its time."""
    later = int(file.stat().st_mtime) + 1
    file.write_text(text)
    os.utime(file, (later, later))


def failures(root: Path, tests: Iterable[str], profile: str, *options: str) -> list[str]:
    """Return the tests that fail; the first of those asked, if they hang."""
    words = ["-q", "-p", "no:cacheprovider", "-m", OWN, "--hypothesis-profile", profile, *options]
    asked = list(tests)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "pytest", *words, *asked],
            cwd=root,
            env={**os.environ, "PYTHONPATH": str(root / "src")},
            capture_output=True,
            text=True,
            timeout=HANGS_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return asked[:1]
    found = _FAILED.findall(done.stdout)
    if done.returncode not in (0, NO_TESTS) and not found:
        raise RuntimeError(f"{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return found


def main(words: Sequence[str]) -> int:
    """Plant the faults; return 1 if the tests do not find one of them."""
    parser = argparse.ArgumentParser(prog="python -m fuzz mutants", description=__doc__)
    parser.add_argument("--profile", choices=PROFILES, default=PROFILES[0])
    parser.add_argument(
        "--only", metavar="TEXT", default="", help="in group, folder or description"
    )
    parser.add_argument("--near", action="store_true", help="ask the nearest tests alone")
    asked = parser.parse_args(words)
    found, every = dict[Mutant, str](), list(mutants(asked.only))
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch) / "tree"
        shutil.copytree(ROOT, root, symlinks=True, ignore=shutil.ignore_patterns(*NOT_COPIED))
        for mutant in every:
            test = finder(root, mutant, asked.profile, near=asked.near)
            if test is not None:
                found[mutant] = test
            print(f"{mutant.group}: {mutant.why}: {test or 'NOT FOUND'}", flush=True)
        broken = failures(root, sorted({*found.values()}), asked.profile) if found else []
    for test in broken:
        print(f"fails without a fault, too: {test}")
    for group, number in Counter(one.group for one in every).items():
        mine = sum(one.group == group for one in found)
        print(f"{group}: {mine} of {number} found, profile {asked.profile}")
    return int(len(found) < len(every) or bool(broken))
