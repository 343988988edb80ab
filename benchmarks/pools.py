"""What hosts share: power of racks, and a store of checkpoints; plans with pools beside rules.

Power: racks have a budget below what their hosts draw together. Storage: all jobs write their
checkpoints to one store. What counts is value, and the work that failures lose; and what pools
cost beside the same round without them, in CPU seconds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal, TypeAlias

from benchmarks import pools_power, pools_storage
from benchmarks.baselines import InvalidPlanError
from benchmarks.measure import REPEATS, Measured, RunError, measured
from benchmarks.report import ERROR, OURS, Row
from placewright import Plan, Round, solve_round, verify
from placewright.instances.documents.plan import TermResult
from placewright.rounds.certificate import gap_of

__all__ = ["EVEN", "WIDE", "WITHOUT", "Case", "cases", "run"]

SEEDS = {64: 12, 1000: 3, 10_000: 1}
"""Rounds by the number of hosts."""

MOST_REPEATED = 1000
"""Hosts of rounds that are solved several times."""

SECONDS = 1800.0
"""Time limit of a solve, far above what one takes."""

WITHOUT, WIDE, EVEN = f"{OURS}, no pools", f"{OURS}, wide pools", "even split"

Kind: TypeAlias = Literal["power", "storage", "few bits"]
KINDS: tuple[Kind, ...] = ("power", "storage", "few bits")
"""Budgets of racks; a store, and states in 32 bits, or in 2, 3, 4 and 8 as well."""


@dataclass(frozen=True, slots=True)
class Case:
    """A random round on so many hosts, about power or a store."""

    kind: Kind
    hosts: int
    seed: int

    @property
    def name(self) -> str:
        """What rows call it."""
        return f"{self.kind}, {self.hosts} hosts"

    @property
    def bits(self) -> Mapping[int, int]:
        """Bits with which states may be written, and their cost."""
        return pools_storage.BITS if self.kind == "few bits" else pools_storage.FULL


def cases(*, quick: bool) -> list[Case]:
    """Return all rounds, or three of the smallest of each kind."""
    seeds = {64: 3} if quick else SEEDS
    return [
        Case(kind, hosts, seed)
        for kind in KINDS
        for hosts, number in seeds.items()
        for seed in range(number)
    ]


def run(chosen: Sequence[Case], *, quick: bool) -> Iterator[Row]:
    """Yield a row per round and method."""
    for case in chosen:
        repeats = 1 if quick or case.hosts > MOST_REPEATED else REPEATS
        try:
            yield from (_power if case.kind == "power" else _storage)(case, repeats)
        except RunError as error:
            yield Row(case.name, OURS, case.seed, ERROR, note=str(error))


def _power(case: Case, repeats: int) -> Iterator[Row]:
    hosts, jobs = case.hosts, pools_power.drawn(case.hosts, case.seed)
    ways: dict[str, pools_power.Way] = {
        OURS: "pools",
        EVEN: "even",
        WIDE: "wide",
        WITHOUT: "none",
    }
    costs = {
        method: solved(partial(pools_power.round_of, hosts, jobs, way), repeats)
        for method, way in ways.items()
    }
    proven = first_term(costs[OURS].result)
    placements = {method: pools_power.hosts_of(cost.result) for method, cost in costs.items()}
    placements["first fit"] = pools_power.first_fit(hosts, jobs)
    for method, placement in placements.items():
        found = pools_power.figures_of(hosts, jobs, placement)
        figures = {
            "jobs": found.started,
            "of": len(jobs),
            "GPUs %": 100 * found.gpus / (hosts * pools_power.GPUS),
            "racks beyond": found.beyond,
            "fullest %": 100 * found.fullest,
        }
        note = "breaks budgets" if found.beyond else ""
        yield _row(case, method, found.value, proven, costs, figures, note)


def _storage(case: Case, repeats: int) -> Iterator[Row]:
    hosts, jobs = case.hosts, pools_storage.drawn(case.hosts, case.seed)
    store = pools_storage.store_mbps(jobs)
    fastest = [pools_storage.Choice(min(pools_storage.INTERVALS), 32)] * len(jobs)
    capacities = {OURS: store, WIDE: pools_storage.load_of(jobs, fastest), WITHOUT: None}
    rounds = {
        method: partial(pools_storage.round_of, hosts, jobs, case.bits, capacity)
        for method, capacity in capacities.items()
    }
    costs = {method: solved(prepare, repeats) for method, prepare in rounds.items()}
    proven = first_term(costs[OURS].result)
    made = {
        method: pools_storage.choices_of(prepare(), costs[method].result)
        for method, prepare in rounds.items()
    }
    made["equal bandwidth"] = pools_storage.equal_bandwidth(jobs, case.bits)
    made["equal intervals"] = pools_storage.equal_intervals(jobs, case.bits)
    waiting = pools_storage.lost_of(jobs, [None] * len(jobs), case.bits)
    for method, choices in made.items():
        lost = pools_storage.lost_of(jobs, choices, case.bits)
        load = pools_storage.load_of(jobs, choices)
        figures = {"lost work": lost, "store %": 100 * load / store}
        if load <= store and proven.bound is not None:
            least = waiting - proven.bound
            figures |= {"at least": least, "lost gap %": 100 * (lost - least) / lost}
        note = "breaks budgets" if load > store else ""
        yield _row(case, method, int(waiting - lost), proven, costs, figures, note)


def solved(prepare: partial[Round], repeats: int) -> Measured[Plan]:
    """Return a verified plan of a round, and what it costs: the median of some runs.

    Raises
    ------
    RunError
        If the plan breaks a rule, or there is none.
    """
    return measured(prepare, _plan_of, repeats)[repeats // 2]


def _plan_of(round_: Round) -> Plan:
    plan = solve_round(round_, time_limit=SECONDS)
    found = verify(round_, plan)
    if not found.ok:
        raise InvalidPlanError(f"the plan is invalid: {found.violations[0]}")
    return plan


def first_term(plan: Plan) -> TermResult:
    """Return the value of a plan, with its bound.

    Raises
    ------
    InvalidPlanError
        If it has no certificate.
    """
    if plan.certificate is None:
        raise InvalidPlanError("the plan has no certificate; bounds were expected")
    return plan.certificate.terms[0]


def _row(
    case: Case,
    method: str,
    value: int,
    proven: TermResult,
    costs: Mapping[str, Measured[Plan]],
    figures: Mapping[str, float],
    note: str,
) -> Row:
    """Return the row of a method, with the bound of the plan with pools beside it.

    That bound is one for all that keeps to the budgets.
    """
    cost, keeps = costs.get(method), not note
    gap = gap_of(value, proven.bound) if keeps else None
    beaten = keeps and proven.bound is not None and value > proven.bound
    allowed = keeps or method in (WIDE, WITHOUT)
    ratio = (
        {"x no pools": cost.cpu_seconds / costs[WITHOUT].cpu_seconds}
        if cost is not None and method in (OURS, WIDE)
        else {}
    )
    return Row(
        case.name,
        method,
        case.seed,
        "done" if allowed and not beaten else ERROR,
        term=proven.name,
        value=value,
        bound=proven.bound,
        gap=gap,
        best_gap=gap,
        seconds=None if cost is None else cost.seconds,
        cpu_seconds=None if cost is None else cost.cpu_seconds,
        peak_mib=None if cost is None else cost.peak_mib,
        figures={**figures, **ratio},
        note="beats the bound" if beaten else note,
    )
