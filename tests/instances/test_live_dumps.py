"""A dump is known by what it holds, whatever scheduler it is of."""

from __future__ import annotations

from pathlib import Path

import pytest

from placewright.instances.converters import is_dump, read_live
from placewright.instances.errors import InvalidInputError

ROOT = Path(__file__).parents[2]
DATA = ROOT / "tests" / "data"
QUICKSTART = ROOT / "instances" / "library" / "quickstart.yaml"


def test_a_folder_of_slurm_and_one_of_kubernetes_are_told_apart():
    assert read_live(DATA / "slurm" / "v0.0.44").round.name == "slurm"
    assert read_live(DATA / "kubernetes").round.name == "kubernetes"
    assert read_live(DATA / "kubernetes" / "nodes-pods.json").round.name == "kubernetes"


def test_a_document_of_ours_is_no_dump():
    assert not is_dump(QUICKSTART)
    assert is_dump(DATA / "kubernetes")
    assert is_dump(DATA / "kubernetes" / "nodes-pods.json")


def test_a_folder_without_json_is_named(tmp_path):
    with pytest.raises(InvalidInputError, match="has no JSON"):
        read_live(tmp_path)
