"""The profile of a job: what one iteration takes of each resource when it is alone on its GPUs.

References
----------
Zhao et al., "Multi-resource interleaving for deep learning training", SIGCOMM'22 (stages).
Mohan et al., "Looking Beyond GPUs for DNN Scheduling on Multi-Tenant Clusters", OSDI'22
(sensitivity matrices). Thinakaran et al., "Kube-Knots", CLUSTER'19 (load and memory over time).
"""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated

from pydantic import Field, model_validator

from placewright.instances.documents.base import Document, Many
from placewright.instances.documents.quantities import Mib, MilliCpu, memory_text, whole_units
from placewright.instances.errors import InvalidInputError

MAX_STAGE = 10**9
MAX_STAGES = 16
MAX_ITERATION = 10**10
MAX_POINTS = 63
MAX_SPEED = 10**8
MAX_SAMPLES = 10_000

Stage = Annotated[int, Field(strict=True, ge=0, le=MAX_STAGE)]
Speed = Annotated[int, Field(strict=True, ge=0, le=MAX_SPEED)]
Load = Annotated[int, Field(strict=True, ge=0, le=1000)]


class Sensitivity(Document):
    """The speed of a job by its CPU and memory per GPU.

    `cores` and `memory` are per GPU, ascending, and span a grid of at most 63
    points. `speeds` has a row per entry of `cores` and a column per entry of `memory`: millionths
    of the speed at the proportional share.
    """

    cores: Many[MilliCpu] = Field(min_length=1, max_length=MAX_POINTS)
    memory: Many[Mib] = Field(min_length=1, max_length=MAX_POINTS)
    speeds: Many[Annotated[Many[Speed], Field(max_length=MAX_POINTS)]] = Field(
        min_length=1, max_length=MAX_POINTS
    )

    @model_validator(mode="after")
    def _grid(self) -> Sensitivity:
        for field, axis, written in (
            ("cores", self.cores, whole_units),
            ("memory", self.memory, memory_text),
        ):
            for i, (low, high) in enumerate(pairwise(axis)):
                if low >= high:
                    raise InvalidInputError(
                        f"expected more than {written(low)}, as entries ascend",
                        (field, i + 1),
                        written(high),
                    )
        rows, columns = len(self.cores), len(self.memory)
        if rows * columns > MAX_POINTS:
            raise InvalidInputError(
                f"{rows} * {columns} points; expected at most {MAX_POINTS}", ("speeds",)
            )
        if len(self.speeds) != rows:
            raise InvalidInputError(
                f"{len(self.speeds)} rows; expected {rows}, one for each entry of cores",
                ("speeds",),
            )
        for i, row in enumerate(self.speeds):
            if len(row) != columns:
                raise InvalidInputError(
                    f"{len(row)} speeds; expected {columns}, one for each entry of memory",
                    ("speeds", i),
                )
        return self


class Profile(Document):
    """What a job does in one iteration, running alone with its first option.

    `stages` are the microseconds on each resource of the round's `sharing.resources`, in their
    order, and `iteration` those of the whole iteration (None: the sum of the stages). In a group
    the period is at most `slowdown` thousandths of the iteration (None: no cap). `load` is the
    utilisation of a GPU over time, in thousandths, and `memory` the MiB used of it over time.
    """

    stages: Many[Stage] = Field(min_length=1, max_length=MAX_STAGES)
    iteration: Annotated[int, Field(strict=True, ge=1, le=MAX_ITERATION)] | None = None
    slowdown: Annotated[int, Field(strict=True, ge=1000, le=10**6)] | None = None
    sensitivity: Sensitivity | None = None
    load: Many[Load] = Field(default=(), max_length=MAX_SAMPLES)
    memory: Many[Mib] = Field(default=(), max_length=MAX_SAMPLES)

    @property
    def alone(self) -> int:
        """Microseconds of one iteration alone."""
        return sum(self.stages) if self.iteration is None else self.iteration

    def memory_at(self, percentile: int) -> int | None:
        """Return the nearest-rank percentile of `memory`, None without any."""
        ordered = sorted(self.memory)
        return ordered[-(-percentile * len(ordered) // 100) - 1] if ordered else None

    @model_validator(mode="after")
    def _some_stage(self) -> Profile:
        total = sum(self.stages)
        if not total:
            raise InvalidInputError("expected some stage above 0", ("stages",), list(self.stages))
        if self.iteration is not None and self.iteration > 10 * total:
            raise InvalidInputError(
                f"expected at most ten times the sum of the stages, {10 * total}",
                ("iteration",),
                self.iteration,
            )
        return self
