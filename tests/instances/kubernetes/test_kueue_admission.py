"""Admission as Kueue does it: who is admitted, within which quotas, and who preempts whom."""

from __future__ import annotations

import copy
from itertools import product
from random import Random
from typing import Any

import pytest

from placewright import solve_round
from placewright.instances.converters.kubernetes.convert import convert_kubernetes
from placewright.instances.converters.support.live import LiveConversion
from placewright.instances.documents.caveats import caveats_of
from placewright.instances.documents.plan import DecisionKind
from placewright.instances.documents.source_keys import HELD, LEAVES
from tests.instances.kubernetes.dumps import GPU, convert, node, pod
from tests.instances.kubernetes.test_kueue import HOST, of
from tests.instances.kubernetes.test_kueue_caps import caps_of, local, started, waits

NODES = [node(f"n{i}", labels={HOST: f"n{i}", "pool": "ab"[i % 2]}) for i in range(2)]
FLAVORS = [of("ResourceFlavor", f, spec={"nodeLabels": {"pool": f}}) for f in "ab"]


def queue(name: str, quotas: dict[str, dict[str, Any]], **spec: Any) -> Any:
    """A ClusterQueue; quotas are by flavor and resource: nominal, borrowing and lending limit."""
    flavors = [
        {"name": flavor, "resources": [_quota(name, *_three(q)) for name, q in has.items()]}
        for flavor, has in quotas.items()
    ]
    groups = [{"coveredResources": list(next(iter(quotas.values()))), "flavors": flavors}]
    return of(
        "ClusterQueue", name, spec={"namespaceSelector": {}, "resourceGroups": groups, **spec}
    )


def _three(quota: Any) -> tuple[Any, Any, Any]:
    given = quota if isinstance(quota, tuple) else (quota,)
    return (*given, None, None, None)[:3]


def _quota(name: str, nominal: Any, borrowing: Any, lending: Any) -> Any:
    fields = {"nominalQuota": nominal, "borrowingLimit": borrowing, "lendingLimit": lending}
    return {"name": name} | {key: str(one) for key, one in fields.items() if one is not None}


def runs(name: str, in_queue: str, host: str, gpus: int = 8, priority: int = 0) -> list[Any]:
    """An admitted workload, and its pod."""
    one = waits(name, in_queue, gpus)
    one["spec"]["priority"] = priority
    one["metadata"]["ownerReferences"] = [{"uid": name, "kind": "Job", "name": name}]
    one["status"] = {
        "admission": {
            "clusterQueue": in_queue,
            "podSetAssignments": [{"name": "main", "count": 1, "flavors": {GPU: "f"}}],
        }
    }
    owner = {"uid": name, "kind": "Job", "name": name, "controller": True}
    return [one, pod(f"{name}-0", gpus, host=host, meta={"ownerReferences": [owner]})]


def held(made: LiveConversion) -> dict[str, str]:
    return {job.name: job.annotations.get(HELD, "") for job in made.round.jobs if job.held}


def rules(made: LiveConversion) -> dict[str, bool]:
    """The caveats of the one job, and whether each is hard."""
    (job,) = made.round.jobs
    return {one.rule: one.hard for one in caveats_of(job.annotations)}


