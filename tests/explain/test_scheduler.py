"""What the cluster's own scheduler makes of a job that waits: preemption, and deadlocks."""

from __future__ import annotations

from typing import Any

import pytest

from placewright import solve_round
from placewright.explain.explain_job import explain_job
from placewright.instances.documents.plan import DecisionKind
from placewright.instances.documents.round import Round
from placewright.instances.errors import InvalidInputError
from tests.instances.kubernetes.dumps import GPU, convert, node, pod
from tests.instances.kubernetes.test_kueue import of
from tests.instances.kubernetes.test_kueue_admission import queue, runs
from tests.instances.kubernetes.test_kueue_caps import local, waits

NODES = [node(f"n{i}") for i in range(4)]


def said(round_: Round, job: str) -> tuple[str, ...]:
    return explain_job(round_, None, job, isolation="none").scheduler


@pytest.mark.parametrize(
    ("preemption", "own", "preempts"),
    [({}, 8, False), ({"withinClusterQueue": "LowerPriority"}, 8, True),
     ({"withinClusterQueue": "LowerPriority"}, 32, False)],
)  # fmt: skip
def test_kueue_preempts_for_quota_as_its_queue_says(tmp_path, preemption, own, preempts):
    high = waits("high", "q", 8)
    high["spec"]["priority"] = 100
    items = [queue("q", {"f": {GPU: own}}, preemption=preemption), local("q"), high]
    items += [*runs("low", "q", "n0"), *(pod(f"p{i}", 8, host=f"n{i}") for i in (1, 2, 3))]
    found = said(convert(tmp_path, *NODES, *items).round, "ns/high")
    assert found == (("Kueue would preempt ns/low to admit it",) if preempts else ())


def since(job: list[Any], hour: int) -> list[Any]:
    """A job whose pod has run since some hour."""
    job[1]["status"]["startTime"] = f"2026-01-01T{hour:02}:00:00Z"
    return job


COHORT = {"cohort": "c", "preemption": {"reclaimWithinCohort": "Any",
                                        "withinClusterQueue": "LowerPriority"}}  # fmt: skip


@pytest.mark.parametrize(
    ("jobs", "victims"),
    [
        ([("old", "q", 1, 0), ("new", "q", 9, 0)], "new"),
        ([("high", "q", 9, 5), ("low", "q", 1, 0)], "low"),
        ([("mine", "q", 9, 0), ("borrower", "b", 1, 50)], "borrower"),
        ([("b0", "b", 1, 7), ("b1", "b", 5, 7), ("b2", "b", 9, 9)], "b1"),
    ],
    ids=["the newest", "the lowest", "of another queue before its own", "of those that borrow"],
)
def test_kueue_preempts_in_its_own_order(tmp_path, jobs, victims):
    items = [
        queue("q", {"f": {GPU: 8 * len(jobs)}}, **COHORT),
        queue("b", {"f": {GPU: 0}}, **COHORT),
    ]
    high = waits("high-one", "q", 8)
    high["spec"]["priority"] = 100
    for k, (name, of_queue, hour, priority) in enumerate(jobs):
        items += since(runs(name, of_queue, f"n{k}", 8, priority), hour)
    made = convert(tmp_path, *NODES, *items, *map(local, "qb"), high).round
    assert said(made, "ns/high-one") == (f"Kueue would preempt ns/{victims} to admit it",)


@pytest.mark.parametrize(
    ("quota", "cohort", "goes"), [(8, "o2", False), (0, "o2", True), (8, "root", True)]
)
def test_kueue_takes_nothing_back_from_a_cohort_that_has_no_more_than_its_own(
    tmp_path, quota, cohort, goes
):
    """D runs on what C has, in a cohort of cohorts; only beyond that may A preempt it."""
    high = waits("high", "a", 8)
    high["spec"]["priority"] = 100
    rules = {"preemption": {"reclaimWithinCohort": "Any"}}
    items = [
        *(of("Cohort", one, spec={"parentName": "root"}) for one in ("o1", "o2")),
        of("Cohort", "root", spec={}),
        queue("a", {"f": {GPU: 8}}, cohort="o1", **rules),
        queue("c", {"f": {GPU: quota}}, cohort="o2"),
        queue("d", {"f": {GPU: 0}}, cohort=cohort),
        queue("b", {"f": {GPU: 0}}, cohort="o1"),
    ]
    borrower = runs("borrower", "d", "n0")
    given = borrower[0]["status"]["admission"]["podSetAssignments"][0]
    given["resourceUsage"] = {GPU: "8"}
    items += [*borrower, *map(local, "abcd"), high]
    items += [pod(f"p{i}", 8, host=f"n{i}") for i in (1, 2, 3)]
    held = of("ResourceFlavor", "f", spec={})
    high["spec"]["podSets"][0]["topologyRequest"] = {"unconstrained": True}
    held["spec"]["topologyName"] = "t"
    made = convert(tmp_path, *NODES, held, *items, movable=True).round
    assert said(made, "ns/high") == (
        ("Kueue would preempt ns/borrower to admit it",) if goes else ()
    )
    plan = solve_round(made, isolation="none")
    assert ({"ns/borrower"} if goes else set()) == {
        one.job for one in plan.decisions if one.decision is DecisionKind.PREEMPT
    }


