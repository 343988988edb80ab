"""What a tool says of the links in a host, before rates that it does not print are guessed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from placewright.instances.errors import InvalidInputError
from placewright.topology.gpu_links import LINK_KINDS, LinkKind

MAX_GPUS = 64
MAX_NICS = 64
NOT_KNOWN = "-"
ITSELF = "X"


class LinkWord(NamedTuple):
    """A word for a link: its kind, lanes, hops; `pcie_mbps`: of PCI Express, where it is told."""

    kind: LinkKind
    lanes: int = 1
    hops: int = 1
    pcie_mbps: int | None = None


@dataclass(slots=True)
class SaidLinks:
    """A table of words, as a tool gives it.

    `tool`: what gave it. `gpus`: a row of words for each GPU, `X` for itself and `-` where no link
    is known. `nics`: a row for each NIC. `numa`: NUMA node of each GPU, None where it is not given.
    `words`: what they mean. `gpu_model`: one that has such links, where the tool tells that much.
    `notes`: what was left out or guessed.
    """

    tool: str
    gpus: list[list[str]]
    nics: list[list[str]] = field(default_factory=list)
    numa: Sequence[int | None] = ()
    words: dict[str, LinkWord] = field(default_factory=dict)
    gpu_model: str | None = None
    notes: list[str] = field(default_factory=list)

    def make_symmetric(self) -> None:
        """Take the worse of two words where a pair of GPUs has one each way."""
        differ = []
        for i, row in enumerate(self.gpus):
            for j in range(i):
                if row[j] != self.gpus[j][i]:
                    worse = min(row[j], self.gpus[j][i], key=self._rank)
                    row[j] = self.gpus[j][i] = worse
                    differ.append(f"{j}-{i}")
        if differ:
            pairs = ", ".join(differ[:4]) + (" and more" if len(differ) > 4 else "")
            self.notes.append(f"the worse word is taken of GPUs that have one each way: {pairs}")

    def _rank(self, word: str) -> tuple[int, int]:
        if word not in self.words:
            return -1, 0
        meant = self.words[word]
        return LINK_KINDS.index(meant.kind), meant.pcie_mbps or meant.lanes


def unreadable(expected: str, line: int | None = None, value: str | None = None) -> Exception:
    """Return the error of a line of a tool's text."""
    error = InvalidInputError(expected, value=value, show_value=value is not None)
    error.line = line
    return error
