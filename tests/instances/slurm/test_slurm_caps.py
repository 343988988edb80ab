"""Limits of Slurm's accounts, users and QOS, which become caps that jobs count in."""

from __future__ import annotations

import json

import pytest
from slurm_dumps import convert, job, node, reason, running, write_dump

from placewright import solve_round
from placewright.instances.converters import read_slurm
from placewright.instances.documents.caveats import caveats_of
from placewright.instances.documents.plan import DecisionKind
from placewright.instances.errors import InvalidInputError

ACCOUNTS = "Cluster|Account|User|Partition|ParentName|GrpJobs|GrpTRES|MaxJobs|MaxTRES\n"
QOS = "Name|Priority|Preempt|GrpTRES|GrpJobs|MaxTRESPU|MaxJobsPU|MaxTRESPA|MaxJobsPA\n"
GPU = {"tres_per_node": "gpu:2"}


def caps_of(made):
    """The caps of a round by name, each by what it limits."""
    return {
        name: {measure.key: most for measure, most in cap.limits.items()}
        for name, cap in made.round.caps.items()
    }


def counted(made):
    return {one.name: one.caps for one in made.round.jobs}


def test_a_job_counts_in_its_accounts_its_user_and_its_qos(tmp_path):
    accounts = ACCOUNTS + (
        "c|lab|||root|9|gres/gpu=16||\n"
        "c|team|||lab||gres/gpu=8,cpu=64||\n"
        "c|team|mia|||2|gres/gpu=4|3|\n"
        "c|team|leo||||||\n"
    )
    qos = QOS + "high|9||gres/gpu=12|5|gres/gpu=6|3|gres/gpu=7|4\n"
    jobs = [
        job(1, account="team", user_name="mia", qos="high", **GPU),
        job(2, account="team", user_name="leo", **GPU),
        job(3, account="lab", user_name="leo", **GPU),
    ]
    made = convert(tmp_path, jobs, accounts=accounts, qos=qos)
    assert {one.name: one.tenant for one in made.round.jobs} == {
        "1": "team",
        "2": "team",
        "3": "lab",
    }
    assert counted(made) == {
        "1": (
            "account/team",
            "account/lab",
            "account/team/user/mia",
            "qos/high",
            "qos/high/user/mia",
            "qos/high/account/team",
        ),
        "2": ("account/team", "account/lab"),
        "3": ("account/lab",),
    }
    # What is a tenant's quota alone is no cap; but jobs of team count below lab, too.
    assert {tenant.name: tenant.quota for tenant in made.round.tenants} == {
        "lab": {"gpu": 16_000},
        "team": {"gpu": 8000},
    }
    assert caps_of(made) == {
        "account/lab": {"gpus": 16_000, "jobs": 9},
        "account/team": {"gpus": 8000, "cpu": 64_000},
        "account/team/user/mia": {"gpus": 4000, "jobs": 2},
        "qos/high": {"gpus": 12_000, "jobs": 5},
        "qos/high/user/mia": {"gpus": 6000, "jobs": 3},
        "qos/high/account/team": {"gpus": 7000, "jobs": 4},
    }


def test_an_account_says_how_many_jobs_each_of_its_users_may_run(tmp_path):
    accounts = ACCOUNTS + "c|team|||root|||2|\nc|team|mia||||||\nc|team|leo|||||5|\n"
    jobs = [job(i, account="team", user_name=name, **GPU) for i, name in ((1, "mia"), (2, "leo"))]
    made = convert(tmp_path, jobs, accounts=accounts)
    assert caps_of(made) == {
        "account/team/user/leo": {"jobs": 5},
        "account/team/user/mia": {"jobs": 2},
    }


def test_a_user_may_have_an_association_per_partition(tmp_path):
    accounts = ACCOUNTS + "c|team|mia|p|||gres/gpu=2||\nc|team|mia||||gres/gpu=6||\n"
    jobs = [job(i, account="team", user_name="mia", partition=p, **GPU) for i, p in ((1, "p"),)]
    made = convert(tmp_path, jobs, accounts=accounts)
    assert caps_of(made) == {"account/team/user/mia/partition/p": {"gpus": 2000}}


