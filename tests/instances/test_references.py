"""Names that refer to nothing or to two things, and running jobs that cannot be: one error each."""

import copy
import json
from typing import Any

import pytest

from placewright.instances import parse_round
from placewright.instances.checks.round import check_cluster, check_round
from placewright.instances.documents.cluster import ClusterDocument
from placewright.instances.documents.round import Round
from placewright.instances.errors import InvalidInputError
from placewright.instances.io.files import parse_cluster

ROUND: dict[str, Any] = {
    "cluster": {
        "levels": ["block", "rack"],
        "domains": [
            {"name": "b0", "level": "block"},
            {"name": "b1", "level": "block"},
            {"name": "r0", "level": "rack", "parent": "b0"},
            {"name": "r1", "level": "rack", "parent": "b1"},
        ],
        "hosts": [
            {"name": "h[0-3]", "parent": "r0", "gpus": 8, "gpu_model": "A100", "cpu": 96,
             "memory": "1000Mi", "resources": {"nic": 2}},
            {"name": "x", "parent": "r1", "model": "dgx-h100", "gpu_model": "H100",
             "healthy": False},
            {"name": "bare", "parent": "r1", "gpus": 0, "cpu": 4},
        ],
        "links": {"host": {"bandwidth_mbps": 1, "latency_us": 1}},
        "wan": [{"between": ["b0", "b1"], "bandwidth_mbps": 1, "latency_us": 5}],
    },
    "tenants": [{"name": "t0", "quota": {"gpu": 8, "nic": 1}}],
    "now": 100,
    "reservations": [{"host": "h[0-1]"}, {"host": "h[2-3]", "gpus": [0, 7]}],
    "policy": {
        "terms": ["remaining", "freed", "value"],
        "spread_weights": {"rack": 1, "host": 1},
        "vacate": ["h[0-2]", "x"],
        "freeing": {"level": "rack", "gpu_worth_s": 1},
    },
    "jobs": [
        {"name": "p", "tenant": "t0", "options": [{"groups": [
            {"gpu": 1, "gpu_models": ["A100", "H100"], "required": "rack",
             "preferred": ["host", "block"]}]}]},
        {"name": "q",
         "options": [
             {"groups": [{"gpu": 0}]},
             {"groups": [
                 {"gpu": 2, "count": 2, "cpu": 10, "memory": "400Mi", "resources": {"nic": 1}},
                 {"gpu": 0.6, "gpu_models": ["A100"]}]}],
         "running": {"option": 1, "checkpoint": 100, "tasks": [
             {"group": 0, "index": 0, "host": "h1", "gpus": [0, 1]},
             {"group": 0, "index": 1, "host": "h1", "gpus": [2, 7]},
             {"group": 1, "index": 0, "host": "h2", "gpus": [3]}]}},
        {"name": "s", "options": [{"groups": [{"gpu": 0.4, "cpu": 86}]}],
         "running": {"tasks": [{"host": "h2", "gpus": [3]}]}},
        {"name": "u", "options": [{"groups": [{"gpu": 1}]}],
         "running": {"tasks": [{"host": "x", "gpus": [5]}]}},
    ],
}  # fmt: skip
MISSING = object()


def changed(path: str, value: object) -> dict[str, Any]:
    """Return ROUND with one place set, removed (MISSING) or appended to (path ends in `+`)."""
    raw = copy.deepcopy(ROUND)
    *parts, last = [int(part) if part.isdigit() else part for part in path.split(".")]
    place: Any = raw
    for part in parts:
        place = place[part]
    if last == "+":
        place.append(value)
    elif value is MISSING:
        del place[last]
    else:
        place[last] = value
    return raw


def refusal(raw: dict[str, Any]) -> InvalidInputError:
    with pytest.raises(InvalidInputError) as caught:
        parse_round(raw)
    return caught.value


def test_the_round_that_these_tests_change_is_valid():
    check_round(parse_round(ROUND))


