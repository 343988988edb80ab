"""The plan section `cells`: the domains that tenants' cells are bound to, and who runs in them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from placewright.instances.derived.cell_trees import guaranteed
from placewright.instances.documents.cells import Binding
from placewright.instances.documents.round import Round

KIND = "cells"


def cell_section(
    round_: Round,
    bound: Iterable[tuple[int, int, str, str, Iterable[str]]],
    hosts_of: Callable[[int], Iterable[str]],
) -> dict[str, Any]:
    """Return the section: each cell in use with the jobs inside.

    Parameters
    ----------
    round_
        A round in which some tenant owns cells.
    bound
        Tenant, cell, level, domain and hosts of each cell in use.
    hosts_of
        Returns the hosts that a guaranteed job is on after the round.
    """
    jobs_on: defaultdict[str, set[int]] = defaultdict(set)
    for index in guaranteed(round_):
        for host in hosts_of(index):
            jobs_on[host].add(index)
    bindings = []
    for tenant, cell, level, domain, hosts in bound:
        inside = sorted(set().union(*(jobs_on[host] for host in hosts)))
        bindings.append(
            {
                "tenant": round_.tenants[tenant].name,
                "cell": cell,
                "level": level,
                "domain": domain,
                "jobs": [round_.jobs[index].name for index in inside],
            }
        )
    return {"kind": KIND, "bindings": bindings}


def bindings_of(sections: Sequence[Mapping[str, Any]]) -> tuple[Binding, ...]:
    """Return the bindings that a plan's sections have, for the next round."""
    return tuple(
        Binding(tenant=one["tenant"], cell=one["cell"], domain=one["domain"])
        for section in sections
        if section["kind"] == KIND
        for one in section["bindings"]
    )
