"""The generator's mixes: what runs, what is free and what is asked, as tables of shares.

All shares are per mille, so that a draw is an integer comparison and the same on every machine.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

MixName = Literal["easy", "hard", "tight", "shared"]
PER_MILLE = 1000


@dataclass(frozen=True, slots=True)
class Shares:
    """Values and how often each is drawn, in per mille; the shares sum to 1000."""

    values: tuple[int, ...]
    per_mille: tuple[int, ...]

    def pick(self, uniform: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
        """Turn uniform draws from [0, 1) into values, one by one."""
        limits = np.cumsum(self.per_mille)
        drawn = np.floor(uniform * PER_MILLE).astype(np.int64)
        return np.array(self.values, dtype=np.int64)[np.searchsorted(limits, drawn, side="right")]


@dataclass(frozen=True, slots=True)
class Mix:
    """One mix. Cores and GiB are per GPU; `models` draws an index, `ANY_MODEL` for any.

    `full` and `empty` are the shares of hosts without and with nothing but free GPUs. `parts` draws
    the milli-GPU that jobs of one GPU ask, `MIG_SLICE` for a slice; None: all ask whole GPUs.
    """

    full: int
    empty: int
    models: Shares
    single_cores: Shares
    single_gib: Shares
    gang_cores: Shares
    gang_gib: Shares
    parts: Shares | None = None


ANY_MODEL = -1
SIZES = Shares(
    (1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 256, 512),
    (700, 100, 70, 60, 25, 5, 14, 4, 10, 2, 5, 3, 2),
)
WEIGHTS = Shares((1, 2, 4, 8), (400, 300, 200, 100))
RUNNING_SIZES = (1, 2, 4, 8)
RUNNING_CORES = Shares((4, 8, 12), (350, 450, 200))
RUNNING_GIB = Shares((32, 64, 128), (350, 450, 200))
SINCE_CHECKPOINT_S = Shares((60, 300, 600, 900, 1200, 1800), (150, 200, 200, 200, 150, 100))
MIG_SLICE = 0
MIG_PROFILES = ("1g.10gb", "2g.20gb", "3g.40gb")
PROFILES = Shares((0, 1, 2), (500, 300, 200))
"""Indices in `MIG_PROFILES`."""
PART_GIB = Shares((16, 32, 64), (400, 400, 200))
"""GPU memory of a share of a GPU, per GPU."""
RESTART_S = Shares((30, 60, 120, 300), (300, 400, 200, 100))

_MOSTLY_ANY = Shares((ANY_MODEL, 0, 1), (300, 500, 200))
_EASY_CORES = Shares((4, 8, 12, 16), (300, 400, 200, 100))
_EASY_GIB = Shares((32, 64, 128, 192), (300, 400, 200, 100))
_HARD_CORES = Shares((4, 8, 12, 16), (150, 300, 300, 250))
_HARD_GIB = Shares((32, 64, 128, 192), (150, 300, 300, 250))

MIXES: dict[MixName, Mix] = {
    "easy": Mix(
        full=350,
        empty=300,
        models=_MOSTLY_ANY,
        single_cores=_EASY_CORES,
        single_gib=_EASY_GIB,
        gang_cores=_EASY_CORES,
        gang_gib=_EASY_GIB,
    ),
    "hard": Mix(
        full=250,
        empty=120,
        models=_MOSTLY_ANY,
        single_cores=_HARD_CORES,
        single_gib=_HARD_GIB,
        gang_cores=_HARD_CORES,
        gang_gib=_HARD_GIB,
    ),
    "tight": Mix(
        full=350,
        empty=300,
        models=Shares((0, 1), (600, 400)),
        single_cores=Shares((4, 8, 16, 24, 32), (250, 150, 200, 200, 200)),
        single_gib=Shares((32, 64, 128, 256, 384), (250, 150, 200, 200, 200)),
        gang_cores=_EASY_CORES,
        gang_gib=_EASY_GIB,
    ),
    "shared": Mix(
        full=250,
        empty=120,
        models=_MOSTLY_ANY,
        single_cores=_EASY_CORES,
        single_gib=_EASY_GIB,
        gang_cores=_EASY_CORES,
        gang_gib=_EASY_GIB,
        parts=Shares((1000, 500, 250, MIG_SLICE), (350, 250, 250, 150)),
    ),
}
