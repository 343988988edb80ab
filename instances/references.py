"""Whether the names in a document refer to something, and whether running work fits."""

from __future__ import annotations

from placewright.instances.cluster import ClusterDocument
from placewright.instances.round import Round


def check_cluster(document: ClusterDocument) -> None:
    """Refuse a cluster whose names or tree make no sense."""


def check_round(round_: Round) -> None:
    """Refuse a round whose names or running jobs make no sense."""
