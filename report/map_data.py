"""The map of a page as columns: hosts in their domains, and who holds each GPU in each state."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from placewright.instances.errors import printable
from placewright.report.columns import Names, ranges, runs
from placewright.report.facts.jobs import Condition
from placewright.report.panels.subject import Subject
from placewright.report.text import megabits
from placewright.topology import GpuLinks
from placewright.topology.gpu_links import MOST_GPUS, words_of_links

SAME = -2
"""Of a GPU that is held as in the first state."""


def map_data(subject: Subject) -> dict[str, Any]:
    """Return the map of a round before and after each of its plans."""
    cluster, holders = subject.cluster, subject.holders
    host, gpu = subject.conditions
    first, *later = holders.states
    return {
        "levels": list(cluster.levels),
        "hosts": _names(cluster.names[-1]),
        "domains": [_names(names) for names in cluster.names[:-1]],
        "domain": [runs(row) for row in cluster.domain[:-1]],
        "gpus": runs(cluster.gpu_count),
        "models": [printable(name) for name in cluster.gpu_models],
        "model": runs(cluster.gpu_model),
        "conditions": [condition.word for condition in Condition],
        "condition": runs(host),
        "gpuCondition": runs(gpu),
        "states": [runs(first), *(runs(np.where(one == first, SAME, one)) for one in later)],
        "shared": holders.shared,
        "links": [_words(links) for links in cluster.gpu_links],
        "linksOf": runs(cluster.gpu_links_of),
    }


def _words(links: GpuLinks) -> dict[str, Any]:
    """Return the link matrix of a host as words, and what they mean; no rows of many GPUs."""
    said = words_of_links(links)
    rows = said["gpus"] if links.gpus <= MOST_GPUS else []
    return {
        "name": printable(links.name),
        "rows": [row.split() for row in rows],
        "words": [
            f"{word}: {one['kind']}, {megabits(one['bandwidth_mbps'])}"
            for word, one in said["classes"].items()
        ],
    }


def _names(names: Iterable[str]) -> Names:
    return ranges([printable(name) for name in names])
