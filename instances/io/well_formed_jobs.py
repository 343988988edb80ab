"""References of a refused round: those of its well-formed jobs, beside the errors of form."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from pydantic import ValidationError

from placewright.instances.checks.round import in_whole_round
from placewright.instances.documents.round import Round
from placewright.instances.errors import ENTRY, InvalidInputError

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
