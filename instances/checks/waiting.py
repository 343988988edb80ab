"""Checks of gang rounds whose jobs wait by rules: times and hosts exist, and nobody owns cells."""

from __future__ import annotations

from collections.abc import Mapping

from placewright.instances.checks.magnitudes import MAX_EACH
from placewright.instances.checks.policies import PolicyChecks
from placewright.instances.derived.hardware import Hardware
from placewright.instances.derived.names import known_hosts
from placewright.instances.documents.base import MAX_TOTAL
from placewright.instances.documents.round import Round
from placewright.instances.errors import Errors, InvalidInputError, Path


def _check_times(round_: Round) -> None:
    """Refuse jobs that were submitted later than now, and aged values that are too large."""
    total = 0
    for i, job in enumerate(round_.jobs):
        path: Path = ("jobs", i, "submitted")
        _check_past(job.submitted, round_.now, path)
        if round_.policy.aging is not None and job.running is None:
            each = max(job.value_of(o) for o in range(len(job.options)))
            total += each * round_.policy.aging.limit
            if each * round_.policy.aging.limit > MAX_EACH or total > MAX_TOTAL:
                raise InvalidInputError(
                    f"values of jobs times it are too large; expected at most {MAX_EACH:,} of one "
                    f"job and {MAX_TOTAL:,} of all",
                    path=("policy", "aging", "limit"),
                    value=round_.policy.aging.limit,
                )


def _check_past(moment: int | None, now: int, path: Path) -> None:
    if moment is not None and moment > now:
        raise InvalidInputError(
            f"is later than now; expected at most {now}", path=path, value=moment
        )


def _check_sections(round_: Round, hosts: Mapping[str, Hardware]) -> None:
    """Refuse maintenance of unknown hosts, and cells beside what makes jobs wait."""
    errors = Errors()
    for i, outage in enumerate(round_.maintenance):
        with errors:
            known_hosts(outage.host, hosts, ("maintenance", i, "host"))
    errors.refuse()
    if not any(tenant.cells for tenant in round_.tenants):
        return
    if round_.maintenance:
        raise _beside_cells(("maintenance",))
    for i, tenant in enumerate(round_.tenants):
        if tenant.preemption is not None:
            raise _beside_cells(("tenants", i, "preemption"))
    for name in ("aging", "backfill"):
        if getattr(round_.policy, name) is not None:
            raise _beside_cells(("policy", name))
    for i, job in enumerate(round_.jobs):
        for name in ("not_before", "held", "preempts"):
            if getattr(job, name) not in (None, False):
                raise _beside_cells(("jobs", i, name))


def _beside_cells(path: Path) -> InvalidInputError:
    problem = "not used where tenants own cells; expected none"
    return InvalidInputError(problem, path=path, show_value=False)


GANG_CHECKS = PolicyChecks(_check_times, _check_sections)
