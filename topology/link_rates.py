"""Published rates of the links between GPUs, by GPU model.

Tools print how GPUs are joined, hardly ever how fast. Rates are of one direction, in Mbit/s.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from functools import cache

from placewright.topology.catalogue import (
    BETWEEN_SOCKETS_MBPS,
    pcie_mbps,
    through_host_bridge_mbps,
)
from placewright.topology.gpu_links import LinkKind

_UNKNOWN = "guessed, GPU model not known"

# Models as words that all occur in a name, one NVLink or XGMI, and the generation of PCI Express.
# From NVIDIA's and AMD's data sheets, which give the sum of both directions, and of all links of a
# GPU: V100 300 GB/s on 6, A100 600 on 12, H100 900 on 18, B200 1,800 on 18, RTX A6000 112.5 on 4.
# The first row whose words are in the name is meant, so that an RTX 6000 Ada is none of Turing.
_RATES: tuple[tuple[str, int, int], ...] = (
    ("l40s l40 l4 a10 a10g a16 a2 4090 rtx+6000+ada ada", 0, 4),
    ("5090 rtx+pro+6000 blackwell", 0, 5),
    ("t4", 0, 3),
    ("gb300 gb200 b300 b200 b100", 400_000, 5),
    ("gh200 h200 h100 h800 h20 h100nvl", 200_000, 5),
    ("a100 a800 a30", 200_000, 4),
    ("a40 a6000 a5500 a5000 a4500 3090 3090ti", 112_500, 4),
    ("v100 v100s titan+rtx rtx+8000 rtx+6000 rtx8000 rtx6000 2080ti 2080", 200_000, 3),
    ("p100", 160_000, 3),
    ("mi355x mi350x", 614_400, 5),
    ("mi325x mi300x mi300a", 512_000, 5),
    ("mi250x mi250 mi210", 400_000, 4),
    ("mi100", 368_000, 4),
)


# Models that come on one board alone, on which any two GPUs are joined alike: the words of a name,
# as labels of nodes have it, the GPUs of the board, and the host model with these links.
_BOARDS: tuple[tuple[str, int, str], ...] = (
    ("a100+sxm4 a100+80gb tesla+a100", 8, "hgx-a100-8"),
    ("h100+hbm3 h100+80gb", 8, "hgx-h100-8"),
    ("h200", 8, "hgx-h200-8"),
    ("b200", 8, "hgx-b200-8"),
    ("gb200", 4, "gb200-nvl72-tray"),
    ("gb300", 4, "gb300-nvl72-tray"),
    ("mi300x", 8, "mi300x-8"),
    ("mi325x", 8, "mi325x-8"),
)
_NO_BOARD = {"pcie", "nvl", "mig"}


@dataclass(frozen=True, slots=True)
class LinkRates:
    """Rates of the links of one GPU model.

    `model`: which one, as the table has it, or that it is not known. `lane`: one NVLink or XGMI
    link; 0 if the model has none. `pcie`: 16 lanes of PCI Express.
    """

    model: str
    lane: int
    pcie: int

    def of(self, kind: LinkKind, lanes: int = 1) -> int:
        """Return the rate of a link of a kind, of so many lanes."""
        if kind in ("nvlink", "xgmi"):
            return self.lane * lanes
        if kind == "pcie":
            return self.pcie
        through_bridge = through_host_bridge_mbps(self.pcie)
        return through_bridge if kind == "numa" else min(through_bridge, BETWEEN_SOCKETS_MBPS)

    def said(self, kinds: Collection[LinkKind], *, pcie_is_known: bool = False) -> str:
        """Say what the rates of some kinds are taken from."""
        told = [
            f"{self.lane / 8000:g} GB/s for each {name}"
            for kind, name in (("nvlink", "NVLink"), ("xgmi", "XGMI link"))
            if kind in kinds
        ]
        if not {"nvlink", "xgmi"}.issuperset(kinds):
            rate = "as printed" if pcie_is_known else f"{self.pcie / 8000:.1f} GB/s"
            told.append(f"{rate} for PCI Express x16")
        if "numa" in kinds:
            told.append("five sixths of it through a host bridge")
        if "system" in kinds:
            told.append(f"at most {BETWEEN_SOCKETS_MBPS / 8000:g} GB/s between sockets")
        model = _UNKNOWN if self.model == _UNKNOWN else f"as published of {self.model.upper()}"
        return f"rates {model}: {', '.join(told)}" if told else "no link is known"


def link_rates(gpu_model: str | None, kind: LinkKind = "nvlink") -> LinkRates:
    """Return the rates of a GPU model; of one that is not known, low ones of that kind of link."""
    for models, lane, generation in _RATES:
        model = _named(gpu_model, models)
        if model is not None:
            return LinkRates(model.replace("+", " "), lane, pcie_mbps(generation))
    return LinkRates(_UNKNOWN, 400_000 if kind == "xgmi" else 200_000, pcie_mbps(3))


@cache
def board_of(gpu_model: str, gpus: int) -> str | None:
    """Return the host model of the only board that has so many GPUs of a model; None: unknown."""
    if _NO_BOARD & _words(gpu_model):
        return None
    found = (b for models, n, b in _BOARDS if n == gpus and _named(gpu_model, models) is not None)
    return next(found, None)


def _named(gpu_model: str | None, models: str) -> str | None:
    """Return the first of some models whose words are all in a name."""
    words = _words(gpu_model or "")
    return next((one for one in models.split() if words.issuperset(one.split("+"))), None)


def _words(name: str) -> set[str]:
    return set(re.findall(r"[a-z0-9]+", name.lower()))
