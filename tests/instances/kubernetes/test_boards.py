"""Labels of nodes, and slices, say how GPUs of a node are joined; what is not obeyed is told."""

from __future__ import annotations

import pytest

from tests.instances.kubernetes.dumps import convert, node
from tests.instances.kubernetes.test_devices import DRIVER, resource_slice

CLIQUE = {"nvidia.com/gpu.clique": "4e3b2f6c.32766"}
TOLD = "PCIe roots, NUMA nodes and NVLink of GPUs, which slices tell apart"


@pytest.mark.parametrize(
    ("gpus", "labels", "links"),
    [
        (8, {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}, "hgx-h100-8"),
        (8, {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB"}, "hgx-a100-8"),
        (8, {"nvidia.com/gpu.product": "NVIDIA-H200"}, "hgx-h200-8"),
        (8, {"cloud.google.com/gke-accelerator": "nvidia-h100-mega-80gb"}, "hgx-h100-8"),
        (4, {"nvidia.com/gpu.product": "NVIDIA-GB200", **CLIQUE}, "gb200-nvl72-tray"),
        # Four GPUs of a board are on two kinds of boards; so are GB200 that no rack joins.
        (4, {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}, None),
        (4, {"nvidia.com/gpu.product": "NVIDIA-GB200"}, None),
        # Cards may have bridges or none.
        (8, {"nvidia.com/gpu.product": "NVIDIA-A100-80GB-PCIe"}, None),
        (8, {"nvidia.com/gpu.product": "NVIDIA-H100-NVL"}, None),
        (8, {"nvidia.com/gpu.product": "NVIDIA-H200-NVL"}, None),
        # Shared GPUs and slices are none of a board.
        (8, {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3-SHARED"}, None),
        (8, {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3-MIG-1g.10gb"}, None),
        (8, {}, None),
    ],
)
def test_a_model_of_one_board_alone_has_its_links(gpus, labels, links, tmp_path):
    made = convert(tmp_path, node("a", gpus=gpus, labels=labels))
    (host,) = made.round.cluster.hosts
    assert (host.gpus, host.gpu_links) == (gpus, links)
    told = [note for note in made.book.notes if note.startswith("links between GPUs")]
    assert told == (
        [f"links between GPUs of 1 node: as {links}, the one board of so many"] if links else []
    )


@pytest.mark.parametrize("name", ["resource.kubernetes.io/pcieRoot", f"{DRIVER}/nvlinkDomain"])
def test_slices_that_tell_gpus_apart_are_told_as_not_read(name, tmp_path):
    apart, alike = resource_slice("a"), resource_slice("b")
    for i, device in enumerate(apart["spec"]["devices"]):
        device["attributes"] = {**device["attributes"], name: {"string": f"pci0000:{i}"}}
    made = convert(tmp_path, node("a", gpus=0), node("b", gpus=0), apart, alike)
    assert made.book.unsaid[TOLD] == ["a"]
