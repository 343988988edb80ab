"""What is shown of the policy `interleaving`: groups by size, and a timeline of each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from placewright.cli.views.interleaving import chart
from placewright.cli.views.interleaving.tables import print_groups
from placewright.cli.views.policies import PolicyViews
from placewright.report.facts.turns import timelines_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import Console

    from placewright.instances.documents.plan import Plan
    from placewright.instances.documents.round import Round


def _tables(console: Console, round_: Round, plan: Plan) -> None:
    print_groups(console, {job.name: job for job in round_.jobs}, plan)


def _charts(console: Console, round_: Round, plan: Plan) -> None:
    timelines = timelines_of(round_, plan, chart.MAX_GROUPS)
    if timelines is not None:
        console.print()
        chart.print_timelines(console, timelines)


def _panels(figure: Figure, round_: Round, plan: Plan | None) -> None:
    from placewright.cli.views.interleaving import picture

    timelines = timelines_of(round_, plan, picture.MAX_GROUPS)
    if timelines is not None:
        picture.add_timelines(figure, timelines)


VIEWS = PolicyViews(plan_tables=_tables, plan_charts=_charts, panels=_panels)
