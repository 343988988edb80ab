"""From a running Slurm to a plan and back: what runs afterwards is what was planned."""

from __future__ import annotations

import pytest

from benchmarks.slurm_lab import Lab, Size
from benchmarks.slurm_trip import apply, differences, read, trip
from placewright import solve_round
from placewright.instances.derived.slurm_marks import HELD, PLACED, STARTS
from placewright.instances.documents.plan import DecisionKind
from placewright.instances.exporters.needs import obeying
from placewright.instances.exporters.slurm import slurm_script

pytestmark = pytest.mark.slurm


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    with Lab(tmp_path_factory.mktemp("large")) as lab:
        yield lab


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    with Lab(tmp_path_factory.mktemp("small"), Size(hosts=4, per_leaf=2, per_spine=2)) as lab:
        yield lab


@pytest.fixture
def empty(small):
    """A cluster of four hosts on which nothing runs."""
    small.cancel_all()
    return small


def submit(lab, hosts, gpus, *options, mark=True):
    """Submit a job that Placewright holds, or its user."""
    words = (f"--nodes={hosts}", "--ntasks-per-node=1", f"--gpus-per-node={gpus}", "--time=60")
    number = lab.submit(*words, *options, "--hold")
    if mark:
        lab.run("scontrol", "update", f"jobid={number}", f"AdminComment={HELD}")
    return number


def run_on(lab, hosts, gpus):
    """Submit a job that Placewright sent to these hosts, at once."""
    words = (f"--gpus-per-node={gpus}", "--ntasks-per-node=1", "--time=60", "--hold")
    number = lab.submit(f"--nodes={len(hosts)}", *words)
    names = ",".join(hosts)
    fields = (f"ReqNodeList={names}", f"AdminComment={PLACED}{names}")
    lab.run("scontrol", "update", f"jobid={number}", *fields)
    lab.run("scontrol", "release", str(number))
    return number


def comment(lab, number):
    return lab.run("squeue", "-h", "-j", str(number), "-O", "admin_comment:200").strip()


def decision(plan, number):
    return next(d for d in plan.decisions if d.job == str(number))


@pytest.mark.nightly
@pytest.mark.parametrize(("seed", "load"), [(1, 0.5), (2, 0.8)])
def test_every_started_job_runs_exactly_where_planned(large, seed, load):
    made = trip(large, seed, load)
    assert made.started > 5
    assert made.wrong == ()


def test_jobs_that_wait_are_told_why_and_holds_of_users_stay(empty):
    first, second = submit(empty, 3, 8), submit(empty, 3, 8)
    users = submit(empty, 1, 8, mark=False)
    plan = solve_round(round_ := read(empty))
    after = apply(empty, round_, plan)
    assert not differences(plan, after)
    started, waits = (first, second) if after[first].state == "RUNNING" else (second, first)
    assert comment(empty, started).startswith("placewright: released to gpu0")
    assert comment(empty, waits).startswith("placewright: held, waits: ")
    assert comment(empty, users) == "(null)"
    assert after[users].reason == "JobHeldUser"
    shown = empty.run("scontrol", "show", "job", str(waits))
    assert "AdminComment=placewright: held, waits: " in shown


@pytest.mark.nightly
def test_the_components_of_a_heterogeneous_job_start_together_or_wait(empty):
    options = ("--nodes=1", "--gpus-per-node=8", "--time=60", "--hold")
    number = empty.submit(*options, ":", "--nodes=2", "--gpus-per-node=4", "--time=60", "--hold")
    for part in (number, number + 1):
        empty.run("scontrol", "update", f"jobid={part}", f"AdminComment={HELD}")
    blocks = run_on(empty, ["gpu00", "gpu01"], 8)
    empty.settle(jobs=[blocks])
    plan = solve_round(round_ := read(empty))
    assert decision(plan, number).decision is DecisionKind.WAIT
    after = apply(empty, round_, plan)
    assert {after[one].state for one in (number, number + 1)} == {"PENDING"}
    empty.run("scancel", str(blocks))
    empty.settle()
    plan = solve_round(round_ := read(empty))
    assert decision(plan, number).decision is DecisionKind.START
    empty.run("sh", text=slurm_script(round_, plan).text)
    after = empty.settle(jobs=[number, number + 1])
    assert {after[one].state for one in (number, number + 1)} == {"RUNNING"}


@pytest.mark.nightly
def test_a_job_whose_rules_are_not_obeyed_goes_back_to_slurm(empty):
    number = submit(empty, 1, 8, "--contiguous")
    plan = solve_round(round_ := read(empty))
    assert decision(plan, number).decision is DecisionKind.START
    after = apply(empty, round_, obeying(round_, plan).plan)
    assert after[number].state == "RUNNING"
    assert comment(empty, number).startswith("placewright: waits: as far as the round knows: --con")


@pytest.mark.nightly
def test_an_administrators_hold_stays_though_the_plan_starts_the_job(empty):
    number = submit(empty, 1, 8)
    plan = solve_round(round_ := read(empty))
    assert decision(plan, number).decision is DecisionKind.START
    empty.run("scontrol", "hold", str(number))
    empty.run("sh", text=slurm_script(round_, plan).text)
    assert empty.jobs()[number].reason == "JobHeldAdmin"
    assert read(empty).jobs[0].held


@pytest.mark.nightly
def test_a_second_run_of_the_script_changes_nothing(empty):
    number = submit(empty, 2, 8)
    plan = solve_round(round_ := read(empty))
    before = apply(empty, round_, plan)
    assert before[number].state == "RUNNING"
    assert apply(empty, round_, plan) == before


