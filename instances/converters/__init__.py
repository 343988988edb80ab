"""Converters from published traces and dumps to rounds: a function `read_<source>` for each."""

from __future__ import annotations

from placewright.instances.converters.bookkeeping import Bookkeeping
from placewright.instances.converters.fabric import read_fabric
from placewright.instances.converters.gpu_links.convert import read_gpu_links
from placewright.instances.converters.hived.tenants import read_hived
from placewright.instances.converters.kubernetes.convert import convert_kubernetes, read_kubernetes
from placewright.instances.converters.kubernetes.dump import READ_KINDS
from placewright.instances.converters.kubernetes.manifest import read_manifest
from placewright.instances.converters.live import is_dump, read_live
from placewright.instances.converters.psplib import read_psplib
from placewright.instances.converters.ray import read_ray
from placewright.instances.converters.skypilot import read_skypilot
from placewright.instances.converters.slurm.convert import read_slurm
from placewright.instances.converters.support.live import LiveConversion
from placewright.instances.converters.support.trace_rounds import Conversion
from placewright.instances.converters.traces.chronus import (
    chronus_jobs,
    convert_chronus,
    read_chronus,
)
from placewright.instances.converters.traces.elasticflow import (
    convert_elasticflow,
    elasticflow_jobs,
    read_elasticflow,
)
from placewright.instances.converters.traces.itp import read_itp
from placewright.instances.converters.traces.muri import convert_muri, read_muri
from placewright.instances.converters.traces.openb import convert_openb, read_openb
from placewright.instances.converters.traces.synergy import convert_synergy, read_synergy
from placewright.instances.converters.traces.wan import convert_wan, read_wan

__all__ = [
    "READ_KINDS",
    "Bookkeeping",
    "Conversion",
    "LiveConversion",
    "chronus_jobs",
    "convert_chronus",
    "convert_elasticflow",
    "convert_kubernetes",
    "convert_muri",
    "convert_openb",
    "convert_synergy",
    "convert_wan",
    "elasticflow_jobs",
    "is_dump",
    "read_chronus",
    "read_elasticflow",
    "read_fabric",
    "read_gpu_links",
    "read_hived",
    "read_itp",
    "read_kubernetes",
    "read_live",
    "read_manifest",
    "read_muri",
    "read_openb",
    "read_psplib",
    "read_ray",
    "read_skypilot",
    "read_slurm",
    "read_synergy",
    "read_wan",
]
