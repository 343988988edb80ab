"""A project of PSPLIB becomes a round of policy `stages`: activities wait for others.

Kolisch and Sprecher, "PSPLIB - a project scheduling problem library", EJOR 96, 1997; its files end
in `.sm` (one mode for each activity) or `.mm` (several).
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from placewright.instances.checks.round import check_round
from placewright.instances.documents.base import NAME
from placewright.instances.documents.round import Round
from placewright.instances.errors import NOT_SHOWN, InvalidInputError
from placewright.instances.io.files import load_text

MAX_ACTIVITIES = 10_000
MOST_DIGITS = 12
_SECTIONS = "PROJECT INFORMATION", "PRECEDENCE", "REQUESTS", "RESOURCEAVAIL"


def read_psplib(file: str | os.PathLike[str]) -> Round:
    """Turn a project of PSPLIB into a round: an activity is a job, each of its modes an option.

    Renewable resources are those of one host, R1, R2 ... An activity of no duration is none: who
    waits for it waits for those that it waits for.

    Raises
    ------
    InvalidInputError
        It is no such project, has release dates, or resources that do not renew.
    """
    name = os.fspath(file)
    stem = Path(name).stem
    try:
        return _round(load_text(file), stem if re.fullmatch(NAME, stem) else "project")
    except InvalidInputError as error:
        raise error.inside(name) from None


def _round(text: str, name: str) -> Round:
    rows = _sections(text)
    head, *amounts = rows["RESOURCEAVAIL"]
    if {"N", "D"} & set(head.words):
        raise _refused("resources", head.line, "expected renewable ones alone", head.words)
    if not amounts:
        raise _refused("resources", head.line, "expected a line with what there is of each")
    available = amounts[0].numbers("resources")
    before, numbers_of_modes = _relations(rows["PRECEDENCE"][1:])
    modes = _modes(rows["REQUESTS"][1:], len(available), numbers_of_modes)
    jobs = [_job(number, modes, before) for number in modes if modes[number][0][0]]
    round_ = Round.of(
        {"hosts": [{"name": "project", "gpus": 0, "resources": _amounts(available)}]},
        jobs,
        policy={"formulation": "stages", "terms": ["makespan"]},
        name=name,
    )
    check_round(round_)
    return round_


@dataclass(frozen=True)
class _Row:
    """The words of a line, numbered from 1."""

    line: int
    words: list[str]

    def numbers(self, what: str) -> list[int]:
        """Return the words as whole numbers."""
        for word in self.words:
            if not (word.isascii() and word.isdecimal() and len(word) <= MOST_DIGITS):
                raise _refused(what, self.line, "expected whole numbers from 0", word)
        return [int(word) for word in self.words]


def _refused(what: str, line: int, expected: str, value: object = NOT_SHOWN) -> InvalidInputError:
    error = InvalidInputError(expected, (what,), value)
    error.line = line
    return error


def _sections(text: str) -> dict[str, list[_Row]]:
    """Return the lines of each section that is read, its head first, without rules."""
    found: dict[str, list[_Row]] = {}
    now: list[_Row] = []
    for line, written in enumerate(text.splitlines(), 1):
        words = written.split()
        title = " ".join(words).upper()
        if not set(title) - set("*- "):
            continue
        section = next((one for one in _SECTIONS if title.startswith(one)), None)
        if section is not None or title.endswith(":"):
            now = found.setdefault(section or title, [])
        else:
            now.append(_Row(line, words))
    for row in found.get(_SECTIONS[0], [])[1:]:
        if row.numbers("projects")[2:3] not in ([], [0]):
            raise _refused("projects", row.line, "release date; expected 0", int(row.words[2]))
    if any(len(found.get(section, [])) < 2 for section in _SECTIONS[1:]):
        raise InvalidInputError(
            "expected a project of PSPLIB, with precedence relations, requests and availabilities"
        )
    return found


def _relations(rows: list[_Row]) -> tuple[dict[int, list[int]], dict[int, int]]:
    """Return whom each activity waits for, and how many modes it has."""
    before: dict[int, list[int]] = {}
    modes: dict[int, int] = {}
    lines = []
    for row in rows:
        number, *rest = row.numbers("successors")
        if len(rest) < 2 or len(rest) - 2 != rest[1]:
            expected = "expected its number, those of modes and of successors, then each of these"
            raise _refused("successors", row.line, expected, " ".join(row.words))
        if number in modes:
            raise _refused("successors", row.line, "given twice; expected each once", number)
        before.setdefault(number, [])
        modes[number] = rest[0]
        lines += [(row.line, following) for following in rest[2:]]
        for following in rest[2:]:
            before.setdefault(following, []).append(number)
    for line, following in lines:
        if following not in modes:
            expected = "unknown activity; expected one that has a line here"
            raise _refused("successors", line, expected, following)
    return before, modes


def _modes(
    rows: list[_Row], resources: int, numbers_of_modes: dict[int, int]
) -> dict[int, list[list[int]]]:
    """Return duration and requests of each mode, by activity; later modes repeat no number."""
    modes: dict[int, list[list[int]]] = {}
    last = 0
    for row in rows:
        numbers = row.numbers("requests")
        if len(numbers) == resources + 3:
            last = numbers.pop(0)
            if last in modes or last not in numbers_of_modes:
                expected = "expected each activity of the precedence relations, once"
                raise _refused("requests", row.line, expected, last)
        mine = modes.setdefault(last, [])
        if len(numbers) != resources + 2 or numbers[0] != len(mine) + 1 or not last:
            expected = f"expected activity, mode {len(mine) + 1}, duration, {resources} requests"
            raise _refused("requests", row.line, expected, " ".join(row.words))
        mine.append(numbers[1:])
        if not numbers[1] and numbers_of_modes[last] > 1:
            raise _refused("duration", row.line, "expected at least 1 where modes differ", 0)
    for number, count in numbers_of_modes.items():
        if count != len(modes.get(number, [])) or not count:
            value = len(modes.get(number, []))
            problem = f"modes of activity {number}; expected {count}, and at least 1"
            raise InvalidInputError(problem, ("requests",), value)
    if len(modes) > MAX_ACTIVITIES:
        problem = f"activities; expected at most {MAX_ACTIVITIES:,}"
        raise InvalidInputError(problem, ("requests",), len(modes))
    return modes


def _amounts(amounts: Sequence[int]) -> dict[str, int]:
    return {f"R{k}": amount for k, amount in enumerate(amounts, 1)}


def _job(number: int, modes: dict[int, list[list[int]]], before: dict[int, list[int]]) -> Any:
    after, waiting = set[int](), list(before[number])
    seen = set(waiting)
    while waiting:
        one = waiting.pop()
        if modes[one][0][0]:
            after.add(one)
        else:
            waiting += [k for k in before[one] if k not in seen]
            seen.update(before[one])
    return {
        "name": f"a{number}",
        "options": [
            {"groups": [{"gpu": 0, "resources": _amounts(mode[1:])}]} for mode in modes[number]
        ],
        "stage": {
            "task_s": [mode[0] for mode in modes[number]],
            "after": [f"a{k}" for k in sorted(after)],
        },
    }
