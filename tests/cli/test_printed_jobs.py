"""What `solve` prints of jobs, tenants and usage, and which jobs it is asked for."""

from __future__ import annotations

from pathlib import Path

import pytest

from placewright.cli.views.gang.tables import MAX_WAITING
from placewright.instances import verify as verification
from placewright.instances.documents.plan import Decision, DecisionKind, Plan, Reason, Task
from placewright.instances.documents.round import Round
from placewright.instances.io.files import load_plan, write
from tests.cli import regional

LIBRARY = Path(verification.__file__).parents[1] / "library"
HOSTS = [
    {"name": "a[0-2]", "gpus": 8, "gpu_model": "A100", "cpu": 64, "memory": "64Gi"},
    {"name": "t0", "gpus": 8, "gpu_model": "T4", "cpu": 64, "memory": "64Gi"},
    {"name": "t1", "gpus": 8, "gpu_model": "T4", "healthy": False},
]


def job(name: str, gpu: float, **fields: object) -> dict[str, object]:
    return {"name": name, "options": [{"groups": [{"gpu": gpu, "cpu": 2}]}], **fields}


def place(host: str, *gpus: int) -> dict[str, object]:
    return {"tasks": [{"host": host, "gpus": gpus}]}


ROUND = Round.model_validate(
    {
        "cluster": {"hosts": HOSTS},
        "tenants": [
            {"name": "red", "quota": {"gpu": 12, "cpu": 8, "memory": "4Gi"}},
            {"name": "blue"},
            {"name": "idle", "quota": {"gpu": 1}},
        ],
        "jobs": [
            job("stays", 4, tenant="red", running=place("a0", 0, 1, 2, 3)),
            job("goes", 2, tenant="blue", running=place("a1", 0, 1)),
            job("starts", 8, tenant="red"),
            job("first", 1, tenant="blue", priority=2),
            job("large", 8, priority=1),
            *(job(f"small-{i}", 0.5, tenant="blue") for i in range(MAX_WAITING)),
        ],
    }
)


def decided(name: str, kind: DecisionKind, host: str, *gpus: int) -> Decision:
    return Decision(job=name, decision=kind, option=0, tasks=(Task(host=host, gpus=gpus),))


PLAN = Plan(
    decisions=(
        decided("stays", DecisionKind.KEEP, "a0", 0, 1, 2, 3),
        decided("goes", DecisionKind.MIGRATE, "t0", 6, 7),
        decided("starts", DecisionKind.START, "a1", *range(8)),
        *(
            Decision(job=each.name, decision=DecisionKind.WAIT, reason=Reason.NOT_CHOSEN)
            for each in ROUND.jobs[3:]
        ),
    ),
    sections=({"kind": "moves", "steps": ["goes"], "needs_spare": []},),
)


@pytest.fixture
def solved(run, monkeypatch, tmp_path):
    """Run `solve` on the round, with the plan in place of a search."""
    monkeypatch.setattr("placewright.rounds.solve_round", lambda _, **limits: PLAN)
    write(ROUND, tmp_path / "round.json")
    return lambda *words: run("solve", tmp_path / "round.json", *words)


WHY = (
    "not_chosen: fits where jobs of its precedence or lower start; no better plan was found with it"
)


@pytest.fixture(autouse=True)
def wide(run, monkeypatch):
    """No row of a table is broken."""
    monkeypatch.setenv("COLUMNS", "200")


def rows(text: str) -> list[str]:
    return [" ".join(line.split()) for line in text.splitlines()]


def test_gpus_in_use_are_counted_by_model_before_and_after(solved):
    shown = rows(solved().out)
    start = shown.index("GPUs in use")
    assert shown[start + 1] == "model GPUs before after share"
    assert shown[start + 3 : start + 6] == [
        "A100 24 6 12 50 %",
        "T4 8 0 2 25 %",
        "all 2 32 6 14 43.8 %",
    ]


def test_tenants_have_usage_quota_and_share(solved):
    shown = rows(solved().out)
    start = shown.index("Tenants")
    assert shown[start + 1] == "tenant resource before after quota share waiting"
    assert shown[start + 3 : start + 9] == [
        "red gpu 4 12 12 37.5 % 0",
        "red cpu 2 4 8 1.56 % 0",
        "red memory 0Gi 0Gi 4Gi 0 % 0Gi",
        "blue gpu 2 2 - 6.25 % 51",
        "- gpu 0 0 - 0 % 8",
        "idle gpu 0 0 1 0 % 0",
    ]


