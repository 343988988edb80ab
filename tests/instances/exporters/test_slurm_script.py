"""Plans as commands of scontrol: what is quoted, what is refused, and in which order."""

from __future__ import annotations

import shlex
import subprocess

import pytest

from placewright.instances.documents.plan import Decision, DecisionKind, Plan, Reason, Task
from placewright.instances.exporters.slurm import State, slurm_script, slurm_steps
from placewright.instances.io.files import parse_round

EIGHT = tuple(range(8))
HOST = {"gpus": 8, "gpu_model": "H100"}
PLACE = "ReqNodeList=h0,h2"
PLACED = "AdminComment=placewright: placed on h0,h2"


def round_of(*jobs, hosts=("h0", "h1", "h2")):
    return parse_round(
        {
            "apiVersion": "placewright/v1alpha2",
            "kind": "Round",
            "cluster": {
                "hosts": [{"name": name, "gpus": 8, "gpu_model": "H100"} for name in hosts]
            },
            "jobs": list(jobs),
        }
    )


def job(name, count=1, gpu=8, on=()):
    tasks = [{"index": i, "host": host, "gpus": list(EIGHT)} for i, host in enumerate(on)]
    raw = {"name": name, "options": [{"groups": [{"count": count, "gpu": gpu}]}]}
    return {**raw, "running": {"tasks": tasks}} if on else raw


def start(name, *hosts, kind=DecisionKind.START):
    tasks = tuple(Task(index=i, host=host, gpus=EIGHT) for i, host in enumerate(hosts))
    return Decision(job=name, decision=kind, option=0, tasks=tasks)


def words_of(step, *, held=True):
    return [" ".join(c.words[1:]) for c in step.commands if c.held in (None, held)]


def test_a_start_names_its_hosts_and_their_number():
    made = slurm_steps(round_of(job("17", 2)), Plan(decisions=(start("17", "h2", "h0"),)))
    (step,) = made.steps
    assert step.state is State.PENDING
    assert words_of(step) == [
        f"update jobid=17 {PLACE} AdminComment=placewright: held, starts on h0,h2",
        "release 17",
        "update jobid=17 AdminComment=placewright: released to h0,h2",
    ]
    assert words_of(step, held=False) == [
        f"update jobid=17 {PLACE} AdminComment=placewright: placed on h0,h2"
    ]
    assert made.unsaid == {"which GPUs of a host": ["17"]}


def test_a_range_of_nodes_and_named_nodes_are_kept_and_given_back():
    asked = "NumNodes=2-4 ReqNodeList=h[1,3]"
    ours = {"slurm/asked": asked, "slurm/ours": "NumNodes,ReqNodeList"}
    round_ = round_of({**job("17", 2), "annotations": ours}, {**job("18"), "annotations": ours})
    waits = Decision(job="18", decision=DecisionKind.WAIT, reason=Reason.CAPACITY)
    start_, wait = slurm_steps(round_, Plan(decisions=(start("17", "h2", "h0"), waits))).steps
    assert words_of(start_, held=False) == [
        f"update jobid=17 NumNodes=2-2 {PLACE} {PLACED} (asked {asked})"
    ]
    assert words_of(wait, held=False)[0].startswith(f"update jobid=18 {asked} AdminComment=")


@pytest.mark.parametrize("asked", ["NumNodes=2-4;reboot", "ReqNodeList=$(x)", "Nice=3", "x"])
def test_a_job_of_which_the_request_could_not_be_given_back_is_left_out(asked):
    round_ = round_of({**job("17"), "annotations": {"slurm/asked": asked}})
    made = slurm_steps(round_, Plan(decisions=(start("17", "h0"),)))
    assert made.steps == []
    assert ["17"] in made.unsaid.values()


def test_tasks_that_are_divided_among_hosts_are_counted():
    decision = start("17", "h0", "h0", "h1")
    made = slurm_steps(round_of(job("17", 3, 1)), Plan(decisions=(decision,)))
    assert made.unsaid["how many tasks a host has"] == ["17"]


def test_moves_come_before_starts_and_spares_stop_first():
    round_ = round_of(
        job("1", on=["h0"]), job("2", on=["h1"]), job("3", on=["h2"]), job("4"), job("5")
    )
    plan = Plan(
        decisions=(
            start("5", "h0"),
            start("1", "h2", kind=DecisionKind.MIGRATE),
            start("2", "h0", kind=DecisionKind.MIGRATE),
            Decision(job="3", decision=DecisionKind.PREEMPT, displaced_by=("5",)),
            Decision(job="4", decision=DecisionKind.WAIT, reason=Reason.CAPACITY),
        ),
        sections=({"kind": "moves", "steps": ["3", "1"], "needs_spare": ["2"]},),
    )
    made = slurm_steps(round_, plan)
    tried = [step.does for step in made.steps if not step.commands]
    assert tried == ["try: preempt 3 for 5", "try: stop 1, which moves", "try: start 5 on h0"]
    made.steps = made.steps[len(tried) :]
    assert [step.does for step in made.steps] == [
        "preempt 3 for 5",
        "stop 2, which moves",
        "stop 1, which moves",
        "start 1 again on h2",
        "start 2 again on h0",
        "start 5 on h0",
        "say why 4 waits",
    ]
    preempt, stop, _, restart, *_ = made.steps
    assert preempt.state is State.RUNNING
    assert preempt.hosts == ("h2",)
    assert words_of(preempt)[-1] == "requeue 3"
    assert words_of(stop)[-1] == "requeuehold 2"
    assert restart.state is State.STOPPED
    assert "StartTime=now" in words_of(restart)[0]


