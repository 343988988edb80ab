"""kube-scheduler's extender: pods go where the plan has their job, and else it says why not.

The arguments are handmade (tests/data/extender), in the form that kube-scheduler sends.
"""

from __future__ import annotations

import copy
import json
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import examples
from placewright import InvalidInputError, solve_round
from placewright.instances.converters import read_kubernetes
from placewright.live.serve.extender import Extender, args_of
from placewright.live.serve.lane import JobPlaces, TaskPlace
from placewright.live.serve.service import snapshot_of

ROOT = Path(__file__).parents[3]
ARGS = json.loads((ROOT / "tests" / "data" / "extender" / "filter-args.json").read_text())
PAGE = (ROOT / "docs" / "how-to" / "serve.md").read_text()
CAPTURED = ROOT.parent / "shared" / "data" / "live" / "kubernetes" / "captured"
JOB = "research/pretrain"
NODES = ARGS["NodeNames"]


def arguments(name="pretrain-0", *, gpus=8, nodes=NODES, **meta):
    made = copy.deepcopy(ARGS)
    made["Pod"]["metadata"] |= {"name": name, "uid": f"uid-{name}", **meta}
    resources = made["Pod"]["spec"]["containers"][0]["resources"]
    for amounts in resources.values():
        amounts.pop("nvidia.com/gpu")
        if gpus:
            amounts["nvidia.com/gpu"] = str(gpus)
    made["NodeNames"] = list(nodes)
    return args_of(made)


def extender(**jobs):
    made = Extender()
    made.show({name.replace("__", "/"): places for name, places in jobs.items()})
    return made


def placed(*hosts, milli=8000):
    return JobPlaces(tuple(TaskPlace(host, milli) for host in hosts))


def nodes_and_reasons(result):
    assert result["FailedNodes"] == {}
    assert result["Error"] == ""
    return result["NodeNames"], set(result["FailedAndUnresolvableNodes"].values())


def test_a_pod_goes_where_the_plan_has_it():
    made = extender(research__pretrain=placed("gpu-2", "gpu-1"))
    first = made.filtered(arguments("pretrain-0"))
    assert nodes_and_reasons(first) == (["gpu-2"], {"placewright: planned for gpu-2"})
    assert set(first["FailedAndUnresolvableNodes"]) == {"gpu-0", "gpu-1", "gpu-3"}
    assert made.filtered(arguments("pretrain-1"))["NodeNames"] == ["gpu-1"]


def test_a_pod_that_asks_again_keeps_its_place():
    made = extender(research__pretrain=placed("gpu-2", "gpu-1"))
    for _ in range(3):
        assert made.filtered(arguments("pretrain-0"))["NodeNames"] == ["gpu-2"]
        assert made.filtered(arguments("pretrain-1"))["NodeNames"] == ["gpu-1"]


def test_a_pod_may_take_another_place_of_its_job_that_is_free():
    made = extender(research__pretrain=placed("gpu-2", "gpu-1"))
    made.filtered(arguments("pretrain-0"))
    assert made.filtered(arguments("pretrain-0", nodes=["gpu-1"]))["NodeNames"] == ["gpu-1"]
    assert made.filtered(arguments("pretrain-1"))["NodeNames"] == ["gpu-2"]


def test_a_pod_that_the_round_knows_has_the_place_of_its_task():
    tasks = tuple(TaskPlace(f"gpu-{i}", 8000, f"uid-p{i}") for i in range(3))
    made = extender(unlike__name=JobPlaces(tasks))
    for i in (2, 0, 1):
        assert made.filtered(arguments(f"p{i}"))["NodeNames"] == [f"gpu-{i}"]


def test_a_pod_made_anew_has_a_place_of_none_that_the_round_knows():
    tasks = TaskPlace("gpu-0", 8000, "uid-p0"), TaskPlace("gpu-1", 8000)
    owner = ARGS["Pod"]["metadata"]["ownerReferences"][0]["uid"]
    made = extender(job_j1=JobPlaces(tasks, owners=(owner,)))
    assert made.filtered(arguments("new"))["NodeNames"] == ["gpu-1"]
    assert made.filtered(arguments("p0"))["NodeNames"] == ["gpu-0"]


