"""Preemption repair: every stopped job is a lawful victim, or is back in its place."""

from __future__ import annotations

from typing import Any

import pytest

from placewright.formulations.gang.placement.assignment import assign
from placewright.formulations.gang.placement.placement import Placement
from placewright.formulations.gang.placement.preemption import repair_preemptions
from placewright.formulations.gang.problem.compile import compile_round
from placewright.formulations.gang.problem.jobs import ANY_JOB, TaskPlacement
from placewright.instances.checks.round import check_round
from placewright.instances.documents.round import Round

Raw = dict[str, Any]


def job(name: str, *at: tuple[str, *tuple[int, ...]], gpu: int = 1000, **more: Any) -> Raw:
    """A job of one group; it runs if there are places `at`, each a host and GPUs."""
    tasks = [{"index": i, "host": h, "gpus": gpus} for i, (h, *gpus) in enumerate(at)]
    running = {"running": {"tasks": tasks}} if tasks else {}
    group = {"gpu": f"{gpu}m", "count": max(len(at), 1)}
    return {"name": name, "options": [{"groups": [group]}], **running, **more}


class Board:
    """A placement on hosts h, i and j with jobs that are moved by their names."""

    def __init__(self, *jobs: Raw, gpus: int = 2, quota: int | None = None) -> None:
        hosts = [{"name": name, "gpus": gpus, "gpu_model": "A"} for name in "hij"]
        tenants = [{"name": "red", "quota": {} if quota is None else {"gpu": f"{quota}m"}}]
        self.round = Round.model_validate(
            {"cluster": {"hosts": hosts}, "jobs": jobs, "tenants": tenants}
        )
        check_round(self.round)
        self.problem = compile_round(self.round)
        self.placement = Placement(self.problem)
        self.index = {job.name: j for j, job in enumerate(self.round.jobs)}

    def stop(self, *names: str) -> None:
        for name in names:
            self.placement.stop(self.placement.start_of(self.index[name]))

    def put(self, name: str, *hosts: str) -> None:
        """Start or restart a job with a task on each of the hosts."""
        j = self.index[name]
        c = next(c for c, known in enumerate(self.problem.classes) if j in known.jobs)
        shape = self.problem.classes[c].choices[0].groups[0].shape
        at = ["hij".index(host) for host in hosts]
        puts = [TaskPlacement(0, h, 1, self.placement.put(shape, h)) for h in at]
        self.placement.start(c, 0, puts, j if j in self.problem.running else ANY_JOB)

    def repaired(self) -> tuple[list[str], list[str]]:
        """Names of the jobs that start or move, and of those that are stopped."""
        repair_preemptions(self.placement)
        before = list(self.placement.started()), [list(jobs) for jobs in self.placement.stopped]
        found = assign(self.placement, "test")
        assert (list(self.placement.started()), self.placement.stopped) == before
        names = [job.name for job in self.round.jobs]
        return sorted(names[j] for j in found.starts), sorted(names[j] for j in found.preempted)


@pytest.mark.parametrize(("priority", "expected"), [(2, (["p"], ["v"])), (1, ([], []))])
def test_a_victim_of_a_job_that_may_not_displace_it_returns(
    priority: int, expected: tuple[list[str], list[str]]
) -> None:
    board = Board(job("v", ("h", 0), priority=1), job("p", priority=priority, gpu=2000))
    board.stop("v")
    board.put("p", "h")
    assert board.repaired() == expected


def test_a_victim_returns_where_nobody_comes() -> None:
    board = Board(job("v", ("h", 0)), job("p", priority=1))
    board.stop("v")
    board.put("p", "i")
    assert board.repaired() == (["p"], [])


def test_nobody_of_a_victims_priority_profits_beside_who_displaces_it() -> None:
    board = Board(
        job("v", ("h", 0, 1), gpu=2000, priority=1),
        job("high", priority=2),
        job("equal", priority=1),
    )
    board.stop("v")
    board.put("high", "h")
    board.put("equal", "h")
    assert board.repaired() == (["high"], ["v"])


def test_a_running_job_that_profits_without_right_goes_home() -> None:
    board = Board(
        job("v", ("h", 0, 1), gpu=2000, priority=1), job("m", ("i", 0, 1), gpu=2000, priority=1)
    )
    board.stop("v", "m")
    board.put("m", "h")
    assert board.repaired() == ([], [])
    assert board.placement.value == 0


