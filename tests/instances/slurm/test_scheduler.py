"""Slurm's own order, reservations, preemption and partitions in the rounds of its dumps."""

from __future__ import annotations

import pytest
from slurm_dumps import convert, job, node, reason, running

from placewright import explain_job, solve_round
from placewright.instances.converters.slurm.limits import Limits
from placewright.instances.converters.slurm.scheduler import Scheduler
from placewright.instances.converters.support.live import GivenPolicy
from placewright.instances.derived.doubts import doubts_of
from placewright.instances.documents.plan import DecisionKind
from placewright.instances.documents.source_keys import SLURM_PREEMPT
from placewright.instances.errors import InvalidInputError
from placewright.instances.exporters.slurm import slurm_steps
from placewright.instances.verify import verify

NODE = {"tres_per_node": "gpu:8"}
HELD = {"state_reason": "JobHeldUser", "priority": 0, "admin_comment": "placewright: held, new"}
CONFIG = "Configuration data as of 2026-11-24T22:07:30\n"
QOS = "Name|Priority|GraceTime|Preempt|PreemptMode|Flags|MaxTRES|MaxWall|MaxTRESPU|MaxJobsPU\n"
ROWS = QOS + "high|100||low||||||\nnormal|10|||||||||\nlow|0|||||||||\n"
PARTITION = "PartitionName={name} State={state} MaxTime={time} MaxNodes={nodes} PriorityTier={tier}"


def config(**said):
    return CONFIG + "".join(f"{name:<24}= {value}\n" for name, value in said.items())


def partition(name="p", state="UP", time="1-00:00:00", nodes="UNLIMITED", tier=1, more=""):
    text = PARTITION.format(name=name, state=state, time=time, nodes=nodes, tier=tier)
    return f"{text} {more}\n   QoS=N/A\n" if "QoS" not in more else f"{text} {more}\n"


def waiting(made):
    return [one.name for one in made.round.jobs if one.running is None]


def busy(number, host, **more):
    return running(number, (host, 1, 0, "gpu:h100:8(IDX:0-7)"), **{**NODE, **more})


def decided(made):
    plan = solve_round(made.round, time_limit=10, isolation="none")
    assert verify(made.round, plan).ok
    return {one.job: one for one in plan.decisions}, plan


def test_jobs_behind_the_head_of_the_queue_delay_it_no_longer(tmp_path):
    """A gang that needs all nodes waits for one; a job of a day stays behind it, one of a minute
    does not."""
    jobs = [
        busy(1, "h0", time_limit=60),
        job(2, node_count=2, time_limit=60, priority=90, **NODE),
        job(3, time_limit=1440, priority=50, **NODE),
        job(4, time_limit=30, priority=40, **NODE),
    ]
    made = convert(tmp_path, jobs, [node("h0"), node("h1")])
    found, plan = decided(made)
    assert found["4"].decision is DecisionKind.START
    assert found["2"].reason == "reserved"
    assert (found["3"].reason, found["3"].detail.job) in (
        ("held_for_reservation", "2"),
        ("reserved", None),
    )
    assert plan.sections[-1]["jobs"][0]["job"] == "2"


def test_the_queue_is_by_reservation_tier_priority_and_number(tmp_path):
    jobs = [
        job(1, priority=5, **NODE),
        job(2, priority=7, **NODE),
        job(3, priority=7, **NODE),
        job(4, priority=1, partition="fast", **NODE),
    ]
    nodes = [node(f"h{i}", partitions=["p", "fast"]) for i in range(2)]
    told = partition() + partition("fast", tier=9)
    made = convert(tmp_path, jobs, nodes, partitions=told)
    assert waiting(made) == ["4", "2", "3", "1"]
    assert made.round.policy.as_listed
    assert any("by PriorityTier, then" in line for line in made.book.lines())
    found, _ = decided(made)
    starts = {name for name, one in found.items() if one.decision is DecisionKind.START}
    assert starts == {"4", "2"}


def test_what_may_preempt_a_job_comes_before_it_and_nothing_else(tmp_path):
    jobs = [
        job(1, priority=9, qos="normal", **NODE),
        job(2, priority=8, qos="low", **NODE),
        job(3, priority=7, qos="high", **NODE),
    ]
    assert waiting(convert(tmp_path, jobs, qos=ROWS)) == ["1", "3", "2"]