def test_pods_of_unlike_size_take_the_places_of_their_size():
    places = JobPlaces((TaskPlace("gpu-0", 1000), TaskPlace("gpu-1", 8000)))
    made = extender(research__pretrain=places)
    assert made.filtered(arguments("worker"))["NodeNames"] == ["gpu-1"]
    assert made.filtered(arguments("leader", gpus=1))["NodeNames"] == ["gpu-0"]


@pytest.mark.parametrize(
    ("jobs", "reason"),
    [
        ({}, "waits, in no plan"),
        ({"research__pretrain": JobPlaces(why="quota: too many")}, "waits, quota: too many"),
        ({"research__pretrain": placed("gpu-9", "gpu-8")}, "waits, planned for gpu-9, gpu-8"),
        (
            {"research__pretrain": placed("gpu-0", milli=4000)},
            "waits, no place of job research/pretrain for 8 GPUs is left",
        ),
    ],
)
def test_a_pod_that_waits_says_why_of_each_node(jobs, reason):
    result = extender(**jobs).filtered(arguments())
    assert nodes_and_reasons(result) == ([], {f"placewright: {reason}"})
    assert set(result["FailedAndUnresolvableNodes"]) == set(NODES)


def test_without_a_plan_all_wait():
    result = Extender().filtered(arguments())
    assert nodes_and_reasons(result) == ([], {"placewright: waits, no plan yet"})


def test_a_third_pod_of_two_places_waits():
    made = extender(research__pretrain=placed("gpu-2", "gpu-1"))
    for name in ("pretrain-0", "pretrain-1"):
        made.filtered(arguments(name))
    assert made.filtered(arguments("pretrain-2"))["NodeNames"] == []


def test_a_new_plan_forgets_what_was_given():
    made = extender(research__pretrain=placed("gpu-2"))
    made.filtered(arguments("pretrain-0"))
    made.show({JOB: placed("gpu-3")})
    assert made.filtered(arguments("pretrain-1"))["NodeNames"] == ["gpu-3"]


def test_the_annotation_names_the_job():
    made = extender(other=placed("gpu-3"), research__pretrain=placed("gpu-2"))
    noted = arguments(annotations={"placewright.dev/job": "other"})
    assert made.filtered(noted)["NodeNames"] == ["gpu-3"]
    lost = arguments(annotations={"placewright.dev/job": "nobody"})
    assert nodes_and_reasons(made.filtered(lost))[1] == {"placewright: waits, in no plan"}


def test_where_some_pods_of_a_gang_run_the_others_are_a_job_of_their_own():
    jobs = {JOB: placed("gpu-0"), f"{JOB}:waiting": placed("gpu-3")}
    made = Extender()
    made.show(jobs)
    assert made.filtered(arguments())["NodeNames"] == ["gpu-3"]


def test_a_pod_alone_is_named_by_itself():
    made = extender(research__alone=placed("gpu-3"))
    assert made.filtered(arguments("alone", ownerReferences=[]))["NodeNames"] == ["gpu-3"]


def test_pods_without_gpus_go_anywhere():
    result = Extender().filtered(arguments(gpus=0))
    assert nodes_and_reasons(result) == (NODES, set())


def test_the_planned_node_scores_best():
    made = extender(research__pretrain=placed("gpu-2"))
    made.filtered(arguments())
    scores = {one["Host"]: one["Score"] for one in made.prioritized(arguments())}
    assert scores == {"gpu-0": 0, "gpu-1": 0, "gpu-2": 10, "gpu-3": 0}


def victims(*nodes):
    pods = {"Pods": [{"UID": "uid-b"}], "NumPDBViolations": 0}
    return {**ARGS, "NodeNames": None, "NodeNameToMetaVictims": dict.fromkeys(nodes, pods)}


