"""The command line of the guards; `__init__` says how it is used."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from benchmarks import guards
from benchmarks.guards.compare import Rows, compared


def main(arguments: Sequence[str] | None = None) -> int:
    """Write rounds, solve them, or compare runs; progress to stderr."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.guards",
        description=guards.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    verbs = parser.add_subparsers(dest="verb", required=True)
    rounds = verbs.add_parser("rounds", help="write the rounds")
    rounds.add_argument("folder", type=Path)
    rounds.add_argument("--only", metavar="PATTERN", default="*", help="rounds, by name")
    solve = verbs.add_parser("solve", help="decide rounds; a row of JSON each")
    solve.add_argument("folder", type=Path)
    solve.add_argument("file", type=Path)
    solve.add_argument("--only", metavar="PATTERN", default="*", help="rounds, by name")
    compare = verbs.add_parser("compare", help="compare a run with those of the baseline")
    compare.add_argument("baseline", type=Path, nargs="+")
    compare.add_argument("--new", type=Path, required=True)
    chosen = parser.parse_args(arguments)
    if chosen.verb == "rounds":
        _write(chosen.folder, chosen.only)
        return 0
    if chosen.verb == "solve":
        return _solve(chosen.folder, chosen.file, chosen.only)
    found = compared([_read(file) for file in chosen.baseline], _read(chosen.new))
    print(*found.lines(), sep="\n")
    return int(bool(found.failures))


def _write(folder: Path, pattern: str) -> None:
    from benchmarks.guards.rounds import write_rounds

    written, left_out = 0, []
    for name, missing in write_rounds(folder, pattern):
        if missing is None:
            written += 1
            print(name, file=sys.stderr)
        else:
            left_out.append(f"{name}: left out, {missing} not found (see benchmarks/README.md)")
    print(*left_out, f"{written} rounds written, {len(left_out)} left out", sep="\n")


def _solve(folder: Path, file: Path, pattern: str) -> int:
    """Append rows to a file, of rounds that it has not yet; return 1 if a round has no plan."""
    from benchmarks.guards.solve import rows

    had = _read(file) if file.exists() else {}
    matching = [path for path in sorted(folder.glob("*.json")) if fnmatchcase(path.stem, pattern)]
    files = [path for path in matching if path.stem not in had]
    if len(files) < len(matching):
        print(f"{len(matching) - len(files)} are in {file} already", file=sys.stderr)
    failed = any("error" in had[path.stem] for path in matching if path.stem in had)
    with file.open("a") as out:
        for number, row in enumerate(rows(files), 1):
            print(json.dumps(row), file=out, flush=True)
            error = row.get("error", "")
            failed |= bool(error)
            print(f"{number} of {len(files)}: {row['round']} {error}".rstrip(), file=sys.stderr)
    return int(failed)


def _read(file: Path) -> Rows:
    return {row["round"]: row for row in map(json.loads, file.read_text().splitlines())}


if __name__ == "__main__":
    sys.exit(main())
