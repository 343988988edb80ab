"""Variables, rows and objective terms, appended as named blocks of arrays."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from placewright.array_types import Bools, Floats, Ints
from placewright.solver.arrays import ALWAYS, Arrays, Sense, csr

Numbers: TypeAlias = npt.ArrayLike


@dataclass(frozen=True, slots=True)
class Block:
    """A run of columns or rows that were appended together.

    `name`: several blocks may share a name. `start`, `size`: the block holds the indices ``start``
    to ``start + size - 1``. `keys`: one key per index, or None: then the key is the position inside
    the block.
    """

    name: str
    start: int
    size: int
    keys: Sequence[Hashable] | None

    def key(self, index: int) -> Hashable:
        """Give the key of the column or row with this index in the model."""
        position = index - self.start
        return position if self.keys is None else self.keys[position]


def end(blocks: list[Block]) -> int:
    """Give the number of columns or rows in the blocks."""
    return blocks[-1].start + blocks[-1].size if blocks else 0


def new_block(blocks: list[Block], name: str, size: int, keys: Sequence[Hashable] | None) -> Block:
    """Make the block that would follow these; ValueError for a bad size or wrong keys."""
    if size < 0:
        raise ValueError(f"size {size} of block {name!r} is negative; 0 or more was expected")
    if keys is not None and len(keys) != size:
        raise ValueError(f"block {name!r} has {len(keys)} keys; {size} were expected")
    return Block(name, end(blocks), size, keys)


def indices(block: Block) -> Ints:
    """Give the columns or rows of a block, shape (size,)."""
    return np.arange(block.start, block.start + block.size, dtype=np.int64)


def interval(block: Block, lower: Numbers, upper: Numbers) -> tuple[Floats, Floats]:
    """Copy scalar or array bounds to shape (size,)."""
    low = np.broadcast_to(np.asarray(lower, dtype=np.float64), block.size).copy()
    high = np.broadcast_to(np.asarray(upper, dtype=np.float64), block.size).copy()
    return low, high


def check_interval(block: Block, low: Floats, high: Floats) -> None:
    """Raise ValueError when an interval holds no number or a bound is NaN."""
    # Written so that NaN fails, too; an interval at one infinity holds no number.
    wrong = np.flatnonzero(~((low <= high) & (low < np.inf) & (high > -np.inf)))
    if wrong.size:
        i = int(wrong[0])
        raise ValueError(
            f"bounds {low[i]} to {high[i]} of {block.name}[{block.key(block.start + i)!r}] "
            "hold no number; lower <= upper was expected"
        )


def check_indices(what: str, index: Ints, size: int) -> None:
    """Raise ValueError when an index is outside 0 to size - 1."""
    wrong = index[(index < 0) | (index >= size)]
    if wrong.size:
        raise ValueError(
            f"{what} {wrong.flat[0]} is not in the model; 0 to {size - 1} was expected"
        )


def check_finite(what: str, value: npt.NDArray[np.float64]) -> None:
    """Raise ValueError when a number is infinite or NaN."""
    wrong = value[~np.isfinite(value)]
    if wrong.size:
        raise ValueError(f"{what} {wrong.flat[0]} is not finite; a number was expected")


def explain(blocks: list[Block], index: int) -> tuple[str, Hashable]:
    """Give the block name and key of an index; IndexError when no block holds it."""
    for block in blocks:
        if block.start <= index < block.start + block.size:
            return block.name, block.key(index)
    raise IndexError(f"index {index} is not in the model; 0 to {end(blocks) - 1} was expected")


# Variables, rows and objective terms, appended as blocks of arrays.
#
# A block has a name and keys, so that a row can be explained. A model only grows; `Model.arrays`
# takes a snapshot of it with one term as the objective.
@dataclass(slots=True)
class _Term:
    sense: Sense
    constant: float = 0.0
    columns: list[Ints] = field(default_factory=list)
    coefficients: list[Floats] = field(default_factory=list)


class Model:
    """A linear model under construction.

    `variable_blocks`, `row_blocks`: the blocks in the order in which they were appended.
    """

    def __init__(self) -> None:
        self.variable_blocks: list[Block] = []
        self.row_blocks: list[Block] = []
        # Each list begins with an empty array, so that concatenating it needs no special case.
        self._lower: list[Floats] = [np.zeros(0)]
        self._upper: list[Floats] = [np.zeros(0)]
        self._integer: list[Bools] = [np.zeros(0, dtype=np.bool_)]
        self._row_lower: list[Floats] = [np.zeros(0)]
        self._row_upper: list[Floats] = [np.zeros(0)]
        self._when: list[Ints] = [np.zeros(0, dtype=np.int64)]
        self._entry_row: list[Ints] = [np.zeros(0, dtype=np.int64)]
        self._entry_column: list[Ints] = [np.zeros(0, dtype=np.int64)]
        self._entry_value: list[Floats] = [np.zeros(0)]
        self._terms: dict[str, _Term] = {}

    @property
    def columns(self) -> int:
        """The number of variables so far."""
        return end(self.variable_blocks)

    @property
    def row_count(self) -> int:
        """The number of rows so far."""
        return end(self.row_blocks)

    def variables(
        self,
        name: str,
        size: int,
        *,
        lower: Numbers = 0.0,
        upper: Numbers = np.inf,
        integer: npt.ArrayLike = True,
        keys: Sequence[Hashable] | None = None,
    ) -> Ints:
        """Append a block of variables.

        Returns the new column indices, shape (size,). `lower`, `upper`, `integer`: scalars or shape
        (size,); the bounds of integer variables are rounded inwards. Raises ValueError if a bound
        is not a number, or a lower bound exceeds its upper bound.
        """
        block = new_block(self.variable_blocks, name, size, keys)
        whole = np.broadcast_to(np.asarray(integer, dtype=np.bool_), size).copy()
        low, high = interval(block, lower, upper)
        low[whole] = np.ceil(low[whole])
        high[whole] = np.floor(high[whole])
        check_interval(block, low, high)
        self._lower.append(low)
        self._upper.append(high)
        self._integer.append(whole)
        self.variable_blocks.append(block)
        return indices(block)

    def rows(
        self,
        name: str,
        size: int,
        *,
        lower: Numbers = -np.inf,
        upper: Numbers = np.inf,
        keys: Sequence[Hashable] | None = None,
        when: npt.ArrayLike | None = None,
    ) -> Ints:
        """Append a block of empty rows ``lower <= 0 <= upper``; `add` fills them.

        Returns the new row indices, shape (size,). `lower`, `upper`: scalars or shape (size,).
        `when`: columns of 0/1 variables, scalar or shape (size,): the row counts only where its
        variable is 1. None: the rows always count. Raises ValueError as `variables`; also when
        `when` names a column that is not a 0/1 variable.
        """
        block = new_block(self.row_blocks, name, size, keys)
        low, high = interval(block, lower, upper)
        check_interval(block, low, high)
        literal = np.broadcast_to(
            np.asarray(ALWAYS if when is None else when, dtype=np.int64), size
        ).copy()
        if when is not None:
            self._check_literals(block, literal)
        self._row_lower.append(low)
        self._row_upper.append(high)
        self._when.append(literal)
        self.row_blocks.append(block)
        return indices(block)

    def add(self, rows: npt.ArrayLike, columns: npt.ArrayLike, coefficients: Numbers) -> None:
        """Add coefficients to rows; the three arguments broadcast, repeated entries add up.

        Raises ValueError if an index is not in the model or a coefficient is not finite.
        """
        at, column, value = np.broadcast_arrays(
            np.asarray(rows, dtype=np.int64),
            np.asarray(columns, dtype=np.int64),
            np.asarray(coefficients, dtype=np.float64),
        )
        check_indices("row", at, self.row_count)
        check_indices("column", column, self.columns)
        check_finite("coefficient", value)
        self._entry_row.append(at.ravel())
        self._entry_column.append(column.ravel())
        self._entry_value.append(value.ravel())

    def row(
        self,
        name: str,
        columns: npt.ArrayLike,
        coefficients: Numbers = 1.0,
        *,
        lower: float = -np.inf,
        upper: float = np.inf,
    ) -> Ints:
        """Append one row over some columns, as `rows` and `add` do; return it, shape (1,)."""
        at = self.rows(name, 1, lower=lower, upper=upper)
        self.add(at, columns, coefficients)
        return at

    def term(
        self,
        name: str,
        columns: npt.ArrayLike,
        coefficients: Numbers,
        *,
        sense: Sense,
        constant: float = 0.0,
    ) -> None:
        """Add to the objective term of this name, which is created by its first call.

        Raises ValueError if the sense is not the one of earlier calls, an index is not in the model
        or a number is not finite.
        """
        column, value = np.broadcast_arrays(
            np.asarray(columns, dtype=np.int64), np.asarray(coefficients, dtype=np.float64)
        )
        check_indices("column", column, self.columns)
        check_finite("coefficient", value)
        check_finite("constant", np.asarray(constant))
        known = self._terms.setdefault(name, _Term(sense))
        if known.sense != sense:
            raise ValueError(f"sense {sense!r} of term {name!r} must be {known.sense!r} as before")
        known.constant += constant
        known.columns.append(column.ravel())
        known.coefficients.append(value.ravel())

    def value_of(self, term: str, values: Floats) -> float:
        """Give the value of a term at a point of shape (columns,); KeyError for another name."""
        cost, constant, _ = self._objective(term)
        return float(cost @ values[: len(cost)]) + constant

    def hold(self, term: str, value: float, slack: float = 0.0) -> None:
        """Add the row "this term is no worse than this value, less the slack".

        The block is named ``hold:<term>``; holding a term again replaces its row's bounds. The
        slack is absolute and not negative.
        """
        cost, constant, sense = self._objective(term)
        limit = value - constant
        low, high = (limit - slack, np.inf) if sense == "max" else (-np.inf, limit + slack)
        name = f"hold:{term}"
        for block, lower, upper in zip(
            self.row_blocks, self._row_lower[1:], self._row_upper[1:], strict=True
        ):
            if block.name == name:
                lower[:], upper[:] = low, high
                return
        used = np.flatnonzero(cost)
        self.add(self.rows(name, 1, lower=low, upper=high), used, cost[used])

    @property
    def held(self) -> tuple[str, ...]:
        """Names of the row blocks that `hold` made."""
        return tuple(b.name for b in self.row_blocks if b.name.startswith("hold:"))

    def explain_row(self, row: int) -> tuple[str, Hashable]:
        """Give the block name and the key of a row; IndexError when there is no such row."""
        return explain(self.row_blocks, row)

    def explain_column(self, column: int) -> tuple[str, Hashable]:
        """Give the block name and the key of a column; IndexError when there is none."""
        return explain(self.variable_blocks, column)

    def arrays(
        self, objective: str | None, *, relax: bool = False, without: Collection[str] = ()
    ) -> Arrays:
        """Take a snapshot with one term as the objective.

        `objective`: the name of a term, or None for a pure feasibility question. `relax`: whether
        to drop integrality. `without`: names of row blocks to leave out; row indices then count the
        rows that remain. Raises KeyError if there is no such term or no such row block.
        """
        unknown = set(without) - {block.name for block in self.row_blocks}
        if unknown:
            raise KeyError(f"row blocks {sorted(unknown)} are not in the model")
        cost, constant, sense = self._objective(objective)
        integer = np.concatenate(self._integer)
        at = np.concatenate(self._entry_row)
        names = tuple(dict.fromkeys(block.name for block in self.row_blocks))
        position = {name: i for i, name in enumerate(names)}
        row_block = np.repeat(
            np.array([position[block.name] for block in self.row_blocks], dtype=np.int64),
            np.array([block.size for block in self.row_blocks], dtype=np.int64),
        )
        kept = ~np.isin(row_block, [position[name] for name in without])
        new_row = np.cumsum(kept) - 1
        stays = kept[at]
        indptr, indices, data = csr(
            new_row[at[stays]],
            np.concatenate(self._entry_column)[stays],
            np.concatenate(self._entry_value)[stays],
            (int(kept.sum()), self.columns),
        )
        return Arrays(
            sense=sense,
            cost=cost,
            constant=constant,
            lower=np.concatenate(self._lower),
            upper=np.concatenate(self._upper),
            integer=np.zeros_like(integer) if relax else integer,
            row_lower=np.concatenate(self._row_lower)[kept],
            row_upper=np.concatenate(self._row_upper)[kept],
            indptr=indptr,
            indices=indices,
            data=data,
            when=np.concatenate(self._when)[kept],
            row_block=row_block[kept],
            block_names=names,
        )

    def _objective(self, name: str | None) -> tuple[Floats, float, Sense]:
        if name is None:
            return np.zeros(self.columns), 0.0, "min"
        term = self._terms[name]
        cost = np.zeros(self.columns)
        np.add.at(cost, np.concatenate(term.columns), np.concatenate(term.coefficients))
        return cost, term.constant, term.sense

    def _check_literals(self, block: Block, literal: Ints) -> None:
        check_indices("column", literal, self.columns)
        bad = ~np.concatenate(self._integer)
        bad |= (np.concatenate(self._lower) < 0) | (np.concatenate(self._upper) > 1)
        wrong = np.flatnonzero(bad[literal])
        if wrong.size:
            name, key = self.explain_column(int(literal[wrong[0]]))
            raise ValueError(
                f"condition {name}[{key!r}] of rows {block.name!r} is not a 0/1 variable; "
                "an integer variable with bounds inside 0 to 1 was expected"
            )