@pytest.mark.parametrize(
    ("jobs", "kept"),
    [
        ({"research__pretrain": placed("gpu-2")}, {"gpu-2"}),
        ({"research__pretrain": placed("gpu-2", milli=4000)}, set()),
        ({"research__pretrain": JobPlaces(why="quota")}, set()),
        ({}, set()),
    ],
)
def test_pods_are_stopped_only_where_the_plan_starts_others(jobs, kept):
    result = extender(**jobs).preempted(args_of(victims("gpu-1", "gpu-2")))
    found = result["NodeNameToMetaVictims"]
    assert set(found) == kept
    assert all(pods["Pods"] == [{"UID": "uid-b"}] for pods in found.values())
    assert Extender().preempted(args_of(victims("gpu-1"))) == {"NodeNameToMetaVictims": {}}


def post(client, path, args):
    return client.post(path, json=args)


def test_a_solved_round_reaches_the_extender(client):
    round_ = {
        "apiVersion": "placewright/v1alpha2",
        "kind": "Round",
        "cluster": {"hosts": [{"name": "gpu-[0-3]", "gpus": 8, "gpu_model": "H100"}]},
        "reservations": [{"host": "gpu-[0-1]"}],
        "jobs": [
            {"name": JOB, "options": [{"groups": [{"count": 2, "gpu": 8}]}]},
            {"name": "research/large", "options": [{"groups": [{"count": 5, "gpu": 8}]}]},
        ],
    }
    assert client.post("/v1alpha2/solve", json=round_).status_code == 200
    # kube-scheduler asks from loopback, and sends no token
    other = type(client)(client.app, base_url="http://localhost", client=("127.0.0.1", 50_000))
    deadline = time.monotonic() + 60
    while not (found := post(other, "/extender/filter", ARGS).json())["NodeNames"]:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert found["NodeNames"][0] in {"gpu-2", "gpu-3"}
    scores = post(other, "/extender/prioritize", ARGS).json()
    stopped = post(other, "/extender/preempt", victims("gpu-0")).json()
    assert stopped == {"NodeNameToMetaVictims": {}}
    assert max(scores, key=lambda one: one["Score"])["Host"] == found["NodeNames"][0]
    large = copy.deepcopy(ARGS)
    large["Pod"]["metadata"]["ownerReferences"][0]["name"] = "large"
    why = post(other, "/extender/filter", large).json()["FailedAndUnresolvableNodes"]["gpu-0"]
    assert why.startswith("placewright: waits, never_fits: at most 4 of 5 tasks")


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"NodeNames": None}, "nodeCacheCapable"),
        ({"NodeNames": [1]}, "list of names"),
        ({"NodeNameToMetaVictims": []}, "expected a mapping"),
        ({"Pod": None}, "Pod"),
        ({"Pod": {"metadata": {"name": "\x1b[31m"}}}, "Pod.metadata.name"),
    ],
)
def test_wrong_arguments_are_told_in_the_result(serve, change, expected):
    with serve("127.0.0.1", idle=True) as client:
        answer = post(client, "/extender/filter", {**ARGS, **change})
        assert answer.status_code == 200  # of another status kube-scheduler tells the number only
        assert expected in answer.json()["Error"]
        assert "\x1b" not in answer.json()["Error"]
        assert post(client, "/extender/prioritize", {**ARGS, **change}).status_code == 422


NUMBERS = st.integers() | st.floats() | st.sampled_from(["8", "1e9", "-1", "9" * 40])
LEAVES = st.none() | st.booleans() | NUMBERS | st.text(max_size=9)
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner)
)


def places_in(value, place=()):
    """Yield the paths of all values in a document."""
    yield place
    if isinstance(value, dict | list):
        inner = value.items() if isinstance(value, dict) else enumerate(value)
        for key, one in inner:
            yield from places_in(one, (*place, key))


@given(place=st.sampled_from(list(places_in(ARGS))[1:]), value=VALUES)
@settings(max_examples=examples(day=60, nightly=300))
def test_whatever_is_sent_is_answered_or_refused(place, value):
    changed = copy.deepcopy(ARGS)
    at = changed
    for key in place[:-1]:
        at = at[key]
    at[place[-1]] = value
    made = extender(research__pretrain=placed("gpu-2"))
    try:
        args = args_of(changed)
    except InvalidInputError as error:
        assert error.text().isprintable()
    else:
        result = made.filtered(args)
        assert set(result["NodeNames"]) <= set(args.nodes)
        assert len(made.prioritized(args)) == len(args.nodes)


