"""The policies of replays by name, and those of users' own files."""

from __future__ import annotations

from runpy import run_path
from typing import TypeAlias

from placewright.instances.errors import InvalidInputError
from placewright.rounds.policies.base import GroupPolicy, ListPolicy, RoundPolicy
from placewright.rounds.policies.lists import ESTIMATES, GITTINS, LAS, LISTS, SMITH
from placewright.rounds.policies.muri import GROUPINGS
from placewright.rounds.policies.tenants import (
    COUNTERS,
    DRF,
    DRF_ROUNDS,
    GPU_QUOTA,
    HIVED,
    SHARES,
    QuotaPolicy,
    TenantPolicy,
    TunedPolicy,
)

Policy: TypeAlias = (
    ListPolicy | TunedPolicy | TenantPolicy | QuotaPolicy | GroupPolicy | RoundPolicy
)

POLICIES: dict[str, Policy] = {
    **LISTS,
    **ESTIMATES,
    LAS.name: LAS,
    GITTINS.name: GITTINS,
    DRF.name: DRF,
    COUNTERS.name: COUNTERS,
    DRF_ROUNDS.name: DRF_ROUNDS,
    HIVED.name: HIVED,
    GPU_QUOTA.name: GPU_QUOTA,
    **SHARES,
    SMITH.name: SMITH,
    **GROUPINGS,
}
"""The policies by name."""


def policy_named(name: str) -> Policy:
    """Return the policy of a name; `FILE:NAME` a policy of a Python file, which is run.

    Raises
    ------
    InvalidInputError
        If there is none.
    """
    file, colon, own = name.rpartition(":")
    if colon and file.endswith(".py"):
        return _policy_of_file(name, file, own)
    if name not in POLICIES:
        raise InvalidInputError(
            f"expected one of {', '.join(sorted(POLICIES))}", path=("policy",), value=name
        )
    return POLICIES[name]


def _policy_of_file(text: str, file: str, name: str) -> Policy:
    try:
        policy = run_path(file).get(name)
    except (OSError, SyntaxError) as error:
        raise InvalidInputError(
            f"expected a Python file that can be run ({error})", path=("policy",), value=text
        ) from None
    if not isinstance(policy, Policy):
        raise InvalidInputError(
            f"expected that {file} defines {name} as a ListPolicy, TenantPolicy, TunedPolicy, "
            "GroupPolicy or RoundPolicy",
            path=("policy",),
            value=text,
        )
    return policy
