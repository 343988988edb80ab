"""Seconds that a start takes in Muri's simulator, by model and GPUs.

References
----------
Zhao et al., "Multi-resource interleaving for deep learning training", SIGCOMM 2022, its published
artifact.
"""

from __future__ import annotations

import numpy as np

from placewright.array_types import Ints
from placewright.instances.traces.trace import Trace

START_S = {
    "vgg16": (7, 7, 8, 9, 9, 10),
    "vgg19": (7, 7, 8, 9, 10, 10),
    "resnet18": (4, 5, 5, 7, 7, 7),
    "shufflenet_v2_x1_0": (4, 4, 5, 5, 7, 8),
    "a2c": (38, 39, 39, 46, 46, 46),
    "dqn": (5, 5, 6, 6, 8, 8),
}
"""On 1, 2, 4, 8, 16 and 32 GPUs."""

OTHER_S = 10
"""Of any other model."""


def start_seconds(trace: Trace) -> Ints:
    """Return the seconds that a start of each job takes, int64 (jobs,)."""
    table = np.array([START_S.get(model, (OTHER_S,) * 6) for model in trace.models])
    size = np.minimum(np.ceil(np.log2(trace.gpus)).astype(np.int64), 5)
    seconds: Ints = table[trace.model, size]
    return seconds
