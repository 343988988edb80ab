"""Rules of Slurm that change who starts: each is obeyed, or told of the job or host it is of."""

from __future__ import annotations

import json

import pytest
from slurm_dumps import convert, job, node, reason, running, write_dump

from placewright.instances.converters import read_slurm
from placewright.instances.documents.caveats import caveats_of
from placewright.instances.errors import InvalidInputError

HOUR = "PartitionName=p State=UP MaxTime=01:00:00\n"
FOREVER = {"set": True, "infinite": True, "number": 0}
CONFIG = "Configuration data as of 2026\n"
RESERVED = "ReservationName=r StartTime=1970-01-01T00:00:01 Nodes=h0 Users={} Accounts={}\n"


def waiting(**more):
    return job(1, **{"tres_per_node": "gpu:1", "qos": "q", "user_name": "mia", **more})


def told(made, of="job"):
    one = made.round.jobs[0] if of == "job" else made.round.cluster.hosts[0]
    return [caveat.rule for caveat in caveats_of(one.annotations)]


@pytest.mark.parametrize(
    ("asked", "texts", "why"),
    [
        ({"time_limit": FOREVER}, {"partitions": HOUR}, "60 minutes (MaxTime), the job asks no"),
        ({"time_limit": None}, {"partitions": HOUR}, "60 minutes (MaxTime), the job asks no limit"),
        (
            {"time_limit": FOREVER},
            {"qos": "Name|Priority|MaxWall\nq|1|01:00:00\n"},
            "QOS q allows 60 minutes (MaxWall), the job asks no limit",
        ),
        ({"resv_name": "r"}, {"reservations": RESERVED.format("bob", "(null)")}, "is not for its"),
        ({"resv_name": "r"}, {"reservations": RESERVED.format("-mia", "(null)")}, "is not for its"),
        ({"resv_name": "r"}, {"reservations": RESERVED.format("mia", "lab")}, "is not for its"),
        ({"state_reason": "MaxMemPerLimit"}, {}, "not eligible (MaxMemPerLimit)"),
        ({"job_state": ["PENDING", "REVOKED"]}, {}, "runs in another cluster"),
        ({"dependency": "afterok:5(failed)?afterok:6(unfulfilled)"}, {}, "waits for another job"),
        ({"features": "fast"}, {}, "may use no node of the dump, as none has the features that it"),
    ],
)
def test_what_slurm_does_not_start_is_left_out(tmp_path, asked, texts, why):
    nodes = [node("h0", features="fast,slow", active_features="slow"), node("h1")]
    made = convert(tmp_path, [waiting(account="a", **asked)], nodes, **texts)
    assert why in reason(made, "1")


@pytest.mark.parametrize(
    ("asked", "texts"),
    [
        ({}, {"partitions": "PartitionName=p State=DRAIN\n"}),
        ({"time_limit": None}, {"partitions": "PartitionName=p State=UP MaxTime=UNLIMITED\n"}),
        ({"dependency": "afterok:5(fulfilled)?afterok:6(unfulfilled)"}, {}),
        ({"resv_name": "r"}, {"reservations": RESERVED.format("bob,mia", "a")}),
        (
            {"account": "a"},
            {
                "associations": "Cluster|Account|User|ParentName|GrpTRES\nc|a|||gres/gpu=0\n",
                "config": CONFIG + "AccountingStorageEnforce = associations\n",
            },
        ),
    ],
)
def test_what_slurm_starts_may_start(tmp_path, asked, texts):
    (one,) = convert(tmp_path, [waiting(**{"account": "a", **asked})], **texts).round.jobs
    assert not (one.held or one.caps or caveats_of(one.annotations))


