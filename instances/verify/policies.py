"""What the verifier has for each policy: rules, terms, forms of sections; and what forms share."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar

from pydantic import ValidationError

from placewright.instances.documents.base import Document
from placewright.instances.documents.form_errors import invalid_input
from placewright.instances.documents.round import Round
from placewright.instances.errors import Path, value_text
from placewright.instances.policies import POLICIES, PolicyRegistry
from placewright.instances.verify.reading import ClassTerm, Reading
from placewright.instances.verify.result import Finding, Rule

SectionForm: TypeAlias = Callable[
    [Reading, Mapping[str, Any], tuple[str | int, ...]], Iterable[Finding]
]
"""Yields what is wrong with the form of a section: the reading, the section, and its path."""

Recompute: TypeAlias = Callable[[Reading], int | Mapping[str, int]]
"""Returns the value of a term, or those of the terms that one name in the policy stands for."""


def _as_read(reading: Reading) -> Reading:
    """Return a reading as it is."""
    return reading


def _no_classes(round_: Round) -> Mapping[str, ClassTerm]:  # noqa: ARG001
    """Return no terms of priority classes: of a policy that has none."""
    return {}


@dataclass(frozen=True, slots=True)
class PolicyRules:
    """What the verifier applies to plans of a policy, beside the rules that hold for any.

    Parameters
    ----------
    terms
        How each legal term is recomputed.
    rules
        In the order in which they are applied.
    forms
        The form of each section that only some policies have, by its kind.
    read
        Returns a reading with what these sections say.
    classes
        Returns the terms of priority classes, in a round.
    """

    terms: Mapping[str, Recompute]
    rules: tuple[Rule[Reading], ...] = ()
    forms: Mapping[str, SectionForm] = field(default_factory=dict)
    read: Callable[[Reading], Reading] = _as_read
    classes: Callable[[Round], Mapping[str, ClassTerm]] = _no_classes


RULES: PolicyRegistry[PolicyRules] = PolicyRegistry(
    {
        "gang": "placewright.instances.verify.rules.gang.policy:POLICY",
        "interleaving": "placewright.instances.verify.rules.interleaving:POLICY",
        "deadline": "placewright.instances.verify.rules.deadline.policy:POLICY",
        "geo": "placewright.instances.verify.rules.geo.policy:GEO",
        "replicas": "placewright.instances.verify.rules.geo.policy:REPLICAS",
        "stages": "placewright.instances.verify.rules.stages:POLICY",
    }
)
"""The rules and terms of each policy."""


def policy_rules() -> tuple[Rule[Reading], ...]:
    """Return the rules of all policies, each once."""
    rules = (rule for name in POLICIES for rule in RULES[name].rules)
    return tuple({rule.id: rule for rule in rules}.values())


# Sections of plans: where each kind stands, that it is given once, and what its fields may be.


Section = TypeVar("Section", bound=Document)


def given(reading: Reading, kind: str) -> list[int]:
    """Return which sections of a plan are of a kind."""
    return [i for i, entry in enumerate(reading.plan.sections) if entry.get("kind") == kind]


def one_section(reading: Reading, kind: str, missing: str = "") -> Iterator[Finding]:
    """Require a section of a kind at most once; without any say what is missing, if that is."""
    indices = given(reading, kind)
    if missing and not indices:
        yield Finding(("sections",), f"{missing}; expected one")
    for index in indices[1:]:
        yield Finding(
            ("sections", index), f"section {kind!r} is given more than once; expected one"
        )


def first_of(reading: Reading, kind: str, document: type[Section]) -> tuple[Path, Section] | None:
    """Return the first section of a kind and where it stands, None if it cannot be read."""
    for index in given(reading, kind)[:1]:
        try:
            return ("sections", index), document.model_validate(reading.plan.sections[index])
        except ValidationError:
            return None
    return None


def document_form(
    document: type[Document], entry: Mapping[str, Any], path: Path
) -> Iterator[Finding]:
    """Require the fields of a document."""
    try:
        document.model_validate(entry)
    except ValidationError as error:
        found = invalid_input(error, document)
        said = f"{value_text(found.value)}; " if found.show_value else ""
        yield Finding((*path, *found.path), f"{said}{found.expected}")


def unknown_fields(
    entry: Mapping[str, Any], known: Collection[str], path: Path, expected: str, where: str = ""
) -> Iterator[Finding]:
    """Refuse other fields than the known ones, of an entry or, as `where` says, of a section."""
    for name in entry:
        if name not in known:
            yield Finding(
                (*path, name), f"field {value_text(name)}{where} is unknown; expected {expected}"
            )