HOST = {"name": "y", "parent": "r0", "gpus": 8, "gpu_model": "A100"}
CLUSTER_FAULTS = [
    ("levels", ["rack", "rack"], "levels[1]: 'rack': level given twice"),
    ("levels", ["block", "rack", "host"], "levels[2]: 'host': is always the innermost"),
    ("domains.2.level", "rock", "domains[2].level: 'rock': unknown level; expected block or rack"),
    (
        "domains.2.parent",
        "b7",
        "domains[2].parent: 'b7': unknown domain; expected one of level block",
    ),
    ("domains.2.parent", "r1", "domains[2].parent: 'r1': is a domain of level rack; expected one"),
    ("domains.2.parent", "r0", "domains[2].parent: 'r0': is inside r0 itself, a cycle; expected"),
    ("domains.2.parent", MISSING, "domains[2].parent: missing; expected a domain of level block"),
    ("domains.0.parent", "b1", "domains[0].parent: 'b1': no level lies above; expected no parent"),
    ("domains.0.parent", "r0", "domains[0].parent: 'r0': is inside b0 itself, a cycle; expected"),
    ("domains.0.parent", "b0", "domains[0].parent: 'b0': is inside b0 itself, a cycle; expected"),
    (
        "domains.+",
        {"name": "r0", "level": "rack", "parent": "b1"},
        "domains[4].name: 'r0': domain with two parents, b0 and b1; expected one",
    ),
    (
        "domains.+",
        {"name": "r0", "level": "rack", "parent": "b0"},
        "domains[4].name: 'r0': domain given twice; expected each name once",
    ),
    (
        "domains.+",
        {"name": "b0", "level": "rack", "parent": "b0"},
        "domains[4].name: 'b0': domain given twice; expected each name once",
    ),
    ("hosts.0.parent", "r9", "hosts[0].parent: 'r9': unknown domain; expected one of level rack"),
    ("hosts.0.parent", "b0", "hosts[0].parent: 'b0': is a domain of level block; expected one of"),
    ("hosts.0.parent", MISSING, "hosts[0].parent: missing; expected a domain of level rack"),
    ("hosts.0.name", "h[3-0]", "hosts[0].name: 'h[3-0]': range runs backwards; expected its first"),
    ("hosts.0.name", "h[1-200000]", "makes 200,001 hosts; expected at most 200,000 in all"),
    ("hosts.0.name", "h[1-199998]", None),
    (
        "hosts.0.name",
        "h[0-999999999]",
        "makes 1,000,000,000 hosts; expected at most 200,000 in all",
    ),
    ("hosts.+", {**HOST, "name": "h3"}, "hosts[3].name: 'h3': host h3 given twice; expected each"),
    ("hosts.+", {**HOST, "name": "h[2-9]"}, "hosts[3].name: 'h[2-9]': host h2 given twice"),
    ("hosts.+", {**HOST, "name": "h3", "parent": "r1"}, "hosts[3].name: 'h3': host h3 given twice"),
    ("hosts.+", {**HOST, "name": "h[02-09]"}, None),
    (
        "hosts.0.gpus",
        MISSING,
        "hosts[0].gpus: missing; expected the number of GPUs, or a host model",
    ),
    ("hosts.0.gpu_model", MISSING, "hosts[0].gpu_model: missing; expected the model of the GPUs"),
    ("hosts.1.model", "gb200-nvl72-tray", None),
    (
        "hosts.+",
        {"name": "t", "parent": "r1", "model": "gb200-nvl72-tray", "gpus": 5},
        "hosts[3].gpus: 5: expected at most the 4 of the host model",
    ),
    ("hosts.1.model", "dgx-9", "hosts[1].model: 'dgx-9': unknown host model; expected a100-pcie-8"),
    (
        "hosts.+",
        {**HOST, "name": "g[1-5000]", "gpus": 1000},
        "hosts[3].gpus: 1000: makes 5,000,040 GPUs; expected at most 4,000,000 in all",
    ),
    (
        "links",
        {"rock": {"bandwidth_mbps": 1, "latency_us": 1}},
        "links.rock: 'rock': unknown level; expected block or host or rack",
    ),
    (
        "domains.2.uplink_mbps",
        9,
        "domains[2].uplink_mbps: 9: given without a link of its level; expected links of rack, too",
    ),
    (
        "wan.0.between",
        ["b0", "r0"],
        "wan[0].between[1]: 'r0': unknown domain of the outermost level",
    ),
    ("wan.0.between", ["b0", "b0"], "wan[0].between: ('b0', 'b0'): expected two different domains"),
    (
        "wan.+",
        {"between": ["b1", "b0"], "bandwidth_mbps": 1, "latency_us": 1},
        "wan[1].between: ('b1', 'b0'): expected two different domains, and each pair once",
    ),
]


@pytest.mark.parametrize(("path", "value", "message"), CLUSTER_FAULTS)
def test_a_faulty_cluster_is_refused_by_its_path(path, value, message):
    raw = changed(f"cluster.{path}", value)
    if message is None:
        for part in ("jobs", "reservations", "policy"):
            del raw[part]
        parse_round(raw)
        return
    start = (
        "cluster." if message.split(":")[0].split("[")[0] in ClusterDocument.model_fields else ""
    )
    assert start + message in str(refusal(raw))
    with pytest.raises(InvalidInputError) as caught:
        parse_cluster(raw["cluster"])
    assert message in str(caught.value)
    assert refusal(raw).path == ("cluster", *caught.value.path)


