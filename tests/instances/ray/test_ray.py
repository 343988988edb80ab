"""Ray's nodes and placement groups as a round, and a plan as label selectors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from placewright import solve_round
from placewright.instances.converters import is_dump, read_live, read_ray
from placewright.instances.converters.ray import selects
from placewright.instances.errors import InvalidInputError
from placewright.instances.exporters.ray import bundle_selectors

DATA = Path(__file__).parents[2] / "data" / "ray"


def node(name: str, gpus: float = 8, **labels: str) -> dict[str, Any]:
    total = {"GPU": gpus, "CPU": 32.0, "memory": "64.000 GiB"}
    return {"node_id": name, "state": "ALIVE", "resources_total": total, "labels": labels}


def bundle(gpus: float, host: str = "", **selector: str) -> dict[str, Any]:
    return {"unit_resources": {"GPU": gpus}, "node_id": host, "label_selector": selector}


def group(name: str, *bundles: Any, state: str = "PENDING") -> dict[str, Any]:
    return {"placement_group_id": f"id-{name}", "name": name, "state": state, "bundles": bundles}


def convert(folder: Path, *items: Any, **options: Any) -> Any:
    file = folder / "ray.json"
    file.write_text(json.dumps(items))
    return read_ray([file], **options)


def test_a_captured_cluster_is_read_whole():
    made = read_ray(sorted(DATA.iterdir()), levels=["rack"])
    assert made.summary == ("ray: 7 hosts, 48 GPUs; 2 placement groups have their nodes, 1 wait")
    assert made.round.cluster.levels == ("rack",)
    by_name = {job.name: job for job in made.round.jobs}
    assert by_name["train"].running.pinned
    assert [by_name["big"].options[0].groups[0].count, by_name["big"].running] == [4, None]
    assert not made.book.left_out
    assert is_dump(DATA)
    assert len(read_live(DATA).round.jobs) == 3


def test_a_plan_becomes_selectors_in_the_order_of_the_bundles(tmp_path):
    waits = group("g", bundle(8), bundle(2), bundle(8))
    made = convert(tmp_path, node("n0"), node("n1"), node("n2"), waits)
    plan = solve_round(made.round, time_limit=3.0, isolation="none")
    (found,) = bundle_selectors(made.round, plan)
    assert found["placement_group_id"] == "id-g"
    assert [one["GPU"] for one in found["bundles"]] == [8.0, 2.0, 8.0]
    hosts = [one["ray.io/node-id"] for one in found["bundle_label_selector"]]
    assert set(hosts) == {"n0", "n1", "n2"}


def test_memory_is_in_bytes_and_what_is_asked_is_rounded_up(tmp_path):
    asked = {"GPU": 1, "CPU": 0.5, "memory": 3 * 2**20 + 1}
    made = convert(tmp_path, node("n0"), group("g", {**bundle(1), "unit_resources": asked}))
    (wanted,) = made.round.jobs[0].options[0].groups
    assert (wanted.cpu, wanted.memory) == (500, 4)


def test_shares_of_gpus_and_selectors(tmp_path):
    holds = group("half", bundle(0.5, "n0"), bundle(0.5, "n0"), state="CREATED")
    waits = group("wants", bundle(1, rack="!r0"))
    made = convert(tmp_path, node("n0", 1, rack="r0"), node("n1", 1, rack="r1"), holds, waits)
    half, wants = made.round.jobs
    assert [task.gpus for task in half.running.tasks] == [(0,), (0,)]
    assert wants.options[0].groups[0].hosts == ("n1",)


@pytest.mark.parametrize(
    ("item", "reason"),
    [
        (group("a", bundle(1), state="REMOVED"), "is removed"),
        (
            group("a", bundle(1.5)),
            "asks for whole GPUs and a part of one",
        ),
        (group("a", bundle(0)), "asks for no GPU"),
        (group("a", bundle(1, "gone"), state="CREATED"), "is on a node that is not alive"),
        (group("a", bundle(9, "n0"), state="CREATED"), "is on a node with fewer GPUs"),
        (group("a", bundle(1, rack="near(x)")), "has a label selector that is not read"),
        (group("a", bundle(1, rack="none")), "selects no node that is alive"),
        (group("a"), "has no bundles, or too many"),
    ],
)
def test_what_cannot_be_a_job_is_counted_by_the_reason(tmp_path, item, reason):
    made = convert(tmp_path, node("n0"), item)
    ((kind, why),) = made.book.left_out
    assert kind == "placement groups"
    assert why.startswith(reason)


@pytest.mark.parametrize(
    ("asked", "match"),
    [
        ("a", True),
        ("b", False),
        ("!a", False),
        ("!b", True),
        ("in(a, b)", True),
        ("!in(a,b)", False),
    ],
)
def test_selectors(asked, match):
    assert selects({"k": asked}, {"k": "a"}) is match


@pytest.mark.parametrize(
    ("item", "said"),
    [
        ({"node_id": 7}, "[0].node_id: 7: expected a name"),
        ({"node_id": "n", "resources_total": {"GPU": "x"}}, "[0].resources_total.GPU: 'x'"),
        ({"x": 1}, "expected a node or a placement group of Ray"),
        (node("n", 0) | {"state": "DEAD"}, "has no node that is alive"),
    ],
)
def test_a_wrong_value_is_one_line(tmp_path, item, said):
    with pytest.raises(InvalidInputError) as caught:
        convert(tmp_path, item)
    assert said in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


def test_a_node_of_which_groups_hold_more_than_it_has_is_named(tmp_path):
    held = bundle(1, "n0")
    held["unit_resources"]["CPU"] = 64.0
    made = convert(tmp_path, node("n0"), group("a", held, state="CREATED"))
    assert made.round.cluster.hosts[0].cpu == 64_000
    assert "cores or memory of which groups hold more than the node has" in made.book.unsaid


def test_nothing_arrives_where_a_group_that_is_left_out_holds_gpus(tmp_path):
    odd = group("odd", bundle(1.5, "n0"), state="CREATED")
    made = convert(tmp_path, node("n0"), node("n1"), odd, group("a", bundle(8)))
    assert [one.host for one in made.round.reservations] == ["n0"]
