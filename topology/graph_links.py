"""Link matrices of the hosts of a graph: those that it lists, and those that its edges make."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from placewright.topology.gpu_links import MOST_GPUS, GpuLinks
from placewright.topology.graph import Node
from placewright.topology.graph_attributes import graph_error, listed_matrices, show
from placewright.topology.wired_links import Wire, difference, says_the_same, wired_links

MAX_WORK = 20_000_000
"""Steps that the link matrices of all hosts may take; equal hosts count once."""


class Wiring(NamedTuple):
    """What edges say of a host: its numbers of ends, its switches and wires, and NUMA nodes."""

    gpus: int
    nics: int
    through: tuple[int, ...]
    wires: tuple[Wire, ...]
    numa: tuple[int, ...]

    @property
    def work(self) -> int:
        """Steps, at most, that its link matrix takes."""
        ends, number = self.gpus + self.nics, len(self.wires)
        over_several = any(min(wire[:2]) >= ends for wire in self.wires)
        return self.gpus * (ends + number) + number * number * over_several


class HostLinks:
    """Link matrices by name; hosts that are wired alike share one.

    Attributes
    ----------
    made : dict of GpuLinks to GpuLinks
        Those that edges make, without their names and with them.
    """

    def __init__(self, listed: Sequence[Any]) -> None:
        self.made: dict[GpuLinks, GpuLinks] = {}
        self._known = listed_matrices(listed)
        self._found: dict[tuple[str | None, str | None, Wiring], GpuLinks] = {}
        self._work = 0

    def of(
        self, node: Node, named: str | None, model: str | None, gpus: int, wiring: Wiring | None
    ) -> GpuLinks | None:
        """Return the links between a host's GPUs; None if nothing says what they are.

        Edges say it in place of the host model; with a matrix that the host names they agree.
        """
        whole = self._known.get(named or model or "")
        if named is not None and (whole is None or whole.gpus < gpus):
            what = "is unknown" if whole is None else f"is of {whole.gpus} GPUs, not of {gpus}"
            raise graph_error(
                [node],
                f"link matrix {show(named)} {what}; expected one of the graph's gpu_links, or of "
                f"a host model, of as many GPUs",
            )
        listed = whole.first(gpus) if whole is not None and gpus else None
        if wiring is None:
            return listed
        key = named, model, wiring
        if key not in self._found:
            self._work += wiring.work
            if self._work > MAX_WORK:
                raise graph_error(
                    [node],
                    "its links, and those of hosts before it, are too many to look at; expected "
                    "fewer hosts that differ, or fewer GPUs, NICs and switches in each",
                )
            self._found[key] = self._compared(node, named, listed, wiring)
        return self._found[key]

    def _compared(
        self, node: Node, named: str | None, listed: GpuLinks | None, wiring: Wiring
    ) -> GpuLinks:
        if listed is not None and not wiring.wires:
            drawn = replace(listed, name="", source="", numa=wiring.numa)
        else:
            drawn = replace(wired_links(*wiring[:4]), numa=wiring.numa)
        if wiring.gpus > MOST_GPUS and not drawn.is_uniform:
            raise graph_error(
                [node],
                f"has {wiring.gpus} GPUs with different links; expected at most {MOST_GPUS}, or "
                f"the same link between any two",
            )
        if listed is not None and says_the_same(drawn, listed):
            return listed
        if named is not None and listed is not None:
            what = difference(drawn, listed)
            raise graph_error([node], f"by its edges {what} of its matrix {named!r}")
        if drawn not in self.made:
            number = len(self.made) + 1
            while f"links-{number}" in self._known:
                number += 1
            self.made[drawn] = replace(drawn, name=f"links-{number}")
            self._known[f"links-{number}"] = self.made[drawn]
        return self.made[drawn]
