"""Numbers of documents end somewhere: no exporter stumbles over a date or an index."""

import re
from itertools import product
from typing import Any

import pytest

from placewright import Changes, Edits, Engine, Plan, apply_edits
from placewright.instances import parse_round
from placewright.instances.converters.bookkeeping import Bookkeeping
from placewright.instances.converters.slurm.caps import read_licences
from placewright.instances.converters.slurm.records import Part
from placewright.instances.converters.slurm.texts import read_gres
from placewright.instances.documents.base import MAX_NOW
from placewright.instances.errors import InvalidInputError
from placewright.instances.exporters.kubernetes import bind_requests, kubernetes_script
from placewright.instances.exporters.kueue import kueue_script, topology_assignments
from placewright.instances.exporters.ray import bundle_selectors
from placewright.instances.exporters.slurm import slurm_script

DIGITS = "9" * 5000
OBJECT = {
    "kubernetes/namespace": "ns",
    "kubernetes/name": "one",
    "kubernetes/uid": "u1",
    "kubernetes/kind": "Workload",
    "kubernetes/api-version": "v1",
    "kubernetes/pod-sets": "main",
    "kubernetes/pods/0": "one-0",
    "kubernetes/pod-uids/0": "uid-0",
    "slurm/job": "17",
}
NUMBERS = ("kubernetes/gates/0", "kubernetes/check", "ray/bundles/0", "slurm/components")


def round_of(now: int = MAX_NOW, **annotations: str) -> dict[str, Any]:
    jobs = [
        {"name": name, "options": [{"groups": [{"gpu": 8}]}], "annotations": OBJECT | annotations}
        for name in ("starts", "waits")
    ]
    hosts = [{"name": "n0", "gpus": 8, "gpu_model": "H100"}]
    return {"now": now, "cluster": {"hosts": hosts}, "jobs": jobs}


PLAN = Plan.model_validate(
    {
        "decisions": [
            {
                "job": "starts",
                "decision": "start",
                "option": 0,
                "tasks": [{"host": "n0", "gpus": list(range(8))}],
            },
            {"job": "waits", "decision": "wait", "reason": "capacity"},
        ]
    }
)


@pytest.mark.parametrize(
    "export",
    [
        bind_requests,
        bundle_selectors,
        kubernetes_script,
        kueue_script,
        slurm_script,
        topology_assignments,
    ],
)
def test_no_number_of_a_round_is_too_large_for_an_exporter(export):
    for key, text in product(("other", *NUMBERS), (DIGITS, "²", "-1", "1e9")):
        assert export(parse_round(round_of(**{key: text})), PLAN)


def test_the_clock_ends_with_the_year_9999():
    last = parse_round(round_of())
    with pytest.raises(InvalidInputError, match=r"now: 253402300800: expected at most 25340230079"):
        parse_round(round_of(MAX_NOW + 1))
    with pytest.raises(InvalidInputError, match="expected a time of at most 253402300799"):
        apply_edits(last, Edits.model_validate({"edits": [{"advance_s": 1}]}))
    with (
        Engine(last, time_limit=0, isolation="none") as engine,
        pytest.raises(InvalidInputError, match="now: 253402300800: expected no earlier than"),
    ):
        engine.round(Changes(now=MAX_NOW + 1))


@pytest.mark.parametrize("digits", [DIGITS, "²", "٣"])
def test_digits_of_a_dump_of_slurm_are_those_of_numbers_of_some_size(digits):
    assert read_gres(f"gpu:2(IDX:{digits})").indices == ()
    text = f"LicenseName=a\n    Total={digits} Used=0 Free=1"
    with pytest.raises(InvalidInputError, match=re.escape("licenses[0].Total")):
        read_licences(Part("licences.txt", text=text), Bookkeeping())
