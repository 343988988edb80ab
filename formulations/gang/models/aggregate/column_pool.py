"""The pool of generated patterns: what each holds, and its column in the model."""

from __future__ import annotations

import numpy as np

from placewright.array_types import Ints
from placewright.solver import Model


class PatternPool:
    """Patterns of several kinds; each kind has a row that limits how often its patterns are used.

    Attributes
    ----------
    columns, kind : int64 (patterns,)
        Column in the model, and kind, of each pattern so far.
    cuts : int64 (patterns, parts)
        How many of each part a pattern holds.
    """

    def __init__(self, model: Model, rows: Ints, sizes: Ints, parts: int) -> None:
        self._model, self._rows, self._sizes = model, rows, sizes
        self._seen: set[tuple[int, bytes]] = set()
        self.columns = np.zeros(0, dtype=np.int64)
        self.kind = np.zeros(0, dtype=np.int64)
        self.cuts = np.zeros((0, parts), dtype=np.int64)

    def append(self, kinds: Ints, cuts: Ints) -> tuple[Ints, Ints, Ints]:
        """Append the patterns that are new and not empty; return their columns, kinds and cuts."""
        fresh = []
        for i, (kind, cut) in enumerate(zip(kinds.tolist(), cuts, strict=True)):
            key = (kind, cut.tobytes())
            if cut.any() and key not in self._seen:
                self._seen.add(key)
                fresh.append(i)
        kinds, cuts = kinds[fresh], cuts.reshape(-1, self.cuts.shape[1])[fresh]
        # One more than the row allows: at a bound of its own the price would leave the row's dual.
        columns = self._model.variables("pattern", len(kinds), upper=self._sizes[kinds] + 1)
        self._model.add(self._rows[kinds], columns, 1.0)
        self.columns = np.concatenate([self.columns, columns])
        self.kind = np.concatenate([self.kind, kinds])
        self.cuts = np.concatenate([self.cuts, cuts])
        return columns, kinds, cuts
