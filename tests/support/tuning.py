"""Other tuning constants of policy `replicas` in a test."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from placewright.formulations.replicas import parameters


def tune(monkeypatch: pytest.MonkeyPatch, **values: Any) -> None:
    """Use other values of some parameters until the test ends."""
    monkeypatch.setattr(parameters, "PARAMETERS", replace(parameters.PARAMETERS, **values))
