"""Tuning parameters that a test replaces."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import formulation_parameters
import pytest

from placewright.formulations.gang import parameters


def set_parameters(monkeypatch: pytest.MonkeyPatch, package: str, **values: Any) -> None:
    """Replace parameters of one package of the gang formulation, as `models`, for this test."""
    changed = replace(getattr(parameters.PARAMETERS, package), **values)
    formulation_parameters.set_parameters(monkeypatch, parameters, **{package: changed})
