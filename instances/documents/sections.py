"""Sections of a Round: one that the policy does not use is an error.

A section is a field of the Round with a document of its own; which policies carry it is said by
their `PolicySpec`.
"""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError

from placewright.instances.documents.base import Document
from placewright.instances.documents.geo import Geo
from placewright.instances.documents.leases import Leases
from placewright.instances.documents.sharing import Sharing
from placewright.instances.errors import InvalidInputError, value_text
from placewright.instances.policies import GANG, POLICIES

_DOCUMENTS: dict[str, type[Document]] = {"sharing": Sharing, "leases": Leases, "geo": Geo}


def refuse_unused_sections(raw: Any) -> Any:
    """Return a raw Round unchanged.

    Raises
    ------
    InvalidInputError
        It has a section that its policy does not use.
    """
    if isinstance(raw, dict):
        formulation = _formulation(raw.get("policy"))
        spec = POLICIES.get(formulation) if isinstance(formulation, str) else None
        legal = () if spec is None else spec.sections
        for section in _DOCUMENTS:
            if section in raw and section not in legal and not _says_nothing(section, raw):
                raise InvalidInputError(
                    f"section not used by policy {value_text(formulation)}; "
                    "expected the round without it",
                    (section,),
                    raw[section],
                )
    return raw


def _formulation(policy: Any) -> Any:
    """Return the formulation of a policy, read or raw."""
    if isinstance(policy, dict):
        return policy.get("formulation", GANG.name)
    return getattr(policy, "formulation", GANG.name)


def _says_nothing(name: str, raw: dict[str, Any]) -> bool:
    """Whether a section equals its default, as in a dumped round that never had it."""
    section, document = raw[name], _DOCUMENTS[name]
    if isinstance(section, dict) and section.keys() == document.model_fields.keys():
        try:
            return document.model_validate(section) == document()
        except ValidationError:
            return False
    return isinstance(section, document) and section == document()
