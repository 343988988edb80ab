"""A Kubernetes cluster that is listed and watched, whatever its API server does."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from fake_api_server import FakeApiServer

from placewright import solve_round
from placewright.instances.documents.round import Round
from placewright.live.watch.kubernetes import ApiServer, KubernetesActor, KubernetesSource
from placewright.live.watch.loop import SourceError
from tests.instances.kubernetes.dumps import node, pod

NODES, PODS = "/api/v1/nodes", "/api/v1/pods"
NAMESPACES = "/api/v1/namespaces"
WORKLOADS = "/apis/kueue.x-k8s.io/v1beta2/workloads"


@pytest.fixture
def fake():
    with FakeApiServer() as server:
        server.put(NODES, node("n0"))
        server.put(PODS, pod("a", 8, meta={"uid": "u-a"}))
        yield server


@pytest.fixture
def source(fake):
    made = KubernetesSource(ApiServer(fake.url, timeout_s=2.0), levels=(), movable=False)
    yield made
    made.close()


def jobs(round_: Round) -> list[str]:
    return [job.name for job in round_.jobs]


def eventually(
    source: KubernetesSource, true: Callable[[Round], bool], within_s: float = 20
) -> Round:
    end = time.monotonic() + within_s
    while True:
        found = source.read().round
        if true(found):
            return found
        assert time.monotonic() < end, jobs(found)
        time.sleep(0.1)


def test_it_lists_and_then_watches(fake, source):
    assert jobs(source.read().round) == ["ns/a"]
    lists = len(fake.asked)
    fake.put(PODS, pod("b", 1, meta={"uid": "u-b"}))
    eventually(source, lambda found: jobs(found) == ["ns/a", "ns/b"])
    fake.delete(PODS, "a", "ns")
    eventually(source, lambda found: jobs(found) == ["ns/b"])
    fake.put(NODES, node("n1"))
    eventually(source, lambda found: len(found.cluster.hosts) == 2)
    assert not any("limit" in path for path in fake.asked[lists:]), "nothing is listed again"


def test_waiting_ends_when_something_changes(fake, source):
    source.read()
    began = time.monotonic()
    fake.put(PODS, pod("b", 1, meta={"uid": "u-b"}))
    source.wait(30)
    assert time.monotonic() - began < 15


def test_lists_come_in_pages(source, fake):
    fake.page = 3
    for i in range(10):
        fake.put(PODS, pod(f"p{i}", 1, meta={"uid": f"u-{i}"}))
    assert len(source.read().round.jobs) == 11


def test_what_is_too_old_is_listed_again(fake, source):
    source.read()
    fake.compact()
    fake.put(PODS, pod("b", 1, meta={"uid": "u-b"}))
    eventually(source, lambda found: jobs(found) == ["ns/a", "ns/b"])


def test_a_cut_connection_is_made_again(fake, source):
    source.read()
    fake.cut = True
    fake.put(PODS, pod("b", 1, meta={"uid": "u-b"}))
    fake.cut = False
    fake.put(PODS, pod("c", 1, meta={"uid": "u-c"}))
    eventually(source, lambda found: jobs(found) == ["ns/a", "ns/b", "ns/c"])


@pytest.mark.nightly(after=1)
@pytest.mark.parametrize("fault", ["refuse", "lie"])
def test_a_server_without_an_answer_is_named_and_asked_again(fake, source, fault, monkeypatch):
    monkeypatch.setattr("placewright.live.watch.kubernetes.FIRST_LIST_S", 1.0)
    setattr(fake, fault, True)
    with pytest.raises(SourceError, match="503" if fault == "refuse" else "expected"):
        source.read()
    setattr(fake, fault, False)
    end = time.monotonic() + 30
    while True:
        try:
            assert jobs(source.read().round) == ["ns/a"]
            break
        except SourceError:
            assert time.monotonic() < end


@pytest.mark.nightly
def test_a_slow_server_is_an_error_and_not_a_hang(fake, source):
    fake.slow_s = 5
    began = time.monotonic()
    with pytest.raises(SourceError, match="timed out"):
        source.read()
    assert time.monotonic() - began < 20


def test_what_was_last_heard_of_says_how_old_a_state_is(fake, source):
    taken = source.read().taken
    assert time.monotonic() - taken < 10
    fake.refuse = fake.cut = True
    fake.put(PODS, pod("b", 1, meta={"uid": "u-b"}))
    fake.put(NODES, node("n1"))
    time.sleep(1)
    later = source.read().taken
    time.sleep(1)
    assert source.read().taken == later, "nothing was heard since"


def test_kinds_of_groups_that_the_server_has_are_read(fake, source):
    fake.groups["kueue.x-k8s.io"] = [("Workload", "workloads"), ("Workload", "workloads/status")]
    fake.groups["apps"] = [("Deployment", "deployments")]
    containers = [{"resources": {"requests": {"cpu": "1", "nvidia.com/gpu": "8"}}}]
    sets = [{"name": "main", "count": 1, "template": {"spec": {"containers": containers}}}]
    fake.objects[WORKLOADS] = {}
    meta = {"name": "w", "namespace": "ns", "uid": "u-w"}
    fake.put(WORKLOADS, {"metadata": meta, "spec": {"podSets": sets}, "status": {}})
    assert jobs(source.read().round) == ["ns/a", "ns/w"]


def test_labels_of_namespaces_are_known(fake, source):
    near = {"labelSelector": {}, "namespaceSelector": {"matchLabels": {"team": "red"}}}
    near["topologyKey"] = "kubernetes.io/hostname"
    rule = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [near]}}
    fake.put(PODS, pod("c", 1, meta={"namespace": "other"}, affinity=rule))
    eventually(source, lambda found: any(job.annotations.get("caveats") for job in found.jobs))
    fake.put(NAMESPACES, {"metadata": {"name": "other", "labels": {"team": "blue"}}})
    eventually(source, lambda found: not any("caveats" in job.annotations for job in found.jobs))


def test_events_say_why_jobs_wait_once_per_reason(fake, source):
    fake.put(PODS, pod("busy", 4, host="n0", meta={"uid": "u-busy"}))
    round_ = source.read().round
    plan = solve_round(round_, time_limit=2.0, isolation="none")
    actor = KubernetesActor(ApiServer(fake.url, timeout_s=2.0), events=True)
    until = time.monotonic() + 60
    assert actor.act(round_, plan, until).undone == ()
    assert actor.act(round_, plan, until).undone == ()
    assert [(method, path) for method, path, _ in fake.written] == [
        ("POST", "/api/v1/namespaces/ns/events")
    ]
    again = KubernetesActor(ApiServer(fake.url, timeout_s=2.0), events=True)
    assert again.act(round_, plan, until).undone == ()
    method, path, body = fake.written[-1]
    assert (method, path) == ("PATCH", "/api/v1/namespaces/ns/events/a.placewright")
    assert body["message"].startswith("waits: no node takes a task beside running jobs")
    text, unsaid = actor.commands(round_, plan)
    assert "kubectl" in text
    assert unsaid == []
    assert any("u-a" in str(value) for value in body["involvedObject"].values())
