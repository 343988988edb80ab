"""Jobs of Slurm: what each way of asking for GPUs becomes, and what is left out."""

from __future__ import annotations

import json

import pytest
from slurm_dumps import convert, job, node, reason, running

from placewright import solve_round
from placewright.instances.converters.slurm.texts import compress
from placewright.instances.derived.doubts import doubts_of
from placewright.instances.derived.names import AllowedHosts
from placewright.instances.documents.policy import Backfill

TREE = "SwitchName=a Level=0 Nodes=h[0-1]\nSwitchName=b Level=0 Nodes=h[2-3]\n"
TREE += "SwitchName=top Level=1 Nodes=h[0-3] Switches=a,b\n"


def group_of(made, name="1"):
    (found,) = (one for one in made.round.jobs if one.name == name)
    (option,) = found.options
    (group,) = option.groups
    return group


def hosts_of(made, group):
    """Return the hosts that a group may go to, as names and ranges."""
    allowed = AllowedHosts(made.round.host_sets).of(group)
    return None if allowed is None else compress(allowed)


@pytest.mark.parametrize(
    ("asked", "tasks", "gpus"),
    [
        ({"node_count": 2, "tres_per_node": "gres:gpu:8"}, 2, 8),
        ({"node_count": 2, "tres_per_node": "gres/gpu:h100:8"}, 2, 8),
        ({"node_count": 2, "tasks": 16, "tres_per_task": "gres/gpu=1"}, 16, 1),
        ({"node_count": 2, "tasks": 8, "tasks_per_node": 4, "tres_per_task": "gres:gpu:2"}, 2, 8),
        ({"tres_per_job": "gres:gpu:4"}, 4, 1),
        ({"tres_per_job": "gres:gpu:4", "max_nodes": 1}, 1, 4),
        ({"node_count": 2, "tres_per_job": "gres:gpu:12"}, 12, 1),
        ({"tres_per_node": "gpu"}, 1, 1),
    ],
)
def test_gpus_asked_per_node_task_or_job(tmp_path, asked, tasks, gpus):
    group = group_of(convert(tmp_path, [job(1, **asked)]))
    assert (group.count, group.gpu) == (tasks, gpus * 1000)


def test_tasks_of_half_a_node_keep_a_node_each(tmp_path):
    whole = convert(tmp_path, [job(1, node_count=2, tres_per_node="gpu:8")])
    half = convert(tmp_path, [job(1, node_count=2, tres_per_node="gpu:4")])
    assert group_of(whole).apart is None
    assert group_of(half).apart.level == "host"


def test_a_range_of_nodes_is_a_range_of_options(tmp_path):
    asked = {"node_count": 2, "max_nodes": 4, "tres_per_node": "gpu:8"}
    (one,) = convert(tmp_path, [job(1, **asked)]).round.jobs
    assert [option.groups[0].count for option in one.options] == [2, 3, 4]
    (one,) = convert(tmp_path, [job(1, **asked, flags=["JOB_IMPLICIT_MAX_NODES"])]).round.jobs
    assert len(one.options) == 1


def test_cpus_and_memory_are_shared_out(tmp_path):
    tres = "cpu=24,mem=4G,node=2,billing=24,gres/gpu=16"
    group = group_of(
        convert(tmp_path, [job(1, node_count=2, tres_per_node="gpu:8", tres_req_str=tres)])
    )
    assert (group.cpu, group.memory) == (12_000, 2048)


def test_partition_features_and_exclusion_give_hosts(tmp_path):
    nodes = [node(f"h{i}", active_features="fast,ib" if i < 4 else "ib") for i in range(6)]
    nodes.append(node("x", partitions=["other"]))
    asked = {"tres_per_node": "gpu:8", "features": "fast&ib", "excluded_nodes": "h[1-2]"}
    made = convert(tmp_path, [job(1, **asked), job(2, tres_per_node="gpu:8")], nodes)
    first, second = group_of(made), group_of(made, "2")
    assert hosts_of(made, first) == ("h0", "h3")
    assert hosts_of(made, second) == ("h[0-5]",)
    assert first.host_sets == ("partition/p", "feature/fast+ib", "without/2-nodes")
    assert second.host_sets == ("partition/p",)
    assert made.round.host_sets == {
        "feature/fast+ib": ("h[0-3]",),
        "partition/p": ("h[0-5]",),
        "without/2-nodes": ("h0", "h[3-5]", "x"),
    }