def test_a_job_held_by_others_gets_no_step_and_a_move_between_gpus_none():
    round_ = round_of(job("1", on=["h0"]), {**job("2"), "held": True})
    plan = Plan(
        decisions=(
            start("1", "h0", kind=DecisionKind.MIGRATE),
            Decision(job="2", decision=DecisionKind.WAIT, reason=Reason.HELD),
        ),
        sections=({"kind": "moves", "steps": ["1"], "needs_spare": []},),
    )
    made = slurm_steps(round_, plan)
    assert made.steps == []
    assert "moves between GPUs of the same hosts" in made.unsaid


def resized(gpus, *hosts):
    """Job 1 of 8 GPUs on each of h0 and h1 goes on with `gpus` on these, job 2 starts on h1."""
    sizes = [{"groups": [{"count": n, "gpu": g}]} for n, g in ((2, 8), (len(hosts), gpus))]
    round_ = round_of({**job("1", on=["h0", "h1"]), "options": sizes}, job("2"))
    tasks = tuple(Task(index=i, host=host, gpus=tuple(range(gpus))) for i, host in enumerate(hosts))
    shrinks = Decision(job="1", decision=DecisionKind.RESIZE, option=1, tasks=tasks)
    plan = Plan(
        decisions=(shrinks, start("2", "h1")),
        sections=({"kind": "moves", "steps": ["1"], "needs_spare": []},),
    )
    return slurm_steps(round_, plan)


def test_a_job_that_gives_whole_hosts_back_keeps_the_others_before_who_needs_them_starts():
    tried, also, shrink, start_ = resized(8, "h0").steps
    assert tried.commands == also.commands == ()
    assert (shrink.state, shrink.hosts) == (State.RUNNING, ("h0", "h1"))
    assert words_of(shrink) == ["update jobid=1 NodeList=h0"]
    assert shrink.job in start_.needs


@pytest.mark.parametrize(("gpus", "hosts"), [(4, ["h0", "h2"]), (4, ["h0"]), (8, ["h2"])])
def test_another_change_of_size_is_told_and_who_needs_its_room_waits(gpus, hosts):
    made = resized(gpus, *hosts)
    assert made.steps == []
    assert made.unsaid["running jobs that change their size, but for whole hosts"] == ["1"]


def test_hosts_that_a_move_frees_are_kept_for_the_job_that_gets_them():
    known = {"annotations": {"slurm/user": "ann", "slurm/job": "8", "slurm/ours": "ReqNodeList"}}
    round_ = round_of({**job("1", on=["h0"]), **known}, {**job("2"), **known}, job("3"))
    plan = Plan(
        decisions=(
            Decision(job="1", decision=DecisionKind.PREEMPT, displaced_by=("2",)),
            start("2", "h0"),
            start("3", "h1"),
        ),
        sections=({"kind": "moves", "steps": ["1"], "needs_spare": []},),
    )
    _, _, reserve, preempt, first, second, end, delete = slurm_steps(round_, plan).steps
    assert reserve.state is State.UNRESERVED
    (words,) = words_of(reserve)
    assert words.startswith("create reservation reservationname=placewright_0 starttime=now ")
    assert words.endswith(" flags=flex,ignore_jobs users=ann nodes=h0")
    assert words_of(preempt)[-1] == "update jobid=8 ReqNodeList="
    assert "ReservationName=placewright_0" in words_of(first)[0]
    assert "ReservationName" not in words_of(second)[0]
    assert words_of(end) == ["update jobid=8 ReservationName="]
    assert words_of(delete) == ["delete reservationname=placewright_0"]


@pytest.mark.parametrize("user", ["-a,b", r"CORP\alice", "a b"])
def test_a_user_that_no_reservation_can_have_is_as_one_that_is_not_known(user):
    odd, known = ({"annotations": {"slurm/user": name}} for name in (user, "ann"))
    round_ = round_of(
        *({**job(str(i), on=[f"h{i}"]), **known} for i in range(2)),
        *({**job(str(i + 8)), **more} for i, more in enumerate((odd, known))),
    )
    plan = Plan(
        decisions=(
            *(Decision(job=str(i), decision=DecisionKind.PREEMPT) for i in range(2)),
            *(start(str(i + 8), f"h{i}") for i in range(2)),
        )
    )
    made = slurm_steps(round_, plan)
    assert [one.does for one in made.steps if one.state is State.UNRESERVED] == ["keep h1 for 9"]
    assert [one.does for one in made.steps if one.state is State.PENDING and one.commands] == [
        "start 8 on h0",
        "start 9 on h1",
    ]
    assert made.unsaid["users with names that no reservation can have: as if not known"] == ["8"]
    assert user not in slurm_script(round_, plan).text


