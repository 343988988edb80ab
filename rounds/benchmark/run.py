"""The protocol of the public benchmark: every solver on every round, a row of JSON for each run.

Each run gets one core, the same wall clock and the same gap to stop at, and whatever plan comes is
verified before it counts. Rows are appended in the order of the runs; a run that was killed is gone
on with, and ends with the same rows. Under deterministic limits rows have no times, so that files
are equal byte for byte.
"""

from __future__ import annotations

import fcntl
import json
import os
import platform
import resource
import shlex
import subprocess
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import Any, BinaryIO, TypeAlias

from placewright.instances.benchmark.index import Found, Instance, Suite, round_of, with_plan
from placewright.instances.documents.policy import headline
from placewright.instances.documents.round import Round
from placewright.instances.errors import InvalidInputError
from placewright.instances.io.files import load_plan, write
from placewright.instances.policies import GANG
from placewright.instances.verify import verify
from placewright.rounds.benchmark.baselines import (
    GAP,
    LITERAL,
    RULES,
    Attempt,
    is_unknown,
    literal,
)
from placewright.rounds.certificate import gap_of
from placewright.rounds.regions.executors import ProcessError
from placewright.rounds.solve import solve_round

LIMITS: Mapping[Suite, float] = MappingProxyType({"small": 2.0, "medium": 20.0, "large": 60.0})
"""Seconds of wall clock that a solver has for a round of a suite."""

BACKSTOP = 600.0
GRACE = 1.5
"""A command is killed after so many times its limit, and a second for its start."""

SOLVED, SKIPPED, FAILED = ("optimal", "within_gap"), "skipped", ("invalid", "failed")
AHEAD = 64
"""Runs that are handed to an executor before the first of them has ended."""

_PACKAGES = ("placewright", "highspy", "ortools", "pulp", "numpy")


@dataclass(frozen=True, slots=True)
class Protocol:
    """What every run gets.

    Parameters
    ----------
    seconds
        Wall clock of a run.
    deterministic
        Work limits in place of the clock, and rows without times.
    cores, gap
        Threads of a solver, and the relative gap of the first term at which it may stop.
    """

    seconds: float
    deterministic: bool = False
    cores: int = 1
    gap: float = GAP

    @property
    def clock(self) -> float:
        """Seconds after which a run is cut off: under deterministic limits what none needs."""
        return max(self.seconds, BACKSTOP) if self.deterministic else self.seconds


@dataclass(frozen=True, slots=True)
class Task:
    """One run: a solver of `SOLVERS`, or else a command, on an instance with a seed."""

    instance: Instance
    solver: str
    seed: int
    protocol: Protocol
    command: str | None = None
    plans: str | None = None

    @property
    def key(self) -> tuple[str, str, int]:
        """What a row is known by."""
        return self.instance.name, self.solver, self.seed


@dataclass(frozen=True, slots=True)
class Row:
    """What came of a run.

    Parameters
    ----------
    instance, solver, seed
        What was run.
    status
        `optimal`, `within_gap` or `feasible` with a verified plan, by the solver's own bound;
        `no_plan`; `invalid`, where a plan breaks a rule; `failed`; `skipped`.
    values, bound
        Every term as recomputed from the plan, and what the solver proved of the first one.
    wall_s, cpu_s
        Seconds of the run, its processes included; None under deterministic limits.
    found
        When which value of the first term was there, as [seconds, value].
    note
        Why, if there is something to say.
    protocol, machine, versions
        Under which limits, where and of what.
    """

    instance: str
    solver: str
    seed: int
    status: str
    values: Mapping[str, int] = field(default_factory=dict)
    bound: float | None = None
    wall_s: float | None = None
    cpu_s: float | None = None
    found: Sequence[Sequence[float]] = ()
    note: str = ""
    protocol: Mapping[str, Any] = field(default_factory=dict)
    machine: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)

    @property
    def key(self) -> tuple[str, str, int]:
        """What it is known by."""
        return self.instance, self.solver, self.seed

    @property
    def line(self) -> str:
        """The row as a line of JSON."""
        return json.dumps(asdict(self), separators=(",", ":")) + "\n"


Watch: TypeAlias = Callable[[int], None]
"""Told the value of the first term whenever it may be better."""

Solver: TypeAlias = Callable[[Round, Protocol, int, Watch], Attempt]


def _ours(
    backend: str, round_: Round, protocol: Protocol, seed: int, watch: Watch, share: float = 1.0
) -> Attempt:
    """Decide as `placewright solve` does; a share of 0 stops before any solver."""
    plan = solve_round(
        round_,
        time_limit=protocol.clock * share,
        gap=protocol.gap,
        backend=backend,
        seed=seed,
        deterministic=protocol.deterministic,
        progress=lambda value, _: watch(value),
    )
    degraded = "" if plan.certificate is None else "; ".join(plan.certificate.degraded)
    return Attempt(plan, note=degraded)


