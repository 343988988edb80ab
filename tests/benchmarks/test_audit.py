"""The benchmark `audit`: placements of rules, and captured ones of Slurm and Kueue."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.audit import LIVE, Case, cases, run
from benchmarks.foreign_placements import placed_by
from benchmarks.kueue_dump import kueue_placement
from benchmarks.live_placements import Placement
from benchmarks.slurm_dump import slurm_placement
from placewright import Round, verify
from placewright.explain.audit import audit
from placewright.instances.documents.plan import DecisionKind
from placewright.instances.io.files import parse_round

needs_data = pytest.mark.skipif(not LIVE.exists(), reason="captured dumps are not here")


def pods(*gpus: float) -> Round:
    """Return a round of two hosts of 2 GPUs and 8 cores, and a pod of 2 cores for each size."""
    jobs: list[dict[str, Any]] = [
        {"name": f"pod-{i}", "options": [{"groups": [{"gpu": gpu, "cpu": 2}]}]}
        for i, gpu in enumerate(gpus)
    ]
    return parse_round(
        {
            "apiVersion": "placewright/v1alpha2",
            "kind": "Round",
            "name": "pods",
            "cluster": {
                "hosts": [
                    {"name": f"h{i}", "gpus": 2, "gpu_model": "X", "cpu": 8, "memory": "8Gi"}
                    for i in range(2)
                ]
            },
            "jobs": jobs,
        }
    )


def hosts_of(placement: Placement) -> list[str]:
    return [task.host for d in placement.plan.decisions for task in d.tasks]


@pytest.mark.parametrize(
    ("rule", "hosts"), [("first-fit", ["h0", "h0", "h1"]), ("best-fit", ["h0", "h0", "h1"])]
)
def test_a_rule_places_pods_in_their_order_and_what_has_no_room_waits(rule, hosts):
    round_ = pods(1, 0.5, 2, 2)
    plan = placed_by(round_, rule)
    assert verify(round_, plan).ok
    assert hosts_of(Placement(round_, plan)) == hosts
    assert plan.decisions[3].decision is DecisionKind.WAIT


def test_a_placement_has_a_row_per_term_and_its_points_are_read_again_and_verified(tmp_path):
    round_ = pods(1, 1, 0.5, 0.5)
    first = placed_by(round_, "first-fit")
    case = Case("tiny", "first-fit", tmp_path, lambda: Placement(round_, first))
    rows = list(run([case], quick=True))
    assert [row.term for row in rows] == list(round_.policy.terms)
    assert rows[0].figures["points"] == 0  # nobody waits
    assert rows[0].gap == 0


def test_a_placement_that_breaks_a_rule_has_one_row_that_says_which(tmp_path):
    round_ = pods(1, 1)
    plan = placed_by(round_, "first-fit")
    first, second = plan.decisions
    twice = second.model_copy(update={"tasks": first.tasks})
    broken = plan.model_copy(update={"decisions": (first, twice)})
    (row,) = run([Case("tiny", "nobody", tmp_path, lambda: Placement(round_, broken))], quick=True)
    assert row.status == "not valid"
    assert "gpu_capacity" in row.note


@needs_data
def test_a_slurm_is_read_with_its_gpus_its_quotas_and_without_what_waits_for_no_place():
    found = slurm_placement(LIVE / "slurm" / "22.05-64nodes")
    assert verify(found.round, found.plan).ok
    started = {d.job: d for d in found.plan.decisions if d.decision is DecisionKind.START}
    assert {t.host for t in started["elastic-25"].tasks} == {
        "h12",
        "h13",
        "h14",
        "h15",
        "h28",
        "h29",
    }
    assert [t.gpus for t in started["eval-7"].tasks] == [(2, 3, 4, 5), (0, 1, 2, 3)]
    research = next(t for t in found.round.tenants if t.name == "research")
    assert research.quota["gpu"] == 160_000
    assert "held-22" in found.left_out
    pretrain = next(job for job in found.round.jobs if job.name == "pretrain-1")
    assert pretrain.options[0].groups[0].required == "leaf"  # --switches=1


@needs_data
def test_a_kueue_is_read_with_the_hosts_of_its_topology_assignments():
    found = kueue_placement(LIVE / "kubernetes" / "captured" / "kueue-tas-seed1")
    assert verify(found.round, found.plan).ok
    placed = next(d for d in found.plan.decisions if d.job == "default/job-j00-3696f")
    assert [task.host for task in placed.tasks] == ["gpu-26", "gpu-28", "gpu-30", "gpu-30"]


@pytest.mark.nightly
@needs_data
@pytest.mark.parametrize(("seed", "gap"), [(1, 0.0), (3, 0.121), (5, 0.145)])
def test_the_audit_of_a_kueue_finds_the_distance_that_is_known(seed, gap):
    found = kueue_placement(LIVE / "kubernetes" / "captured" / f"kueue-tas-seed{seed}")
    value = audit(found.round, found.plan, time_limit=30.0).terms[0]
    assert value.name == "value"
    assert value.gap == pytest.approx(gap, abs=0.001)


def test_without_the_data_a_case_is_skipped(tmp_path):
    missing = [Case(c.name, c.method, tmp_path / "none", c.read) for c in cases(quick=True)]
    assert {row.status for row in run(missing, quick=True)} == {"skipped"}
