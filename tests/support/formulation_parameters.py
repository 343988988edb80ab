"""Tuning parameters of a formulation that a test replaces."""

from __future__ import annotations

from dataclasses import replace
from types import ModuleType
from typing import Any

import pytest


def set_parameters(monkeypatch: pytest.MonkeyPatch, parameters: ModuleType, **values: Any) -> None:
    """Replace parameters of a formulation's module `parameters` for this test."""
    monkeypatch.setattr(parameters, "PARAMETERS", replace(parameters.PARAMETERS, **values))