def test_a_hold_hides_the_priority_and_factors_make_it(tmp_path):
    jobs = [
        job(1, qos="low", account="a", user_name="mia", **HELD, **NODE),
        job(2, qos="normal", account="a", user_name="leo", **HELD, **NODE),
        job(3, qos="low", account="a", user_name="leo", **HELD, **NODE),
        job(4, qos="normal", account="a", user_name="leo", priority=60_000, **NODE),
    ]
    shares = "Account|User|RawShares|FairShare\na|mia|1|0.100000\na|leo|1|0.900000\n"
    weights = {"PriorityWeightQOS": 1_000_000, "PriorityWeightFairShare": 1000}
    told = config(PriorityType="priority/multifactor", PriorityMaxAge="7-00:00:00", **weights)
    assert waiting(convert(tmp_path, jobs, qos=ROWS)) == ["2", "4", "1", "3"]
    made = convert(tmp_path, jobs, qos=ROWS, shares=shares, config=told)
    assert waiting(made) == ["2", "4", "3", "1"]
    made = convert(tmp_path, jobs, config=config(PriorityType="priority/basic"))
    assert waiting(made) == ["1", "2", "3", "4"]


@pytest.mark.parametrize(
    ("parameters", "depth"), [("bf_interval=3,bf_max_job_test=20", 20), ("(null)", 500)]
)
def test_reservations_are_as_many_as_slurms(tmp_path, parameters, depth):
    told = config(SchedulerType="sched/backfill", SchedulerParameters=parameters)
    made = convert(tmp_path, [job(1, **NODE)], config=told)
    assert made.round.policy.backfill.depth == depth


@pytest.mark.parametrize("others", [(), (job(9, qos="low", **NODE),)])
def test_a_qos_preempts_whoever_else_waits(tmp_path, others):
    jobs = [busy(1, "h0", qos="low"), job(2, qos="high", **NODE), *others]
    made = convert(tmp_path, jobs, [node("h0")], qos=ROWS)
    found, plan = decided(made)
    assert found["1"].decision is DecisionKind.PREEMPT
    assert found["2"].decision is DecisionKind.START
    commands = [c.words for step in slurm_steps(made.round, plan).steps for c in step.commands]
    assert ("scontrol", "requeue", "1") in commands


def test_a_job_that_may_be_preempted_does_not_move(tmp_path):
    jobs = [
        running(1, ("h0", 1, 0, "gpu:h100:2(IDX:0-1)"), qos="low", tres_per_node="gpu:2"),
        running(2, ("h1", 1, 0, "gpu:h100:2(IDX:0-1)"), qos="normal", tres_per_node="gpu:2"),
        job(3, qos="high", **NODE),
    ]
    made = convert(tmp_path, jobs, [node("h0"), node("h1")], qos=ROWS)
    found, _ = decided(made)
    assert found["1"].decision is DecisionKind.PREEMPT  # and not 2, which nobody may preempt
    assert found["2"].decision is DecisionKind.KEEP
    jobs[2] = job(3, qos="normal", **NODE)  # no leave: moving 1 would help, and it does not move
    found, _ = decided(convert(tmp_path, jobs, [node("h0"), node("h1")], qos=ROWS))
    assert found["3"].decision is DecisionKind.WAIT


@pytest.mark.parametrize(
    ("row", "requeue", "commands"),
    [
        ("low|0|||cancel|||||", True, [("scancel", "1")]),
        ("low|0|||||||||", False, [("scancel", "1")]),
        (
            "low|0|00:00:20||requeue|||||",
            True,
            [("scancel", "--signal=TERM", "1"), ("sleep", "20"), ("scontrol", "requeue", "1")],
        ),
        ("low|0|||suspend|||||", True, []),
        ("low|0|||off|||||", True, []),
    ],
)
def test_a_job_is_preempted_in_the_mode_of_its_qos(tmp_path, row, requeue, commands):
    rows = QOS + f"high|100||low||||||\n{row}\n"
    jobs = [busy(1, "h0", qos="low", requeue=requeue), job(2, qos="high", **NODE)]
    made = convert(tmp_path, jobs, [node("h0")], qos=rows)
    _, plan = decided(made)
    (step,) = [s for s in slurm_steps(made.round, plan).steps if s.job == "1" and s.commands] or [
        None
    ]
    given = [] if step is None else [c.words for c in step.commands if "update" not in c.words]
    assert given == commands


