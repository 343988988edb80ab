"""What the verifier has for each policy: its rules, the forms of its sections, and its terms."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from placewright.instances.documents.round import Round
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
    }
)
"""The rules and terms of each policy."""


def policy_rules() -> tuple[Rule[Reading], ...]:
    """Return the rules of all policies, each once."""
    rules = (rule for name in POLICIES for rule in RULES[name].rules)
    return tuple({rule.id: rule for rule in rules}.values())
