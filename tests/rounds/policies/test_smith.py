"""Smith's weights: worth in proportion to 1 / remaining time, rank by remaining GPU time."""

from __future__ import annotations

import numpy as np
import pytest

from placewright.array_types import Ints
from placewright.rounds.policies.base import Columns, UndeclaredColumnError
from placewright.rounds.policies.named import LEAST_US, SMITH, smith_weights

ROWS = {"remaining_us": [0, 4_000_000, 8_000_000], "gpus": [8, 4, 1], "service_us": [5, 6, 7]}


class Fixed:
    """Columns with fixed rows."""

    def column(self, name: str, jobs: Ints) -> Ints:
        return np.array(ROWS[name], dtype=np.int64)[jobs]


def test_worth_is_one_over_remaining_time_and_bounded_near_the_end() -> None:
    weights = smith_weights(Columns(Fixed(), np.arange(3), SMITH.sees))
    assert weights.value.tolist() == [1 / LEAST_US, 1 / 4_000_000, 1 / 8_000_000]
    assert weights.rank.tolist() == [8 * LEAST_US, 16_000_000, 8_000_000]


def test_service_is_hidden() -> None:
    with pytest.raises(UndeclaredColumnError, match="service_us"):
        _ = Columns(Fixed(), np.arange(3), SMITH.sees).service_us
