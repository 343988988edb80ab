"""Accounts: the quotas of tenants and the caps that jobs count in (docs/plans.md)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from fuzz.policy import Raw

Account: TypeAlias = tuple[str, str]
"""`tenant` or `cap`, and its name."""

JOBS = "number of jobs"


def of_model(model: str) -> str:
    """Return what GPUs of a model are called among the amounts that options count."""
    return f"gpu of {model}"


def limits(round_: Raw) -> dict[Account, Mapping[str, int]]:
    """Return what may be held in each account, by amount."""
    found: dict[Account, Mapping[str, int]] = {
        ("tenant", tenant["name"]): tenant["quota"]
        for tenant in round_.get("tenants", ())
        if tenant.get("quota")
    }
    for name, cap in round_.get("caps", {}).items():
        amounts = dict(cap.get("resources", {}))
        if cap.get("gpus") is not None:
            amounts["gpu"] = cap["gpus"]
        if cap.get("jobs") is not None:
            amounts[JOBS] = cap["jobs"]
        amounts |= {of_model(m): most for m, most in cap.get("gpus_by_model", {}).items()}
        found["cap", name] = amounts
    return found


def accounts_of(job: Raw) -> tuple[Account, ...]:
    """Return the accounts of a job."""
    tenant = () if job.get("tenant") is None else (("tenant", job["tenant"]),)
    return (*tenant, *(("cap", name) for name in job.get("caps", ())))


def counts_by_model(groups: list[Raw], models: Mapping[str, int]) -> bool:
    """Whether each group that asks GPUs and may have one of some models has no other."""
    asking = (group.get("gpu_models") for group in groups if group.get("gpu", 1))
    return all(
        allowed is not None and (len(set(allowed)) == 1 or not set(allowed) & models.keys())
        for allowed in asking
    )
