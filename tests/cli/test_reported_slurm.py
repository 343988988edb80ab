"""Reports of people who run Slurm: each on its dump, with the answer that is right.

Some dumps were kept apart: those cases are made here of others, or by hand. What a running Slurm
has to show is in `test_slurm_forms.py`, `test_slurm_limits.py` and `test_slurm_watch.py`.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from placewright import load_round, solve_round
from placewright.instances.converters import LiveConversion, read_slurm
from placewright.instances.derived.doubts import doubts_of
from placewright.instances.exporters.slurm import slurm_script
from placewright.report.page import render_report
from tests.support import slurm_dumps
from tests.support.reported import (
    REPORTED,
    Case,
    check,
    explained,
    needs_reports,
    parametrised,
)
from tests.support.slurm_dumps import job, node, running

DATA = Path(__file__).parents[1] / "data" / "slurm"


def by_number(found: list[Any]) -> dict[int, Any]:
    return {one["job_id"]: one for one in found}


def released(found: list[Any]) -> list[Any]:
    """Nobody holds the jobs."""
    for one in found:
        one |= {"state_reason": "Resources", "priority": 2014, "hold": False}
    return found


def of_mig(found: list[Any]) -> list[Any]:
    """A job asks for one of two types of slices of a node."""
    one = released(found)[-1]
    one |= {"partition": "mig", "tres_per_node": "gres:gpu:3g.40gb:1", "memory_per_node": 1000}
    one |= {"tres_req_str": "cpu=1,mem=1000M,node=1,billing=1,gres/gpu=1", "memory_per_cpu": None}
    return [one]


NEVER = "can never run"
NOW = "could start now"
NO = "cannot start now"
SO_FAR = "as far as the round knows"
SHARES = "how its CPUs and memory divide among its nodes, which Slurm decides: shares are a guess"
LABS = "held-lies/dump"
WITH_PARTITIONS = f"{LABS}+held-lies/partition-qos-dump/partitions.txt"
FREE = "gpus-many-nodes/dump", released

FAULTS = [
    # The order of the queue, and backfill.
    Case(LABS, "convert", ("policy: queue by Slurm's priority; backfill with reservations for 500",
                           "preempt/qos, REQUEUE")),
    Case(LABS, "plan", ("36 start",), ("27 ", "38 start", "45 start", "29 start")),
    Case("backfill/dump", "113?", ("would delay the reservation of job 112, from 1h59 to 2h59",
                                   "shorten --time to at most 1h59"), (NOW,)),
    Case("backfill/dump", "plan", ("112 wait", "113 wait"), (" start",)),
    Case("backfill/dump", "112?", (NO, "wait 1h59 until job 111 has ended"), ("host set",)),
    # Sizes.
    *(
        Case(FREE, number, (NOW, SHARES, f"{tasks} x 1 GPU"), (NEVER,))
        for number, tasks in (("56", 16), ("57", 16), ("58", 12), ("59", 16), ("60", 10),
                              ("61", 4), ("62", 3), ("67", 4), ("68", 8))
    ),
    Case(FREE, "63", (NOW, "12 x 2 GPUs"), (NEVER,)),
    Case(FREE, "69", (NOW, "a100: none, another GPU model"), (NEVER,)),
    Case("gpus-n2/gg", "176?", (NO, "exactly 2 nodes", "on h100 only"), (NOW,)),
    Case("gpus-n2/gg", "export", ("176",), ("NumNodes=6",)),
    Case("nodes-overwritten/nn", "plan", ("253 start gpu00 gpu01", "254 start gpu")),
    Case("nodes-overwritten/nn", "export", ("ReqNodeList=gpu00,gpu01",), ("NumNodes=",)),
    Case(LABS, "12", ("2 x 8 GPUs, or 2 other options",)),
    Case("shards/dump", "135", (NO, "job 132 runs (0.75 GPUs"), (NOW,)),
    Case("shards/dump", "136", ("asks for more shards than a GPU has",)),
    Case(("gpus-many-nodes/dump", of_mig), "69", (NOW, "2 nodes of 9 x 1g.10gb+3g.40gb  2 now"),
         ("no node has",)),
    Case(LABS, "22?", (), ("1g.10gb:", "host set")),
    # What a hold hides.
    Case(LABS, "38", (f"{SO_FAR}, {NOW}", "limits of its partition, which its hold hides")),
    Case(WITH_PARTITIONS, "38", (NEVER, "QOS part_debug for user root allows 4 GPUs")),
    Case(WITH_PARTITIONS, "45", ("partition interactive allows 480 minutes (MaxTime)",)),
    Case(LABS, "27", ("waits for another job (dependency): afterok:1(failed)", "What helps")),
    Case(LABS, "29", (NO, "no earlier than at 2026-11-29 00:31:38 UTC")),
    Case("held-lies/partition-qos-dump", "plan", ("166 start", "167 wait")),
    # Heterogeneous jobs.
    Case("het/dump", "plan", ("50 start a0",)),
    Case("het/dump", "export", ("scontrol release 50", "where heterogeneous jobs start")),
    Case("het/dump", "51", ("job 50 (8 GPUs (component-0) and 2 x 4 GPUs (component-1)",)),
    # Words, and jobs that are left out.
    Case(LABS, "14", ("14 is 2 jobs: 14_0 and 14_1", "held by the limit of its array, %2")),
    Case(LABS, "14_3", ("held by the limit of its array, %2", "arraytaskthrottle=N")),
    Case(LABS, "24", ("job 23 (8 GPUs (component-0)",)),
    Case(LABS, "48", ("has a constraint on features that is not read",)),
    Case(LABS, "44", ("asks for no GPU",)),
    Case(LABS, "28?", ("Try first: release it: scontrol release 28",), ("resume",)),
    Case(LABS, "42?", ("on gpu07 only", "ask for no nodes by name (-w)"), ("a03", "l00")),
]  # fmt: skip

THREADS = [
    Case(LABS, "4?", ("node gpu00 is soon in maintenance", "shorten --time to at most 5h56")),
    Case(LABS, "42", ("cannot run until nodes are back", "node gpu07 is unhealthy")),
    Case(LABS, "32?", (NO, "job 9 runs", "wait 2h55 until job 9 has ended"), ("unhealthy",)),
    Case(FREE, "58", (NOW, "12 x 1 GPU"), (NEVER,)),
    Case("backfill/dump", "113", ("would delay the reservation of job 112",), (NOW,)),
    Case(LABS, "26", (NO, "4 of licence matlab", "job 25 runs")),
    Case("gpus-n2/gg", "convert", ("jobs: 9 of 9 in the round",)),
]  # fmt: skip


def read(case: Case, folder: Path) -> LiveConversion:
    name, edit = (case.dump, None) if isinstance(case.dump, str) else case.dump
    sources = [REPORTED / "slurm" / one for one in name.split("+")]
    if edit is not None:
        shutil.copytree(sources[0], folder, dirs_exist_ok=True)
        jobs = json.loads((sources[0] / "jobs.json").read_text())
        (folder / "jobs.json").write_text(json.dumps({"jobs": list(edit(jobs["jobs"]))}))
        sources = [folder]
    return read_slurm(sources, movable=case.movable)


@needs_reports
@pytest.mark.nightly(after=4)
@parametrised(FAULTS)
def test_faults_that_were_reported(case, tmp_path):
    check(case, read(case, tmp_path), slurm_script)


@needs_reports
@pytest.mark.nightly(after=2)
@parametrised(THREADS)
def test_public_threads(case, tmp_path):
    check(case, read(case, tmp_path), slurm_script)


@needs_reports
def test_a_round_with_a_host_without_gpus_is_explained_and_shown():
    """A job that names a GPU model made corrections and the page end in an internal error."""
    round_ = load_round(REPORTED / "slurm" / "report-crash" / "round.yaml")
    assert "wait until job runs has ended" in explained(round_, "waits", 6)
    page = render_report(round_, solve_round(round_, isolation="none"), time_limit=20.0)
    assert "wait until job runs has ended" in page


@needs_reports
@pytest.mark.parametrize("file", ["q1", "q2"])
def test_whom_a_qos_preempts_does_not_depend_on_who_else_waits(file):
    round_ = load_round(REPORTED / "slurm" / "qos-preempt" / f"{file}.json")
    decisions = {one.job: one.decision for one in solve_round(round_, isolation="none").decisions}
    assert decisions["160"] == "start"
    assert list(decisions.values()).count("preempt") == 1


@needs_reports
def test_victims_are_those_that_lose_least():
    round_ = load_round(REPORTED / "slurm" / "qos-preempt" / "q2.json")
    long = {"158": 10, "152": 40}
    jobs = [
        one.model_copy(
            update={
                "running": one.running.model_copy(
                    update={"started": round_.now - long.get(one.name, 172_800)}
                )
            }
        )
        if one.running
        else one
        for one in round_.jobs
    ]
    plan = solve_round(round_.model_copy(update={"jobs": tuple(jobs)}), isolation="none")
    assert [one.job for one in plan.decisions if one.decision == "preempt"] == ["158"]


@needs_reports
def test_a_job_whose_time_has_not_come_waits_though_placewright_released_it():
    round_ = load_round(REPORTED / "slurm" / "watch-begin-crash" / "round.json")
    (decision,) = solve_round(round_, isolation="none").decisions
    assert (decision.decision, decision.reason) == ("wait", "not_before")
    assert "scontrol update jobid=147 starttime=now" in explained(round_, "147", 6)


# Threads whose dumps were kept apart.


def said(folder: Path, name: str, *jobs: Any, nodes: Any = None, **texts: str) -> str:
    made = slurm_dumps.convert(folder, list(jobs), nodes, **texts)
    return explained(made.round, name, 6)


def test_cores_that_jobs_without_gpus_hold_are_named(tmp_path):
    eats = running(96, ("h0", 12, 0, ""), account="bio")
    found = said(tmp_path, "2", eats, job(2, tres_per_node="gpu:1", cpus=8), nodes=[node("h0")])
    assert NO in found
    assert "8 cores per task" in found
    assert "job 96 runs (12 cores" in found
    assert "ask 4 instead of 8 cores per task" in found
    assert "0 GPUs" not in found


def test_a_named_node_that_is_busy_is_not_gone_for_ever(tmp_path):
    busy = running(99, ("h1", 4, 0, "gpu:h100:8"), time_limit=60)
    named = job(2, tres_per_node="gpu:8", required_nodes="h1", state_reason="ReqNodeNotAvail")
    found = said(tmp_path, "2", busy, named)
    assert NO in found
    assert "job 99 runs" in found
    assert "until job 99 has ended" in found


RESERVED = """\
ReservationName=night StartTime=1970-01-01T00:00:10 EndTime=1970-01-02T00:00:00 Duration=1-00:00:00
   Nodes=h[0-1] NodeCnt=2 CoreCnt=32 Features=(null) PartitionName=(null) Flags=MAINT,SPEC_NODES
   Users=root Groups=(null) Accounts=(null) State=ACTIVE
