"""Executors that hang: the plan comes in time, and nothing is left running."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import Any

import pytest
from formulation_parameters import set_parameters

from placewright.formulations.geo import parameters
from placewright.instances.documents.plan import Plan
from placewright.instances.documents.round import Round
from placewright.instances.errors import InvalidInputError
from placewright.instances.generators.geo import generate
from placewright.instances.verify import verify
from placewright.rounds import open_executor, solve_round
from placewright.rounds.regions import executors
from placewright.rounds.regions.executors import ProcessError, Processes, default_executor

LIMIT = 3.0
"""Seconds of a round whose executor hangs."""

LONG = 3600
"""Seconds that no test waits for."""


@pytest.fixture(scope="module")
def round_() -> Round:
    return generate(regions=3, datasets=12, jobs=60, gpus=480, policy="geo", seed=3)


@pytest.fixture(autouse=True)
def _region_by_region(monkeypatch: pytest.MonkeyPatch) -> None:
    set_parameters(monkeypatch, parameters, max_monolithic_size=0, max_refined_size=0)


def degraded(round_: Round, executor: Executor, seconds: float = LIMIT) -> tuple[str, ...]:
    plan = solve_round(round_, time_limit=seconds, isolation="none", executor=executor)
    return degradations_of(round_, plan)


def degradations_of(round_: Round, plan: Plan) -> tuple[str, ...]:
    assert verify(round_, plan).ok
    assert plan.certificate is not None
    return plan.certificate.degraded


def started(plan: Plan) -> int:
    return sum(decision.decision == "start" for decision in plan.decisions)


def is_gone(process: int) -> bool:
    for _ in range(600):
        try:
            state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
        except FileNotFoundError:
            return True
        if state == "Z":
            return True
        time.sleep(0.1)
    return False


class Silent(Executor):
    """Takes every task and does none."""

    def __init__(self) -> None:
        self.asked: list[Future[Any]] = []

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        self.asked.append(Future())
        return self.asked[-1]


class Stuck(Executor):
    """Local processes of which the first one does something else, and never ends."""

    def __init__(self, processes: Processes, *task: Any) -> None:
        self.processes, self.task = processes, task

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        task, self.task = self.task or (fn, *args), ()
        return self.processes.submit(*task)


@pytest.mark.nightly
def test_regions_that_are_never_answered_are_decided_here(round_: Round) -> None:
    silent = Silent()
    words = degraded(round_, silent)
    assert "executor: 3 of 3 regions had no answer in time" in words[0]
    assert len(silent.asked) == 3
    assert all(future.cancelled() for future in silent.asked)


@pytest.mark.nightly(after=1)
@pytest.mark.parametrize(
    "task", [(time.sleep, LONG), (signal.raise_signal, signal.SIGSTOP)], ids=["hangs", "stopped"]
)
def test_a_process_that_hangs_costs_quality_and_is_killed(
    round_: Round, task: tuple[Any, ...]
) -> None:
    with Processes(2) as pool:
        words = degraded(round_, Stuck(pool, *task))
        stuck = pool._runners[0]
        assert "had no answer in time" in " ".join(words)
        # Another process follows it.
        assert pool.submit(os.getpid).result(60) != os.getpid()
    assert not stuck.is_alive()


def test_an_interrupt_keeps_what_regions_have_answered(round_: Round) -> None:
    class Interrupted(Silent):
        """The first task is done at once, and the last one interrupts."""

        def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
            future = super().submit(fn)
            if len(self.asked) == 1:
                future.set_result(fn(*args, **kwargs))
            if len(self.asked) == 3:
                raise KeyboardInterrupt
            return future

    plan = solve_round(round_, time_limit=LONG, isolation="none", executor=Interrupted())
    assert degradations_of(round_, plan) == ("interrupted",)
    assert started(plan)


@pytest.mark.nightly
def test_an_interrupt_is_not_held_up_by_an_executor_that_hangs(round_: Round) -> None:
    class Deaf(Future[Any]):
        def cancel(self) -> bool:
            time.sleep(LONG)
            return False

    class Interrupted(Silent):
        def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
            self.asked.append(Deaf())
            if len(self.asked) == 3:
                raise KeyboardInterrupt
            return self.asked[-1]

    plan = solve_round(round_, time_limit=LONG, isolation="none", executor=Interrupted())
    assert degradations_of(round_, plan) == ("interrupted",)


@pytest.mark.nightly
def test_a_dask_scheduler_without_workers_costs_quality(round_: Round) -> None:
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(n_workers=0, dashboard_address=None) as cluster:
        address = cluster.scheduler_address.removeprefix("tcp://")
        with open_executor(f"dask://{address}") as pool:
            assert "had no answer in time" in degraded(round_, pool)[0]


@pytest.mark.nightly
def test_a_scheduler_that_accepts_and_says_nothing_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("distributed")
    monkeypatch.setattr(executors, "ANSWER_SECONDS", 1.0)
    with socket.create_server(("127.0.0.1", 0)) as server:
        where = f"dask://127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(InvalidInputError, match="that answers"), open_executor(where):
            pass


def test_a_task_that_runs_can_be_given_up() -> None:
    with Processes(1) as pool:
        slow, fast = pool.submit(time.sleep, LONG), pool.submit(os.getpid)
        while not slow.running():
            time.sleep(0.01)
        assert not slow.cancel()
        with pytest.raises(ProcessError, match="signal SIGKILL"):
            slow.result(60)
        assert fast.result(60) > 0
        waiting = pool.submit(time.sleep, LONG), pool.submit(time.sleep, LONG)
        assert waiting[1].cancel()
    assert waiting[0].done()
    with pytest.raises(RuntimeError, match="no more tasks"):
        pool.submit(os.getpid)


def test_what_a_task_raises_is_told_and_the_process_goes_on() -> None:
    with Processes(1) as pool:
        first = pool.submit(os.getpid).result(60)
        with pytest.raises(ProcessError, match="ValueError: "):
            pool.submit(int, "no number").result(60)
        assert pool.submit(os.getpid).result(60) == first


PARENT = """
import signal, sys, time
from placewright.rounds import open_executor

