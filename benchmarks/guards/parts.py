"""Parts of the formulations: all phases, found in their lists, and what stands in `MOVES`.

A part is named by its formulation and its name, such as `gang/repacking`. It is replaced where it
is called, so that inner rounds, engines and other formulations are without it, too.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial, wraps
from importlib import import_module
from pkgutil import walk_packages
from typing import Any, TypeAlias

import numpy as np

from placewright import formulations
from placewright.formulations.common.phases import Phase
from placewright.formulations.deadline.heuristics.master_subproblem import Feasibility
from placewright.formulations.gang.problem.limits import NO_BUDGET_PRICES
from placewright.formulations.interleaving import parameters
from placewright.formulations.interleaving.problem.packing_problem import Grouping, GroupingBound
from placewright.formulations.interleaving.set_packing.column_generation import (
    solve_by_column_generation,
)
from placewright.formulations.interleaving.set_packing.columns import (
    AggregatedProblem,
    Columns,
    count_columns,
    enumerate_columns,
)
from placewright.formulations.interleaving.set_packing.integer_program import solve_program
from placewright.formulations.session import Session
from placewright.solver import Arrays, Outcome

__all__ = ["left_out", "observed", "parts"]

Run: TypeAlias = Callable[..., Any]
Place: TypeAlias = tuple[Any, str]
"""A phase, module or class, and the attribute that is called."""

PACKAGE = formulations.__name__


def _returned(value: Any, *_: Any, **__: Any) -> Any:
    return value


def _argument(number: int, *arguments: Any, **_: Any) -> Any:
    return arguments[number]


def _solved_at_once(session: Session, arrays: Arrays, *_: Any, share: float) -> Outcome | None:
    return session.optimise(arrays, share=share)


def _no_columns(packing: Any, prices: Any, columns: Columns, *_: Any) -> Columns:  # noqa: ARG001
    return columns.take(np.zeros(0, dtype=np.int64))


def _without_templates(
    fine: AggregatedProblem,
    _: Any,
    session: Session,
) -> Iterator[Grouping | GroupingBound]:
    packing = fine.packing
    if count_columns(packing) <= parameters.PARAMETERS.max_enumerated_columns:
        search = solve_program(packing, enumerate_columns(packing), session)
    else:
        search = solve_by_column_generation(packing, session)
    for found in search:
        yield fine.disaggregate(found) if isinstance(found, Grouping) else found


def _no_steps(*_: Any, **__: Any) -> Iterator[Any]:
    return iter(())


NONE, NO, FIRST, SECOND, THIRD = (
    partial(_returned, None),
    partial(_returned, False),
    *(partial(_argument, number) for number in range(3)),
)

MOVES: Mapping[str, Run] = {
    **{
        f"gang/{name}": NONE
        for name in (
            "add_failure_domains",
            "add_necessity",
            "add_wide_hosts",
            "cut_anew",
            "exchange_jobs",
            "insert_counts",
            "pack_domains",
            "recut_shares",
            "upgrade_options",
            "DomainSwaps.search",
            "EjectionMoves._eject",
            "HostPatterns.add_patterns_of",
            "PreemptiveInsertion.insert_columns",
            "PreemptiveInsertion.insert_remaining",
            "PreemptiveInsertion.insert_singles",
        )
    },
    **dict.fromkeys(("gang/complete", "gang/reduce_excess", "gang/relieve_links"), NO),
    **dict.fromkeys(("gang/_applies", "gang/AccountCuts.add", "gang/host_patterns_apply"), NO),
    "gang/QuotaExcess.stop_jobs": _no_steps,
    "gang/_GangInsertion._sites": _no_steps,
    "gang/_dual_prices": partial(_returned, {}),
    "gang/_worth_of_running": partial(_returned, {}),
    "gang/_priced": partial(_argument, 4),
    "gang/budget_prices": partial(_returned, NO_BUDGET_PRICES),
    "gang/contention_bounds": _no_steps,
    "gang/option_reduced_costs": NONE,
    "gang/solve_by_sifting": _solved_at_once,
    "gang/stranded_lower_bound": partial(_returned, 0),
    "interleaving/dive": NONE,
    "interleaving/insert_waiting": NONE,
    "interleaving/improve_by_exchange": SECOND,
    "interleaving/price_neighbours": _no_columns,
    "interleaving/solve_by_templates": _without_templates,
    "deadline/choose_alternatives": NONE,
    "deadline/core_search": _no_steps,
    "deadline/find_leases": partial(_returned, Feasibility()),
    "deadline/right_shift": SECOND,
    "deadline/EjectionChains._find_chain": NONE,
    "deadline/DemandRows.violated": _no_steps,
    "deadline/_insert_missing": NONE,
    "deadline/_left_shift": FIRST,
    "geo/integer_value_bound": _no_steps,
    "geo/minimise_remote_reads": THIRD,
    "geo/solve_core_mip": NONE,
    "geo/_Decomposition._assign_single_region_jobs": FIRST,
    "replicas/exchange_homes": SECOND,
    "replicas/drop_idle_replicas": SECOND,
    "replicas/Incumbent.recombine": FIRST,
    "replicas/LargeNeighbourhoodSearch.reoptimise_homes": NO,
    "replicas/ReplicaTree.probe": NONE,
    "replicas/replica_tree_of": NONE,
    "replicas/_Targets.largest_dataset_bounds": _no_steps,
}
"""Neighbourhoods, rows and bounds that are no phases: `formulation/function` or
`formulation/Class.method`, and what runs instead."""


def parts() -> dict[str, list[Place]]:
    """Return where each part is called.

    Raises
    ------
    LookupError
        If there is no function of a name in `MOVES`.
    """
    found: defaultdict[str, list[Place]] = defaultdict(list)
    names = [name for _, name, _ in walk_packages(formulations.__path__, f"{PACKAGE}.")]
    for name, module in [(name, import_module(name)) for name in names]:
        formulation = name.removeprefix(f"{PACKAGE}.").partition(".")[0]
        for phases in vars(module).values():
            for phase in phases if isinstance(phases, tuple) else ():
                if isinstance(phase, Phase):
                    found[f"{formulation}/{phase.name}"].append((phase, "run"))
        for move in MOVES:
            kind, _, path = move.rpartition("/")[2].rpartition(".")
            owner: Any = vars(module).get(kind or path)
            if move.startswith(f"{formulation}/") and getattr(owner, "__module__", "") == name:
                found[move] += [(owner, path)] if kind else _importers(owner, path)
    if missing := sorted(MOVES.keys() - found.keys()):
        raise LookupError(f"formulations have no {', '.join(missing)}")
    return dict(found)


def _importers(function: Run, name: str) -> list[Place]:
    """Return the modules that call a function by its name."""
    modules = [module for key, module in sys.modules.items() if key.startswith("placewright.")]
    return [(module, name) for module in modules if vars(module).get(name) is function]


@contextmanager
def left_out(name: str | None) -> Iterator[None]:
    """Leave a part out; None leaves all in."""
    places = [] if name is None else parts()[name]
    with _replaced([(place, MOVES.get(str(name), _no_steps)) for place in places]):
        yield


@contextmanager
def observed() -> Iterator[set[str]]:
    """Yield a set to which the names of parts are added as they run."""
    ran: set[str] = set()

    def noting(name: str, run: Run) -> Run:
        @wraps(run)
        def noted(*arguments: Any, **named: Any) -> Any:
            ran.add(name)
            return run(*arguments, **named)

        return noted

    found = [(name, place) for name, places in parts().items() for place in places]
    with _replaced([(place, noting(name, getattr(*place))) for name, place in found]):
        yield ran


@contextmanager
def _replaced(runs: list[tuple[Place, Run]]) -> Iterator[None]:
    """Call other functions in some places."""
    before = [(place, getattr(*place)) for place, _ in runs]
    for place, run in runs:
        _set(place, run)
    try:
        yield
    finally:
        for place, run in reversed(before):
            _set(place, run)


def _set(place: Place, run: Run) -> None:
    owner, attribute = place
    if isinstance(owner, Phase):  # frozen
        object.__setattr__(owner, attribute, run)
    else:
        setattr(owner, attribute, run)
