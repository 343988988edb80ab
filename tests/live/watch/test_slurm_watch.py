"""`watch slurm` on a real Slurm: nothing is lost or started twice, whatever is killed."""

from __future__ import annotations

import pytest

from benchmarks.slurm_lab import Lab, Size
from benchmarks.slurm_soak import Soak
from placewright.instances.derived.slurm_marks import HELD
from placewright.live.watch.slurm_actor import release_held
from placewright.live.watch.slurm_source import SlurmSource

pytestmark = pytest.mark.slurm
ROUNDS, RESTARTS, KILLS = 20, 1, 2


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    with Lab(tmp_path_factory.mktemp("lab"), Size(hosts=8, per_leaf=4, per_spine=2)) as lab:
        yield lab


def test_jobs_run_once_while_slurmctld_restarts_and_the_watch_is_killed(lab, tmp_path):
    made = Soak(lab, tmp_path, seed=1).run(ROUNDS, RESTARTS, KILLS)
    assert made.wrong == []
    assert made.rounds >= ROUNDS
    assert (made.restarts, made.kills) == (RESTARTS, KILLS)
    assert made.jobs > 0


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
