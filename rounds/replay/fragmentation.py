"""Fragmentation: free GPUs that lie where the jobs of a trace do not fit.

References
----------
Weng et al., "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation Gradient
Descent" (FGD), USENIX ATC 2023, section 3.
"""

from __future__ import annotations

import numpy as np

from placewright.array_types import Ints

PARTS = 1000
"""Fragments are counted in thousandths of a GPU."""


def unusable_parts(gpus: Ints, largest: int) -> list[int]:
    """Return how much of a host's free GPUs cannot be used, by how many are free.

    What is expected for a job drawn from a trace: all of them where it asks more, else nothing. A
    job that is larger than any host asks for whole hosts.

    Parameters
    ----------
    gpus
        GPUs of each job of the trace, int64 (jobs,).
    largest
        GPUs of the largest host.

    Returns
    -------
    list of int
        Thousandths of a GPU, for 0 to `largest` free GPUs.
    """
    asked = np.bincount(np.minimum(gpus, largest), minlength=largest + 1)
    larger = len(gpus) - np.cumsum(asked)
    parts = PARTS * np.arange(largest + 1) * larger / max(1, len(gpus))
    return [int(part) for part in np.rint(parts)]
