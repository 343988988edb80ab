"""InfiniBand fabrics as ibnetdiscover prints them: hosts, switches and their links, as levels.

A fat tree is a graph: hosts have several leaves, and leaves several spines. What is above the same
switches becomes one domain, and the uplink of a domain is the sum of its links. Where that leaves
links out, those between switches are kept as the graph that they are.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import combinations

from placewright.instances.checks.cluster import MAX_FLOW_WORK
from placewright.instances.converters.bookkeeping import Bookkeeping
from placewright.instances.converters.support.live import is_name
from placewright.instances.documents.cluster import MAX_FABRIC_LINKS, LinkEntry
from placewright.instances.errors import InvalidInputError
from placewright.topology.units import HOST_LEVEL

ADAPTERS = "adapters"
LEVELS = ("leaf", "spine", "core")
MAX_LINKS = 500_000
MAX_TIERS = 8
MAX_LEAVES = 64
"""Leaves that one host is joined to: more is the name of several."""

MAX_PAIRS = 4_000_000
"""Pairs of switches to compare; beyond, only those with wholly the same below are together."""

_LATENCIES_US = (2.0, 3.0, 5.0)
"""Those of `topology.builders.TREE_LINKS`, from the host up."""

_BETWEEN_US = 3.0
"""Of a link between two switches."""

_LANE_MBPS = {
    "SDR": 2_000,
    "DDR": 4_000,
    "QDR": 8_000,
    "FDR10": 10_000,
    "FDR": 13_636,
    "EDR": 25_000,
    "HDR": 50_000,
    "NDR": 100_000,
    "XDR": 200_000,
}
"""Data of one lane: InfiniBand Trade Association, roadmap and architecture specification."""

_START = re.compile(r"^[ \t]*(?:Switch|Ca)[ \t]+\d+[ \t]+\"|^switchguid=", re.MULTILINE)
_BLOCK = re.compile(r'(Switch|Ca|Rt)\s+\d+\s+"([^"]{1,64})"\s*#\s*"([^"]{0,256})"')
_EXTERNAL = r"(?:\[ext \d+\])?"
_PORT = re.compile(
    rf'\[\d+\]{_EXTERNAL}\s+"([^"]{{1,64}})"\[\d+\]{_EXTERNAL}(?:\([0-9a-fA-F]+\))?\s*#\s*'
    r'"([^"]{0,256})"(.*)'
)
_RATE = re.compile(r"(?<!\S)(\d{1,2})x([A-Z]+\d*)(?!\S)")
_ADAPTER = re.compile(
    r"(\S+)(?: +((?:HCA-?|qib|hfi|ib[a-z]*)\d[\w.-]*|[A-Za-z][\w.-]*_\d+))?", re.IGNORECASE
)
_MODEL = re.compile(r"[^;:]+;([^;:]+):[^;:]+")


@dataclass(slots=True)
class Fabric:
    """Hosts by their domains from the outermost level to the innermost, and uplinks by level.

    None where a level has no switch above what is there. `uplinks`: Mbit/s of domains and hosts
    that have others, by level and name. `graph`: links between innermost domains and switches, by
    their names, where these are no tree.
    """

    levels: tuple[str, ...]
    places: dict[str, tuple[str | None, ...]]
    links: dict[str, LinkEntry] = field(default_factory=dict)
    uplinks: dict[tuple[str, str], int] = field(default_factory=dict)
    graph: dict[tuple[str, str], LinkEntry] = field(default_factory=dict)


@dataclass(slots=True)
class _Network:
    """Switches by GUID with their descriptions, and Mbit/s from below to above."""

    names: dict[str, str] = field(default_factory=dict)
    hosts: defaultdict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    nameless: defaultdict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    switches: defaultdict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    unrated: bool = False


def is_ibnetdiscover(text: str) -> bool:
    """Whether a text is what ibnetdiscover prints."""
    return _START.search(text) is not None


def read_ibnetdiscover(text: str, book: Bookkeeping) -> Fabric:
    """Return the levels of a fabric.

    Raises `InvalidInputError`: a line is not what ibnetdiscover prints, or no host is at a switch.
    """
    network = _parse(text, book)
    leaves = _leaves(network)
    below: dict[str, Counter[str]] = {}
    for host, links in network.hosts.items():
        at = Counter({guid: rate for guid, rate in links.items() if guid in leaves})
        if at and len(at) <= MAX_LEAVES:
            below[host] = at
        else:
            why = f"is at more than {MAX_LEAVES} leaves" if at else "is at a spine, and no leaf"
            book.leave("hosts", why, host)
    if not below:
        raise InvalidInputError(
            "no host is at a switch; expected switches and adapters as ibnetdiscover prints them",
            show_value=False,
        )
    return _levels(below, network, book)


def _parse(text: str, book: Bookkeeping) -> _Network:
    found = _Network()
    devices: dict[tuple[str, str], str] = {}
    shared: set[str] = set()
    rows = 0
    switch: str | None = None
    for number, line in _lines(text):
        if line.startswith(("Switch", "Ca", "Rt")):
            block = _BLOCK.match(line)
            if block is None:
                raise _unreadable(number, line, 'Switch PORTS "S-GUID" # "description"')
            switch = block[2] if block[1] == "Switch" else None
            if switch is not None:
                if switch in found.switches:
                    raise _unreadable(number, line, "each switch once")
                found.names[switch] = block[3]
                found.switches[switch] = Counter()
        elif line.startswith("[") and switch is not None:
            port, rows = _PORT.match(line), rows + 1
            if port is None or rows > MAX_LINKS:
                what = '[PORT] "GUID"[PORT] # "description" lid N 4xNDR'
                raise _unreadable(number, line, f"at most {MAX_LINKS:,} rows" if port else what)
            rate = _rate(port[3])
            found.unrated |= rate is None
            if port[1].startswith("S-"):
                found.names.setdefault(port[1], port[2])
                found.switches[switch][port[1]] += rate or 1
            elif "Aggregation Node" in port[2]:
                book.leave(ADAPTERS, "is a switch's own", port[1])
            elif (at := _host(port[1], port[2])) is None:
                found.nameless[port[1]][switch] += rate or 1
            else:
                book.take(ADAPTERS)
                shared |= {at[0]} if devices.setdefault(at, port[1]) != port[1] else set()
                found.hosts[at[0]][switch] += rate or 1
    if found.hosts:
        for guid in found.nameless:
            book.leave(ADAPTERS, "names no host", guid)
    elif found.nameless:
        found.hosts = found.nameless
        book.take(ADAPTERS, len(found.hosts))
        book.cannot_say("names of hosts, which no adapter has: each adapter is one")
    for host in sorted(shared):
        book.leave("hosts", "several adapters are the same device of it", host)
        del found.hosts[host]
    return found


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield lines that are not empty with their numbers, without a list of all."""
    number, counted = 1, 0
    for line in re.finditer(r"[^\r\n]+", text):
        number += text.count("\n", counted, line.start())
        counted = line.start()
        yield number, line[0].strip()


