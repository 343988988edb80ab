"""The section `sharing` of a Round: how jobs take turns on the GPUs that they share.

References
----------
Zhao et al., "Multi-resource interleaving for deep learning training", SIGCOMM'22. `spanning` and
the measured factors (1.33, 1.5 and 1.37 for two, three and four jobs, each divided by 1.015) are
those of its published artifact. Conflicts and percentiles: Thinakaran et al., "Kube-Knots",
CLUSTER'19.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, field_validator, model_validator

from placewright.instances.documents.base import Document, Flag, Many, Name
from placewright.instances.documents.profile import MAX_STAGES
from placewright.instances.errors import InvalidInputError
from placewright.topology.units import MILLION

MOST = 4
SPANNING_RESOURCES = 3
SPANNING_SLOTS = 4

Factor = Annotated[int, Field(strict=True, ge=MILLION, le=10 * MILLION)]


class Sharing(Document):
    """Which resources stages use, in what order, and which jobs may share GPUs.

    With `spanning` the first of three stages may span two of four slots. `contention` are the
    millionths by which the period of two, three and four members is longer. A group has at most
    `most` members; with `as_needed` jobs are grouped only as far as GPUs lack.

    `conflicts` are pairs of jobs that never hold one GPU; so do jobs whose `load` has a correlation
    of at least `correlation` (thousandths of Pearson's coefficient; None: none do). Of a job with
    a `memory` series the nearest-rank `percentile` of it counts in a group.
    """

    resources: Many[Name] = Field(
        default=("io", "cpu", "gpu", "network"), min_length=1, max_length=MAX_STAGES
    )
    spanning: Flag = False
    contention: tuple[Factor, Factor, Factor] = (MILLION, MILLION, MILLION)
    most: Annotated[int, Field(strict=True, ge=1, le=MOST)] = MOST
    as_needed: Flag = False
    conflicts: Many[tuple[Name, Name]] = ()
    correlation: Annotated[int, Field(strict=True, ge=0, le=1000)] | None = None
    percentile: Annotated[int, Field(strict=True, ge=1, le=100)] = 100

    @property
    def slots(self) -> int:
        """Slots of a period, which are also the offsets that members of a group can have."""
        return SPANNING_SLOTS if self.spanning else len(self.resources)

    @field_validator("resources")
    @classmethod
    def _unique(cls, resources: tuple[str, ...]) -> tuple[str, ...]:
        if len(set(resources)) != len(resources):
            raise ValueError("expected each resource once")
        return resources

    @model_validator(mode="after")
    def _agrees(self) -> Sharing:
        if self.spanning and len(self.resources) != SPANNING_RESOURCES:
            raise InvalidInputError(
                f"given with {len(self.resources)} resources; "
                f"expected false, or {SPANNING_RESOURCES} resources",
                ("spanning",),
                True,
            )
        for i, (one, other) in enumerate(self.conflicts):
            if one == other:
                raise InvalidInputError(
                    "conflicts with itself; expected two jobs", ("conflicts", i, 1), one
                )
        return self