@pytest.mark.parametrize(
    ("asked", "texts", "rules"),
    [
        ({"flags": ["SPREAD_JOB", "JOB_WAS_RUNNING"]}, {}, ["spread-job"]),
        ({"flags": ["GRES_ENFORCE_BIND"]}, {}, ["gres-flags"]),
        ({"flags": ["A_NEW_ONE"]}, {}, ["job-flags"]),
        ({}, {"qos": "Name|Priority|Flags\nq|1|NoDecay,DenyOnLimit\n"}, []),
        ({}, {"qos": "Name|Priority|Flags\nq|1|NoReserve\n"}, ["no-reserve"]),
        ({}, {"partitions": "PartitionName=p AllowGroups=ml\n"}, ["partition-groups"]),
        ({"job_size_str": ["2,4"]}, {}, ["node-numbers"]),
        ({"reboot": True}, {}, ["reboot"]),
        ({"job_state": ["PENDING", "PAUSED"]}, {}, ["unknown-word"]),
        ({}, {"partitions": "PartitionName=p OverSubscribe=FORCE:4\n"}, ["shared-cores"]),
        ({}, {"partitions": "PartitionName=p OverSubscribe=FORCE:1\n"}, []),
        ({}, {"partitions": "PartitionName=p SelectTypeParameters=CR_SOCKET\n"}, ["whole-sockets"]),
        ({}, {"qos": "Name|Priority|MaxTRESPU\nq|1|cpu=9,billing=5\n"}, ["qos-limits"]),
        ({}, {"qos": "Name|Priority|MaxTRESPU\nq|1|cpu=9,mem=1G,gres/gpu:h100=5\n"}, []),
        (
            {"account": "a"},
            {"associations": "Cluster|Account|User|ParentName|MaxTRES\nc|a|||license/x=0\n"},
            ["limits"],
        ),
    ],
)
def test_what_a_round_cannot_say_is_told_of_the_job(tmp_path, asked, texts, rules):
    assert told(convert(tmp_path, [waiting(**asked)], **texts)) == rules


@pytest.mark.parametrize(
    ("part", "raw", "rules"),
    [
        ("qos", {"name": "q", "limits": {"max": {"tres": {"per": {"job": ["billing"]}}}}}, "qos-"),
        ("qos", {"name": "q", "limits": {"max": {"tres": {"total": ["gres", "gpu"]}}}}, ""),
        ("partitions", {"name": "p", "maximums": {"oversubscribe": {"jobs": 4}}}, "shared-cores"),
        ("partitions", {"name": "p", "partition": {"exclusive": "LEAF"}}, "exclusive-partition"),
        ("partitions", {"name": "p", "select_type": ["CR_SOCKET"]}, "whole-sockets"),
    ],
)
def test_what_json_says_of_limits_is_told_as_well(tmp_path, part, raw, rules):
    def entry(value):
        if isinstance(value, dict):
            return {key: entry(inner) for key, inner in value.items()}
        kind, name = (*value, "")[:2] if part == "qos" and isinstance(value, list) else ("", "")
        return [{"type": kind, "name": name, "count": 5}] if kind else value

    write_dump(tmp_path, [waiting()], [node("h0")])
    (tmp_path / "more.json").write_text(json.dumps({part: [entry(raw)]}))
    found = told(read_slurm([tmp_path]))
    assert all(one.startswith(rules) for one in found)
    assert bool(found) is bool(rules)


@pytest.mark.parametrize(("exclusive", "amount"), [("NO", {}), ("YES", {"node": 1000})])
def test_a_partition_that_says_exclusive_in_a_word_is_not_judged_by_its_shares(
    tmp_path, exclusive, amount
):
    """In v0.0.45 `shares` is 0 of every partition."""
    write_dump(tmp_path, [waiting()], [node("h0")])
    said = {"name": "p", "partition": {"exclusive": exclusive}, "maximums": {"shares": 0}}
    (tmp_path / "partitions.json").write_text(json.dumps({"partitions": [said]}))
    (one,) = read_slurm([tmp_path]).round.jobs
    assert one.options[0].groups[0].resources == amount


def test_a_priority_of_0_is_a_hold_unless_it_is_placewrights(tmp_path):
    of_slurm = waiting(priority=0, state_reason="JobLaunchFailure")
    ours = {**of_slurm, "job_id": 2, "admin_comment": "placewright: held, new"}
    made = convert(tmp_path, [of_slurm, ours])
    assert {one.name: one.held for one in made.round.jobs} == {"1": True, "2": False}