@pytest.mark.nightly
def test_nothing_comes_to_a_drained_host(empty):
    empty.run("scontrol", "update", "nodename=gpu01", "state=drain", "reason=test")
    try:
        gang, large = submit(empty, 3, 8), submit(empty, 4, 8)
        plan = solve_round(round_ := read(empty))
        after = apply(empty, round_, plan)
        assert after[gang].hosts == ("gpu00", "gpu02", "gpu03")
        assert not differences(plan, after)
        assert "held, waits: until nodes are back" in comment(empty, large)
    finally:
        empty.run("scontrol", "update", "nodename=gpu01", "state=resume")


@pytest.mark.nightly
def test_a_running_job_moves_where_the_plan_sends_it(empty):
    halves = [run_on(empty, [f"gpu0{i}"], 4) for i in range(4)]
    empty.settle(jobs=halves)
    whole = submit(empty, 1, 8)
    plan = solve_round(round_ := read(empty, movable=True))
    moved = [d for d in plan.decisions if d.decision is DecisionKind.MIGRATE]
    assert [d.job for d in moved] == [d.job for d in moved if int(d.job) in halves] != []
    after = apply(empty, round_, plan)
    assert after[whole].state == "RUNNING"
    assert not differences(plan, after)
    assert not any(job.held for job in read(empty).jobs)


@pytest.mark.nightly
def test_jobs_that_swap_places_both_stop_first(empty):
    """A plan made by hand: one job of two hosts and one of another leaf change places."""
    first, second = run_on(empty, ["gpu00", "gpu01"], 8), run_on(empty, ["gpu02", "gpu03"], 8)
    empty.settle(jobs=[first, second])
    round_ = read(empty, movable=True)
    plan = solve_round(round_)
    kept = {int(d.job): d for d in plan.decisions}
    assert all(d.decision is DecisionKind.KEEP for d in kept.values())
    swapped = plan.model_copy(
        update={
            "decisions": tuple(
                kept[a].model_copy(
                    update={"decision": DecisionKind.MIGRATE, "tasks": kept[b].tasks}
                )
                for a, b in ((first, second), (second, first))
            ),
            "sections": ({"kind": "moves", "steps": [], "needs_spare": [str(first), str(second)]},),
        }
    )
    after = apply(empty, round_, swapped)
    assert not differences(swapped, after)
    assert after[first].hosts == ("gpu02", "gpu03")


def test_a_job_is_preempted_for_one_of_higher_priority(empty):
    low = [run_on(empty, [f"gpu0{i}"], 5) for i in range(4)]
    empty.settle(jobs=low)
    high = submit(empty, 2, 8)
    round_ = read(empty, movable=True)
    jobs = [
        job.model_copy(update={"priority": int(job.name == str(high)), "preempts": None})
        for job in round_.jobs
    ]
    round_ = round_.model_copy(update={"jobs": tuple(jobs)})
    plan = solve_round(round_)
    preempted = [int(d.job) for d in plan.decisions if d.decision is DecisionKind.PREEMPT]
    assert len(preempted) == 2
    after = apply(empty, round_, plan)
    assert after[high].state == "RUNNING"
    assert not differences(plan, after)
    assert all(after[number].state == "PENDING" for number in preempted)
    assert comment(empty, preempted[0]) == f"placewright: preempted for {high}"
    assert "No reservations" in empty.run("scontrol", "show", "reservation")
    assert "Reservation=" not in empty.run("scontrol", "show", "job", str(high))


@pytest.mark.nightly
def test_a_job_that_was_released_and_has_not_started_is_held_again(empty):
    """Hosts that something else took meanwhile: a new plan lets the job wait, and Slurm too."""
    number = submit(empty, 4, 8)
    plan = solve_round(round_ := read(empty))
    other = run_on(empty, ["gpu00"], 8)
    empty.settle(jobs=[other])
    empty.run("sh", text=slurm_script(round_, plan).text)
    sent = empty.settle()[number]  # Slurm says the old reason until it looks at the job again
    assert (sent.state, sent.reason == "JobHeldUser") == ("PENDING", False)
    apply(empty, round_ := read(empty), solve_round(round_))
    assert comment(empty, number).startswith("placewright: held, waits: ")
    assert empty.jobs()[number].reason == "JobHeldUser"
    empty.cancel(other)
    after = apply(empty, round_ := read(empty), solve_round(round_))
    assert after[number].state == "RUNNING"


@pytest.mark.nightly
def test_hosts_of_a_plan_that_came_to_nothing_bind_nobody(empty):
    """A job with hosts and a reservation of ours, as a script that was killed leaves it."""
    number = submit(empty, 4, 8)
    empty.settle(jobs=[run_on(empty, ["gpu00"], 1)])
    fields = ("reservationname=placewright_1", "starttime=now", "duration=5", "users=root")
    empty.run(
        *("scontrol", "create", "reservation", *fields, "nodes=gpu00", "flags=flex,ignore_jobs")
    )
    mark = f"AdminComment={STARTS}gpu00"
    fields = ("NumNodes=4-4", "ReqNodeList=gpu00", "ReservationName=placewright_1", mark)
    empty.run("scontrol", "update", f"jobid={number}", *fields)
    round_ = read(empty)
    job = next(job for job in round_.jobs if job.name == str(number))
    assert not job.held
    assert job.options[0].groups[0].hosts is None
    assert job.annotations["slurm/ours"] == "ReqNodeList,ReservationName"
    apply(empty, round_, solve_round(round_))
    shown = empty.run("scontrol", "show", "job", str(number))
    assert "ReqNodeList=(null)" in shown
    assert "Reservation=" not in shown
    assert "AdminComment=placewright: held, waits: " in shown
    empty.run("scontrol", "delete", "reservationname=placewright_1")
