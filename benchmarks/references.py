"""References of others: problems with known answers, through the solver layer alone.

Usage, from the root of the repository:

    python -m benchmarks.references ../shared/data/optimality -o rows.jsonl [--only 'a1_*']
    placewright bench report rows.jsonl -o page.html

Rows are those of `placewright bench`, one of what is published and one of ours per instance; a run
that was stopped is gone on with. A cost counts once a checker that knows nothing of the model has
recomputed it.
"""

from __future__ import annotations

import argparse
import csv
import math
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np

from benchmarks.reassignment import broken_rules, cost_of, loads_bound, read_reassignment
from benchmarks.reassignment_search import search
from placewright.array_types import Ints
from placewright.rounds.benchmark.baselines import GAP
from placewright.rounds.benchmark.results import by_solver
from placewright.rounds.benchmark.run import (
    Protocol,
    Row,
    cpu_seconds,
    machine_text,
    results_file,
    versions,
)
from placewright.rounds.certificate import gap_of
from placewright.solver import Limits, Model, Outcome, Worker

__all__ = ["Assignment", "assign", "main", "overloaded", "read_assignment", "references", "table"]

PUBLISHED, OURS = "published", "placewright.solver"
PROVEN = "proven optimum"

Watch: TypeAlias = Callable[[int], None]


class Tried(NamedTuple):
    """What came of a run: a recomputed cost, a bound, and which rules are broken, if any."""

    cost: int | None
    bound: float | None
    note: str = ""


class Reference(NamedTuple):
    """An instance: what is published of it, by whom, and how it is run."""

    name: str
    cost: int
    bound: int
    by: str
    seconds: float
    backend: str
    run: Callable[[str, float, Watch], Tried]


@dataclass(frozen=True, slots=True, eq=False)
class Assignment:
    """Generalised assignment: costs and loads of jobs on agents (I, J), capacities (I,)."""

    cost: Ints
    load: Ints
    capacity: Ints


def read_assignment(path: Path) -> Assignment:
    """Read a file of the OR-Library: agents, jobs, costs, loads, capacities."""
    numbers = np.array(path.read_text(encoding="ascii").split(), dtype=np.int64)
    agents, jobs = numbers[:2]
    cost, load, capacity = np.split(numbers[2:], [agents * jobs, 2 * agents * jobs])
    return Assignment(cost.reshape(agents, jobs), load.reshape(agents, jobs), capacity)


def assign(it: Assignment, backend: str, seconds: float, watch: Watch = lambda _: None) -> Outcome:
    """Solve the binary program; its columns say which agent has which job, in the order (I, J)."""
    model = Model()
    agents, jobs = it.cost.shape
    x = model.variables("has", agents * jobs, upper=1).reshape(agents, jobs)
    model.add(model.rows("one agent", jobs, lower=1, upper=1)[None, :], x, 1)
    model.add(model.rows("capacity", agents, upper=it.capacity)[:, None], x, it.load)
    model.term("cost", x, it.cost, sense="min")
    with Worker() as worker:
        return worker.solve(
            backend,
            model.arrays("cost"),
            Limits(seconds, gap=0),
            report=lambda news: None if news.objective is None else watch(round(news.objective)),
        )


def overloaded(it: Assignment, agent_of: Sequence[int]) -> list[int]:
    """Return the agents whose jobs are more than they can take."""
    loads = [0] * len(it.capacity)
    for job, agent in enumerate(agent_of):
        loads[agent] += int(it.load[agent, job])
    return [agent for agent, load in enumerate(loads) if load > it.capacity[agent]]


def _assigned(path: Path, backend: str, seconds: float, watch: Watch) -> Tried:
    it = read_assignment(path)
    outcome = assign(it, backend, seconds, watch)
    bound = None if outcome.bound is None else float(math.ceil(outcome.bound - 1e-6))
    if outcome.values is None:
        return Tried(None, bound, outcome.message)
    agent_of = outcome.values.reshape(it.cost.shape).argmax(axis=0).tolist()
    cost = sum(int(it.cost[agent, job]) for job, agent in enumerate(agent_of))
    over = overloaded(it, agent_of)
    return Tried(cost, bound, f"capacity of agents {over}" if over else "")


def _reassigned(files: tuple[Path, Path], backend: str, seconds: float, watch: Watch) -> Tried:
    it = read_reassignment(*files)
    found, proven = search(it, backend, seconds, watch=watch)
    bound = max(loads_bound(it), math.ceil((proven or 0) - 1e-6))
    return Tried(cost_of(it, found), bound, "; ".join(broken_rules(it, found)[:3]))