def test_a_cluster_without_levels_has_neither_parents_nor_wan_links():
    hosts = [{"name": "h", "gpus": 0}]
    parse_cluster({"hosts": hosts})
    for more, message in (
        ({"hosts": [{**hosts[0], "parent": "r"}]}, "hosts[0].parent: 'r': no level lies above"),
        ({"domains": [{"name": "r", "level": "rack"}]}, "domains[0].level: 'rack': unknown level"),
        (
            {"wan": [{"between": ["a", "b"], "bandwidth_mbps": 1, "latency_us": 1}]},
            "wan[0].between[0]: 'a': unknown domain of the outermost level; expected none",
        ),
    ):
        with pytest.raises(InvalidInputError) as caught:
            parse_cluster({"hosts": hosts, **more})
        assert message in str(caught.value)


def test_domains_that_hold_each_other_are_a_cycle():
    raw = changed("cluster.domains.0.parent", "b1")
    raw["cluster"]["domains"][1]["parent"] = "b0"
    assert "cluster.domains[0].parent: 'b1': is inside b0 itself, a cycle" in str(refusal(raw))


TASKS = "jobs.1.running.tasks"
ROUND_FAULTS = [
    ("tenants.+", {"name": "t0"}, "tenants[1].name: 't0': tenant given twice; expected each name"),
    ("jobs.2.name", "q", "jobs[2].name: 'q': job given twice; expected each name once"),
    ("jobs.0.tenant", "t1", "jobs[0].tenant: 't1': unknown tenant; expected t0"),
    ("tenants", [], "jobs[0].tenant: 't0': unknown tenant; expected none: there are none"),
    (
        "tenants.0.quota",
        {"gpus": 1},
        "tenants[0].quota.gpus: 'gpus': unknown resource; expected cpu or gpu or memory or nic",
    ),
    (
        "policy.spread_weights",
        {"rock": 1},
        "policy.spread_weights.rock: 'rock': unknown level; expected block or host or rack",
    ),
    (
        "jobs.0.options.0.groups.0.gpu_models",
        ["A100", "B7"],
        "jobs[0].options[0].groups[0].gpu_models[1]: 'B7': unknown GPU model; expected A100 or",
    ),
    (
        "jobs.0.options.0.groups.0.hosts",
        ["h1", "h[7-8]"],
        "jobs[0].options[0].groups[0].hosts[1]: 'h[7-8]': unknown host h7; expected hosts of the",
    ),
    (
        "jobs.0.options.0.groups.0.required",
        "gpu",
        "jobs[0].options[0].groups[0].required: 'gpu': unknown level; expected block or host or",
    ),
    (
        "jobs.0.options.0.groups.0.preferred",
        ["rack", "row"],
        "jobs[0].options[0].groups[0].preferred[1]: 'row': unknown level",
    ),
    ("jobs.1.running.option", 2, "jobs[1].running.option: 2: expected the index of an option, at"),
    (
        f"{TASKS}.0.group",
        2,
        "jobs[1].running.tasks[0].group: 2: expected the index of a task group",
    ),
    (f"{TASKS}.0.index", 2, "jobs[1].running.tasks[0].index: 2: expected each of 0 to 1 once in"),
    (f"{TASKS}.1.index", 0, "jobs[1].running.tasks[1].index: 0: expected each of 0 to 1 once in"),
    (f"{TASKS}.2", MISSING, "jobs[1].running.tasks: 2 tasks; expected all 3 of the option"),
    (f"{TASKS}.0.host", "h9", "jobs[1].running.tasks[0].host: 'h9': unknown host; expected a host"),
    (f"{TASKS}.0.host", "h[0-3]", "jobs[1].running.tasks[0].host: 'h[0-3]': expected only letters"),
    (f"{TASKS}.0.gpus", [0], "jobs[1].running.tasks[0].gpus: (0,): expected 2 different GPU"),
    (f"{TASKS}.0.gpus", [0, 0], "jobs[1].running.tasks[0].gpus: (0, 0): expected 2 different GPU"),
    (f"{TASKS}.0.gpus", [0, 8], "jobs[1].running.tasks[0].gpus[1]: 8: expected a GPU of host h1,"),
    (f"{TASKS}.0.gpus", [0, -1], "jobs[1].running.tasks[0].gpus[1]: -1: expected at least 0"),
    (f"{TASKS}.0.gpus", [0, 7], "jobs[1].running.tasks[1].gpus[1]: 7: running tasks hold 2 GPUs"),
    (
        f"{TASKS}.2.host",
        "x",
        "jobs[1].running.tasks[2].host: 'x': has GPU model H100; expected A100",
    ),
    ("jobs.2.running.tasks.0.gpus", [], "jobs[2].running.tasks[0].gpus: (): expected 1 different"),
    (
        "jobs.2.options.0.groups.0.gpu",
        0.401,
        "jobs[2].running.tasks[0].gpus[0]: 3: running tasks hold",
    ),
    (
        "jobs.2.options.0.groups.0.cpu",
        96.001,
        "jobs[2].running.tasks[0].host: 'h2': running tasks hold 96.001 cores there; expected",
    ),
    (
        "jobs.1.options.1.groups.0.memory",
        "501Mi",
        "jobs[1].running.tasks[1].host: 'h1': running tasks hold 1002Mi of memory there; expected",
    ),
    (
        "jobs.1.options.1.groups.0.resources",
        {"nic": 1, "tape": 1},
        "jobs[1].running.tasks[0].host: 'h1': running tasks hold 1 of tape there; expected at most",
    ),
    (
        "jobs.3.running.tasks.0.host",
        "bare",
        "jobs[3].running.tasks[0].gpus[0]: 5: expected a GPU of",
    ),
    (
        "jobs.1.running.checkpoint",
        101,
        "jobs[1].running.checkpoint: 101: is later than now; expected at most 100",
    ),
    ("now", MISSING, "jobs[1].running.checkpoint: 100: is later than now; expected at most 0"),
    (
        "reservations.0.host",
        "h9",
        "reservations[0].host: 'h9': unknown host h9; expected hosts of the cluster",
    ),
    ("reservations.1.host", "h[2-4]", "reservations[1].host: 'h[2-4]': unknown host h4; expected"),
    ("reservations.1.host", "h[02-03]", "reservations[1].host: 'h[02-03]': unknown host h02; exp"),
    ("reservations.1.host", "h[3-2]", "reservations[1].host: 'h[3-2]': range runs backwards; exp"),
    (
        "reservations.1.host",
        "h[0-999999999]",
        "reservations[1].host: 'h[0-999999999]': stands for 1,000,000,000 hosts; expected hosts",
    ),
    (
        "reservations.1.gpus.1",
        8,
        "reservations[1].gpus[1]: 8: expected a GPU of host h2, which has 8 (from 0)",
    ),
    (
        "reservations.1.host",
        "bare",
        "reservations[1].gpus[0]: 0: expected a GPU of host bare, which has 0 (from 0)",
    ),
    (
        "policy.vacate.1",
        "y",
        "policy.vacate[1]: 'y': unknown host y; expected hosts of the cluster",
    ),
    (
        "policy.vacate.0",
        "h[0-9]",
        "policy.vacate[0]: 'h[0-9]': stands for 10 hosts; expected hosts",
    ),
    ("policy.vacate.0", "h[1-0]", "policy.vacate[0]: 'h[1-0]': range runs backwards; expected its"),
    ("policy.vacate", MISSING, "policy.vacate: missing; expected what the term remaining counts"),
    ("policy.vacate", [], "policy.vacate: missing; expected what the term remaining counts"),
    ("policy.freeing", MISSING, "policy.freeing: missing; expected what the term freed counts"),
    (
        "policy.terms",
        ["freed"],
        "policy.vacate: given without the term remaining; expected remaining in policy.terms",
    ),
    (
        "policy.terms",
        ["remaining"],
        "policy.freeing: given without the term freed; expected freed in policy.terms",
    ),
    (
        "policy.freeing.level",
        "row",
        "policy.freeing.level: 'row': unknown level; expected block or host or rack",
    ),
]