_EXCLUDED = "ClusterQueue q does not admit namespace ns"
CHECK = {"admissionChecks": [{"name": "dws", "state": "Pending"}]}
RESERVED = {
    "admission": {
        "clusterQueue": "q",
        "podSetAssignments": [
            {"name": "main", "count": 1, "flavors": {GPU: "f"}, "resourceUsage": {GPU: "4"}}
        ],
    },
    "conditions": [{"type": "QuotaReserved", "status": "True"}],
}


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({}, None),
        ({"queue": "nosuch"}, "there is no LocalQueue ns/lq-nosuch"),
        ({"points": "gone"}, "there is no ClusterQueue gone"),
        ({"stop": "Hold"}, "ClusterQueue q is stopped (Hold)"),
        ({"stop": "HoldAndDrain"}, "ClusterQueue q is stopped (HoldAndDrain)"),
        ({"stop": "None"}, None),
        ({"selector": {"matchLabels": {"team": "x"}}}, _EXCLUDED),
        ({"selector": {"matchLabels": {"team": "y"}}}, None),
        ({"selector": {}}, None),
        ({"selector": None}, "ClusterQueue q has no namespaceSelector, so it admits no namespace"),
        ({"status": CHECK}, "admission check dws has not let it pass"),
        ({"status": {**RESERVED, **CHECK}}, "admission check dws has not let it pass"),
        ({"status": {"admissionChecks": [{"name": "dws", "state": "Ready"}]}}, None),
        ({"status": {"admissionChecks": [{"name": "placewright", "state": "Pending"}]}}, None),
        ({"inactive": True}, "ClusterQueue q is not active"),
        ({"status": {**RESERVED, "clusterName": "far"}}, "cluster far runs it (MultiKueue)"),
    ],
)  # fmt: skip
def test_who_cannot_be_admitted_is_held_and_says_why(tmp_path, change, why):
    selector = {"namespaceSelector": change["selector"]} if "selector" in change else {}
    one = queue("q", {"f": {GPU: 16}}, stopPolicy=change.get("stop", "None"), **selector)
    if change.get("inactive"):
        one["status"] = {"conditions": [{"type": "Active", "status": "False"}]}
    way = copy.deepcopy(local("q"))
    way["spec"]["clusterQueue"] = change.get("points", "q")
    job = waits("w", change.get("queue", "q"))
    job["status"] = change.get("status", {})
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ns"}}
    space["metadata"] = {"name": "ns", "labels": {"team": "y"}}
    made = convert(tmp_path, *NODES, one, way, space, job)
    assert held(made) == ({} if why is None else {"ns/w": why})
    assert started(made) == ({"ns/w"} if why is None else set())


def test_labels_of_a_namespace_that_is_not_there_are_told(tmp_path):
    one = queue("q", {"f": {GPU: 8}}, namespaceSelector={"matchLabels": {"team": "x"}})
    made = convert(tmp_path, *NODES, one, local("q"), waits("w", "q"))
    assert "namespace-selector" in rules(made)


def test_quota_that_is_reserved_is_nobody_elses(tmp_path):
    waiting = waits("checked", "q")
    waiting["status"] = {**RESERVED, **CHECK}
    cpus = waits("cpus", "q", 0)
    cpus["status"] = copy.deepcopy(RESERVED)
    cpus["status"]["admission"]["podSetAssignments"][0] |= {
        "flavors": {"cpu": "f"},
        "resourceUsage": {"cpu": "3"},
    }
    items = [queue("q", {"f": {GPU: 6, "cpu": 8}}), local("q"), waiting, cpus]
    made = convert(tmp_path, *NODES, *items, waits("w", "q"))
    assert caps_of(made) == {"queue/q": {"gpu@f": 6000, "cpu@f": 8000}}
    (one,) = [job for job in made.round.jobs if job.name == "quota-held:q"]
    assert one.options[0].uses == {"gpu@f": 4000, "cpu@f": 3000}
    assert started(made) == set()


@pytest.mark.parametrize("priority", [0, 1000])
def test_an_admitted_workload_keeps_its_quota_until_its_pods_have_nodes(tmp_path, priority):
    admitted = waits("admitted", "q", 8)
    admitted["status"] = copy.deepcopy(RESERVED)
    given = admitted["status"]["admission"]["podSetAssignments"][0]
    given["resourceUsage"] = {GPU: "8"}
    admitted["status"]["conditions"].append({"type": "Admitted", "status": "True"})
    other = waits("other", "q", 8)
    other["spec"]["priority"] = priority
    items = [queue("q", {"f": {GPU: 8}}), local("q"), admitted, other]
    made = convert(tmp_path, *NODES, *items)
    assert started(made) == {"ns/admitted"}


