"""The same examples in every run: a change that fails here fails for everybody."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("repeatable", derandomize=True)
settings.load_profile("repeatable")