def test_gpus_by_model_count_by_the_model_that_a_job_may_have(tmp_path):
    accounts = ACCOUNTS + "c|team|||||gres/gpu:h100=4,gres/gpu:b200=1||\n"
    nodes = [node("h0"), node("h1"), node("a0", "gpu:a100:8")]
    jobs = [
        job(1, account="team", tres_per_node="gpu:h100:2"),
        job(2, account="team", tres_per_node="gpu:2"),
        job(3, account="team", tres_per_node="gpu:a100:2"),
        running(4, ("h0", 1, 0, "gpu:1(IDX:0)"), account="team"),
    ]
    made = convert(tmp_path, jobs, nodes, accounts=accounts)
    assert caps_of(made) == {"account/team": {"gpus@h100": 4000}}
    models = {
        one.name: [option.groups[0].gpu_models for option in one.options] for one in made.round.jobs
    }
    assert models == {
        "1": [("h100",)],
        "2": [("a100",), ("h100",)],
        "3": [("a100",)],
        "4": [("h100",)],
    }
    plan = solve_round(made.round, isolation="none")
    h100 = sum(
        2
        for one, decision in zip(made.round.jobs, plan.decisions, strict=True)
        if decision.decision is DecisionKind.START
        and one.options[decision.option or 0].groups[0].gpu_models == ("h100",)
    )
    assert h100 <= 3


def test_a_limit_of_a_model_that_only_mixed_nodes_have_is_one_of_a_resource(tmp_path):
    accounts = ACCOUNTS + "c|team|||||gres/gpu:h100=4||\n"
    nodes = [node("h0", "gpu:h100:4,gpu:a100:4"), node("h1", "gpu:h100:4,gpu:a100:4")]
    typed = [job(i, account="team", tres_per_node="gpu:h100:3") for i in (1, 2)]
    untyped = job(3, account="team", tres_per_node="gpu:1")
    made = convert(tmp_path, [*typed, untyped], nodes, accounts=accounts)
    assert caps_of(made) == {"account/team": {"gres/gpu:h100": 4}}
    assert made.book.unsaid["a limit of GPUs of a model, of which it names none"] == ["3"]
    plan = solve_round(made.round, time_limit=5.0, isolation="none")
    assert [one.decision for one in plan.decisions[:2]].count(DecisionKind.START) == 1


NODES = {"tres_per_node": "gpu:8", "account": "team"}


@pytest.mark.parametrize(
    ("held", "started"),
    [
        ([running(1, ("h0", 1, 0, "gpu:h100:8"), account="team")], 1),
        ([running(1, ("h0", 1, 0, "gpu:h100:1"), account="team")], 1),
        ([running(1, ("h0", 1, 0, "gpu:h100:8"), account="other")], 2),
    ],
)
def test_a_limit_of_nodes_is_kept_where_no_two_jobs_share_one(tmp_path, held, started):
    accounts = ACCOUNTS + "c|team|||||node=2||\nc|other||||||\n"
    made = convert(tmp_path, [*held, *(job(i, **NODES) for i in (2, 3, 4))], accounts=accounts)
    plan = solve_round(made.round, time_limit=5.0, isolation="none")
    assert [one.decision for one in plan.decisions].count(DecisionKind.START) == started


def test_a_limit_of_nodes_that_jobs_may_share_is_told(tmp_path):
    qos = QOS + "low|0||||node=1|||\n"
    jobs = [job(i, user_name="mia", qos="low", **GPU) for i in (1, 2)]
    jobs.append(job(3, user_name="mia", qos="low", **GPU, node_count=2, max_nodes=2, tasks=2))
    made = convert(tmp_path, jobs, qos=qos)
    told = "limits of nodes that jobs have together, of which some may share a node"
    assert made.book.unsaid[told] == ["1", "2"]
    assert reason(made, "3").endswith("qos/low/user/mia allows 1 nodes together, the job asks 2")