def references(folder: Path) -> Iterator[Reference]:
    """Yield the instances of set A of the challenge, and those of assignment with an optimum."""
    home = folder / "roadef2012"
    for line in _lines(home / "reference_A.csv"):
        name = line["instance"]
        published = int(line["S41_5min"]), int(line["lower_bound_J12"])
        files = home / f"model_{name}.txt", home / f"assignment_{name}.sol"
        run = partial(_reassigned, files)
        yield Reference(name, *published, "S41 in 5 minutes; bound: J12", 300.0, "cp-sat", run)
    home = folder / "gap"
    for line in _lines(home / "reference.csv"):
        path = home / line["Path"]
        if optimum := line["Optimum"]:
            run = partial(_assigned, path)
            best = int(optimum)
            yield Reference(path.name, best, best, PROVEN, 60.0, "highs", run)


def _lines(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def rows_of(one: Reference, seconds: float) -> Iterator[Row]:
    """Yield a row of what is published, and one of a run."""
    protocol = asdict(Protocol(seconds))
    row = Row(one.name, PUBLISHED, 0, "", note=one.by, protocol=protocol)
    yield _judged(row, one.cost, one.bound)
    found: list[tuple[float, int]] = []
    began, cpu = time.monotonic(), cpu_seconds()

    def watch(cost: int) -> None:
        if not found or cost < found[-1][1]:
            found.append((round(time.monotonic() - began, 3), cost))

    made = one.run(one.backend, seconds, watch)
    row = Row(
        one.name,
        OURS,
        0,
        "no_plan" if made.cost is None else "invalid",
        bound=made.bound,
        wall_s=round(time.monotonic() - began, 3),
        cpu_s=round(cpu_seconds() - cpu, 3),
        found=found,
        note=made.note or one.backend,
        protocol=protocol,
        machine=machine_text(),
        versions=versions(),
    )
    yield row if made.note or made.cost is None else _judged(row, made.cost, made.bound)


def _judged(row: Row, cost: int, bound: float | None) -> Row:
    gap = gap_of(cost, bound)
    status = "feasible" if gap is None or gap > GAP else "within_gap" if gap else "optimal"
    return replace(row, status=status, values={"cost": cost}, bound=bound)


def table(rows: Sequence[Row]) -> str:
    """Return our rows beside what is published, as a table of Markdown.

    Instances solved to an optimum that was published as proven share the last line.
    """
    known = {row.instance: row for row in by_solver(rows)[PUBLISHED]}
    solved: list[float] = []
    lines = [
        "| instance | published | cost | off | bound | gap | CPU s |",
        "|---|--:|--:|--:|--:|--:|--:|",
    ]
    for row in rows:
        if row.solver == PUBLISHED:
            continue
        published, cost = known[row.instance].values["cost"], row.values.get("cost")
        if known[row.instance].note == PROVEN and cost == published == row.bound:
            solved.append(row.cpu_s or 0.0)
            continue
        cells = [row.instance, f"{published:,}", row.status, "", "", "", f"{row.cpu_s:,.1f}"]
        if cost is not None and row.bound is not None:
            off, gap = (cost - published) / published, gap_of(cost, row.bound) or 0.0
            cells[2:6] = f"{cost:,}", f"{off:+.4%}", f"{row.bound:,.0f}", f"{gap:.4%}"
        lines.append(f"| {' | '.join(cells)} |")
    if solved:
        seconds = f"{min(solved):.1f} to {max(solved):.1f}"
        lines.append(f"| {len(solved)} more | optimum | the same | 0 | the same | 0 | {seconds} |")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the references that a file has no rows of, and print the table of all its rows."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.references",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("-o", "--output", required=True, metavar="FILE")
    parser.add_argument("--only", default="*", metavar="PATTERN")
    parser.add_argument("--seconds", type=float, help="else 300 and 60")
    chosen = parser.parse_args(arguments)
    with results_file(chosen.output) as (file, rows):
        had = {row.instance for row in rows}
        for one in references(chosen.folder):
            if one.name in had or not fnmatchcase(one.name, chosen.only):
                continue
            made = list(rows_of(one, chosen.seconds or one.seconds))
            file.write("".join(row.line for row in made).encode())
            file.flush()
            rows += made
            print(one.name, made[-1].status, made[-1].values, file=sys.stderr, flush=True)
    print(table(rows))


if __name__ == "__main__":
    main()