def test_one_switch_is_required(tmp_path):
    asked = {"node_count": 2, "tres_per_node": "gpu:8", "minimum_switches": 1}
    made = convert(tmp_path, [job(1, **asked), job(2, **asked | {"minimum_switches": 2})], t=TREE)
    assert [one.options[0].required for one in made.round.jobs] == ["leaf", None]
    assert made.book.unsaid["--switches of more than one"] == ["2"]


def test_a_job_alone_on_its_nodes_keeps_others_off(tmp_path):
    jobs = [job(1, tres_per_node="gpu:1", shared=["none"]), job(2, tres_per_node="gpu:1")]
    made = convert(tmp_path, jobs)
    asked = [one.options[0].groups[0].resources["node"] for one in made.round.jobs]
    assert asked == [1000, 1]
    assert {host.resources["node"] for host in made.round.cluster.hosts} == {1000}


def test_components_of_a_heterogeneous_job_are_one_job(tmp_path):
    first = job(7, het_job_id=7, tres_per_node="gpu:8")
    second = job(8, het_job_id=7, het_job_offset=1, tres_req_str="cpu=2")
    made = convert(tmp_path, [second, first])
    (one,) = made.round.jobs
    assert [(g.name, g.gpu, g.cpu) for g in one.options[0].groups] == [
        ("component-0", 8000, 0),
        ("component-1", 0, 2000),
    ]
    assert made.book.taken["jobs"] == 2


def test_an_array_is_split_up_to_its_limit(tmp_path):
    waiting = job(3, array_job_id=3, array_task_string="2-5,9%3", tres_per_node="gpu:1")
    task = running(4, ("h0", 1, 0, "gpu:1"), array_job_id=3)
    made = convert(tmp_path, [waiting, task])
    assert [one.name for one in made.round.jobs] == ["4", "3_2", "3_3"]
    assert made.book.total("jobs") == 2
    waiting["array_task_string"] = "2-5,9"
    assert len(convert(tmp_path, [waiting, task]).round.jobs) == 6


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ({"tres_per_node": "gres/nic:2"}, "asks for a resource that a round does not know"),
        ({"tres_per_node": "gres/shard:2"}, "asks for shards of GPUs that its nodes do not cut"),
        ({"tres_per_socket": "gpu:1"}, "asks for GPUs per socket"),
        ({"tres_per_node": "gpu:a100:1"}, "asks for a GPU model that no node has"),
        (
            {"tres_per_node": "gpu:h100:1,gpu:a100:1"},
            "asks for GPU models that no node has together",
        ),
        ({}, "asks for no GPU"),
        ({"tres_per_node": "gpu:4000"}, "asks for more than a node can have"),
        ({"tres_per_node": "gpu:1", "cpus": 10**11}, "asks for more than a node can have"),
        ({"tres_per_node": "gpu:8", "partition": "q"}, "may use no node of the dump"),
        ({"tres_per_node": "gpu:8", "features": "a*2"}, "has a constraint on features"),
        ({"tres_per_node": "gpu:8", "required_nodes": "x"}, "names a node that is not"),
        ({"tres_per_node": "gpu:8", "required_nodes": "h0", "excluded_nodes": "h0"}, "may not use"),
        ({"tres_per_job": "gpu:1", "node_count": 2}, "asks for more nodes than GPUs"),
        ({"tres_per_job": "gpu:1", "required_nodes": "h0,h1"}, "names some of its"),
        ({"tres_per_node": "gpu:8", "resv_name": "r"}, "waits for a reservation"),
        ({"tres_per_node": "gpu:8", "state_reason": "Dependency"}, "waits for another job"),
        ({"tres_per_node": "gpu:8", "state_reason": "PartitionDown"}, "not eligible"),
        ({"tres_per_node": "gpu:8", "state_reason": "QOSGrpGRES"}, "held by a limit"),
        ({"tres_per_node": "gpu:8", "state_reason": "BeginTime"}, "begins later"),
        ({"tres_per_node": "gpu:8", "array_task_string": "1-2000"}, "array of more than"),
        ({"tres_per_node": "gpu:8", "array_task_string": "1,2,..."}, "array of which"),
        ({"tres_per_node": "gpu:8", "job_state": "COMPLETED"}, "neither running nor pending"),
        ({"tres_per_node": "gpu:8", "job_state": ["RUNNING", "COMPLETING"]}, "ending"),
    ],
)
def test_reasons_why_a_job_is_left_out(tmp_path, asked, why):
    made = convert(tmp_path, [job(1, **asked)])
    assert not made.round.jobs
    assert reason(made, "1").startswith(why)
    assert made.book.total("jobs") == 1


