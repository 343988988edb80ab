"""What regions have once hosts fail and GPUs are reserved, as the verifier counts it, too."""

from __future__ import annotations

from placewright.formulations.common.wan.arrays import compile_wan
from placewright.instances.documents.round import Round
from placewright.instances.verify.reading import read_cluster, read_geo


def test_a_gpu_that_is_reserved_twice_is_missing_once():
    round_ = Round.model_validate(
        {
            "cluster": {
                "levels": ["region"],
                "domains": [{"level": "region", "name": name} for name in ("a", "b")],
                "hosts": [
                    {"name": "a[0-1]", "parent": "a", "gpus": 4, "gpu_model": "T4"},
                    {"name": "b0", "parent": "b", "gpus": 4, "gpu_model": "T4", "healthy": False},
                ],
            },
            "reservations": [
                {"host": "a0", "gpus": [0, 1]},
                {"host": "a0", "gpus": [1, 2]},
                {"host": "a1"},
                {"host": "a[0-1]", "gpus": [0]},
                {"host": "b0", "gpus": [3]},
            ],
            "policy": {"formulation": "replicas"},
        }
    )
    assert compile_wan(round_).supply.tolist() == [[1000], [0]]
    facts = read_geo(round_, read_cluster(round_.cluster))
    assert {key: milli for key, milli in facts.supply.items() if milli} == {(0, "T4"): 1000}
