"""Rounds made and plans read in Python alone: what arguments mean, and how they are refused."""

from __future__ import annotations

import copy
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import networkx as nx
import pytest

from placewright import (
    Changes,
    ClusterDocument,
    Engine,
    InvalidInputError,
    Job,
    Plan,
    Policy,
    Round,
    Tenant,
    explain_job,
    load_round,
    minimal_victims,
    solve_round,
    verify,
)
from placewright.instances import parse_round
from placewright.instances.derived.arrays import build_cluster
from placewright.instances.documents.job import JobFields, Running
from placewright.instances.documents.round import RoundFields

ROOT = Path(__file__).parents[1]
LIBRARY = ROOT / "instances" / "library"
CLUSTER = ClusterDocument.model_validate(
    {
        "levels": ["rack"],
        "domains": [{"name": f"r{i}", "level": "rack"} for i in range(2)],
        "hosts": [
            {"name": f"r{i}-[0-1]", "parent": f"r{i}", "gpus": 8, "gpu_model": "H100", "cpu": 96}
            for i in range(2)
        ],
    }
)
TRAIN = Job("train", gpus=16, tasks=2, within="rack")


def test_a_round_made_in_python_is_the_one_of_a_file(tmp_path):
    file = tmp_path / "round.yaml"
    file.write_text(
        """
apiVersion: placewright/v1alpha2
kind: Round
now: 60
cluster:
  levels: [rack]
  domains: [{name: r0, level: rack}, {name: r1, level: rack}]
  hosts:
  - {name: "r0-[0-1]", parent: r0, gpus: 8, gpu_model: H100, cpu: 96}
  - {name: "r1-[0-1]", parent: r1, gpus: 8, gpu_model: H100, cpu: 96}
tenants: [{name: research, quota: {gpu: 24}}]
policy: {terms: [value, spread]}
jobs:
- name: train
  tenant: research
  priority: 1
  options: [{groups: [{count: 2, gpu: 8, cpu: 24, memory: 256Gi, required: rack,
                       gpu_models: [H100], preferred: [host]}]}]
- {name: serve, options: [{groups: [{gpu: 250m}]}]}
"""
    )
    train = Job(
        "train",
        gpus=16,
        tasks=2,
        gpu_models="H100",
        cpu=48,
        memory="512Gi",
        within="rack",
        prefer="host",
        tenant="research",
        priority=1,
    )
    made = Round.of(
        CLUSTER,
        jobs=[train, Job("serve", gpus=0.25)],
        tenants=[Tenant(name="research", quota={"gpu": 24})],
        policy=Policy(terms=("value", "spread")),
        now=60,
    )
    assert made == load_round(file)


def test_a_job_is_one_class_with_two_ways_to_make_it():
    values = {"name": "a", "options": [{"groups": [{"gpu": 8}]}]}
    made = Job("a", gpus=8)
    assert made == Job(name="a", options=values["options"]) == Job.model_validate(values)
    assert made == pickle.loads(pickle.dumps(made)) == copy.deepcopy(made)
    assert repr(made) == "Job(name='a', options=(Option(groups=(TaskGroup(gpu=8000),)),))"
    assert JobFields.__annotations__.keys() | {"name", "options"} == Job.model_fields.keys()
    arguments = {"cluster", "jobs", "policy", "tenants", "now", "apiVersion", "kind"}
    assert RoundFields.__annotations__.keys() | arguments == Round.model_fields.keys()


