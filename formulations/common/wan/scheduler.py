"""Transfer scheduler: which copies can be made within the window, over which paths, and when.

Several routings are tried (routing.py); a timetable gives the copies of each their times
(timetable.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from placewright.formulations.common.wan.arrays import UNLIMITED, Wan
from placewright.formulations.common.wan.min_cost_flow import PathFlow
from placewright.formulations.common.wan.routing import Routes, complete_in, routings, total_gib
from placewright.formulations.common.wan.timetable import (
    Replica,
    Timetable,
    open_timetable,
    saturated_links,
    schedule_all,
)
from placewright.formulations.plan_messages import Flow


@dataclass(frozen=True, slots=True)
class Transfers:
    """Scheduled copies and drops, and the flows in order of their start.

    `creates` are (dataset, region, time of completion), `drops` (dataset, region, time). `refused`
    copies cannot be made beside the others. A requested drop that is not listed would have removed
    the last replica.
    """

    creates: tuple[tuple[int, int, int], ...] = ()
    drops: tuple[tuple[int, int, int], ...] = ()
    flows: tuple[Flow, ...] = ()
    refused: tuple[Replica, ...] = ()


def never_out_of_time() -> bool:
    """Return False: no time limit."""
    return False


def schedule(
    wan: Wan,
    creates: Sequence[Replica],
    drops: Sequence[Replica],
    known: Sequence[Flow] = (),
    out_of_time: Callable[[], bool] = never_out_of_time,
) -> Transfers:
    """Return the schedule that refuses the fewest GiB of copies, of all routings that are tried.

    Parameters
    ----------
    wan
        The regions and their replicas.
    creates
        (dataset, region) of each new replica, most urgent first.
    drops
        (dataset, region) of each replica to delete.
    known
        Flows of copies that can be made together. Those that are among `creates` keep their paths,
        and the others use what is left.
    out_of_time
        Whether the time limit has passed: copies without a path are refused then.

    Raises
    ------
    ValueError
        If a replica is created where one exists or may not be, or dropped where none is complete,
        or named twice.
    """
    _validate(wan, creates, drops)
    best, refused_gib = Transfers(), UNLIMITED
    for routed in routings(wan, creates, drops, _routes_of(known), out_of_time):
        if total_gib(wan, (copy for copy in creates if copy not in routed)) >= refused_gib:
            continue
        saturated = saturated_links(wan, routed)
        for constant_rate_links in (frozenset[Replica](), saturated) if saturated else (saturated,):
            table = open_timetable(wan, routed, drops, constant_rate_links)
            schedule_all(table)
            refused = total_gib(wan, (copy for copy in creates if copy not in table.ready))
            if refused < refused_gib:
                best, refused_gib = _transfers(table, creates), refused
            if len(table.ready) == len(routed):
                break
        if not refused_gib:
            break
    return best


def _routes_of(known: Sequence[Flow]) -> Routes:
    """Return the path flows of copies, in the order in which flows start."""
    gib: Counter[tuple[int, tuple[int, ...]]] = Counter()
    for flow in known:
        gib[flow.dataset, flow.path] += flow.gib
    found: Routes = {}
    for (dataset, path), amount in gib.items():
        copy = dataset, path[-1]
        found[copy] = (*found.get(copy, ()), PathFlow(path, amount))
    return found


def _validate(wan: Wan, creates: Sequence[Replica], drops: Sequence[Replica]) -> None:
    """Raise ValueError if copies or drops contradict the replicas that exist."""
    if len(set(creates)) < len(creates) or len(set(drops)) < len(drops):
        raise ValueError("a replica is named twice")
    for replica in creates:
        if wan.holds[replica] or wan.arriving[replica] or not wan.may_hold[replica]:
            raise ValueError(f"a replica {replica} cannot come: one is there, or may not be")
    for replica in drops:
        if not complete_in(wan, replica[0], wan.round.now)[replica[1]]:
            raise ValueError(f"a replica {replica} cannot go: none is complete there")


def _transfers(table: Timetable, creates: Sequence[Replica]) -> Transfers:
    """Return the transfers of a timetable."""
    kept = [copy for copy in creates if copy in table.ready]
    return Transfers(
        creates=tuple((*copy, table.ready[copy]) for copy in kept),
        drops=tuple((*replica, at) for replica, at in table.dropped.items()),
        flows=tuple(
            sorted(table.flows, key=lambda flow: (flow.start, flow.end, flow.dataset, flow.path))
        ),
        refused=tuple(copy for copy in creates if copy not in table.ready),
    )