def test_of_an_admitted_workload_what_its_pods_run_counts_once(tmp_path):
    some = waits("some", "q", 4)
    some["spec"]["podSets"][0]["count"] = 2
    some["metadata"]["ownerReferences"] = [{"uid": "u", "kind": "Job", "name": "j"}]
    some["status"] = copy.deepcopy(RESERVED)
    given = some["status"]["admission"]["podSetAssignments"][0]
    given |= {"count": 2, "resourceUsage": {GPU: "8"}}
    some["status"]["conditions"].append({"type": "Admitted", "status": "True"})
    meta = {"ownerReferences": [{"uid": "u", "kind": "Job", "name": "j", "controller": True}]}
    pods = [pod(f"p{k}", 4, host=host, meta=meta) for k, host in enumerate(("n0", None))]
    items = [queue("q", {"f": {GPU: 12}}), local("q"), some, *pods]
    made = convert(tmp_path, *NODES, *items, waits("four", "q", 4), waits("more", "q", 4))
    found = started(made)
    assert "ns/some:waiting" in found and len(found) == 2


@pytest.mark.parametrize(
    ("quota", "count", "fits"),
    [({GPU: 16, "cpu": 1}, 2, False), ({GPU: 16, "cpu": 2}, 2, True),
     ({GPU: 16, "pods": 1}, 2, False), ({GPU: 16, "pods": 2}, 2, True),
     ({GPU: 16, "memory": "1Gi"}, 2, False), ({GPU: 16, "memory": "4Gi"}, 2, True)],
)  # fmt: skip
def test_cores_memory_and_pods_have_quotas(tmp_path, quota, count, fits):
    job = waits("w", "q", 1)
    (pods,) = job["spec"]["podSets"]
    pods["count"] = count
    pods["template"]["spec"]["containers"][0]["resources"]["requests"]["memory"] = "2Gi"
    made = convert(tmp_path, *NODES, queue("q", {"f": quota}), local("q"), job)
    assert (started(made) == {"ns/w"}) is fits


REFUSED = {
    "conditions": [
        {
            "type": "QuotaReserved",
            "status": "False",
            "message": "couldn't assign flavors to pod set main: resource cpu unavailable in "
            "ClusterQueue",
        }
    ]
}


@pytest.mark.parametrize(
    ("status", "more", "is_held", "told"),
    [
        ({}, [], False, True),
        (REFUSED, [], True, True),
        ({"resourceRequests": [{"name": "main", "resources": {GPU: "4", "cpu": "1"}}]}, [], True,
         True),
        ({"resourceRequests": [{"name": "main", "resources": {GPU: "4"}}]}, [], False, False),
        ({}, [queue("other", {"f": {"cpu": 8}})], True, True),
        ({}, runs("r", "q", "n0"), False, False),
    ],
    ids=["nothing is known", "Kueue said so", "cores count", "cores do not count",
         "a queue has cores", "one is admitted without cores"],
)  # fmt: skip
def test_what_a_queue_does_not_cover_keeps_out_as_far_as_kueue_counts_it(
    tmp_path, status, more, is_held, told
):
    one = waits("w", "q")
    one["status"] = status
    made = convert(tmp_path, *NODES, queue("q", {"f": {GPU: 16}}), local("q"), one, *more)
    assert held(made) == ({"ns/w": "ClusterQueue q has no quota of cpu"} if is_held else {})
    job = next(job for job in made.round.jobs if job.name == "ns/w")
    assert ("uncovered-resources" in job.annotations.get("caveats", "")) is told


