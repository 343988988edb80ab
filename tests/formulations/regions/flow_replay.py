"""An independent replay of transfers: every rule of copies, moment by moment, in fractions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from fractions import Fraction

import numpy as np

from placewright.formulations.common.wan.arrays import Wan, compile_wan
from placewright.formulations.common.wan.routing import Transfers
from placewright.instances.documents.round import Round


def line(
    sizes: dict[str, int],
    held: dict[str, str],
    links: dict[str, int],
    *,
    storage: dict[str, int] | None = None,
    budget: dict[str, int] | None = None,
    egress: dict[str, int] | None = None,
    residency: dict[str, str] | None = None,
    copying: dict[str, int] | None = None,
    window: int = 1000,
    regions: str = "abcd",
) -> Wan:
    """Return a round of regions of one letter; `links` are `{"ab": GiB in 100 seconds}`.

    `copying` is `{"x a": ready}`: dataset and region.
    """
    return compile_wan(
        Round.model_validate(
            {
                "name": "line",
                "now": 100,
                "cluster": {
                    "levels": ["region"],
                    "domains": [{"name": r, "level": "region"} for r in regions],
                    "hosts": [{"name": f"{r}h", "parent": r} for r in regions],
                },
                "geo": {
                    "window_s": window,
                    "regions": [{"name": r, "storage": gib} for r, gib in (storage or {}).items()],
                    "links": [
                        {
                            "source": pair[0],
                            "target": pair[1],
                            "bandwidth": -(-(gib * 2**33) // 10**8),
                            "budget": (budget or {}).get(pair),
                            "egress": (egress or {}).get(pair, 0),
                        }
                        for pair, gib in links.items()
                    ],
                    "datasets": [
                        {
                            "name": name,
                            "size": size,
                            "replicas": list(held.get(name, "")),
                            "regions": list((residency or {})[name])
                            if name in (residency or {})
                            else None,
                        }
                        for name, size in sizes.items()
                    ],
                    "copying": [
                        {"dataset": key.split()[0], "region": key.split()[1], "ready": ready}
                        for key, ready in (copying or {}).items()
                    ],
                },
                "policy": {"formulation": "replicas"},
                "jobs": [],
            }
        )
    )


def broken(
    wan: Wan,
    asked: list[tuple[int, int]],
    unwanted: list[tuple[int, int]],
    found: Transfers,
) -> list[str]:
    """Return the rules that transfers break."""
    return [
        *_copies(wan, asked, unwanted, found),
        *_flows(wan, found),
        *_rates(wan, found),
        *_rooms(wan, found),
    ]


def _copies(
    wan: Wan, asked: list[tuple[int, int]], unwanted: list[tuple[int, int]], found: Transfers
) -> Iterator[str]:
    made = [(d, r) for d, r, _ in found.creates]
    if sorted([*made, *found.refused]) != sorted(asked):
        yield "every copy is made or refused, once"
    if not {(d, r) for d, r, _ in found.drops} <= set(unwanted):
        yield "only what is unwanted is dropped"
    if len({(d, r) for d, r, _ in found.drops}) < len(found.drops):
        yield "a replica is dropped once"
    for d, r, ready in found.creates:
        mine = [flow for flow in found.flows if (flow.dataset, flow.path[-1]) == (d, r)]
        if sum(flow.gib for flow in mine) != wan.size[d]:
            yield f"flows of {d} to {r} add up to its size"
        if max((flow.end for flow in mine), default=None) != ready:
            yield f"{d} is ready at {r} when its last flow ends"
    if {(flow.dataset, flow.path[-1]) for flow in found.flows} - set(made):
        yield "no flow without a create"
    for d in range(len(wan.size)):
        gone = {r: at for e, r, at in found.drops if e == d}
        since = _since(wan, found, d)
        for at in gone.values():
            if not any(since[r] <= at < gone.get(r, at + 1) for r in since):
                yield f"another replica of {d} is complete at {at}"


def _since(wan: Wan, found: Transfers, dataset: int) -> dict[int, int]:
    """Return since when each region has a complete replica."""
    since = {int(r): wan.round.now for r in np.flatnonzero(wan.holds[dataset])}
    since |= {int(r): int(wan.ready[dataset, r]) for r in np.flatnonzero(wan.arriving[dataset])}
    return since | {r: ready for d, r, ready in found.creates if d == dataset}


def _flows(wan: Wan, found: Transfers) -> Iterator[str]:
    now, end = wan.round.now, wan.round.now + wan.round.geo.window_s
    gone = {(d, r): at for d, r, at in found.drops}
    if [flow.start for flow in found.flows] != sorted(flow.start for flow in found.flows):
        yield "flows are in the order of their start"
    if any(not now <= at <= end for at in gone.values()):
        yield "drops are in the window"
    for flow in found.flows:
        source = flow.dataset, flow.path[0]
        if not now <= flow.start < flow.end <= end or flow.gib < 1:
            yield f"{flow} is in the window"
        if _since(wan, found, flow.dataset).get(flow.path[0], end + 1) > flow.start:
            yield f"{flow}: its source is complete"
        if gone.get(source, flow.end) < flow.end:
            yield f"{flow}: its source is not dropped before its end"
        if len(set(flow.path)) < len(flow.path):
            yield f"{flow} passes no region twice"
        if not wan.may_hold[flow.dataset, list(flow.path)].all():
            yield f"{flow} stays within the residency of its dataset"


def _rates(wan: Wan, found: Transfers) -> Iterator[str]:
    passes = defaultdict(list)
    for flow in found.flows:
        for link in zip(flow.path, flow.path[1:], strict=False):
            passes[link].append(flow)
    for link, flows in passes.items():
        if sum(flow.gib for flow in flows) > wan.budget[link]:
            yield f"budget of {link}"
        for moment in {flow.start for flow in flows}:
            rate = sum(
                Fraction(flow.gib * 2**33, 10**6 * (flow.end - flow.start))
                for flow in flows
                if flow.start <= moment < flow.end
            )
            if rate > wan.bandwidth[link] + Fraction(1, 1000):
                yield f"bandwidth of {link} at {moment}"


def _rooms(wan: Wan, found: Transfers) -> Iterator[str]:
    for r in range(len(wan.storage)):
        changes = [(at, -int(wan.size[d])) for d, s, at in found.drops if s == r]
        for d, s, _ in found.creates:
            if s == r:
                mine = [f.start for f in found.flows if (f.dataset, f.path[-1]) == (d, r)]
                changes.append((min(mine), int(wan.size[d])))
        first = int(wan.size @ (wan.holds | wan.arriving)[:, r])
        for moment in {at for at, _ in changes}:
            used = first + sum(gib for at, gib in changes if at <= moment)
            if used > max(int(wan.storage[r]), first):
                yield f"storage of {r} at {moment}"
