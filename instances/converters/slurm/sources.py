"""The files of a dump of Slurm: which of them says what."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from placewright.instances.errors import InvalidInputError
from placewright.instances.io.files import entries_of, load_text, parse_values

MAX_FILES = 1000
JSON_PARTS = ("jobs", "nodes", "reservations", "associations", "qos", "licenses", "partitions")
_TEXT_PARTS = {
    "SwitchName=": "topology",
    "BlockName=": "topology",
    "ReservationName=": "reservations",
    "LicenseName=": "licenses",
    "PartitionName=": "partitions",
    "Configuration data as of": "config",
    "Cluster|Account|": "associations",
    "Name|Priority|": "qos",
    "Account|User|": "shares",
}
_NONE = ("No reservations in the system", "No licenses configured", "No topology information")
"""How texts begin that say that there is nothing of their kind."""

OLDEST = "22.05"
"""The first release of Slurm whose JSON is read."""

_STRUCTURED = (".json", ".yaml", ".yml")
_SUFFIXES = ("", ".txt", ".conf", *_STRUCTURED)
_NODES = "`scontrol show node --json` (Slurm 22.05: `sinfo --json`)"
_READ = "squeue --json, scontrol show node --json, scontrol show topology"


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a dump: its file, and its values (JSON, YAML) or its text."""

    file: str
    raw: Any = None
    text: str | None = None


@dataclass(slots=True)
class Sources:
    """The parts of a dump by name, and the files that say nothing which is read."""

    parts: dict[str, Part] = field(default_factory=dict)
    ignored: list[str] = field(default_factory=list)


def find_sources(paths: Sequence[str | os.PathLike[str]]) -> Sources:
    """Read the files of a dump, or of the folders that hold it.

    Where JSON and text say the same, JSON is taken. Of files in a folder those that say nothing
    which is read are ignored; a file that is named has to say something.

    Raises
    ------
    InvalidInputError
        A file cannot be read, is not what it seems, or two say the same.
    """
    found = Sources()
    for path in [os.fspath(path) for path in paths]:
        if Path(path).is_dir():
            for file in _files(path):
                if not _add(found, file, named=False):
                    found.ignored.append(Path(file).name)
        elif not _add(found, path, named=True):
            raise InvalidInputError(
                f"expected what one of these prints: {_READ}", file=path, show_value=False
            )
    for part, command in (("jobs", "`squeue --json`"), ("nodes", _NODES)):
        if part not in found.parts:
            raise InvalidInputError(
                f"has no {part}; expected also a file that {command} prints",
                file=" ".join(os.fspath(path) for path in paths),
                show_value=False,
            )
    return found


def _files(folder: str) -> list[str]:
    """Return the files of a folder that may be part of a dump, sorted."""
    entries = [entry.path for entry in entries_of(folder) if entry.is_file()]
    if len(entries) > MAX_FILES:
        raise InvalidInputError(
            f"has {len(entries):,} files; expected a folder of at most {MAX_FILES:,}",
            file=folder,
            show_value=False,
        )
    return [file for file in entries if Path(file).suffix.lower() in _SUFFIXES]


def _add(found: Sources, file: str, *, named: bool) -> bool:
    """Add the parts that a file says; return whether there are any.

    Of files that nobody named those that are empty or no text say nothing, unless they should be
    JSON or YAML.
    """
    structured = file.lower().endswith(_STRUCTURED)
    try:
        text = load_text(file)
    except InvalidInputError:
        if structured and Path(file).is_file() and not Path(file).stat().st_size:
            problem = f"empty; expected what {_NODES} prints, or another command of a dump"
            raise InvalidInputError(problem, file=file, show_value=False) from None
        if named or structured:
            raise
        return False
    if structured or text.lstrip().startswith("{"):
        raw = parse_values(text, file)
        _check_release(raw, file)
        if named and isinstance(raw, dict) and "sinfo" in raw:
            raise InvalidInputError(
                "lists partitions, as sinfo does from 23.02 on; expected what "
                "`scontrol show node --json` prints",
                file=file,
                path=("sinfo",),
                show_value=False,
            )
        if isinstance(raw, dict) and "QOS" in raw:  # slurmrestd until v0.0.38
            raw = {"qos": raw["QOS"], **raw}
        names = [part for part in JSON_PARTS if isinstance(raw, dict) and part in raw]
        if isinstance(raw, list) and any(isinstance(x, dict) and "topology" in x for x in raw):
            names = ["topology"]
        for name in names:
            _keep(found, name, Part(file, raw=raw))
        return bool(names)
    kind = _kind(text)
    if kind is None:
        return text.startswith(_NONE)
    _keep(found, kind, Part(file, text=text))
    return True


def _check_release(raw: Any, file: str) -> None:
    """Refuse what a release of Slurm wrote whose JSON has other fields."""
    release = raw
    for key in ("meta", "Slurm", "release"):
        release = release.get(key) if isinstance(release, dict) else None
    if isinstance(release, str) and "1" <= release < OLDEST:
        problem = f"is of Slurm {release}; expected Slurm from {OLDEST} on"
        raise InvalidInputError(problem, file=file, path=("meta",), show_value=False)


def _kind(text: str) -> str | None:
    """Return what a text is about, by its first line that is no comment."""
    for line in text.splitlines():
        start = line.strip()
        if start and not start.startswith("#"):
            return next((kind for key, kind in _TEXT_PARTS.items() if start.startswith(key)), None)
    return None


def _keep(found: Sources, name: str, part: Part) -> None:
    """Keep a part: JSON or YAML before text, and of the topology what scontrol shows before that.

    What scontrol shows is the topology that is in use; in YAML and configuration are others, too.
    """
    other = found.parts.get(name)
    if other is None or _rank(part) > _rank(other):
        found.parts[name] = part
    elif _rank(part) == _rank(other) and (part.raw, part.text) != (other.raw, other.text):
        raise InvalidInputError(
            f"has {name}, as {json.dumps(Path(other.file).name)} does; expected them once",
            file=part.file,
            show_value=False,
        )


def _rank(part: Part) -> int:
    if part.text is None:
        return 1
    return 2 if "Level=" in part.text or "BlockIndex=" in part.text else 0