def test_files_have_no_arguments_of_constructors():
    with pytest.raises(InvalidInputError, match=r"jobs\[0\].gpus: 8: unknown field"):
        parse_round(
            {"cluster": CLUSTER.model_dump(mode="json"), "jobs": [{"name": "a", "gpus": 8}]}
        )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, "gpus: missing; expected GPUs of the whole job, or options"),
        ({"gpus": "many"}, "gpus: 'many': expected GPUs as a number"),
        ({"gpus": "many", "tasks": 2}, "gpus: 'many': expected GPUs as a number"),
        ({"gpus": -8}, "gpus: -8: expected 0 to"),
        ({"gpus": True}, "gpus: True: expected GPUs as a number"),
        ({"gpus": 2.5}, "gpus: 2.5: expected a share of one GPU, up to 1, or a whole number"),
        ({"gpus": 15, "tasks": 2}, "gpus: 15: divided over 2 tasks; expected whole GPUs for each"),
        ({"gpus": 1, "tasks": 4}, "gpus: 1: divided over 4 tasks; expected whole GPUs for each"),
        ({"gpus": 8, "tasks": 8, "memory": "1Mi"}, "memory: '1Mi': divided over 8 tasks; expected"),
        ({"gpus": 9, "tasks": 9, "cpu": 1}, "cpu: 1: divided over 9 tasks; expected whole thous"),
        ({"gpus": 8, "memory": 64}, "memory: 64: expected a whole number of MiB with a suffix"),
        ({"gpus": 8, "tasks": 0}, "tasks: 0: expected at least 1"),
        ({"gpus": 8, "tasks": 2.0}, "tasks: 2.0: expected an integer"),
        ({"gpus": 8, "within": 3}, "within: 3: expected text"),
        ({"gpus": 8, "prefer": ["rack", 3]}, r"prefer\[1\]: 3: expected text"),
        ({"gpus": 8, "gpu_models": []}, r"gpu_models: \[\]: expected at least 1 in the list"),
        ({"gpus": 8, "gpu_links": "nvlnk"}, "gpu_links.required: 'nvlnk': .*did you mean nvlink"),
        ({"gpus": 8, "priority": "high"}, "priority: 'high': expected an integer"),
        ({"gpus": 8, "tenant": 5, "held": 1}, "tenant: 5: expected text\nheld: 1: expected true"),
        ({"gpu": 8}, "gpu: 8: unknown argument; expected one of .*did you mean gpus"),
        ({"gpus": 8, "options": []}, "gpus: 8: given beside options; expected one of the two"),
        ({"options": [{"groups": [{"gpu": "x"}]}]}, r"options\[0\].groups\[0\].gpu: 'x': expected"),
    ],
)  # fmt: skip
def test_an_argument_of_a_job_is_refused_by_its_name(arguments, words):
    with pytest.raises(InvalidInputError, match=f"^{words}"):
        Job("train", **arguments)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"jobs": ["train"]}, r"jobs\[0\]: 'train': expected a mapping"),
        ({"jobs": 5}, "jobs: 5: expected a list"),
        ({"cluster": "dgx"}, "cluster: 'dgx': expected a mapping"),
        ({"now": -1}, "now: -1: expected at least 0"),
        ({"running": {}}, "running: {}: expected the Plan of an earlier round"),
        ({"policy": {"terms": ["vale"]}}, r"policy.terms\[0\]: 'vale': .*did you mean value"),
        ({"tenant": []}, r"tenant: \[\]: unknown field; .*did you mean tenants"),
        ({"after": {"b": ["a"]}}, "after: {'b': .*: expected a directed NetworkX graph"),
        ({"after": nx.DiGraph([(1, 2)])}, "after: 1: unknown job; expected names of jobs"),
    ],
)  # fmt: skip
def test_an_argument_of_a_round_is_refused_by_its_name(arguments, words):
    with pytest.raises(InvalidInputError, match=f"^{words}"):
        Round.of(**{"cluster": CLUSTER, **arguments})


def test_an_argument_of_a_document_is_refused_by_its_name():
    with pytest.raises(InvalidInputError, match=r"^terms\[0\]: 'vale': .*did you mean value"):
        Policy(terms=("vale",))
    with pytest.raises(InvalidInputError, match=r"^quota: \[\]: expected a mapping"):
        Tenant(name="a", quota=[])


def test_names_of_a_round_are_refused_as_the_loader_refuses_them():
    lost = Round.of(CLUSTER, [Job("a", gpus=8, within="rck", tenant="nobody")])
    with pytest.raises(InvalidInputError) as made:
        solve_round(lost)
    with pytest.raises(InvalidInputError) as read:
        parse_round(lost.model_dump(mode="json"))
    assert str(made.value) == str(read.value)
    assert "'rck': unknown level; expected host or rack; did you mean rack?" in str(read.value)