@pytest.mark.parametrize(
    ("checks", "told"),
    [
        ({"admissionChecks": ["dws"]}, True),
        ({"admissionChecks": ["placewright"]}, False),
        ({"admissionChecksStrategy": {"admissionChecks": [{"name": "dws"}]}}, True),
        ({"admissionChecksStrategy": {"admissionChecks": [{"name": "dws", "onFlavors": ["x"]}]}},
         False),
    ],
)  # fmt: skip
def test_checks_that_a_workload_has_yet_to_pass_are_told(tmp_path, checks, told):
    one = queue("q", {"f": {GPU: 8}}, **checks)
    made = convert(tmp_path, *NODES, one, local("q"), waits("w", "q"))
    assert ("admission-checks" in rules(made)) is told


def test_gpus_that_a_queue_has_none_of_keep_out(tmp_path):
    one = queue("q", {"f": {"amd.com/gpu": 16, "cpu": 8}})
    made = convert(tmp_path, *NODES, one, local("q"), waits("w", "q"))
    assert held(made) == {"ns/w": f"ClusterQueue q has no quota of {GPU}"}


def test_resources_that_kueue_makes_of_others_are_told(tmp_path):
    one = waits("w", "q")
    one["status"] = {"resourceRequests": [{"name": "main", "resources": {"x.com/credits": "9"}}]}
    made = convert(tmp_path, *NODES, queue("q", {"f": {"x.com/credits": 8}}), local("q"), one)
    assert rules(made) == {"resource-transformations": True}


def test_a_flavor_that_is_not_there_makes_its_queue_inactive(tmp_path):
    items = [*FLAVORS, queue("q", {"a": {GPU: 8}, "gone": {GPU: 8}}), local("q"), waits("w", "q")]
    made = convert(tmp_path, *NODES, *items)
    why = "there is no ResourceFlavor gone, which ClusterQueue q has quota of"
    assert held(made) == {"ns/w": why}


def test_cohorts_in_a_circle_admit_nobody(tmp_path):
    cohorts = [of("Cohort", a, spec={"parentName": b}) for a, b in ("xy", "yx", "zx")]
    items = [*cohorts, queue("in", {"f": {GPU: 8}}, cohort="z"), queue("out", {"f": {GPU: 8}})]
    made = convert(
        tmp_path, *NODES, *items, *map(local, ("in", "out")), waits("a", "in"), waits("b", "out")
    )
    assert held(made) == {"ns/a": "ClusterQueue in is in cohorts that are in a circle"}


LEAVING = {"stopPolicy": "HoldAndDrain"}


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"queue": LEAVING}, "ClusterQueue q is stopped (HoldAndDrain)"),
        ({"local": LEAVING}, "LocalQueue ns/lq-q is stopped (HoldAndDrain)"),
        ({"queue": {"stopPolicy": "Hold"}}, ""),
        ({"spec": {"active": False}}, "it is not active"),
        ({"checks": "Retry"}, "admission check dws is Retry"),
        ({"checks": "Pending"}, ""),
        ({"condition": "Evicted"}, "it is evicted (Preempted)"),
    ],
    ids=str,
)
def test_what_kueue_evicts_says_so_and_stays_until_its_pods_are_gone(tmp_path, change, why):
    workload, one_pod = runs("r", "q", "n0")
    workload["spec"] |= change.get("spec", {})
    workload["status"]["conditions"] = [{"type": "Admitted", "status": "True"}]
    if "condition" in change:
        done = {"type": change["condition"], "status": "True", "reason": "Preempted"}
        workload["status"]["conditions"].append(done)
    if "checks" in change:
        workload["status"]["admissionChecks"] = [{"name": "dws", "state": change["checks"]}]
    way = copy.deepcopy(local("q"))
    way["spec"] |= change.get("local", {})
    items = [queue("q", {"f": {GPU: 8}}, **change.get("queue", {})), way, workload, one_pod]
    made = convert(tmp_path, *NODES, *items, movable=True)
    (job,) = made.round.jobs
    assert job.running is not None and job.running.pinned is bool(why)
    assert job.annotations.get(LEAVES, "") == why


