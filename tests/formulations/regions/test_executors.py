"""Regions decided here, in local processes and on a Dask cluster; a worker that dies."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from formulation_parameters import set_parameters

from placewright.formulations.geo import parameters
from placewright.instances.checks.round import trusted
from placewright.instances.documents.plan import Plan
from placewright.instances.documents.policy import Policy
from placewright.instances.documents.round import Round
from placewright.instances.errors import InvalidInputError
from placewright.instances.generators.geo import generate
from placewright.instances.verify import verify
from placewright.rounds import Engine, open_executor, solve_round
from placewright.rounds.regions.executors import Processes


@pytest.fixture(scope="module")
def round_() -> Round:
    """Large enough to be decided region by region, small enough for tests."""
    return generate(regions=3, datasets=12, jobs=60, gpus=480, policy="geo", seed=3)


@pytest.fixture(autouse=True)
def _region_by_region(monkeypatch: pytest.MonkeyPatch) -> None:
    set_parameters(monkeypatch, parameters, max_monolithic_size=0, max_refined_size=0)


def solved(round_: Round, executor: Executor | None) -> Plan:
    plan = solve_round(
        round_, time_limit=200, deterministic=True, isolation="none", executor=executor
    )
    assert verify(round_, plan).ok
    return plan


def values(plan: Plan) -> list[int]:
    assert plan.certificate is not None
    return [term.value for term in plan.certificate.terms]


@pytest.fixture(scope="module")
def here(round_: Round) -> list[int]:
    with pytest.MonkeyPatch.context() as patch:
        set_parameters(patch, parameters, max_monolithic_size=0, max_refined_size=0)
        return values(solved(round_, None))


class Instead(Executor):
    """An executor that does something else in place of the first task that it is given."""

    def __init__(self, pool: Executor, first: Callable[..., tuple[Any, ...]]) -> None:
        self.pool, self.first, self.asked = pool, first, 0

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        self.asked += 1
        task = (fn, *args) if self.asked > 1 else self.first(fn, *args)
        return self.pool.submit(*task, **kwargs)


def poison(*_: object) -> tuple[Any, ...]:
    """Whoever takes this dies of it."""
    return signal.raise_signal, signal.SIGKILL


def dying_once(grave: Path) -> Callable[..., tuple[Any, ...]]:
    """The first worker that takes the task digs its grave; the next one finds it and goes on."""
    path = str(grave)

    def first(fn: Callable[..., Any], *args: Any) -> tuple[Any, ...]:
        # A nested function is sent by value: workers cannot import tests.
        def task(*given: Any) -> Any:
            if not Path(path).exists():
                Path(path).touch()
                signal.raise_signal(signal.SIGKILL)
            return fn(*given)

        return task, *args

    return first


@pytest.fixture(scope="module")
def dask_address() -> Iterator[str]:
    """The address of a cluster of two worker processes, without what comes before the host.

    It gives a task up after its second dead worker: each takes seconds to start anew.
    """
    distributed = pytest.importorskip("distributed")
    dask = pytest.importorskip("dask")
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 1}),
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
        ) as cluster,
    ):
        yield cluster.scheduler_address.removeprefix("tcp://")


@pytest.mark.nightly
def test_local_processes_find_the_same_plan(round_: Round, here: list[int]) -> None:
    with open_executor("local:2") as pool:
        assert values(solved(round_, pool)) == here


@pytest.mark.nightly
def test_a_dask_cluster_of_two_workers_finds_the_same_plan(
    round_: Round, here: list[int], dask_address: str
) -> None:
    with open_executor(f"dask://{dask_address}") as pool:
        assert values(solved(round_, pool)) == here


@pytest.mark.nightly
def test_a_dead_process_costs_time_and_not_the_plan(round_: Round, here: list[int]) -> None:
    with Processes(1) as pool:
        plan = solved(round_, Instead(pool, poison))
    assert values(plan) == here
    assert plan.certificate is not None
    assert any("executor" in what for what in plan.certificate.degraded)


@pytest.mark.nightly
def test_what_a_dead_dask_worker_had_is_done_by_the_other(
    round_: Round, here: list[int], dask_address: str, tmp_path: Path
) -> None:
    with open_executor(f"dask://{dask_address}") as pool:
        plan = solved(round_, Instead(pool, dying_once(tmp_path / "grave")))
    assert (tmp_path / "grave").exists()
    assert values(plan) == here
    assert plan.certificate is not None
    assert plan.certificate.degraded == ()


@pytest.mark.nightly
def test_what_every_dask_worker_dies_of_is_done_here(
    round_: Round, here: list[int], dask_address: str
) -> None:
    with open_executor(f"dask://{dask_address}") as pool:
        plan = solved(round_, Instead(pool, poison))
    assert values(plan) == here
    assert plan.certificate is not None
    assert any("executor" in what for what in plan.certificate.degraded)


@pytest.mark.parametrize("text", ["", "remote", "local:0", "local:x", "dask:nowhere"])
def test_what_names_no_executor_is_refused(text: str) -> None:
    with pytest.raises(InvalidInputError), open_executor(text):
        pass


@pytest.mark.parametrize("policy", ["gang", "replicas"])
def test_a_round_of_another_policy_takes_no_executor(round_: Round, policy: str) -> None:
    decided = {"policy": Policy.model_validate({"formulation": policy})}
    other = trusted(round_.model_copy(update=decided))
    pool = ThreadPoolExecutor(1)
    for decide in (solve_round, Engine):
        with pytest.raises(InvalidInputError) as refused:
            decide(other, executor=pool)
        assert str(refused.value).startswith(f"executor: the round has policy '{policy}'")
