"""Rules about certificates and sections: what a plan claims, and the forms that it has."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import isclose
from typing import NamedTuple

from placewright.instances.documents.plan import CLAIM_SHARPNESS, Certificate, TermResult
from placewright.instances.documents.policy import headline
from placewright.instances.errors import Path, value_text
from placewright.instances.io.digest import round_digest
from placewright.instances.policies import POLICIES, sense_of
from placewright.instances.verify.policies import RULES, SectionForm
from placewright.instances.verify.reading import ClassTerm, Reading
from placewright.instances.verify.result import Finding, rules
from placewright.instances.verify.rules import cells
from placewright.instances.verify.rules.gang import collectives, decisions, limits

# The rule about plan sections: each kind has a form, and an unknown kind fails.


SECTIONS: dict[str, SectionForm] = {
    decisions.KIND: decisions.form,
    limits.KIND: limits.form,
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


RULES_OF_SECTIONS = rules(section)


# Rules about certificates: the round, values, bounds, gaps and proofs that a plan claims.


GAP_TOLERANCE = 1e-9


class Claim(NamedTuple):
    """A plan's certificate beside the terms recomputed, which are in the policy's order.

    `classes` has the terms of priority classes.
    """

    certificate: Certificate
    terms: Mapping[str, int]
    classes: Mapping[str, ClassTerm]

    def results(self) -> Iterator[tuple[Path, TermResult]]:
        """Yield each term with its path."""
        for index, term in enumerate(self.certificate.terms):
            yield ("certificate", "terms", index), term


def same_round(reading: Reading) -> Iterator[Finding]:
    """Require that the plan was made for this round, if it says for which."""
    claimed = reading.plan.round
    if claimed is not None and claimed != (digest := round_digest(reading.given)):
        yield Finding(("round",), f"the plan is for round {claimed}; expected this round, {digest}")


def certificate_terms(claim: Claim) -> Iterator[Finding]:
    """Require the policy's terms in their order, each in its sense."""
    given = [term.name for term in claim.certificate.terms]
    if given != list(claim.terms):
        yield Finding(
            ("certificate", "terms"),
            f"terms {', '.join(given) or 'none'} are not the policy's; "
            f"expected {', '.join(claim.terms)}",
        )
    for path, term in claim.results():
        if term.name in claim.terms and term.sense != sense_of(term.name):
            yield Finding(
                (*path, "sense"),
                f"sense {term.sense} of term {term.name!r} is wrong; "
                f"expected {sense_of(term.name)}",
            )


def certificate_value(claim: Claim) -> Iterator[Finding]:
    """Require that each recorded value equals the one recomputed."""
    for path, term in claim.results():
        value = claim.terms.get(term.name)
        if value is not None and term.value != value:
            yield Finding(
                (*path, "value"),
                f"value {term.value} of term {term.name!r} is not the plan's; expected {value}",
            )


def certificate_classes(claim: Claim) -> Iterator[Finding]:
    """Require the precedences of each priority class, and what its jobs ask."""
    for path, term in claim.results():
        right = claim.classes.get(term.name)
        given = [(one.cells, one.entitled, one.priority) for one in term.precedences]
        levels = [tuple(one) for one in right.precedences] if right else []
        if given != levels:
            text = "; ".join(map(str, right.precedences)) if right else "none"
            yield Finding(
                (*path, "precedences"),
                f"precedences of term {term.name!r} are not those of its jobs; expected {text}",
            )
        asked = right.asked if right else None
        if term.asked != asked:
            yield Finding(
                (*path, "asked"),
                f"asked {_text(term.asked)} of term {term.name!r} is not what its jobs ask; "
                f"expected {_text(asked)}",
            )


def certificate_bound(claim: Claim) -> Iterator[Finding]:
    """Refuse a bound that the recomputed value beats, whether certified or claimed."""
    for path, term in claim.results():
        known = claim.terms.get(term.name)
        value = term.value if known is None else known
        for field, bound in (
            ("bound", term.bound),
            ("certified", term.certified),
            ("claimed", term.claimed),
        ):
            if bound is not None and (value > bound if term.sense == "max" else value < bound):
                side = "at least" if term.sense == "max" else "at most"
                yield Finding(
                    (*path, field),
                    f"{field} {bound} of term {term.name!r} is beaten by the plan; "
                    f"expected {side} the value {value}",
                )