def test_a_higher_tier_preempts_where_partitions_say_so(tmp_path):
    nodes = [node("h0", partitions=["p", "fast"])]
    jobs = [busy(1, "h0"), job(2, partition="fast", **NODE)]
    told = config(PreemptType="preempt/partition_prio", PreemptMode="CANCEL")
    both = partition(more="PreemptMode=REQUEUE") + partition("fast", tier=2)
    made = convert(tmp_path, jobs, nodes, partitions=both, config=told)
    assert made.round.jobs[0].annotations[SLURM_PREEMPT] == "requeue"
    assert decided(made)[0]["1"].decision is DecisionKind.PREEMPT
    off = partition(more="PreemptMode=OFF") + partition("fast", tier=2)
    made = convert(tmp_path, jobs, nodes, partitions=off, config=told)
    assert decided(made)[0]["1"].decision is DecisionKind.KEEP


def test_an_explanation_says_whom_slurm_would_preempt(tmp_path):
    jobs = [busy(i, f"h{i}", qos="low", time_limit=1000) for i in (1, 2)]
    jobs[1]["start_time"] = 200
    jobs += [job(3, qos="high", submit_time=210, **NODE), job(4, qos="low", **NODE)]
    told = config(PreemptType="preempt/qos", PreemptMode="CANCEL")
    made = convert(tmp_path, jobs, [node("h1"), node("h2")], qos=ROWS, config=told)
    found = explain_job(made.round, None, "3", isolation="none")
    assert found.scheduler == ("Slurm would preempt 2 to start it",)
    assert explain_job(made.round, None, "4", isolation="none").scheduler == ()


def test_nobody_is_preempted_before_its_time(tmp_path):
    jobs = [busy(1, "h0", qos="low"), job(2, qos="high", submit_time=160, **NODE)]
    jobs[0]["start_time"] = 100
    told = config(PreemptType="preempt/qos", PreemptMode="REQUEUE", PreemptExemptTime="00:05:00")
    made = convert(tmp_path, jobs, [node("h0")], qos=ROWS, config=told)
    assert made.round.jobs[0].running.pinned


@pytest.mark.parametrize(
    ("said", "what"),
    [
        ({"SchedulerType": "sched/builtin"}, "that nobody starts out of turn"),
        ({"SchedulerParameters": "bf_max_job_user=3,bf_continue"}, "bf_max_job_user of Sched"),
        ({"PreemptMode": "SUSPEND,GANG"}, "whom it may suspend"),
        ({"PreemptMode": "REQUEUE,WITHIN"}, "whom it may preempt within its QOS"),
    ],
)
def test_what_a_round_cannot_say_of_the_scheduler_is_doubtful_of_who_waits(tmp_path, said, what):
    jobs = [busy(1, "h0", qos="low"), job(2, qos="high", **NODE)]
    told = config(**{"PreemptType": "preempt/qos", **said})
    made = convert(tmp_path, jobs, [node("h0")], qos=ROWS, config=told)
    (found,) = doubts_of(made.round, made.round.jobs[1])
    assert found.startswith(what)


@pytest.mark.parametrize(
    ("asked", "told", "why"),
    [
        ({"time_limit": 1441}, {}, "allows 1,440 minutes (MaxTime), the job asks 1,441"),
        ({"node_count": 2}, {"nodes": "1"}, "allows 1 nodes a job (MaxNodes), the job asks 2"),
        (
            {"max_nodes": 1},
            {"more": "MinNodes=2"},
            "asks 2 nodes a job or more (MinNodes), the job asks 1",
        ),
        ({}, {"state": "DOWN"}, "is not up"),
        ({}, {"state": "INACTIVE"}, "is not up"),
        ({"account": "a"}, {"more": "AllowAccounts=b"}, "is not for its account"),
        ({"qos": "low"}, {"more": "AllowQos=high,normal"}, "is not for its QOS"),
        ({"qos": "low"}, {"more": "DenyQos=low"}, "is not for its QOS"),
    ],
)
def test_what_a_partition_does_not_take_is_not_eligible_though_held(tmp_path, asked, told, why):
    jobs = [job(1, **HELD, **NODE, **asked)]
    made = convert(tmp_path, jobs, partitions=partition(**told))
    assert reason(made, "1").startswith(f"not eligible: partition p {why}")


