"""The cluster: arrays are the truth, the NetworkX graph is a view of them."""

from placewright.topology.builders import nvl72_racks, tree
from placewright.topology.catalogue import CATALOGUE, HostModel, Link
from placewright.topology.cluster import Cluster, State, assemble
from placewright.topology.graph import build_graph
from placewright.topology.units import WHOLE_GPU

__all__ = [
    "CATALOGUE",
    "WHOLE_GPU",
    "Cluster",
    "HostModel",
    "Link",
    "State",
    "assemble",
    "build_graph",
    "nvl72_racks",
    "tree",
]