@pytest.mark.parametrize("policy", ["Hold", "HoldAndDrain"])
def test_quota_that_is_only_reserved_is_lost_where_a_queue_stops(tmp_path, policy):
    one = waits("w", "q")
    one["status"] = RESERVED
    made = convert(tmp_path, *NODES, queue("q", {"f": {GPU: 8}}, stopPolicy=policy), one)
    assert held(made) == {"ns/w": f"ClusterQueue q is stopped ({policy})"}


def test_flavors_of_one_model_are_not_added_up(tmp_path):
    items = [*FLAVORS, queue("q", {"a": {GPU: 4}, "b": {GPU: 4}}), local("q")]
    made = convert(tmp_path, *NODES, *items, waits("six", "q", 6))
    assert started(made) == set()
    made = convert(tmp_path, *NODES, *items, waits("w1", "q"), waits("w2", "q"), waits("w3", "q"))
    assert len(started(made)) == 2


def test_pods_of_a_workload_may_have_a_flavor_each(tmp_path):
    job = waits("w", "q", 4)
    job["spec"]["podSets"].append({**job["spec"]["podSets"][0], "name": "more"})
    items = [*FLAVORS, queue("q", {"a": {GPU: 4}, "b": {GPU: 4}}), local("q"), job]
    made = convert(tmp_path, *NODES, *items)
    assert len(made.round.jobs[0].options) == 4
    assert started(made) == {"ns/w"}


def test_taints_of_a_flavor_keep_out_who_does_not_tolerate_them(tmp_path):
    tainted = copy.deepcopy(FLAVORS[0])
    tainted["spec"]["nodeTaints"] = [{"key": "spot", "value": "true", "effect": "NoSchedule"}]
    items = [tainted, FLAVORS[1], queue("q", {"a": {GPU: 8}, "b": {GPU: 8}}), local("q")]
    (job,) = convert(tmp_path, *NODES, *items, waits("w", "q")).round.jobs
    assert [option.uses for option in job.options] == [{"gpu@b": 4000}]


def test_a_queue_lends_no_more_than_its_lending_limit(tmp_path):
    queues = [
        queue("a", {"f": {GPU: 9}}, cohort="c"),
        queue("b", {"f": {GPU: (12, None, 1)}}, cohort="c"),
    ]
    made = convert(tmp_path, *NODES, *queues, local("a"), waits("w", "a"))
    assert {t.name: t.quota["gpu"] for t in made.round.tenants} == {"a": 10_000, "b": 21_000}
    assert caps_of(made) == {"cohort/c": {"gpus": 21_000}}


def test_queues_without_jobs_need_no_caps_of_their_own(tmp_path):
    queues = [queue(f"q{i}", {"f": {GPU: (4, None, 1)}}, cohort="c") for i in range(12)]
    made = convert(tmp_path, *NODES, *queues, local("q1"), waits("w", "q1"))
    assert "lending limits of so many queues of its cohort" not in made.book.unsaid
    assert next(t.quota for t in made.round.tenants if t.name == "q1") == {"gpu": 15_000}
    many = [one for i in range(12) for one in (local(f"q{i}"), waits(f"w{i}", f"q{i}"))]
    made = convert(tmp_path, *NODES, *queues, *many)
    assert len(made.book.unsaid["lending limits of so many queues of its cohort"]) == 12


@pytest.mark.parametrize("share", [0, 5])
def test_preemption_by_fair_sharing_is_told(tmp_path, share):
    one = queue("q", {"f": {GPU: 8}}, cohort="c")
    other = queue("other", {"f": {GPU: 8}}, cohort="c")
    other["status"] = {"fairSharing": {"weightedShare": share}}
    made = convert(tmp_path, *NODES, one, other, local("q"), waits("w", "q"))
    assert rules(made)["fair-sharing"] is False