def test_a_plan_is_read_by_job_and_runs_in_the_next_round():
    first = Round.of(CLUSTER, jobs=[TRAIN, Job("big", gpus=24, tasks=3), Job("part", gpus=0.5)])
    plan = solve_round(first, time_limit=1, isolation="none")
    assert verify(first, plan).ok
    assert plan.placement("train") == () == plan.placement(TRAIN)
    places = plan.assignment()
    assert places.keys() == {"big", "part"}
    assert len(set(places["big"])) == 24
    assert [t.host for t in plan.placement("big")] == [host for host, _ in places["big"][::8]]
    with pytest.raises(KeyError, match="nobody"):
        plan.placement("nobody")

    # `big` has ended; `part` runs on, and `new` has come.
    jobs = [TRAIN, Job("part", gpus=0.5), Job("new", gpus=8)]
    second = Round.of(CLUSTER, jobs=jobs, running=plan, now=60)
    assert [job.running is not None for job in second.jobs] == [False, True, False]
    following = solve_round(second, time_limit=1, isolation="none")
    assert verify(second, following).ok
    assert following.assignment()["part"] == places["part"]
    assert len(following.placement("train")) == 2


def test_jobs_that_ran_before_a_plan_keep_what_is_known_of_them():
    task = {"host": "r0-0", "gpus": list(range(8))}
    was = Running.model_validate({"tasks": [task], "started": 5, "restart_s": 90})
    moved, gone = Job("moved", gpus=8, running=was), Job("gone", gpus=8, running=was)
    to = {**task, "host": "r1-0"}
    plan = Plan.model_validate(
        {
            "decisions": [
                {"job": "moved", "decision": "migrate", "option": 0, "tasks": [to]},
                {"job": "gone", "decision": "preempt"},
            ]
        }
    )
    late = Job("late", gpus=8, running={"tasks": [{**task, "host": "r1-1"}]})
    jobs = Round.of(CLUSTER, jobs=[moved, gone, late], running=plan, now=60).jobs
    assert jobs[0].running is not None
    assert jobs[0].running.tasks[0].host == "r1-0"
    assert (jobs[0].running.started, jobs[0].running.restart_s) == (5, 90)
    assert jobs[1].running is None
    assert jobs[2] == late


@pytest.mark.parametrize("name", ["chronus.yaml", "hived.yaml"])
def test_promises_and_bindings_of_a_plan_hold_in_the_next_round(name):
    first = load_round(LIBRARY / name)
    with Engine(first, time_limit=1, isolation="none") as engine:
        plan = engine.round()
        after = engine.state
    again = Round.of(
        first.cluster,
        jobs=first.jobs,
        running=plan,
        policy=first.policy,
        tenants=first.tenants,
        now=first.now,
        leases=first.leases,
        bindings=first.bindings,
    )
    assert verify(again, solve_round(again, time_limit=0, isolation="none")).ok
    assert again.bindings == after.bindings
    assert [job.deadline for job in again.jobs] == [job.deadline for job in after.jobs]
    tasks = [[job.running and job.running.tasks for job in r.jobs] for r in (again, after)]
    assert tasks[0] == tasks[1]
    assert any(job.running for job in again.jobs)


def test_copies_under_way_are_for_an_engine_to_know():
    first = load_round(LIBRARY / "mast-replicas.yaml")
    plan = solve_round(first, time_limit=1, isolation="none")
    with pytest.raises(InvalidInputError, match="running: orders copies of data; expected an Eng"):
        Round.of(first.cluster, jobs=first.jobs, running=plan, policy=first.policy, geo=first.geo)


def test_an_engine_and_changes_take_the_same_objects():
    with Engine(Round.of(CLUSTER, jobs=[TRAIN]), time_limit=1, isolation="none") as engine:
        first = engine.round()
        second = engine.round(Changes(added=[Job("more", gpus=16, tasks=2)], now=60))
        assert verify(engine.round_solved, second).ok
        assert second.placement("train") == engine.state.jobs[0].running.tasks  # type: ignore
        assert second.assignment().keys() == {"train", "more"}
        third = engine.round(Changes(removed=["train"], added=[Job("last", gpus=16, tasks=2)]))
        assert first.assignment().keys() == {"train"}
        assert third.assignment().keys() == {"more", "last"}


