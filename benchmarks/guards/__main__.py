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
    solve = verbs.add_parser("solve", help="decide rounds; a row of JSON each")
    solve.add_argument("folder", type=Path)
    solve.add_argument("file", type=Path)
    solve.add_argument("--only", metavar="PATTERN", default="*", help="rounds, by name")
    compare = verbs.add_parser("compare", help="compare a run with those of the baseline")
    compare.add_argument("baseline", type=Path, nargs="+")
    compare.add_argument("--new", type=Path, required=True)
    chosen = parser.parse_args(arguments)
    if chosen.verb == "rounds":
        from benchmarks.guards.rounds import write_rounds

        for name in write_rounds(chosen.folder):
            print(name, file=sys.stderr)
        return 0
    if chosen.verb == "solve":
        _solve(chosen.folder, chosen.file, chosen.only)
        return 0
    found = compared([_read(file) for file in chosen.baseline], _read(chosen.new))
    print(*found.lines(), sep="\n")
    return int(bool(found.failures))


def _solve(folder: Path, file: Path, pattern: str) -> None:
    from benchmarks.guards.solve import rows

    files = [path for path in sorted(folder.glob("*.json")) if fnmatchcase(path.stem, pattern)]
    with file.open("a") as out:
        for number, row in enumerate(rows(files), 1):
            print(json.dumps(row), file=out, flush=True)
            print(f"{number} of {len(files)}: {row['round']}", file=sys.stderr)


def _read(file: Path) -> Rows:
    return {row["round"]: row for row in map(json.loads, file.read_text().splitlines())}


if __name__ == "__main__":
    sys.exit(main())
