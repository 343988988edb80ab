"""What is shown of the policy `deadline`: due times, promises, and the chart of leases."""

from __future__ import annotations

from typing import TYPE_CHECKING

from placewright.cli.views.deadline.chart import print_leases
from placewright.cli.views.deadline.gantt import chart_of
from placewright.cli.views.deadline.round_tables import deadlines_text, print_deadlines
from placewright.cli.views.deadline.tables import print_broken, print_promises
from placewright.cli.views.policies import PolicyViews
from placewright.report.facts.promises import promises_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import Console

    from placewright.instances.documents.plan import Plan
    from placewright.instances.documents.round import Round


def _alert(console: Console, round_: Round, plan: Plan) -> None:
    promises = promises_of(round_, plan)
    if promises is not None:
        print_broken(console, promises)


def _tables(console: Console, round_: Round, plan: Plan) -> None:
    promises = promises_of(round_, plan)
    if promises is not None:
        print_promises(console, promises)


def _charts(console: Console, round_: Round, plan: Plan) -> None:
    """Print what is promised: what is broken first, the chart of leases, and the tables."""
    promises = promises_of(round_, plan)
    if promises is not None:
        console.print()
        print_broken(console, promises)
        print_leases(console, chart_of(promises))
        console.print()
        print_promises(console, promises)


def _panels(figure: Figure, round_: Round, plan: Plan | None) -> None:
    from placewright.cli.views.deadline.picture import add_leases

    promises = promises_of(round_, plan)
    if promises is not None:
        add_leases(figure, chart_of(promises))


VIEWS = PolicyViews(
    round_text=deadlines_text,
    round_charts=print_deadlines,
    plan_alert=_alert,
    plan_tables=_tables,
    plan_charts=_charts,
    panels=_panels,
)
