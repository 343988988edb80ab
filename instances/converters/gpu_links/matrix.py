"""Link matrix of what a tool says, with the rates that it does not print."""

from __future__ import annotations

from placewright.instances.converters.gpu_links.said import LinkWord, SaidLinks
from placewright.instances.documents.cluster import LinkClass, LinkMatrix
from placewright.instances.errors import InvalidInputError
from placewright.topology import LINK_MATRICES
from placewright.topology.link_rates import LinkRates, link_rates

MAX_WORDS = 64


def matrix_of(said: SaidLinks, name: str, gpu_model: str | None, notes: list[str]) -> LinkMatrix:
    """Return a link matrix, and note what in it is guessed.

    Rates that the tool does not say are those of the GPU model, or low ones.

    Raises
    ------
    InvalidInputError
        The model has no such links, the name is a host model's, or there are too many words.
    """
    said.make_symmetric()
    if name in LINK_MATRICES:
        raise InvalidInputError("is the name of a host model; expected another", ("name",), name)
    used = {word for row in (*said.gpus, *said.nics) for word in row}
    words = {word: meant for word, meant in said.words.items() if word in used}
    if len(words) > MAX_WORDS:
        raise InvalidInputError(f"has {len(words)} kinds of links; expected at most {MAX_WORDS}")
    kinds = {word.kind for word in words.values()}
    rates = link_rates(gpu_model or said.gpu_model, "xgmi" if "xgmi" in kinds else "nvlink")
    numa = [node for node in said.numa if node is not None]
    known = len(numa) == len(said.gpus)
    if not known:
        said.notes.append("NUMA nodes of GPUs are not known")
    printed = any(word.pcie_mbps for word in words.values())
    guessed = rates.said(kinds, pcie_is_known=printed)
    if not gpu_model and said.gpu_model:
        guessed += ", by the compute capability of the GPUs"
    notes += [guessed, *said.notes]
    return LinkMatrix(
        name=name,
        classes={
            word: LinkClass(kind=meant.kind, bandwidth_mbps=_mbps(word, meant, rates))
            for word, meant in words.items()
        },
        gpus=tuple(" ".join(row) for row in said.gpus),
        nics=tuple(" ".join(row) for row in said.nics),
        numa=tuple(numa) if known else (),
        source="; ".join([said.tool, guessed, *said.notes])[:1024],
    )


def _mbps(word: str, meant: LinkWord, rates: LinkRates) -> int:
    """Return the rate of a word: what the tool says of it, else what is published."""
    if meant.pcie_mbps is not None:
        rates = LinkRates(rates.model, rates.lane, meant.pcie_mbps)
    found = rates.of(meant.kind, meant.lanes) // meant.hops
    if not found:
        raise InvalidInputError(
            f"has no {meant.kind}, and the text says {word}; expected another model",
            ("gpu_model",),
            rates.model,
        )
    return found
