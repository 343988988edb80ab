"""Rules about flows: their paths, times and sources, and the load of links."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import groupby, pairwise
from operator import itemgetter

from placewright.instances.documents.plan_data import Flow
from placewright.instances.errors import Path
from placewright.instances.verify.data_facts import Data
from placewright.instances.verify.reading import Reading
from placewright.instances.verify.result import Finding, Rule
from placewright.instances.verify.rules.geo.copies import window

MEGABITS = 8 * 2**30 / 10**6
"""Of one GiB."""
TOLERANCE = 1.0
"""Mbit/s by which flows may exceed a link, since they are in whole GiB and seconds."""


def flow_path(reading: Reading) -> Iterator[Finding]:
    """Require paths over links that carry something, through regions where the data may be."""
    for data, number, flow in _flows(reading):
        path: Path = (*data.paths["flows"], "flows", number, "path")
        facts = data.facts
        within = facts.datasets[flow.dataset].within
        route = [facts.number[region] for region in flow.path]
        if len(set(route)) < len(route):
            problem = "comes to a region twice; expected each region once"
        elif outside := [name for name in flow.path if not within >> facts.number[name] & 1]:
            problem = f"passes region {outside[0]!r}; expected only regions where the data may be"
        elif gaps := [pair for pair in pairwise(route) if pair not in facts.links]:
            source, target = (facts.regions[region] for region in gaps[0])
            problem = f"has no link from {source!r} to {target!r}; expected links that carry data"
        else:
            continue
        yield Finding(path, f"flow of dataset {flow.dataset!r} {problem}")


def flow_times(reading: Reading) -> Iterator[Finding]:
    """Require flows within the window, each of a second or more, in the order of their start."""
    data = reading.data
    if data is None:
        return
    (first, last), before = window(reading), 0
    for number, flow in enumerate(data.flows.flows):
        path: Path = (*data.paths["flows"], "flows", number)
        if not first <= flow.start < flow.end <= last:
            yield Finding(
                path,
                f"flow of dataset {flow.dataset!r} lasts from {flow.start} to {flow.end}; "
                f"expected a second or more from {first} to {last}",
            )
        elif flow.start < before:
            yield Finding(
                (*path, "start"),
                f"flow of dataset {flow.dataset!r} starts at {flow.start}, and the one before at "
                f"{before}; expected flows in the order of their start",
            )
        before = max(before, flow.start)


def flow_source(reading: Reading) -> Iterator[Finding]:
    """Require that the first region of a path holds the dataset as long as the flow lasts."""
    for data, number, flow in _flows(reading):
        source = data.facts.number[flow.path[0]]
        since = data.since(flow.dataset, source)
        until = data.gone.get((flow.dataset, source))
        if since is None:
            problem = "never holds it"
        elif since > flow.start:
            problem = f"holds it from {since} on"
        elif until is not None and until < flow.end:
            problem = f"holds it until {until}"
        else:
            continue
        yield Finding(
            (*data.paths["flows"], "flows", number, "path", 0),
            f"flow of dataset {flow.dataset!r} from {flow.start} to {flow.end} leaves region "
            f"{flow.path[0]!r}, which {problem}; expected a replica all that time",
        )


def link_budget(reading: Reading) -> Iterator[Finding]:
    """Require that the flows over a link take no more GiB than its budget for the window."""
    taken: defaultdict[tuple[int, int], int] = defaultdict(int)
    last: dict[tuple[int, int], int] = {}
    for _, number, pair, flow in _hops(reading):
        taken[pair] += flow.gib
        last[pair] = number
    data = reading.data
    if data is None:
        return
    for pair, gib in taken.items():
        budget = reading.round.geo.budget(data.facts.links[pair])
        if gib > budget:
            yield Finding(
                (*data.paths["flows"], "flows", last[pair], "gib"),
                f"flows from region {data.facts.regions[pair[0]]!r} to "
                f"{data.facts.regions[pair[1]]!r} take {gib} GiB together; "
                f"expected at most {budget}",
            )


def link_rate(reading: Reading) -> Iterator[Finding]:
    """Require that the rates of the flows over a link never exceed its bandwidth."""
    changes: defaultdict[tuple[int, int], list[tuple[int, float, int]]] = defaultdict(list)
    for _, number, pair, flow in _hops(reading):
        if flow.start < flow.end:
            rate = flow.gib * MEGABITS / (flow.end - flow.start)
            changes[pair] += [(flow.start, rate, number), (flow.end, -rate, number)]
    data = reading.data
    if data is None:
        return
    for pair, events in changes.items():
        bandwidth, rate = data.facts.links[pair].bandwidth, 0.0
        for at, together in groupby(sorted(events), key=itemgetter(0)):
            now = list(together)
            rate += sum(change for _, change, _ in now)
            if rate > bandwidth * (1 + 1e-9) + TOLERANCE:
                yield Finding(
                    (*data.paths["flows"], "flows", now[-1][2]),
                    f"flows from region {data.facts.regions[pair[0]]!r} to "
                    f"{data.facts.regions[pair[1]]!r} take {rate:.0f} Mbit/s at {at}; "
                    f"expected at most {bandwidth}",
                )
                break


def _flows(reading: Reading) -> Iterator[tuple[Data, int, Flow]]:
    """Yield the flows of which dataset and regions are known, with their numbers."""
    data = reading.data
    if data is None:
        return
    for number, flow in enumerate(data.flows.flows):
        known = all(region in data.facts.number for region in flow.path)
        if known and flow.dataset in data.facts.datasets:
            yield data, number, flow


def _hops(reading: Reading) -> Iterator[tuple[Data, int, tuple[int, int], Flow]]:
    """Yield each flow with each link that it takes."""
    for data, number, flow in _flows(reading):
        for pair in pairwise(data.facts.number[region] for region in flow.path):
            if pair in data.facts.links:
                yield data, number, pair, flow


RULES_OF_FLOWS: tuple[Rule[Reading], ...] = (
    Rule("flow_path", flow_path),
    Rule("flow_times", flow_times),
    Rule("flow_source", flow_source),
    Rule("link_budget", link_budget),
    Rule("link_rate", link_rate),
)