def _literal(
    backend: str,
    round_: Round,
    protocol: Protocol,
    seed: int,
    watch: Watch,  # noqa: ARG001
) -> Attempt:
    work = protocol.seconds if protocol.deterministic else None
    tried = literal(backend, round_, protocol.clock, seed=seed, work=work)
    return tried or Attempt(status=SKIPPED, note="too large")


def _rule(
    name: str,
    round_: Round,
    protocol: Protocol,
    seed: int,  # noqa: ARG001
    watch: Watch,  # noqa: ARG001
) -> Attempt:
    return RULES[name](round_, protocol.clock)


SOLVERS: Mapping[str, Solver] = MappingProxyType(
    {
        "placewright": partial(_ours, "auto"),
        "placewright-cp-sat": partial(_ours, "cp-sat"),
        "placewright-cbc": partial(_ours, "cbc"),
        "placewright-scip": partial(_ours, "scip"),
        "greedy": partial(_ours, "auto", share=0.0),
        **{name: partial(_rule, name) for name in RULES},
        **{f"literal-{backend}": partial(_literal, backend) for backend in LITERAL},
    }
)
BASELINES = frozenset(RULES) | {f"literal-{backend}" for backend in LITERAL}
"""Those that know rounds of policy `gang` alone."""


def tasks_of(
    instances: Iterable[Instance],
    solvers: Sequence[str],
    seeds: int,
    protocol: Protocol,
    command: str | None = None,
    plans: str | None = None,
) -> tuple[list[Task], dict[str, int]]:
    """Return the runs in their order; and per baseline on how many rounds it says nothing."""
    tasks: list[Task] = []
    left_out: dict[str, int] = {}
    for instance in instances:
        for solver in solvers:
            if solver in BASELINES and instance.policy != GANG.name:
                left_out[solver] = left_out.get(solver, 0) + 1
                continue
            # Rules and greedy draw nothing: one run says it all.
            drawn = 1 if solver in RULES or solver == "greedy" else seeds
            tasks += [
                Task(instance, solver, seed, protocol, command, plans) for seed in range(drawn)
            ]
    return tasks, left_out


def command_label(command: str) -> str:
    """Return what rows call a command: its last word that is no placeholder.

    Raises
    ------
    InvalidInputError
        If it has no program, not both files, or other placeholders.
    """
    words = shlex.split(command)
    plain = [word for word in words if "{" not in word]
    try:
        for word in words:
            word.format(round="", plan="", seconds="", seed="")
    except (LookupError, ValueError):
        plain = []
    if not plain or not all(f"{{{name}}}" in command for name in ("round", "plan")):
        expected = "expected a program, {round} and {plan}; {seconds} and {seed} if you like"
        raise InvalidInputError(expected, ("command",), command)
    return Path(plain[-1]).name


@contextmanager
def results_file(path: str | os.PathLike[str]) -> Iterator[tuple[BinaryIO, list[Row]]]:
    """Open a file of rows to append to, and return those it has; a half line at its end goes.

    Raises
    ------
    InvalidInputError
        If another process writes to it, or it holds something else.
    """
    with open(path, "a+b") as file:  # noqa: PTH123 (it may be a path of any kind)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            expected = "is written by another run; expected a file of its own"
            raise InvalidInputError(expected, file=os.fspath(path)) from None
        file.seek(0)
        whole = file.read()
        end = whole.rfind(b"\n") + 1
        file.truncate(end)
        file.seek(end)
        yield file, parse_rows(whole[:end], os.fspath(path))


def parse_rows(text: bytes, name: str) -> list[Row]:
    """Return the rows of a file of results."""
    rows = []
    for number, line in enumerate(text.splitlines(), 1):
        try:
            rows.append(Row(**json.loads(line)))
        except (ValueError, TypeError, RecursionError):
            expected = f"line {number}: expected a row of `placewright bench`"
            raise InvalidInputError(expected, file=name) from None
    return rows


def read_rows(path: str | os.PathLike[str]) -> list[Row]:
    """Read a file of results; a half line at its end is left out.

    Raises
    ------
    InvalidInputError
        If it cannot be read, or holds something else.
    """
    try:
        whole = Path(path).read_bytes()
    except OSError as error:
        raise InvalidInputError(
            f"cannot be read ({error.strerror}); expected results", file=os.fspath(path)
        ) from None
    return parse_rows(whole[: whole.rfind(b"\n") + 1], os.fspath(path))


def run_all(
    tasks: Sequence[Task], executor: Executor, file: BinaryIO, had: Sequence[Row]
) -> Iterator[Row]:
    """Run what a file has no rows of, append them in order, and yield them.

    Raises
    ------
    InvalidInputError
        If the file has rows of another protocol or version.
    """
    known = {row.key: row for row in had}
    for task in tasks:
        row = known.get(task.key)
        if row is not None and (row.protocol, row.versions) != (asdict(task.protocol), versions()):
            raise InvalidInputError(
                "has rows of another protocol or version; expected another file", file=file.name
            )
    left = iter([task for task in tasks if task.key not in known])
    running: deque[tuple[Task, Future[Row]]] = deque()
    while True:
        for one in islice(left, AHEAD - len(running)):
            running.append((one, executor.submit(run_task, one)))
        if not running:
            return
        task, future = running.popleft()
        try:
            row = future.result()
        except ProcessError as error:
            row = replace(_started(task), status="failed", note=str(error))
        file.write(row.line.encode())
        file.flush()
        os.fsync(file.fileno())
        yield row


