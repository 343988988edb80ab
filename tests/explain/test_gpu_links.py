"""Links between GPUs in explanations, corrections and edits of what a job or a host has of them."""

from __future__ import annotations

from typing import Any

import pytest

from placewright import solve_round
from placewright.explain.explain_job import explain_job
from placewright.instances.derived.reason_text import reason_text
from placewright.instances.documents.edits import Edits
from placewright.instances.documents.plan import Detail, Reason
from placewright.instances.documents.round import Round
from placewright.instances.edits.apply import apply_edits
from placewright.instances.edits.sentences import sentence_of
from placewright.instances.errors import InvalidInputError

PAIR = ["X NV - -", "NV X PIX -", "- PIX X PIX", "- - PIX X"]
CLASSES = {
    "NV": {"kind": "nvlink", "bandwidth_mbps": 400},
    "PIX": {"kind": "pcie", "bandwidth_mbps": 100},
}
RING = ["X NV - NV", "NV X NV -", "- NV X NV", "NV - NV X"]


def a_host(rows: list[str], gpus: int, asked: dict[str, Any], **others: Any) -> Round:
    """One host of four GPUs, of which GPU 0 is taken if `busy`, and a job that waits."""
    runs = {"pinned": True, "tasks": [{"host": "h", "gpus": [0]}]}
    busy = {"name": "busy", "options": [{"groups": [{"gpu": 1}]}], "running": runs}
    new = {"name": "new", "options": [{"groups": [{"gpu": gpus, "gpu_links": asked, **others}]}]}
    matrix = {"name": "m", "classes": CLASSES, "gpus": rows}
    return Round.model_validate(
        {
            "cluster": {
                "gpu_links": [matrix],
                "hosts": [{"name": "h", "gpus": 4, "gpu_model": "A", "gpu_links": "m"}],
            },
            "policy": {"terms": ["value", "gpu_links"]},
            "jobs": [busy, new] if rows is PAIR else [new],
        }
    )


def test_a_job_that_wants_the_broken_pair_is_told_so_and_what_would_do() -> None:
    found = explain_job(
        a_host(PAIR, 2, {"required": "nvlink"}), None, "new", corrections=6, isolation="none"
    )
    assert [fact.text for fact in found.conflict] == [
        "2 GPUs per task",
        "GPUs of a task are joined by NVLink",
        "job busy runs (1 GPU, pinned)",
    ]
    assert found.corrections is not None
    assert [one.text for one in found.corrections.now] == [
        "accept PCIe switches or better between GPUs",
        "accept any GPUs of a host, however they are joined",
        "ask 1 instead of 2 GPUs per task",
        "wait until job busy has ended (no end is known)",
    ]


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"at_least_mbps": 200}, "accept links of 100 Mbit/s or more between GPUs"),
        ({"required": "pcie", "joined": "all"}, "accept GPUs joined in a path"),
    ],
)
def test_the_least_that_is_given_up_is_told(asked: dict[str, Any], told: str) -> None:
    gpus = 2 if "at_least_mbps" in asked else 3
    found = explain_job(
        a_host(PAIR, gpus, asked), None, "new", corrections=6, isolation="none"
    ).corrections
    assert found is not None
    assert found.now[0].text == told


def test_four_gpus_of_a_ring_are_given_up_for_two_as_three_have_none() -> None:
    round_ = a_host(RING, 4, {"required": "nvlink", "joined": "ring"})
    taken = {"name": "busy", "options": [{"groups": [{"gpu": 1}]}]}
    running = {"pinned": True, "tasks": [{"host": "h", "gpus": [0]}]}
    busy = Round.model_validate(
        {**round_.model_dump(exclude_defaults=True), "jobs": [{**taken, "running": running}]}
    ).jobs
    round_ = round_.model_copy(update={"jobs": (*busy, *round_.jobs)})
    found = explain_job(round_, None, "new", corrections=9, isolation="none").corrections
    assert found is not None
    texts = {one.text: one.minimal for one in found.now}
    assert texts["ask 2 instead of 4 GPUs per task"]


