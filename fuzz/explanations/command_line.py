"""Corrections applied through the command line: what it writes is verified and starts the job."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from unittest.mock import patch

from placewright.cli.app import main
from placewright.explain.conflict import question_of
from placewright.explain.corrections.find import Correction
from placewright.explain.facts.fact import FACTS, World, says_yes
from placewright.instances.documents.plan import Plan
from placewright.instances.documents.round import Round
from placewright.instances.io.files import load_plan, load_round, write
from placewright.rounds.settings import Settings
from placewright.solver import InProcess

DONE = {0, 4}
"""Exit codes of a plan that is written: 4 where it breaks a promise, as lost capacity may force."""

INTERRUPTED = {6, 129, 130, 143}
"""Exit codes of a verb that was interrupted."""


class CommandLine:
    """Runs verbs in this process, with files in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def faults(self, round_: Round, job: str, found: Sequence[Correction]) -> Iterator[str]:
        """Yield which corrections of a round do not give a verified plan, or start nothing.

        Each is given to `whatif` as edits; `verify` accepts the plan of the edited round; and
        `solve` and `verify` that plan there by which the job starts while nobody moves.
        """
        for one in found:
            if one.edits.edits:
                for fault in self._of_one(round_, job, one):
                    yield f"{one.text}: {fault}"

    def _of_one(self, round_: Round, job: str, one: Correction) -> Iterator[str]:
        before, edits = self._folder / "round.json", self._folder / "edits.json"
        after, plan = self._folder / "edited.json", self._folder / "plan.json"
        write(round_, before)
        edits.write_text(json.dumps(one.document()["edits"]))
        code, said = _run(
            *("whatif", before, "--edits", edits, "--edited", after, "-o", plan),
            *("--time-limit", "2s", "--lenient"),
        )
        if code not in DONE:
            yield f"whatif ends with {code}: {said}"
            return
        code, said = _run("verify", after, plan, "--lenient")
        if code not in DONE:
            yield f"verify refuses the plan of whatif: {said}"
        edited = load_round(after, lenient=True).valid_part()
        policy = FACTS[edited.policy.formulation]
        question = question_of(World(policy.base(edited, job), job))
        yield from self._starts(question, job)

    def _starts(self, question: Round, job: str) -> Iterator[str]:
        asked, answer = self._folder / "question.json", self._folder / "answer.json"
        if question.policy.vacate:  # which a file may have with this term alone
            policy = question.policy.model_copy(
                update={"terms": (*question.policy.terms, "remaining")}
            )
            question = question.model_copy(update={"policy": policy})
        write(question, asked)
        code, said = _run("solve", asked, "-o", answer, "--gap", "0", "--time-limit", "5s")
        if code not in DONE:
            yield f"solve ends with {code}: {said}"
            return
        plan: Plan = load_plan(answer)
        if not says_yes(question, plan, job):
            yield "no plan of the edited round starts the job"
        code, said = _run("verify", asked, answer)
        if code != 0:
            yield f"verify refuses the plan that starts the job: {said}"


def _run(*args: str | Path) -> tuple[int, str]:
    """Run a verb; return its exit code and what it said.

    Raises
    ------
    KeyboardInterrupt
        If it was interrupted.
    """
    out, err = StringIO(), StringIO()
    # To start solver processes would take most of the time.
    in_process = patch.object(Settings, "solver", lambda _: InProcess())
    with redirect_stdout(out), redirect_stderr(err), in_process:
        code = main([str(arg) for arg in args])
    if code in INTERRUPTED:
        raise KeyboardInterrupt
    return code, " ".join((err.getvalue() or out.getvalue()).split())
