"""Lenient checks: pending jobs that make no sense wait, and the round is not refused for them."""

from __future__ import annotations

from collections.abc import Sequence

from placewright.instances.checks.round import check_round
from placewright.instances.documents.plan import MAX_MESSAGE
from placewright.instances.documents.round import Round
from placewright.instances.errors import ENTRY, InvalidInputError, Path, merged


def with_invalid_jobs(round_: Round) -> Round:
    """Return a round that says which of its pending jobs are invalid; the others are legal.

    Invalid is a pending job with an error at any of its fields but its name, such as an unknown
    tenant.

    Raises
    ------
    InvalidInputError
        All errors elsewhere: in running jobs, or outside of jobs.
    """
    found: dict[str, list[InvalidInputError]] = {}
    rest = round_
    while True:
        try:
            check_round(rest)
        except InvalidInputError as error:
            kept = [i for i, job in enumerate(round_.jobs) if job.name not in found]
            refused: list[InvalidInputError] = []
            for one in error.errors:
                name = _job(one.path, rest)
                if name is None:
                    refused.append(one.at(in_whole_round(one.path, kept)))
                else:
                    found.setdefault(name, []).append(one.at(one.path[ENTRY:]))
            if refused:
                raise merged(refused) from None
            # What is checked of a legal round only may find more.
            rest = round_.without_jobs(found)
        else:
            return round_.with_invalid({name: _message(of) for name, of in found.items()})


def _job(path: Path, round_: Round) -> str | None:
    """Return the pending job into whose fields a path leads, None if it leads elsewhere."""
    if path[:1] != ("jobs",) or len(path) <= ENTRY or path[ENTRY] == "name":
        return None
    job = round_.jobs[int(path[1])]
    return job.name if job.running is None else None


def in_whole_round(path: Path, kept: Sequence[int]) -> Path:
    """Return where a path of the round with the kept jobs alone leads in the whole round."""
    if path[:1] != ("jobs",) or len(path) < ENTRY:
        return path
    return ("jobs", kept[int(path[1])], *path[ENTRY:])


def _message(errors: list[InvalidInputError]) -> str:
    more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
    return errors[0].text()[: MAX_MESSAGE - len(more)] + more
