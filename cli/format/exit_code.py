"""Exit codes of the command line: one enumeration, each code with its one meaning."""

from __future__ import annotations

from enum import IntEnum, unique
from typing import Self


@unique
class ExitCode(IntEnum):
    """How a run ended. docs/glossary.md has these meanings as its table."""

    meaning: str

    def __new__(cls, number: int, meaning: str) -> Self:
        """Make a code with its meaning."""
        made = int.__new__(cls, number)
        made._value_, made.meaning = number, meaning
        return made

    DONE = 0, "done; `solve`: a verified plan"
    INTERNAL = 1, "internal error: a bug, please report it"
    USAGE = 2, "wrong usage"
    INVALID = (
        3,
        "a document, file or stream that cannot be used; no file was written",
    )
    BROKEN = 4, "a promise of an earlier round is broken; the plan was written and names it"
    GAP_MISSED = 5, "`--gap` was given and missed; the plan was written"
    INTERRUPTED = 6, "interrupted before there was a result; nothing was written"
    VIOLATIONS = 7, "a placement breaks a rule"
    MACHINE = (
        8,
        "a fault of the machine, such as too little memory; nothing was written",
    )
    UNDECIDED = 9, "`explain`: nothing could be decided within the limit"
    MISSING = 10, "a package that the verb needs is not installed; the line names the extra"
    REFUSED = 11, "the scheduler did not do all that it was asked: `watch slurm --release`"
    STATEMENTS = 12, "`verify`: the placement keeps all rules; what the plan says of it is wrong"
    GIVEN_UP = 13, "`watch`: too many looks in a row failed; stderr says why the last one did"
    HANGUP = 129, "interrupted by SIGHUP; the best plan so far was written"
    INTERRUPT = 130, "interrupted by SIGINT (Ctrl-C); the best plan so far was written"
    PIPE = 141, "who read standard output is gone, as after `head`; no line says so"
    TERMINATED = 143, "interrupted by SIGTERM; the best plan so far was written"
