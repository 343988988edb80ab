"""The rule about plan sections: each kind has a form, and an unknown kind fails."""

from __future__ import annotations

from collections.abc import Iterator

from placewright.instances.errors import value_text
from placewright.instances.policies import POLICIES
from placewright.instances.verify.policies import RULES, SectionForm
from placewright.instances.verify.reading import Reading
from placewright.instances.verify.result import Finding, Rule
from placewright.instances.verify.rules.cells import cells
from placewright.instances.verify.rules.gang import collectives, moves, shares

SECTIONS: dict[str, SectionForm] = {
    moves.KIND: moves.form,
    shares.KIND: shares.form,
    cells.KIND: cells.form,
    collectives.KIND: collectives.form,
}
"""The form of each section that plans of any policy may have, by its kind."""


def section(reading: Reading) -> Iterator[Finding]:
    """Require that every section is of a kind that the policy's plans may have, in its form."""
    formulation = reading.round.policy.formulation
    forms = {**SECTIONS, **RULES[formulation].forms}
    others = {kind for spec in POLICIES.values() for kind in spec.plan_sections}
    for index, entry in enumerate(reading.plan.sections):
        kind = entry.get("kind")
        form = forms.get(kind) if isinstance(kind, str) else None
        if form is not None:
            yield from form(reading, entry, ("sections", index))
        elif isinstance(kind, str) and kind in others:
            yield Finding(
                ("sections", index),
                f"section {kind!r} is not for policy {formulation!r}; expected none",
            )
        else:
            yield Finding(
                ("sections", index, "kind"),
                f"section kind {value_text(kind)} is unknown; "
                f"expected {', '.join(sorted({*SECTIONS, *others}))}",
            )


RULES_OF_SECTIONS: tuple[Rule[Reading], ...] = (Rule("section", section),)