@pytest.mark.parametrize(
    ("fungibility", "told"),
    [({"whenCanPreempt": "MayStopSearch"}, True), ({"whenCanPreempt": "TryNextFlavor"}, False),
     ({"whenCanBorrow": "TryNextFlavor"}, True), ({"whenCanBorrow": "Borrow"}, False)],
)  # fmt: skip
def test_an_order_of_flavors_that_is_not_kueues_own_is_told(tmp_path, fungibility, told):
    one = queue("q", {"f": {GPU: 8}}, flavorFungibility=fungibility)
    made = convert(tmp_path, *NODES, one, local("q"), waits("w", "q"))
    assert ("flavor-fungibility" in rules(made)) is told


@pytest.mark.parametrize("seed", range(40))
def test_caps_allow_exactly_what_kueue_would(tmp_path, seed):
    """The usage of each node, by Kueue's own recursion, against the caps of the round."""
    rng = Random(seed)
    cohorts = {"r": None, "x": "r", "y": rng.choice(("r", "x"))}
    own = {c: (rng.randint(0, 2), rng.choice((None, 0, 1)), rng.choice((None, 0, 1, 2)))
           for c in cohorts}  # fmt: skip
    where = {f"q{i}": rng.choice(tuple(cohorts)) for i in range(3)}
    own |= {q: (rng.randint(0, 3), rng.choice((None, 0, 2)), rng.choice((None, 0, 1, 2)))
            for q in where}  # fmt: skip
    own["r"] = (own["r"][0], None, None)
    above = {**cohorts, **where}
    has: dict[str, int] = {}
    for one in (*where, "y", "x", "r"):
        below = [child for child, parent in above.items() if parent == one and child in has]
        has[one] = own[one][0] + sum(has[c] - _kept(own[c], has[c]) for c in below)
    if cohorts["y"] == "r":
        assert set(has) == set(own)

    def legal(used: dict[str, int]) -> bool:
        total: dict[str, int] = dict(used)
        for one in ("y", "x", "r"):
            total[one] = sum(
                max(0, total[c] - _kept(own[c], has[c]))
                for c, parent in above.items() if parent == one and c in total
            )  # fmt: skip
        return total["r"] <= has["r"] and all(
            own[one][1] is None or total[one] <= has[one] + own[one][1]
            for one in own if one != "r"
        )  # fmt: skip

    items = [
        of("Cohort", c, spec={**({} if parent is None else {"parentName": parent}),
                              **queue(c, {"f": {GPU: own[c]}})["spec"]})
        for c, parent in cohorts.items()
    ]  # fmt: skip
    items += [queue(q, {"f": {GPU: own[q]}}, cohort=c) for q, c in where.items()]
    items += [one for q in where for one in (local(q), waits(f"w-{q}", q, 1))]
    made = convert(tmp_path, *NODES, *items).round
    caps = {job.tenant: job.caps for job in made.jobs}
    for amounts in product(range(7), repeat=3):
        used = dict(zip(where, amounts, strict=True))
        allowed = all(used[t.name] * 1000 <= t.quota["gpu"] for t in made.tenants) and all(
            sum(used[q] for q in used if name in caps[q]) * 1000 <= cap.gpus
            for name, cap in made.caps.items()
        )
        assert allowed == legal(used), (used, own, above)


def _kept(own: tuple[int, int | None, int | None], has: int) -> int:
    return 0 if own[2] is None else max(0, has - own[2])


def preempted(made: LiveConversion) -> set[str]:
    plan = solve_round(made.round, isolation="none")
    return {d.job for d in plan.decisions if d.decision is DecisionKind.PREEMPT}


@pytest.mark.parametrize(
    ("preemption", "fits"),
    [({}, False), ({"withinClusterQueue": "Never"}, False),
     ({"withinClusterQueue": "LowerPriority"}, True), ({"reclaimWithinCohort": "Any"}, False)],
)  # fmt: skip
def test_within_a_queue_only_its_policy_lets_priority_preempt(tmp_path, preemption, fits):
    high = waits("high", "q", 8)
    high["spec"]["priority"] = 100
    items = [queue("q", {"f": {GPU: 16}}, preemption=preemption), local("q"), high]
    items += [*runs("low", "q", "n0"), pod("other", 8, host="n1")]
    made = convert(tmp_path, *NODES, *items, movable=True)
    assert preempted(made) == ({"ns/low"} if fits else set())