def test_of_several_partitions_those_that_take_a_job_count(tmp_path):
    nodes = [node("h0", partitions=["p"]), node("h1", partitions=["long"])]
    asked = {"partition": "p,long", "time_limit": 5000}
    both = partition() + partition("long", time="UNLIMITED")
    made = convert(tmp_path, [job(1, **asked, **HELD, **NODE)], nodes, partitions=both)
    (group,) = made.round.jobs[0].options[0].groups
    assert made.round.host_sets[group.host_sets[0]] == ("h1",)


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ({"dependency": "afterok:7(unfulfilled)"}, "waits for another job (dependency)"),
        ({"dependency": "afterok:7(failed)"}, "waits for another job (dependency)"),
        ({"dependency": "singleton"}, "waits for another job (dependency)"),
        ({"qos": "few"}, "not eligible: QOS few allows 4 gres/gpu a job, the job asks 8"),
        (
            {"qos": "short", "time_limit": 120},
            "not eligible: QOS short allows 60 minutes (MaxWall), the job asks 120",
        ),
    ],
)
def test_a_held_job_is_judged_by_its_fields(tmp_path, asked, why):
    rows = QOS + "few|0|||||gres/gpu=4|||\nshort|0||||||01:00:00||\n"
    made = convert(tmp_path, [job(1, **HELD, **NODE, **asked)], qos=rows)
    assert reason(made, "1") == why


@pytest.mark.parametrize(
    ("states", "kind", "waits"),
    [
        ([["COMPLETED"]], "afterok", False),
        ([["COMPLETED"]], "afterany", False),
        ([["FAILED"]], "afterany", False),
        ([["FAILED"]], "afterok", True),
        ([["FAILED"]], "afternotok", True),
        ([["RUNNING"]], "afterany", True),
        ([["COMPLETED", "COMPLETING"]], "afterok", True),
        ([["COMPLETED"], ["RUNNING"]], "afterany", True),
        ([], "afterany", True),
    ],
)
def test_a_dependency_on_a_job_that_has_ended_is_fulfilled(tmp_path, states, kind, waits):
    """Slurm lists that of a held job as unfulfilled for up to a minute."""
    others = [job(8 + i, job_state=one, array_job_id=8) for i, one in enumerate(states)]
    own = job(1, dependency=f"{kind}:8(unfulfilled)", **HELD, **NODE)
    made = convert(tmp_path, [own, *others])
    assert [one.name for one in made.round.jobs if one.running is None] == ["1"] * (not waits)


def test_a_held_job_that_begins_later_is_not_started_before(tmp_path):
    made = convert(tmp_path, [job(1, eligible_time=5000, **HELD, **NODE)])
    assert made.round.jobs[0].not_before == 5000
    assert decided(made)[0]["1"].reason == "not_before"


def test_jobs_of_a_partition_count_in_its_qos(tmp_path):
    """Two jobs of four GPUs each, of a partition whose QOS allows a user four: one starts."""
    rows = QOS + "normal|0||||||gres/gpu=16||\npart|0||||||gres/gpu=4|2|\n"
    rows = rows.replace("||||||gres", "|||||||gres")
    asked = {"tres_per_node": "gpu:4", "user_name": "mia", "qos": "normal"}
    jobs = [job(1, **HELD, **asked), job(2, **HELD, **asked)]
    made = convert(tmp_path, jobs, qos=rows, partitions=partition(more="QoS=part"))
    assert made.round.caps["qos/part/user/mia"].gpus == 4000
    found, _ = decided(made)
    assert [found[name].decision for name in "12"] == [DecisionKind.START, DecisionKind.WAIT]