def certificate_proof(claim: Claim) -> Iterator[Finding]:
    """Require the tighter of the certified and the claimed bound, and its name in `proof`."""
    tighter = {"max": min, "min": max}
    for path, term in claim.results():
        sources = {"certified": term.certified, "claimed": term.claimed}
        known = [bound for bound in sources.values() if bound is not None]
        best = tighter[term.sense](known) if known else None
        if term.bound != best:
            yield Finding(
                (*path, "bound"),
                f"bound {_text(term.bound)} of term {term.name!r} is not the tighter of certified "
                f"{_text(term.certified)} and claimed {_text(term.claimed)}; "
                f"expected {_text(best)}",
            )
        elif (term.proof is None) != (best is None) or (
            term.proof is not None and sources[term.proof] != best
        ):
            proofs = [source for source, bound in sources.items() if bound == best is not None]
            yield Finding(
                (*path, "proof"),
                f"proof {_text(term.proof)} is not that of term {term.name!r}'s bound; "
                f"expected {' or '.join(proofs) or 'none'}",
            )


def certificate_gap(claim: Claim) -> Iterator[Finding]:
    """Require gaps that follow from value and bound; the certificate's is that of its headline.

    Notes
    -----
    |bound - value| / max(|bound|, |value|), of priority classes |bound - value| / asked; 0 where
    they are equal, null without a bound. The headline is the first term, the priority classes if
    they come first, or all up to `admitted`; the largest gap counts.
    """
    for path, term in claim.results():
        yield from _compare((*path, "gap"), term.gap, _gap(term))
    lead = claim.certificate.terms[: len(headline(list(claim.terms)))]
    if lead:
        gaps = [gap for gap in map(_gap, lead) if gap is not None]
        right = max(gaps) if len(gaps) == len(lead) else None
        yield from _compare(("certificate", "gap"), claim.certificate.gap, right)


def certificate_status(claim: Claim) -> Iterator[Finding]:
    """Refuse status `optimal` with a term not proven, and a condition left unsaid.

    A term is proven if its value is the bound, or within `CLAIM_SHARPNESS` of a claimed one. From
    the third term on a bound is conditional unless the terms between the first and it are proven.
    """
    terms = claim.certificate.terms
    unproven = [index for index, term in enumerate(terms) if not _is_proven(term)]
    if claim.certificate.status == "optimal" and unproven:
        yield Finding(
            ("certificate", "status"),
            f"status optimal with term {terms[unproven[0]].name!r} not proven; "
            "expected within_gap or feasible",
        )
    for path, term in claim.results():
        if term.status == "optimal" and not _is_proven(term):
            yield Finding(
                (*path, "status"),
                f"status optimal of term {term.name!r}, which is not proven; "
                "expected within_gap or feasible",
            )
    place = {term.name: index for index, term in enumerate(terms)}
    for path, term in claim.results():
        index = place.get(term.name, 0)
        if (
            term.bound is not None
            and not term.conditional
            and any(0 < earlier < index for earlier in unproven)
        ):
            yield Finding(
                (*path, "conditional"),
                f"bound of term {term.name!r} is not marked conditional, but a term between the "
                "first and it is not proven; expected conditional: true",
            )


def _is_proven(term: TermResult) -> bool:
    if term.bound is None:
        return False
    sharpness = CLAIM_SHARPNESS if term.proof == "claimed" else 0
    return abs(term.bound - term.value) <= sharpness * max(abs(term.bound), abs(term.value))


def _gap(term: TermResult) -> float | None:
    if term.bound is None:
        return None
    if term.bound == term.value:
        return 0.0
    scale = max(abs(term.bound), abs(term.value)) if term.asked is None else max(term.asked, 1)
    return abs(term.bound - term.value) / scale


def _compare(path: Path, given: float | None, right: float | None) -> Iterator[Finding]:
    if given is None or right is None:
        same = given is right
    else:
        same = isclose(given, right, rel_tol=GAP_TOLERANCE, abs_tol=GAP_TOLERANCE)
    if not same:
        yield Finding(
            path, f"gap {_text(given)} does not follow from the bound; expected {_text(right)}"
        )


def _text(value: float | str | None) -> str:
    return "none" if value is None else str(value)


RULES_OF_CERTIFICATES = (
    *rules(certificate_terms, certificate_value, certificate_classes, certificate_bound),
    *rules(certificate_proof, certificate_gap, certificate_status),
)
