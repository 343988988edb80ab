"""Network links, and host models with their published figures."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from types import MappingProxyType
from typing import Literal, NamedTuple

from placewright.topology.gpu_links import LINK_KINDS, GpuLinks, LinkKind
from placewright.topology.mig import NO_MIG, memory_in_name, product_of

# Network links and the arithmetic that turns published figures into them.
#
# Bandwidth is counted per direction in Mbit/s (10**6 bit/s), latency one way in microseconds.
# PCI Express base specification: transfers per lane and second, 128b/130b coded from 3.0 to 5.0.
_PCIE_GIGATRANSFERS = {3: 8, 4: 16, 5: 32}


@dataclass(frozen=True, slots=True)
class Link:
    """A link between two nodes of a cluster.

    `bandwidth_mbps`: Mbit/s in each direction, at least 1. `latency_us`: microseconds one way, at
    least 0. Raises ValueError if the bandwidth is below 1 or the latency below 0 or not finite.
    """

    bandwidth_mbps: int
    latency_us: float

    def __post_init__(self) -> None:
        if self.bandwidth_mbps < 1:
            msg = f"link bandwidth {self.bandwidth_mbps} is too small; expected at least 1 Mbit/s"
            raise ValueError(msg)
        if not 0 <= self.latency_us < float("inf"):
            msg = f"link latency {self.latency_us} is out of range; expected 0 or more microseconds"
            raise ValueError(msg)

    def share(self, parts: int) -> "Link":
        """Return one of `parts` equal lanes of this link (bandwidth rounded down)."""
        return Link(self.bandwidth_mbps // parts, self.latency_us)

    def bundle(self, count: int) -> "Link":
        """Return `count` such links side by side as one."""
        return Link(self.bandwidth_mbps * count, self.latency_us)


def from_gigabytes(gigabytes_per_second: int) -> int:
    """Return GB/s (10**9 byte/s) as Mbit/s."""
    return gigabytes_per_second * 8_000


def pcie_mbps(generation: int, lanes: int = 16) -> int:
    """Return what a PCI Express link carries per direction after 128b/130b coding, in Mbit/s.

    Raises KeyError if the generation is not 3, 4 or 5.
    """
    return _PCIE_GIGATRANSFERS[generation] * lanes * 128_000 // 130


BETWEEN_SOCKETS_MBPS = from_gigabytes(10)
"""What NCCL counts for a link between sockets (`SKL_QPI_BW`, topo.h); newer ones have more."""


def through_host_bridge_mbps(pcie: int) -> int:
    """Return at what rate a GPU reaches another through a host bridge: five sixths of its PCIe.

    So does NCCL count it (`INTEL_P2P_OVERHEAD`, topo.h).
    """
    return pcie * 5 // 6


# Host models with their published figures.
#
# Vendors write GB for the GiB of their memory modules; memory here is GiB times 1024.
# NVLink is published as the sum of both directions; a `Link` holds one direction, so half of it.
# Latencies are not published: one switch hop of NVLink or PCIe is taken as 1 microsecond and a
# direct NVLink as 0.7; they order paths and no more.
@dataclass(frozen=True, slots=True)
class HostModel:
    """One kind of GPU host.

    - `name`, `gpu_model`: the key in `CATALOGUE`; the name of its GPUs.
    - `gpus`: GPUs per host.
    - `gpu_memory_mib`: memory of one GPU.
    - `cpu_milli`, `memory_mib`: physical cores times 1000 and main memory of the whole host.
    - `intra`: how the host's GPUs reach each other: through NVSwitches, by a mesh of direct links
      alone, or through the host bridge of PCIe, but for pairs that a mesh (of bridges) joins.
    - `gpu_link`: what one GPU sends (and receives) over NVLink, all lanes together, or over PCIe.
    - `nvswitches`: NVSwitch chips of one NVLink domain; every GPU has an equal share of its link to
      each.
    - `nvlink_hosts`: hosts that share one NVLink domain. Above 1 the switches belong to the domain
      that holds the host (the rack), not to the host.
    - `mesh`: GPU, GPU and how many lanes join them directly; of the kind `mesh_kind`.
    - `lane_mbps`: one such lane; by default GPU 0 has `gpu_link` over all of its lanes.
    - `numa`: NUMA node of each GPU; between two of them GPUs share one link of
      `BETWEEN_SOCKETS_MBPS`. Empty where that does not matter.
    - `nic_rails`: NICs for GPU traffic, NIC i on rail i; GPU g uses NIC ``g * nic_rails // gpus``.
    - `nic_link`, `pcie_link`: one such NIC; the PCIe link of a GPU to its NIC.
    - `source`: where the figures are published.
    """

    name: str
    gpu_model: str
    gpus: int
    gpu_memory_mib: int
    cpu_milli: int
    memory_mib: int
    intra: Literal["nvswitch", "nvlink-mesh", "pcie"]
    gpu_link: Link
    nvswitches: int
    nic_rails: int
    nic_link: Link
    pcie_link: Link
    source: str
    nvlink_hosts: int = 1
    mesh: tuple[tuple[int, int, int], ...] = ()
    mesh_kind: Literal["nvlink", "xgmi"] = "nvlink"
    lane_mbps: int | None = None
    numa: tuple[int, ...] = ()

    def mesh_links(self) -> dict[tuple[int, int], Link]:
        """Return the direct link of each pair of GPUs that has one, both ways."""
        lane = self.gpu_link if self.lane_mbps is None else Link(self.lane_mbps, _DIRECT_US)
        if self.lane_mbps is None and self.mesh:
            lane = self.gpu_link.share(sum(lanes for a, b, lanes in self.mesh if 0 in (a, b)))
        joined = {(a, b): lane.bundle(lanes) for a, b, lanes in self.mesh}
        return joined | {(b, a): link for (a, b), link in joined.items()}

    def are_apart(self, a: int, b: int) -> bool:
        """Whether two GPUs reach each other across sockets: nothing else joins them."""
        return self.intra == "pcie" and bool(self.numa) and self.numa[a] != self.numa[b]


_GIB = 1024
_SWITCHED_US = 1.0
_DIRECT_US = 0.7
_NIC_US = 1.5

# Two squares of four fully joined GPUs, corner i joined to corner i + 4; six lanes a GPU.
_HYBRID_CUBE_MESH = (
    *((0, 1, 1), (0, 2, 1), (0, 3, 2), (1, 2, 2), (1, 3, 1), (2, 3, 2)),
    *((4, 5, 1), (4, 6, 1), (4, 7, 2), (5, 6, 2), (5, 7, 1), (6, 7, 2)),
    *((0, 4, 2), (1, 5, 2), (2, 6, 1), (3, 7, 1)),
)

_PUBLISHED = (
    HostModel(
        name="dgx-a100",
        gpu_model="A100-SXM4-80GB",
        gpus=8,
        gpu_memory_mib=80 * _GIB,
        cpu_milli=128_000,
        memory_mib=2048 * _GIB,
        intra="nvswitch",
        gpu_link=Link(from_gigabytes(300), _SWITCHED_US),
        nvswitches=6,
        nic_rails=8,
        nic_link=Link(200_000, _NIC_US),
        pcie_link=Link(pcie_mbps(4), _SWITCHED_US),
        source="NVIDIA DGX A100 User Guide (DU-09821-001), hardware overview, 640 GB system",
    ),
    HostModel(
        name="dgx-h100",
        gpu_model="H100-SXM5-80GB",
        gpus=8,
        gpu_memory_mib=80 * _GIB,
        cpu_milli=112_000,
        memory_mib=2048 * _GIB,
        intra="nvswitch",
        gpu_link=Link(from_gigabytes(450), _SWITCHED_US),
        nvswitches=4,
        nic_rails=8,
        nic_link=Link(400_000, _NIC_US),
        pcie_link=Link(pcie_mbps(5), _SWITCHED_US),
        source="NVIDIA DGX H100/H200 User Guide, hardware overview",
    ),
    HostModel(
        name="gb200-nvl72-tray",
        gpu_model="GB200",
        gpus=4,
        gpu_memory_mib=186 * _GIB,
        cpu_milli=144_000,
        memory_mib=960 * _GIB,
        intra="nvswitch",
        gpu_link=Link(from_gigabytes(900), _SWITCHED_US),
        nvswitches=18,
        nvlink_hosts=18,
        nic_rails=4,
        nic_link=Link(400_000, _NIC_US),
        pcie_link=Link(pcie_mbps(5), _SWITCHED_US),
        source="NVIDIA DGX GB200 User Guide, hardware; NVIDIA GB200 NVL72 data sheet",
    ),
    HostModel(
        name="hgx-v100-8",
        gpu_model="V100-SXM2-32GB",
        gpus=8,
        gpu_memory_mib=32 * _GIB,
        cpu_milli=40_000,
        memory_mib=512 * _GIB,
        intra="nvlink-mesh",
        gpu_link=Link(from_gigabytes(150), _DIRECT_US),
        nvswitches=0,
        mesh=_HYBRID_CUBE_MESH,
        nic_rails=4,
        nic_link=Link(100_000, _NIC_US),
        pcie_link=Link(pcie_mbps(3), _SWITCHED_US),
        source="NVIDIA DGX-1 With Tesla V100 System Architecture (WP-08437), section 3.1",
    ),
)

_A100, _H100, _GB200, _ = _PUBLISHED
_FOUR = tuple((a, b, 1) for a in range(4) for b in range(a + 1, 4))
_EIGHT = tuple((a, b, 1) for a in range(8) for b in range(a + 1, 8))
_PAIRS = tuple((a, a + 1, 12) for a in range(0, 8, 2))

# Eight graphics compute dies (GCDs): four links inside each MI250X, one or two between them.
_MI250X_MESH = (
    *((0, 1, 4), (2, 3, 4), (4, 5, 4), (6, 7, 4), (0, 6, 2), (2, 4, 2)),
    *((0, 2, 1), (1, 3, 1), (1, 5, 1), (3, 7, 1), (4, 6, 1), (5, 7, 1)),
)

# A box of eight cards on two NUMA nodes. Whoever sells one chooses the rest: two sockets of 32
# cores and 1 TiB are common.
_PCIE_BOX = replace(
    _A100,
    name="a100-pcie-8",
    gpu_model="A100-PCIE-80GB",
    cpu_milli=64_000,
    memory_mib=1024 * _GIB,
    intra="pcie",
    gpu_link=Link(through_host_bridge_mbps(pcie_mbps(4)), _SWITCHED_US),
    nvswitches=0,
    numa=(0, 0, 0, 0, 1, 1, 1, 1),
    nic_rails=0,
    source="NVIDIA A100 80GB PCIe product brief (PB-10577): PCI Express 4.0 x16, no bridges",
)
_PCIE_5 = Link(through_host_bridge_mbps(pcie_mbps(5)), _SWITCHED_US)
_MI300X = replace(
    _H100,
    name="mi300x-8",
    gpu_model="MI300X",
    gpu_memory_mib=192 * _GIB,
    cpu_milli=128_000,
    memory_mib=2304 * _GIB,
    intra="nvlink-mesh",
    gpu_link=Link(from_gigabytes(7 * 64), _DIRECT_US),
    nvswitches=0,
    mesh=_EIGHT,
    mesh_kind="xgmi",
    source="AMD Instinct MI300X Platform data sheet: 7 links of 128 GB/s (both ways) a GPU",
)
_MODELS = (
    *_PUBLISHED,
    replace(_A100, name="hgx-a100-8", source="NVIDIA A100 data sheet, HGX; host of a DGX A100"),
    replace(_H100, name="hgx-h100-8", source="NVIDIA H100 data sheet, HGX; host of a DGX H100"),
    replace(
        _A100,
        name="hgx-a100-4",
        gpus=4,
        cpu_milli=64_000,
        memory_mib=1024 * _GIB,
        intra="nvlink-mesh",
        nvswitches=0,
        mesh=_FOUR,
        nic_rails=4,
        source="NVIDIA A100 data sheet, HGX of four GPUs; half the host of a DGX A100",
    ),
    replace(
        _H100,
        name="hgx-h100-4",
        gpus=4,
        cpu_milli=56_000,
        memory_mib=1024 * _GIB,
        intra="nvlink-mesh",
        nvswitches=0,
        mesh=_FOUR,
        nic_rails=4,
        source="NVIDIA H100 data sheet, HGX of four GPUs; half the host of a DGX H100",
    ),
    replace(
        _H100,
        name="hgx-h200-8",
        gpu_model="H200-SXM5-141GB",
        gpu_memory_mib=141 * _GIB,
        source="NVIDIA DGX H100/H200 User Guide, hardware overview",
    ),
    replace(
        _H100,
        name="hgx-b200-8",
        gpu_model="B200-SXM6-180GB",
        gpu_memory_mib=180 * _GIB,
        gpu_link=Link(from_gigabytes(900), _SWITCHED_US),
        nvswitches=2,
        source="NVIDIA DGX B200 User Guide, hardware overview",
    ),
    replace(
        _GB200,
        name="gb300-nvl72-tray",
        gpu_model="GB300",
        gpu_memory_mib=279 * _GIB,
        nic_link=Link(800_000, _NIC_US),
        pcie_link=Link(from_gigabytes(121), _SWITCHED_US),  # 6.0 x16, in flits of 242 of 256 bytes
        source="NVIDIA DGX GB300 User Guide, hardware; NVIDIA GB300 NVL72 data sheet",
    ),
    _PCIE_BOX,
    replace(
        _PCIE_BOX,
        name="a100-pcie-8-bridged",
        mesh=_PAIRS,
        lane_mbps=from_gigabytes(25),
        source="NVIDIA A100 80GB PCIe product brief (PB-10577): three bridges a pair, 600 GB/s",
    ),
    replace(
        _PCIE_BOX,
        name="h100-nvl-8",
        gpu_model="H100-NVL-94GB",
        gpu_memory_mib=94 * _GIB,
        gpu_link=_PCIE_5,
        pcie_link=Link(pcie_mbps(5), _SWITCHED_US),
        mesh=_PAIRS,
        lane_mbps=from_gigabytes(25),
        source="NVIDIA H100 NVL product brief (PB-11773): three bridges a pair, 600 GB/s",
    ),
    replace(
        _PCIE_BOX,
        name="l40s-8",
        gpu_model="L40S",
        gpu_memory_mib=48 * _GIB,
        source="NVIDIA L40S data sheet: PCI Express 4.0 x16, no NVLink",
    ),
    replace(
        _PCIE_BOX,
        name="rtx-pro-6000-8",
        gpu_model="RTX-PRO-6000-Blackwell",
        gpu_memory_mib=96 * _GIB,
        gpu_link=_PCIE_5,
        pcie_link=Link(pcie_mbps(5), _SWITCHED_US),
        source="NVIDIA RTX PRO 6000 Blackwell Server Edition data sheet: PCI Express 5.0 x16",
    ),
    replace(
        _MI300X,
        name="mi250x-8",
        gpu_model="MI250X-GCD",
        gpu_memory_mib=64 * _GIB,
        cpu_milli=64_000,
        memory_mib=512 * _GIB,
        gpu_link=Link(from_gigabytes(7 * 50), _DIRECT_US),
        mesh=_MI250X_MESH,
        nic_rails=4,
        nic_link=Link(200_000, _NIC_US),
        pcie_link=Link(pcie_mbps(4), _SWITCHED_US),
        source="OLCF Frontier User Guide, compute nodes: links of 50 GB/s; a GCD counts as a GPU",
    ),
    _MI300X,
    replace(
        _MI300X,
        name="mi325x-8",
        gpu_model="MI325X",
        gpu_memory_mib=256 * _GIB,
        source="AMD Instinct MI325X Platform data sheet: 7 links of 128 GB/s (both ways) a GPU",
    ),
)

CATALOGUE: Mapping[str, HostModel] = MappingProxyType({model.name: model for model in _MODELS})
"""Host models by name."""


@cache
def model_links(model: HostModel) -> GpuLinks:
    """Return the link matrix of a host model: what one GPU can send another, and a NIC a GPU."""
    gpus = range(model.gpus)
    direct = model.mesh_links()
    across = min(model.gpu_link.bandwidth_mbps, BETWEEN_SOCKETS_MBPS)

    def link(a: int, b: int) -> tuple[LinkKind | None, int]:
        if (a, b) in direct:
            return model.mesh_kind, direct[a, b].bandwidth_mbps
        if a == b or model.intra == "nvlink-mesh":
            return None, 0
        if model.are_apart(a, b):
            return "system", across
        through_hub: LinkKind = "numa" if model.numa else "pcie"
        kind = through_hub if model.intra == "pcie" else "nvlink"
        return kind, model.gpu_link.bandwidth_mbps

    pairs = [[link(a, b) for b in gpus] for a in gpus]
    nic_of = [g * model.nic_rails // model.gpus for g in gpus]
    near = LINK_KINDS.index("pcie") + 1
    return GpuLinks(
        model.name,
        tuple(
            tuple(0 if kind is None else LINK_KINDS.index(kind) + 1 for kind, _ in row)
            for row in pairs
        ),
        tuple(tuple(mbps for _, mbps in row) for row in pairs),
        tuple(tuple(near * (nic_of[g] == n) for g in gpus) for n in range(model.nic_rails)),
        tuple(
            tuple(model.pcie_link.bandwidth_mbps * (nic_of[g] == n) for g in gpus)
            for n in range(model.nic_rails)
        ),
        model.numa,
        source=model.source,
    )


LINK_MATRICES: Mapping[str, GpuLinks] = MappingProxyType({m.name: model_links(m) for m in _MODELS})
"""Link matrices of the host models, by their names."""


class HostHardware(NamedTuple):
    """What one host has.

    `gpu_model` and `gpu_memory` (MiB) are None where they are unknown or there are no GPUs, `cpu`
    is millicores, `memory` MiB, `product` an index in `mig.PRODUCTS`, or `NO_MIG`.
    """

    gpus: int
    gpu_model: str | None
    gpu_memory: int | None
    cpu: int
    memory: int
    product: int


def host_hardware(
    model: str | None,
    gpus: int | None,
    gpu_model: str | None,
    gpu_memory: int | None,
    cpu: int | None,
    memory: int | None,
    mig: bool,
) -> HostHardware:
    """Return what a host has of which these are given; what is None is its model's, or 0.

    Memory of a GPU that is not given is what the name of the GPU tells, or the host model. Raises
    KeyError if the host model is not in the catalogue.
    """
    known = CATALOGUE[model] if model is not None else None
    if known is not None:
        gpus = known.gpus if gpus is None else gpus
        gpu_model = known.gpu_model if gpu_model is None else gpu_model
        cpu = known.cpu_milli if cpu is None else cpu
        memory = known.memory_mib if memory is None else memory
    if not gpus or gpu_model is None:
        return HostHardware(gpus or 0, None, None, cpu or 0, memory or 0, NO_MIG)
    if gpu_memory is None:
        gpu_memory = memory_in_name(gpu_model)
        if gpu_memory is None and known is not None and gpu_model == known.gpu_model:
            gpu_memory = known.gpu_memory_mib
    product = product_of(gpu_model, gpu_memory) if mig else NO_MIG
    return HostHardware(gpus, gpu_model, gpu_memory, cpu or 0, memory or 0, product)
