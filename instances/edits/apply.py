"""Edits applied to a round: one pure function for each verb, and the result checked like a file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from placewright.instances.checks.round import checked
from placewright.instances.documents.edits import Edit, Edits
from placewright.instances.documents.round import Round
from placewright.instances.edits import jobs, verbs
from placewright.instances.errors import InvalidInputError

_FUNCTIONS: Mapping[str, Callable[[Round, Any], Round]] = {
    "drain": verbs.drain,
    "fail": verbs.fail,
    "restore": verbs.restore,
    "release": verbs.release,
    "add": verbs.add,
    "gpu_links": verbs.gpu_links,
    "quota": verbs.quota,
    "cap": verbs.cap,
    "pool": verbs.pool,
    "limits": verbs.limits,
    "job": jobs.job,
    "remove": jobs.remove,
    "end": jobs.end,
    "submit": jobs.submit,
    "replicate": verbs.replicate,
    "at": verbs.at,
    "advance_s": verbs.advance,
}


def apply_edits(round_: Round, edits: Edits) -> Round:
    """Return the round with all edits made, in their order.

    Parameters
    ----------
    round_
        The round as it is.
    edits
        The changes. An edit that changes nothing leaves the round as it is.

    Raises
    ------
    InvalidInputError
        The round makes no sense; or an edit names what it does not have, or leads to one that makes
        none, and the path begins with `edits` and the index of the edit.
    """
    made = [checked(round_)]
    for i, edit in enumerate(edits.edits):
        made.append(_applied(made[-1], edit, i))
    if made[-1] == round_:
        return made[0]
    try:
        return checked(made[-1])
    except InvalidInputError:
        # Only now is it worth the time to look for the edit from which on the round is wrong.
        for i, one in enumerate(made[1:]):
            try:
                checked(one)
            except InvalidInputError as error:
                raise _of_edit(error, i, edits.edits[i]) from None
        raise


def edited(round_: Round, edits: Edits) -> Round:
    """Return the round with all edits made, and not checked: what leads to nonsense is not seen.

    Raises
    ------
    InvalidInputError
        An edit names what the round does not have.
    """
    for i, edit in enumerate(edits.edits):
        round_ = _applied(round_, edit, i)
    return round_


def _applied(round_: Round, edit: Edit, index: int) -> Round:
    try:
        return _FUNCTIONS[edit.verb](round_, edit.value)
    except InvalidInputError as error:
        raise error.under("edits", index, edit.verb) from None


def _of_edit(error: InvalidInputError, index: int, edit: Edit) -> InvalidInputError:
    return InvalidInputError(
        f"leads to an invalid round: {error.errors[0].text()}", ("edits", index, edit.verb)
    )
