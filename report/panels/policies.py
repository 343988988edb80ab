"""What a page shows of each policy, beside what it shows of all."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from placewright.instances.documents.plan import Plan
from placewright.instances.policies import PolicyRegistry
from placewright.report.panels.subject import Subject
from placewright.report.table import Table


@dataclass(frozen=True, slots=True)
class PolicyPanels:
    """Tables of a policy's plans, and what they are about."""

    title: str
    tables: Callable[[Subject, Plan], Iterator[Table]]


PANELS: PolicyRegistry[PolicyPanels] = PolicyRegistry(
    {
        "gang": "placewright.report.panels.reservations:PANELS",
        "interleaving": "placewright.report.panels.turns:PANELS",
        "deadline": "placewright.report.panels.promises:PANELS",
        "geo": "placewright.report.panels.regions:PANELS",
        "replicas": "placewright.report.panels.regions:PANELS",
        "stages": "placewright.report.panels.schedule:PANELS",
    }
)
"""The tables of each policy."""