def _started(task: Task) -> Row:
    return Row(
        *task.key,
        status="failed",
        protocol=asdict(task.protocol),
        machine="" if task.protocol.deterministic else machine_text(),
        versions=versions(),
    )


def run_task(task: Task) -> Row:
    """Run a solver or command on a round; whatever goes wrong is in the row."""
    row = _started(task)
    try:
        round_ = round_of(task.instance)
    except InvalidInputError as error:
        return replace(row, note=str(error))
    found: list[tuple[float, int]] = []
    began, cpu = time.monotonic(), cpu_seconds()
    followed = headline(round_.policy.terms)[-1] == round_.policy.terms[0]

    def watch(value: int) -> None:
        if followed and (not found or found[-1][1] != value):
            found.append((round(time.monotonic() - began, 3), value))

    try:
        if task.solver in BASELINES and is_unknown(round_):
            attempt = Attempt(status=SKIPPED, note="cells, reservations or maintenance")
        elif task.command is None:
            attempt = SOLVERS[task.solver](round_, task.protocol, task.seed, watch)
        else:
            attempt = _by_command(task.command, round_, task)
    except Exception as error:  # noqa: BLE001 (a solver may raise anything; the row says it)
        return replace(row, note=f"{type(error).__name__}: {error}"[:500])
    if not task.protocol.deterministic:
        wall, used = time.monotonic() - began, cpu_seconds() - cpu
        row = replace(row, wall_s=round(wall, 3), cpu_s=round(used, 3), found=tuple(found))
    return _judged(task, round_, attempt, row)


def _judged(task: Task, round_: Round, attempt: Attempt, row: Row) -> Row:
    """Verify the plan of an attempt, and say how it ended."""
    row = replace(row, note=attempt.note)
    plan, bound = attempt.plan, attempt.bound
    if plan is None:
        ended = SKIPPED if attempt.status == SKIPPED else "no_plan"
        return replace(row, status=ended, bound=bound)
    try:
        verification = verify(round_, plan)
    except InvalidInputError as error:
        return replace(row, status="invalid", note=str(error)[:500])
    if not verification.ok:
        return replace(row, status="invalid", note=str(verification.violations[0])[:500])
    if plan.certificate is None:
        gap = gap_of(next(iter(verification.terms.values())), bound)
    else:
        bound, gap = plan.certificate.terms[0].bound, plan.certificate.terms[0].gap
    if gap is None or gap > task.protocol.gap:
        status = "feasible"
    else:
        status = "within_gap" if gap else "optimal"
    if task.plans is not None:
        _keep(task, verification.terms, lambda file: write(plan, file))
    return replace(row, status=status, values=dict(verification.terms), bound=bound)


def _keep(task: Task, values: Mapping[str, int], write_to: Callable[[Path], None]) -> None:
    """Write a plan that beats the index; of several runs the last one stays."""
    if with_plan(task.instance, values, Found(by=task.solver, on="2000-01-01")) is not None:
        write_to(Path(task.plans or ".", f"{task.instance.name}.json"))


def _by_command(command: str, round_: Round, task: Task) -> Attempt:
    """Run a program that reads {round} and writes {plan}, in {seconds} and with {seed}."""
    with TemporaryDirectory() as folder:
        files = {"round": Path(folder, "round.json"), "plan": Path(folder, "plan.json")}
        write(round_, files["round"])
        seconds = task.protocol.seconds
        words = [
            word.format(**files, seconds=f"{seconds:g}", seed=task.seed)
            for word in shlex.split(command)
        ]
        try:
            done = subprocess.run(
                words, capture_output=True, text=True, check=False, timeout=GRACE * seconds + 1
            )
        except subprocess.TimeoutExpired:
            return Attempt(note=f"killed after {GRACE * seconds + 1:g} s")
        if not files["plan"].exists():
            said = done.stderr.strip().splitlines()[-1:] or [f"exit code {done.returncode}"]
            return Attempt(note=f"no plan was written: {said[0]}"[:500])
        return Attempt(load_plan(files["plan"]))


def cpu_seconds() -> float:
    """CPU seconds of this process, and of its children that have ended."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def machine() -> dict[str, str | int]:
    """Describe what the figures depend on: processor, cores, memory, system."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "processor": _processor(),
        "cores": os.cpu_count() or 1,
        "memory_gib": round(memory / 2**30),
        "system": f"{platform.system()} {platform.machine()}",
    }


def machine_text() -> str:
    """Return the machine in one line."""
    it = machine()
    return f"{it['processor']}, {it['cores']} cores, {it['memory_gib']} GiB, {it['system']}"


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())


def versions() -> dict[str, str]:
    """Return the versions of Python and of every package that computes."""
    found = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found
