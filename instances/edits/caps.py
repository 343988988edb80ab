"""Edits of caps: limits set, raised, lowered or taken away."""

from __future__ import annotations

from placewright.instances.derived.names import check_known
from placewright.instances.documents.caps import Cap, Measure
from placewright.instances.documents.edits import CapEdit
from placewright.instances.documents.round import Round
from placewright.instances.errors import InvalidInputError


def cap(round_: Round, edits: dict[str, CapEdit]) -> Round:
    """Change caps, by name."""
    for name in edits:
        check_known(name, round_.caps, "cap", (name,))
    changed = {
        name: _edited(name, one, edits[name]) if name in edits else one
        for name, one in round_.caps.items()
    }
    return round_ if changed == round_.caps else round_.model_copy(update={"caps": changed})


def _edited(name: str, cap: Cap, edit: CapEdit) -> Cap:
    have = cap.limits
    limits = {**have, **edit.to.limits}
    for field, sign in (("more", 1), ("less", -1)):
        for measure, change in getattr(edit, field).limits.items():
            path = (name, field, *measure.path)
            if measure not in have:
                raise InvalidInputError(
                    "no limit of it so far; expected to, with an amount",
                    path=path,
                    show_value=False,
                )
            limits[measure] += sign * change
            if limits[measure] < 0:
                raise InvalidInputError(
                    f"expected at most the cap, {measure.text(have[measure])}",
                    path=path,
                    value=measure.text(change),
                )
    known = [measure.key for measure in have]
    for i, key in enumerate(edit.without):
        check_known(key, known, "limit", (name, "without", i))
        del limits[Measure.of_key(key)]
    return Cap.of(limits)