def test_held_jobs_and_later_ones_wait_in_the_round(tmp_path):
    asked = {"tres_per_node": "gpu:8"}
    held = job(1, **asked, state_reason="JobHeldUser")
    later = job(2, **asked, state_reason="BeginTime", eligible_time=500)
    made = convert(tmp_path, [held, later])
    assert [(one.held, one.not_before) for one in made.round.jobs] == [(True, None), (False, 500)]


def test_running_jobs_are_pinned_where_they_are(tmp_path):
    made = convert(tmp_path, [running(1, ("h1", 4, 64, "gpu:h100:2(IDX:3,5)"))])
    (one,) = made.round.jobs
    assert one.running.pinned
    assert [(task.host, task.gpus) for task in one.running.tasks] == [("h1", (3, 5))]
    group = one.options[0].groups[0]
    assert (group.gpu, group.cpu, group.memory) == (2000, 4000, 64)


def test_movable_frees_what_may_be_requeued(tmp_path):
    place = ("h1", 4, 64, "gpu:2")
    jobs = [running(1, place), running(2, place), running(3, place, resv_name="gone")]
    jobs[1]["requeue"] = False
    made = convert(tmp_path, jobs, movable=True)
    assert [one.running.pinned for one in made.round.jobs] == [False, True, True]
    assert [task.gpus for one in made.round.jobs for task in one.running.tasks] == [
        (0, 1),
        (2, 3),
        (4, 5),
    ]


def test_a_job_on_a_full_or_unknown_node_is_left_out_and_its_nodes_are_closed(tmp_path):
    first = running(1, ("h1", 1, 1, "gpu:8"))
    second = running(2, ("h1", 1, 1, "gpu:1"))
    third = running(3, ("gone", 1, 1, "gpu:1"))
    made = convert(tmp_path, [first, second, third])
    assert [one.name for one in made.round.jobs] == ["1"]
    assert reason(made, "2") == "runs on a node with fewer GPUs than its jobs hold"
    assert reason(made, "3") == "runs on a node that is not in the dump"
    assert [one.host for one in made.round.reservations] == ["h1"]


def test_a_node_has_at_least_the_cores_that_its_jobs_hold(tmp_path):
    jobs = [running(i, ("h1", 12, 600, "gpu:1")) for i in (1, 2)]
    made = convert(tmp_path, jobs)
    (host,) = (host for host in made.round.cluster.hosts if host.name == "h1")
    assert (host.cpu, host.memory) == (24_000, 1200)
    assert made.book.unsaid["cores or memory of which jobs hold more than the node has"] == ["h1"]


@pytest.mark.parametrize(
    ("state", "healthy"),
    [
        ("idle", True),
        (["IDLE", "PLANNED"], True),
        (["MIXED", "RESERVED"], True),
        (["IDLE", "POWERED_DOWN", "CLOUD"], True),
        ("down", False),
        (["MIXED", "DRAIN"], False),
        (["IDLE", "NOT_RESPONDING"], False),
        (["IDLE", "MAINT"], False),
    ],
)
def test_states_of_nodes(tmp_path, state, healthy):
    made = convert(tmp_path, [], [node("h0", state=state)])
    assert made.round.cluster.hosts[0].healthy is healthy


def test_memory_for_the_system_is_none_for_jobs(tmp_path):
    made = convert(tmp_path, [], [node("h0", real_memory=1000, specialized_memory=100)])
    assert made.round.cluster.hosts[0].memory == 900