def test_a_cluster_is_a_document_arrays_or_a_graph():
    arrays = build_cluster(CLUSTER)
    graph = CLUSTER.to_graph(detail="gpu")
    rounds = [Round.of(one, jobs=[TRAIN]) for one in (CLUSTER, graph, arrays)]
    assert rounds[0] == rounds[1] == Round.of(CLUSTER.model_dump(mode="json"), jobs=[TRAIN])
    plans = [solve_round(one, time_limit=1, isolation="none") for one in rounds]
    assert plans[0].assignment() == plans[1].assignment() == plans[2].assignment()


@pytest.mark.parametrize("file", sorted(LIBRARY.glob("*.yaml")), ids=lambda file: file.stem)
def test_arrays_of_a_bundled_cluster_make_the_same_arrays_again(file):
    document = load_round(file).cluster
    hosts = tuple(one.model_copy(update={"healthy": True}) for one in document.hosts)
    arrays = build_cluster(document.model_copy(update={"pools": (), "hosts": hosts}))
    assert build_cluster(Round.of(arrays).cluster) == arrays


def test_pairs_with_a_bridge_of_a_graph_go_to_the_jobs_that_ask_for_them():
    """Bridges lie across (0-2, 1-3): whoever comes first leaves one whole, or takes one."""
    graph = nx.Graph([("h", f"gpu{i}") for i in range(4)])
    graph.add_node("h", kind="host")
    graph.add_nodes_from([f"gpu{i}" for i in range(4)], kind="gpu", model="A100")
    for a, b in ((0, 2), (1, 3)):
        graph.add_edge(f"gpu{a}", f"gpu{b}", kind="nvlink", bandwidth_mbps=400_000)
    singles = [Job("a", gpus=1), Job("b", gpus=1)]
    pair = Job("pair", gpus=2, gpu_links="nvlink")
    first = solve_round(Round.of(graph, jobs=singles), isolation="none")
    later = Round.of(graph, jobs=[*singles, pair], running=first, now=60)
    plans = [solve_round(later, isolation="none")]
    plans.append(solve_round(Round.of(graph, jobs=[*singles, pair]), isolation="none"))
    for plan in plans:
        held = nx.get_node_attributes(plan.on(graph), "job")
        assert graph.has_edge(*(node for node, job in held.items() if job == "pair"))


def test_a_plan_writes_itself_onto_the_graph_of_its_cluster():
    jobs = [TRAIN, Job("rest", gpus=15, tasks=15), Job("a", gpus=0.5), Job("b", gpus=0.5)]
    plan = solve_round(Round.of(CLUSTER, jobs=jobs), time_limit=1, isolation="none")
    graph = CLUSTER.to_graph(detail="gpu")
    assert plan.on(graph) is graph
    held: dict[Any, list[str]] = {}
    for job, places in plan.assignment().items():
        for host, gpu in places:
            held.setdefault(("gpu", host, gpu), []).append(job)
    written = nx.get_node_attributes(graph, "job")
    assert written == {node: ",".join(names) for node, names in held.items()}
    assert "a,b" in written.values()
    assert ClusterDocument.from_graph(graph) == CLUSTER
    assert not nx.get_node_attributes(Plan(decisions=()).on(graph), "job")


def test_graphs_that_are_none_of_the_cluster_are_refused():
    plan = solve_round(Round.of(CLUSTER, jobs=[TRAIN]), time_limit=0, isolation="none")
    wrong: Any = "x"
    with pytest.raises(InvalidInputError, match="graph: graph is str; expected a NetworkX graph"):
        plan.on(wrong)
    with pytest.raises(InvalidInputError, match=r"graph: has no node of GPU 0 of host r.*GPUs$"):
        plan.on(CLUSTER.to_graph())
    graph = CLUSTER.to_graph(detail="gpu")
    graph.add_edge(("rack", "r1"), ("host", "r0-0"), kind="contains")
    with pytest.raises(InvalidInputError, match=r"cluster: node .*expected one container"):
        Round.of(graph, jobs=[TRAIN])
    with pytest.raises(InvalidInputError, match=r"graph: node .*expected one container"):
        plan.on(graph)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"added": ["x"]}, r"added\[0\]: 'x': expected a Job"),
        ({"added": TRAIN}, "added: Job.*: expected a list, of which each is a Job"),
        ({"removed": "train"}, "removed: 'train': expected a list, of which each is a name"),
        ({"removed": [TRAIN]}, r"removed\[0\]: Job.*: expected a name"),
        ({"added": None}, "added: None: expected a list, of which each is a Job"),
        ({"health": {"r0-0": "no"}}, "health.r0-0: 'no': expected true or false"),
        ({"quotas": {"x": 5}}, "quotas.x: 5: expected a mapping"),
        ({"maintenance": ["r0-0"]}, r"maintenance\[0\]: 'r0-0': expected an Outage"),
        ({"now": "x"}, "now: 'x': expected an integer"),
    ],
)  # fmt: skip
def test_changes_of_another_type_are_refused_by_name(changes, words):
    with pytest.raises(InvalidInputError, match=f"^{words}"):
        Changes(**changes)


