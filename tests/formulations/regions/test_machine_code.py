"""Machine code for annealing: never waited for beyond the limit, and plans without it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from placewright.formulations.replicas import run
from placewright.formulations.replicas.bounds import prove
from placewright.formulations.replicas.heuristics import annealing_kernel
from placewright.formulations.replicas.heuristics.annealing import Annealing
from placewright.formulations.replicas.heuristics.greedy import greedy_solution
from placewright.formulations.replicas.problem.compile import compile_replicas
from placewright.formulations.session import Session
from placewright.instances.documents.plan import Certificate, Plan
from placewright.instances.documents.round import Round
from placewright.instances.generators.geo import generate
from placewright.instances.verify import verify
from placewright.rounds import solve_round
from placewright.solver import InProcess, Model, batched_pdhg, compiled, machine_code
from placewright.solver.batched_pdhg import BatchedPdhg
from placewright.solver.machine_code import MachineCode

MODULES = ("placewright.formulations.replicas.heuristics.annealing_kernel",)

NEVER = "import time; time.sleep(600)"
"""What a process does that makes machine code for longer than any test takes."""


@pytest.fixture(scope="module")
def drawn() -> Round:
    return generate(regions=4, datasets=48, jobs=240, gpus=1600, seed=3)


def process(code: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE)


def session(seconds: float, *, deterministic: bool = False) -> Session:
    deadline = time.monotonic() + seconds
    return Session(InProcess().solve, deadline, deterministic=deterministic)


class Unkept:
    """Nothing is kept until the process that makes it has ended; it does what `code` says."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, code: str) -> None:
        self.machine_code, self.started = MachineCode(MODULES), 0
        self._code, self._made = code, False
        monkeypatch.setattr(machine_code, "_maker", self._maker)
        monkeypatch.setattr(machine_code, "_load_all", lambda _: self._made)
        for user, name in ((run, "ANNEALING"), (run, "DESCENTS"), (prove, "DESCENTS")):
            monkeypatch.setattr(user, name, self.machine_code)

    def _maker(self, _: object) -> subprocess.Popen[bytes]:
        self.started += 1
        self._made = True
        return process(self._code)


@pytest.fixture
def never(monkeypatch: pytest.MonkeyPatch) -> Iterator[Unkept]:
    """Machine code is being made, and will not be there."""
    unkept = Unkept(monkeypatch, NEVER)
    yield unkept
    unkept.machine_code.end()


def certificate_of(plan: Plan) -> Certificate:
    assert plan.certificate is not None
    return plan.certificate


@pytest.mark.nightly
def test_a_plan_is_there_in_time_without_it(
    drawn: Round, never: Unkept, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine_code, "LOADING", 0.0)
    plan = solve_round(drawn, time_limit=6, isolation="none")
    assert verify(drawn, plan).ok
    certificate = certificate_of(plan)
    assert certificate.degraded == ("nothing was annealed: machine code was not made in time",)
    assert never.started == 1
    assert certificate.run is not None
    assert certificate.run.wall_s < 60