@pytest.mark.parametrize("number", ["17;reboot", "$(reboot)", "-17", "17 18", ""])
def test_an_annotation_that_is_no_number_of_a_job_leaves_this_job_out(number):
    hostile = {"annotations": {"slurm/job": number}}
    round_ = round_of({**job("17"), **hostile}, job("18"))
    made = slurm_steps(round_, Plan(decisions=(start("17", "h0"), start("18", "h1"))))
    assert [step.job for step in made.steps] == ["18"]
    assert ["17"] in made.unsaid.values()


def test_a_job_released_from_our_hold_is_held_again_when_it_waits_or_is_preempted():
    ours = {"annotations": {"slurm/ours": "Hold,ReqNodeList"}}
    round_ = round_of({**job("1", on=["h0"]), **ours}, {**job("2"), **ours}, job("3"))
    plan = Plan(
        decisions=(
            Decision(job="1", decision=DecisionKind.PREEMPT, displaced_by=("3",)),
            Decision(job="2", decision=DecisionKind.WAIT),
            start("3", "h1"),
        ),
        sections=({"kind": "moves", "steps": ["1"], "needs_spare": []},),
    )
    preempt, _, wait = (step for step in slurm_steps(round_, plan).steps if step.commands)
    assert words_of(preempt) == [
        "update jobid=1 AdminComment=placewright: held, preempted for 3",
        "requeuehold 1",
        "update jobid=1 ReqNodeList=",
    ]
    assert words_of(wait, held=False) == [
        "update jobid=2 ReqNodeList= AdminComment=placewright: held, waits",
        "uhold 2",
    ]


def test_tasks_of_arrays_that_wait_are_counted_and_not_split_off():
    waits = Decision(job="17_4", decision=DecisionKind.WAIT, reason=Reason.CAPACITY)
    made = slurm_steps(round_of(job("17_4")), Plan(decisions=(waits,)))
    assert made.steps == []
    assert made.unsaid == {"why tasks of an array wait": ["17_4"]}


@pytest.mark.parametrize("name", ["-1", "train", "17_", "1+2", "1=2"])
def test_a_job_without_a_number_is_left_out_and_counted(name):
    plan = Plan(decisions=(start("17", "h0"), start(name, "h1")))
    made = slurm_script(round_of(job("17"), job(name)), plan)
    assert made.steps == 1
    assert any(line.startswith("jobs without a number") for line in made.unsaid)


@pytest.mark.parametrize("host", ["-h", "a=b", "a/b", "a|b", "a:b", "a+b", "@", "..", ".h"])
def test_jobs_of_a_host_that_slurm_cannot_have_are_left_out_and_counted(host):
    round_ = round_of(job("17"), job("18"), hosts=(host, "h1"))
    made = slurm_script(round_, Plan(decisions=(start("17", host), start("18", "h1"))))
    assert made.steps == 1
    assert "jobs on hosts with names that Slurm cannot have: 1 job" in made.unsaid


def test_reasons_with_quotes_reach_no_shell_unquoted(tmp_path):
    """The text of a reason has the tenant's name; here the worst that a message could have."""
    hostile = "'; touch pwned; $(touch pwned) `touch pwned` \x1b[2J\nreboot"
    plan = Plan(
        decisions=(
            Decision.model_validate(
                {
                    "job": "17",
                    "decision": "wait",
                    "reason": "invalid",
                    "detail": {"message": hostile},
                }
            ),
        )
    )
    text = slurm_script(round_of(job("17")), plan).text
    assert "\x1b" not in text
    (line,) = [line for line in text.splitlines() if "placewright: waits" in line]
    assert any("touch pwned; $(touch" in word for word in shlex.split(line))
    fake = tmp_path / "squeue"
    fake.write_text("#!/bin/sh\necho 'PENDING|Resources'\n")
    said = tmp_path / "scontrol"
    said.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" >> {tmp_path}/said\n')
    fake.chmod(0o755)
    said.chmod(0o755)
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    subprocess.run(["sh"], input=text, text=True, env=environment, cwd=tmp_path, check=True)
    assert not (tmp_path / "pwned").exists()
    assert "touch pwned" in (tmp_path / "said").read_text()


def test_the_script_of_a_plan_without_steps_is_a_script():
    text = slurm_script(round_of(), Plan(decisions=())).text
    assert subprocess.run(["sh", "-n"], input=text, text=True, check=True).returncode == 0
