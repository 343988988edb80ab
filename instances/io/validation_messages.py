"""Validation messages: errors of form and of references, with the lines on which they stand."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from json import JSONDecoder
from typing import Any

import yaml
from pydantic import ValidationError

from placewright.instances.checks.round import in_whole_round
from placewright.instances.documents.round import Round
from placewright.instances.errors import ENTRY, InvalidInputError, Path

# Lines of a JSON or YAML text on which paths of its document stand, for messages of errors.
#
# The readers keep no positions, so that they are fast: this looks for a few paths afterwards.


_BETWEEN = re.compile(r"[\s,:]*")


def lines_of(text: str, paths: Collection[Path]) -> dict[Path, int]:
    """Return the line, from 1, of the key or list entry that each path leads to.

    A path that goes on where the document ends has the line of its last part that is there.
    Empty where the text cannot be read.
    """
    try:
        if text.lstrip().startswith(("{", "[")):
            starts = _Json(text, paths).starts
            return {path: text.count("\n", 0, start) + 1 for path, start in starts.items()}
        return _yaml_lines(text, paths)
    except (ValueError, RecursionError, yaml.YAMLError):
        return {}


class _Json:
    """Looks for paths; whatever none of them leads through, the decoder skips."""

    def __init__(self, text: str, paths: Iterable[Path]) -> None:
        self.starts: dict[Path, int] = {}
        self._text, self._skip = text, JSONDecoder(strict=False).raw_decode
        self._value(self._next(0), (), set(paths))

    def _next(self, at: int) -> int:
        found = _BETWEEN.match(self._text, at)
        return at if found is None else found.end()

    def _value(self, at: int, here: Path, paths: set[Path]) -> int:
        """Read the value at `at`, to which the path `here` leads, and return where it ends."""
        deeper = {path for path in paths if len(path) > len(here)}
        if not deeper or self._text[at] not in "{[":
            return self._skip(self._text, at)[1]
        closing = "}" if self._text[at] == "{" else "]"
        at, index = self._next(at + 1), 0
        while self._text[at : at + 1] != closing:
            start, part = at, index  # type: int, str | int
            if closing == "}":
                part, at = self._skip(self._text, at)
                at = self._next(at)
            wanted = {path for path in deeper if path[len(here)] == part}
            self.starts.update(dict.fromkeys(wanted, start))
            at = self._next(self._value(at, (*here, part), wanted))
            index += 1
        return at + 1


@dataclass(slots=True)
class _Open:
    """A mapping or list that is being read, and the paths that lead into it."""

    paths: set[Path]
    part: str | int | None  # the key or index that was read last; None where a key comes next


def _yaml_lines(text: str, paths: Iterable[Path]) -> dict[Path, int]:
    lines: dict[Path, int] = {}
    containers: list[_Open] = []
    wanted = set(paths)  # those that lead to the next value
    event: Any  # marks of all events are there, although their type says otherwise
    for event in yaml.parse(text, Loader=yaml.CSafeLoader):
        inner = containers[-1] if containers else None
        if isinstance(event, yaml.CollectionEndEvent):
            containers.pop()
            inner = containers[-1] if containers else None
        elif not isinstance(event, yaml.NodeEvent):
            continue
        elif inner is not None and (inner.part is None or isinstance(inner.part, int)):
            if inner.part is not None:
                inner.part += 1
            elif isinstance(event, yaml.ScalarEvent):
                inner.part = event.value
            else:
                raise ValueError("a key that is not text")
            depth = len(containers) - 1
            wanted = {
                path for path in inner.paths if len(path) > depth and path[depth] == inner.part
            }
            lines.update(dict.fromkeys(wanted, event.start_mark.line + 1))
            if isinstance(inner.part, str):
                continue  # its value comes next
        if isinstance(event, yaml.CollectionStartEvent):
            is_mapping = isinstance(event, yaml.MappingStartEvent)
            containers.append(_Open(wanted, None if is_mapping else -1))
        elif inner is not None and isinstance(inner.part, str):
            inner.part = None
    return lines


# References of a refused round: those of its well-formed jobs, beside the errors of form.


_ELSEWHERE = ("cluster", "host_sets", "policy", "reservations")
"""Parts of a round whose errors do not depend on which jobs it has."""


def reference_errors(
    raw: Any, forms: InvalidInputError, checked: Callable[[Round], Round]
) -> Iterator[InvalidInputError]:
    """Yield errors of a round without its jobs of a wrong form, with their paths in all of it.

    Nothing is said of what jobs left aside may have to do with: tenants' quotas of resources that
    they ask, conflicts with them, and running jobs if one of them runs.

    Parameters
    ----------
    raw
        The values of the round.
    forms
        Its errors of form; only if all are in jobs is anything yielded.
    checked
        Checks the references of a round, by raising.
    """
    if not all(one.path[:1] == ("jobs",) and one.path[1:] for one in forms.errors):
        return
    jobs, aside = raw["jobs"], {int(one.path[1]) for one in forms.errors}
    kept = [index for index in range(len(jobs)) if index not in aside]
    runs = [isinstance(job, dict) and "running" in job for job in jobs]
    unsure = any(runs[index] for index in aside)
    try:
        checked(Round.model_validate({**raw, "jobs": [jobs[index] for index in kept]}))
    except ValidationError:  # there were more errors of form than are looked for
        return
    except InvalidInputError as error:
        for one in error.errors:
            path = in_whole_round(one.path, kept)
            if path[:1] == ("jobs",) and len(path) > ENTRY:
                told = not (unsure and runs[int(path[1])])
            else:
                told = path[:1] in {(part,) for part in _ELSEWHERE}
            if told:
                yield one.at(path)
