"""What the command line shows of each policy, beside the cluster, its jobs and the terms."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from placewright.instances.policies import PolicyRegistry

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import Console

    from placewright.instances.documents.plan import Plan
    from placewright.instances.documents.round import Round


def _no_text(_: Round) -> str:
    return ""


def _no_round(_: Console, __: Round) -> None:
    """Print nothing."""


def _no_plan(_: Console, __: Round, ___: Plan) -> None:
    """Print nothing."""


def _no_panels(_: Figure, __: Round, ___: Plan | None) -> None:
    """Draw nothing."""


PrintRound: TypeAlias = "Callable[[Console, Round], None]"
PrintPlan: TypeAlias = "Callable[[Console, Round, Plan], None]"


@dataclass(frozen=True, slots=True)
class PolicyViews:
    """What is shown of a policy's rounds and valid plans; by default nothing.

    Parameters
    ----------
    round_text
        Counts what is special in a round, for a line of text.
    round_charts
        Prints what a round asks, below its cluster and its jobs.
    plan_alert
        Prints what is bad news in a plan, above all tables.
    plan_tables
        Prints the tables of a plan, below its terms.
    plan_charts
        Prints charts of a plan and its tables, below a map of the cluster if the policy places
        jobs.
    panels
        Draws a round or a plan below the map in a picture.
    """

    round_text: Callable[[Round], str] = _no_text
    round_charts: PrintRound = _no_round
    plan_alert: PrintPlan = _no_plan
    plan_tables: PrintPlan = _no_plan
    plan_charts: PrintPlan = _no_plan
    panels: Callable[[Figure, Round, Plan | None], None] = _no_panels


NO_VIEWS = PolicyViews()

VIEWS: PolicyRegistry[PolicyViews] = PolicyRegistry(
    {
        "gang": "placewright.cli.views.policies:NO_VIEWS",
        "interleaving": "placewright.cli.views.interleaving:VIEWS",
        "deadline": "placewright.cli.views.deadline.picture:VIEWS",
        "geo": "placewright.cli.views.geo.picture:VIEWS",
        "replicas": "placewright.cli.views.geo.picture:VIEWS",
        "stages": "placewright.cli.views.schedule:VIEWS",
    }
)
"""The views of each policy."""
