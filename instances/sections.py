"""Sections of a Round: who may carry what. A section that the policy does not use is an error.

A policy that needs a section registers it here beside its own document file; the core reads none.
"""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError

from placewright.instances.errors import InvalidInputError, value_text
from placewright.instances.sharing import Sharing

SECTION_POLICIES = {"sharing": "interleaving", "leases": "deadline", "geo": "geo"}


def refuse_unused_sections(raw: Any) -> Any:
    """Return a raw Round unchanged.

    Raises
    ------
    InvalidInputError
        It has a section that its policy does not use.
    """
    if isinstance(raw, dict):
        formulation = _formulation(raw.get("policy"))
        for section, owner in SECTION_POLICIES.items():
            if section in raw and formulation != owner and not _says_nothing(raw[section]):
                raise InvalidInputError(
                    f"section not used by policy {value_text(formulation)}; "
                    "expected the round without it",
                    path=(section,),
                    value=raw[section],
                )
    return raw


def _formulation(policy: Any) -> Any:
    """Return the formulation of a policy, read or raw."""
    if isinstance(policy, dict):
        return policy.get("formulation", "gang")
    return getattr(policy, "formulation", "gang")


def _says_nothing(section: Any) -> bool:
    """Whether a section has all fields, at their defaults: so a round without it is dumped."""
    if isinstance(section, dict) and section.keys() == Sharing.model_fields.keys():
        try:
            return Sharing.model_validate(section) == Sharing()
        except ValidationError:
            return False
    return isinstance(section, Sharing) and section == Sharing()