def test_a_qos_ranks_above_all_that_it_may_preempt(tmp_path):
    qos = "Name|Priority|Preempt|GrpTRES\nhigh|9|low,mid|\nmid|5|low|\nlow|0||\n"
    jobs = [
        job(i, qos=name, tres_per_node="gpu:1") for i, name in enumerate(("high", "mid", "low"))
    ]
    made = convert(tmp_path, jobs, qos=qos)
    assert [one.priority for one in made.round.jobs] == [2, 1, 0]


def test_times_limits_and_ranks(tmp_path):
    qos = "Name|Priority|Preempt|GrpTRES\nlow|0||gres/gpu:h100=4\nhigh|9|low|gres/gpu=4\n"
    accounts = "Cluster|Account|User|ParentName|GrpTRES\n"
    accounts += "c|lab|||gres/gpu=8\nc|team||lab|\nc|free|||\n"
    jobs = [
        job(1, account="team", qos="high", tres_per_node="gpu:1", time_limit=30),
        job(2, account="free", qos="low", tres_per_node="gpu:1", time_limit={"infinite": True}),
    ]
    made = convert(tmp_path, jobs, qos=qos, accounts=accounts)
    first, second = made.round.jobs
    assert (first.tenant, first.priority, first.expected_runtime_s) == ("lab", 1, 1800)
    assert (second.tenant, second.priority, second.expected_runtime_s) == ("free", 0, None)
    assert {tenant.name: tenant.quota for tenant in made.round.tenants} == {
        "lab": {"gpu": 8000},
        "free": {},
    }
    assert (first.caps, second.caps) == (("qos/high",), ("qos/low",))
    assert made.round.caps["qos/high"].gpus == 4000
    assert made.round.caps["qos/low"].gpus_by_model == {"h100": 4000}


def test_nodes_of_a_reservation_are_for_its_jobs(tmp_path, monkeypatch):
    monkeypatch.setenv("TZ", "UTC")
    text = "ReservationName=r StartTime=1970-01-01T00:00:10 EndTime=1970-01-01T01:00:00\n"
    text += "   Nodes=h[2-3] NodeCnt=2 Flags=SPEC_NODES\n"
    asked = {"tres_per_node": "gpu:8"}
    made = convert(tmp_path, [job(1, **asked)], r=text)
    assert [one.host for one in made.round.reservations] == ["h2", "h3"]
    made = convert(tmp_path, [job(1, **asked), job(2, **asked, resv_name="r")], r=text)
    assert not made.round.reservations
    assert hosts_of(made, group_of(made)) == ("h[0-1]",)
    assert hosts_of(made, group_of(made, "2")) == ("h[2-3]",)
    assert made.round.host_sets == {"reservation/r": ("h[2-3]",), "unreserved": ("h[0-1]",)}


def test_a_reservation_to_come_is_maintenance(tmp_path, monkeypatch):
    monkeypatch.setenv("TZ", "UTC")
    text = "ReservationName=r StartTime=1970-01-01T00:10:00 EndTime=1970-01-01T01:00:00\n Nodes=h2"
    made = convert(tmp_path, [job(1, tres_per_node="gpu:8")], r=text)
    assert [(o.host, o.start, o.end) for o in made.round.maintenance] == [("h2", 600, 3600)]


def test_gpus_without_a_model_have_one_of_no_name(tmp_path):
    nodes = [node("h0", gres="gpu:4"), node("h1", gres=""), node("h2", gres="gpu:a:1,gpu:b:2")]
    made = convert(tmp_path, [job(1, tres_per_node="gpu:2")], nodes)
    assert [(h.gpus, h.gpu_model) for h in made.round.cluster.hosts] == [
        (4, "gpu"),
        (0, None),
        (3, "a+b"),
    ]
    assert made.round.cluster.hosts[2].resources == {"gres/gpu:a": 1, "gres/gpu:b": 2}


def test_a_running_job_with_more_than_a_node_can_have_is_left_out(tmp_path):
    jobs = [running(i, ("h0", 1, 10**12, "gpu:1")) for i in (1, 2)]
    made = convert(tmp_path, jobs)
    assert [one.name for one in made.round.jobs] == ["1"]
    assert reason(made, "2") == "holds more than a node can have"