def test_jobs_get_whole_cores(tmp_path):
    nodes = [node("h0", threads=2, sockets=2, cores=4)]
    asked = [waiting(cpus=3), waiting(cpus=3, tres_per_node="", tres_per_job="gpu:1", max_nodes=1)]
    for one in asked:
        (made,) = convert(tmp_path, [one], nodes).round.jobs
        assert made.options[0].groups[0].cpu == 4000
    (made,) = convert(tmp_path, [waiting(cpus=3)], [node("h0", threads=2, cpus=8)]).round.jobs
    assert made.options[0].groups[0].cpu == 4000
    cores_as_cpus = [node("h0", threads=2, cpus=16, sockets=2, cores=8)]
    (made,) = convert(tmp_path, [waiting(cpus=3)], cores_as_cpus).round.jobs
    assert made.options[0].groups[0].cpu == 3000
    one_thread = {"threads_per_core": 1, "cpus": 3, "memory_per_cpu": 100}
    for one, cpu in (
        (waiting(**one_thread), 6000),
        (waiting(**one_thread, tres_per_node="", tres_per_job="gpu:3"), 2000),
        (waiting(**one_thread, tres_per_node="", tres_per_task="gpu:1", tasks=3), 2000),
    ):
        (made,) = convert(tmp_path, [one], nodes).round.jobs
        group = made.options[0].groups[0]
        assert (group.cpu, group.count * group.memory) == (cpu, 300)
        assert not caveats_of(made.annotations)
    mixed = [*nodes, node("h1")]
    made = convert(tmp_path, [waiting(cpus=3)], mixed)
    assert any("how many CPUs a core of its nodes has" in what for what in made.book.unsaid)


@pytest.mark.parametrize(
    "asked",
    [
        {"tres_per_task": "gpu:1", "memory_per_node": 512},
        {"tres_per_task": "gpu:1", "minimum_cpus_per_node": 8},
        {"tres_per_job": "gpu:4", "tasks_per_tres": 1, "memory_per_node": 512},
    ],
)
def test_amounts_of_nodes_that_tasks_divide_are_guesses(tmp_path, asked):
    shape = {"tres_per_node": "", "tasks": 4, "cpus": 4, "node_count": 2}
    made = convert(tmp_path, [waiting(**shape, **asked)])
    assert any("shares are a guess" in what for what in made.book.unsaid)


def test_cores_and_memory_that_no_job_of_the_dump_holds_are_not_free(tmp_path):
    nodes = [node("h0", alloc_cpus=6, alloc_memory=300), node("h1", specialized_cores=4)]
    made = convert(
        tmp_path, [running(1, ("h0", 2, 100, "gpu:1")), {**waiting(), "job_id": 2}], nodes
    )
    first, second = made.round.cluster.hosts
    assert (first.cpu, first.memory, second.cpu) == (12_000, 824, 12_000)
    (names,) = (n for what, n in made.book.unsaid.items() if "Slurm has in use" in what)
    assert names == ["h0"]


@pytest.mark.parametrize(
    ("state", "away"),
    [
        (["MIXED", "REBOOT_REQUESTED"], False),
        (["IDLE", "REBOOT_REQUESTED"], True),
        (["MIXED", "DRAIN", "REBOOT_REQUESTED"], True),
    ],
)
def test_a_node_that_is_to_boot_takes_jobs_as_long_as_others_run(tmp_path, state, away):
    made = convert(tmp_path, [waiting()], [node("h0", state=state)])
    assert made.round.cluster.hosts[0].healthy is not away


def test_a_reserved_node_is_told_of_where_the_dump_has_no_reservations(tmp_path):
    nodes = [node("h0", state=["IDLE", "RESERVED"])]
    assert told(convert(tmp_path, [waiting()], nodes), of="host") == ["reserved-for"]
    for flag, rules in (("TIME_FLOAT", ["reservation-kind"]), ("DAILY", []), ("MAINT", [])):
        text = RESERVED.format("bob", "(null)").replace("Nodes", f"Flags={flag} Nodes")
        made = convert(tmp_path, [waiting()], nodes, reservations=text)
        assert told(made, of="host") == rules


def test_tasks_of_an_array_are_limited_by_their_number_as_well(tmp_path):
    array = waiting(array_job_id=1, array_task_string="1-5", array_max_tasks=2)
    assert [one.name for one in convert(tmp_path, [array]).round.jobs] == ["1_1", "1_2"]


def test_a_job_whose_nodes_power_up_holds_them(tmp_path):
    one = running(1, ("h0", 1, 1, "gpu:1"))
    made = convert(tmp_path, [{**one, "job_state": "POWER_UP_NODE"}])
    assert made.round.jobs[0].running


