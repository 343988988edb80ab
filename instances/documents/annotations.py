"""Annotations: texts by key that are carried through, and that no decision depends on."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from placewright.instances.documents.base import Name

MAX_ANNOTATIONS = 256
MAX_TEXT = 2**20
"""Characters of one annotation."""

LINE = r"^[^\x00-\x1f\x7f-\x9f]*$"
_Line = Annotated[str, Field(strict=True, max_length=MAX_TEXT, pattern=LINE)]
Annotations = Annotated[dict[Name, _Line], Field(max_length=MAX_ANNOTATIONS)]
"""Texts of one line each, without control characters, by key."""