def test_a_limit_of_none_is_a_limit(tmp_path):
    accounts = ACCOUNTS + "c|team|mia||||gres/gpu=0||\n"
    made = convert(tmp_path, [job(1, account="team", user_name="mia", **GPU)], accounts=accounts)
    assert caps_of(made) == {"account/team/user/mia": {"gpus": 0}}


def test_who_waits_for_a_known_limit_is_in_the_round(tmp_path):
    qos = QOS + "low|0||||gres/gpu=2|||\n"
    waits = {"user_name": "mia", "qos": "low", **GPU}
    jobs = [
        running(1, ("h0", 1, 0, "gpu:2(IDX:0-1)"), user_name="mia", qos="low"),
        job(2, state_reason="QOSMaxGRESPerUser", **waits),
        job(3, state_reason="QOSMaxGRESPerUser", **waits | {"qos": "other"}),
        job(4, state_reason="QOSMaxCpuPerUserLimit", **waits),
    ]
    made = convert(tmp_path, jobs, qos=qos)
    assert counted(made) == {"2": ("qos/low/user/mia",), "1": ("qos/low/user/mia",)}
    plan = solve_round(made.round, isolation="none")
    (waiting,) = [one for one in plan.decisions if one.job == "2"]
    assert (waiting.reason, waiting.detail.cap) == ("quota", "qos/low/user/mia")


def test_running_jobs_that_are_left_out_count_all_the_same(tmp_path):
    jobs = [
        running(1, ("h9", 1, 0, "gpu:2(IDX:0-1)"), qos="low"),
        job(2, qos="low", **GPU),
    ]
    jobs[0]["nodes"] = "h9"
    qos = QOS + "low|0|||3||||\n"
    made = convert(tmp_path, jobs, qos=qos)
    assert caps_of(made) == {"qos/low": {"jobs": 2}}


def test_json_says_the_same_as_text(tmp_path):
    jobs = [job(1, account="team", user_name="mia", qos="high", **GPU)]
    number = {"set": True, "infinite": False, "number": 2}
    none = {"set": False, "infinite": True, "number": 0}
    gpus = [{"type": "gres", "name": "gpu", "count": 4}]
    association = {
        "account": "team",
        "user": "mia",
        "max": {"jobs": {"active": 3, "per": {"count": number}}, "tres": {"total": gpus}},
    }
    qos = {
        "name": "high",
        "limits": {
            "max": {
                "active_jobs": {"count": none},
                "tres": {"total": gpus, "per": {"user": gpus}},
                "jobs": {"active_jobs": {"per": {"account": number, "user": none}}},
            }
        },
    }
    write_dump(tmp_path, jobs, [node("h0")])
    (tmp_path / "associations.json").write_text(json.dumps({"associations": [association]}))
    (tmp_path / "qos.json").write_text(json.dumps({"qos": [qos]}))
    assert caps_of(read_slurm([tmp_path])) == {
        "account/team/user/mia": {"gpus": 4000, "jobs": 2},
        "qos/high": {"gpus": 4000},
        "qos/high/account/team": {"jobs": 2},
        "qos/high/user/mia": {"gpus": 4000},
    }


def test_who_asks_more_than_one_job_may_have_is_left_out(tmp_path):
    accounts = ACCOUNTS + "c|team|||||||gres/gpu=2\n"
    made = convert(tmp_path, [job(1, account="team", tres_per_node="gpu:3")], accounts=accounts)
    why = "not eligible: account team allows 2 gres/gpu a job, the job asks 3"
    assert reason(made, "1") == why


@pytest.mark.parametrize("wrong", ["x", "-1", "9999999999999"])
def test_a_number_of_jobs_that_is_none_is_refused(tmp_path, wrong):
    accounts = ACCOUNTS + f"c|team||||{wrong}|||\n"
    with pytest.raises(InvalidInputError, match="expected a whole number"):
        convert(tmp_path, [job(1, account="team", **GPU)], accounts=accounts)


