"""Slurm's job_submit plugin: GPU jobs are held with our mark while the heartbeat is fresh."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from benchmarks.slurm_lab import Lab, Size
from benchmarks.slurm_trip import apply, differences, read
from placewright import solve_round
from placewright.instances.derived.slurm_marks import HELD

pytestmark = pytest.mark.slurm

SCRIPT = (Path(__file__).parents[2] / "deploy" / "slurm" / "job_submit.lua").read_text()
PLACE = "/var/lib/placewright/heartbeat"


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    folder = tmp_path_factory.mktemp("submit")
    assert SCRIPT.count(PLACE) == 1
    (folder / "job_submit.lua").write_text(SCRIPT.replace(PLACE, str(folder / "heartbeat")))
    size = Size(hosts=2, per_leaf=2, per_spine=2)
    with Lab(folder, size, more="JobSubmitPlugins=lua") as made:
        yield made


@pytest.fixture
def beat(lab):
    def write(age_s):
        (lab.folder / "heartbeat").write_text(f"{int(time.time()) - age_s}\n")

    write(0)
    return write


def held(lab, *options):
    """Submit a job; return why it waits and its mark."""
    number = lab.submit("--time=10", *options)
    comment = lab.run("squeue", "-h", "-j", str(number), "-O", "admin_comment:100").strip()
    priority = lab.run("squeue", "-h", "-j", str(number), "-O", "prioritylong").strip()
    return priority == "0", comment


@pytest.mark.parametrize(
    "options",
    [
        ["--gpus-per-node=8", "--nodes=2"],
        ["--gpus=4"],
        ["--gpus-per-task=1", "--ntasks=2"],
        ["--gres=gpu:h100:2"],
    ],
)
def test_gpu_jobs_are_held_by_us(lab, beat, options):
    is_held, comment = held(lab, *options)
    assert is_held
    assert comment.startswith(HELD)


def test_jobs_without_gpus_are_not(lab, beat):
    assert held(lab, "--nodes=1") == (False, "(null)")


def test_a_users_own_hold_is_not_ours(lab, beat):
    assert held(lab, "--gpus=1", "--hold") == (True, "(null)")


def test_without_a_fresh_heartbeat_nobody_is_held(lab, beat):
    beat(age_s=3600)
    assert held(lab, "--gpus=1") == (False, "(null)")
    (lab.folder / "heartbeat").unlink()
    assert held(lab, "--gpus=1") == (False, "(null)")
    (lab.folder / "heartbeat").write_text("no number")
    assert held(lab, "--gpus=1") == (False, "(null)")


def test_a_held_job_may_be_changed_and_released(lab, beat):
    number = lab.submit("--gpus=1", "--time=10")
    lab.run("scontrol", "update", f"jobid={number}", "NumNodes=1-1", "ReqNodeList=gpu01")
    lab.run("scontrol", "release", str(number))
    assert lab.settle(jobs=[number])[number].hosts == ("gpu01",)


def test_a_plan_releases_what_is_held(lab, beat):
    lab.cancel_all()
    numbers = [lab.submit("--gpus-per-node=8", "--nodes=1", "--time=10") for _ in range(3)]
    plan = solve_round(round_ := read(lab))
    assert len(round_.jobs) == 3
    after = apply(lab, round_, plan)
    assert not differences(plan, after)
    assert sorted(after[number].state for number in numbers) == ["PENDING", "RUNNING", "RUNNING"]
