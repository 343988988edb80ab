"""Affinity, anti-affinity and topology spread: what a round can say is obeyed, the rest is told."""

from __future__ import annotations

from typing import Any

import pytest

from placewright.instances.converters.kubernetes import neighbours
from placewright.instances.documents.caveats import caveats_of
from tests.instances.kubernetes.dumps import allowed_hosts, convert, left_out, node, pod
from tests.instances.kubernetes.test_kueue import HOST, admitted, workload

ZONE = "topology.kubernetes.io/zone"
NODES = [node(name, labels={ZONE: zone}) for name, zone in (("a0", "a"), ("a1", "a"), ("b0", "b"))]


def term(app: str, key: str = ZONE, **fields: Any) -> dict[str, Any]:
    return {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": key} | fields


def affinity(kind: str, *terms: Any) -> dict[str, Any]:
    return {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}}}


def anti(*terms: Any) -> dict[str, Any]:
    return affinity("podAntiAffinity", *terms)


def near(*terms: Any) -> dict[str, Any]:
    return affinity("podAffinity", *terms)


def spread(app: str, key: str = ZONE, **fields: Any) -> dict[str, Any]:
    one = {"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"} | term(app, key, **fields)
    return {"topologySpreadConstraints": [one]}


def of(name: str, app: str = "x", host: str | None = None, job: str = "", **spec: Any) -> Any:
    made_by = {"kind": "Job" if job else "ReplicaSet", "name": job or name, "uid": name}
    owners = [{"controller": True, **made_by}]
    return pod(name, host=host, meta={"labels": {"app": app}, "ownerReferences": owners}, **spec)


def told(made: Any, name: str) -> list[str]:
    (job,) = (job for job in made.round.jobs if job.name == name)
    found = [one.rule for one in caveats_of(job.annotations)]
    return [rule for rule in found if rule not in ("queue-missing", "one-by-one")]


def test_a_bound_pod_excludes_its_host(tmp_path):
    made = convert(tmp_path, *NODES, of("r", host="a0"), of("w", **anti(term("x", HOST))))
    assert allowed_hosts(made, "ns/w") == {"a1", "b0"}
    assert told(made, "ns/w") == []


def test_a_bound_pod_excludes_its_domain_also_by_a_label_that_is_no_level(tmp_path):
    nodes = [node(name, labels={"rack": rack}) for name, rack in (("a", "1"), ("b", "1"))]
    made = convert(
        tmp_path, *nodes, node("c"), of("r", host="a"), of("w", **anti(term("x", "rack")))
    )
    assert allowed_hosts(made, "ns/w") == {"c"}
    assert told(made, "ns/w") == []


def test_the_anti_affinity_of_a_bound_pod_keeps_a_waiting_one_out(tmp_path):
    pods = [of("r", host="a0", **anti(term("w"))), of("w", app="w"), of("v", app="v")]
    made = convert(tmp_path, *NODES, *pods)
    assert allowed_hosts(made, "ns/w") == {"b0"}
    assert allowed_hosts(made, "ns/v") is None
    assert told(made, "ns/w") == []


@pytest.mark.parametrize(
    ("fields", "hosts"),
    [
        ({"namespaces": ["other"]}, None),
        ({"namespaceSelector": {}}, {"b0"}),
        ({"labelSelector": {}}, {"b0"}),
        ({"labelSelector": None}, None),
        ({"labelSelector": {"matchExpressions": [{"key": "app", "operator": "Exists"}]}}, {"b0"}),
    ],
)
def test_terms_select_by_namespace_and_label(tmp_path, fields, hosts):
    made = convert(tmp_path, *NODES, of("r", host="a0"), of("w", **anti(term("x", **fields))))
    assert allowed_hosts(made, "ns/w") == hosts


def test_an_unknown_namespace_is_told(tmp_path):
    one = term("x", namespaceSelector={"matchLabels": {"team": "red"}})
    assert told(convert(tmp_path, *NODES, of("w", **anti(one))), "ns/w") == ["pod-anti-affinity"]