@pytest.mark.parametrize("body", [b"", b"{", b"[" * 100_000, b"\xff", b"1", b"null"])
def test_what_is_no_json_is_told_in_the_result(serve, body):
    headers = {"Content-Type": "application/json"}
    with serve("127.0.0.1", idle=True) as client:
        answer = client.post("/extender/filter", content=body, headers=headers)
    assert answer.status_code == 200
    assert answer.json()["Error"].startswith("placewright: ")


def test_arguments_may_name_many_nodes(serve):
    nodes = [f"gpu-{i}" for i in range(20_000)]
    with serve("127.0.0.1", idle=True) as client:
        answer = post(client, "/extender/filter", {**ARGS, "NodeNames": nodes}).json()
        assert len(answer["FailedAndUnresolvableNodes"]) == len(nodes)
        stopped = post(client, "/extender/preempt", victims(*nodes)).json()
    assert stopped == {"NodeNameToMetaVictims": {}}


def test_names_in_lower_case_are_read_too():
    lower = {key.lower(): value for key, value in ARGS.items()}
    assert args_of(lower).nodes == NODES


def test_the_pod_of_the_handmade_dump_is_known_by_its_owner():
    folder = ROOT / "tests" / "data" / "kubernetes"
    files = [str(folder / name) for name in ("nodes-pods.json", "queues.json")]
    round_ = read_kubernetes(files).round
    made = Extender()
    made.show(snapshot_of(round_, solve_round(round_, time_limit=0)).jobs)
    nodes, reasons = nodes_and_reasons(made.filtered(args_of(ARGS)))
    assert nodes == []
    (reason,) = reasons
    assert reason.startswith(
        "placewright: waits, capacity: at most 1 of 2 tasks fit one gce-topology-subblock"
    )
    assert reason in " ".join(PAGE.split())


@pytest.mark.skipif(not CAPTURED.exists(), reason="needs the captured states")
@pytest.mark.parametrize("state", ["kube-scheduler-gang-seed3-native", "kueue-tas-seed1"])
def test_pods_of_a_captured_cluster_go_where_they_are_planned(state):
    """Each captured pod asks as if it were new."""
    files = sorted((CAPTURED / state).glob("*.json"))
    dump = json.loads((CAPTURED / state / "nodes-pods.json").read_text())
    nodes = [one["metadata"]["name"] for one in dump["items"] if one["kind"] == "Node"]
    pods = [one for one in dump["items"] if one["kind"] == "Pod"]
    round_ = read_kubernetes([str(file) for file in files]).round
    made = Extender()
    made.show(snapshot_of(round_, solve_round(round_, time_limit=0)).jobs)
    went = {}
    for pod in pods:
        result = made.filtered(args_of({"Pod": pod, "NodeNames": nodes}))
        went[pod["metadata"]["name"]] = "".join(result["NodeNames"])
    bound = {one["metadata"]["name"]: one["spec"].get("nodeName") for one in pods}
    # All that run are pinned, so that each is planned where it is.
    assert {name: went[name] for name, node in bound.items() if node} == {
        name: node for name, node in bound.items() if node
    }


def test_a_pod_that_is_left_out_of_the_round_is_told_why():
    made = Extender()
    made.show({}, {"research/pretrain-0": "its gang has fewer pods than it needs: 1 of 2"})
    nodes, reasons = nodes_and_reasons(made.filtered(arguments()))
    assert (nodes, reasons) == (
        [],
        {"placewright: waits, not in the round: its gang has fewer pods than it needs: 1 of 2"},
    )


def test_a_pod_of_slices_that_are_resources_goes_where_it_is_planned():
    made = extender(research__pretrain=JobPlaces((TaskPlace("gpu-1", 0, pod="uid-pretrain-0"),)))
    assert nodes_and_reasons(made.filtered(arguments(gpus=2)))[0] == ["gpu-1"]
    assert nodes_and_reasons(made.filtered(arguments("pretrain-1", gpus=2)))[0] == []