def test_limits_of_one_partition_of_several_are_told(tmp_path):
    rows = QOS + "part|0|||||||gres/gpu=4|\n"
    said = partition("p", more="QoS=part") + partition("q")
    made = convert(tmp_path, [job(1, partition="p,q", **NODE)], qos=rows, partitions=said)
    assert made.book.unsaid["limits of QOS that only some of its partitions have"] == ["1"]


def test_cores_and_memory_of_accounts_are_limited(tmp_path):
    accounts = "Cluster|Account|User|GrpTRES\nc|lab||cpu=20,mem=1G\n"
    jobs = [job(n, account="lab", cpus=12, **NODE) for n in (1, 2)]
    made = convert(tmp_path, jobs, accounts=accounts)
    assert made.round.caps["account/lab"].resources == {"cpu": 20_000, "memory": 1024}
    found, _ = decided(made)
    assert [found[name].decision for name in "12"] == [DecisionKind.START, DecisionKind.WAIT]


def test_components_start_together_or_wait(tmp_path):
    """Slurm chooses their nodes: it would give the first one those that others were told."""
    parts = [
        job(5 + k, het_job_id=5, het_job_offset=k, tres_per_node=f"gpu:{gpus}", **HELD)
        for k, gpus in enumerate((8, 4))
    ]
    made = convert(tmp_path, parts, [node("h0"), node("h1")])
    found, plan = decided(made)
    assert found["5"].decision is DecisionKind.START
    steps = slurm_steps(made.round, plan)
    assert steps.unsaid["where heterogeneous jobs start"] == ["5"]
    (step,) = steps.steps
    words = [c.words for c in step.commands if c.held is not False]
    assert not any("ReqNodeList" in word for one in words for word in one)
    assert words[1] == ("scontrol", "release", "5")
    found, _ = decided(convert(tmp_path, parts, [node("h0")]))
    assert found["5"].decision is DecisionKind.WAIT


def test_a_job_that_slurm_keeps_waiting_is_not_held_again(tmp_path):
    sent = {"admin_comment": "placewright: released to h0", "required_nodes": "h0"}
    begins = {"state_reason": "BeginTime", "eligible_time": 5000}
    for more, holds in ((begins, False), ({"state_reason": "Resources"}, True)):
        jobs = [busy(1, "h0"), job(2, **NODE, **sent, **more)]
        made = convert(tmp_path, jobs, [node("h0")])
        _, plan = decided(made)
        commands = [c.words for s in slurm_steps(made.round, plan).steps for c in s.commands]
        assert (("scontrol", "uhold", "2") in commands) is holds


def test_large_clusters_have_fewer_reservations_and_are_told_so():
    scheduler = Scheduler({}, Limits())
    assert scheduler.backfill(64).depth == 500
    assert scheduler.backfill(5000).depth == 20
    assert "reservations for 20 jobs, not 500 (bf_max_job_test)" in scheduler.described(5000)


def test_a_given_policy_takes_the_place_of_slurms(tmp_path):
    """By value the small job starts that delays the gang; a wrong field is named with its file."""
    jobs = [
        busy(1, "h0", time_limit=60),
        job(2, node_count=2, time_limit=60, priority=90, **NODE),
        job(3, time_limit=1440, priority=50, **NODE),
    ]
    made = convert(tmp_path, jobs, [node("h0"), node("h1")])
    assert decided(made)[0]["3"].decision is DecisionKind.WAIT
    file = tmp_path / "policy.yaml"
    file.write_text("{backfill: null}")
    by_value = GivenPolicy(file).of(made)
    assert decided(by_value)[0]["3"].decision is DecisionKind.START
    assert by_value.book.lines()[-1] == f"policy: backfill as in {file}"
    file.write_text("{backfil: null}")
    with pytest.raises(InvalidInputError, match=r"policy\.yaml: backfil: .* did you mean backfill"):
        GivenPolicy(file)


def test_the_head_of_the_queue_starts_whatever_is_worth_more(tmp_path):
    jobs = [
        job(1, priority=2029, **NODE),
        job(2, priority=11014, time_limit=60, tres_per_node="gpu:2"),
    ]
    found, _ = decided(convert(tmp_path, jobs, [node("h0")]))
    assert found["2"].decision is DecisionKind.START
    assert found["1"].reason == "reserved"
