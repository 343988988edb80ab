"""When claims for whole cells fit what is free."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from placewright.formulations.cells.chain import Chain


def claims_fit(chain: Chain, claims: Sequence[int], free: Sequence[int]) -> bool:
    """Whether claims for cells can all be met at once from free ones.

    Parameters
    ----------
    chain
        Its tree is uniform, which is what makes the rows sufficient.
    claims
        Per level, the cells that may still be asked for.
    free
        Per level, the maximal free cells: those that no other free cell holds.

    Notes
    -----
    For every level l, with c(m, l) cells of level l in one of level m:

        sum over m >= l of c(m, l) claims[m]  <=  sum over m >= l of c(m, l) free[m]

    Necessary, since a claim of level l or above takes from free cells of level l or above only.
    Sufficient, by putting the largest claims first: in a uniform tree whatever they leave of a cell
    splits into whole cells of the next level.
    """
    pairs = zip(_sums(chain, claims), _sums(chain, free), strict=True)
    return all(claimed <= there for claimed, there in pairs)


def _sums(chain: Chain, cells: Sequence[int]) -> Iterator[int]:
    """Yield what the cells of a level and of those above hold, in cells of that level."""
    held = 0
    for level in reversed(range(chain.levels)):
        held = cells[level] + (held * chain.children[level] if level < chain.levels - 1 else 0)
        yield held