def test_kueue_puts_back_whom_it_need_not_preempt(tmp_path):
    high = waits("high", "q", 8)
    high["spec"]["priority"] = 100
    items = [queue("q", {"f": {GPU: 12}}, preemption={"withinClusterQueue": "LowerPriority"})]
    items += [*runs("small", "q", "n0", 4, 0), *runs("large", "q", "n1", 8, 5), local("q"), high]
    found = said(convert(tmp_path, *NODES, *items).round, "ns/high")
    assert found == ("Kueue would preempt ns/large to admit it",)


@pytest.mark.parametrize(("policy", "goes"), [("LowerPriority", False),
                                              ("LowerOrNewerEqualPriority", True)])  # fmt: skip
def test_kueue_preempts_newer_jobs_of_one_priority_if_its_queue_says_so(tmp_path, policy, goes):
    old = waits("old", "q", 8)
    old["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
    new = runs("new", "q", "n0")
    new[0]["metadata"]["creationTimestamp"] = "2026-01-01T01:00:00Z"
    one = queue("q", {"f": {GPU: 8}}, preemption={"withinClusterQueue": policy})
    found = said(convert(tmp_path, *NODES, one, local("q"), old, *new).round, "ns/old")
    assert found == (("Kueue would preempt ns/new to admit it",) if goes else ())


def test_a_job_that_kueue_stops_makes_room(tmp_path):
    drained = runs("drained", "d", "n0")
    drained[0]["status"]["conditions"] = [{"type": "Admitted", "status": "True"}]
    items = [
        queue("q", {"f": {GPU: 0}}, cohort="c"),
        queue("d", {"f": {GPU: 8}}, cohort="c", stopPolicy="HoldAndDrain"),
    ]
    made = convert(tmp_path, *NODES, *items, *map(local, "qd"), *drained, waits("w", "q", 8)).round
    why = "ns/drained (ClusterQueue d is stopped (HoldAndDrain))"
    assert said(made, "ns/w") == (f"Kueue stops {why}; once its GPUs are free, the job can start",)
    with pytest.raises(InvalidInputError, match="runs until Kueue stops it: ClusterQueue d"):
        said(made, "ns/drained")


@pytest.mark.parametrize(
    ("policy", "text"),
    [("Never", ()), ("PreemptLowerPriority", ("kube-scheduler would preempt ns/low to start it",))],
)
def test_kube_scheduler_preempts_the_lowest_pod_but_for_pods_that_preempt_nobody(
    tmp_path, policy, text
):
    pods = [pod("low", 8, host="n0"), pod("mid", 8, host="n1", priority=5)]
    high = pod("high", 8, priority=1000, preemptionPolicy=policy)
    assert said(convert(tmp_path, *NODES[:2], *pods, high).round, "ns/high") == text


def volcano(name: str, *hosts: str | None) -> list[Any]:
    """A gang of which each pod is bound to a host, or waits."""
    group = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": "ns"},
        "spec": {"minMember": len(hosts)},
    }
    meta = {"annotations": {"scheduling.k8s.io/group-name": name}}
    return [group, *(pod(f"{name}-{i}", 8, host=h, meta=meta) for i, h in enumerate(hosts))]


def test_half_started_gangs_that_block_each_other_are_a_deadlock(tmp_path):
    gangs = [*volcano("a", "n0", "n1", None, None), *volcano("b", "n2", "n3", None, None)]
    made = convert(tmp_path, *NODES, *gangs).round
    (text,) = said(made, "ns/a:waiting")
    assert text == (
        "Deadlock: ns/a and ns/b have started in part, and each holds what the others need; "
        "the cheapest way out: stop ns/a (16 GPUs), then ns/b starts in full"
    )


def test_the_gang_that_lost_least_is_the_one_to_stop(tmp_path):
    items = [*volcano("a", "n0", "n1", "n2", None), *volcano("b", "n3", None)]
    (text,) = said(convert(tmp_path, *NODES, *items).round, "ns/a")
    assert text.endswith("stop ns/b (8 GPUs), then ns/a starts in full")


def test_a_gang_that_needs_more_than_another_holds_is_no_deadlock(tmp_path):
    gangs = [*volcano("a", "n0", "n1", None, None), *volcano("b", "n2", None)]
    made = convert(tmp_path, *NODES, *gangs, pod("other", 8, host="n3")).round
    assert said(made, "ns/b") == ()


def test_a_gang_that_waits_for_another_job_is_no_deadlock(tmp_path):
    items = [*volcano("a", "n0", "n1", None), pod("thief", 8, host="n2"), pod("x", 8, host="n3")]
    assert said(convert(tmp_path, *NODES, *items).round, "ns/a") == ()
