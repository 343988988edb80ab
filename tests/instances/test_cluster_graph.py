"""Cluster documents as graphs, and back: nothing of what a document says is lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from placewright import ClusterDocument, load_round
from placewright.instances.derived.arrays import build_cluster
from placewright.topology import Cluster

LIBRARY = Path(__file__).parents[2] / "instances" / "library"
BUNDLED = sorted(path.stem for path in LIBRARY.glob("*.yaml"))


@pytest.mark.parametrize("name", BUNDLED)
def test_bundled_clusters_come_back_from_their_graphs(name):
    document = load_round(LIBRARY / f"{name}.yaml").cluster
    arrays = build_cluster(document)
    for detail in ("host", "gpu"):
        assert ClusterDocument.from_graph(document.to_graph(detail)) == document
        assert Cluster.from_graph(arrays.to_graph(detail)) == arrays
        if not document.pools and all(host.healthy for host in document.hosts):
            assert Cluster.from_graph(document.to_graph(detail)) == arrays
            assert build_cluster(ClusterDocument.from_graph(arrays.to_graph(detail))) == arrays