def test_what_is_no_job_no_plan_and_no_changes_is_refused():
    round_: Any = Round.of(CLUSTER, jobs=[TRAIN])
    wrong: Any = "x"
    with Engine(round_, time_limit=0, isolation="none") as engine:
        with pytest.raises(InvalidInputError, match="changes: 'x': expected Changes"):
            engine.round(wrong)
        with pytest.raises(InvalidInputError, match="job: 'x': expected a Job"):
            engine.admit(wrong)
    with pytest.raises(InvalidInputError, match="plan: 'x': expected a Plan"):
        verify(round_, wrong)
    by_name, by_job = (explain_job(round_, None, job).verdict for job in ("train", TRAIN))
    assert by_name == by_job
    assert minimal_victims(round_, TRAIN) == minimal_victims(round_, "train")


GOOD = """
import networkx as nx
from placewright import Cluster, Changes, ClusterDocument, Engine, Job, Plan, Policy, Round, Tenant
from placewright import solve_round, verify

def decide(cluster: ClusterDocument, earlier: Plan | None) -> dict[str, list[tuple[str, int]]]:
    jobs: list[Job] = [Job("train", gpus=16, tasks=2, within="rack")]
    jobs.append(Job(
        "serve", gpus=0.5, gpu_models=["H100"], cpu=1.5, memory="64Gi", prefer="rack", tenant="a",
        gpu_links="nvlink", priority=3, deadline={"work_s": 60}, annotations={"who": "me"},
    ))
    jobs.append(Job("either", options=[{"groups": [{"gpu": 8}]}, {"groups": [{"gpu": 4}]}]))
    round_ = Round.of(
        cluster, jobs=jobs, running=earlier, policy=Policy(terms=("value", "spread")),
        tenants=[Tenant(name="a", quota={"gpu": 8})], now=60, limits={"seed": 7},
    )
    plan = solve_round(round_)
    assert verify(round_, plan).ok
    hosts: list[str] = [task.host for task in plan.placement(jobs[0])]
    with Engine(round_) as engine:
        engine.round(Changes(added=[Job(hosts[0], gpus=8)]))
    graph = nx.Graph([("rack", "h0"), ("rack", "h1")])
    Round.of(plan.on(graph), jobs=jobs)
    Round.of(Cluster.from_graph(graph), jobs=jobs, running=plan)
    return plan.assignment()
"""
BAD = """
from placewright import ClusterDocument, Job, Round

def refused(cluster: ClusterDocument) -> None:
    Job("a", gpu=8)
    Job("a", gpus=[8])
    Job("a", gpus=8, memory=64)
    Job("a", gpus=8, priority="high")
    Job("a", gpus=8, gpu_links="nvlnk")
    Round.of(cluster, jobs=["a"])
    Round.of(cluster, running="plan")
    Round.of(cluster, tenant=[])
"""


@pytest.mark.nightly
def test_mypy_strict_accepts_what_is_right_and_nothing_else(tmp_path: Path):
    (tmp_path / "good.py").write_text(GOOD)
    (tmp_path / "bad.py").write_text(BAD)
    command: list[Any] = [sys.executable, "-m", "mypy", "--strict", "--config-file=", tmp_path]
    done = subprocess.run(
        [*command, "--follow-imports=silent"],
        env={**os.environ, "MYPYPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    *errors, _ = done.stdout.splitlines()
    lines = [int(line.split(":")[1]) for line in errors if ": error:" in line]
    assert lines == list(range(5, 13)), done.stdout
    assert all("bad.py" in line for line in errors)