def test_memory_per_cpu_of_a_range_of_nodes(tmp_path):
    asked = {"node_count": 2, "max_nodes": 3, "minimum_cpus_per_node": 1, "memory_per_cpu": 1024}
    asked |= {"tres_per_node": "gpu:8", "tres_req_str": "cpu=1,mem=1G,node=2"}
    (one,) = convert(tmp_path, [job(1, **asked)]).round.jobs
    assert {(o.groups[0].cpu, o.groups[0].memory) for o in one.options} == {(1000, 1024)}


def test_named_nodes_are_a_group_of_their_own(tmp_path):
    asked = {"node_count": 2, "max_nodes": 3, "tres_per_node": "gpu:4", "required_nodes": "h1,h3"}
    made = convert(tmp_path, [job(1, **asked)])
    (one,) = made.round.jobs
    assert [[(g.count, hosts_of(made, g)) for g in option.groups] for option in one.options] == [
        [(2, ("h1", "h3"))],
        [(2, ("h1", "h3")), (1, ("h0", "h2"))],
    ]
    asked = {"node_count": 2, "tasks": 9, "tres_per_task": "gpu:1", "required_nodes": "h1,h3"}
    (option,) = convert(tmp_path, [job(1, **asked)]).round.jobs[0].options
    assert [(g.count, g.hosts) for g in option.groups] == [(2, ("h1", "h3")), (7, None)]
    assert option.hosts.model_dump() == {"min": 2, "max": None}
    group = group_of(convert(tmp_path, [job(1, **asked, max_nodes=2)]))
    assert (group.count, group.hosts, group.num_hosts.min) == (9, ("h1", "h3"), 2)


def test_jobs_are_listed_by_slurms_priority(tmp_path):
    asked = {"tres_per_node": "gpu:1"}
    jobs = [job(1, **asked, priority=5), job(2, **asked, priority=9), job(3, **asked, priority=5)]
    made = convert(tmp_path, jobs)
    assert [one.name for one in made.round.jobs] == ["2", "1", "3"]
    assert made.round.policy.backfill == Backfill(depth=500, order="listed")


def test_of_a_long_range_of_nodes_some_numbers_are_options(tmp_path):
    made = convert(tmp_path, [job(1, node_count=1, max_nodes=100, tres_per_node="gpu:8")])
    numbers = [option.groups[0].count for option in made.round.jobs[0].options]
    assert numbers == sorted(set(numbers))
    assert (len(numbers), numbers[0], numbers[-1]) == (16, 1, 100)
    assert any("ranges of more than 16" in what for what in made.book.unsaid)


def test_annotations_say_which_job_of_slurm_it_is(tmp_path):
    het = {"het_job_id": 5, "tres_per_node": "gpu:1"}
    made = convert(
        tmp_path,
        [
            job(1, tres_per_node="gpu:1", array_job_id=1, array_task_string="2-5%2"),
            running(2, ("h0", 1, 0, "gpu:h100:1")),
            job(5, het_job_offset=0, **het),
            job(6, het_job_offset=1, **het),
            job(7, tres_per_node="gpu:1", dependency="afterok:1(unfulfilled)"),
        ],
    )
    found = {one.name: one.annotations for one in made.round.jobs}
    assert found == {
        "1_2": {"slurm/job": "1_2"},
        "1_3": {"slurm/job": "1_3"},
        "2": {"slurm/job": "2"},
        "5": {"slurm/job": "5", "slurm/components": "5,6", "also": '["5+0", "5+1"]'},
    }
    assert made.round.annotations["source"] == "slurm"
    counts = json.loads(made.round.annotations["bookkeeping"])
    assert counts["taken"] == {"jobs": 4, "nodes": 4}
    assert counts["left_out"] == [
        {
            "kind": "jobs",
            "reason": "waits for another job (dependency)",
            "count": 1,
            "names": ["7"],
        }
    ]
    assert {one["what"]: one["names"] for one in counts["unsaid"]} == {
        "tasks of an array beyond its limit, which start later": ["1"],
        "on which nodes its components start: these are Slurm's choice": ["5"],
    }
    doubts = [doubts_of(made.round, one) for one in made.round.jobs]
    assert [len(one) for one in doubts] == [0, 1, 1, 1]  # of an array those of its tasks


