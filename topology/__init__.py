"""The cluster: as arrays, and as a NetworkX graph in and out."""

from placewright.topology.builders import nvl72_racks, tree
from placewright.topology.catalogue import CATALOGUE, LINK_MATRICES, HostModel, Link
from placewright.topology.cluster import Cluster, State, assemble
from placewright.topology.gpu_links import GpuLinks
from placewright.topology.graph import GraphError
from placewright.topology.units import WHOLE_GPU

__all__ = [
    "CATALOGUE",
    "LINK_MATRICES",
    "WHOLE_GPU",
    "Cluster",
    "GpuLinks",
    "GraphError",
    "HostModel",
    "Link",
    "State",
    "assemble",
    "nvl72_racks",
    "tree",
]
