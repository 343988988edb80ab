"""The verb `replay`: when is decided, what tenants own, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

TRACE = (
    "submit_s,gpus,duration_s,tenant\n"
    + "".join(f"0,1,{10 if job % 2 else 100},others\n" for job in range(8))
    + "20,4,30,vision=2\n"
)

PEEKS = """from placewright.rounds.policies.base import ListPolicy
peeks = ListPolicy("peeks", lambda jobs: jobs.work_us)"""


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "trace.csv").write_text(TRACE)
    (tmp_path / "mine.py").write_text(PEEKS)


ROUND = str(Path(__file__).parents[2] / "instances" / "library" / "acme-evaluation.yaml")


def test_pipelines_of_a_round_are_played_by_rules_and_by_rounds(run):
    policies = ("--policy", "fifo", "--policy", "critical-path", "--policy", "rounds")
    result = run("replay", ROUND, *policies, "--format", "json")
    found = json.loads(result.out)["policies"]
    assert [one["makespan_s"] for one in found.values()] == [1380, 1200, 1200]
    assert found["fifo"]["pipelines"] == 5
    result = run("replay", ROUND, "--policy", "shortest", "--apart", "10m")
    assert "shortest           5   492   890      2,940" in result.out


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ((ROUND, "--policy", "las"), "las: of a round expected fifo, fair, shortest"),
        ((ROUND, "--policy", "fifo", "--hosts", "2x4"), "--hosts: not of a round, which is"),
        ((ROUND, "--policy", "fifo", "-o", "out"), "--output: not of a round, which is"),
        ((ROUND, "--policy", "fifo", "--start", "30s"), "--start: not of a round, which is"),
        (("trace.csv", "--policy", "fifo"), "expected --hosts of a trace"),
        (("trace.csv", "--policy", "mine.py:peeks", "--hosts", "1x4"), "declares this column"),
        (("trace.csv", "--policy", "fifo", "--hosts", "2x4", "--apart", "9"), "no --apart"),
        ((ROUND.replace("acme-evaluation", "quickstart"), "--policy", "fifo"), "policy stages"),
    ],
)
def test_what_does_not_fit_together_is_refused(asked, said, run):
    result = run("replay", *asked)
    assert result.code in (2, 3)
    assert said in result.err


@pytest.mark.parametrize(("policy", "wait"), [("hived", 0), ("gpu-quota", 80)])
def test_a_tenant_owns_cells_or_gpus(policy, wait, run):
    quota = ("--hosts", "2x4", "--quota", "vision=2=1x4")
    result = run("replay", "trace.csv", "--policy", policy, *quota, "--format", "json")
    assert result.code == 0
    summary = json.loads(result.out)
    assert summary["card"]["quotas"] == "vision=2=1x4"
    assert summary["by_tenant"]["vision=2"]["wait_mean_s"] == wait


def test_leases_are_on_the_card(run):
    asked = ("--policy", "srtf", "--hosts", "2x4", "--lease", "10m", "--format", "json")
    result = run("replay", "trace.csv", *asked)
    assert result.code == 0
    card = json.loads(result.out)["card"]
    assert (card["every_s"], card["at_most_every"], card["leases"]) == (600, False, True)


def test_gpu_models_and_starts_by_gpus_are_on_the_card(run):
    Path("sizes.csv").write_text("submit_s,gpus,duration_s,speed:2\n0,2,100,1\n")
    hosts = ("--hosts", "2xV100:4,1xK80:8", "--start", "1:30s,8:45s", "--format", "json")
    result = run("replay", "sizes.csv", "--policy", "sia", *hosts)
    assert result.code == 0
    summary = json.loads(result.out)
    assert summary["card"]["hosts"] == "2xV100:4, 1xK80:8"
    assert summary["card"]["start_s"] == "1:30, 8:45"
    assert summary["measures"]["gpu_s_V100"] == 260


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (("--start", "2:30s"), "2:30s: expected times by GPUs as 1:30s,8:45s, ascending from 1"),
        (("--start", "1:30s,1:40s"), "expected times by GPUs"),
        (("--start", "1:x"), "x: expected a time"),
        (("--hosts", "2xV100:4,4"), "expected NxG or NxMODEL:G"),
        (("--hosts", "2xV100:4,2x4"), "expected a GPU model of all hosts or of none"),
        (("--lease", "1m", "--every", "1m"), "expected one of --every, --at-most-every, --lease"),
        (("--quota", "others=4"), "--quota: others=4: expected TENANT=NxG"),
        (("--quota", "others=0x4"), "--quota: others=0x4: expected TENANT=NxG"),
        (("--quota", "other=1x4"), "quotas: 'other': expected a tenant of the trace"),
        ((), "quotas: 'none': expected a quota of some tenant"),
    ],
)
def test_what_cannot_be_is_refused(asked, said, run):
    result = run("replay", "trace.csv", "--policy", "hived", "--hosts", "2x4", *asked)
    assert result.code != 0
    assert said in result.err
