"""The Cluster document: levels, domains with their parents, and hosts."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from placewright.instances.documents.annotations import Annotations
from placewright.instances.documents.base import (
    API_VERSION,
    MAX_AMOUNT,
    Document,
    Flag,
    Index,
    Many,
    Name,
)
from placewright.instances.documents.pools import Pool
from placewright.instances.documents.quantities import Mib, MilliCpu, Resources
from placewright.topology.gpu_links import LinkKind

MAX_GPUS_PER_HOST = 1024

HOST_NAME = r"^[A-Za-z0-9._:/@|+=-]+(\[[0-9]{1,9}-[0-9]{1,9}\])?$"
HostName = Annotated[str, Field(min_length=1, max_length=253, pattern=HOST_NAME)]


class DomainEntry(Document):
    """One domain of a level, held by a domain of the level above (`parent`)."""

    name: Name
    level: Name
    parent: Name | None = None


class LinkClass(Document):
    """A kind of link of a link matrix, and its bandwidth in each direction (Mbit/s)."""

    kind: LinkKind
    bandwidth_mbps: Annotated[int, Field(strict=True, ge=1, le=MAX_AMOUNT)]


LinkRow = Annotated[str, Field(max_length=4096, pattern=r"^[!-~]+( +[!-~]+)*$")]


class LinkMatrix(Document):
    """How the GPUs of a host reach each other, as `nvidia-smi topo -m` prints it.

    `gpus` has a row of words for each GPU: the name in `classes` of the link to each GPU, `X` for
    itself, `-` where no link is known, which counts as none. `nics` has a row for each NIC, with
    its links to the GPUs. `numa` is the NUMA node of each GPU.
    """

    name: Name
    classes: dict[Name, LinkClass] = Field(max_length=64)
    gpus: Many[LinkRow] = Field(min_length=1, max_length=MAX_GPUS_PER_HOST)
    nics: Many[LinkRow] = Field(default=(), max_length=64)
    numa: Many[Index] = ()
    source: Annotated[str, Field(max_length=1024)] = ""


class HostEntry(Document):
    """One host, or equal hosts as a range: `name: "h[000-127]"`.

    `model` names hardware of the catalogue (`dgx-h100`), which fills whatever is not given here.
    Host resources other than GPUs: `cpu`, `memory` (`quantities`), `resources` (any unit).
    `gpu_memory` is that of one GPU; without it the name of the GPU model may tell
    (`A100-SXM4-80GB`), or the host model. `mig: false`: its GPUs are not to be cut into MIG slices.
    `gpu_links` names the link matrix of its GPUs: one of the cluster's, or a host model's.
    """

    name: HostName
    parent: Name | None = None
    model: Name | None = None
    gpus: Annotated[int, Field(strict=True, ge=0, le=MAX_GPUS_PER_HOST)] | None = None
    gpu_model: Name | None = None
    gpu_memory: Mib | None = None
    gpu_links: Name | None = None
    mig: Flag = True
    cpu: MilliCpu | None = None
    memory: Mib | None = None
    resources: Resources = Field(default_factory=dict)
    healthy: Flag = True
    annotations: Annotations = Field(default_factory=dict)


class LinkEntry(Document):
    """A link's bandwidth (Mbit/s) and latency (microseconds)."""

    bandwidth_mbps: Annotated[int, Field(strict=True, ge=1, le=MAX_AMOUNT)]
    latency_us: Annotated[float, Field(strict=True, ge=0, le=1e9, allow_inf_nan=False)]


class WanEntry(LinkEntry):
    """A link between two domains of the outermost level."""

    between: tuple[Name, Name]


class ClusterDocument(Document):
    """A cluster as a file describes it; `arrays.build_cluster` turns it into a `Cluster`.

    `levels` lists the layers above the host, outermost first; the host level is implied.
    """

    apiVersion: Literal["placewright/v1alpha2"] = API_VERSION  # noqa: N815
    kind: Literal["Cluster"] = "Cluster"
    name: Name = "cluster"
    levels: Many[Name] = Field(default=(), max_length=16)
    domains: Many[DomainEntry] = ()
    hosts: Many[HostEntry] = Field(min_length=1)
    links: dict[Name, LinkEntry] = Field(default_factory=dict)
    wan: Many[WanEntry] = ()
    pools: Many[Pool] = ()
    gpu_links: Many[LinkMatrix] = ()
