"""A list of waiting jobs in the order of estimates that are learnt from the jobs that end."""

from __future__ import annotations

from typing import Any

import numpy as np

from placewright.rounds.policies.base import Columns, Estimator, ListPolicy
from placewright.rounds.replay.loop import Loop
from placewright.rounds.replay.waiting_list import SkippingList


class EstimatingList(SkippingList):
    """A list whose keys are estimates, made when a job comes."""

    def __init__(self, policy: ListPolicy, estimator: Estimator) -> None:
        super().__init__(policy)
        self._estimator = estimator

    def state(self) -> Any:
        """Return the list, and what is learnt."""
        return [super().state(), self._estimator.state()]

    def restore(self, state: Any) -> None:
        """Take a state over."""
        entries, learnt = state
        super().restore(entries)
        self._estimator.restore(learnt)

    def leave(self, loop: Loop, job: int) -> None:
        """Learn from a job that has ended."""
        super().leave(loop, job)
        self._estimator.end(self._columns(loop, job))

    def key_of(self, loop: Loop, job: int) -> float:
        """Estimate how long a job runs."""
        return self._estimator.key(self._columns(loop, job))

    def _columns(self, loop: Loop, job: int) -> Columns:
        return Columns(loop, np.array([job]), self._policy.sees)