@pytest.mark.parametrize(("path", "value", "message"), ROUND_FAULTS)
def test_a_faulty_round_is_refused_by_its_path(path, value, message):
    assert str(refusal(changed(path, value))).startswith(message)


def test_task_groups_may_share_a_name_and_a_job_that_fits_nowhere_is_no_error():
    raw = changed("jobs.0.options.0.groups.+", {"gpu": 900, "resources": {"tape": 5}})
    parse_round(raw)


def test_objects_in_memory_are_checked_as_files_are():
    raw = changed("cluster.domains.2.parent", "b7")
    raw["cluster"] = ClusterDocument.model_validate(raw["cluster"])
    with pytest.raises(InvalidInputError, match=r"^domains\[2\]\.parent"):
        check_cluster(raw["cluster"])
    with pytest.raises(InvalidInputError, match=r"^cluster\.domains\[2\]\.parent"):
        check_round(Round.model_validate(raw))


def test_a_fault_in_a_referred_cluster_names_its_file_and_path(tmp_path):
    from placewright.instances import load_round

    raw = changed("cluster.domains.2.parent", "b7")
    head = {"apiVersion": "placewright/v1alpha2"}
    (tmp_path / "c.json").write_text(json.dumps({**head, "kind": "Cluster", **raw["cluster"]}))
    raw["cluster"] = {"ref": "c.json"}
    (tmp_path / "r.json").write_text(json.dumps({**head, "kind": "Round", **raw}))
    with pytest.raises(InvalidInputError) as caught:
        load_round(tmp_path / "r.json")
    assert str(caught.value).startswith(f"{tmp_path}/c.json: domains[2].parent: unknown")
