"""The rule about plan sections: each kind has its own check here, an unknown kind fails."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from placewright.instances.io.errors import value_text
from placewright.instances.verify.reading import Reading
from placewright.instances.verify.result import Finding, Rule
from placewright.instances.verify.rules.cells import cells
from placewright.instances.verify.rules.deadline import leases
from placewright.instances.verify.rules.gang import collectives, moves, shares
from placewright.instances.verify.rules.geo import sections
from placewright.instances.verify.rules.interleaving import groups, together

SectionCheck = Callable[[Reading, Mapping[str, Any], tuple[str | int, ...]], Iterable[Finding]]

# A policy with a section of its own registers the section's check here, by its kind.
SECTIONS: dict[str, SectionCheck] = {
    moves.KIND: moves.form,
    shares.KIND: shares.form,
    cells.KIND: cells.form,
    collectives.KIND: collectives.form,
    together.KIND: groups.form,
    leases.KIND: leases.form,
    **sections.FORMS,
}


def section(reading: Reading) -> Iterator[Finding]:
    """Require that every section is of a known kind and passes that kind's check."""
    for index, entry in enumerate(reading.plan.sections):
        kind = entry.get("kind")
        check = SECTIONS.get(kind) if isinstance(kind, str) else None
        if check is None:
            yield Finding(
                ("sections", index, "kind"),
                f"section kind {value_text(kind)} is unknown; "
                f"expected {', '.join(sorted(SECTIONS))}",
            )
        else:
            yield from check(reading, entry, ("sections", index))


RULES: tuple[Rule[Reading], ...] = (Rule("section", section),)