def test_where_the_clock_must_not_decide_it_is_waited_for_until_the_limit(
    drawn: Round, never: Unkept, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited = [0.0]

    def sleep(_: float) -> None:
        waited[0] += 200.0

    clock = SimpleNamespace(monotonic=lambda: time.monotonic() + waited[0])
    monkeypatch.setattr(machine_code, "time", SimpleNamespace(sleep=sleep))
    monkeypatch.setattr("placewright.formulations.session.time", clock)
    plan = solve_round(drawn, time_limit=600, isolation="none", deterministic=True)
    assert waited[0] >= 400.0
    assert verify(drawn, plan).ok
    certificate = certificate_of(plan)
    assert not certificate.repeatable
    assert certificate.degraded == ("nothing was annealed: machine code was not made in time",)


def test_an_interrupt_while_it_is_waited_for_leaves_the_best_plan(
    drawn: Round, never: Unkept, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(machine_code, "time", SimpleNamespace(sleep=interrupt))
    plan = solve_round(drawn, time_limit=60, isolation="none", deterministic=True)
    assert verify(drawn, plan).ok
    assert certificate_of(plan).degraded == ("interrupted",)


def test_in_the_last_moments_nothing_is_begun(never: Unkept) -> None:
    assert not never.machine_code.available(session(0.5))
    assert never.started == 0
    assert never.machine_code.missing is None


def test_it_is_there_once_its_process_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    unkept = Unkept(monkeypatch, "pass")
    assert unkept.machine_code.available(session(60, deterministic=True))
    assert unkept.machine_code.missing is None
    assert unkept.machine_code.available(session(0.1))
    assert unkept.started == 1


def test_it_is_given_up_where_it_cannot_be_made(monkeypatch: pytest.MonkeyPatch) -> None:
    unkept = Unkept(monkeypatch, "raise SystemExit(1)")
    assert not unkept.machine_code.available(session(60, deterministic=True))
    assert unkept.machine_code.missing == "machine code could not be made"
    assert not unkept.machine_code.available(session(60))
    assert unkept.started == 1


def test_it_is_given_up_where_no_process_can_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(_: object) -> subprocess.Popen[bytes]:
        raise OSError("no more processes")

    machine = MachineCode(MODULES)
    monkeypatch.setattr(machine_code, "_maker", refused)
    monkeypatch.setattr(machine_code, "_load_all", lambda _: False)
    assert not machine.available(session(60))
    assert machine.missing == "machine code could not be made"


SCRIPT = """
import sys, time
from placewright.formulations.replicas.machine_code import ANNEALING
from placewright.formulations.session import Session
assert not ANNEALING.available(Session(None, time.monotonic() + 60))
print(ANNEALING._maker.pid, flush=True)
{then}
"""


def gone(pid: int, seconds: float = 60.0) -> bool:
    """Wait until a process has ended."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
        except FileNotFoundError:
            return True
        if state == "Z":
            return True
        time.sleep(0.05)
    return False


def compiling_program(then: str, kept: Path) -> subprocess.Popen[str]:
    """Start a program for which nothing is kept yet, with its compiler at work when it goes on."""
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT.format(then=then)],
        env={**os.environ, "NUMBA_CACHE_DIR": str(kept)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.nightly
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="asks /proc for processes")
def test_a_program_ends_while_it_is_being_made(tmp_path: Path) -> None:
    program = compiling_program("", tmp_path)
    out, err = program.communicate(timeout=120)
    assert (program.returncode, err) == (0, "")
    assert gone(int(out))


@pytest.mark.nightly
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="asks /proc for processes")
def test_its_process_does_not_outlive_a_killed_program(tmp_path: Path) -> None:
    program = compiling_program("time.sleep(600)", tmp_path)
    assert program.stdout is not None
    pid = int(program.stdout.readline())
    program.send_signal(signal.SIGKILL)
    program.communicate()
    assert gone(pid)


@pytest.mark.usefixtures("machine_code")
def test_all_that_is_called_is_there_then(drawn: Round) -> None:
    """Real rounds have arrays of the types that machine code was made for."""
    problem = compile_replicas(drawn)
    model = Model()
    model.rows("sum", 1, lower=1.0)
    model.term("cost", model.variables("x", 2, upper=1.0, integer=False), [1.0, 2.0], sense="min")
    model.add(np.zeros(2, dtype=np.int64), np.arange(2), 1.0)
    arrays = model.arrays("cost")
    with compiled.cached_only():
        Annealing(problem, greedy_solution(problem), problem.may_hold, 0).run(session(0.05), 0.05)
        descents = BatchedPdhg(arrays)
        start = descents.scaled_iterate(np.zeros(2), np.zeros(1))
        descents.run([{}], [start], 50, np.inf)
    for function in (
        annealing_kernel.sweep,
        annealing_kernel.insert_unit,
        batched_pdhg.pdhg_step,
        batched_pdhg.dual_values,
    ):
        assert len(function.signatures) == 1  # type: ignore[attr-defined]


def test_nothing_is_made_where_only_what_is_kept_may_be_loaded(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    # Not beside this file, where the next run would find it.
    monkeypatch.setattr(compiled.numba.config, "CACHE_DIR", str(tmp_path))
    doubled = compiled.compiled(double)
    with compiled.cached_only(), pytest.raises(compiled.NotCachedError):
        doubled(2)
    assert doubled(2) == 4


def double(number: int) -> int:
    return 2 * number


double.__module__ = f"{compiled.__package__}.none"


@pytest.mark.nightly
def test_where_nothing_can_be_written_it_is_kept_as_long_as_the_process(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    plain = compiled.numba.njit

    def nowhere(*args: Any, **options: Any) -> Any:
        kept = compiled.numba.config.CACHE_DIR
        if options.get("cache") and not str(kept).startswith(str(tmp_path)):
            raise RuntimeError("cannot cache function: no locator available")
        return plain(*args, **options)

    monkeypatch.setattr(compiled.numba, "njit", nowhere)
    monkeypatch.setattr(compiled, "_folders", [])
    monkeypatch.setattr(compiled.tempfile, "tempdir", str(tmp_path))
    assert compiled.process_cache_folder() is None
    assert compiled.compiled(double)(1) == 2
    folder = compiled.process_cache_folder()
    assert folder is not None
    assert list(Path(folder).rglob("*.nbc"))
    monkeypatch.setattr(compiled, "_folders", [])
    monkeypatch.setattr(compiled.tempfile, "tempdir", str(tmp_path / "none"))
    assert compiled.compiled(double)(1) == 2


def test_a_cache_that_names_types_of_another_version_is_emptied(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(compiled.numba.config, "CACHE_DIR", str(tmp_path))
    assert compiled.compiled(double)(3) == 6
    for index in tmp_path.rglob("*.nbi"):
        index.write_bytes(index.read_bytes()[:-10])
    again = compiled.compiled(double)
    assert again(3) == 6
    with compiled.cached_only():
        assert compiled.compiled(double)(4) == 8
