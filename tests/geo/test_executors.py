"""Regions decided here, in local processes and on a Dask cluster; a worker that dies."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from typing import Any

import pytest

from placewright.instances.errors import InvalidInputError
from placewright.instances.geo_generator import generate
from placewright.instances.plan import Plan
from placewright.instances.round import Round
from placewright.instances.verify import verify
from placewright.rounds import open_executor, solve_round
from placewright.rounds.executors import local_processes


@pytest.fixture(scope="module")
def round_() -> Round:
    """Large enough to be decided region by region, small enough for tests."""
    return generate(regions=3, datasets=12, jobs=60, gpus=480, policy="geo", seed=3)


@pytest.fixture(autouse=True)
def _region_by_region(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("placewright.formulations.geo.run.SMALL", 0)
    monkeypatch.setattr("placewright.formulations.geo.run.MEDIUM", 0)


def solved(round_: Round, executor: Executor | None) -> Plan:
    plan = solve_round(
        round_, time_limit=40, deterministic=True, isolation="none", executor=executor
    )
    assert verify(round_, plan).ok
    return plan


def values(plan: Plan) -> list[int]:
    assert plan.certificate is not None
    return [term.value for term in plan.certificate.terms]


@pytest.fixture(scope="module")
def here(round_: Round) -> list[int]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("placewright.formulations.geo.run.SMALL", 0)
        patch.setattr("placewright.formulations.geo.run.MEDIUM", 0)
        return values(solved(round_, None))


class Deadly(Executor):
    """An executor of which a worker is killed by the first task that it is given."""

    def __init__(self, pool: Executor) -> None:
        self.pool, self.killed = pool, 0

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        if not self.killed:
            self.killed += 1
            return self.pool.submit(_die)
        return self.pool.submit(fn, *args, **kwargs)


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def test_local_processes_find_the_same_plan(round_: Round, here: list[int]) -> None:
    with open_executor("local:2") as pool:
        assert values(solved(round_, pool)) == here


def test_a_dead_worker_costs_time_and_not_the_plan(round_: Round, here: list[int]) -> None:
    with local_processes(1) as pool:
        plan = solved(round_, Deadly(pool))
    assert values(plan) == here
    assert plan.certificate is not None
    assert any("executor" in what for what in plan.certificate.degraded)


@contextmanager
def dask_cluster() -> Iterator[Any]:
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
    ) as cluster:
        yield cluster


def test_a_dask_cluster_of_two_workers_finds_the_same_plan(round_: Round, here: list[int]) -> None:
    with dask_cluster() as cluster:
        address = cluster.scheduler_address.removeprefix("tcp://")
        with open_executor(f"dask://{address}") as pool:
            assert values(solved(round_, pool)) == here


@pytest.mark.parametrize("text", ["", "remote", "local:0", "local:x", "dask:nowhere"])
def test_what_names_no_executor_is_refused(text: str) -> None:
    with pytest.raises(InvalidInputError), open_executor(text):
        pass
