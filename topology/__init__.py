"""The cluster: arrays are the truth, the NetworkX graph is a view of them."""

from placewright.topology.builders import nvl72_racks, tree
from placewright.topology.catalogue import CATALOGUE, LINK_MATRICES, HostModel, Link
from placewright.topology.cluster import Cluster, State, assemble
from placewright.topology.gpu_links import GpuLinks
from placewright.topology.graph import build_graph
from placewright.topology.units import WHOLE_GPU

__all__ = [
    "CATALOGUE",
    "LINK_MATRICES",
    "WHOLE_GPU",
    "Cluster",
    "GpuLinks",
    "HostModel",
    "Link",
    "State",
    "assemble",
    "build_graph",
    "nvl72_racks",
    "tree",
]
