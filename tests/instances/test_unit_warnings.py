"""Quantities that look like numbers of another unit, and files of the version before."""

from __future__ import annotations

from typing import Any

import pytest

from placewright.instances.checks.magnitudes import unit_warnings
from placewright.instances.documents.cluster import ClusterDocument
from placewright.instances.documents.quantities import amount_text
from placewright.instances.errors import InvalidInputError
from placewright.instances.io.files import load_round, parse_round

Raw = dict[str, Any]


def round_of(gpu: object = 1, cpu: object = 96, **tenant: Any) -> Raw:
    return {
        "cluster": {"hosts": [{"name": "h", "gpus": 8, "gpu_model": "A100", "cpu": cpu}]},
        "tenants": [{"name": "t", **tenant}],
        "jobs": [{"name": "j", "options": [{"groups": [{"gpu": 8}, {"name": "b", "gpu": gpu}]}]}],
    }


@pytest.mark.parametrize(
    ("raw", "warning"),
    [
        (round_of(gpu="8m"), "jobs[0].options[0].groups[1].gpu: 8m: less than 0.05 of a GPU"),
        (round_of(gpu=0.049), "jobs[0].options[0].groups[1].gpu: 49m: less than 0.05 of a GPU"),
        (round_of(quota={"gpu": "8m"}), "tenants[0].quota.gpu: 8m: less than one GPU"),
        (round_of(guarantee={"gpu": 0.5}), "tenants[0].guarantee.gpu: 500m: less than one GPU"),
        (round_of(cpu=96_000), "cluster.hosts[0].cpu: 96000: more than 1,024 cores"),
        (round_of(cpu="1024001m"), "cluster.hosts[0].cpu: 1024001m: more than 1,024 cores"),
    ],
)
def test_what_is_hardly_meant_is_valid_and_warned_of(raw: Raw, warning: str) -> None:
    assert list(unit_warnings(parse_round(raw))) == [f"{warning}; is the unit meant?"]


@pytest.mark.parametrize(
    "raw",
    [
        round_of(),
        round_of(gpu=0, quota={"gpu": 0, "cpu": "8m"}),
        round_of(gpu=0.05, cpu=1024),
        round_of(quota={"gpu": 1}, guarantee={"gpu": 1}),
    ],
)
def test_what_may_well_be_meant_is_not_warned_of(raw: Raw) -> None:
    assert not list(unit_warnings(parse_round(raw)))


def test_a_cluster_is_warned_of_by_its_own_paths() -> None:
    cluster = ClusterDocument.model_validate(round_of(cpu=96_000)["cluster"])
    assert list(unit_warnings(cluster)) == [
        "hosts[0].cpu: 96000: more than 1,024 cores; is the unit meant?"
    ]


def test_a_file_of_the_version_before_is_told_what_changed(tmp_path) -> None:
    file = tmp_path / "r.yaml"
    file.write_text("apiVersion: placewright/v1alpha1\nkind: Round\ncluster: {hosts: []}\n")
    with pytest.raises(InvalidInputError) as caught:
        load_round(file)
    assert str(caught.value) == (
        f"{file}:1: apiVersion: 'placewright/v1alpha1': expected placewright/v1alpha2, in which "
        "numbers are whole GPUs and cores (gpu: 8, cpu: 1500m) and memory has a suffix (64Gi); "
        "before they were thousandths and MiB"
    )


@pytest.mark.parametrize(
    ("resource", "amount", "text"),
    [
        ("gpu", 2500, "2.5 GPUs"),
        ("gpu", 1000, "1 GPU"),
        ("gpu", 0, "0 GPUs"),
        ("gpu", 1, "0.001 GPUs"),
        ("cpu", 24_001, "24.001 cores"),
        ("cpu", 10_000, "10 cores"),
        ("cpu", 1000, "1 core"),
        ("memory", 64 * 1024, "64Gi of memory"),
        ("memory", 1002, "1002Mi of memory"),
        ("nic", 3, "3 of nic"),
        ("power_w", 12_000, "12,000 of power_w"),
        ("gpu", 10_666_500, "10,666.5 GPUs"),
    ],
)
def test_amounts_in_messages_have_their_units(resource: str, amount: int, text: str) -> None:
    assert amount_text(resource, amount) == text