"""


def test_nodes_in_maintenance_are_there_for_jobs_of_the_reservation(tmp_path, monkeypatch):
    monkeypatch.setenv("TZ", "UTC")
    nodes = [node(f"h{i}", state="idle", state_flags=["MAINTENANCE"]) for i in range(2)]
    inside = job(2, tres_per_node="gpu:8", resv_name="night", time_limit=60)
    outside = job(3, tres_per_node="gpu:8", time_limit=60)
    made = slurm_dumps.convert(tmp_path, [inside, outside], nodes, reservations=RESERVED)
    assert NOW in explained(made.round, "2")
    assert NOW not in explained(made.round, "3")


def test_two_moves_give_a_gang_its_nodes(tmp_path):
    small = [running(i, (f"h{i}", 1, 0, "gpu:h100:1"), time_limit=600) for i in range(8)]
    gang = job(20, tres_per_node="gpu:8", node_count=2, tres_req_str="node=2,gres/gpu=16")
    nodes = [node(f"h{i}") for i in range(8)]
    made = slurm_dumps.convert(tmp_path, [*small, gang], nodes, movable=True)
    plan = solve_round(made.round, isolation="none")
    kinds = [one.decision for one in plan.decisions]
    assert (kinds.count("migrate"), kinds.count("start"), kinds.count("preempt")) == (2, 1, 0)
    assert slurm_script(made.round, plan).text.count("scontrol requeuehold") >= 2


def test_nodes_without_a_gres_are_told(tmp_path):
    made = slurm_dumps.convert(tmp_path, [job(2, tres_per_node="gpu:1")], [node("h0", gres="")])
    told = "GPUs, as no node has any in its Gres: see gres.conf, GresTypes"
    assert any(told in line for line in made.book.lines())
    assert "h0" not in explained(made.round, "2")


def test_a_running_segment_that_lies_across_blocks_is_told(tmp_path):
    for one in (DATA / "block").iterdir():
        shutil.copy(one, tmp_path)
    (tmp_path / "topology.yaml").unlink()
    jobs = json.loads((tmp_path / "jobs.json").read_text())
    text = json.dumps(jobs["jobs"][0]).replace("g[54-58]", "g[52-56]")
    for old in range(54, 59):
        text = text.replace(f'"g{old}"', f'"g{old - 2}"')
    jobs["jobs"] = [json.loads(text) | {"segment_size": 5}]
    (tmp_path / "jobs.json").write_text(json.dumps(jobs))
    made = read_slurm([tmp_path])
    assert "that a segment of it runs in several blocks" in doubts_of(
        made.round, made.round.jobs[0]
    )


TIERS = """\
PartitionName=p Nodes=h0 PriorityTier=1 State=UP PreemptMode=REQUEUE
PartitionName=urgent Nodes=h0 PriorityTier=9 State=UP
"""


def test_a_partition_of_a_higher_tier_preempts(tmp_path):
    config = "Configuration data as of 2026-11-24T22:07:30\nPreemptType = preempt/partition_prio\n"
    low = running(1, ("h0", 1, 0, "gpu:h100:8"))
    high = job(2, tres_per_node="gpu:8", partition="urgent")
    nodes = [node("h0", partitions=["p", "urgent"])]
    made = slurm_dumps.convert(tmp_path, [low, high], nodes, partitions=TIERS, config=config)
    decisions = {one.job: one.decision for one in solve_round(made.round).decisions}
    assert decisions == {"1": "preempt", "2": "start"}
    assert "Slurm would preempt 1 to start it" in explained(made.round, "2")
