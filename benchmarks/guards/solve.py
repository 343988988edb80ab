"""Decide rounds with the version of Placewright that is imported, by its public names alone."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from placewright import Plan, load_round, solve_round

__all__ = ["VALUE", "figures_of", "rows"]

VALUE = "value"
"""With what the files of rounds begin that are solved against the clock."""

SECONDS, WORK_SECONDS = 10.0, 120.0
"""Limits of wall clock: of rounds whose values are compared, and of deterministic ones."""


def rows(files: Iterable[Path]) -> Iterator[dict[str, Any]]:
    """Yield what came of each round, as JSON has it; `error` is what a version died of."""
    for file in files:
        try:
            yield _row(file)
        except Exception as error:  # noqa: BLE001 (whatever one version raises, others are solved)
            yield {"round": file.stem, "error": f"{type(error).__name__}: {error}"}


def _row(file: Path) -> dict[str, Any]:
    clock = file.name.startswith(VALUE)
    limit = SECONDS if clock else WORK_SECONDS
    plan = solve_round(load_round(file), time_limit=limit, deterministic=not clock)
    return {"round": file.stem, **figures_of(plan)}


def figures_of(plan: Plan) -> dict[str, Any]:
    """Return what is compared of a plan."""
    document = plan.model_dump(mode="json")
    certificate = document["certificate"]
    run = certificate.pop("run")
    # Versions differ in which sums of terms they bound, not in plans.
    certificate.pop("sums", None)
    text = json.dumps(document, sort_keys=True)
    return {
        "sha256": hashlib.sha256(text.encode()).hexdigest(),
        "repeatable": certificate["repeatable"],
        "degraded": certificate["degraded"],
        "status": certificate["status"],
        "terms": certificate["terms"],
        "cpu_s": run["cpu_s"],
    }
