"""A project of PSPLIB becomes a round of policy `stages`: activities wait for others.

Kolisch and Sprecher, "PSPLIB - a project scheduling problem library", EJOR 96, 1997; its files end
in `.sm` (one mode for each activity) or `.mm` (several).
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from placewright.instances.documents.round import Round
from placewright.instances.errors import InvalidInputError
from placewright.instances.io.files import load_text

MAX_ACTIVITIES = 10_000


def read_psplib(file: str | os.PathLike[str]) -> Round:
    """Turn a project of PSPLIB into a round: an activity is a job, each of its modes an option.

    Renewable resources are those of one host, R1, R2 ... An activity of no duration is none: who
    waits for it waits for those that it waits for.

    Raises
    ------
    InvalidInputError
        It is no such project, or has resources that do not renew.
    """
    name = os.fspath(file)
    try:
        return _round(load_text(file).splitlines(), Path(name).stem)
    except InvalidInputError as error:
        raise error.inside(name) from None


def _round(lines: list[str], stem: str) -> Round:
    numbers = [[int(word) for word in line.split() if word.isdecimal()] for line in lines]
    sections: dict[str, int] = {}
    for i, line in enumerate(lines):
        for title in ("PRECEDENCE", "REQUESTS", "RESOURCEAVAIL"):
            if line.strip().upper().startswith(title):
                sections[title] = i
    if len(sections) < 3:
        raise InvalidInputError(
            "expected a project of PSPLIB, with precedence relations, requests and availabilities"
        )
    available = next((row for row in numbers[sections["RESOURCEAVAIL"] + 2 :] if row), [])
    header = lines[sections["RESOURCEAVAIL"] + 1].split()
    if "N" in header or "D" in header:
        raise InvalidInputError("expected renewable resources alone")
    before: dict[int, list[int]] = {}
    for row in numbers[sections["PRECEDENCE"] + 2 : sections["REQUESTS"]]:
        if row:
            before.setdefault(row[0], [])
            for following in row[3:]:
                before.setdefault(following, []).append(row[0])
    modes = _modes(numbers[sections["REQUESTS"] + 2 : sections["RESOURCEAVAIL"]], len(available))
    if not modes or len(modes) > MAX_ACTIVITIES or modes.keys() != before.keys():
        raise InvalidInputError(
            f"expected 1 to {MAX_ACTIVITIES:,} activities, each with relations and requests"
        )
    jobs = [_job(number, modes, before) for number in modes if max(m[0] for m in modes[number])]
    capacity = {f"R{k}": amount for k, amount in enumerate(available, 1)}
    return Round.of(
        {"hosts": [{"name": "project", "gpus": 0, "resources": capacity}]},
        jobs,
        policy={"formulation": "stages", "terms": ["makespan"]},
        name=stem,
    )


def _modes(rows: list[list[int]], resources: int) -> dict[int, list[list[int]]]:
    """Return duration and requests of each mode, by activity; later modes repeat no number."""
    modes: dict[int, list[list[int]]] = {}
    last = 0
    for row in rows:
        if len(row) == resources + 3:
            last = row[0]
        elif len(row) != resources + 2 or not last:
            continue
        modes.setdefault(last, []).append(row[-resources - 1 :])
    return modes


def _job(number: int, modes: dict[int, list[list[int]]], before: dict[int, list[int]]) -> Any:
    after, waiting = set[int](), list(before[number])
    seen = set(waiting)
    while waiting:
        one = waiting.pop()
        if max(mode[0] for mode in modes[one]):
            after.add(one)
        else:
            waiting += [k for k in before[one] if k not in seen]
            seen.update(before[one])
    return {
        "name": f"a{number}",
        "options": [
            {"groups": [{"gpu": 0, "resources": {f"R{k}": r for k, r in enumerate(mode[1:], 1)}}]}
            for mode in modes[number]
        ],
        "stage": {
            "task_s": [max(1, mode[0]) for mode in modes[number]],
            "after": [f"a{k}" for k in sorted(after)],
        },
    }
