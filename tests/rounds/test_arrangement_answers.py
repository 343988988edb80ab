"""Megatron, leader and workers, JobSets in slices: the bundled rounds are placed as they say."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from placewright import load_round, solve_round
from placewright.instances import verify as verification
from placewright.instances.derived.ranges import expand
from placewright.instances.documents.plan import Plan, Reason
from placewright.instances.documents.round import Round
from placewright.instances.speed_models.megatron import PUBLISHED
from placewright.instances.speed_models.megatron_placement import placed

LIBRARY = Path(verification.__file__).parents[1] / "library"


def solved(name: str) -> tuple[Round, Plan]:
    round_ = load_round(LIBRARY / f"{name}.yaml")
    plan = solve_round(round_, time_limit=30.0)
    assert plan.certificate is not None
    assert plan.certificate.status == "optimal"
    return round_, plan


def rack_of(round_: Round) -> dict[str, str]:
    return {
        host: str(entry.parent) for entry in round_.cluster.hosts for host in expand(entry.name)
    }


def racks(round_: Round, decision: Any) -> list[str]:
    """The rack of each task, by index."""
    rack = rack_of(round_)
    return [rack[task.host] for task in sorted(decision.tasks, key=lambda t: (t.group, t.index))]


def test_megatron_fills_the_block_whose_racks_hold_whole_replicas() -> None:
    round_, plan = solved("megatron")
    row = PUBLISHED[4]
    option = placed(
        row.model, row.shape, batch=row.batch, gpu_memory_mib=80 * 1024, pipeline="rack"
    )
    assert round_.jobs[0].options == (option,)
    found = racks(round_, plan.decisions[0])
    assert {rack.split("-")[0] for rack in found} == {"b1"}
    assert all(found[i] == found[i + 1] for i in range(0, 64, 2))
    (section,) = plan.sections
    assert section["kind"] == "communication"
    (group,) = section["groups"]
    assert (group["bottleneck_mbit"], group["time_us"]) == (200_000, 780_459)


def test_replicas_of_leader_and_workers_keep_out_of_each_others_blocks() -> None:
    round_, plan = solved("kueue-leader-worker")
    started = {d.job: set(racks(round_, d)) for d in plan.decisions if d.tasks}
    assert sorted(started.values(), key=min) == [{"b0-r1"}, {"b1-r0"}]
    (waiting,) = [d for d in plan.decisions if not d.tasks]
    assert waiting.reason is Reason.NOT_CHOSEN


@pytest.mark.parametrize(
    ("job", "block", "size", "slices"),
    [("two-times-four", "b1", 4, [1, 1]), ("three-times-two", "b0", 2, [1, 2])],
)
def test_each_child_job_of_a_jobset_is_in_one_rack(
    job: str, block: str, size: int, slices: list[int]
) -> None:
    round_, plan = solved("kueue-jobset-slices")
    (decision,) = [d for d in plan.decisions if d.job == job]
    found = racks(round_, decision)
    assert {rack.split("-")[0] for rack in found} == {block}
    parts = [found[i : i + size] for i in range(0, len(found), size)]
    assert all(len(set(part)) == 1 for part in parts)
    assert sorted(Counter(part[0] for part in parts).values()) == slices