def test_a_running_job_on_another_model_than_it_asks_for_stays_where_it_is(tmp_path):
    nodes = [node("h0", gres="gpu:a100:8"), node("h1", gres="gpu:h100:8")]
    one = running(1, ("h0", 1, 1, "gpu:a100:1"), tres_per_node="gpu:h100:1")
    made = convert(tmp_path, [one], nodes, movable=True)
    assert made.round.jobs[0].running.pinned


def test_limits_of_users_qos_and_accounts_above_are_caps(tmp_path):
    qos = "Name|Priority|Preempt|GrpTRES|MaxTRESPU|MaxTRESPA\n"
    qos += "q|0||gres/gpu=32|gres/gpu=4|gres/gpu=16\n"
    accounts = "Cluster|Account|User|ParentName|GrpTRES\n"
    accounts += "c|lab|||gres/gpu=24\nc|team||lab|gres/gpu=8\nc|team|ann||gres/gpu=6\n"
    more = {"account": "team", "qos": "q", "tres_per_node": "gpu:1", "user_name": "ann"}
    limit = {"state_reason": "QOSMaxGRESPerUser"}
    held, other = job(1, **more, **limit), job(2, **{**more, "user_name": "b\x01"})
    made = convert(tmp_path, [held, other], qos=qos, accounts=accounts)
    first, second = made.round.jobs
    assert first.tenant == "team"
    expected = {
        "account/lab": 24,
        "account/team/user/ann": 6,
        "qos/q": 32,
        "qos/q/account/team": 16,
        "qos/q/user/ann": 4,
    }
    assert set(first.caps) == set(expected)
    assert set(second.caps) == {"account/lab", "qos/q", "qos/q/account/team"}
    assert {n: (cap.gpus or 0) // 1000 for n, cap in made.round.caps.items()} == expected
    assert not made.book.unsaid.get("limits per job or node")


def test_a_job_held_by_a_limit_that_the_dump_does_not_have_is_left_out(tmp_path):
    made = convert(
        tmp_path, [job(1, tres_per_node="gpu:1", qos="q", state_reason="QOSMaxGRESPerUser")]
    )
    assert "held by a limit" in reason(made, "1")


def test_sets_of_odd_or_equal_names_are_told_apart_and_unused_ones_are_left_out(tmp_path):
    nodes = [
        node(f"h{i}", active_features="a" if i < 2 else "b", partitions=["p"]) for i in range(4)
    ]
    asked = {"tres_per_node": "gpu:8"}
    made = convert(
        tmp_path,
        [
            job(1, **asked, features="(a)|(b&c)"),
            job(2, **asked, excluded_nodes="h[0-1]"),
            job(3, **asked, excluded_nodes="h[2-3]"),
            job(4, **asked, excluded_nodes="h3"),
            job(5, **asked, features="b", excluded_nodes="h0", dependency="afterok:1(unfulfilled)"),
        ],
        nodes,
    )
    found = {one.name: one.options[0].groups[0].host_sets for one in made.round.jobs}
    assert found == {
        "1": ("feature:1",),
        "2": ("without/2-nodes",),
        "3": ("without/2-nodes:1",),
        "4": ("without/h3",),
    }
    assert made.round.host_sets == {
        "feature:1": ("h[0-1]",),
        "without/2-nodes": ("h[2-3]",),
        "without/2-nodes:1": ("h[0-1]",),
        "without/h3": ("h[0-2]",),
    }


def test_a_job_alone_on_a_node_where_others_run_is_where_it_is(tmp_path):
    jobs = [
        running(1, ("h0", 1, 10, "gpu:h100:1(IDX:0)"), shared="none"),
        running(2, ("h0", 1, 10, "gpu:h100:1(IDX:1)")),
        job(3, tres_per_node="gpu:1"),
    ]
    made = convert(tmp_path, jobs, [node("h0")])
    assert made.book.left_out == {}
    (host,) = made.round.cluster.hosts
    assert host.resources == {"node": 1001}
    plan = solve_round(made.round, time_limit=1.0, isolation="none")
    assert [one.decision for one in plan.decisions] == ["keep", "keep", "wait"]


@pytest.mark.parametrize(
    ("used", "closed"),
    [
        ("gpu:h100:4(IDX:0-3)", [("h0", (1, 2, 3))]),
        ("gpu:h100:3,shard:0", [("h0", (1, 2))]),
        ("gpu:h100:1(IDX:0),shard:0", []),
        ("gpu:h100:0(IDX:N/A)", []),
    ],
)
def test_gpus_that_slurm_has_in_use_are_not_free_though_no_job_is_listed(tmp_path, used, closed):
    """A job that is ending has them still, or Slurm lost count: it starts nothing there."""
    jobs = [running(1, ("h0", 1, 0, "gpu:h100:1(IDX:0)")), job(2, tres_per_node="gpu:8")]
    made = convert(tmp_path, jobs, [node("h0", gres_used=used), node("h1")])
    assert [(one.host, one.gpus) for one in made.round.reservations] == closed
    assert any("no job of the dump" in what for what in made.book.unsaid) == bool(closed)


def test_a_node_with_gpus_in_use_is_for_no_job_that_wants_it_alone(tmp_path):
    alone = job(2, tres_per_node="gpu:2", shared="none")
    nodes = [node("h0", gres_used="gpu:h100:1(IDX:0)"), node("h1", gres_used="gpu:h100:0")]
    made = convert(tmp_path, [alone, running(1, ("h1", 1, 0, "gpu:h100:1(IDX:0)"))], nodes)
    assert [one.decision.value for one in solve_round(made.round).decisions] == ["keep", "wait"]


PARTS = "ReservationName=r StartTime=1970-01-01T00:00:10 EndTime=1970-01-01T01:00:00\n   Nodes=h0 "


@pytest.mark.parametrize(
    ("said", "limits"),
    [
        ("NodeCnt=1 CoreCnt=16 Flags=SPEC_NODES\n   TRES=cpu=16", None),
        ("NodeCnt=1 CoreCnt=4 Flags=SPEC_NODES\n   TRES=cpu=4", {"cpu": 4000}),
        ("NodeCnt=1 CoreCnt=4\n   TRES=cpu=4,gres/gpu=2", {"gpus": 2000, "cpu": 4000}),
    ],
)
def test_a_reservation_of_a_part_is_told_and_bounds_its_jobs(tmp_path, monkeypatch, said, limits):
    monkeypatch.setenv("TZ", "UTC")
    made = convert(tmp_path, [job(1, tres_per_node="gpu:2", resv_name="r")], r=PARTS + said)
    found = made.round.caps.get("reservation/r")
    assert (found and {m.key: most for m, most in found.limits.items()}) == limits
    assert ("reserved-part" in str(made.round.cluster.hosts[0].annotations)) == bool(limits)
    assert any("a part of its nodes" in what for what in made.book.unsaid) == bool(limits)


def test_jobs_of_a_flexible_reservation_may_go_elsewhere(tmp_path, monkeypatch):
    monkeypatch.setenv("TZ", "UTC")
    one = job(1, tres_per_node="gpu:2", node_count=4, tasks=4, resv_name="r")
    for start in ("00:00:10", "00:30:00"):
        text = PARTS.replace("00:00:10", start) + "CoreCnt=16 Flags=FLEX,SPEC_NODES\n"
        made = convert(tmp_path, [one], r=text)
        assert not made.book.left_out
        assert hosts_of(made, group_of(made)) in (None, ("h[0-3]",))


def test_other_flags_of_reservations_are_told(tmp_path, monkeypatch):
    monkeypatch.setenv("TZ", "UTC")
    made = convert(tmp_path, [job(1, tres_per_node="gpu:2")], r=PARTS + "Flags=DAILY,SPEC_NODES\n")
    assert any("flags of reservations such as DAILY" in line for line in made.book.fields)


@pytest.mark.parametrize(("states", "there"), [((), False), (("COMPLETED",), True)])
def test_who_depends_on_a_job_waits_until_it_is_listed_as_ended(tmp_path, states, there):
    waits = job(1, tres_per_node="gpu:2", dependency="afterok:9(unfulfilled)")
    made = convert(tmp_path, [waits, *(job(9, job_state=one) for one in states)])
    assert [one.name for one in made.round.jobs] == ["1"] * there
    assert there or reason(made, "1") == "waits for another job (dependency)"
