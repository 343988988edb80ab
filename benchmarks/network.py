"""Jobs that share uplinks: plans with and without the term `contention`, and rules.

Racks of hosts have an uplink each. What counts, after the jobs that start and the racks that they
spread over, is what the jobs send over uplinks beyond their bandwidth.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from benchmarks.baselines import InvalidPlanError
from benchmarks.measure import Measured, RunError, measured
from benchmarks.network_rounds import (
    FULL,
    GPUS,
    LOOSE,
    Asked,
    Figures,
    Kind,
    drawn,
    figures_of,
    hosts_of,
    round_of,
    rules,
)
from benchmarks.plots import figure_bars
from benchmarks.report import ERROR, OURS, Row
from placewright import Plan, Round, solve_round, verify
from placewright.instances.documents.plan import TermResult
from placewright.rounds.certificate import gap_of

__all__ = ["Case", "beaten", "cases", "draw", "run"]

SEEDS = {
    LOOSE: {64: 12, 1000: 3, 10_000: 3},
    FULL: {64: 3, 1000: 3, 10_000: 3},
}
"""How many rounds of each kind, by the number of hosts."""

SECONDS = 60.0
"""Time limit of a solve."""

WITHOUT = f"{OURS}, not the term"
TERMS = {OURS: ("value", "spread", "contention"), WITHOUT: ("value", "spread")}

MILLI = 1000
"""Of a GPU, in which values and spread are counted."""


@dataclass(frozen=True, slots=True)
class Case:
    """A random round of a kind on so many hosts."""

    kind: Kind
    hosts: int
    seed: int

    @property
    def name(self) -> str:
        """What rows call it."""
        return f"{self.hosts} hosts" + (f", {self.kind.name}" if self.kind.name else "")

    @property
    def jobs(self) -> list[Asked]:
        """The jobs that it draws."""
        return drawn(self.kind, self.hosts, self.seed)


def cases(*, quick: bool) -> list[Case]:
    """Return all rounds, or three of the smallest."""
    if quick:
        return [Case(LOOSE, 64, seed) for seed in range(3)]
    return [
        Case(kind, hosts, seed)
        for kind, by_hosts in SEEDS.items()
        for hosts, seeds in by_hosts.items()
        for seed in range(seeds)
    ]


def run(chosen: Sequence[Case], *, quick: bool) -> Iterator[Row]:  # noqa: ARG001
    """Yield a row per round and method."""
    for case in chosen:
        jobs = case.jobs
        try:
            ours = {method: solved(case, terms) for method, terms in TERMS.items()}
        except RunError as error:
            yield Row(case.name, OURS, case.seed, ERROR, note=str(error))
            continue
        proven = terms_of(ours[OURS].result)
        for method, cost in ours.items():
            found = figures_of(case.kind.rack, case.hosts, jobs, hosts_of(cost.result))
            yield _row(case, method, found, [proven, terms_of(cost.result)], cost)
        for rule, placement in rules(case.hosts, jobs, case.seed).items():
            found = figures_of(case.kind.rack, case.hosts, jobs, placement)
            yield _row(case, rule, found, [proven], None)


def solved(case: Case, terms: Sequence[str]) -> Measured[Plan]:
    """Return a verified plan of the round, and what it costs.

    Raises
    ------
    RunError
        If the plan breaks a rule, or there is none.
    """
    make = partial(round_of, case.kind.rack, case.hosts, case.jobs, terms)
    (cost,) = measured(make, _plan_of, 1)
    return cost


def _plan_of(round_: Round) -> Plan:
    plan = solve_round(round_, time_limit=SECONDS)
    found = verify(round_, plan)
    if not found.ok:
        raise InvalidPlanError(f"the plan is invalid: {found.violations[0]}")
    return plan


def terms_of(plan: Plan) -> tuple[TermResult, ...]:
    """Return the terms of a plan's certificate, the most important first.

    Raises
    ------
    InvalidPlanError
        If it has none.
    """
    if plan.certificate is None:
        raise InvalidPlanError("the plan has no certificate; bounds were expected")
    return plan.certificate.terms


def beaten(values: Sequence[int], terms: Sequence[TermResult]) -> str:
    """Say which bound some values beat; nothing if none.

    A bound holds for all that is no worse in the terms before than the plan that proves it.
    """
    for value, term in zip(values, terms, strict=False):
        sign = 1 if term.sense == "max" else -1
        if term.bound is not None and sign * value > sign * term.bound:
            return f"{term.name} {value} beats the bound {term.bound:g}"
        if sign * value < sign * term.value:
            break
    return ""


def draw(rows: Sequence[Row], target: Path) -> None:
    """Draw spread and contention of each method, by the number of hosts."""
    panels = {
        "GPUs": {"spread": "spread"},
        "Mbit/s beyond the uplinks": {"contention": "contention"},
    }
    figure_bars(rows, target, panels)


def _row(
    case: Case,
    method: str,
    found: Figures,
    proven: Sequence[Sequence[TermResult]],
    cost: Measured[Plan] | None,
) -> Row:
    """Return the row of a method, with the bounds of the first proof beside it."""
    values = found.held * GPUS * MILLI, found.spread * MILLI, found.contention
    note = next(filter(None, (beaten(values, terms) for terms in proven)), "")
    figures: dict[str, float] = {"jobs": found.started, "of": len(case.jobs)}
    for title, value, unit in zip(("spread", "contention"), values[1:], (MILLI, 1), strict=True):
        bound = next(term.bound for term in proven[0] if term.name == title)
        gap = gap_of(value, bound)
        figures[title] = value / unit
        if bound is not None and gap is not None:
            figures |= {f"least {title}": bound / unit, f"{title} gap %": 100 * gap}
    figures |= {"overloaded": found.overloaded, "fullest %": 100 * found.fullest}
    return Row(
        case.name,
        method,
        case.seed,
        ERROR if note else "done",
        seconds=None if cost is None else cost.seconds,
        cpu_seconds=None if cost is None else cost.cpu_seconds,
        figures=figures,
        note=note,
    )