def _unreadable(line: int, value: str, expected: str) -> InvalidInputError:
    error = InvalidInputError(f"expected {expected}", value=value)
    error.line = line
    return error


def _rate(text: str) -> int | None:
    rate = _RATE.search(text)
    lane = None if rate is None else _LANE_MBPS.get(rate[2])
    return None if rate is None or lane is None else int(rate[1]) * lane or None


def _host(guid: str, description: str) -> tuple[str, str] | None:
    """Return the host and the device of an adapter; None if its description does not name them."""
    named = _ADAPTER.fullmatch(description.strip())
    host = named[1].strip("'") if named else ""
    if named is None or host == "localhost" or not is_name(host):
        return None
    return host, named[2] or guid


def _leaves(network: _Network) -> set[str]:
    """Return the switches that hosts are at; not a spine with a few hosts of its own.

    All switches at such a spine have at least four times as many.
    """
    hosts = Counter(guid for links in network.hosts.values() for guid in links)
    return {
        guid
        for guid, number in hosts.items()
        if not network.switches[guid]
        or any(hosts[other] < 4 * number for other in network.switches[guid])
    }


def _levels(below: dict[str, Counter[str]], network: _Network, book: Bookkeeping) -> Fabric:
    """Return levels from below up: what is in one domain, then what is above that."""
    called = _called(network.names)
    paths: dict[str, list[str | None]] = {host: [] for host in below}
    domain_of: dict[str, str | None] = {host: host for host in below}
    label_of = {host: host for host in below}
    levels: list[str] = []
    links: dict[str, LinkEntry] = {}
    uplinks: dict[tuple[str, str], int] = {}
    known: set[str] = set()
    notes: list[str] = []
    tiers: list[tuple[str, str, Mapping[str, Counter[str]], Mapping[str, str]]] = []
    leaf_of: dict[str, str] = {}
    while below and len(levels) < MAX_TIERS:
        level = HOST_LEVEL if not levels else levels[-1]
        if not network.unrated:
            total = {label_of[one]: rates.total() for one, rates in below.items()}
            links[level], line = _link(level, len(levels), Counter(total.values()))
            notes.append(line)
            most = links[level].bandwidth_mbps
            uplinks |= {(level, name): rate for name, rate in total.items() if rate != most}
        levels.append(LEVELS[len(levels)] if len(levels) < len(LEVELS) else f"tier-{len(levels)}")
        groups = _groups(below)
        home = {one: _home(rates, groups, called) for one, rates in below.items()}
        inside: defaultdict[str, list[str]] = defaultdict(list)
        for guid, group in groups.items():
            inside[group].append(guid)
        label_of = {group: _name(guids, called) for group, guids in inside.items()}
        domain_of = {host: home.get(one or "") for host, one in domain_of.items()}
        for host, path in paths.items():
            path.append(label_of.get(domain_of[host] or ""))
        tiers.append((level, levels[-1], below, groups))
        leaf_of = leaf_of or {guid: label_of[group] for guid, group in groups.items()}
        known |= groups.keys()
        below = _joining({one: inside[one] for one in sorted(set(home.values()))}, known, network)
    if below:
        book.cannot_say(f"switches more than {MAX_TIERS} tiers above hosts")
    if network.unrated:
        book.cannot_say("bandwidth of uplinks: the rate of some link is not known")
    places = {host: tuple(reversed(path)) for host, path in paths.items()}
    graph = {}
    if any(_loses(*tier, network) for tier in tiers) and not network.unrated:
        domains = {tuple(path[i:]) for path in paths.values() for i in range(len(path))}
        graph = _graph(leaf_of, called, network, MAX_FLOW_WORK // len(domains))
    if graph:
        line = f"links between switches, as a graph: {len(graph):,}; guessed: {_BETWEEN_US} us"
        notes = [*notes[:1], line]
    book.notes += notes
    for tier in tiers:
        _tell(*tier, network, book, kept=bool(graph))
    return Fabric(tuple(reversed(levels)), places, links, uplinks, graph)


def _loses(
    level: str,
    _above: str,
    below: Mapping[str, Counter[str]],
    groups: Mapping[str, str],
    network: _Network,
) -> bool:
    """Whether a tree leaves links between switches out of a level, or out of the one above."""
    split = any(len({groups[guid] for guid in rates}) > 1 for rates in below.values())
    across = any(other in groups for guid in groups for other in network.switches[guid])
    return across or (split and level != HOST_LEVEL)


def _graph(
    leaf_of: Mapping[str, str], called: Mapping[str, str], network: _Network, most: int
) -> dict[tuple[str, str], LinkEntry]:
    """Return links between leaves and switches, nothing if leaves are apart or links too many.

    What both ends print of a link counts once.
    """
    mbps: defaultdict[tuple[str, str], Counter[bool]] = defaultdict(Counter)
    parent: dict[str, str] = {}

    def root(name: str) -> str:
        while (above := parent.setdefault(name, name)) != name:
            parent[name] = name = parent[above]
        return name

    for guid, rates in network.switches.items():
        for other, rate in rates.items():
            a, b = (leaf_of.get(one, called[one]) for one in (guid, other))
            if a != b:
                mbps[min(a, b), max(a, b)][a < b] += rate
                parent[root(a)] = root(b)
    if len(mbps) > min(MAX_FABRIC_LINKS, most) or len(set(map(root, leaf_of.values()))) > 1:
        return {}
    return {
        ends: LinkEntry(bandwidth_mbps=max(found.values()), latency_us=_BETWEEN_US)
        for ends, found in sorted(mbps.items())
    }


def _joining(
    inside: Mapping[str, list[str]], known: set[str], network: _Network
) -> dict[str, Counter[str]]:
    """Return the switches above domains, but for those that join nothing and lead no further up."""
    above: dict[str, Counter[str]] = {one: Counter() for one in inside}
    for one, guids in inside.items():
        for guid in guids:
            above[one].update({g: n for g, n in network.switches[guid].items() if g not in known})
    number = Counter(guid for rates in above.values() for guid in rates)
    ends = {g for g, n in number.items() if n == 1 and known.issuperset(network.switches[g])}
    kept = {one: Counter({g: n for g, n in r.items() if g not in ends}) for one, r in above.items()}
    return {one: rates for one, rates in kept.items() if rates}


def _link(level: str, height: int, rates: Counter[int]) -> tuple[LinkEntry, str]:
    """Return the commonest uplink of a level, the smallest if several are, and a line about it."""
    most = max(rates.values())
    rate = min(one for one, number in rates.items() if number == most)
    latency = _LATENCIES_US[min(height, len(_LATENCIES_US) - 1)]
    line = f"uplink of a {level}: {rate:,} Mbit/s, the sum of its links; guessed: {latency} us"
    if len(rates) > 1:
        others = rates.total() - most
        line += f"; {others:,} have their own, from {min(rates):,} to {max(rates):,}"
    return LinkEntry(bandwidth_mbps=rate, latency_us=latency), line


def _groups(below: Mapping[str, Counter[str]]) -> dict[str, str]:
    """Return, for each switch above, the first of those it is one domain with.

    Two are together where at least half of what is below one of them is below both, counted by the
    one with more.
    """
    members: defaultdict[str, set[str]] = defaultdict(set)
    for one, rates in below.items():
        for guid in rates:
            members[guid].add(one)
    first: dict[frozenset[str], str] = {}
    same = {guid: first.setdefault(frozenset(members[guid]), guid) for guid in sorted(members)}
    distinct = {one: sorted({same[guid] for guid in rates}) for one, rates in below.items()}
    parent = {guid: guid for guid in first.values()}

    def root(guid: str) -> str:
        while parent[guid] != guid:
            parent[guid] = guid = parent[parent[guid]]
        return guid

    if sum(len(guids) ** 2 for guids in distinct.values()) <= MAX_PAIRS:
        shared = Counter(pair for guids in distinct.values() for pair in combinations(guids, 2))
        for (a, b), number in shared.items():
            if 2 * number >= max(len(members[a]), len(members[b])):
                low, high = sorted((root(a), root(b)))
                parent[high] = low
    return {guid: root(same[guid]) for guid in same}


def _home(rates: Counter[str], groups: Mapping[str, str], called: Mapping[str, str]) -> str:
    """Return the group that has most of the links of one below it."""
    total: Counter[str] = Counter()
    for guid, rate in rates.items():
        total[groups[guid]] += rate
    return min(total, key=lambda group: (-total[group], called[group], group))


def _tell(
    level: str,
    above: str,
    below: Mapping[str, Counter[str]],
    groups: Mapping[str, str],
    network: _Network,
    book: Bookkeeping,
    *,
    kept: bool,
) -> None:
    """Say what of the graph the tree does not keep; links between switches may be `kept` beside."""
    drawn = kept and level != HOST_LEVEL
    split = (
        []
        if drawn
        else [one for one, rates in below.items() if len({groups[guid] for guid in rates}) > 1]
    )
    if split:
        what = f"that a {level} is at several {above} domains: it is in that of most links"
        book.cannot_say(what, *sorted(split))
    several = sum(len(rates) > 1 for rates in below.values())
    if several and not drawn:
        most = max(map(len, below.values()))
        book.cannot_say(
            f"which of up to {most} {above} switches carries what of a {level} ({several:,} have "
            f"several)"
        )
    across = sum(other in groups for guid in groups for other in network.switches[guid]) // 2
    if across and not kept:
        book.cannot_say(f"links between {above} switches ({across:,} pairs)")


def _called(names: Mapping[str, str]) -> dict[str, str]:
    """Return short names of switches, and GUIDs where these are none or several have the same."""
    short = {guid: _short(text.strip()) for guid, text in names.items()}
    number = Counter(short.values())
    return {
        guid: name if is_name(name) and number[name] == 1 else guid for guid, name in short.items()
    }


def _short(description: str) -> str:
    """Return the name in a description such as `MF0;A10-SPINE-02:MQM9701/U1`."""
    model = _MODEL.fullmatch(description)
    return model[1] if model else description


def _name(guids: list[str], called: Mapping[str, str]) -> str:
    """Return the name of a domain: its switch, or its first and last one."""
    ordered = sorted((called[guid] for guid in guids), key=_natural)
    return ordered[0] if len(ordered) == 1 else f"{ordered[0]}+{ordered[-1]}"


def _natural(name: str) -> list[tuple[int, str]]:
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in _parts(name)]


def _parts(name: str) -> Iterator[str]:
    return iter(re.findall(r"[0-9]{1,18}|[^0-9]+", name))