BLOCKS = "".join(f"BlockName=b{i} Nodes=h[{2 * i}-{2 * i + 1}]\n" for i in range(4))
SHOWN = BLOCKS.replace("]\n", "] BlockSize=2 BlockIndex=0\n") + (
    "AggregatedBlock=b[0-1] Nodes=h[0-3] BlockSize=4\nAggregatedBlock=b[2-3] BlockSize=4\n"
)


@pytest.mark.parametrize("topology", [BLOCKS + "BlockSizes=2,4\n", SHOWN])
@pytest.mark.parametrize(
    ("asked", "level", "told"),
    [
        ({"node_count": 1}, None, False),
        ({"node_count": 2}, "block", False),
        ({"node_count": 3}, "aggregated-block", False),
        ({"node_count": 5}, None, True),
        ({"node_count": 2, "max_nodes": 4}, "block", False),
        ({"node_count": 2, "segment_size": 1}, None, False),
    ],
)
def test_a_job_is_in_one_block_that_is_large_enough(tmp_path, topology, asked, level, told):
    nodes = [node(f"h{i}") for i in range(8)]
    made = convert(tmp_path, [waiting(**asked)], nodes, topology=topology)
    assert {option.required for option in made.round.jobs[0].options} == {level}
    assert any("in how few blocks" in what for what in made.book.unsaid) is told


def test_a_running_job_in_two_blocks_does_not_move(tmp_path):
    jobs = [
        running(1, ("h0", 1, 1, "gpu:8"), ("h1", 1, 1, "gpu:8"), tres_per_node="gpu:8"),
        running(2, ("h3", 1, 1, "gpu:8"), ("h4", 1, 1, "gpu:8"), tres_per_node="gpu:8"),
    ]
    nodes = [node(f"h{i}") for i in range(8)]
    made = convert(tmp_path, jobs, nodes, movable=True, topology=SHOWN)
    found = {one.name: (one.running.pinned, one.options[0].required) for one in made.round.jobs}
    assert found == {"1": (False, "block"), "2": (True, None)}


def test_a_heterogeneous_job_is_whole_or_left_out(tmp_path):
    first = waiting(het_job_id=1, het_job_offset=0, het_job_id_set="1-2")
    second = {**running(2, ("h0", 1, 1, "gpu:1")), "het_job_id": 1, "het_job_offset": 1}
    made = convert(tmp_path, [first])
    assert reason(made, "1") == "heterogeneous, and the dump does not have all components"
    made = convert(tmp_path, [first, second])
    assert not made.round.jobs
    assert [one.host for one in made.round.reservations] == ["h0"]


def test_a_time_that_is_none_takes_no_other_job_with_it(tmp_path):
    """Before, it was the time of the round, by which running jobs had run for ever."""
    write_dump(tmp_path, [waiting(), job(2, submit_time=10**12)], [node("h0")])
    with pytest.raises(InvalidInputError, match=r"jobs\[1\]\.submit_time: 10{12}: expected sec"):
        read_slurm([tmp_path])
    made = read_slurm([tmp_path], lenient=True)
    assert [one.name for one in made.round.jobs] == ["1"]
    write_dump(tmp_path, [waiting(submit_time=10**9)], [node("h0")])
    assert read_slurm([tmp_path], now=10**6).round.now == 10**6


@pytest.mark.parametrize("number", [2**32 - 1, 2**32 - 2, {"set": True, "number": 2**64 - 1}])
def test_what_slurm_writes_for_no_number_is_none(tmp_path, number):
    (one,) = convert(tmp_path, [waiting(max_nodes=number, cpus=number)]).round.jobs
    assert [group.count for group in one.options[0].groups] == [1]
    write_dump(tmp_path, [waiting(time_limit=2**32 - 1)], [node("h0")], partitions=HOUR)
    assert "the job asks no limit" in reason(read_slurm([tmp_path]), "1")


def test_the_most_nodes_are_no_size(tmp_path):
    """Before, a job of a partition with MaxNodes=200000 asked for too many nodes."""
    write_dump(tmp_path, [waiting()], [node("h0")], partitions="PartitionName=p MaxNodes=200000\n")
    assert read_slurm([tmp_path]).round.jobs