def test_where_no_host_has_gpus_tenants_have_cores_and_memory(run):
    shown = rows(run("solve", LIBRARY / "drf-100-cpus.yaml").out)
    start = shown.index("Tenants")
    assert shown[start + 3 : start + 5] == [
        "b cpu 0 60 - 60 % 12",
        "b memory 0Gi 1000Gi - 10 % 200Gi",
    ]
    assert "GPUs in use" not in shown


def test_waiting_jobs_come_before_the_others_and_the_urgent_and_large_ones_first(solved):
    shown = rows(solved().out)
    start = shown.index("Waiting jobs")
    assert start < shown.index("Started and kept jobs")
    assert shown[start + 1] == "job tenant priority GPUs why"
    assert shown[start + 3 : start + 6] == [
        f"first blue 2 1 {WHY}",
        f"large - 1 8 {WHY}",
        f"small-0 blue 0 0.5 {WHY}",
    ]
    assert "... and 2 more waiting jobs; --waiting lists all of them" in shown
    assert f"small-97 blue 0 0.5 {WHY}" in shown
    assert f"small-98 blue 0 0.5 {WHY}" not in shown


def test_all_cuts_nothing(solved):
    result = solved("--all")
    assert "small-99 " in result.out
    assert "... and" not in result.out


def test_waiting_lists_all_of_them_and_nothing_else(solved):
    result = solved("--waiting")
    assert "small-99 " in result.out
    assert "Why jobs wait" in result.out
    for other in ("... and", "Decisions", "Started", "Tenants", "Moves"):
        assert other not in result.out


def test_where_nothing_waits_that_is_said(run, monkeypatch, tmp_path):
    round_ = ROUND.model_copy(update={"jobs": ROUND.jobs[:3]})
    plan = PLAN.model_copy(update={"decisions": PLAN.decisions[:3]})
    monkeypatch.setattr("placewright.rounds.solve_round", lambda _, **limits: plan)
    write(round_, tmp_path / "round.json")
    assert "No job waits." in run("solve", tmp_path / "round.json", "--waiting").out
    assert "wait" not in rows(run("solve", tmp_path / "round.json").out)


def test_single_jobs_are_printed_in_full(solved):
    shown = rows(solved("--job", "goes", "--job", "first").out)
    for row in (
        "Job goes",
        "decision migrated",
        "tenant blue",
        "group task host GPUs from",
        "tasks 0 t0 6-7 a1:0-1",
        "Job first",
        "decision waiting",
        f"why {WHY}",
        "priority 2",
    ):
        assert row in shown
    assert not any("stays" in row or "Decisions" in row for row in shown)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--job", "smal-1"), "--job: smal-1: the round has no such job; did you mean small-1?"),
        (("--job", "\x1b[2J"), "--job: \\x1b[2J: the round has no such job"),
        (("--all", "--waiting"), "--all and --waiting exclude one another"),
        (("--waiting", "--job", "first"), "--waiting and --job exclude one another"),
        (("--all", "--format", "json"), "--all: expected with tables only"),
        (("--waiting", "-o", "-"), "--waiting: expected with tables only"),
    ],
)
def test_a_choice_that_cannot_be_is_wrong_usage(solved, words, says):
    result = solved(*words)
    assert (result.code, result.out) == (2, "")
    assert says in result.err
    assert result.err.count("\n") == 1


def test_what_is_printed_does_not_change_what_is_written(solved, tmp_path):
    path = tmp_path / "out.json"
    for words in ((), ("--waiting",), ("--job", "first")):
        result = solved(*words, "-o", path)
        assert (result.code, result.err) == (0, f"wrote {path}\n")
        assert load_plan(path) == PLAN


def test_where_only_data_is_decided_no_job_is_said_to_wait(run, tmp_path):
    round_, plan = tmp_path / "round.json", tmp_path / "plan.json"
    write(regional.slow()[0], round_)
    result = run("solve", round_, "-o", plan, "--time-limit", "2s")
    assert result.code == 0
    assert "wait" not in result.out
    assert "not_asked" not in result.out
    assert "wait" not in run("show", plan, "--round", round_).out


def test_tables_say_what_jobs_ask_of_links_and_have(run):
    pairs = LIBRARY / "gpu-pairs.yaml"
    shown = run("show", pairs).out
    assert "2, joined by NVLink" in shown
    solved = run("solve", pairs).out
    (row,) = (line for line in solved.splitlines() if line.lstrip().startswith("double-0 "))
    assert row.rstrip().endswith("448,000 Mbit/s")
    (row,) = (line for line in solved.splitlines() if line.lstrip().startswith("single-0 "))
    assert row.rstrip().endswith("-")
    told = run("solve", pairs, "--job", "double-1").out
    assert "ring of GPUs" in told
    assert "ring of GPUs" not in run("solve", LIBRARY / "quickstart.yaml").out