@pytest.mark.parametrize(("key", "level"), [(HOST, "host"), (ZONE, "zone")])
def test_pods_of_a_gang_that_keep_out_of_each_others_domain_are_apart(tmp_path, key, level):
    pods = [of(f"g-{i}", job="g", **anti(term("x", key))) for i in range(2)]
    made = convert(tmp_path, *NODES, *pods)
    (job,) = made.round.jobs
    (group,) = job.options[0].groups
    assert (group.apart.level, group.apart.most) == (level, 1)
    assert told(made, job.name) == []


def test_jobs_that_wait_and_keep_out_of_each_others_domain_have_a_label(tmp_path):
    pods = [of(f"w-{i}", **anti(term("x", HOST))) for i in range(2)]
    made = convert(tmp_path, *NODES, *pods)
    (first, second) = (job.anti_affinity for job in made.round.jobs)
    assert first == second
    assert first.level == "host"
    assert told(made, "ns/w-0") == []


def test_a_waiting_pod_without_the_rule_is_told(tmp_path):
    made = convert(tmp_path, *NODES, of("w", **anti(term("x", HOST))), of("v"))
    assert told(made, "ns/w") == ["pod-anti-affinity"]


def test_pods_that_differ_are_told(tmp_path):
    pods = [of("g-0", job="g", **anti(term("x", HOST))), of("g-1", job="g")]
    assert told(convert(tmp_path, *NODES, *pods), "ns/g") == ["pod-anti-affinity"]


def test_a_pod_that_may_move_is_told(tmp_path):
    pods = [of("r", host="a0"), of("w", **anti(term("x", HOST)))]
    made = convert(tmp_path, *NODES, *pods, movable=True)
    assert told(made, "ns/w") == ["pod-anti-affinity"]


def test_a_required_neighbour_that_runs_says_where(tmp_path):
    made = convert(tmp_path, *NODES, of("r", host="a0"), of("w", app="w", **near(term("x"))))
    assert allowed_hosts(made, "ns/w") == {"a0", "a1"}
    assert told(made, "ns/w") == []


def test_a_required_neighbour_that_is_nowhere_leaves_no_node(tmp_path):
    made = convert(tmp_path, *NODES, of("w", app="w", **near(term("x"))))
    assert left_out(made) == {"may go to no node of the round": ["ns/w"]}
    assert made.book.why["ns/w"] == f"pod-affinity/{ZONE}"


def test_a_required_neighbour_that_waits_is_told(tmp_path):
    made = convert(tmp_path, *NODES, of("v"), of("w", app="w", **near(term("x"))))
    assert told(made, "ns/w") == ["pod-affinity"]


@pytest.mark.parametrize(("key", "level"), [(HOST, "host"), (ZONE, "zone")])
def test_a_gang_whose_pods_require_each_other_is_together(tmp_path, key, level):
    pods = [of(f"g-{i}", job="g", **near(term("x", key))) for i in range(3)]
    made = convert(tmp_path, *NODES, *pods)
    (job,) = made.round.jobs
    assert job.options[0].required == level
    assert told(made, job.name) == []


def test_a_gang_joins_its_neighbours_that_run(tmp_path):
    pods = [of(f"g-{i}", job="g", **near(term("x"))) for i in range(2)]
    made = convert(tmp_path, *NODES, of("r", host="b0"), *pods)
    assert allowed_hosts(made, "ns/g") == {"b0"}


def test_spread_leaves_the_domains_with_the_fewest(tmp_path):
    made = convert(tmp_path, *NODES, of("r", host="a0"), of("w", **spread("x")))
    assert allowed_hosts(made, "ns/w") == {"b0"}
    assert told(made, "ns/w") == []


