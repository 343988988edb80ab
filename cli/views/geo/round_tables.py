"""The tables of a round with regions: what regions have and store, and who reads which dataset."""

from __future__ import annotations

from rich.console import Console

from placewright.cli.format.table import MAX_ROWS, print_more, print_rest, print_table, table
from placewright.cli.views.geo.tables import MAX_REGIONS, by_load
from placewright.instances.derived.phrases import several
from placewright.report.facts.regions import RegionPlan
from placewright.report.text import NONE, gib, gpus, load, number

MAX_NAMES = 3
"""Names of regions in one cell."""


def print_data_of_round(console: Console, facts: RegionPlan) -> None:
    """Print the regions of a round, hottest first, and its datasets, largest first."""
    _print_regions(console, facts)
    _print_datasets(console, facts)


def _print_regions(console: Console, facts: RegionPlan) -> None:
    """Print what each region has, is asked for, and stores."""
    regions = facts.regions
    replicas = [0] * len(regions.names)
    for dataset in regions.round.geo.datasets:
        for name in dataset.replicas:
            replicas[regions.index[name]] += 1
    columns = (*regions.models, "asked", "load", "replicas", "stored", "limit")
    made = table("Regions, hottest first", "region", *columns, right=columns)
    order = by_load(facts)
    for region in order[:MAX_REGIONS]:
        limit = regions.storage[region]
        asked = int(facts.before[region])
        made.add_row(
            regions.names[region],
            *(gpus(int(milli)) for milli in regions.supply[region]),
            gpus(asked),
            load(asked, int(regions.gpus[region])),
            number(replicas[region]),
            gib(int(regions.held[region])),
            NONE if limit is None else gib(limit),
        )
    print_table(console, made)
    print_more(console, len(order) - MAX_REGIONS, "more region")


def _print_datasets(console: Console, facts: RegionPlan) -> None:
    """Print the largest datasets: where they are and may be, and what reads them."""
    round_ = facts.regions.round
    if not round_.geo.datasets:
        return
    jobs: dict[str, int] = {}
    milli: dict[str, int] = {}
    read: dict[str, int] = {}
    for job, place in zip(round_.jobs, facts.places, strict=True):
        for entry in job.reads:
            jobs[entry.dataset] = jobs.get(entry.dataset, 0) + 1
            milli[entry.dataset] = milli.get(entry.dataset, 0) + place.asked
            read[entry.dataset] = read.get(entry.dataset, 0) + entry.gib
    coming: dict[str, list[str]] = {}
    for copy in round_.geo.copying:
        coming.setdefault(copy.dataset, []).append(copy.region)
    made = table(
        "Datasets, largest first",
        "dataset",
        "size",
        "in",
        "coming to",
        "only in",
        "jobs",
        "GPUs",
        "read",
        right=("size", "jobs", "GPUs", "read"),
    )
    order = sorted(round_.geo.datasets, key=lambda dataset: -dataset.size)
    for dataset in order[:MAX_ROWS]:
        made.add_row(
            dataset.name,
            gib(dataset.size),
            several(dataset.replicas, MAX_NAMES),
            several(coming.get(dataset.name, ()), MAX_NAMES),
            NONE if dataset.regions is None else several(dataset.regions, MAX_NAMES),
            number(jobs.get(dataset.name, 0)),
            gpus(milli.get(dataset.name, 0)),
            gib(read.get(dataset.name, 0)),
        )
    print_table(console, made)
    print_rest(console, len(order), "more dataset")
