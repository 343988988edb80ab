"""Published figures of the host models, and NCCL's own topology files of like machines."""

from itertools import combinations
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from placewright.topology import CATALOGUE, LINK_MATRICES, tree
from placewright.topology.catalogue import BETWEEN_SOCKETS_MBPS, Link, from_gigabytes, pcie_mbps
from placewright.topology.collectives import bottleneck, most_inside_mbps

NCCL = Path(__file__).parents[1] / "data" / "nccl"
GPU_CLASS = "0x0302"
NIC_CLASSES = ("0x0200", "0x0207")


def devices(element: ElementTree.Element, *classes: str) -> list[ElementTree.Element]:
    """Return the PCI devices below an element whose class begins with one of those given."""
    return [pci for pci in element.iter("pci") if pci.get("class", "").startswith(classes)]


def test_models_are_listed_by_name_with_a_source() -> None:
    assert {"dgx-a100", "dgx-h100", "gb200-nvl72-tray", "hgx-v100-8"} <= set(CATALOGUE)
    for name, model in CATALOGUE.items():
        assert model.name == name
        assert model.source


@pytest.mark.parametrize(
    ("name", "both_directions_gigabytes"),
    [
        *(("dgx-a100", 600), ("dgx-h100", 900), ("gb200-nvl72-tray", 1800), ("hgx-v100-8", 300)),
        *(("hgx-h200-8", 900), ("hgx-b200-8", 1800), ("gb300-nvl72-tray", 1800)),
        *(("hgx-a100-4", 600), ("hgx-h100-4", 900), ("mi300x-8", 896)),
    ],
)
def test_nvlink_is_half_of_the_published_sum_of_both_directions(
    name: str, both_directions_gigabytes: int
) -> None:
    assert CATALOGUE[name].gpu_link.bandwidth_mbps * 2 == both_directions_gigabytes * 8_000


@pytest.mark.parametrize("name", CATALOGUE)
def test_two_gpus_have_what_the_matrix_says_of_their_link(name: str) -> None:
    model, links = CATALOGUE[name], LINK_MATRICES[name]
    cluster = tree("t", blocks=1, racks=1, hosts=1, host_model=model)
    for i, j in combinations(range(model.gpus), 2):
        assert links.kind[i][j] == links.kind[j][i]
        if links.mbps[i][j]:
            found = bottleneck(cluster, np.array([0, 0]), np.array([i, j]), "ring")
            assert found == links.mbps[i][j] == links.mbps[j][i]
            assert found <= most_inside_mbps(model)


def test_cards_of_two_sockets_share_the_link_between_them() -> None:
    cluster = tree("t", blocks=1, racks=1, hosts=1, host_model=CATALOGUE["l40s-8"])
    gpus = np.array([0, 4, 1, 5])  # 0 to 4 and 1 to 5 cross one way, 4 to 1 and 5 to 0 the other
    assert bottleneck(cluster, np.zeros(4, dtype=int), gpus, "ring") == BETWEEN_SOCKETS_MBPS / 2
    bridged = tree("t", blocks=1, racks=1, hosts=1, host_model=CATALOGUE["a100-pcie-8-bridged"])
    pair = bottleneck(bridged, np.zeros(2, dtype=int), np.array([2, 3]), "ring")
    assert pair == 12 * 25 * 8_000


def test_an_mi250x_has_the_links_that_the_driver_counts() -> None:
    # /sys/class/drm/card*/device/xgmi_num_links, as printed in ROCm/rocm-systems issue 5763.
    links = """
        00 04 01 00 00 00 02 00
        04 00 00 01 00 01 00 00
        01 00 00 04 02 00 00 00
        00 01 04 00 00 00 00 01
        00 00 02 00 00 04 01 00
        00 01 00 00 04 00 00 01
        02 00 00 00 01 00 00 04
        00 00 00 01 00 01 04 00
    """
    rows = [[int(word) for word in line.split()] for line in links.split("\n") if line.strip()]
    assert [[mbps // 400_000 for mbps in row] for row in LINK_MATRICES["mi250x-8"].mbps] == rows


def test_an_nvl72_rack_has_72_gpus_and_18_switch_chips() -> None:
    tray = CATALOGUE["gb200-nvl72-tray"]
    assert tray.gpus * tray.nvlink_hosts == 72
    assert tray.nvswitches == 9 * 2


def test_each_v100_of_the_hybrid_cube_mesh_uses_its_six_lanes() -> None:
    mesh = CATALOGUE["hgx-v100-8"].mesh
    for gpu in range(8):
        assert sum(lanes for a, b, lanes in mesh if gpu in (a, b)) == 6
    assert all(a < b for a, b, _ in mesh)
    assert len({(a, b) for a, b, _ in mesh}) == 16
    # NCCL issue 671 prints GPU 0 and 1 of a DGX-1 with V100.
    lanes_of = {(a, b): lanes for a, b, lanes in mesh}
    assert [lanes_of[0, b] for b in (1, 2, 3, 4)] == [1, 1, 2, 2]
    assert [lanes_of[1, b] for b in (2, 3, 5)] == [2, 1, 2]


def test_bandwidths_follow_from_published_rates() -> None:
    assert from_gigabytes(25) == 200_000
    # 16 lanes of PCIe 3.0 are published as 15.75 GB/s, of 5.0 as 63 GB/s.
    assert pcie_mbps(3) // 8 == 15_753
    assert pcie_mbps(5) // 8 == 63_015
    assert pcie_mbps(4, lanes=8) == pcie_mbps(3)
    assert Link(100, 2.0).share(3) == Link(33, 2.0)
    assert Link(100, 2.0).bundle(3) == Link(300, 2.0)


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("aws_p4d-24xl-topo.xml", "dgx-a100"),
        ("aws_p5.48xl-topo_79565c0e.xml", "dgx-h100"),
        ("azure_ndv5-topo.xml", "dgx-h100"),
        ("azure_ndv2-topo.xml", "hgx-v100-8"),
    ],
)
def test_nccl_lists_as_many_gpus_as_the_catalogue(file: str, name: str) -> None:
    system = ElementTree.parse(NCCL / file).getroot()
    assert len(devices(system, GPU_CLASS)) == CATALOGUE[name].gpus


def test_nccl_puts_one_nic_beside_each_h100_at_the_catalogues_pcie_rate() -> None:
    model = CATALOGUE["dgx-h100"]
    system = ElementTree.parse(NCCL / "azure_ndv5-topo.xml").getroot()
    switches = [pci for cpu in system.iter("cpu") for pci in cpu.findall("pci")]
    assert len(switches) == model.nic_rails
    for switch in switches:
        (gpu,) = devices(switch, GPU_CLASS)
        assert len(devices(switch, *NIC_CLASSES)) == 1
        lanes, rate = int(gpu.get("link_width", "")), gpu.get("link_speed", "")
        assert rate.startswith("32")
        assert pcie_mbps(5, lanes) == model.pcie_link.bandwidth_mbps


def test_nccl_gives_each_h100_of_p5_as_much_network_as_one_nic_of_the_catalogue() -> None:
    system = ElementTree.parse(NCCL / "aws_p5.48xl-topo_79565c0e.xml").getroot()
    for switch in (pci for cpu in system.iter("cpu") for pci in cpu.findall("pci")):
        assert len(devices(switch, GPU_CLASS)) == 1
        speeds = [int(net.get("speed", "0")) for net in switch.iter("net")]
        assert sum(speeds) == CATALOGUE["dgx-h100"].nic_link.bandwidth_mbps
