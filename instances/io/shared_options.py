"""Interning: equal options of a raw round are validated and kept once, and shared by jobs."""

from __future__ import annotations

import marshal
from typing import Any

from pydantic import ValidationError

from placewright.instances.documents.option import Option

EXACT = 2
"""Version of the bytes that name a raw value: equal ones only for values of equal types."""


def with_shared_options(jobs: Any) -> Any:
    """Return the raw jobs with validated, shared options; invalid options stay raw.

    Whoever reads the whole round tells what is wrong with them, and with jobs of another form.
    """
    if not isinstance(jobs, list | tuple):
        return jobs
    known: dict[bytes, Any] = {}
    return [
        {**job, "options": [_shared(option, known) for option in job["options"]]}
        if isinstance(job, dict) and isinstance(job.get("options"), list | tuple)
        else job
        for job in jobs
    ]


def _shared(option: Any, known: dict[bytes, Any]) -> Any:
    if not isinstance(option, dict):
        return option
    try:
        name = marshal.dumps(option, EXACT)
    except ValueError:  # too deep, or of types that no file has
        return option
    if name not in known:
        try:
            known[name] = Option.model_validate(option)
        except ValidationError:
            known[name] = option
    return known[name]