@pytest.mark.parametrize(
    ("edit", "said", "starts"),
    [
        ({"required": "pcie"}, "asks for PCIe switches or better between GPUs", True),
        ({"required": None}, "asks for links of any kind, or none, between GPUs", True),
        ({"at_least_mbps": 300}, "asks for links of 300 Mbit/s or more between GPUs", False),
        ({"joined": "path"}, "asks for GPUs joined in a path", False),
    ],
)
def test_fields_of_what_a_job_asks_of_links_change_alone(
    edit: dict[str, Any], said: str, starts: bool
) -> None:
    round_ = a_host(PAIR, 2, {"required": "nvlink"})
    edits = Edits.model_validate({"edits": [{"job": {"new": {"gpu_links": edit}}}]})
    assert sentence_of(edits.edits[0]) == f"Job new {said}."
    changed = apply_edits(round_, edits)
    before, after = (r.jobs[1].options[0].groups[0].gpu_links for r in (round_, changed))
    assert before is not None
    assert after == before.model_copy(update=edit)
    plan = solve_round(changed, time_limit=2.0, isolation="none")
    assert ("new" in {one.job for one in plan.decisions if one.tasks}) is starts


def test_who_asks_for_one_gpu_or_no_links_has_none_to_ask_for() -> None:
    round_ = a_host(PAIR, 2, {"required": "nvlink"})
    for change in ({"gpu": 1}, {"without": ["gpu_links"]}):
        edits = Edits.model_validate({"edits": [{"job": {"new": change}}]})
        assert apply_edits(round_, edits).jobs[1].options[0].groups[0].gpu_links is None


def test_bridges_are_added_to_some_hosts_of_a_range() -> None:
    document = a_host(PAIR, 2, {"required": "nvlink"}).model_dump(exclude_defaults=True)
    document["cluster"]["hosts"][0]["name"] = "h[0-2]"
    document["jobs"] = [job for job in document["jobs"] if job["name"] == "new"]
    round_ = Round.model_validate(document)
    ring = {"name": "ring", "classes": CLASSES, "gpus": RING}
    edits = Edits.model_validate({"edits": [{"gpu_links": {"hosts": ["h[1-2]"], "to": ring}}]})
    assert sentence_of(edits.edits[0]) == "GPUs of h[1-2] are joined as in ring."
    changed = apply_edits(round_, edits)
    hosts = {host.name: host.gpu_links for host in changed.cluster.hosts}
    assert hosts == {"h0": "m", "h[1-2]": "ring"}
    with pytest.raises(InvalidInputError, match=r"to.name: 'ring': link matrix exists already"):
        apply_edits(changed, edits)
    for hosts_, to, message in (
        (["h9"], "m", r"edits\[0\].gpu_links.hosts\[0\]"),
        (["h0"], "nowhere", "unknown link matrix"),
    ):
        wrong = Edits.model_validate({"edits": [{"gpu_links": {"hosts": hosts_, "to": to}}]})
        with pytest.raises(InvalidInputError, match=message):
            apply_edits(round_, wrong)


def test_places_say_that_hosts_have_the_gpus_without_the_links() -> None:
    found = explain_job(a_host(PAIR, 3, {"required": "nvlink"}), None, "new", isolation="none")
    assert found.places is not None
    assert [one.unfit for one in found.places] == [(("4 x A", 1, {"resource": "gpu_links"}),)]


@pytest.mark.parametrize(
    ("detail", "text"),
    [
        (
            {"tasks": 1, "places": 0, "gpu_links": "nvlink"},
            (
                "no task fits beside running jobs: GPUs for one are free, but not joined by "
                "NVLink as it asks"
            ),
        ),
        (
            {"tasks": 4, "places": 2, "gpu_links": "system", "group": 1},
            (
                "at most 2 of 4 tasks of group 1 fit beside running jobs: GPUs for more are free, "
                "but not joined as they ask"
            ),
        ),
    ],
)
def test_reasons_name_the_links(detail: dict[str, Any], text: str) -> None:
    assert reason_text(Reason.CAPACITY, Detail.model_validate(detail)) == text
