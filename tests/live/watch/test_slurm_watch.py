"""`watch slurm` on a real Slurm: nothing is lost or started twice, whatever is killed."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from benchmarks.slurm_arrivals import LOOK_S, play, starving
from benchmarks.slurm_lab import Lab, Size
from benchmarks.slurm_soak import LICENCES, Soak
from examples import examples
from placewright.instances.derived.slurm_marks import HELD
from placewright.instances.documents.plan import Plan
from placewright.instances.exporters.slurm import slurm_script
from placewright.instances.io.files import parse_round
from placewright.live.watch.loop import Follower, Pace, Record, watch
from placewright.live.watch.slurm import SlurmActor, SlurmSource, release_held

pytestmark = pytest.mark.slurm
BUSY_S = 6.0
"""By how much a machine that does much else may delay a look and what it starts."""

ROUNDS, RESTARTS, KILLS, DRAINS = examples(day=5, nightly=20), 1, 1, 2


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    with Lab(
        tmp_path_factory.mktemp("lab"), Size(hosts=8, per_leaf=4, per_spine=2), LICENCES
    ) as lab:
        yield lab


def test_jobs_run_once_while_slurmctld_restarts_and_the_watch_is_killed(lab, tmp_path):
    made = Soak(lab, tmp_path, seed=1).run(ROUNDS, RESTARTS, KILLS, DRAINS)
    assert made.wrong == []
    assert made.rounds >= ROUNDS
    assert (made.restarts, made.kills) == (RESTARTS, KILLS)
    assert made.jobs > 0


@pytest.mark.nightly
def test_a_running_job_gives_a_host_back(lab):
    number = lab.submit("-N3", "-n3", "--gres=gpu:8")
    hosts = lab.settle(jobs=[number])[number].hosts
    options = [{"groups": [{"count": n, "gpu": 8}]} for n in (3, 2)]

    def tasks(*at):
        return [{"index": i, "host": h, "gpus": list(range(8))} for i, h in enumerate(at)]

    job = {"name": str(number), "options": options, "running": {"tasks": tasks(*hosts)}}
    named = [{"name": name, "gpus": 8, "gpu_model": "H100"} for name in hosts]
    round_ = parse_round({"cluster": {"hosts": named}, "jobs": [job]})

    def shrunk_to(*kept):
        decision = {"job": str(number), "decision": "resize", "option": 1, "tasks": tasks(*kept)}
        plan = Plan.model_validate(
            {"apiVersion": "placewright/v1alpha2", "kind": "Plan", "decisions": [decision]}
        )
        lab.run("sh", text=slurm_script(round_, plan).text)
        return lab.jobs()[number].hosts

    with pytest.raises(RuntimeError, match="a command failed"):
        shrunk_to(*hosts[1:])  # without its batch host
    assert shrunk_to(hosts[0], hosts[2]) == (hosts[0], hosts[2])
    lab.cancel(number)


@pytest.mark.nightly
def test_a_gang_does_not_starve_behind_small_jobs_that_come_after_it(tmp_path, monkeypatch):
    """It waits for what runs as it comes, as under Slurm alone, and nobody overtakes it.

    Small jobs would keep it waiting for 16 s more.
    """
    monkeypatch.setattr("benchmarks.slurm_arrivals.LATEST_S", 200)
    stream = starving(hosts=4, first_s=6, step_s=2, later=4)
    with ThreadPoolExecutor(2) as pool:
        watched, alone = (
            pool.submit(play, tmp_path / name, stream, watched=name == "watch")
            for name in ("watch", "alone")
        )
    assert watched.result()["overtaken"] == 0
    wait = "longest wait of gangs, s"
    assert watched.result()[wait] <= alone.result()[wait] + LOOK_S + BUSY_S


class HeldAgainError(Exception):
    """Ends a watch."""


def follow(lab, folder, monkeypatch, at_start):
    """Follow a Slurm and act on it, with little patience, until a job waits; return what was told.

    `at_start` is called when a first plan starts something, and before it is carried out.
    """
    said = []

    def tell(line):
        if "1 start" in line and not any("1 start" in before for before in said):
            at_start()
        said.append(line)

    class Source(SlurmSource):
        def wait(self, seconds):
            if any("1 wait: 1 wait" in line for line in said) or len(said) > 50:
                raise HeldAgainError
            super().wait(seconds)

    for name, value in lab.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("placewright.live.watch.loop.PATIENCE_S", 6.0)
    with Follower(time_limit=5.0) as follower, pytest.raises(HeldAgainError):
        watch(
            Source(timeout_s=20, movable=False),
            follower,
            SlurmActor(timeout_s=20, applies=True, comments=False),
            Record(folder),
            Pace(every_s=2, max_age_s=60),
            tell,
        )
    return said


@pytest.mark.nightly
@pytest.mark.parametrize("trigger", ["--begin=now+1hour", "drain"])
def test_a_job_that_was_released_and_has_to_wait_is_held_again(lab, tmp_path, monkeypatch, trigger):
    lab.cancel_all()
    names = ",".join(lab.names)
    drains = trigger == "drain"
    options = (
        "--nodes=1",
        "--gpus-per-node=8",
        "--time=60",
        "--hold",
        *(() if drains else (trigger,)),
    )
    number = lab.submit(*options)
    lab.run("scontrol", "update", f"jobid={number}", f"AdminComment={HELD}, new")

    def drain():
        if drains:
            lab.run("scontrol", "update", f"nodename={names}", "state=drain", "reason=test")

    try:
        said = follow(lab, tmp_path, monkeypatch, drain)
    finally:
        if drains:
            lab.run("scontrol", "update", f"nodename={names}", "state=resume")
    assert not any("nothing was decided" in line for line in said), said
    plans = [line.rpartition(": ")[2] for line in said if line.startswith("slurm: ")]
    sent = ["1 start"] if drains else []  # a job that begins later is sent then
    assert list(dict.fromkeys(plans)) == [*sent, "1 wait"]
    shown = lab.run("squeue", "-h", "-j", str(number), "-O", "admin_comment:40")
    assert HELD in shown
    assert lab.jobs()[number].reason == "JobHeldUser"
    lab.cancel_all()


def test_only_jobs_that_placewright_holds_are_released(lab, monkeypatch):
    lab.cancel_all()
    for name, value in lab.environment.items():
        monkeypatch.setenv(name, value)
    options = ("--nodes=1", "--gpus-per-node=8", "--time=60", "--hold")
    ours, users = lab.submit(*options), lab.submit(*options)
    lab.run("scontrol", "update", f"jobid={ours}", f"AdminComment={HELD}, waits")
    assert release_held(timeout_s=20) == (1, [])
    jobs = lab.settle(jobs=(ours,))
    assert (jobs[ours].state, jobs[users].reason) == ("RUNNING", "JobHeldUser")
    read = SlurmSource(timeout_s=20, movable=False).read().round
    assert [(job.name, job.running is not None, job.held) for job in read.jobs] == [
        (str(ours), True, False),
        (str(users), False, True),
    ]
    lab.cancel_all()
