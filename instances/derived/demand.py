"""Load: the GPUs that pending jobs ask over those that are free."""

from __future__ import annotations

import numpy as np

from placewright.instances.derived.arrays import build_cluster, build_state
from placewright.instances.documents.round import Round


def load_of(round_: Round) -> float:
    """Return GPUs asked by the pending jobs over GPUs free on healthy hosts.

    A job with options of different sizes asks the largest. Infinite if GPUs are asked and none are
    free, 0 if none are asked. `round_` must have passed `check_round`.
    """
    cluster = build_cluster(round_.cluster)
    state = build_state(round_, cluster)
    free = int(state.gpu_free[np.repeat(state.healthy, cluster.gpu_count)].sum())
    asked = sum(
        max(option.milli_gpu for option in job.options)
        for job in round_.jobs
        if job.running is None
    )
    if not asked:
        return 0.0
    return asked / free if free else float("inf")