LIMITED = "Name|Priority|Preempt|MaxTRES|MaxTRESMins|MinTRES\n"


@pytest.mark.parametrize(
    ("row", "more", "why"),
    [
        ("low|0|||gres/gpu=480|", {"time_limit": 60}, None),
        (
            "low|0|||gres/gpu=479|",
            {"time_limit": 60},
            "QOS low allows 479 gres/gpu times minutes a job (MaxTRESMins), the job asks 480",
        ),
        ("low|0||||gres/gpu=8", {}, None),
        ("low|0||||gres/gpu=9", {}, "QOS low asks 9 gres/gpu a job (MinTRES), the job asks 8"),
        ("low|0||||gres/gpu=8", {"state_reason": "QOSMinGRES"}, None),
        ("low|0||||", {"state_reason": "QOSMinGRES"}, "does not have (QOSMinGRES)"),
    ],
)
def test_limits_of_a_single_job_by_time_and_from_below(tmp_path, row, more, why):
    one = job(1, qos="low", tres_per_node="gpu:8", **more)
    made = convert(tmp_path, [one], qos=f"{LIMITED}{row}\n")
    if why is None:
        assert not made.book.left_out
    else:
        assert reason(made, "1").endswith(why)


def test_json_has_limits_of_a_single_job_by_time_and_from_below(tmp_path):
    gpus = [{"type": "gres", "name": "gpu", "count": 4}]
    minutes = {"minutes": {"per": {"job": gpus}}}
    most = {"name": "most", "limits": {"max": {"tres": minutes}}}
    least = {"name": "least", "limits": {"min": {"tres": {"per": {"job": gpus}}}}}
    jobs = [job(1, qos="most", time_limit=3, **GPU), job(2, qos="least", **GPU)]
    jobs.append(job(3, account="lab", time_limit=3, **GPU))
    write_dump(tmp_path, jobs, [node("h0")])
    (tmp_path / "qos.json").write_text(json.dumps({"qos": [most, least]}))
    lab = {"associations": [{"account": "lab", "max": {"tres": minutes}}]}
    (tmp_path / "associations.json").write_text(json.dumps(lab))
    made = read_slurm([tmp_path])
    assert [reason(made, n).partition(" the job")[0] for n in "123"] == [
        "not eligible: QOS most allows 4 gres/gpu times minutes a job (MaxTRESMins),",
        "not eligible: QOS least asks 4 gres/gpu a job (MinTRES),",
        "not eligible: account lab allows 4 gres/gpu times minutes a job (MaxTRESMins),",
    ]
    assert not any("on what a round does not count" in line for line in made.book.fields)


@pytest.mark.parametrize("why", ["AssocGrpNodeLimit", "QOSGrpNodeLimit", "QOSMaxNodePerUserLimit"])
def test_who_waits_for_a_limit_of_nodes_that_is_kept_is_in_the_round(tmp_path, why):
    accounts = ACCOUNTS + "c|team|||||node=2||\n"
    qos = QOS + "low|||node=2||node=2|||\n"
    one = {"tres_per_node": "gpu:8", "user_name": "mia", "state_reason": why}
    jobs = [job(1, account="team", qos="low", **one), job(2, **one)]
    made = convert(tmp_path, jobs, accounts=accounts, qos=qos)
    assert [one.name for one in made.round.jobs] == ["1"]
    assert reason(made, "2") == f"held by a limit that the round does not have ({why})"


def test_what_a_qos_of_the_partition_limits_beyond_a_round_is_told(tmp_path):
    made = convert(
        tmp_path,
        [job(1, qos="own", tres_per_node="gpu:1")],
        partitions="PartitionName=p\n   QoS=part\n   State=UP\n",
        qos="Name|Priority|GrpTRESMins\nown|1|\npart|1|gres/gpu=9\nother|1|gres/gpu=9\n",
    )
    (made_job,) = made.round.jobs
    assert [one.rule for one in caveats_of(made_job.annotations)] == ["qos-limits"]
