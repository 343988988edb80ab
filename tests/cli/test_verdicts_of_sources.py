"""Rules of Slurm and of Kubernetes in the verdict of a job: each is obeyed there, or told.

Of the kinds that people who run clusters reported, with other names, limits and objects.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from tests.instances.kubernetes import dumps
from tests.instances.kubernetes.dumps import GPU, pod
from tests.instances.kubernetes.test_kueue import of
from tests.instances.kubernetes.test_kueue_admission import queue, runs
from tests.instances.kubernetes.test_kueue_caps import local, waits
from tests.support import slurm_dumps
from tests.support.reported import explained
from tests.support.slurm_dumps import job, node, running

NOW, SO_FAR, NO = (
    "could start now",
    "as far as the round knows, could start now",
    "cannot start now",
)
NEVER = "can never run"
ASSOCIATIONS = "Cluster|Account|User|Partition|ParentName|GrpTRES|GrpJobs|MaxJobs\n"
OURS = {"state_reason": "JobHeldUser", "priority": 0, "admin_comment": "placewright: held, new"}
UP = "PartitionName=p Nodes=h[0-3] State=UP "
HOURS = (
    "ReservationName={name} StartTime=1970-01-01T00:{minute}:00 EndTime=1970-01-01T09:00:00 "
    "Duration=01:00:00\n   Nodes=h[0-3] NodeCnt=4 Flags={flags} State={state}\n"
)


def qos(**rows: str) -> str:
    """A table of QOS, in which each has a value in one column: `name="Column=value"`."""
    said = {name: text.split("=", 1) for name, text in rows.items()}
    columns = sorted({column for column, _ in said.values()})
    lines = (
        "|".join((name, "0", *(value if column == one else "" for one in columns)))
        for name, (column, value) in said.items()
    )
    return "\n".join(("|".join(("Name", "Priority", *columns)), *lines, ""))


BUSY = running(1, ("h0", 1, 0, "gpu:h100:4"), account="ml", user_name="ann", qos="x")

SLURM: list[tuple[str, Mapping[str, Any], Mapping[str, Any], tuple[str, ...]]] = [
    ("another cluster's account", {"account": "ml", "cluster": "east"},
     {"assoc": ASSOCIATIONS + "east|ml|||root|gres/gpu=32||\nwest|ml|||root|gres/gpu=2||\n"},
     (NOW,)),
    ("its own cluster's account", {"account": "ml", "cluster": "west"},
     {"assoc": ASSOCIATIONS + "west|ml|||root|gres/gpu=2||\neast|ml|||root|gres/gpu=32||\n"},
     (NEVER, "account ml may hold 2 GPUs")),
    ("QOS that multiply", {"qos": "x"}, {"qos": qos(x="LimitFactor=2.000000")},
     (SO_FAR, "that its QOS multiplies limits of accounts is not read")),
    ("QOS that do not", {"qos": "x"}, {"qos": qos(x="LimitFactor=1.000000")}, (NOW,)),
    ("a threshold", {"qos": "x"}, {"qos": qos(x="UsageThres=0.300000")},
     (SO_FAR, "limits of its QOS")),
    ("a QOS of the partition", {"qos": "vip", "user_name": "bob"},
     {"qos": qos(vip="MaxTRESPU=gres/gpu=16", part="MaxTRESPU=gres/gpu=4"),
      "partitions": f"{UP}QoS=part\n"}, (NEVER, "QOS part for user bob allows 4 GPUs")),
    ("a QOS over the partition's", {"qos": "vip", "user_name": "bob"},
     {"qos": "Name|Priority|Flags|MaxTRESPU\nvip|0|OverPartQOS|gres/gpu=16\npart|0||gres/gpu=4\n",
      "partitions": f"{UP}QoS=part\n"}, (NOW,)),
    ("accounts of a QOS", {"qos": "x", "account": "ml"}, {"qos": qos(x="MaxTRESPA=gres/gpu=8")},
     (NO, "QOS x for account ml allows 8 GPUs (4 GPUs in use)")),
    ("nodes held together", {"account": "ml", "tres_per_node": "gpu:1"},
     {"assoc": ASSOCIATIONS + "c|ml|||root|node=1||\n"},
     (SO_FAR, "limits of nodes that jobs have")),
    ("jobs of a user", {"account": "ml", "user_name": "ann"},
     {"assoc": ASSOCIATIONS + "c|ml|ann||ml|||1\n"}, (NO, "user ann allows 1 job")),
    ("a hold and no partitions", OURS, {},
     (SO_FAR, "limits of its partition, which its hold hides")),
    ("a hold and all partitions", OURS, {"partitions": UP + "\n"}, (NOW,)),
    ("CPUs per node", {}, {"partitions": f"{UP}MaxCPUsPerNode=8\n"}, (SO_FAR, "the most CPUs")),
    ("reserved alone", {}, {"partitions": f"{UP}ReqResv=YES\n"}, (NOW, "name a reservation")),
    ("closed to it", {"account": "ml"}, {"partitions": f"{UP}DenyAccounts=bio,ml\n"},
     ("not in the round", "DenyAccounts")),
    ("every day", {"time_limit": 3000},
     {"resv": HOURS.format(name="class", minute=30, flags="DAILY", state="INACTIVE").replace(
         "1970-01-01T00:30", "1970-01-01T08:30")},
     ("that reservation class comes again (DAILY)",)),
    ("magnetic", {},
     {"resv": HOURS.format(name="m", minute="01", flags="MAGNETIC", state="ACTIVE")},
     ("whether reservation m takes it in without asking (MAGNETIC)",)),
    ("a least time", {"time_minimum": 10}, {}, (NOW, "Besides: the least time (--time-min)")),
    ("several reservations", {"resv_name": "a,b"}, {}, ("asks for one of several reservations",)),
    ("a remote licence", {"licenses": "ansys@db:2"},
     {"licenses": "LicenseName=ansys@db\n    Total=2 Used=1 Free=1 Reserved=0 Remote=yes\n"},
     (NEVER, "2 licence ansys@db")),
]  # fmt: skip


@pytest.mark.parametrize(
    ("asks", "texts", "says"), [pytest.param(*one, id=name) for name, *one in SLURM]
)
def test_rules_of_slurm(asks, texts, says, tmp_path, monkeypatch):
    monkeypatch.setenv("TZ", "UTC")
    jobs = [BUSY, job(2, **{"tres_per_node": "gpu:8", **asks})]
    found = explained(slurm_dumps.convert(tmp_path, jobs, **texts).round, "2")
    assert all(text in found for text in says), found
    assert (SO_FAR in found) == (SO_FAR in says), found


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ({"owner": "ann"}, "that one user alone has the node is not read"),
        ({"gres_drained": "gpu:h100:1(IDX:3)"}, "which of its GPUs are drained is not read"),
    ],
)
def test_a_job_that_needs_a_node_with_a_rule_is_told(said, told, tmp_path):
    asks = job(2, tres_per_node="gpu:8")
    found = explained(slurm_dumps.convert(tmp_path, [asks], [node("h0", **said)]).round, "2")
    assert SO_FAR in found
    assert told in found
    nodes = [node("h0", **said), node("h1")]
    assert SO_FAR not in explained(slurm_dumps.convert(tmp_path, [asks], nodes).round, "2")


ONE = dumps.node("n0", labels={"pool": "f"})
FLAVOR = of("ResourceFlavor", "f", spec={"nodeLabels": {"pool": "f"}})
HAS = {"f": {GPU: 8, "cpu": 99}}
APART = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
    {"labelSelector": {"matchExpressions": [{"key": "team", "operator": "Exists"}]},
     "namespaceSelector": {}, "topologyKey": "kubernetes.io/hostname"}]}}  # fmt: skip


def of_team(one: Any) -> Any:
    one["spec"]["podSets"][0]["template"]["metadata"] = {"labels": {"team": "blue"}}
    return one


def priced(one: Any, priority: int) -> Any:
    one["spec"]["priority"] = priority
    return one


def of_kai(name: str, limit: int, own: int) -> Any:
    resources = {"gpu": {"quota": own, "limit": limit, "overQuotaWeight": 1}}
    return {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": name},
            "spec": {"resources": resources}}  # fmt: skip


def of_volcano(**spec: Any) -> Any:
    meta = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue"}
    return meta | {"metadata": {"name": "v"}, "spec": spec, "status": {"state": "Open"}}


KAI = {"labels": {"kai.scheduler/queue": "k"}}
VOLCANO = {"annotations": {"volcano.sh/queue-name": "v"}, "labels": {"volcano.sh/queue-name": "v"}}
TURN = "that its ClusterQueue admits nobody before those ahead of it (StrictFIFO) is not read"

KUBERNETES: list[tuple[str, list[Any], str, tuple[str, ...]]] = [
    ("behind the head", [queue("q", HAS, queueingStrategy="StrictFIFO"), local("q"), FLAVOR,
                         priced(waits("head", "q"), 9), waits("w", "q")], "ns/w", (SO_FAR, TURN)),
    ("the head itself", [queue("q", HAS, queueingStrategy="StrictFIFO"), local("q"), FLAVOR,
                         waits("other", "q"), priced(waits("w", "q"), 9)], "ns/w", (NOW,)),
    ("no selector", [queue("q", HAS, namespaceSelector=None), local("q"), FLAVOR, waits("w", "q")],
     "ns/w", (NO, "has no namespaceSelector, so it admits no namespace")),
    ("cohorts in a circle", [queue("q", HAS, cohort="a"), local("q"), FLAVOR, waits("w", "q"),
                             of("Cohort", "a", spec={"parentName": "b"}),
                             of("Cohort", "b", spec={"parentName": "a"})],
     "ns/w", (NO, "is in cohorts that are in a circle")),
    ("drained", [queue("q", HAS, stopPolicy="HoldAndDrain"), local("q"), FLAVOR,
                 *runs("r", "q", "n0"), pod("p", 8)],
     "ns/p", (NO, "Kueue stops ns/r (ClusterQueue q is stopped (HoldAndDrain))")),
    ("a guard", [queue("q", HAS), local("q"), FLAVOR, of_team(waits("w", "q")),
                 pod("guard", 1, host="n0", affinity=APART)], "ns/w", ("pod-anti-affinity",)),
    ("no quota of it", [queue("q", {"f": {"cpu": 99}}), local("q"), FLAVOR, waits("w", "q")],
     "ns/w", (NO, f"ClusterQueue q has no quota of {GPU}")),
    ("firm pods of KAI", [of_kai("k", -1, 2), pod("w", 4, meta=KAI, priority=125)], "ns/w",
     (NEVER, "queue k/non-preemptible allows 2 GPUs")),
    ("other pods of KAI", [of_kai("k", -1, 2), pod("w", 4, meta=KAI, priority=50)], "ns/w", (NOW,)),
    ("Volcano's turn", [of_volcano(dequeueStrategy="fifo"), pod("w", 4, meta=VOLCANO)], "ns/w",
     (SO_FAR, "starts nobody before those ahead of it")),
    ("a field of tomorrow", [pod("w", 1, fancyPlacement="yes")], "ns/w",
     (NOW, "Besides: unknown fields (spec.fancyPlacement) are not read")),
    ("out of turn", [of_volcano(dequeueStrategy="traverse"), pod("w", 4, meta=VOLCANO)], "ns/w",
     (NOW,)),
]  # fmt: skip


@pytest.mark.parametrize(
    ("items", "name", "says"), [pytest.param(*one, id=case) for case, *one in KUBERNETES]
)
def test_rules_of_kubernetes(items, name, says, tmp_path):
    found = explained(dumps.convert(tmp_path, ONE, *items).round, name)
    assert all(text in found for text in says), found
    assert (SO_FAR in found) == (SO_FAR in says), found
