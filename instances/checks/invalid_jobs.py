"""Lenient checks: pending jobs that make no sense wait, and the round is not refused for them."""

from __future__ import annotations

from collections.abc import Sequence

from placewright.instances.checks.round import check_round, is_checked, trusted
from placewright.instances.documents.plan import MAX_MESSAGE
from placewright.instances.documents.round import Round
from placewright.instances.errors import ENTRY, InvalidInputError, Path, merged


def checked(round_: Round) -> Round:
    """Return a round that is known to make sense: every public function begins with this.

    Of a round with invalid jobs it is found out again which are, so the result is another object.

    Raises
    ------
    InvalidInputError
        It is no Round, or one that a loader would refuse; with the loader's words.
    """
    if not isinstance(round_, Round):
        expected, given = "expected a Round, as loaders return it", type(round_).__name__
        raise InvalidInputError(expected, path=("round",), value=given)
    if round_.invalid:
        return with_invalid_jobs(round_)
    check_round(round_)
    return round_


def with_invalid_jobs(round_: Round) -> Round:
    """Return a round that says which of its pending jobs are invalid; the others are legal.

    Invalid is a pending job with an error at any of its fields but its name, such as an unknown
    tenant.

    Raises
    ------
    InvalidInputError
        All errors elsewhere: in running jobs, or outside of jobs.
    """
    if is_checked(round_):
        return round_
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
            messages = {name: _message(of) for name, of in found.items()}
            return trusted(round_.with_invalid(messages))


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