@pytest.mark.parametrize(
    "odd",
    [
        {"memory_per_node": 10**12, "node_count": 10**5},
        {"minimum_cpus_per_node": 10**9, "node_count": 10**5},
        {"array_job_id": 1, "array_task_string": "1-3,2,2"},
    ],
)
def test_a_job_that_no_round_can_have_takes_no_other_with_it(tmp_path, odd):
    made = convert(tmp_path, [waiting(**odd), job(2, tres_per_node="gpu:1")])
    assert [one.name for one in made.round.jobs][-1] == "2"


def test_limits_of_an_association_with_a_partition_hold_there(tmp_path):
    limits = "Cluster|Account|User|Partition|ParentName|MaxTRES\nc|a|mia|p||gres/gpu=0\n"
    made = convert(tmp_path, [waiting(account="a")], associations=limits)
    assert reason(made, "1") == (
        "not eligible: account a user mia allows 0 gres/gpu a job, the job asks 1"
    )
    made = convert(tmp_path, [waiting(account="a", partition=["p", "q"])], associations=limits)
    assert "limits of its user in some of its partitions" in made.book.unsaid


def test_a_suspended_job_leaves_its_cores_to_others(tmp_path):
    one = {**running(1, ("h0", 8, 100, "gpu:1")), "job_state": "SUSPENDED"}
    (group,) = convert(tmp_path, [one]).round.jobs[0].options[0].groups
    assert (group.gpu, group.cpu, group.memory) == (1000, 0, 100)


@pytest.mark.parametrize("factor", [4294967295.0, {"set": True, "number": 4294967295.0}])
def test_no_number_is_no_rule_that_is_told(tmp_path, factor):
    """In v0.0.39 the factor of a QOS that has none is 4294967295.0."""
    write_dump(tmp_path, [waiting(max_cpus=2**32 - 2)], [node("h0")])
    said = {"name": "q", "limits": {"factor": factor}}
    (tmp_path / "qos.json").write_text(json.dumps({"qos": [said]}))
    assert told(read_slurm([tmp_path])) == []


def test_a_job_has_nodes_of_one_of_its_partitions(tmp_path):
    nodes = [node(f"h{i}", partitions=["a", "all"] if i < 2 else ["b", "all"]) for i in range(5)]
    asked = waiting(partition=["a", "b"], node_count=2)
    (one,) = convert(tmp_path, [asked], nodes).round.jobs
    found = {option.name: option.groups[0].host_sets for option in one.options}
    assert found == {"a/nodes-2": ("partition/a",), "b/nodes-2": ("partition/b",)}
    for other in (
        {**asked, "node_count": 1},
        {**asked, "partition": ["a", "all"]},
        {**asked, "partition": ["a", "none"]},
    ):
        (one,) = convert(tmp_path, [other], nodes).round.jobs
        assert [option.name for option in one.options] == ["default"]
    spread = {**asked, "tres_per_node": "", "tres_per_job": "gpu:4", "partition": ["a", "b"]}
    made = convert(tmp_path, [spread], nodes)
    assert len(made.round.jobs[0].options) == 2
    assert all(names == ["1"] for names in made.book.unsaid.values() if names)


@pytest.mark.parametrize(
    ("texts", "what"),
    [
        ({"qos": "Name|Priority|Flags\nother|1|\n"}, "limits of its QOS, which the dump"),
        (
            {"partitions": "PartitionName=other\n"},
            "limits of its partition, which the dump does not",
        ),
        (
            {"associations": "Cluster|Account|User|ParentName|GrpTRES\nb|a|||gres/gpu=1\n"},
            "limits of its accounts, as the associations are of other clusters",
        ),
    ],
)
def test_what_a_part_of_the_dump_does_not_list_is_told(tmp_path, texts, what):
    made = convert(tmp_path, [waiting(account="a", cluster="c")], **texts)
    assert any(one.startswith(what) for one in made.book.unsaid)


@pytest.mark.parametrize("part", ["partitions", "reservations", "licenses", "qos", "associations"])
def test_a_part_beside_jobs_and_nodes_that_is_no_list_takes_nothing_with_it(tmp_path, part):
    write_dump(tmp_path, [waiting()], [node("h0")])
    (tmp_path / "more.json").write_text(json.dumps({part: {"x": 1}}))
    with pytest.raises(InvalidInputError, match=f"more.json: {part}: .*expected a list"):
        read_slurm([tmp_path])
    assert read_slurm([tmp_path], lenient=True).round.jobs
