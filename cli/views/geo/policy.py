"""What is shown of the policies `geo` and `replicas`: load of regions and links, and data."""

from __future__ import annotations

from typing import TYPE_CHECKING

from placewright.cli.views.geo.chart import print_regions
from placewright.cli.views.geo.round_tables import print_data_of_round
from placewright.cli.views.geo.tables import print_region_tables
from placewright.cli.views.policies import PolicyViews
from placewright.instances.derived.phrases import count
from placewright.report.facts.regions import region_plan_of
from placewright.report.text import gib

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import Console

    from placewright.instances.documents.plan import Plan
    from placewright.instances.documents.round import Round

NO_MAP_GAP = 0.01
"""Inches above regions that are drawn without a map."""


def data_text(round_: Round) -> str:
    """Count the regions of a round, its datasets, their replicas, and the links."""
    geo = round_.geo
    regions = sum(domain.level == geo.level for domain in round_.cluster.domains)
    replicas = sum(len(dataset.replicas) for dataset in geo.datasets)
    return (
        f"{count(regions, 'region')}, {count(len(geo.links), 'link')}, "
        f"{count(len(geo.datasets), 'dataset')} of {gib(sum(d.size for d in geo.datasets))}, "
        f"{count(replicas, 'replica')}"
    )


def _round_charts(console: Console, round_: Round) -> None:
    regions = region_plan_of(round_, None)
    console.print()
    print_regions(console, regions)
    print_data_of_round(console, regions)


def _tables(console: Console, round_: Round, plan: Plan) -> None:
    print_region_tables(console, region_plan_of(round_, plan))


def _charts(console: Console, round_: Round, plan: Plan) -> None:
    """Print the load of regions and links, below a map if there is one, and the tables."""
    regions = region_plan_of(round_, plan)
    if round_.policy.spec.places_jobs:
        console.print()
    print_regions(console, regions)
    print_region_tables(console, regions)


def _panels(figure: Figure, round_: Round, plan: Plan | None) -> None:
    from placewright.cli.views.geo.picture import TOP, add_regions

    mapped = plan is None or round_.policy.spec.places_jobs
    add_regions(figure, region_plan_of(round_, plan), TOP if mapped else NO_MAP_GAP)


VIEWS = PolicyViews(
    round_text=data_text,
    round_charts=_round_charts,
    plan_tables=_tables,
    plan_charts=_charts,
    panels=_panels,
)
