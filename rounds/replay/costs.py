"""What it costs to start, stop and move jobs, and how much work a failure loses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from placewright.array_types import Ints

Charge: TypeAlias = Literal["start", "event"]


@dataclass(frozen=True, slots=True, eq=False)
class Costs:
    """Overheads in microseconds in which a job holds GPUs without working.

    Parameters
    ----------
    start_us
        Of a start, per job, int64 (jobs,), or of all.
    stop_us
        Of a preemption; paid at the next start.
    move_us
        Of a migration.
    checkpoint_us
        Time at work between two checkpoints; a failure loses the work since the last one. None:
        a failure loses nothing.
    charge
        `start`: the overhead of a start is paid after each start. `event`: after every event of the
        replay by every running job, as Muri's simulator does; an interval between two events that
        is shorter gives no progress, and one that ends with the job's end costs nothing.
    """

    start_us: Ints | int = 0
    stop_us: Ints | int = 0
    move_us: Ints | int = 0
    checkpoint_us: int | None = None
    charge: Charge = "start"

    def column(self, name: str, jobs: int) -> Ints:
        """Return an overhead per job."""
        return np.broadcast_to(np.asarray(getattr(self, name), dtype=np.int64), jobs).copy()
