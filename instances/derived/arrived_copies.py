"""Replicas of data in place of the copies that have arrived."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from placewright.instances.documents.geo import Dataset, Geo


def with_arrived_copies(geo: Geo, now: int) -> Geo:
    """Return the section with replicas in place of the copies that are complete by now."""
    done: defaultdict[str, list[str]] = defaultdict(list)
    for copy in geo.copying:
        if copy.ready <= now:
            done[copy.dataset].append(copy.region)
    if not done:
        return geo
    datasets = tuple(
        with_replicas(one, dict.fromkeys((*one.replicas, *done[one.name])))
        if one.name in done
        else one
        for one in geo.datasets
    )
    copying = tuple(copy for copy in geo.copying if copy.ready > now)
    return geo.model_copy(update={"datasets": datasets, "copying": copying})


def with_replicas(dataset: Dataset, regions: Iterable[str]) -> Dataset:
    """Return a dataset with replicas in these regions, and no others."""
    return dataset.model_copy(update={"replicas": tuple(regions)})