def test_spread_over_a_zone_that_is_full_waits(tmp_path):
    pods = [pod("busy", 8, host="b0"), of("r", host="a0"), of("w", **spread("x"))]
    made = convert(tmp_path, *NODES, *pods)
    assert allowed_hosts(made, "ns/w") == {"b0"}


@pytest.mark.parametrize(
    ("fields", "hosts"),
    [
        ({"maxSkew": 2}, None),
        ({"maxSkew": 2, "minDomains": 3}, None),
        ({"minDomains": 3}, {"b0"}),
        ({"whenUnsatisfiable": "ScheduleAnyway"}, None),
        ({"labelSelector": {"matchLabels": {"app": "y"}}}, None),
    ],
)
def test_spread_counts_as_kube_scheduler_does(tmp_path, fields, hosts):
    made = convert(tmp_path, *NODES, of("r", host="a0"), of("w", **spread("x", **fields)))
    assert allowed_hosts(made, "ns/w") == hosts


def test_nodes_that_the_selector_excludes_are_no_domain(tmp_path):
    chosen = {"nodeSelector": {ZONE: "a"}}
    made = convert(tmp_path, *NODES, of("r", host="a0"), of("w", **spread("x"), **chosen))
    assert allowed_hosts(made, "ns/w") == {"a0", "a1"}
    ignoring = spread("x", nodeAffinityPolicy="Ignore")
    made = convert(tmp_path, *NODES, of("r", host="a0"), of("w", **ignoring, **chosen))
    assert left_out(made) == {"may go to no node of the round": ["ns/w"]}


@pytest.mark.parametrize(
    ("key", "count", "most", "exact"),
    [(HOST, 2, 1, True), (HOST, 3, 1, True), (HOST, 4, 2, False), (ZONE, 4, 2, True)],
)
def test_a_gang_that_is_spread_is_apart(tmp_path, key, count, most, exact):
    pods = [of(f"g-{i}", job="g", **spread("x", key)) for i in range(count)]
    made = convert(tmp_path, *NODES, *pods)
    (job,) = made.round.jobs
    assert job.options[0].groups[0].apart.most == most
    assert (told(made, job.name) == []) is exact


def test_a_spread_gang_beside_pods_that_run_is_told(tmp_path):
    pods = [of(f"g-{i}", job="g", **spread("x")) for i in range(2)]
    made = convert(tmp_path, *NODES, of("r", host="a0"), *pods)
    assert told(made, "ns/g") == ["topology-spread"]
    (job,) = (job for job in made.round.jobs if job.name == "ns/g")
    assert job.options[0].groups[0].apart is None


def queued(name: str = "w", app: str = "x", status: Any = None, count: int = 1, **spec: Any) -> Any:
    """A workload whose pods are not there yet."""
    one = workload(count, 1, status=status)
    one["metadata"]["name"] = name
    template = one["spec"]["podSets"][0]["template"]
    template |= {"metadata": {"labels": {"app": app}}}
    template["spec"] |= spec
    return one


@pytest.mark.parametrize(
    ("spec", "hosts"),
    [
        (anti(term("r")), {"b0"}),
        (anti(term("r", HOST)), {"a1", "b0"}),
        (near(term("r")), {"a0", "a1"}),
        (spread("r", maxSkew=1), None),
        (spread("r", ZONE, nodeAffinityPolicy="Ignore"), None),
    ],
)
def test_a_workload_without_pods_is_kept_where_its_pods_would_be(tmp_path, spec, hosts):
    made = convert(tmp_path, *NODES, of("r", app="r", host="a0"), queued(**spec))
    assert allowed_hosts(made, "ns/w") == hosts
    assert told(made, "ns/w") == []


def test_a_bound_pod_keeps_a_workload_without_pods_out(tmp_path):
    pods = [of("r", host="a0", **anti(term("w"))), queued(app="w"), queued("v", app="v")]
    made = convert(tmp_path, *NODES, *pods)
    assert allowed_hosts(made, "ns/w") == {"b0"}
    assert allowed_hosts(made, "ns/v") is None