with open_executor("local:2") as pool:
    for _ in range(2):
        pool.submit(time.sleep, 3600)
    children = []
    while len(children) < 2:
        children = [r._child for r in pool._runners if r._child is not None and r._task]
        time.sleep(0.05)
    # Before the test may send one: what starts the suite may have SIGINT ignored.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    print(*(c.process.pid for c in children), *(c.scratch for c in children), flush=True)
    time.sleep(3600)
"""


@pytest.mark.nightly
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_nothing_outlives_the_process_that_opened_an_executor(how: signal.Signals) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert parent.stdout is not None
    first, second, *folders = parent.stdout.readline().split()
    # As a terminal does it: to the whole group.
    os.killpg(parent.pid, how)
    stderr = parent.communicate(timeout=120)[1]
    assert is_gone(int(first))
    assert is_gone(int(second))
    assert len(folders) == 2
    assert not any(Path(folder).exists() for folder in folders)
    # That of the script itself, and none of its processes.
    assert stderr.count("Traceback") == (0 if how == signal.SIGKILL else 1)


UNGUARDED = """
print("the script runs")
from placewright.instances.errors import InvalidInputError
from placewright.instances.generators.geo import generate
from dataclasses import replace
from placewright.formulations.geo import parameters
from placewright.rounds import open_executor, solve_round

parameters.PARAMETERS = replace(
    parameters.PARAMETERS, max_monolithic_size=0, max_refined_size=0
)
round_ = generate(regions=3, datasets=12, jobs=60, gpus=480, policy="geo", seed=3)
with open_executor("local:2") as pool:
    plan = solve_round(round_, time_limit=60, executor=pool)
print(*plan.certificate.degraded)
"""


@pytest.mark.nightly
@pytest.mark.parametrize("by", ["file", "stdin"])
def test_a_script_without_a_main_guard_runs_once(by: str, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(UNGUARDED)
    ended = subprocess.run(
        [sys.executable, script] if by == "file" else [sys.executable, "-"],
        input=UNGUARDED,
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    assert ended.stdout.split() == ["the", "script", "runs"]


@pytest.mark.nightly
def test_a_library_call_opens_no_executor_and_the_command_line_one_that_pays(
    round_: Round, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert default_executor(round_) is None
    monkeypatch.setattr(executors, "MIN_JOBS", 1)
    monkeypatch.setattr(executors, "MIN_CORES", 1)
    assert default_executor(round_) == "local"
    gangs = round_.policy.model_copy(update={"formulation": "gang"})
    assert default_executor(round_.model_copy(update={"policy": gangs})) is None
    monkeypatch.delattr(Processes, "submit")
    plan = solve_round(round_, time_limit=LIMIT, isolation="none")
    assert degradations_of(round_, plan) == ()