def test_one_that_goes_home_takes_its_place_from_who_may_not_have_it() -> None:
    """V would profit from w's place, w from m's and m from v's; none of them may."""
    board = Board(*(job(n, (h, 0, 1), gpu=2000) for n, h in zip("vwm", "hij", strict=True)))
    board.stop("v", "w", "m")
    board.put("v", "i")
    board.put("w", "j")
    assert board.repaired() == ([], [])


def test_a_job_put_again_where_it_was_displaces_nobody() -> None:
    board = Board(job("high", ("h", 0), priority=1), job("low", ("h", 1)))
    board.stop("high", "low")
    board.put("high", "h")
    assert board.repaired() == ([], [])


def test_all_hosts_of_a_gang_are_closed_to_its_priority() -> None:
    board = Board(
        job("v", ("h", 0), ("i", 0)),
        job("high", gpu=2000, priority=1),
        job("equal", gpu=2000),
    )
    board.stop("v")
    board.put("high", "h")
    board.put("equal", "i")
    assert board.repaired() == (["high"], ["v"])


@pytest.mark.parametrize(("priority", "expected"), [(1, (["p"], ["v"])), (0, ([], []))])
def test_a_quota_is_for_higher_priority(
    priority: int, expected: tuple[list[str], list[str]]
) -> None:
    red: Raw = {"tenant": "red", "gpu": 2000}
    board = Board(job("v", ("h", 0, 1), **red), job("p", **red, priority=priority), quota=2000)
    board.stop("v")
    board.put("p", "i")
    assert board.repaired() == expected


def test_who_of_a_tenant_returns_first_takes_its_quota_from_its_equals() -> None:
    """Tiny of another tenant needs nothing, and is no reason to let p have v's quota."""
    red: Raw = {"tenant": "red", "gpu": 2000}
    board = Board(
        job("v", ("h", 0, 1), **red), job("p", **red), job("tiny", priority=1), quota=2000
    )
    board.stop("v")
    board.put("p", "i")
    board.put("tiny", "h")
    assert board.repaired() == (["tiny"], ["v"])


def test_nobody_stays_stopped_for_a_job_that_quota_stops() -> None:
    """P has no right to v's quota, and does not start; so its victim w returns as well."""
    red: Raw = {"tenant": "red", "gpu": 2000}
    for first in (True, False):
        jobs = [job("v", ("h", 0, 1), **red, priority=1), job("w", ("i", 0, 1), gpu=2000)]
        jobs = jobs if first else jobs[::-1]
        board = Board(*jobs, job("p", **red, priority=1), quota=2000)
        board.stop("v", "w")
        board.put("p", "i")
        assert board.repaired() == ([], [])


def test_nobody_gets_the_old_place_of_a_higher_job_that_moves() -> None:
    high = job("high", ("i", 0, 1), gpu=2000, priority=2)
    board = Board(
        job("v", ("h", 0, 1), gpu=2000, priority=1), high, job("equal", gpu=2000, priority=1)
    )
    board.stop("v", "high")
    board.put("high", "h")
    board.put("equal", "i")
    assert board.repaired() == (["high"], ["v"])


def test_equals_may_come_where_there_was_room_beside_a_victim() -> None:
    board = Board(
        job("v", ("h", 0, 1), gpu=2000, priority=1),
        job("high", gpu=2000, priority=2),
        job("equal", gpu=2000, priority=1),
        gpus=4,
    )
    board.stop("v")
    board.put("equal", "h")
    board.put("high", "h")
    assert board.repaired() == (["equal", "high"], ["v"])


def test_a_tenant_starts_no_more_than_its_quota() -> None:
    red: Raw = {"tenant": "red", "gpu": 2000}
    board = Board(job("v", ("h", 0, 1), **red), job("p", **red, priority=1), quota=3000)
    board.put("p", "i")
    assert board.repaired() == ([], [])
    board = Board(job("v", ("h", 0, 1), **red), job("p", **red, priority=1), quota=4000)
    board.put("p", "i")
    assert board.repaired() == (["p"], [])


def test_a_preemptor_is_the_arrival_of_highest_priority() -> None:
    board = Board(job("v", ("h", 0), ("h", 1)), job("mid", priority=1), job("high", priority=2))
    board.stop("v")
    board.put("mid", "h")
    board.put("high", "h")
    repair_preemptions(board.placement)
    found = assign(board.placement, "test")
    assert found.preempted == {board.index["v"]: board.index["high"]}
