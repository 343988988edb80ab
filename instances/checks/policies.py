"""Checks of references that each policy adds: of its jobs, and of the sections of its rounds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from placewright.instances.derived.hardware import Hardware
from placewright.instances.documents.round import Round
from placewright.instances.policies import PolicyRegistry


def _accept(round_: Round) -> None:
    """Accept any jobs."""


def _accept_sections(round_: Round, hosts: Mapping[str, Hardware]) -> None:
    """Accept any sections."""


class PolicyChecks(NamedTuple):
    """What a policy refuses beside what all do; each check raises `InvalidInputError`.

    `jobs` is given a round whose running jobs can be where they are, and `sections` also what each
    host of the cluster has, by name.
    """

    jobs: Callable[[Round], None] = _accept
    sections: Callable[[Round, Mapping[str, Hardware]], None] = _accept_sections


NO_CHECKS = PolicyChecks()

CHECKS: PolicyRegistry[PolicyChecks] = PolicyRegistry(
    {
        "gang": "placewright.instances.checks.waiting:GANG_CHECKS",
        "interleaving": "placewright.instances.checks.sharing:CHECKS",
        "deadline": "placewright.instances.checks.deadlines:CHECKS",
        "geo": "placewright.instances.checks.geo:CHECKS",
        "replicas": "placewright.instances.checks.geo:CHECKS",
    }
)
"""The checks of each policy."""
