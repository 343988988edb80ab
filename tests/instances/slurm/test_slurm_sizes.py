"""Sizes of jobs as Slurm means them: fewest and most nodes, several GPU types, shards."""

from __future__ import annotations

import pytest
from slurm_dumps import convert, job, node, reason, running

from placewright import solve_round
from placewright.instances.documents.plan import DecisionKind
from placewright.instances.exporters.slurm import slurm_steps

MIG = "gpu:1g.10gb:7,gpu:3g.40gb:2"


def asked(job_id, tres, **more):
    return job(job_id, tasks=1, cpus=1, tres_req_str=f"cpu=1,mem=1M,{tres}", **more)


def groups_of(made):
    return [
        [
            (g.count, g.gpu // 1000, g.num_hosts and (g.num_hosts.min, g.num_hosts.max))
            for g in o.groups
        ]
        for o in made.round.jobs[0].options
    ]


@pytest.mark.parametrize(
    ("fields", "groups"),
    [
        ({"tres_per_job": "gres:gpu:h100:10", "tasks": 4}, [[(10, 1, None)]]),
        ({"tres_per_job": "gres:gpu:12"}, [[(12, 1, None)]]),
        ({"tres_per_job": "gres:gpu:12", "nodes": 2, "max_nodes": 2}, [[(12, 1, (2, 2))]]),
        (
            {"tres_per_task": "gres:gpu:1", "tasks": 2, "nodes": 2, "max_nodes": 2},
            [[(2, 1, (2, None))]],
        ),
        (
            {"tres_per_node": "gres:gpu:8", "nodes": 2, "node_count": 4, "max_nodes": 4},
            [[(2, 8, None)], [(3, 8, None)], [(4, 8, None)]],
        ),
        ({"gpus": 4, "tasks": 8}, [[(4, 1, None)]]),
        ({"tasks": 8, "tasks_per_tres": 2}, [[(4, 1, None)]]),
        ({"tres_per_node": "gres:gpu:2", "tasks": 2}, [[(1, 2, None)], [(2, 2, None)]]),
    ],
)
def test_the_number_of_nodes_of_a_job_that_waits_is_an_estimate(tmp_path, fields, groups):
    nodes, gpus = fields.pop("nodes", 1), fields.pop("gpus", 0)
    tres = f"node={nodes}" + f",gres/gpu={gpus}" * bool(gpus)
    one = asked(1, tres) | {"node_count": nodes} | fields
    made = convert(tmp_path, [one])
    assert groups_of(made) == groups


def test_a_plan_keeps_the_number_of_nodes_that_a_user_asks_for(tmp_path):
    busy = [running(i + 1, (f"h{i}", 1, 1, "gpu:h100:6(IDX:0-5)")) for i in range(4)]
    free = asked(9, "node=2", tres_per_job="gpu:4", node_count=2, max_nodes=2)
    full = asked(8, "node=2", tres_per_job="gpu:12", node_count=2, max_nodes=2)
    made = convert(tmp_path, [*busy, free, full])
    plan = solve_round(made.round, time_limit=5.0, isolation="none")
    found = {one.job: one for one in plan.decisions}
    assert found["8"].decision is DecisionKind.WAIT
    assert len({task.host for task in found["9"].tasks}) == 2
    words = [
        w for step in slurm_steps(made.round, plan).steps for c in step.commands for w in c.words
    ]
    assert not any(word.startswith("NumNodes") for word in words)


def test_a_range_that_a_plan_narrowed_is_read_as_the_user_gave_it(tmp_path):
    comment = "placewright: placed on h0,h1 (asked NumNodes=2-4 ReqNodeList=h1)"
    one = asked(1, "node=2", tres_per_node="gpu:8", max_nodes=2, admin_comment=comment)
    made = convert(tmp_path, [one | {"required_nodes": "h0,h1"}])
    (read,) = made.round.jobs
    assert len(read.options) == 3
    assert read.annotations["slurm/ours"] == "NumNodes,ReqNodeList"
    assert read.annotations["slurm/asked"] == "NumNodes=2-4 ReqNodeList=h1"


def test_several_gpu_types_of_a_node_are_resources_of_it(tmp_path):
    held = running(1, ("m0", 1, 1, "gpu:3g.40gb:1(IDX:7)"))
    jobs = [held, *(asked(i, "node=1", tres_per_node="gpu:3g.40gb:1") for i in (2, 3))]
    jobs.append(asked(4, "node=1", tres_per_node="gpu:a100:1"))
    made = convert(tmp_path, jobs, [node("m0", gres=MIG)])
    assert reason(made, "4") == "asks for a GPU model that no node has"
    plan = solve_round(made.round, time_limit=5.0, isolation="none")
    assert [one.decision for one in plan.decisions].count("start") == 1


def test_whole_gpus_are_not_asked_of_slices_in_another_partition(tmp_path):
    nodes = [node("h0"), node("m0", gres=MIG, partitions=["mig"])]
    made = convert(tmp_path, [asked(1, "node=1", tres_per_node="gpu:8")], nodes)
    assert made.round.jobs[0].options[0].groups[0].gpu_models == ("h100",)


def test_a_gpu_that_carries_shards_is_not_free(tmp_path):
    shards = running(1, ("l0", 1, 1, "shard:3(IDX:0)"))
    whole = running(2, ("l0", 1, 1, "gpu:l40s:3(IDX:1-3)"))
    jobs = [shards, whole, asked(3, "node=1", tres_per_node="gpu:1")]
    jobs += [asked(i, "node=1", tres_per_node="gres:shard:1") for i in (4, 5)]
    made = convert(tmp_path, jobs, [node("l0", gres="gpu:l40s:4,shard:l40s:16")])
    plan = solve_round(made.round, time_limit=5.0, isolation="none")
    found = {one.job: one.decision for one in plan.decisions}
    assert (found["1"], found["2"], found["3"]) == ("keep", "keep", "wait")
    assert sorted((found["4"], found["5"])) == ["start", "wait"]
    assert made.round.jobs[0].running.tasks[0].gpus == (0,)


@pytest.mark.parametrize(
    ("partition", "fields", "nodes"),
    [
        ("MaxNodes=2", {"max_nodes": 4, "tres_per_node": "gpu:8"}, [1, 2]),
        ("MaxNodes=2", {"tres_per_node": "gpu:8", "tasks": 4}, [1, 2]),
        ("MinNodes=2", {"max_nodes": 3, "tres_per_node": "gpu:8"}, [2, 3]),
        ("MinNodes=2", {"tres_per_node": "gpu:8"}, [2]),
    ],
)
def test_a_partition_bounds_the_numbers_of_nodes(tmp_path, partition, fields, nodes):
    text = f"PartitionName=p State=UP {partition}\n"
    made = convert(tmp_path, [asked(1, "node=1") | fields], partitions=text)
    assert [option.groups[0].count for option in made.round.jobs[0].options] == nodes


def test_gpus_divide_among_as_many_nodes_as_a_qos_allows(tmp_path):
    qos = "Name|Priority|MaxTRES\nlow|0|node=2\n"
    made = convert(tmp_path, [asked(1, "node=1", tres_per_job="gpu:12", qos="low")], qos=qos)
    assert groups_of(made) == [[(12, 1, (1, 2))]]


@pytest.mark.parametrize(
    "texts",
    [
        {"partitions": "PartitionName=p OverSubscribe=EXCLUSIVE\n"},
        {"config": "Configuration data as of x\nSelectType = select/linear\n"},
    ],
)
def test_partitions_and_clusters_give_jobs_their_nodes_alone(tmp_path, texts):
    held = running(1, ("h0", 1, 1, "gpu:h100:1(IDX:0)"))
    one = asked(2, "node=1", tres_per_node="gpu:1")
    made = convert(tmp_path, [held, one], [node("h0")], **texts)
    assert made.round.jobs[1].options[0].groups[0].resources["node"] == 1000
    plan = solve_round(made.round, time_limit=5.0, isolation="none")
    assert plan.decisions[1].decision is DecisionKind.WAIT


def test_memory_that_slurm_does_not_allocate_keeps_nobody_out(tmp_path):
    held = running(1, ("h0", 1, 1000, "gpu:h100:1(IDX:0)"))
    one = asked(2, "node=1", tres_per_node="gpu:1", memory_per_node=900)
    config = "Configuration data as of x\nSelectTypeParameters = CR_CORE\n"
    made = convert(tmp_path, [held, one], [node("h0")], config=config)
    plan = solve_round(made.round, time_limit=5.0, isolation="none")
    assert plan.decisions[1].decision is DecisionKind.START


@pytest.mark.parametrize("state", ["MAINTENANCE", "INVALID", "BLOCKED", "POWER_DRAIN"])
def test_nodes_that_slurm_starts_nothing_on_are_away(tmp_path, state):
    nodes = [node("h0", state=["IDLE", state]), node("h1", state=["IDLE", "PLANNED"])]
    made = convert(tmp_path, [asked(1, "node=1", tres_per_node="gpu:1")], nodes)
    assert [host.healthy for host in made.round.cluster.hosts] == [False, True]


MEMORY = "Configuration data as of 2026-11-24T22:07:30\nSelectTypeParameters = CR_CORE_MEMORY\n"
NO_MEMORY = MEMORY.replace("_MEMORY", "")
NONE = {"set": True, "infinite": False, "number": 0}


@pytest.mark.parametrize(
    ("asked", "config", "alone"),
    [
        ({"memory_per_node": NONE}, {}, True),
        ({"memory_per_node": NONE}, {"config": MEMORY}, True),
        ({"memory_per_node": NONE}, {"config": NO_MEMORY}, False),
        ({"memory_per_node": None}, {"config": MEMORY}, True),
        ({"memory_per_node": None}, {}, False),
        ({"memory_per_node": NONE, "tres_req_str": "cpu=1,mem=512M"}, {}, False),
        ({"memory_per_node": NONE, "memory_per_tres": "gres:gpu:64"}, {}, False),
    ],
)
def test_no_memory_is_all_of_it_where_no_other_job_has_any(tmp_path, asked, config, alone):
    held = running(1, ("h0", 1, 64, "gpu:h100:1(IDX:0)"), memory_per_node=64)
    jobs = [held, job(2, tres_per_node="gpu:1", **asked)]
    made = convert(tmp_path, jobs, [node("h0")], **config)
    (group,) = next(one for one in made.round.jobs if one.name == "2").options[0].groups
    assert (group.resources.get("node") == 1000) == alone
    assert not alone or group.memory == 1024
    decided = {one.job: one for one in solve_round(made.round, isolation="none").decisions}
    assert (decided["2"].decision is DecisionKind.WAIT) == alone


def test_no_memory_is_told_where_no_job_that_runs_has_any(tmp_path):
    jobs = [running(1, ("h0", 1, 0, "gpu:h100:1(IDX:0)"))]
    jobs.append(job(2, tres_per_node="gpu:1", memory_per_node=NONE))
    made = convert(tmp_path, jobs)
    assert any("--mem=0" in what and names == ["2"] for what, names in made.book.unsaid.items())
    assert not any(group.resources for one in made.round.jobs for group in one.options[0].groups)


def test_all_memory_of_nodes_that_differ_counts_as_the_least(tmp_path):
    nodes = [node("h0"), node("h1", real_memory=2048)]
    one = job(1, tres_per_job="gpu:10", node_count=2, max_nodes=2, tasks=2, memory_per_node=NONE)
    made = convert(tmp_path, [one], nodes)
    (group,) = made.round.jobs[0].options[0].groups
    assert (group.count, group.gpu, group.memory) == (2, 5000, 1024)
    assert any("limits count the least" in what for what in made.book.unsaid)


@pytest.mark.parametrize(("tasks", "told"), [(16, False), (200, True)])
def test_more_tasks_than_cpus_are_told(tmp_path, tasks, told):
    one = job(1, tres_per_node="gpu:1", tasks=tasks, cpus=1, max_nodes=1)
    made = convert(tmp_path, [one], [node("h0")])
    assert any("--overcommit" in what for what in made.book.unsaid) == told
