"""Dumps that people who run clusters reported, and what is answered of them.

A case is a dump (or what an edit makes of it), a question, and what must and must not stand in the
answer. Questions: `convert`, what is counted; `plan`, a line per job; `export`, what is written;
else the name of a job, which is explained, with what would help if `?` follows.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from placewright import Plan, Round, explain_job, solve_round
from placewright.cli.views.explanation import called_line, left_out_lines, lines
from placewright.instances.converters import LiveConversion
from placewright.instances.derived.source_words import jobs_called, left_out_called

REPORTED = Path(__file__).parents[3] / "shared" / "findings"
needs_reports = pytest.mark.skipif(not REPORTED.is_dir(), reason="reported dumps are not here")
Edit = Callable[[list[Any]], Iterable[Any]]
"""What makes other objects of those of a dump."""


class Case(NamedTuple):
    """What must stand in an answer, and what must not."""

    dump: str | tuple[str, Edit]
    asked: str
    must: Sequence[str] = ()
    never: Sequence[str] = ()
    movable: bool = False

    @property
    def name(self) -> str:
        """The name of the test."""
        dump = self.dump if isinstance(self.dump, str) else f"{self.dump[0]}~{_name(self.dump[1])}"
        return f"{dump}-{self.asked}{'-movable' if self.movable else ''}"


def _name(edit: Edit) -> str:
    return getattr(edit, "__name__", "edited")


def parametrised(cases: Iterable[Case]) -> pytest.MarkDecorator:
    """Return the cases as parameters of a test."""
    return pytest.mark.parametrize("case", [pytest.param(one, id=one.name) for one in cases])


def check(case: Case, made: LiveConversion, export: Callable[[Round, Plan], Any]) -> None:
    """Check the answer to a question."""
    said = answer(case.asked, made, export)
    for text in case.must:
        assert text in said, said
    for text in case.never:
        assert text not in said, said


def answer(asked: str, made: LiveConversion, export: Callable[[Round, Plan], Any]) -> str:
    """Return what is said to a question."""
    if asked == "convert":
        return "\n".join(made.book.lines())
    if asked == "plan":
        return "\n".join(
            " ".join((one.job, one.decision, *sorted({task.host for task in one.tasks})))
            for one in solve_round(made.round, isolation="none").decisions
        )
    if asked == "export":
        script = export(made.round, solve_round(made.round, isolation="none"))
        return "\n".join((script.text, *map(str, script.unsaid)))
    return explained(made.round, asked.removesuffix("?"), 6 * asked.endswith("?"))


def explained(round_: Round, name: str, corrections: int = 0) -> str:
    """Return what `explain --job` prints, of jobs that are left out, too."""
    called, left = jobs_called(round_, name), left_out_called(round_, name)
    if left and not called:
        return "\n".join(left_out_lines(name, left))
    found = explain_job(round_, None, name, corrections=corrections, isolation="none")
    asked = next(one for one in round_.jobs if one.name == found.job)
    line = called_line(name, found.job, [one.name for one in called], left)
    return "\n".join((line, *lines(asked, found, most=corrections)))


@cache
def objects(file: str) -> str:
    """Return the text of a file of the reports."""
    return (REPORTED / file).read_text()


def items(file: str) -> list[Any]:
    """Return the objects of a dump, which may be changed."""
    found: list[Any] = json.loads(objects(file))["items"]
    return found