@pytest.mark.parametrize(
    ("preemption", "own", "priority", "fits"),
    [({}, 8, 100, False), ({"withinClusterQueue": "LowerPriority"}, 8, 100, False),
     ({"reclaimWithinCohort": "Any"}, 8, -1, True),
     ({"reclaimWithinCohort": "LowerPriority"}, 8, 0, False),
     ({"reclaimWithinCohort": "LowerPriority"}, 8, 1, True),
     ({"reclaimWithinCohort": "Any"}, 0, 100, False),
     ({"borrowWithinCohort": {"policy": "LowerPriority"}}, 0, 100, True),
     ({"borrowWithinCohort": {"policy": "LowerPriority", "maxPriorityThreshold": -5}}, 0, 9, False),
     ({"borrowWithinCohort": {"policy": "LowerPriority"}}, 0, 0, False)],
)  # fmt: skip
def test_across_queues_only_borrowed_quota_is_taken(tmp_path, preemption, own, priority, fits):
    mine = waits("mine", "a", 8)
    mine["spec"]["priority"] = priority
    items = [
        queue("a", {"f": {GPU: own}}, cohort="c", preemption=preemption),
        queue("b", {"f": {GPU: 0}}, cohort="c"),
        queue("spare", {"f": {GPU: 8 - own}}, cohort="c"),
        *map(local, "ab"), mine, *runs("borrower", "b", "n0"),
    ]  # fmt: skip
    made = convert(tmp_path, *NODES, *items, movable=True)
    assert preempted(made) == ({"ns/borrower"} if fits else set())


def test_nobody_takes_what_a_queue_has_of_its_own(tmp_path):
    high = waits("high", "a", 8)
    high["spec"]["priority"] = 100
    rules = {"withinClusterQueue": "LowerPriority", "reclaimWithinCohort": "Any"}
    items = [queue(q, {"f": {GPU: 8}}, cohort="c", preemption=rules) for q in "ab"]
    items += [*map(local, "ab"), high, *runs("own", "b", "n0")]
    made = convert(tmp_path, NODES[0], *items, movable=True)
    assert preempted(made) == set()


def test_newer_jobs_of_one_priority_are_told(tmp_path):
    rule = {"withinClusterQueue": "LowerOrNewerEqualPriority"}
    one = queue("q", {"f": {GPU: 8}}, preemption=rule)
    made = convert(tmp_path, *NODES, one, local("q"), waits("w", "q"))
    assert rules(made)["queue-preemption"] is False


@pytest.mark.parametrize(("policy", "fits"), [("Never", False), ("PreemptLowerPriority", True)])
def test_pods_that_preempt_nobody(tmp_path, policy, fits):
    owner = {
        "ownerReferences": [{"uid": "u", "kind": "ReplicaSet", "name": "r", "controller": True}]
    }
    low = pod("low", 8, host="n0", meta=owner, priority=0)
    high = pod("high", 8, priority=1000, preemptionPolicy=policy)
    made = convert(tmp_path, NODES[0], low, high, movable=True)
    assert [job.preempts for job in made.round.jobs] == [None if fits else (), None]
    assert bool(preempted(made)) is fits


def test_a_workload_that_was_evicted_waits_until_kueue_queues_it_again():
    """The time is that of the look, though nothing in the cluster has changed since."""
    one = waits("w", "q")
    one["status"] = {"requeueState": {"count": 1, "requeueAt": "1970-01-01T01:00:00Z"}}
    items = [*NODES, *FLAVORS, queue("q", {"a": {GPU: "8"}}), local("q"), one]
    for now, begins in ((3599, 3600), (3600, None)):
        made = convert_kubernetes(copy.deepcopy(items), "here", now=now).round
        assert [job.not_before for job in made.jobs] == [begins]