def test_a_workload_that_is_assigned_keeps_others_out_before_its_pods_are_bound(tmp_path):
    runs = queued("r", app="r", status=admitted("a0"), **anti(term("w")))
    made = convert(tmp_path, *NODES, runs, queued(app="w"), of("p", app="w"))
    assert allowed_hosts(made, "ns/w") == allowed_hosts(made, "ns/p") == {"b0"}


def test_pods_of_a_workload_are_apart_and_so_are_workloads(tmp_path):
    made = convert(tmp_path, *NODES, queued(count=2, **anti(term("x", HOST))))
    (job,) = made.round.jobs
    assert job.options[0].groups[0].apart.most == 1
    both = [queued(name, **anti(term("x", HOST))) for name in ("v", "w")]
    first, second = convert(tmp_path, *NODES, *both).round.jobs
    assert first.anti_affinity == second.anti_affinity is not None
    assert told(made, "ns/w") == []


def test_a_pod_that_keeps_out_of_a_workload_without_pods_is_told(tmp_path):
    made = convert(tmp_path, *NODES, queued(app="v"), of("p", **anti(term("v", HOST))))
    assert told(made, "ns/p") == ["pod-anti-affinity"]


def test_pods_that_are_there_speak_for_their_workload(tmp_path):
    meta = {"labels": {"app": "w"}, "annotations": {"kueue.x-k8s.io/workload": "w"}}
    mine = pod("w-0", meta=meta, schedulingGates=[{"name": "kueue.x-k8s.io/admission"}])
    guard = of("r", host="a0", **anti(term("w")))
    made = convert(tmp_path, *NODES, queued(app="other"), mine, guard)
    assert allowed_hosts(made, "ns/w") == {"b0"}


def test_a_job_is_known_by_the_label_that_its_controller_sets(tmp_path):
    one = queued(app="w")
    one["metadata"]["ownerReferences"] = [{"kind": "Job", "name": "train", "uid": "1"}]
    other = {"labelSelector": {"matchLabels": {"job-name": "train"}}, "topologyKey": ZONE}
    made = convert(tmp_path, *NODES, one, of("r", host="a0", **anti(other)))
    assert allowed_hosts(made, "ns/w") == {"b0"}


def test_what_may_move_goes_nowhere_that_others_keep_it_out_of(tmp_path):
    pods = [of("r", host="a0", **anti(term("m"))), of("m", app="m", host="b0")]
    made = convert(tmp_path, *NODES, *pods, movable=True)
    assert allowed_hosts(made, "ns/m") == {"b0"}


def test_pods_near_which_a_pod_goes_are_those_that_all_of_its_terms_mean(tmp_path):
    both = {"labelSelector": {"matchLabels": {"app": "x", "tier": "y"}}, "topologyKey": ZONE}
    pods = [of("r", host="a0"), of("w", app="w", **near(term("x"), both))]
    made = convert(tmp_path, *NODES, *pods)
    assert left_out(made) == {"may go to no node of the round": ["ns/w"]}
    r = pod("r", host="b0", meta={"labels": {"app": "x", "tier": "y"}})
    made = convert(tmp_path, *NODES, of("q", host="a0"), r, pods[1])
    assert allowed_hosts(made, "ns/w") == {"b0"}


def test_reading_rules_grows_with_their_number(tmp_path, monkeypatch):
    calls = []
    really = neighbours.selects
    monkeypatch.setattr(
        neighbours, "selects", lambda *asked: calls.append(1) or really(*asked), raising=True
    )

    def work(number: int) -> int:
        calls.clear()
        pods = [
            of(f"{app}-{i}", app=f"{app}", host=host, **anti(term(app, HOST)), **spread(app))
            for app in map(str, range(number))
            for i, host in enumerate(("a0", "b0", None, None))
        ]
        convert(tmp_path, *NODES, *pods)
        return len(calls)

    assert work(40) < 2.5 * work(20)
