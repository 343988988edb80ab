"""Rules about replicas and flows: complete copies, storage, paths, times and the load of links."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import groupby, pairwise
from operator import itemgetter

from placewright.instances.documents.plan_data import Flow
from placewright.instances.errors import Path
from placewright.instances.verify.reading import Data, Reading, bits
from placewright.instances.verify.result import Finding, rules

# Rules about replicas: creation and deletion, complete copies, and storage at every moment.


def create(reading: Reading) -> Iterator[Finding]:
    """Require new replicas in regions that may hold the dataset, and neither have nor get it."""
    data = reading.geo
    seen: set[tuple[str, str]] = set()
    for number, one in enumerate(data.replicas.creates):
        dataset, region = data.facts.datasets.get(one.dataset), data.facts.number.get(one.region)
        if dataset is None or region is None:
            continue
        if (one.dataset, one.region) in seen:
            problem = f"gets dataset {one.dataset!r} already; expected each new replica once"
        elif one.region in dataset.document.replicas:
            problem = f"holds dataset {one.dataset!r}; expected a region without a replica"
        elif region in dataset.arriving:
            problem = f"has a copy of dataset {one.dataset!r} under way; expected a region without"
        elif not dataset.within >> region & 1:
            problem = f"may not hold dataset {one.dataset!r}; expected one of its regions"
        else:
            seen.add((one.dataset, one.region))
            continue
        path: Path = (*data.paths["replicas"], "creates", number, "region")
        yield Finding(path, f"region {one.region!r} {problem}")


def copy(reading: Reading) -> Iterator[Finding]:
    """Require of each new replica flows of its whole size, the last of which ends when it is ready.

    And no flow without a new replica at its end.
    """
    data = reading.geo
    gib: defaultdict[tuple[str, str], int] = defaultdict(int)
    end: defaultdict[tuple[str, str], int] = defaultdict(int)
    wanted = {(one.dataset, one.region) for one in data.replicas.creates}
    for number, flow in enumerate(data.flows.flows):
        copied = flow.dataset, flow.path[-1]
        gib[copied] += flow.gib
        end[copied] = max(end[copied], flow.end)
        if copied not in wanted and copied[0] in data.facts.datasets:
            yield Finding(
                (*data.paths["flows"], "flows", number, "path"),
                f"dataset {copied[0]!r} goes to region {copied[1]!r}, which gets no replica; "
                "expected a new replica where flows end",
            )
    for number, one in enumerate(data.replicas.creates):
        dataset = data.facts.datasets.get(one.dataset)
        if dataset is None:
            continue
        path: Path = (*data.paths["replicas"], "creates", number)
        copied, size = (one.dataset, one.region), dataset.document.size
        if gib[copied] != size:
            yield Finding(
                path,
                f"{gib[copied]} GiB of dataset {one.dataset!r} go to region {one.region!r}; "
                f"expected its {size} GiB",
            )
        elif one.ready != end[copied]:
            yield Finding(
                (*path, "ready"),
                f"dataset {one.dataset!r} is in region {one.region!r} at {end[copied]}, "
                f"not at {one.ready}; expected the end of the last flow",
            )


def drop(reading: Reading) -> Iterator[Finding]:
    """Require that a deleted replica is complete now, and is deleted once and within the window."""
    data = reading.geo
    seen: set[tuple[str, str]] = set()
    first, last = window(reading)
    for number, one in enumerate(data.replicas.drops):
        dataset, region = data.facts.datasets.get(one.dataset), data.facts.number.get(one.region)
        if dataset is None or region is None:
            continue
        path: Path = (*data.paths["replicas"], "drops", number)
        if (one.dataset, one.region) in seen:
            problem = "is deleted already; expected each replica once"
        elif not dataset.now >> region & 1:
            problem = "is not there now; expected one that is complete"
        else:
            seen.add((one.dataset, one.region))
            if not first <= one.at <= last:
                yield Finding(
                    (*path, "at"),
                    f"replica of dataset {one.dataset!r} is deleted at {one.at}; "
                    f"expected a time from {first} to {last}",
                )
            continue
        yield Finding(
            path, f"replica of dataset {one.dataset!r} in region {one.region!r} {problem}"
        )


def last_replica(reading: Reading) -> Iterator[Finding]:
    """Require that a dataset with a replica is complete in some region at every moment."""
    data = reading.geo
    for name in dict.fromkeys(name for name, _ in data.gone):
        gap = _first_loss(data, name)
        if gap is not None:
            yield Finding(
                (*data.paths["replicas"], "drops"),
                f"no region has dataset {name!r} at {gap}; "
                "expected a complete replica at every moment",
            )


def _first_loss(data: Data, name: str) -> int | None:
    """Return the first moment at which no region holds a dataset; None if there is none.

    A replica is there from some moment on, and if it is deleted until another.
    """
    spans = [
        (since, data.gone.get((name, region)))
        for region in range(len(data.facts.regions))
        if (since := data.since(name, region)) is not None
    ]
    reach: int | None = None
    for since, until in sorted(spans, key=itemgetter(0)):
        if reach is not None and since > reach:
            break
        if until is None:
            return None
        reach = max(until, since if reach is None else reach)
    return reach


def storage(reading: Reading) -> Iterator[Finding]:
    """Require that the replicas of a region, arriving ones too, fit its storage at every moment.

    A region that holds more than its storage already may do so, but no more than it held.
    """
    data = reading.geo
    facts = data.facts
    held: defaultdict[int, int] = defaultdict(int)
    for dataset in facts.datasets.values():
        there = dataset.now
        for region in dataset.arriving:
            there |= 1 << region
        for region in bits(there):
            held[region] += dataset.document.size
    events = sorted(_events(data), key=itemgetter(0, 1))
    for region, changes in groupby(events, key=itemgetter(0)):
        entry = facts.entries.get(region)
        if entry is None or entry.storage is None:
            continue
        limit, used, most, when = max(entry.storage, held[region]), held[region], 0, 0
        for at, together in groupby(changes, key=itemgetter(1)):
            used += sum(amount for *_, amount in together)
            if used > most:
                most, when = used, at
        if most > limit:
            yield Finding(
                data.paths["replicas"],
                f"region {facts.regions[region]!r} holds {most} GiB at {when}; expected at most "
                f"{limit} (storage {entry.storage}, held before {held[region]})",
            )


def window(reading: Reading) -> tuple[int, int]:
    """Return the first and the last moment of what a plan moves."""
    return reading.round.now, reading.round.now + reading.round.geo.window_s


def _events(data: Data) -> Iterator[tuple[int, int, int]]:
    """Yield what changes in a region, when, and by how many GiB."""
    first: dict[tuple[str, str], int] = {}
    for flow in data.flows.flows:
        copied = flow.dataset, flow.path[-1]
        first[copied] = min(first.get(copied, flow.start), flow.start)
    for (name, region), ready in data.complete.items():
        here = data.facts.datasets[name]
        if here.now >> region & 1 or region in here.arriving:
            continue  # its storage is taken already
        start = first.get((name, data.facts.regions[region]), ready)
        yield region, start, here.document.size
    for (name, region), at in data.gone.items():
        yield region, at, -data.facts.datasets[name].document.size


RULES_OF_COPIES = rules(create, copy, drop, last_replica, storage)


# Rules about flows: their paths, times and sources, and the load of links.


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
    data = reading.geo
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
    data = reading.geo
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
    data = reading.geo
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
    data = reading.geo
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


RULES_OF_FLOWS = rules(flow_path, flow_times, flow_source, link_budget, link_rate)
